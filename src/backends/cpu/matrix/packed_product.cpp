// Matmul with blocked GEMM, divided into pieces of the result that threads take one by one. Each piece packs its part
// of the left operand, and of the right one, except constant right operands, which are packed once. In a matmul with
// many rows, the threads pack the right operand together, a few chunks of the inner dimension and columns at a time:
// while one part is multiplied, the next one is packed.
//
// How a product is summed depends only on its inner dimension, so the results are bitwise identical for any division
// and any number of threads.
#include "backends/cpu/matrix/packed_product.h"

#include <algorithm>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/matrix/gemm.h"
#include "backends/cpu/matrix/products.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t most_constant = 1 << 20;  // maximum bytes of a packed constant, of which the original is kept as well

bool is_transposed(const Lowering& lowering, std::string_view name) {
  return lowering.attributes().has(name) && lowering.attributes().boolean(name);
}

Products products_of(const Lowering& lowering) {
  return {lowering.input(0).dims, lowering.input(1).dims, lowering.output().dims,
          is_transposed(lowering, "transpose_a"), is_transposed(lowering, "transpose_b")};
}

// The time that a piece takes for each element of its operands to pack it, or to read the packed right operand, in
// multiply-adds.
struct OperandTimes {
  double left, right;
};
constexpr OperandTimes packing_both{10, 8}, reading_packed{10, 2};
// With panels that are shared by the threads, larger pieces than the times above suggest were faster with AVX-512.
constexpr OperandTimes reading_shared{24, 4};

// View an operand that is possibly stored transposed.
template <class T>
Matrix<const T> operand(const T* data, int64_t rows, int64_t columns, bool transposed) {
  if (transposed) return {data, rows, columns, 1, rows};
  return {data, rows, columns, columns, 1};
}

// Return the epilogue of a piece of the result that begins at this column and at this offset of the result.
template <class T>
GemmEpilogue<T> epilogue_at(Frame& frame, const ProductEpilogue& extras, int64_t column, int64_t offset) {
  return {extras.bias >= 0 ? frame.at<const T>(extras.bias) + column : nullptr,
          extras.residual >= 0 ? frame.at<const T>(extras.residual) + offset : nullptr, extras.relu};
}

// Return the fastest division of a batch of products, according to a rough model of the time in multiply-adds. Rows are
// divided into whole tiles, and columns into whole panels.
template <class T>
GemmPiece best_division(int64_t m, int64_t n, int64_t k, int64_t count, bool packed, OperandTimes times) {
  const auto [left_time, right_time] = times;
  constexpr double start_time = 3e5;  // of the threads
  constexpr double late = 0.25;  // part of a piece's time for which threads wait at the end
  constexpr int64_t most_pieces = 256;
  const GemmTiles<T>& tiles = gemm_tiles<T>();
  const int64_t threads = thread_count(), down = std::max<int64_t>(1, pieces_of(m, tiles.rows)),
                across = std::max<int64_t>(1, pieces_of(n, tiles.columns));
  GemmPiece best{};
  double least = 0;
  for (int64_t i = 1; i <= std::min(down, most_pieces); ++i)
    for (int64_t j = 1; j <= across && i * j <= most_pieces; ++j) {
      const int64_t rows = pieces_of(down, i) * tiles.rows, columns = pieces_of(across, j) * tiles.columns;
      const int64_t pieces = count * pieces_of(m, rows) * pieces_of(n, columns);
      const auto h = static_cast<double>(std::min(rows, m)), w = static_cast<double>(columns);
      // gemm() packs each right block once, and the left operand for each right block, unless it is one left block.
      // Packed panels are read once for each left block.
      const int64_t row_bytes = rows * int64_t{sizeof(T)}, column_bytes = columns * int64_t{sizeof(T)};
      const bool once = packed || row_bytes <= gemm_left_bytes;
      const auto lefts = static_cast<double>(once ? 1 : pieces_of(column_bytes, gemm_right_bytes));
      const auto rights = static_cast<double>(packed ? pieces_of(row_bytes, gemm_left_bytes) : 1);
      const double piece = static_cast<double>(k) * (h * w + left_time * h * lefts + right_time * w * rights);
      double time = piece * static_cast<double>(pieces_of(pieces, threads));
      if (threads > 1 && pieces > 1) time += piece * late + start_time;
      if (least > 0 && time >= least) continue;
      least = time;
      best = {rows, columns};
    }
  return best;
}

template <class T>
class PackedProduct final : public Kernel {
 public:
  PackedProduct(Lowering& lowering, const Products& products, const ProductEpilogue& extras)
      : a_(lowering.input(0).slot),
        b_(lowering.input(1).slot),
        result_(lowering.output().slot),
        extras_(extras),
        transpose_a_(is_transposed(lowering, "transpose_a")),
        transpose_b_(is_transposed(lowering, "transpose_b")),
        products_(products),
        panels_(products.k, products.n) {
    for (const int64_t offset : products.b) {
      const auto known = std::find(rights_.begin(), rights_.end(), offset);
      right_of_.push_back(known - rights_.begin());
      if (known == rights_.end()) rights_.push_back(offset);
    }
    const int64_t bytes = static_cast<int64_t>(rights_.size() * sizeof(T)) * panels_.elements();
    if (bytes <= most_constant)
      if (const ConstantWeights constant = lowering.constant(1)) prepack(constant, static_cast<size_t>(bytes));
    piece_ = best_division<T>(products.m, products.n, products.k, products.count(), packed_ != nullptr,
                              packed_ ? reading_packed : packing_both);
    down_ = pieces_of(products.m, piece_.rows), across_ = pieces_of(products.n, piece_.columns);
  }

