// Kernels of weights packed at a few bits per element: matmuls, and conversion to float.
//
// A product of a few rows reads the packed words once, and unpacks them in registers (quantized_rows.h). A single row
// is multiplied as integers if the processor has dot products of bytes (quantized_digits.h). For more rows, each thread
// unpacks a block of the weights that stays in its L2 cache, and multiplies it with gemm(). The weights are never
// written to memory as floats.
#include <algorithm>
#include <vector>

#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/matrix/gemm.h"
#include "backends/cpu/matrix/quantized_digits.h"
#include "backends/cpu/matrix/quantized_rows.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

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

std::unique_ptr<Kernel> lower_dequantize_packed(Lowering& lowering) {
  const PackedOperands packed(lowering, 0);
  const Operand y = lowering.output();
  const int64_t columns = packed.columns();
  if (columns == 0) return kernel([](Frame&) {});
  const TileFunction convert = y.dtype == DType::float32 ? nullptr : cast_function(DType::float32, y.dtype);
  return kernel([=, y = y.slot, size = static_cast<int64_t>(size_of(y.dtype))](Frame& f) {
    constexpr int64_t piece = 1024;  // elements converted at once, a multiple of 32
    const PackedWeights weights = packed.in(f);
    auto* to = f.at<std::byte>(y);
    parallel_for(weights.rows, grain_for(columns * 2), [&](int64_t begin, int64_t end) {
      alignas(64) float buffer[piece];
      for (int64_t row = begin; row < end; ++row) {
        if (!convert) {
          quantized_rows().unpack(weights, row, 0, columns, reinterpret_cast<float*>(to) + row * columns);
          continue;
        }
        for (int64_t i = 0; i < columns; i += piece) {
          const int64_t count = std::min(piece, columns - i);
          quantized_rows().unpack(weights, row, i, count, buffer);
          const void* const from = buffer;
          convert(to + (row * columns + i) * size, &from, count);
        }
      }
    });
  });
}

// ---- matmuls

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

// Compute a few rows. The rows of x are arranged like the words of the weights, once per run.
class FewRows final : public Kernel {
 public:
  static constexpr int64_t most_rows = 16;

  FewRows(Lowering& lowering, const QuantizedProduct& product)
      : p_(product), table_(quantized_rows()), lanes_(table_.lanes) {
    const PackedWeights& w = p_.packed.weights;
    const WordPieces pieces = word_pieces(w.bits);
    const int64_t vectors = (w.words_per_row + lanes_ - 1) / lanes_, per_group = w.words_per_row / w.groups_per_row;
    for (int64_t v = 0; v < vectors; ++v) {
      const int64_t first = v * lanes_ / per_group;
      first_groups_.push_back(static_cast<int32_t>(first));
      for (int64_t word = v * lanes_; word < (v + 1) * lanes_; ++word)
        lane_groups_.push_back(word < w.words_per_row ? static_cast<int32_t>(word / per_group - first) : 0);
      for (int piece = 0; piece < pieces.count; ++piece)
        for (int64_t word = v * lanes_; word < (v + 1) * lanes_; ++word) {
          const WordPieces::Piece& of = pieces.pieces[word % pieces.period][piece];
          const bool exists = word < w.words_per_row;
          elements_.push_back(exists ? static_cast<int32_t>(word / pieces.period * pieces.elements + of.element) : 0);
          factors_.push_back(exists ? of.factor : 0);
        }
    }
    sum_stride_ = (w.groups_per_row + lanes_ - 1) / lanes_ * lanes_;
    wide_ = p_.x.dtype != DType::float32;
    row_floats_ = static_cast<int64_t>(elements_.size()) + sum_stride_ + (wide_ ? p_.steps : 0);
    scratch_ = lowering.scratch(static_cast<size_t>(p_.rows * row_floats_) * sizeof(float));
#if defined(__x86_64__)
    if (p_.rows != 1 || !avx512_vnni::multiplies_digits(w.bits)) return;
    digits_.vectors = vectors;
    digit_bytes_ = vectors * DigitRow::digits * (8 / w.bits) * 64;
    digit_scratch_ = lowering.scratch(static_cast<size_t>(2 * digit_bytes_ + vectors * lanes_ * 4));
#endif
  }

