// Element-wise arithmetic: functions of one operand, and arithmetic of two operands, with broadcasting.
//
// Sources: Apple's descriptions of MPSGraph's arithmetic operations. Where they are silent (integer division by zero,
// NaN in plain minimum and maximum, ties in round, the sign of NaN), the results are chosen so that no code can rely on
// them.
#include <cmath>
#include <numbers>

#include "graph/elementwise.h"
#include "mock.h"

using namespace mock;

namespace mock {

void require(NSString* kind, const Value& value, Takes wanted) {
  const MPSDataType type = value.type;
  const bool number = type != MPSDataTypeBool;
  const bool fits = is_complex(type)            ? false
                    : wanted == Takes::numbers  ? number
                    : wanted == Takes::floats   ? is_real(type)
                    : wanted == Takes::integers ? is_whole(type) && number
                                                : !number;
  if (!fits) misuse(@"%@: %s is not supported", kind, type_name(type));
}

void require_same_type(NSString* kind, const Values& values, size_t from) {
  for (size_t i = from; i < values.size(); ++i)
    if (values[i].type != values[from].type)
      misuse(@"%@: operands must have the same type, got %s and %s", kind, type_name(values[from].type),
             type_name(values[i].type));
}

MPSGraphTensor* add_function(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* tensor,
                             double (*function)(double)) {
  return add_elementwise(graph, kind, name, {tensor}, [=](Value& r, int64_t i, const Values& in) {
    if (i == 0) require(kind, in[0], Takes::floats);
    r.set(i, function(in[0].real(i)));
  });
}

}  // namespace mock

namespace {

// Stands for whatever a processor returns if the result is undefined.
constexpr int64_t undefined = 77;

// Arithmetic of two operands of the same type; integers wrap around.
struct Arithmetic {
  NSString* kind;
  double (*real)(double, double);
  int64_t (*whole)(int64_t, int64_t, bool is_signed);
};

// Whether a Mac would add a bias to this tensor wrongly. Since macOS 26, this happens if the tensor is the product of a
// batch and a single matrix, and either the GPU is an M1, or each part of the batch is a single row, or there are more
// than 65536 parts.
bool takes_bias_wrongly(MPSGraphTensor* tensor) {
  MPSGraphOperation* product = made_by(tensor, @"matrixMultiplication");
  const Dims& dims = tensor->result.dims;
  if (!product || dims.size() < 3 || mock_macos_version() < 26) return false;
  const Dims& matrix = product->inputs[1]->result.dims;
  const int64_t batch = count_of(Dims(dims.begin(), dims.end() - 2));
  return count_of(Dims(matrix.begin(), matrix.end() - 2)) == 1 && batch > 1 &&
         (dims[dims.size() - 2] == 1 || batch > 65536 || mock_gpu_generation() <= 7);
}

MPSGraphTensor* add_arithmetic(MPSGraph* graph, Arithmetic a, NSString* name, MPSGraphTensor* x, MPSGraphTensor* y) {
  const bool is_sum = [a.kind isEqualToString:@"addition"];
  const double wrong = is_sum && (takes_bias_wrongly(x) || takes_bias_wrongly(y)) ? 1 : 0;
  return add_elementwise(graph, a.kind, name, {x, y}, [a, wrong](Value& r, int64_t i, const Values& in) {
    if (i == 0) {
      require(a.kind, in[0], a.whole ? Takes::numbers : Takes::floats);
      require_same_type(a.kind, in);
    }
    if (is_whole(r.type))
      r.set(i, a.whole(in[0].whole(i), in[1].whole(i), !is_unsigned(r.type)));
    else
      r.set(i, a.real(in[0].real(i), in[1].real(i)) + wrong);
  });
}

int64_t divide(int64_t a, int64_t b, bool is_signed) {
  if (!is_signed) return b == 0 ? undefined : static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  return b == 0 || b == -1 ? undefined : a / b;
}
int64_t remain(int64_t a, int64_t b, bool is_signed) {
  if (!is_signed) return b == 0 ? undefined : static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  return b == 0 || b == -1 ? undefined : a % b;
}
int64_t smaller(int64_t a, int64_t b, bool is_signed) {
  return (is_signed ? a < b : static_cast<uint64_t>(a) < static_cast<uint64_t>(b)) ? a : b;
}
int64_t larger(int64_t a, int64_t b, bool is_signed) { return smaller(a, b, is_signed) == a ? b : a; }

}  // namespace

@implementation MPSGraph (MockArithmetic)

- (MPSGraphTensor*)identityWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_one(self, @"identity", name, {tensor}, [](const Values& in) { return in[0]; });
}

