// Matmuls and inverses over the last two axes, with broadcasting of the axes before them.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "graph/elementwise.h"
#include "mock.h"

using namespace mock;

namespace {

void require_matrices(NSString* kind, const Value& value) {
  require(kind, value, Takes::floats);
  if (value.rank() < 2) misuse(@"%@: operands must have at least rank 2, got shape %@", kind, text_of(value.dims));
}

Dims batch_of(const Value& value) { return {value.dims.begin(), value.dims.end() - 2}; }

// Return the offset of the matrix at `position` in the broadcast batch.
int64_t matrix_at(const Value& value, const Dims& position) {
  const Dims strides = strides_of(value.dims);
  int64_t at = 0;
  for (size_t i = 0; i < position.size(); ++i) at += value.dims[i] == 1 ? 0 : position[i] * strides[i];
  return at;
}

std::vector<double> numbers_of(const Value& value) {
  std::vector<double> numbers(static_cast<size_t>(value.count()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = value.real(static_cast<int64_t>(i));
  return numbers;
}

// On M5, results of float16 and bfloat16 matmuls with more than two dimensions change from run to run.
double change_from_run_to_run(const Value& a) {
  static std::atomic<int> runs{0};
  const bool changes = mock_gpu_generation() >= 10 && a.rank() > 2 && a.type != MPSDataTypeFloat32;
  return changes ? ++runs % 100 : 0;
}

Value multiply(const Value& a, const Value& b) {
  require_same_type(@"matrixMultiplication", {a, b});
  if (a.rank() != b.rank())
    misuse(@"matrixMultiplication: operands must have the same rank, got %@ and %@", text_of(a.dims), text_of(b.dims));
  const int64_t rows = a.dims[a.rank() - 2], inner = a.dims.back(), columns = b.dims.back();
  if (b.dims[b.rank() - 2] != inner)
    misuse(@"matrixMultiplication: inner dimensions of %@ and %@ do not match", text_of(a.dims), text_of(b.dims));
  Dims dims = broadcast_dims(batch_of(a), batch_of(b));
  const Dims batch = dims;
  dims.insert(dims.end(), {rows, columns});
  Value result(a.type, dims);
  // Where a Mac computes wrong results, the mock returns zeros.
  if (mock_macos_version() < 14.4 && std::max({rows, inner, columns}) > 32768) return result;
  const auto bytes = static_cast<int64_t>(element_bytes(a.type));
  if ((rows + 2 * inner) * columns * bytes >= int64_t{1} << 30) return result;
  const std::vector<double> x = numbers_of(a), y = numbers_of(b);
  const double change = change_from_run_to_run(a);
  int64_t at = 0;
  for_each_position(batch, [&](const Dims& position) {
    const double* row = x.data() + matrix_at(a, position);
    for (int64_t i = 0; i < rows; ++i, row += inner) {
      std::vector<double> totals(static_cast<size_t>(columns), 0.0);
      double* const total = totals.data();
      const double* factor = y.data() + matrix_at(b, position);
      for (int64_t k = 0; k < inner; ++k)
        for (int64_t j = 0; j < columns; ++j) total[j] += row[k] * *factor++;
      // A Mac reads out of bounds for long sums; the mock adds the first term a second time instead.
      const double beyond = inner > 32766 && rows >= 16 && columns >= 16 ? row[0] * y[0] : 0;
      for (int64_t j = 0; j < columns; ++j) result.set(at++, total[j] + beyond + change);
    }
  });
  return result;
}

// Gauss-Jordan elimination with partial pivoting; a singular matrix divides by zero.
void invert(std::vector<double>& m, std::vector<double>& inverse, size_t n) {
  for (size_t i = 0; i < n; ++i) inverse[i * n + i] = 1;
  const auto add_row = [&](std::vector<double>& of, size_t to, size_t from, double factor) {
    for (size_t k = 0; k < n; ++k) of[to * n + k] -= factor * of[from * n + k];
  };
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t row = column; row < n; ++row)
      if (std::fabs(m[row * n + column]) > std::fabs(m[pivot * n + column])) pivot = row;
    for (size_t k = 0; k < n; ++k) {
      std::swap(m[pivot * n + k], m[column * n + k]);
      std::swap(inverse[pivot * n + k], inverse[column * n + k]);
    }
    for (size_t row = column + 1; row < n; ++row) {
      const double factor = m[row * n + column] / m[column * n + column];
      add_row(m, row, column, factor);
      add_row(inverse, row, column, factor);
    }
  }
  for (size_t row = n; row-- > 0;)
    for (size_t column = 0; column < n; ++column) {
      double value = inverse[row * n + column];
      for (size_t k = row + 1; k < n; ++k) value -= m[row * n + k] * inverse[k * n + column];
      inverse[row * n + column] = value / m[row * n + row];
    }
}

}  // namespace

