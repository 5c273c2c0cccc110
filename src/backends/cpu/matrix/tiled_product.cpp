// Tiled matmul. The columns of the right operand are packed into panels: once if the operand is constant, otherwise at
// the start of each run. With few rows, the columns are read in place. A tile sums over the whole inner dimension in
// registers, so each element is summed by one thread, and the results are bitwise identical for any number of threads.
#include "backends/cpu/matrix/tiled_product.h"

#include <algorithm>

#include "backends/cpu/convolution/convolution_tiles.h"
#include "backends/cpu/matrix/products.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"

namespace mpsgraph::cpu {
namespace {

using Tiles = ConvolutionTiles<float, float>;

class TiledProduct final : public Kernel {
 public:
  TiledProduct(Lowering& lowering, const Tiles& tiles, const Products& products, int64_t columns, bool transpose_b,
               const ProductEpilogue& extras)
      : tiles_(tiles),
        a_(lowering.input(0).slot),
        b_(lowering.input(1).slot),
        result_(lowering.output().slot),
        extras_(extras),
        transpose_b_(transpose_b),
        rows_(products.m),
        steps_(products.k),
        columns_(columns),
        panels_((columns + tiles.columns - 1) / tiles.columns),
        a_offsets_(products.a),
        block_rows_(std::min<int64_t>(tiles_of_block * tiles.rows, products.m)),
        block_panels_(std::min(panels_of_block, panels_)) {
    for (const int64_t offset : products.b) {
      const auto known = std::find(b_offsets_.begin(), b_offsets_.end(), offset);
      which_b_.push_back(known - b_offsets_.begin());
      if (known == b_offsets_.end()) b_offsets_.push_back(offset);
    }
    const int64_t work = rows_ * steps_ * columns_ * count();
    threads_ = static_cast<int>(std::clamp<int64_t>(work / products_of_thread, 1, thread_count()));
    while (block_panels_ > 1 && blocks() < threads_ * items_for_a_thread) --block_panels_;
    if (const ConstantWeights constant = lowering.constant(1)) {
      prepack(constant);
      return;
    }
    in_place_ = !transpose_b_ && rows_ <= few_rows;
    // Number of panels to pack. If the matrix is read in place, only a narrow last panel is packed.
    to_pack_ = in_place_ ? columns_ % tiles.columns != 0 : panels_;
    panels_slot_ = lowering.scratch(bytes());
  }

  void run(Frame& frame) const override {
    const float* b = frame.at<const float>(b_);
    const auto* packed = reinterpret_cast<const float*>(packed_.get());
    float* const own = packed ? nullptr : frame.at<float>(panels_slot_);
    const int64_t to_pack = packed ? 0 : static_cast<int64_t>(b_offsets_.size()) * to_pack_;
    parallel_phases(threads_, {to_pack, blocks()}, [&](int64_t phase, Items& items) {
      const TilesInUse in_use(tiles_);
      for (int64_t i : items)
        if (phase == 0)
          pack(b, i / to_pack_, panels_ - 1 - i % to_pack_, own);
        else
          multiply(frame, i, packed ? packed : own);
    });
  }
  std::string description() const override {
    return cat("tiled matmul, ",
               in_place_ ? "read in place, "
               : packed_ ? "packed once, "
                         : "packed, ",
               blocks(), " blocks");
  }

 private:
  int64_t count() const { return static_cast<int64_t>(a_offsets_.size()); }
  int64_t down() const { return (rows_ + block_rows_ - 1) / block_rows_; }
  int64_t across() const { return (panels_ + block_panels_ - 1) / block_panels_; }
  int64_t blocks() const { return count() * down() * across(); }
  int64_t panel_size() const { return steps_ * tiles_.columns; }
  size_t bytes() const { return b_offsets_.size() * static_cast<size_t>(panels_ * panel_size()) * sizeof(float); }
  int width(int64_t panel) const {
    return static_cast<int>(std::min<int64_t>(tiles_.columns, columns_ - panel * tiles_.columns));
  }

  void prepack(const ConstantWeights& constant) {
    packed_ = prepacked(constant,
                        cat("tiles of ", steps_, " x ", columns_, transpose_b_ ? " transposed, " : ", ", tiles_.columns,
                            " columns each"),
                        bytes(), [&](const std::byte* from, std::byte* to) {
                          const auto* b = reinterpret_cast<const float*>(from);
                          auto* panels = reinterpret_cast<float*>(to);
                          for (int64_t which = 0; which < static_cast<int64_t>(b_offsets_.size()); ++which)
                            for (int64_t panel = 0; panel < panels_; ++panel) pack(b, which, panel, panels);
                        });
  }

  void pack(const float* b, int64_t which, int64_t panel, float* panels) const {
    const float* from =
        b + b_offsets_[static_cast<size_t>(which)] + panel * tiles_.columns * (transpose_b_ ? steps_ : 1);
    tiles_.pack(from, transpose_b_ ? 1 : columns_, transpose_b_ ? steps_ : 1, steps_, width(panel),
                panels + (which * panels_ + panel) * panel_size());
  }