  void run(Frame& frame) const override {
    const int64_t blocks = (p_.columns + columns_of_block - 1) / columns_of_block;
    if (digit_bytes_ > 0 && multiply_digits(frame, blocks)) return;
    if (p_.rows * p_.steps <= most_serial) {
      for (int64_t row = 0; row < p_.rows; ++row) prepare(frame, row);
      parallel_for(blocks, grain_for(columns_of_block * p_.steps), [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) multiply(frame, block);
      });
      return;
    }
    parallel_phases(thread_count(), {p_.rows, blocks}, [&](int64_t phase, Items& items) {
      for (int64_t i : items)
        if (phase == 0)
          prepare(frame, i);
        else
          multiply(frame, i);
    });
  }
  std::string description() const override {
    return cat(p_.packed.weights.bits, "-bit weights, unpacked in registers",
               digit_bytes_ > 0 ? " and multiplied as integers" : "");
  }

 private:
  static constexpr int64_t columns_of_block = 32, most_serial = 4096;

  // The single row x as float, and the sums of its groups.
  const float* summed(Frame& frame, int64_t row, float* sums) const {
    const auto* all = frame.at<const std::byte>(p_.x.slot);
    const float* x = reinterpret_cast<const float*>(all) + row * p_.steps;
    if (wide_) p_.read(all, row * p_.steps, p_.steps, sums + sum_stride_), x = sums + sum_stride_;
    const int64_t groups = p_.packed.weights.groups_per_row, size = p_.steps / groups;
    for (int64_t group = 0; group < sum_stride_; ++group) {
      float parts[8] = {};  // size is a multiple of 32
      if (group < groups)
        for (int64_t i = 0; i < size; i += 8)
          for (int64_t j = 0; j < 8; ++j) parts[j] += x[group * size + i + j];
      sums[group] = ((parts[0] + parts[4]) + (parts[1] + parts[5])) + ((parts[2] + parts[6]) + (parts[3] + parts[7]));
    }
    return x;
  }

  // Multiply the single row as digits. Return false if one of its elements is not finite.
  bool multiply_digits(Frame& frame, int64_t blocks) const {
#if defined(__x86_64__)
    DigitRow row = digits_;
    row.bytes = frame.at<int8_t>(digit_scratch_), row.scratch = row.bytes + digit_bytes_;
    row.factors = reinterpret_cast<float*>(row.scratch + digit_bytes_);
    float* const sums = row_of(frame, 0) + elements_.size();
    const float* const x = summed(frame, 0, sums);
    if (!avx512_vnni::split_into_digits(p_.packed.weights.bits, x, p_.steps, row)) return false;
    const PreparedRows groups{nullptr, sums, 0, 0, first_groups_.data(), lane_groups_.data()};
    const PackedWeights weights = p_.packed.in(frame);
    parallel_for(blocks, grain_for(columns_of_block * p_.steps), [&](int64_t begin, int64_t end) {
      alignas(64) float results[columns_of_block];
      for (int64_t column = begin * columns_of_block; column < std::min(end * columns_of_block, p_.columns);
           column += columns_of_block) {
        const int64_t count = std::min(columns_of_block, p_.columns - column);
        avx512_vnni::multiply_digits(weights, column, count, row, groups, results);
        p_.finish(frame, results, 0, column, count);
      }
    });
    return true;
#else
    (void)frame, (void)blocks;
    return false;
#endif
  }

  float* row_of(Frame& frame, int64_t row) const { return frame.at<float>(scratch_) + row * row_floats_; }

  void prepare(Frame& frame, int64_t row) const {
    float* const pieces = row_of(frame, row);
    const float* const x = summed(frame, row, pieces + elements_.size());
    for (size_t i = 0; i < elements_.size(); ++i) pieces[i] = x[elements_[i]] * factors_[i];
  }

  void multiply(Frame& frame, int64_t block) const {
    const PackedWeights weights = p_.packed.in(frame);
    const int64_t column = block * columns_of_block, count = std::min(columns_of_block, p_.columns - column);
    alignas(64) float sums[most_rows * columns_of_block];
    for (int64_t row = 0; row < p_.rows;) {
      int rows = table_.most_rows;
      while (rows > p_.rows - row) rows /= 2;
      const float* pieces = row_of(frame, row);
      const PreparedRows x{pieces,      pieces + elements_.size(), row_floats_,
                           row_floats_, first_groups_.data(),      lane_groups_.data()};
      table_.multiply(weights, column, count, x, rows, sums, columns_of_block);
      for (int m = 0; m < rows; ++m) p_.finish(frame, sums + m * columns_of_block, row + m, column, count);
      row += rows;
    }
  }

  QuantizedProduct p_;
  const QuantizedRows& table_;
  int64_t lanes_, sum_stride_ = 0, row_floats_ = 0;
  bool wide_ = false;  // whether x is converted to float first
  Slot scratch_ = -1, digit_scratch_ = -1;
  DigitRow digits_;  // without pointers
  int64_t digit_bytes_ = 0;  // 0 if the row is not multiplied as digits
  // for each piece, the element of x, and its factor; for each vector of words and each word, its group
  std::vector<int32_t> elements_, first_groups_, lane_groups_;
  std::vector<float> factors_;
};