namespace {

bool is_number(MPSGraphTensor* tensor) { return tensor->producer->constant && count_of(tensor->result.dims) == 1; }

// softmax(Q K scale + mask) V, which MPSGraph replaces by its own attention kernel. Adding a nonzero constant prevents
// that, as PyTorch found.
bool is_attention(MPSGraphTensor* weights) {
  MPSGraphOperation* softmax = made_by(weights, @"softMax");
  if (!softmax) return false;
  for (MPSGraphTensor* at = softmax->inputs[0];;) {
    if (made_by(at, @"matrixMultiplication")) return true;
    MPSGraphOperation *sum = made_by(at, @"addition"), *product = made_by(at, @"multiplication");
    if (!sum && !product) return false;
    NSArray<MPSGraphTensor*>* operands = (sum ? sum : product)->inputs;
    if (sum && (is_number(operands[0]) || is_number(operands[1]))) return false;
    at = is_number(operands[0]) ? operands[1] : operands[0];
  }
}

}  // namespace

@implementation MPSGraph (MockMatrix)

- (MPSGraphTensor*)matrixMultiplicationWithPrimaryTensor:(MPSGraphTensor*)primary
                                         secondaryTensor:(MPSGraphTensor*)secondary
                                                    name:(NSString*)name {
  if (is_attention(primary))
    misuse(@"matrixMultiplication: the attention pattern leaks memory, and returned NaN on macOS 15");
  MPSGraphOperation* turned = made_by(secondary, @"transpose");
  if (turned && is_attention(turned->inputs[0]))
    misuse(@"matrixMultiplication: transposed attention weights fail to compile on macOS 26");
  const bool transposed = made_by(primary, @"transpose") || turned;
  return add_one(self, @"matrixMultiplication", name, {primary, secondary}, [transposed](const Values& in) {
    for (const Value& value : in) require_matrices(@"matrixMultiplication", value);
    if (mock_macos_version() >= 27 && transposed && in[0].type == MPSDataTypeBFloat16 && in[0].rank() > 2)
      misuse(@"matrixMultiplication: a transposed bfloat16 operand with more than two dimensions aborts the process");
    return multiply(in[0], in[1]);
  });
}

// Float32 only, because Apple does not document the dtypes.
- (MPSGraphTensor*)inverseOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_one(self, @"inverse", name, {tensor}, [](const Values& in) {
    require_matrices(@"inverse", in[0]);
    const auto n = static_cast<size_t>(in[0].dims.back());
    if (n > 1024) misuse(@"inverse: more than 1024 rows abort the process on a Mac, got %@", text_of(in[0].dims));
    if (in[0].type != MPSDataTypeFloat32 || in[0].dims[in[0].rank() - 2] != in[0].dims.back())
      misuse(@"inverse: expected square float32 matrices, got %s %@", type_name(in[0].type), text_of(in[0].dims));
    Value result(in[0].type, in[0].dims);
    const auto size = static_cast<int64_t>(n * n);
    for (int64_t first = 0; first < result.count(); first += size) {
      std::vector<double> matrix, inverse(n * n);
      for (int64_t i = 0; i < size; ++i) matrix.push_back(in[0].real(first + i));
      invert(matrix, inverse, n);
      for (int64_t i = 0; i < size; ++i) result.set(first + i, inverse[static_cast<size_t>(i)]);
    }
    return result;
  });
}

- (MPSGraphTensor*)bandPartWithTensor:(MPSGraphTensor*)tensor
                             numLower:(NSInteger)lower
                             numUpper:(NSInteger)upper
                                 name:(NSString*)name {
  return add_one(self, @"bandPart", name, {tensor}, [=](const Values& in) {
    require_matrices(@"bandPart", in[0]);
    Value result = in[0];
    int64_t at = 0;
    for_each_position(result.dims, [&](const Dims& position) {
      const int64_t i = position[position.size() - 2], j = position.back();
      if (!((lower < 0 || i - j <= lower) && (upper < 0 || j - i <= upper))) result.set(at, 0.0);
      ++at;
    });
    return result;
  });
}
@end