  bool is_packed() const { return packed_ != nullptr; }
  int64_t blocks() const { return products_.count() * down_ * across_; }

  void run(Frame& frame) const override {
    parallel_parts(blocks(), [&](int64_t i) {
      multiply(frame, i / (down_ * across_), i / across_ % down_ * piece_.rows, i % across_ * piece_.columns);
    });
  }
  std::string description() const override {
    return cat("packed matmul, ", packed_ ? "packed once, " : "", blocks(), " blocks");
  }

 private:
  void prepack(const ConstantWeights& constant, size_t bytes) {
    packed_ = prepacked(constant,
                        cat("GEMM panels of ", products_.k, " x ", products_.n, transpose_b_ ? " transposed, " : ", ",
                            gemm_tiles<T>().columns, " columns and ", gemm_chunk<T>(products_.k), " steps each"),
                        bytes, [&](const std::byte* from, std::byte* to) {
                          auto* panels = reinterpret_cast<T*>(to);
                          for (const int64_t offset : rights_) {
                            for (int64_t i = 0; i < panels_.pieces(); ++i)
                              panels_.pack(right(reinterpret_cast<const T*>(from) + offset), i, panels);
                            panels += panels_.elements();
                          }
                        });
  }

  Matrix<const T> right(const T* b) const { return operand(b, products_.k, products_.n, transpose_b_); }

  void multiply(Frame& frame, int64_t product, int64_t row, int64_t column) const {
    const auto i = static_cast<size_t>(product);
    const int64_t rows = std::min(piece_.rows, products_.m - row),
                  columns = std::min(piece_.columns, products_.n - column);
    const int64_t offset = (product * products_.m + row) * products_.n + column;
    const auto a = operand(frame.at<const T>(a_) + products_.a[i], products_.m, products_.k, transpose_a_)
                       .block(row, 0, rows, products_.k);
    const Matrix<T> c{frame.at<T>(result_) + offset, rows, columns, products_.n, 1};
    const GemmEpilogue<T> epilogue = epilogue_at<T>(frame, extras_, column, offset);
    if (!packed_) {
      const auto b = right(frame.at<const T>(b_) + products_.b[i]).block(0, column, products_.k, columns);
      return gemm<T>(a, b, c, false, epilogue);
    }
    const int64_t width = gemm_tiles<T>().columns;
    panels_.multiply(a, reinterpret_cast<const T*>(packed_.get()) + right_of_[i] * panels_.elements(), c,
                     column / width, pieces_of(column + columns, width), false, epilogue);
  }

  Slot a_, b_, result_;
  ProductEpilogue extras_;
  bool transpose_a_, transpose_b_;
  Products products_;
  GemmPanels<T> panels_;
  // distinct offsets of right operands, and for each product an index into them
  std::vector<int64_t> rights_, right_of_;
  PackedPtr packed_;  // null if panels are packed on each run
  GemmPiece piece_{};
  int64_t down_ = 0, across_ = 0;
};

// A single matmul whose right operand is not constant, on several threads.
template <class T>
class SharedProduct final : public Kernel {
 public:
  SharedProduct(Lowering& lowering, const Products& products, const ProductEpilogue& extras)
      : a_(lowering.input(0).slot),
        b_(lowering.input(1).slot),
        result_(lowering.output().slot),
        extras_(extras),
        m_(products.m),
        n_(products.n),
        k_(products.k),
        transpose_a_(is_transposed(lowering, "transpose_a")),
        transpose_b_(is_transposed(lowering, "transpose_b")) {
    const int64_t chunk = gemm_chunk<T>(k_), chunks = pieces_of(k_, chunk), width = gemm_tiles<T>().columns;
    const int64_t most = std::max(width, part_elements / chunk / width * width);
    const int64_t columns = pieces_of(pieces_of(n_, pieces_of(n_, most)), width) * width;
    const int64_t at_once = std::max<int64_t>(1, part_elements / (chunk * columns));
    const int64_t steps = pieces_of(chunks, pieces_of(chunks, at_once)) * chunk;
    for (int64_t column = 0; column < n_; column += columns)
      for (int64_t step = 0; step < k_; step += steps) {
        Part part{step, std::min(steps, k_ - step), column, std::min(columns, n_ - column), chunk};
        part.piece = best_division<T>(m_, part.columns, part.steps, 1, true, reading_shared);
        part.across = pieces_of(part.columns, part.piece.columns);
        part.pieces = pieces_of(m_, part.piece.rows) * part.across;
        elements_ = std::max(elements_, part.panels.elements());
        parts_.push_back(part);
      }
    panels_ = lowering.scratch(static_cast<size_t>(elements_) * (parts_.size() > 1 ? 2 : 1) * sizeof(T));
  }

