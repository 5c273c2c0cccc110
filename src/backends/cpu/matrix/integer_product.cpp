// Matmul of integers and bools.
//
// 32- and 64-bit integers use register tiles (integer_tiles.h), and each panel of columns is multiplied by one tile of
// rows after another. With many tiles of rows, panels are packed so that their rows are contiguous; panels of a
// constant are packed once. Shorter integers are widened to 32 bits, and the low bits of the result are kept. A bool
// counts as 0 or 1, and a nonzero result is true.
#include "backends/cpu/matrix/integer_product.h"

#include <algorithm>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/matrix/integer_tiles.h"
#include "backends/cpu/matrix/products.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"
#include "backends/cpu/wide_kernels.h"

namespace mpsgraph::cpu {
namespace {

template <class T>
const WholeTiles<T>& whole_tiles() {
  if constexpr (sizeof(T) == 4)
    return tiles_of_32_bits();
  else
    return tiles_of_64_bits();
}

template <class T>
class WholeProduct final : public Kernel {
 public:
  explicit WholeProduct(Lowering& lowering)
      : p_(lowering.input(0).dims, lowering.input(1).dims, lowering.output().dims),
        tiles_(whole_tiles<T>()),
        a_(lowering.input(0).slot),
        b_(lowering.input(1).slot),
        result_(lowering.output().slot) {
    if (p_.count() == 0 || p_.m == 0 || p_.n == 0) return;
    const int64_t columns = tiles_.columns, panel = p_.k * columns;
    panels_ = (p_.n + columns - 1) / columns;
    packs_ = p_.m > few_tiles * tiles_.rows;
    const int64_t matrices = p_.k > 0 ? lowering.input(1).elements() / (p_.k * p_.n) : 0;
    if (const ConstantWeights secondary = packs_ && matrices > 0 ? lowering.constant(1) : ConstantWeights{})
      packed_ = prepacked(
          secondary, cat("integer panels: ", p_.k, " ", p_.n, " ", columns, " ", sizeof(T)),
          static_cast<size_t>(matrices * panels_ * panel) * sizeof(T), [&](const std::byte* elements, std::byte* to) {
            const T* from = reinterpret_cast<const T*>(elements);
            parallel_for(matrices * panels_, 1, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i)
                pack(from + i / panels_ * p_.k * p_.n, i % panels_, reinterpret_cast<T*>(to) + i * panel);
            });
          });
    // Split the work into items of similar size: panels or, if there are few panels, parts of the rows of each panel.
    const int64_t units = p_.count() * panels_, wanted = int64_t{thread_count()} * items_per_thread;
    const int64_t work = units * p_.m * std::max<int64_t>(p_.k, 1) * columns;
    const int64_t useful = std::clamp<int64_t>(work / least_products, 1, wanted);
    row_parts_ = std::clamp<int64_t>(useful / units, 1, std::max<int64_t>(p_.m / (few_tiles * tiles_.rows), 1));
    items_ = std::min(units * row_parts_, std::max(useful, row_parts_));
    if (!packed_) panel_scratch_ = lowering.scratch(static_cast<size_t>(thread_count() * panel) * sizeof(T));
  }

  void run(Frame& frame) const override {
    const int64_t units = p_.count() * panels_ * row_parts_;
    parallel_items(items_, [&](int64_t item, int64_t member) {
      for (int64_t u = units * item / items_, end = units * (item + 1) / items_; u < end; ++u) {
        poll_run();
        unit(frame, u, member);
      }
    });
  }
  std::string description() const override {
    return cat(8 * sizeof(T), "-bit integer matmul in tiles", packed_ ? ", packed weights" : "");
  }

 private:
  static constexpr int64_t few_tiles = 2;  // number of row tiles up to which packing costs as much as it saves
  static constexpr int64_t least_products = 1 << 18;  // minimum work per item, a few microseconds

  void pack(const T* matrix, int64_t panel, T* to) const {
    const int64_t columns = tiles_.columns, first = panel * columns, width = std::min(columns, p_.n - first);
    for (int64_t k = 0; k < p_.k; ++k, to += columns) {
      std::copy_n(matrix + k * p_.n + first, width, to);
      for (int64_t c = width; c < columns; ++c) to[c] = 0;
    }
  }

  // Multiply some rows of one matmul by a panel.
  void unit(Frame& frame, int64_t u, int64_t member) const {
    const int64_t part = u % row_parts_, panel = u / row_parts_ % panels_, which = u / row_parts_ / panels_;
    const int64_t columns = tiles_.columns, first = panel * columns, width = std::min(columns, p_.n - first);
    const int64_t begin = p_.m * part / row_parts_, end = p_.m * (part + 1) / row_parts_;
    const int64_t matrix = p_.b[static_cast<size_t>(which)];
    const T *a = frame.at<const T>(a_) + p_.a[static_cast<size_t>(which)], *b = frame.at<const T>(b_) + matrix + first;
    T* out = frame.at<T>(result_) + which * p_.m * p_.n + first;
    int64_t stride = p_.n;
    if (packed_) {
      b = reinterpret_cast<const T*>(packed_.get()) + (matrix / (p_.k * p_.n) * panels_ + panel) * p_.k * columns;
      stride = columns;
    } else if (packs_ || width < columns) {
      T* own = frame.at<T>(panel_scratch_) + member * p_.k * columns;
      pack(frame.at<const T>(b_) + matrix, panel, own);
      b = own, stride = columns;
    }
    for (int64_t row = begin; row < end; row += tiles_.rows)
      tiles_.multiply(static_cast<int>(std::min<int64_t>(tiles_.rows, end - row)), a + row * p_.k, p_.k, b, stride,
                      p_.k, out + row * p_.n, p_.n, static_cast<int>(width));
  }

  Products p_;
  const WholeTiles<T>& tiles_;
  Slot a_, b_, result_, panel_scratch_ = -1;
  int64_t panels_ = 0, row_parts_ = 1, items_ = 0;
  bool packs_ = false;
  PackedPtr packed_;
};

}  // namespace

std::unique_ptr<Kernel> integer_product(Lowering& lowering) {
  const DType dtype = lowering.output().dtype, wide = dtype == DType::boolean ? DType::uint32 : wide_integer(dtype);
  if (wide != dtype) return widened_kernel(lowering, dtype, wide, integer_product);
  if (size_of(dtype) == sizeof(uint64_t)) return std::make_unique<WholeProduct<uint64_t>>(lowering);
  return std::make_unique<WholeProduct<uint32_t>>(lowering);
}

}  // namespace mpsgraph::cpu
