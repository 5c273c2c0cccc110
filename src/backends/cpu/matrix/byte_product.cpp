// integer_matrix_multiplication: matmul of 8-bit integers with zero points, accumulated in int32.
//
// The micro-kernels are those of integer convolutions (convolution/convolution_integers.h). They multiply four
// consecutive bytes of a row at a time by a panel of 32 columns of signed bytes; unsigned bytes are packed with 128
// subtracted. Zero points are not subtracted from each element but taken into account per row and per column. Let a and
// b be the elements of a row and a column of length k, and Z and Y their zero points. Let b' = b - 128 and y = Y - 128
// if b is unsigned, otherwise b' = b and y = Y, and let t be the value that the micro-kernels add to signed rows. Then
//   Σ (a - Z) (b - Y) = Σ (a + t) b' - (Z + t) Σ b' - y (Σ a - k Z)
// The second term is constant for a column and is the initial value of its sums. The third term is a row factor times a
// column factor. Panels of a constant and their column sums are computed once, for all sizes of the left operand.
//
// Without these micro-kernels, or with zero points other than a scalar or one per column of the right operand, both
// operands are converted to int32 before they are multiplied.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "backends/cpu/convolution/convolution_integers.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/lowering.h"
#include "backends/cpu/matrix/products.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"

namespace mpsgraph::cpu {
namespace {

constexpr int tile_columns = IntegerTiles::columns, quad = IntegerTiles::group;

// Return whether a zero point is known to be zero, and can therefore be omitted.
bool is_known_zero(const Operation& operation, size_t i) {
  const Operation* maker = operation.input(i)->operation;
  while (is_alias(*maker)) maker = maker->input(0)->operation;
  if (!maker->is("constant")) return false;
  const ConstantPtr& value = maker->attributes.data("value");
  for (int64_t e = 0; e < (value->is_splat() ? std::min<int64_t>(value->elements(), 1) : value->elements()); ++e)
    if (value->integer(e) != 0) return false;
  return true;
}

struct ZeroPoint {
  Slot slot = -1;  // -1 if there is no zero point
  bool is_signed = false;
  int64_t count = 0;
  int32_t at(const Frame& frame, int64_t i) const {
    if (slot < 0) return 0;
    const int64_t place = count == 1 ? 0 : i;
    return is_signed ? frame.at<const int8_t>(slot)[place] : frame.at<const uint8_t>(slot)[place];
  }
};

class ByteProduct final : public Kernel {
 public:
  ByteProduct(Lowering& lowering, const IntegerTiles& tiles, const ZeroPoint& left_zero, const ZeroPoint& right_zero)
      : p_(lowering.input(0).dims, lowering.input(1).dims, lowering.output().dims),
        tiles_(tiles),
        a_(lowering.input(0).slot),
        b_(lowering.input(1).slot),
        result_(lowering.output().slot),
        left_zero_(left_zero),
        right_zero_(right_zero),
        is_signed_(lowering.input(0).dtype == DType::int8),
        flip_(lowering.input(1).dtype == DType::uint8) {
    steps_ = (p_.k + quad - 1) / quad;
    panels_ = (p_.n + tile_columns - 1) / tile_columns;
    matrices_ = lowering.input(1).elements() / (p_.k * p_.n);
    rows_ = lowering.input(0).elements() / p_.k;
    const size_t bytes = static_cast<size_t>(matrices_ * panels_ * panel_bytes());
    const ConstantWeights constant = lowering.constant(1);
    if (constant)
      packed_ = prepacked(
          constant, cat("8-bit panels: ", p_.k, " ", p_.n, " ", flip_), bytes,
          [&](const std::byte* elements, std::byte* to) { pack_all(reinterpret_cast<const uint8_t*>(elements), to); });
    else
      panels_slot_ = lowering.scratch(bytes);
    for (int64_t i = 0; packed_ && i < matrices_ * panels_; ++i)
      runs_.push_back(
          runs_of_panel(tiles_, reinterpret_cast<const int8_t*>(packed_.get()) + i * panel_bytes(), steps_));
    const auto numbers = [&](int64_t count) { return lowering.scratch(static_cast<size_t>(count) * sizeof(int32_t)); };
    if (left_zero_.slot >= 0 || offset() != 0) starts_ = numbers(matrices_ * panels_ * tile_columns);
    if (right_zero_.slot >= 0 || flip_) columns_ = numbers(panels_ * tile_columns), terms_ = numbers(rows_);
    if (p_.k % quad != 0) copied_ = lowering.scratch(static_cast<size_t>(rows_ * steps_ * quad));
    cut();
  }

