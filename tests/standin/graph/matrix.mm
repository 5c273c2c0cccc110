// Matrix products, attention and inverses of the last two axes, with broadcasting of the axes before them.
#include <cmath>

#include "graph/elementwise.h"

using namespace standin;

namespace {

void require_matrices(NSString* kind, const Value& value) {
  require(kind, value, Takes::floats);
  if (value.rank() < 2) misuse(@"%@ of %@", kind, text_of(value.dims));
}

Dims batch_of(const Value& value) { return {value.dims.begin(), value.dims.end() - 2}; }

// Where the matrix at `position` of the broadcast batch begins.
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

Value multiply(const Value& a, const Value& b) {
  require_same_type(@"matrixMultiplication", {a, b});
  if (a.rank() != b.rank()) misuse(@"matrices %@ and %@ of different ranks", text_of(a.dims), text_of(b.dims));
  const int64_t rows = a.dims[a.rank() - 2], inner = a.dims.back(), columns = b.dims.back();
  if (b.dims[b.rank() - 2] != inner) misuse(@"matrices %@ times %@", text_of(a.dims), text_of(b.dims));
  Dims dims = broadcast_dims(batch_of(a), batch_of(b));
  const Dims batch = dims;
  dims.insert(dims.end(), {rows, columns});
  Value result(a.type, dims);
  const std::vector<double> x = numbers_of(a), y = numbers_of(b);
  int64_t at = 0;
  for_each_position(batch, [&](const Dims& position) {
    const double* row = x.data() + matrix_at(a, position);
    for (int64_t i = 0; i < rows; ++i, row += inner) {
      std::vector<double> totals(static_cast<size_t>(columns), 0.0);
      double* const total = totals.data();
      const double* factor = y.data() + matrix_at(b, position);
      for (int64_t k = 0; k < inner; ++k)
        for (int64_t j = 0; j < columns; ++j) total[j] += row[k] * *factor++;
      for (int64_t j = 0; j < columns; ++j) result.set(at++, total[j]);
    }
  });
  return result;
}

// One query: weights exp(scale q·k + m) over all keys, and their mean of the values.
struct Attention {
  const Value &query, &key, &value;
  const Value* mask;
  double scale;

  Value result() const {
    Dims dims = query.dims;
    dims[3] = value.dims[3];
    Value all(query.type, dims);
    const int64_t queries = query.dims[2], keys = key.dims[2], features = query.dims[3], width = value.dims[3];
    for (int64_t head = 0; head < query.dims[0] * query.dims[1]; ++head)
      for (int64_t i = 0; i < queries; ++i) {
        std::vector<double> weights;
        double most = -INFINITY, total = 0;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (int64_t f = 0; f < features; ++f)
            score += query.real((head * queries + i) * features + f) * key.real((head * keys + j) * features + f);
          weights.push_back(score * scale + masked(head, i, j));
          most = std::fmax(most, weights.back());
        }
        for (double& weight : weights) total += weight = std::exp(weight - most);
        for (int64_t f = 0; f < width; ++f) {
          double mean = 0;
          for (int64_t j = 0; j < keys; ++j)
            mean += weights[static_cast<size_t>(j)] / total * value.real((head * keys + j) * width + f);
          all.set((head * queries + i) * width + f, mean);
        }
      }
    return all;
  }
  double masked(int64_t head, int64_t i, int64_t j) const {
    if (!mask) return 0;
    const Dims position{head / query.dims[1], head % query.dims[1], i, j}, strides = strides_of(mask->dims);
    int64_t at = 0;
    for (size_t axis = 0; axis < 4; ++axis) at += mask->dims[axis] == 1 ? 0 : position[axis] * strides[axis];
    return mask->real(at);
  }
};

// Q [B, H, Nq, F], K [B, H, Nkv, F], V [B, H, Nkv, Fv], M broadcast to [B, H, Nq, Nkv].
Value attend(const Values& in, double scale) {
  for (const Value& operand : in) {
    require(@"scaledDotProductAttention", operand, Takes::floats);
    if (operand.rank() != 4) misuse(@"scaledDotProductAttention of %@", text_of(operand.dims));
  }
  require_same_type(@"scaledDotProductAttention", in);
  const Value &query = in[0], &key = in[1], &value = in[2];
  const bool fits = batch_of(query) == batch_of(key) && batch_of(key) == batch_of(value) &&
                    query.dims[3] == key.dims[3] && key.dims[2] == value.dims[2];
  if (!fits) misuse(@"attention of %@, %@ and %@", text_of(query.dims), text_of(key.dims), text_of(value.dims));
  if (in.size() == 4) {
    const Dims scores{query.dims[0], query.dims[1], query.dims[2], key.dims[2]};
    if (broadcast_dims(scores, in[3].dims) != scores) misuse(@"a mask of shape %@", text_of(in[3].dims));
  }
  return Attention{query, key, value, in.size() == 4 ? &in[3] : nullptr, scale}.result();
}

// Gauss's and Jordan's elimination, with the largest pivot of each column; a singular matrix divides by zero.
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

@implementation MPSGraph (StandinMatrix)

- (MPSGraphTensor*)matrixMultiplicationWithPrimaryTensor:(MPSGraphTensor*)primary
                                         secondaryTensor:(MPSGraphTensor*)secondary
                                                    name:(NSString*)name {
  return add_one(self, @"matrixMultiplication", name, {primary, secondary}, [](const Values& in) {
    for (const Value& value : in) require_matrices(@"matrixMultiplication", value);
    return multiply(in[0], in[1]);
  });
}

- (MPSGraphTensor*)scaledDotProductAttentionWithQueryTensor:(MPSGraphTensor*)query
                                                  keyTensor:(MPSGraphTensor*)key
                                                valueTensor:(MPSGraphTensor*)value
                                                 maskTensor:(MPSGraphTensor*)mask
                                                      scale:(float)scale
                                                       name:(NSString*)name {
  std::vector<MPSGraphTensor*> operands{query, key, value};
  if (mask) operands.push_back(mask);
  return add_one(self, @"scaledDotProductAttention", name, operands,
                 [=](const Values& in) { return attend(in, scale); });
}

// Only float32: Apple names no types.
- (MPSGraphTensor*)inverseOfTensor:(MPSGraphTensor*)tensor name:(NSString*)name {
  return add_one(self, @"inverse", name, {tensor}, [](const Values& in) {
    require_matrices(@"inverse", in[0]);
    const auto n = static_cast<size_t>(in[0].dims.back());
    if (in[0].type != MPSDataTypeFloat32 || in[0].dims[in[0].rank() - 2] != in[0].dims.back())
      misuse(@"the inverse of %s %@", type_name(in[0].type), text_of(in[0].dims));
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
