// Matmul with blocked GEMM, divided into pieces of the result that threads take one by one. Each piece packs its own
// operands, except constant right operands, which are packed once.
//
// How a product is summed depends only on its inner dimension, so the results are bitwise identical for any division
// and any number of threads.
#include "backends/cpu/matrix/packed_product.h"

#include <algorithm>

#include "backends/cpu/dispatch.h"
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

// Return the fastest division of a batch of products, according to a rough model of the time in multiply-adds. An
// element of the right operand takes `right_time` to read or pack. Rows are divided into whole tiles, and columns into
// whole panels.
template <class T>
GemmPiece best_division(int64_t m, int64_t n, int64_t k, int64_t count, bool packed, double right_time) {
  // Time to pack an element of the left operand, and to start the threads.
  const double left_time = 10, start_time = 3e5;
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
    piece_ =
        best_division<T>(products.m, products.n, products.k, products.count(), packed_ != nullptr, packed_ ? 2 : 8);
    down_ = pieces_of(products.m, piece_.rows), across_ = pieces_of(products.n, piece_.columns);
  }

  void run(Frame& frame) const override {
    parallel_parts(products_.count() * down_ * across_, [&](int64_t i) {
      multiply(frame, i / (down_ * across_), i / across_ % down_ * piece_.rows, i % across_ * piece_.columns);
    });
  }
  std::string description() const override {
    return cat("packed matmul, ", packed_ ? "packed once, " : "", products_.count() * down_ * across_, " blocks");
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

  Matrix<const T> left(const T* a) const {
    if (transpose_a_) return {a, products_.m, products_.k, 1, products_.m};
    return {a, products_.m, products_.k, products_.k, 1};
  }
  Matrix<const T> right(const T* b) const {
    if (transpose_b_) return {b, products_.k, products_.n, 1, products_.k};
    return {b, products_.k, products_.n, products_.n, 1};
  }

  void multiply(Frame& frame, int64_t product, int64_t row, int64_t column) const {
    const auto i = static_cast<size_t>(product);
    const int64_t rows = std::min(piece_.rows, products_.m - row),
                  columns = std::min(piece_.columns, products_.n - column);
    const int64_t offset = (product * products_.m + row) * products_.n + column;
    const auto a = left(frame.at<const T>(a_) + products_.a[i]).block(row, 0, rows, products_.k);
    const Matrix<T> c{frame.at<T>(result_) + offset, rows, columns, products_.n, 1};
    const GemmEpilogue<T> epilogue{extras_.bias >= 0 ? frame.at<const T>(extras_.bias) + column : nullptr,
                                   extras_.residual >= 0 ? frame.at<const T>(extras_.residual) + offset : nullptr,
                                   extras_.relu};
    if (!packed_) {
      const auto b = right(frame.at<const T>(b_) + products_.b[i]).block(0, column, products_.k, columns);
      return gemm<T>(a, b, c, false, epilogue);
    }
    const int64_t width = gemm_tiles<T>().columns;
    panels_.multiply(a, reinterpret_cast<const T*>(packed_.get()) + right_of_[i] * panels_.elements(), c,
                     column / width, pieces_of(column + columns, width), epilogue);
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

}  // namespace

GemmPiece gemm_division(int64_t rows, int64_t columns, int64_t steps, double right_time) {
  return best_division<float>(rows, columns, steps, 1, false, right_time);
}

bool packing_pays(const Lowering& lowering) {
  constexpr int64_t least_rows = 64, least_columns = 32;
  const Products products = products_of(lowering);
  return products.m >= least_rows && products.n >= least_columns;
}

std::unique_ptr<Kernel> packed_product(Lowering& lowering, const ProductEpilogue& extras) {
  const Products products = products_of(lowering);
  if (lowering.input(0).dtype == DType::float64)
    return std::make_unique<PackedProduct<double>>(lowering, products, extras);
  return std::make_unique<PackedProduct<float>>(lowering, products, extras);
}

}  // namespace mpsgraph::cpu