  void run(Frame& frame) const override {
    const std::byte* panels = packed_.get();
    if (!packed_) {
      pack_all(frame.at<const uint8_t>(b_), frame.at<std::byte>(panels_slot_));
      panels = frame.at<const std::byte>(panels_slot_);
    }
    prepare_columns(frame, panels);
    prepare_rows(frame);
    const int64_t items = p_.count() * row_parts_ * panel_parts_;
    parallel_items(items, [&](int64_t item, int64_t) {
      const TilesInUse use(tiles_);
      const int64_t part = item % row_parts_, of_panels = item / row_parts_ % panel_parts_;
      multiply(frame, panels, item / row_parts_ / panel_parts_, p_.m * part / row_parts_,
               p_.m * (part + 1) / row_parts_, panels_ * of_panels / panel_parts_,
               panels_ * (of_panels + 1) / panel_parts_);
    });
  }
  std::string description() const override {
    return cat("8-bit integer matmul in tiles", tiles_.begin ? ", with AMX" : "", packed_ ? ", packed weights" : "");
  }

 private:
  static constexpr int64_t least_products = 500000;  // minimum work per item, a few microseconds
  static constexpr int64_t cached_bytes = 1 << 18;  // bytes of panels that fit in L2 next to the rows

  // Bytes of a packed panel, which consists of its elements and the sum of each column.
  int64_t panel_bytes() const { return tile_columns * (steps_ * quad + static_cast<int64_t>(sizeof(int32_t))); }
  int32_t offset() const { return tiles_.offset(is_signed_); }
  const int32_t* sums_of(const std::byte* panel) const {
    return reinterpret_cast<const int32_t*>(panel + tile_columns * steps_ * quad);
  }

  // Split the rows and panels into work items, so that the panels of an item stay in cache while all of its rows are
  // multiplied.
  void cut() {
    const int64_t wanted = std::clamp<int64_t>(p_.count() * p_.m * p_.k * p_.n / least_products, 1,
                                               int64_t{thread_count()} * items_per_thread);
    const int64_t tiles_of_rows = (p_.m + tiles_.rows - 1) / tiles_.rows;
    panel_parts_ = std::min(panels_, (panels_ * panel_bytes() + cached_bytes - 1) / cached_bytes);
    if (tiles_of_rows == 1) panel_parts_ = std::clamp(wanted / p_.count(), panel_parts_, panels_);
    row_parts_ = std::clamp<int64_t>(wanted / (p_.count() * panel_parts_), 1, tiles_of_rows);
    panel_parts_ = std::clamp(wanted / (p_.count() * row_parts_), panel_parts_, panels_);
  }

  void pack_all(const uint8_t* matrices, std::byte* to) const {
    parallel_for(matrices_ * panels_, grain_for(panel_bytes()), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        pack(matrices + i / panels_ * p_.k * p_.n, i % panels_, to + i * panel_bytes());
    });
  }

  void pack(const uint8_t* matrix, int64_t panel, std::byte* to) const {
    const int64_t first = panel * tile_columns, width = std::min<int64_t>(tile_columns, p_.n - first);
    // groups of four rows that lie entirely within the matrix
    const int64_t whole = width < tile_columns ? 0 : p_.k / quad;
    const uint8_t flipped = flip_ ? 0x80 : 0;
    auto* bytes = reinterpret_cast<uint8_t*>(to);
    int32_t sums[tile_columns] = {};
    tiles_.pack(matrix + first, p_.n, whole, flipped, bytes, sums);
    for (int64_t i = whole; i < steps_; ++i) {  // pad the panel with zeros
      uint8_t rows[quad * tile_columns];
      std::fill_n(rows, quad * tile_columns, flipped);
      for (int64_t k = i * quad; k < std::min(p_.k, (i + 1) * quad); ++k)
        std::memcpy(rows + k % quad * tile_columns, matrix + k * p_.n + first, static_cast<size_t>(width));
      tiles_.pack(rows, tile_columns, 1, flipped, bytes + i * tile_columns * quad, sums);
    }
    std::memcpy(bytes + steps_ * tile_columns * quad, sums, sizeof sums);
  }

