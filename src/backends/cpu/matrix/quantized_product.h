// The operands of matmuls with weights packed at a few bits per element, and the kernels for many rows.
#pragma once

#include <algorithm>

#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/matrix/quantized_rows.h"

namespace mpsgraph::cpu {

// The operands of packed weights, which begin at operand `first`.
struct PackedOperands {
  PackedWeights weights;  // without pointers
  Slot words, scale, bias;

  PackedOperands(const Lowering& lowering, size_t first)
      : words(lowering.input(first).slot), scale(lowering.input(first + 1).slot), bias(lowering.input(first + 2).slot) {
    const Operand w = lowering.input(first), s = lowering.input(first + 1);
    weights.bits = static_cast<int>(lowering.attributes().integer("bits"));
    weights.scale_type = s.dtype == DType::float32   ? ScaleType::float32
                         : s.dtype == DType::float16 ? ScaleType::float16
                                                     : ScaleType::bfloat16;
    weights.words_per_row = w.dims.back(), weights.groups_per_row = s.dims.back();
    weights.rows = w.dims.back() == 0 ? 0 : w.elements() / w.dims.back();
  }
  PackedWeights in(Frame& frame) const {
    PackedWeights w = weights;
    w.words = frame.at<const uint32_t>(words);
    w.scale = frame.at<const std::byte>(scale), w.bias = frame.at<const std::byte>(bias);
    return w;
  }
  int64_t columns() const { return weights.words_per_row * 32 / weights.bits; }
};

// The operands of a matmul with packed weights, and its epilogue.
struct QuantizedProduct {
  Operand x, result;
  PackedOperands packed;
  bool transposed;
  Slot bias = -1, residual = -1;
  bool relu;
  int64_t steps, rows, columns;

  explicit QuantizedProduct(const Lowering& lowering)
      : x(lowering.input(0)),
        result(lowering.output()),
        packed(lowering, 1),
        transposed(lowering.attributes().boolean("transpose_b")),
        relu(lowering.attributes().string("activation") == "relu"),
        steps(x.dims.back()),
        rows(steps > 0 ? x.elements() / steps : 0),
        columns(result.dims.back()) {
    const bool has_bias = lowering.attributes().boolean("has_bias");
    if (has_bias) bias = lowering.input(4).slot;
    if (lowering.attributes().boolean("has_residual")) residual = lowering.input(has_bias ? 5 : 4).slot;
  }

  // Read n elements of x, or of another operand of its dtype, as float.
  void read(const std::byte* from, int64_t first, int64_t n, float* to) const {
    const void* const at = from + static_cast<size_t>(first) * size_of(x.dtype);
    cast_function(x.dtype, DType::float32)(to, &at, n);
  }
  // The sum of the elements of a row of x, as float, that belong to a group.
  float sum_of_group(const float* x, int64_t group) const {
    const int64_t size = steps / packed.weights.groups_per_row;  // a multiple of 32
    float parts[8] = {};
    for (int64_t i = 0; i < size; i += 8)
      for (int64_t j = 0; j < 8; ++j) parts[j] += x[group * size + i + j];
    return ((parts[0] + parts[4]) + (parts[1] + parts[5])) + ((parts[2] + parts[6]) + (parts[3] + parts[7]));
  }
  // Apply the epilogue to n sums and store them as elements of the result. The first one is at (row, column).
  void finish(Frame& frame, float* sums, int64_t row, int64_t column, int64_t n) const {
    const int64_t first = row * columns + column;
    const auto add = [&](Slot slot, int64_t from) {
      constexpr int64_t piece = 256;
      float buffer[piece];
      for (int64_t i = 0; i < n; i += piece) {
        const int64_t count = std::min(piece, n - i);
        read(frame.at<const std::byte>(slot), from + i, count, buffer);
        for (int64_t j = 0; j < count; ++j) sums[i + j] += buffer[j];
      }
    };
    if (bias >= 0) add(bias, column);
    if (residual >= 0) add(residual, first);
    if (relu)
      for (int64_t i = 0; i < n; ++i) sums[i] = sums[i] < 0 ? 0 : sums[i];  // NaN is not below 0, so it stays NaN
    const void* const from = sums;
    cast_function(DType::float32, x.dtype)(
        frame.at<std::byte>(result.slot) + static_cast<size_t>(first) * size_of(x.dtype), &from, n);
  }
};

// Candidates for many rows: unpack blocks of the weights, to bfloat16 or to float, and multiply them.
Offer bfloat16_blocks(Lowering& lowering);
Offer float_blocks(Lowering& lowering);

}  // namespace mpsgraph::cpu