  void multiply(Frame& frame, int64_t block, const float* panels) const {
    const int64_t product = block / (down() * across()), row = block / across() % down() * block_rows_;
    const int64_t first_panel = block % across() * block_panels_;
    const int64_t last_panel = std::min(first_panel + block_panels_, panels_),
                  last_row = std::min(row + block_rows_, rows_);
    const int64_t which = which_b_[static_cast<size_t>(product)];
    const float* a = frame.at<const float>(a_) + a_offsets_[static_cast<size_t>(product)];
    float* to = frame.at<float>(result_) + product * rows_ * columns_;
    TileEpilogue<float> epilogue;
    epilogue.relu = extras_.relu;
    if (extras_.residual >= 0)
      epilogue.residual = frame.at<const std::byte>(extras_.residual) - frame.at<const std::byte>(result_);
    for (int64_t panel = first_panel; panel < last_panel; ++panel) {
      poll_run();
      const int64_t column = panel * tiles_.columns;
      if (extras_.bias >= 0) epilogue.bias = frame.at<const float>(extras_.bias) + column;
      const bool plain = in_place_ && width(panel) == tiles_.columns;
      const float* matrix = plain ? frame.at<const float>(b_) + b_offsets_[static_cast<size_t>(which)] + column
                                  : panels + (which * panels_ + panel) * panel_size();
      for (int64_t r = row; r < last_row;) {
        const int height = tiles_.next_rows(last_row - r);
        if (plain)
          multiply_in_place(height, a + r * steps_, matrix, to + r * columns_ + column, epilogue);
        else
          multiply_packed(height, a + r * steps_, matrix, to + r * columns_ + column, width(panel), epilogue);
        r += height;
      }
    }
  }

  void multiply_packed(int height, const float* a, const float* panel, float* to, int width,
                       const TileEpilogue<float>& epilogue) const {
    const float* rows[Tiles::most_rows];
    float* out[Tiles::most_rows];
    for (int r = 0; r < height; ++r) rows[r] = a + r * steps_, out[r] = to + r * columns_;
    const TileRun run{0, 0, steps_};
    tiles_.multiply(height, rows, &run, 1, panel, out, width, epilogue);
  }

  void multiply_in_place(int height, const float* a, const float* matrix, float* to,
                         const TileEpilogue<float>& epilogue) const {
    alignas(64) float sums[Tiles::most_rows * most_columns];
    tiles_.multiply_plain(height, a, steps_, steps_, matrix, columns_, true, sums);
    for (int r = 0; r < height; ++r)
      tiles_.finish(sums + r * tiles_.columns, to + r * columns_, tiles_.columns, epilogue);
  }

  static constexpr int64_t few_rows = 12;  // maximum rows for which packing does not pay off
  static constexpr int64_t tiles_of_block = 10;  // row tiles that are multiplied by a panel while it is in L1
  static constexpr int64_t panels_of_block = 8;  // panels per block
  static constexpr int64_t items_for_a_thread = 4;
  static constexpr int64_t products_of_thread = 1 << 18;  // minimum multiply-adds for each thread
  static constexpr int most_columns = 32;  // maximum columns of the tiles of any instruction set

  const Tiles& tiles_;
  Slot a_, b_, result_, panels_slot_ = -1;
  ProductEpilogue extras_;
  bool transpose_b_, in_place_ = false;
  int64_t rows_, steps_, columns_, panels_;
  // operand offsets of each matmul of the batch; several matmuls may share an offset of b, so b_offsets_ lists the
  // distinct ones, and which_b_ holds, for each matmul, an index into b_offsets_
  std::vector<int64_t> a_offsets_, b_offsets_, which_b_;
  int64_t block_rows_, block_panels_, to_pack_ = 0;
  int threads_ = 1;
  PackedPtr packed_;  // null if panels are packed on each run
};

// Return whether to use a tiled matmul. A constant right operand is packed once, unless it is large, because this would
// keep a second copy of most of a model. Packing on each run pays off from `rows_to_pack_for` rows on.
bool suits(const Products& products, int64_t columns, bool constant, bool transpose_b) {
  constexpr int64_t most_packed = 1 << 18;  // maximum elements of a packed constant, 1 MB
  constexpr int64_t most_at_once = 1 << 14, rows_to_pack_for = 24;
  // Maximum distance between rows of the right operand, in elements. Rows further apart are slow to pack.
  constexpr int64_t far_apart = 512;
  const int64_t rows = products.m, steps = products.k, work = rows * steps * columns * products.count();
  if (constant && steps * columns <= most_packed) return true;
  if (rows >= rows_to_pack_for && steps * columns <= most_at_once && columns < far_apart) return true;
  return work <= 1 << 18 && (!transpose_b || rows >= 12);
}

}  // namespace

std::unique_ptr<Kernel> tiled_product(Lowering& lowering, bool transpose_b, const ProductEpilogue& extras) {
  const Tiles* tiles = convolution_tiles<float, float>();
  const Operand a = lowering.input(0), b = lowering.input(1), result = lowering.output();
  if (!tiles || a.dtype != DType::float32 || a.dims.size() < 2 || b.dims.size() < 2) return nullptr;
  const Products products(a.dims, b.dims, result.dims);
  const int64_t columns = result.dims.back();
  if (products.k == 0) return nullptr;
  // Do not call lowering.constant(1) here: calling it promises that the kernel will not read the operand's slot.
  if (!suits(products, columns, constant_operand(lowering.operation(), 1) != nullptr, transpose_b)) return nullptr;
  return std::make_unique<TiledProduct>(lowering, *tiles, products, columns, transpose_b, extras);
}

}  // namespace mpsgraph::cpu