  // Compute two numbers per column, with which zero points are taken into account: the initial value of the column's
  // sums, and the column factor, whose product with a row factor is added to each sum.
  void prepare_columns(const Frame& frame, const std::byte* panels) const {
    if (starts_ >= 0) {
      const auto factor = 0U - static_cast<uint32_t>(left_zero_.at(frame, 0) + offset());
      auto* starts = frame.at<uint32_t>(starts_);
      parallel_for(matrices_ * panels_, grain_for(tile_columns * 8), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int32_t* sums = sums_of(panels + i * panel_bytes());
          for (int c = 0; c < tile_columns; ++c) starts[i * tile_columns + c] = factor * static_cast<uint32_t>(sums[c]);
        }
      });
    }
    if (columns_ < 0) return;
    auto* columns = frame.at<int32_t>(columns_);
    for (int64_t c = 0; c < panels_ * tile_columns; ++c)
      columns[c] = c < p_.n ? right_zero_.at(frame, c) - (flip_ ? 128 : 0) : 0;
  }

  void prepare_rows(const Frame& frame) const {
    if (terms_ < 0 && copied_ < 0) return;
    const auto* a = frame.at<const uint8_t>(a_);
    // all arithmetic is modulo 2^32
    const uint32_t zero = static_cast<uint32_t>(p_.k) * static_cast<uint32_t>(left_zero_.at(frame, 0));
    parallel_for(rows_, grain_for(p_.k), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const uint8_t* x = a + row * p_.k;
        if (copied_ >= 0) {
          uint8_t* to = frame.at<uint8_t>(copied_) + row * steps_ * quad;
          std::memcpy(to, x, static_cast<size_t>(p_.k));
          std::memset(to + p_.k, 0, static_cast<size_t>(steps_ * quad - p_.k));
        }
        if (terms_ < 0) continue;
        uint32_t sum = 0;
        if (is_signed_)
          for (int64_t i = 0; i < p_.k; ++i) sum += static_cast<uint32_t>(static_cast<int8_t>(x[i]));
        else
          for (int64_t i = 0; i < p_.k; ++i) sum += x[i];
        frame.at<uint32_t>(terms_)[row] = zero - sum;
      }
    });
  }

  void multiply(const Frame& frame, const std::byte* panels, int64_t which, int64_t row, int64_t end, int64_t first,
                int64_t last) const {
    const int64_t matrix = p_.b[static_cast<size_t>(which)] / (p_.k * p_.n);
    const int64_t first_row = p_.a[static_cast<size_t>(which)] / p_.k;
    const int64_t stride = copied_ >= 0 ? steps_ * quad : p_.k;
    const auto* a = frame.at<const uint8_t>(copied_ >= 0 ? copied_ : a_) + first_row * stride;
    int32_t* result = frame.at<int32_t>(result_) + which * p_.m * p_.n;
    const TileRun all{0, 0, steps_};
    IntegerEpilogue epilogue;
    epilogue.result = IntegerResult::int32;
    while (row < end) {
      const int count = tiles_.next_rows(end - row);
      const uint8_t* from[IntegerTiles::most_rows];
      std::byte* to[IntegerTiles::most_rows];
      for (int i = 0; i < count; ++i) {
        from[i] = a + (row + i) * stride;
        to[i] = reinterpret_cast<std::byte*>(result + (row + i) * p_.n + first * tile_columns);
      }
      if (terms_ >= 0) epilogue.row_terms = frame.at<const int32_t>(terms_) + first_row + row;
      for (int64_t p = first; p < last; ++p) {
        const int64_t column = p * tile_columns, at = matrix * panels_ + p;
        if (starts_ >= 0) epilogue.start = frame.at<const int32_t>(starts_) + at * tile_columns;
        if (columns_ >= 0) epilogue.column_terms = frame.at<const int32_t>(columns_) + column;
        const std::vector<TileRun>* runs = runs_.empty() ? nullptr : &runs_[static_cast<size_t>(at)];
        tiles_.multiply(count, from, is_signed_, runs ? runs->data() : &all,
                        runs ? static_cast<int64_t>(runs->size()) : 1,
                        reinterpret_cast<const int8_t*>(panels + at * panel_bytes()), to,
                        static_cast<int>(std::min<int64_t>(tile_columns, p_.n - column)), epilogue);
        for (int i = 0; i < count; ++i) to[i] += tile_columns * sizeof(int32_t);
      }
      row += count;
    }
  }

  Products p_;
  const IntegerTiles& tiles_;
  Slot a_, b_, result_, panels_slot_ = -1, starts_ = -1, columns_ = -1, terms_ = -1, copied_ = -1;
  ZeroPoint left_zero_, right_zero_;
  bool is_signed_, flip_;
  int64_t steps_, panels_, matrices_, rows_, row_parts_ = 1, panel_parts_ = 1;
  PackedPtr packed_;
  std::vector<std::vector<TileRun>> runs_;  // runs of each panel of packed weights
};

