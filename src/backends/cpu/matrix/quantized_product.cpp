// Kernels of weights packed at a few bits per element: matmuls, and conversion to float.
//
// A product of a few rows reads the packed words once, and unpacks them in registers (quantized_rows.h). A single row
// is multiplied as integers if the processor has dot products of bytes (quantized_digits.h). More rows are multiplied
// by unpacked blocks of the weights (quantized_blocks.cpp).
#include <algorithm>
#include <atomic>
#include <vector>

#include "backends/cpu/amx.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/matrix/gemm.h"
#include "backends/cpu/matrix/quantized_digit_tiles.h"
#include "backends/cpu/matrix/quantized_digits.h"
#include "backends/cpu/matrix/quantized_product.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

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

// Compute a few rows. The rows of x are arranged like the words of the weights, once per run.
class FewRows final : public Kernel {
 public:
  static constexpr int64_t most_rows = 16;

  FewRows(Lowering& lowering, const QuantizedProduct& product)
      : p_(product), table_(quantized_rows()), lanes_(table_.lanes) {
    const PackedWeights& w = p_.packed.weights;
    const WordPieces pieces = word_pieces(w.bits);
    const int64_t vectors = (w.words_per_row + lanes_ - 1) / lanes_, per_group = w.words_per_row / w.groups_per_row;
    const bool in_order = bytes_in_order(w.bits, per_group, lanes_);
    for (int64_t v = 0; v < vectors; ++v) {
      const int64_t first = v * lanes_ / per_group;
      first_groups_.push_back(static_cast<int32_t>(first));
      for (int64_t word = v * lanes_; word < (v + 1) * lanes_; ++word)
        lane_groups_.push_back(word < w.words_per_row ? static_cast<int32_t>(word / per_group - first) : 0);
      for (int piece = 0; piece < pieces.count; ++piece)
        for (int64_t word = v * lanes_; word < (v + 1) * lanes_; ++word) {
          const WordPieces::Piece& of = pieces.pieces[word % pieces.period][piece];
          const bool exists = word < w.words_per_row;
          const int64_t element = in_order ? 4 * v * lanes_ + piece * lanes_ + word % lanes_
                                           : word / pieces.period * pieces.elements + of.element;
          elements_.push_back(exists ? static_cast<int32_t>(element) : 0);
          factors_.push_back(exists ? of.factor : 0);
        }
    }
    sum_stride_ = (w.groups_per_row + lanes_ - 1) / lanes_ * lanes_;
    wide_ = p_.x.dtype != DType::float32;
    row_floats_ = static_cast<int64_t>(elements_.size()) + sum_stride_ + (wide_ ? p_.steps : 0);
    scratch_ = lowering.scratch(static_cast<size_t>(p_.rows * row_floats_) * sizeof(float));
    digit_table_ = quantized_digits(w.bits);
    // Digits of more rows would need more instructions than elements that several rows share as floats.
    const int64_t most_digit_rows = w.bits == 8 ? 2 : 3;
    if (!digit_table_ || p_.rows > most_digit_rows) return;
    digits_.vectors = vectors, digits_.shared = shared_elements(w.bits, p_.steps / w.groups_per_row, lanes_);
    digit_bytes_ = vectors * DigitRow::digits * 32 / w.bits * lanes_;
    digit_row_ = 2 * digit_bytes_ + vectors * lanes_ * 4;
    digit_scratch_ = lowering.scratch(static_cast<size_t>(p_.rows * digit_row_));
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
  static constexpr int64_t columns_of_block = 64, most_serial = 4096;

  // A row of x as float, and the sums of its groups.
  const float* summed(Frame& frame, int64_t row, float* sums) const {
    const auto* all = frame.at<const std::byte>(p_.x.slot);
    const float* x = reinterpret_cast<const float*>(all) + row * p_.steps;
    if (wide_) p_.read(all, row * p_.steps, p_.steps, sums + sum_stride_), x = sums + sum_stride_;
    for (int64_t group = 0; group < sum_stride_; ++group)
      sums[group] = group < p_.packed.weights.groups_per_row ? p_.sum_of_group(x, group) : 0;
    return x;
  }

  // Multiply the rows as digits. Return false if an element is not finite.
  bool multiply_digits(Frame& frame, int64_t blocks) const {
    DigitRow rows[most_rows];
    PreparedRows groups[most_rows];
    for (int64_t row = 0; row < p_.rows; ++row) {
      DigitRow& r = rows[row] = digits_;
      r.bytes = frame.at<int8_t>(digit_scratch_) + row * digit_row_, r.scratch = r.bytes + digit_bytes_;
      r.factors = reinterpret_cast<float*>(r.scratch + digit_bytes_);
      float* const sums = row_of(frame, row) + elements_.size();
      const float* const x = summed(frame, row, sums);
      if (!digit_table_->split(p_.packed.weights.bits, x, p_.steps, r)) return false;
      groups[row] = {nullptr, sums, 0, 0, first_groups_.data(), lane_groups_.data()};
    }
    const PackedWeights weights = p_.packed.in(frame);
    parallel_for(blocks, grain_for(columns_of_block * p_.steps), [&](int64_t begin, int64_t end) {
      alignas(64) float results[columns_of_block];
      for (int64_t column = begin * columns_of_block; column < std::min(end * columns_of_block, p_.columns);
           column += columns_of_block) {
        const int64_t count = std::min(columns_of_block, p_.columns - column);
        for (int64_t row = 0; row < p_.rows; ++row) {
          digit_table_->multiply(weights, column, count, rows[row], groups[row], results);
          p_.finish(frame, results, row, column, count);
        }
      }
    });
    return true;
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
  const QuantizedDigits* digit_table_ = nullptr;
  DigitRow digits_;  // without pointers
  int64_t digit_bytes_ = 0, digit_row_ = 0;  // of the digits of a row, and of all its arrays; 0 without digits
  // for each piece, the element of x, and its factor; for each vector of words and each word, its group
  std::vector<int32_t> elements_, first_groups_, lane_groups_;
  std::vector<float> factors_;
};

#if defined(__x86_64__)
// Compute a few rows as digits in AMX registers. If an element is not finite, all rows are computed as floats.
class AmxRows final : public Kernel {
 public:
  static constexpr int64_t least_rows = 8, least_weights = 1 << 22;

  AmxRows(Lowering& lowering, const QuantizedProduct& product, const DigitTiles::Shape& shape)
      : p_(product), shape_(shape), floats_(lowering, product) {
    digits_.vectors = shape.vectors, digits_.shared = DigitTiles::side / shape.segments * 32 / shape.bits;
    digit_bytes_ = shape.vectors * DigitRow::digits * shape.parts * DigitTiles::side * 4;
    const int64_t factors = shape.vectors * DigitTiles::side * 4;
    row_bytes_ = 2 * digit_bytes_ + factors + p_.steps * 4;
    const auto reserve = [&](int64_t bytes) { return lowering.scratch(static_cast<size_t>(bytes)); };
    bytes_ = reserve(shape.byte_count());
    factors_ = reserve(shape.factor_count() * 4);
    sums_ = reserve(shape.sum_count() * 4);
    rows_ = reserve(thread_count() * row_bytes_);
    scratch_ = reserve(thread_count() * shape.scratch_count() * 4);
  }

  void run(Frame& frame) const override {
    const int64_t blocks = pieces_of(p_.columns, columns_of_block);
    const DigitTiles x{shape_, frame.at<int8_t>(bytes_), frame.at<float>(factors_), frame.at<float>(sums_)};
    std::atomic<bool> finite{true};
    parallel_phases(thread_count(), {shape_.tiles, blocks}, [&](int64_t phase, Items& items) {
      if (phase == 0) {
        for (const int64_t tile : items)
          for (int64_t i = 0; i < shape_.rows_of_tile && tile * shape_.rows_of_tile + i < p_.rows; ++i)
            if (!prepare(frame, x, tile * shape_.rows_of_tile + i, items.member())) finite = false;
        return;
      }
      amx_digits::begin();
      for (const int64_t block : items)
        if (finite) multiply(frame, x, block * columns_of_block, items.member());
      amx_digits::end();
    });
    if (!finite) floats_.run(frame);
  }
  std::string description() const override {
    return cat(p_.packed.weights.bits, "-bit weights, multiplied as integers in registers of AMX");
  }

 private:
  static constexpr int64_t columns_of_block = 32;

  bool prepare(Frame& frame, const DigitTiles& x, int64_t row, int64_t member) const {
    DigitRow digits = digits_;
    digits.bytes = frame.at<int8_t>(rows_) + member * row_bytes_, digits.scratch = digits.bytes + digit_bytes_;
    digits.factors = reinterpret_cast<float*>(digits.scratch + digit_bytes_);
    float* const values = digits.factors + shape_.vectors * DigitTiles::side;
    p_.read(frame.at<const std::byte>(p_.x.slot), row * p_.steps, p_.steps, values);
    for (int64_t group = 0; group < shape_.groups; ++group)
      x.sums[group * DigitTiles::side + row] = p_.sum_of_group(values, group);
    if (!quantized_digits(shape_.bits)->split(shape_.bits, values, p_.steps, digits)) return false;
    amx_digits::arrange(x, row, digits);
    return true;
  }
  void multiply(Frame& frame, const DigitTiles& x, int64_t column, int64_t member) const {
    const int64_t count = std::min(columns_of_block, p_.columns - column);
    alignas(64) float sums[DigitTiles::side * columns_of_block];
    amx_digits::multiply(p_.packed.in(frame), column, count, x,
                         frame.at<float>(scratch_) + member * shape_.scratch_count(), sums, columns_of_block);
    for (int64_t row = 0; row < p_.rows; ++row) p_.finish(frame, sums + row * columns_of_block, row, column, count);
  }

  QuantizedProduct p_;
  DigitTiles::Shape shape_;
  FewRows floats_;
  DigitRow digits_;  // without pointers
  int64_t digit_bytes_ = 0, row_bytes_ = 0;  // of the digits of a row, and of a thread's scratch memory for a row
  Slot bytes_ = -1, factors_ = -1, sums_ = -1, rows_ = -1, scratch_ = -1;
};
#endif

Offer digits_in_amx(Lowering& lowering) {
#if defined(__x86_64__)
  const QuantizedProduct p(lowering);
  if (!wanted("amx").value_or(true) || !has_amx() || !quantized_digits(8))
    return decline("the processor has no AMX, or AMX is turned off");
  if (!p.transposed) return decline("computes only with transposed weights");
  if (p.rows < AmxRows::least_rows || p.rows > DigitTiles::side || p.columns == 0)
    return decline(cat("pays off only for ", AmxRows::least_rows, " to ", DigitTiles::side, " rows"));
  if (p.steps * p.columns < AmxRows::least_weights)
    return decline(cat("pays off only for at least ", AmxRows::least_weights, " weights"));
  const DigitTiles::Shape shape = amx_digits::shape_of(p.packed.weights, p.rows);
  if (shape.rows == 0) return decline("computes only with elements of 4 or 8 bits, in groups of a power of 2");
  return std::make_unique<AmxRows>(lowering, p, shape);
#else
  (void)lowering;
  return decline("the processor has no AMX");
#endif
}

Offer registers(Lowering& lowering) {
  const QuantizedProduct p(lowering);
  if (!p.transposed) return decline("computes only with transposed weights");
  if (p.rows == 0 || p.columns == 0) return decline("an operand is empty");
  if (p.rows > FewRows::most_rows) return decline(cat("computes at most ", FewRows::most_rows, " rows"));
  return std::make_unique<FewRows>(lowering, p);
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
  define_candidates("quantized_matrix_multiplication", {{"amx_digits", digits_in_amx},
                                                        {"registers", registers},
                                                        {"bfloat16_blocks", bfloat16_blocks},
                                                        {"float_blocks", float_blocks},
                                                        {"plain_loops", plain_loops}});
  define_composite("dequantize_packed", lower_dequantize_packed, [](const Operation&) { return true; });
});

}  // namespace mpsgraph::cpu
