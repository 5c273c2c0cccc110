// Element-wise comparison, logic, bitwise operations, selection, and casts.
#include <bit>
#include <cmath>
#include <cstring>

#include "graph/elementwise.h"
#include "mock.h"

using namespace mock;

namespace {

// Apple does not document comparisons of bool and complex operands.
MPSGraphTensor* add_comparison(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* a, MPSGraphTensor* b,
                               bool (*real)(double, double), bool (*whole)(int64_t, int64_t),
                               bool (*natural)(uint64_t, uint64_t)) {
  return add_elementwise(
      graph, kind, name, {a, b},
      [=](Value& r, int64_t i, const Values& in) {
        if (i == 0) {
          require(kind, in[0], Takes::numbers);
          require_same_type(kind, in);
        }
        if (!is_whole(in[0].type))
          r.set(i, real(in[0].real(i), in[1].real(i)));
        else if (is_unsigned(in[0].type))
          r.set(i, natural(in[0].natural(i), in[1].natural(i)));
        else
          r.set(i, whole(in[0].whole(i), in[1].whole(i)));
      },
      MPSDataTypeBool);
}

MPSGraphTensor* add_logic(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* a, MPSGraphTensor* b,
                          bool (*apply)(bool, bool)) {
  return add_elementwise(graph, kind, name, {a, b}, [=](Value& r, int64_t i, const Values& in) {
    if (i == 0) {
      require(kind, in[0], Takes::booleans);
      require_same_type(kind, in);
    }
    r.set(i, apply(in[0].truth(i), in[1].truth(i)));
  });
}

MPSGraphTensor* add_bits(MPSGraph* graph, NSString* kind, NSString* name, MPSGraphTensor* a, MPSGraphTensor* b,
                         int64_t (*apply)(int64_t, int64_t, int bits)) {
  return add_elementwise(graph, kind, name, {a, b}, [=](Value& r, int64_t i, const Values& in) {
    if (i == 0) {
      require(kind, in[0], Takes::integers);
      require_same_type(kind, in);
    }
    r.set(i, apply(in[0].whole(i), in[1].whole(i), static_cast<int>(8 * element_bytes(r.type))));
  });
}

// The shift amount is used modulo the width, like the processors' instructions.
int64_t shift_left(int64_t a, int64_t by, int bits) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) << (by & (bits - 1)));
}
// Apple's phrase "binary representations" may mean a logical shift, which shifts in zeros.
int64_t shift_right(int64_t a, int64_t by, int bits) {
  const uint64_t own = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return static_cast<int64_t>((static_cast<uint64_t>(a) & own) >> (by & (bits - 1)));
}

}  // namespace

@implementation MPSGraph (MockLogic)

#define COMPARISON(method, operation)                                                                              \
  -(MPSGraphTensor*)method##WithPrimaryTensor : (MPSGraphTensor*)primary secondaryTensor                           \
      : (MPSGraphTensor*)secondary name : (NSString*)name {                                                        \
    return add_comparison(                                                                                         \
        self, @ #method, name, primary, secondary, [](double a, double b) { return a operation b; },               \
        [](int64_t a, int64_t b) { return a operation b; }, [](uint64_t a, uint64_t b) { return a operation b; }); \
  }
COMPARISON(equal, ==)
COMPARISON(notEqual, !=)
COMPARISON(lessThan, <)
COMPARISON(lessThanOrEqualTo, <=)
COMPARISON(greaterThan, >)
COMPARISON(greaterThanOrEqualTo, >=)

#define LOGIC(method, expression)                                                                                   \
  -(MPSGraphTensor*)method##WithPrimaryTensor : (MPSGraphTensor*)primary secondaryTensor                            \
      : (MPSGraphTensor*)secondary name : (NSString*)name {                                                         \
    return add_logic(self, @ #method, name, primary, secondary, [](bool a, bool b) -> bool { return expression; }); \
  }
LOGIC(logicalAND, a&& b)
LOGIC(logicalOR, a || b)
LOGIC(logicalNAND, !(a && b))
LOGIC(logicalNOR, !(a || b))
LOGIC(logicalXOR, a != b)
LOGIC(logicalXNOR, a == b)

- (MPSGraphTensor*)notWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_elementwise(self, @"not", name, {tensor}, [](Value& r, int64_t i, const Values& in) {
    if (i == 0) require(@"not", in[0], Takes::booleans);
    r.set(i, !in[0].truth(i));
  });
}