// Compute many rows, a block of columns at a time.
class ManyRows final : public Kernel {
 public:
  ManyRows(Lowering& lowering, const QuantizedProduct& product) : p_(product) {
    constexpr int64_t block_bytes = 1 << 19;  // of unpacked weights, which stay in L2
    constexpr int64_t unit = 96;  // a multiple of 32 and of most tile widths
    const int64_t threads = thread_count(), fit = block_bytes / 4 / std::max<int64_t>(p_.steps, 1);
    const int64_t share = (p_.columns + threads - 1) / threads;
    block_ = std::max<int64_t>(unit, std::min(fit, share) / unit * unit);
    blocks_ = (p_.columns + block_ - 1) / block_;
    weights_ = lowering.scratch(static_cast<size_t>(threads * block_ * p_.steps) * sizeof(float));
    if (p_.x.dtype == DType::float32) return;
    x_ = lowering.scratch(static_cast<size_t>(p_.rows * p_.steps) * sizeof(float));
    sums_ = lowering.scratch(static_cast<size_t>(p_.rows * p_.columns) * sizeof(float));
  }

  void run(Frame& frame) const override {
    if (x_ >= 0)
      parallel_for(p_.rows, grain_for(p_.steps * 6), [&](int64_t begin, int64_t end) {
        p_.read(frame.at<const std::byte>(p_.x.slot), begin * p_.steps, (end - begin) * p_.steps,
                frame.at<float>(x_) + begin * p_.steps);
      });
    parallel_items(blocks_, [&](int64_t block, int64_t member) {
      multiply(frame, block * block_, frame.at<float>(weights_) + member * block_ * p_.steps);
    });
  }
  std::string description() const override {
    return cat(p_.packed.weights.bits, "-bit weights, unpacked in ", blocks_, " blocks");
  }

 private:
  void multiply(Frame& frame, int64_t column, float* unpacked) const {
    const PackedWeights weights = p_.packed.in(frame);
    const int64_t count = std::min(block_, p_.columns - column);
    Matrix<const float> right{unpacked, p_.steps, count, 1, p_.steps};
    if (p_.transposed) {
      for (int64_t i = 0; i < count; ++i)
        quantized_rows().unpack(weights, column + i, 0, p_.steps, unpacked + i * p_.steps);
    } else {
      right.row_stride = count, right.column_stride = 1;
      for (int64_t i = 0; i < p_.steps; ++i) quantized_rows().unpack(weights, i, column, count, unpacked + i * count);
    }
    const bool is_float = x_ < 0;
    const Matrix<const float> left{frame.at<const float>(is_float ? p_.x.slot : x_), p_.rows, p_.steps, p_.steps, 1};
    float* to = frame.at<float>(is_float ? p_.result.slot : sums_) + column;
    GemmEpilogue<float> epilogue;
    if (is_float) {
      if (p_.bias >= 0) epilogue.bias = frame.at<const float>(p_.bias) + column;
      if (p_.residual >= 0) epilogue.residual = frame.at<const float>(p_.residual) + column;
      epilogue.relu = p_.relu;
    }
    gemm<float>(left, right, {to, p_.rows, count, p_.columns, 1}, false, epilogue);
    if (is_float) return;
    for (int64_t row = 0; row < p_.rows; ++row) p_.finish(frame, to + row * p_.columns, row, column, count);
  }