#define FUNCTION(method, expression)                                                                   \
  -(MPSGraphTensor*)method##WithTensor : (MPSGraphTensor*)tensor name : (NSString*)name {              \
    return add_function(self, @ #method, name, tensor, [](double x) -> double { return expression; }); \
  }
FUNCTION(exponent, std::exp(x))
FUNCTION(exponentBase2, std::exp2(x))
FUNCTION(exponentBase10, std::pow(10.0, x))
FUNCTION(logarithm, std::log(x))
FUNCTION(logarithmBase2, std::log2(x))
FUNCTION(logarithmBase10, std::log10(x))
FUNCTION(square, x* x)
FUNCTION(squareRoot, std::sqrt(x))
FUNCTION(reciprocalSquareRoot, 1 / std::sqrt(x))
FUNCTION(reverseSquareRoot, 1 / std::sqrt(x))
FUNCTION(reciprocal, 1 / x)
FUNCTION(absolute, std::fabs(x))
FUNCTION(negative, -x)
FUNCTION(sign, x > 0 ? 1.0 : x < 0 ? -1.0 : x == 0 ? x : 0.0)
FUNCTION(ceil, std::ceil(x))
FUNCTION(floor, std::floor(x))
FUNCTION(round, std::floor(x + 0.5))
FUNCTION(rint, std::nearbyint(x))
FUNCTION(truncate, std::trunc(x))
FUNCTION(sin, std::sin(x))
FUNCTION(cos, std::cos(x))
FUNCTION(tan, std::tan(x))
FUNCTION(sinh, std::sinh(x))
FUNCTION(cosh, std::cosh(x))
FUNCTION(tanh, std::tanh(x))
FUNCTION(asin, std::asin(x))
FUNCTION(acos, std::acos(x))
FUNCTION(atan, std::atan(x))
FUNCTION(asinh, std::asinh(x))
FUNCTION(acosh, std::acosh(x))
FUNCTION(atanh, std::atanh(x))
FUNCTION(erf, std::erf(x))

#define PREDICATE(method, expression)                                                     \
  -(MPSGraphTensor*)method##WithTensor : (MPSGraphTensor*)tensor name : (NSString*)name { \
    return add_elementwise(                                                               \
        self, @ #method, name, {tensor},                                                  \
        [](Value& r, int64_t i, const Values& in) {                                       \
          if (i == 0) require(@ #method, in[0], Takes::floats);                           \
          const double x = in[0].real(i);                                                 \
          r.set(i, static_cast<bool>(expression));                                        \
        },                                                                                \
        MPSDataTypeBool);                                                                 \
  }
PREDICATE(signbit, std::signbit(x))
PREDICATE(isInfinite, std::isinf(x))
PREDICATE(isFinite, std::isfinite(x))
PREDICATE(isNaN, std::isnan(x))

#define ARITHMETIC(method, real, whole)                                                  \
  -(MPSGraphTensor*)method##WithPrimaryTensor : (MPSGraphTensor*)primary secondaryTensor \
      : (MPSGraphTensor*)secondary name : (NSString*)name {                              \
    return add_arithmetic(self, { @ #method, real, whole }, name, primary, secondary);   \
  }
#define REAL(expression) [](double a, double b) -> double { return expression; }
#define WHOLE(expression)                                                         \
  [](int64_t left, int64_t right, bool) -> int64_t {                              \
    const auto a = static_cast<uint64_t>(left), b = static_cast<uint64_t>(right); \
    return static_cast<int64_t>(expression);                                      \
  }
ARITHMETIC(addition, REAL(a + b), WHOLE(a + b))
ARITHMETIC(subtraction, REAL(a - b), WHOLE(a - b))
ARITHMETIC(multiplication, REAL(a* b), WHOLE(a* b))
ARITHMETIC(division, REAL(a / b), divide)
ARITHMETIC(divisionNoNaN, REAL(b == 0 ? 0 : a / b), nullptr)
ARITHMETIC(modulo, REAL(std::fmod(a, b)), remain)
ARITHMETIC(power, REAL(std::pow(a, b)), nullptr)
ARITHMETIC(minimum, REAL(b < a ? b : a), smaller)
ARITHMETIC(maximum, REAL(b > a ? b : a), larger)
ARITHMETIC(minimumWithNaNPropagation, REAL(std::isnan(a) || std::isnan(b) ? NAN : std::fmin(a, b)), nullptr)
ARITHMETIC(maximumWithNaNPropagation, REAL(std::isnan(a) || std::isnan(b) ? NAN : std::fmax(a, b)), nullptr)
ARITHMETIC(atan2, REAL(std::atan2(a, b)), nullptr)
@end