#define BITS(method, expression)                                                                            \
  -(MPSGraphTensor*)method##WithPrimaryTensor : (MPSGraphTensor*)primary secondaryTensor                    \
      : (MPSGraphTensor*)secondary name : (NSString*)name {                                                 \
    return add_bits(self, @ #method, name, primary, secondary,                                              \
                    [](int64_t a, int64_t b, [[maybe_unused]] int bits) -> int64_t { return expression; }); \
  }
BITS(bitwiseAND, a& b)
BITS(bitwiseOR, a | b)
BITS(bitwiseXOR, a ^ b)
BITS(bitwiseLeftShift, shift_left(a, b, bits))
BITS(bitwiseRightShift, shift_right(a, b, bits))

- (MPSGraphTensor*)bitwiseNOTWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_elementwise(self, @"bitwiseNOT", name, {tensor}, [](Value& r, int64_t i, const Values& in) {
    if (i == 0) require(@"bitwiseNOT", in[0], Takes::integers);
    r.set(i, ~in[0].whole(i));
  });
}
- (MPSGraphTensor*)bitwisePopulationCountWithTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_elementwise(self, @"bitwisePopulationCount", name, {tensor}, [](Value& r, int64_t i, const Values& in) {
    if (i == 0) require(@"bitwisePopulationCount", in[0], Takes::integers);
    const size_t bits = 8 * element_bytes(in[0].type);
    r.set(i, static_cast<int64_t>(std::popcount(in[0].natural(i) << (64 - bits))));
  });
}

- (MPSGraphTensor*)selectWithPredicateTensor:(MPSGraphTensor*)predicate
                         truePredicateTensor:(MPSGraphTensor*)when_true
                        falsePredicateTensor:(MPSGraphTensor*)when_false
                                        name:(NSString*)name {
  return add_elementwise(self, @"select", name, {predicate, when_true, when_false},
                         [](Value& r, int64_t i, const Values& in) {
                           if (i == 0) {
                             require(@"predicate of select", in[0], Takes::booleans);
                             require_same_type(@"select", in, 1);
                           }
                           if (is_complex(in[1].type)) misuse(@"select: %s is not supported", type_name(in[1].type));
                           r.copy(i, in[0].truth(i) ? in[1] : in[2], i);
                         });
}

// Apple does not document conversion of out-of-range numbers and NaN to integers; they give arbitrary results. A cast
// to bool is refused, because only a comparison converts numbers to bool reliably.
- (MPSGraphTensor*)castTensor:(MPSGraphTensor*)tensor toType:(MPSDataType)type name:(NSString*)name {
  return add_one(self, @"cast", name, {tensor}, [=](const Values& in) {
    if (in[0].type == type) return in[0];
    if (type == MPSDataTypeBool || is_complex(type) || is_complex(in[0].type))
      misuse(@"cast: conversion of %s to %s is not documented", type_name(in[0].type), type_name(type));
    Value result = in[0].cast(type);
    if (!is_whole(type) || is_whole(in[0].type)) return result;
    const bool is_signed = !is_unsigned(type);
    const double end = std::ldexp(1.0, static_cast<int>(8 * element_bytes(type)) - is_signed);
    for (int64_t i = 0; i < result.count(); ++i) {
      const double x = std::trunc(in[0].real(i));
      if (!(x < end && x >= (is_signed ? -end : 0.0))) result.set(i, int64_t{77});
    }
    return result;
  });
}

// Reinterpret the bytes in memory order; the last dimension changes with the size of the elements. Apple does not
// document elements of 4 bits, which the mock accepts or refuses.
- (MPSGraphTensor*)reinterpretCastTensor:(MPSGraphTensor*)tensor toType:(MPSDataType)type name:(NSString*)name {
  return add_one(self, @"reinterpretCast", name, {tensor}, [=](const Values& in) {
    const bool halved = in[0].type == MPSDataTypeUInt4 || type == MPSDataTypeUInt4;
    if (halved && !mock_reinterprets_four_bits()) misuse(@"reinterpretCast: uint4 is not known to work");
    const auto bits = [](MPSDataType element) { return static_cast<int64_t>(bytes_of(element, 8)); };
    const int64_t from = bits(in[0].type), to = bits(type);
    Dims dims = in[0].dims;
    if (dims.empty() || dims.back() * from % to != 0)
      misuse(@"reinterpretCast: the last dimension of %@ %s must hold a whole number of %s elements", text_of(dims),
             type_name(in[0].type), type_name(type));
    dims.back() = dims.back() * from / to;
    std::vector<std::byte> bytes(bytes_of(in[0].type, in[0].count()));
    in[0].store(bytes.data());
    return Value::of(type, dims, bytes.data());
  });
}
@end