  // In phase i, part i - 1 is multiplied and part i is packed.
  void run(Frame& frame) const override {
    const auto pieces = [&](size_t phase) { return phase > 0 ? parts_[phase - 1].pieces : 0; };
    const auto packs = [&](size_t phase) { return phase < parts_.size() ? parts_[phase].panels.pieces() : 0; };
    const auto items_of = [&](int64_t phase) {
      return pieces(static_cast<size_t>(phase)) + packs(static_cast<size_t>(phase));
    };
    parallel_phases(thread_count(), static_cast<int64_t>(parts_.size()) + 1, items_of,
                    [&](int64_t number, Items& items) {
                      const auto phase = static_cast<size_t>(number);
                      const int64_t count = pieces(phase);
                      for (const int64_t item : items)
                        item < count ? multiply(frame, phase - 1, item) : pack(frame, phase, item - count);
                    });
  }
  std::string description() const override {
    int64_t pieces = 0;
    for (const Part& part : parts_) pieces += part.pieces;
    return cat("packed matmul, panels shared by all threads, ", pieces, " blocks");
  }

 private:
  static constexpr int64_t part_elements = (2 << 20) / sizeof(T);  // of packed panels, which stay in an outer cache

  // Steps of the inner dimension and columns whose panels are packed together.
  struct Part {
    int64_t step, steps, column, columns, chunk;
    GemmPanels<T> panels{steps, columns, chunk};
    GemmPiece piece{};
    int64_t across = 0, pieces = 0;
  };

  T* panels_of(Frame& frame, size_t part) const {
    return frame.at<T>(panels_) + (part % 2) * static_cast<size_t>(elements_);
  }
  void pack(Frame& frame, size_t which, int64_t piece) const {
    const Part& part = parts_[which];
    const auto right = operand(frame.at<const T>(b_), k_, n_, transpose_b_);
    part.panels.pack(right.block(part.step, part.column, part.steps, part.columns), piece, panels_of(frame, which));
  }
  void multiply(Frame& frame, size_t which, int64_t piece) const {
    const Part& part = parts_[which];
    const int64_t row = piece / part.across * part.piece.rows, begin = piece % part.across * part.piece.columns;
    const int64_t rows = std::min(part.piece.rows, m_ - row),
                  columns = std::min(part.piece.columns, part.columns - begin);
    const int64_t column = part.column + begin, offset = row * n_ + column, width = gemm_tiles<T>().columns;
    const auto left = operand(frame.at<const T>(a_), m_, k_, transpose_a_);
    const bool last = part.step + part.steps == k_;
    const auto epilogue = last ? epilogue_at<T>(frame, extras_, column, offset) : GemmEpilogue<T>{};
    part.panels.multiply(left.block(row, part.step, rows, part.steps), panels_of(frame, which),
                         {frame.at<T>(result_) + offset, rows, columns, n_, 1}, begin / width,
                         pieces_of(begin + columns, width), part.step > 0, epilogue);
  }

  Slot a_, b_, result_, panels_ = -1;
  ProductEpilogue extras_;
  int64_t m_, n_, k_, elements_ = 0;
  bool transpose_a_, transpose_b_;
  std::vector<Part> parts_;
};

template <class T>
std::unique_ptr<Kernel> product_of(Lowering& lowering, const Products& products, const ProductEpilogue& extras) {
  // Threads that share packed panels wait for each other. This takes longer than packing panels for each thread if a
  // thread computes only a few rows, or if vectors are so short that packing takes a small part of the time.
  constexpr int64_t least_rows = 192, least_vector = 64;
  const bool pays = products.m >= least_rows * thread_count() &&
                    gemm_tiles<T>().lanes * static_cast<int64_t>(sizeof(T)) >= least_vector;
  auto kernel = std::make_unique<PackedProduct<T>>(lowering, products, extras);
  const bool can_share = thread_count() > 1 && products.count() == 1 && products.k > 0 && !kernel->is_packed();
  if (!can_share || !wanted("shared_panels").value_or(pays)) return kernel;
  return std::make_unique<SharedProduct<T>>(lowering, products, extras);
}

}  // namespace

GemmPiece gemm_division(int64_t rows, int64_t columns, int64_t steps, double right_time) {
  return best_division<float>(rows, columns, steps, 1, false, {packing_both.left, right_time});
}

bool packing_pays(const Lowering& lowering) {
  constexpr int64_t least_rows = 64, least_columns = 32;
  const Products products = products_of(lowering);
  return products.m >= least_rows && products.n >= least_columns;
}

std::unique_ptr<Kernel> packed_product(Lowering& lowering, const ProductEpilogue& extras) {
  const Products products = products_of(lowering);
  if (lowering.input(0).dtype == DType::float64) return product_of<double>(lowering, products, extras);
  return product_of<float>(lowering, products, extras);
}

}  // namespace mpsgraph::cpu