// Converts bytes to int32 and subtracts a zero point of any shape that broadcasts to the shape of the bytes.
struct LessZero {
  Operand from, zero, to;
  Dims strides;  // strides of the zero point along the operand's axes

  LessZero(Lowering& lowering, size_t i) : from(lowering.input(i)), to(from), strides(from.dims.size(), 0) {
    to.dtype = DType::int32;
    to.slot = lowering.scratch(to.bytes());
    if (lowering.input_count() <= i + 2) return;
    zero = lowering.input(i + 2);
    const Dims own = contiguous_strides(zero.dims);
    const size_t missing = from.dims.size() - zero.dims.size();
    for (size_t axis = 0; axis < zero.dims.size(); ++axis)
      if (zero.dims[axis] != 1) strides[axis + missing] = own[axis];
  }

  void run(const Frame& frame) const {
    const int64_t width = from.dims.back(), rows = width > 0 ? from.elements() / width : 0;
    parallel_for(rows, grain_for(width * 4), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t place = 0, rest = row;
        for (size_t axis = from.dims.size() - 1; axis-- > 0; rest /= from.dims[axis])
          place += rest % from.dims[axis] * strides[axis];
        if (from.dtype == DType::int8)
          fill<int8_t>(frame, row * width, width, place);
        else
          fill<uint8_t>(frame, row * width, width, place);
      }
    });
  }
  template <class T>
  void fill(const Frame& frame, int64_t at, int64_t width, int64_t place) const {
    const T* x = frame.at<const T>(from.slot) + at;
    int32_t* y = frame.at<int32_t>(to.slot) + at;
    if (zero.slot < 0) return static_cast<void>(std::copy_n(x, width, y));
    const T* z = frame.at<const T>(zero.slot) + place;
    const int64_t step = strides.back();
    for (int64_t i = 0; i < width; ++i) y[i] = x[i] - z[i * step];
  }
};

// The lowering that builds the int32 matmul. It presents the converted operands in place of the 8-bit ones.
struct AsWhole final : LoweringView {
  AsWhole(Lowering& given, Operand a, Operand b) : LoweringView(given), operands{std::move(a), std::move(b)} {}
  Operand input(size_t i) const override { return operands[i]; }
  size_t input_count() const override { return operands.size(); }
  std::array<Operand, 2> operands;
};

std::unique_ptr<Kernel> lower_byte_product(Lowering& lowering) {
  const auto zero_point = [&](size_t i) -> std::optional<ZeroPoint> {
    if (lowering.input_count() <= i || is_known_zero(lowering.operation(), i)) return ZeroPoint{};
    const Operand zero = lowering.input(i);
    const bool by_column = i == 3 && !zero.dims.empty() && zero.elements() == zero.dims.back();
    if (zero.elements() != 1 && !by_column) return {};
    return ZeroPoint{zero.slot, zero.dtype == DType::int8, zero.elements()};
  };
  const IntegerTiles* tiles = lowering.reference_only() ? nullptr : integer_sum_tiles();
  const auto left = zero_point(2), right = zero_point(3);
  if (tiles && left && right && lowering.output().elements() > 0 && lowering.input(0).elements() > 0)
    return std::make_unique<ByteProduct>(lowering, *tiles, *left, *right);
  const LessZero x(lowering, 0), y(lowering, 1);
  AsWhole whole(lowering, x.to, y.to);
  std::shared_ptr<Kernel> product = make_kernel("matrix_multiplication", whole);
  const std::string description = cat("as int32, ", product->description());
  return kernel(
      [=, product = std::move(product)](Frame& f) {
        x.run(f);
        y.run(f);
        product->run(f);
      },
      description);
}

}  // namespace

const Kernels byte_product_kernels("byte_product",
                                   [] { define_kernel("integer_matrix_multiplication", lower_byte_product); });

}  // namespace mpsgraph::cpu