  QuantizedProduct p_;
  int64_t block_ = 0, blocks_ = 0;
  Slot weights_ = -1, x_ = -1, sums_ = -1;
};

Offer registers(Lowering& lowering) {
  const QuantizedProduct p(lowering);
  if (!p.transposed) return decline("computes only with transposed weights");
  if (p.rows == 0 || p.columns == 0) return decline("an operand is empty");
  if (p.rows > FewRows::most_rows) return decline(cat("computes at most ", FewRows::most_rows, " rows"));
  return std::make_unique<FewRows>(lowering, p);
}

Offer unpacked_blocks(Lowering& lowering) {
  const QuantizedProduct p(lowering);
  if (p.rows == 0 || p.columns == 0) return decline("an operand is empty");
  return std::make_unique<ManyRows>(lowering, p);
}

// Plain loops that take each element from the bits of its row.
std::unique_ptr<Kernel> plain_product(const QuantizedProduct& p) {
  return kernel([=](Frame& f) {
    const PackedWeights w = p.packed.in(f);
    const int64_t columns = p.packed.columns();
    std::vector<float> row(static_cast<size_t>(w.rows * columns)), x(static_cast<size_t>(p.steps));
    const auto bit = [&](int64_t r, int64_t i) { return w.words[r * w.words_per_row + i / 32] >> (i % 32) & 1u; };
    const auto parameter = [&](const void* from, int64_t i) {
      const auto type = w.scale_type == ScaleType::float32   ? DType::float32
                        : w.scale_type == ScaleType::float16 ? DType::float16
                                                             : DType::bfloat16;
      const void* const at = static_cast<const std::byte*>(from) + static_cast<size_t>(i) * size_of(type);
      float value = 0;
      cast_function(type, DType::float32)(&value, &at, 1);
      return value;
    };
    for (int64_t r = 0; r < w.rows; ++r)
      for (int64_t i = 0; i < columns; ++i) {
        uint32_t q = 0;
        for (int b = 0; b < w.bits; ++b) q |= bit(r, i * w.bits + b) << b;
        const int64_t group = r * w.groups_per_row + i / (columns / w.groups_per_row);
        row[static_cast<size_t>(r * columns + i)] =
            static_cast<float>(q) * parameter(w.scale, group) + parameter(w.bias, group);
      }
    for (int64_t m = 0; m < p.rows; ++m) {
      p.read(f.at<const std::byte>(p.x.slot), m * p.steps, p.steps, x.data());
      for (int64_t n = 0; n < p.columns; ++n) {
        float sum = 0;
        for (int64_t k = 0; k < p.steps; ++k)
          sum += x[static_cast<size_t>(k)] * row[static_cast<size_t>(p.transposed ? n * columns + k : k * columns + n)];
        p.finish(f, &sum, m, n, 1);
      }
    }
  });
}
Offer plain_loops(Lowering& lowering) { return plain_product(QuantizedProduct(lowering)); }

}  // namespace

const Kernels quantized_product_kernels("quantized_product", [] {
  define_candidates("quantized_matrix_multiplication",
                    {{"registers", registers}, {"unpacked_blocks", unpacked_blocks}, {"plain_loops", plain_loops}});
  define_composite("dequantize_packed", lower_dequantize_packed, [](const Operation&) { return true; });
});

}  // namespace mpsgraph::cpu
