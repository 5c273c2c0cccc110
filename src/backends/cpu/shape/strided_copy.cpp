// Implementation of StridedCopy, fill, and copy_bytes, in terms of bytes and strides only.

#include "backends/cpu/shape/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/shape/few_bytes.h"
#include "backends/cpu/shape/reversed.h"
#include "backends/cpu/streaming_stores.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace mpsgraph::cpu {
namespace {

// Iterates over the outer loops of a copy from any starting index, and maintains the byte offsets in the source and in
// the destination.
class Odometer {
 public:
  Odometer(const Dims& dims, const Dims& source, const Dims& destination, int64_t start)
      : dims_(dims), source_strides_(source), destination_strides_(destination) {
    for (size_t i = dims.size(); i-- > 0;) {
      index_[i] = start % dims[i];
      start /= dims[i];
      this->source += index_[i] * source[i];
      this->destination += index_[i] * destination[i];
    }
  }
  // Advance n steps along the last axis, at most to its end.
  void skip(int64_t n) {
    const size_t last = dims_.size() - 1;
    source += (n - 1) * source_strides_[last];
    destination += (n - 1) * destination_strides_[last];
    index_[last] += n - 1;
    next();
  }
  void next() {
    for (size_t i = dims_.size(); i-- > 0;) {
      source += source_strides_[i];
      destination += destination_strides_[i];
      if (++index_[i] < dims_[i]) return;
      source -= dims_[i] * source_strides_[i];
      destination -= dims_[i] * destination_strides_[i];
      index_[i] = 0;
    }
  }
  int64_t source = 0, destination = 0;

 private:
  const Dims &dims_, &source_strides_, &destination_strides_;
  int64_t index_[2 * max_rank] = {};
};

// An item may combine several elements; its alignment is then that of a single element.
template <class Item>
using Loose [[gnu::aligned(1)]] = Item;

// Write the item n times, with the widest available vectors.
template <class Item>
void repeat_item(std::byte* to, const Item& item, int64_t n) {
  constexpr int64_t few = 64 / sizeof item;
  if (n < few) {
    auto* y = reinterpret_cast<Loose<Item>*>(to);
    for (int64_t i = 0; i < n; ++i) y[i] = item;
    return;
  }
  std::byte pattern[16];
  for (size_t i = 0; i < sizeof pattern; i += sizeof item) std::memcpy(pattern + i, &item, sizeof item);
  float_functions().repeat(to, pattern, static_cast<size_t>(n) * sizeof item);
}

// Set y[i] = x[-i] for n items, 8 or 16 bytes at a time.
template <class Item>
void copy_backwards(std::byte* to, const std::byte* from, int64_t n) {
  constexpr auto size = static_cast<int64_t>(sizeof(Item));
  constexpr int64_t few = std::max<int64_t>(32 / size, 8);  // fewer items do not justify a function call
  if constexpr (size < 16)
    if (const ReverseItems* reverse = n < few ? nullptr : reverse_items())
      return (*reverse)(to, from - (n - 1) * size, n, size);
  constexpr int64_t together = size < 4 ? 8 / size : size < 16 ? 16 / size : 1;
  int64_t i = 0;
  for (; i + together <= n; i += together) {
    const std::byte* lowest = from - (i + together - 1) * size;
    if constexpr (size < 4) {
      uint64_t items;
      std::memcpy(&items, lowest, sizeof items);
      items = __builtin_bswap64(items);
      if constexpr (size == 2) items = (items >> 8 & 0x00ff00ff00ff00ff) | (items & 0x00ff00ff00ff00ff) << 8;
      std::memcpy(to + i * size, &items, sizeof items);
    } else if constexpr (size < 16) {
      typedef Item V __attribute__((vector_size(16)));
      V items;
      std::memcpy(&items, lowest, sizeof items);
      if constexpr (size == 4)
        items = __builtin_shufflevector(items, items, 3, 2, 1, 0);
      else
        items = __builtin_shufflevector(items, items, 1, 0);
      std::memcpy(to + i * size, &items, sizeof items);
    } else {
      std::memcpy(to + i * size, lowest, sizeof(Item));
    }
  }
  for (; i < n; ++i) std::memcpy(to + i * size, from - i * size, sizeof(Item));
}

// Copy n items. Common strides have specialized loops, which the compiler vectorizes.
template <class Item>
void copy_run(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step, int64_t n) {
  constexpr auto size = static_cast<int64_t>(sizeof(Item));
  auto* y = reinterpret_cast<Loose<Item>*>(to);
  const auto* x = reinterpret_cast<const Loose<Item>*>(from);
  if (to_step == size) {
    if (from_step == 0) {
      const Item value = *x;
      return repeat_item(to, value, n);
    }
    if (from_step == -size) return copy_backwards<Item>(to, from, n);
    if (from_step == 2 * size) {
      for (int64_t i = 0; i < n; ++i) y[i] = x[2 * i];
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i, to += to_step, from += from_step) std::memcpy(to, from, size);
}

// Copy n runs of `size` bytes at constant distances. Common sizes take a few vector moves, without a call or loop.
constexpr int64_t longest_short_run = 512;

template <int64_t size>
void copy_runs_of(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step, int64_t n) {
  for (; n > 0; --n, to += to_step, from += from_step) std::memcpy(to, from, size);
}
void copy_runs(int64_t size, std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step, int64_t n) {
  switch (size) {
    case 32: return copy_runs_of<32>(to, to_step, from, from_step, n);
    case 64: return copy_runs_of<64>(to, to_step, from, from_step, n);
    case 128: return copy_runs_of<128>(to, to_step, from, from_step, n);
    case 256: return copy_runs_of<256>(to, to_step, from, from_step, n);
    default: break;
  }
  const auto copy_all = [&](auto copy) {
    for (; n > 0; --n, to += to_step, from += from_step) copy(to, from, size);
  };
  size > 32 ? copy_all([](std::byte* y, const std::byte* x, int64_t of) { std::memcpy(y, x, static_cast<size_t>(of)); })
  : size >= 16 ? copy_all(copy_two_words<Bytes16>)
  : size >= 8  ? copy_all(copy_two_words<uint64_t>)
  : size >= 4  ? copy_all(copy_two_words<uint32_t>)
               : copy_all(copy_few_bytes);
}

void streaming_copy_runs(int64_t size, std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step,
                         int64_t n) {
  for (; n > 0; --n, to += to_step, from += from_step) streaming_copy(to, from, size);
}

#ifdef __SSE2__
void transpose_8x8(std::byte* destination, int64_t row, const std::byte* source, int64_t column) {
  __m128i a[8], b[8];
  for (int64_t j = 0; j < 8; ++j) a[j] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + j * column));
  for (int j = 0; j < 4; ++j)
    b[2 * j] = _mm_unpacklo_epi16(a[j], a[j + 4]), b[2 * j + 1] = _mm_unpackhi_epi16(a[j], a[j + 4]);
  for (int j = 0; j < 4; ++j)
    a[2 * j] = _mm_unpacklo_epi16(b[j], b[j + 4]), a[2 * j + 1] = _mm_unpackhi_epi16(b[j], b[j + 4]);
  for (int j = 0; j < 4; ++j)
    b[2 * j] = _mm_unpacklo_epi16(a[j], a[j + 4]), b[2 * j + 1] = _mm_unpackhi_epi16(a[j], a[j + 4]);
  for (int64_t i = 0; i < 8; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + i * row), b[i]);
}
void transpose_2x2(std::byte* destination, int64_t row, const std::byte* source, int64_t column) {
  const auto load = [&](int64_t j) { return _mm_loadu_pd(reinterpret_cast<const double*>(source + j * column)); };
  const auto store = [&](int64_t i, __m128d v) { _mm_storeu_pd(reinterpret_cast<double*>(destination + i * row), v); };
  const __m128d a = load(0), b = load(1);
  store(0, _mm_unpacklo_pd(a, b)), store(1, _mm_unpackhi_pd(a, b));
}
void transpose_8x8_bytes(std::byte* destination, int64_t row, const std::byte* source, int64_t column) {
  const auto load = [&](int64_t j) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(source + j * column)); };
  __m128i pairs[4], quads[4];  // interleaved bytes of two rows, and of four rows
  for (int j = 0; j < 4; ++j) pairs[j] = _mm_unpacklo_epi8(load(2 * j), load(2 * j + 1));
  for (int j = 0; j < 2; ++j) {
    quads[j] = _mm_unpacklo_epi16(pairs[2 * j], pairs[2 * j + 1]);
    quads[2 + j] = _mm_unpackhi_epi16(pairs[2 * j], pairs[2 * j + 1]);
  }
  const auto store = [&](int64_t i, __m128i two) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(destination + i * row), two);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(destination + (i + 1) * row), _mm_unpackhi_epi64(two, two));
  };
  for (int half = 0; half < 2; ++half) {
    store(4 * half, _mm_unpacklo_epi32(quads[2 * half], quads[2 * half + 1]));
    store(4 * half + 2, _mm_unpackhi_epi32(quads[2 * half], quads[2 * half + 1]));
  }
}
void transpose_4x4(std::byte* destination, int64_t row, const std::byte* source, int64_t column) {
  const auto load = [&](int64_t j) { return _mm_loadu_ps(reinterpret_cast<const float*>(source + j * column)); };
  __m128 a = load(0), b = load(1), c = load(2), d = load(3);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  const auto store = [&](int64_t i, __m128 v) { _mm_storeu_ps(reinterpret_cast<float*>(destination + i * row), v); };
  store(0, a), store(1, b), store(2, c), store(3, d);
}
// Side length, in items, of the square blocks that are transposed. A row of a block has 16 bytes (8 for single-byte
// items).
template <int64_t size>
constexpr int64_t transposed_square = size == 1 ? 8 : 16 / size;
template <int64_t size>
void transpose_square(std::byte* destination, int64_t row, const std::byte* source, int64_t column) {
  constexpr auto transpose = size == 1   ? transpose_8x8_bytes
                             : size == 2 ? transpose_8x8
                             : size == 4 ? transpose_4x4
                                         : transpose_2x2;
  transpose(destination, row, source, column);
}
#endif

}  // namespace

StridedCopy::StridedCopy(size_t item, const Dims& dims, const Dims& destination_strides, const Dims& source_strides)
    : item_(item) {
  struct Axis {
    int64_t n, destination, source;
  };
  std::vector<Axis> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return;
    const int64_t bytes = static_cast<int64_t>(item);
    if (dims[i] > 1) axes.push_back({dims[i], destination_strides[i] * bytes, source_strides[i] * bytes});
  }
  // Order the axes by destination stride, so that memory is written sequentially, and then merge axes that are
  // contiguous in both views.
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return std::abs(a.destination) > std::abs(b.destination); });
  for (size_t i = axes.size(); i-- > 1;) {
    Axis &outer = axes[i - 1], &inner = axes[i];
    if (outer.destination != inner.destination * inner.n || outer.source != inner.source * inner.n) continue;
    outer = {outer.n * inner.n, inner.destination, inner.source};
    axes.erase(axes.begin() + static_cast<int64_t>(i));
  }

  mode_ = Mode::items;
  int64_t size = static_cast<int64_t>(item);
  inner_destination_ = inner_source_ = size;
  if (!axes.empty() && axes.back().destination == size && axes.back().source == size) {
    size *= axes.back().n;  // a contiguous run; a short run is moved as a single item
    axes.pop_back();
    if (axes.empty() || size > 16 || (size & (size - 1)) != 0) mode_ = Mode::bytes, inner_ = size;
    item_ = static_cast<size_t>(size);
    // If consecutive runs of the source go to only a few regions of the destination, copy the runs in the order of the
    // source. One long read and a few writes use the caches better than many short reads.
    constexpr int64_t shortest = 64, few = 16;
    const auto next = std::find_if(axes.begin(), axes.end(), [&](const Axis& a) { return a.source == size; });
    if (mode_ == Mode::bytes && size >= shortest && next != axes.end() && next->n <= few)
      std::rotate(next, next + 1, axes.end());
  }
  if (mode_ == Mode::items && !axes.empty()) {
    const Axis run = axes.back();
    axes.pop_back();
    inner_ = run.n, inner_source_ = run.source, inner_destination_ = run.destination;
    const auto row = std::find_if(axes.begin(), axes.end(), [&](const Axis& a) { return a.source == size; });
    // Interleave up to four source streams: each destination row takes one run from every stream. Reading the streams
    // in parallel means that each row is written once.
    if (row != axes.end() && run.destination == size && run.source != 0 && run.n <= 4 && row->n >= 8 &&
        row->destination == run.n * size) {
      mode_ = Mode::interleave;
      rows_ = row->n;
      axes.erase(row);
    } else if (row != axes.end() && run.destination == size && run.source != 0 && row->n >= 4 && run.n >= 4) {
      mode_ = Mode::transpose;
      rows_ = row->n, row_destination_ = row->destination;
      axes.erase(row);
    }
  }
  for (const Axis& axis : axes) {
    outer_.push_back(axis.n), outer_source_.push_back(axis.source), outer_destination_.push_back(axis.destination);
    outer_count_ *= axis.n;
  }
}

bool StridedCopy::streams(const std::byte* destination) const {
  const auto whole = [](int64_t bytes) { return bytes % static_cast<int64_t>(cache_line) == 0; };
  return static_cast<size_t>(outer_count_ * inner_) >= streaming_threshold && whole(inner_) && at_a_line(destination) &&
         std::ranges::all_of(outer_destination_, whole);
}

void StridedCopy::run_runs(std::byte* destination, const std::byte* source, bool streaming) const {
  const int64_t row = outer_.back(), to_step = outer_destination_.back(), from_step = outer_source_.back();
  const auto copy = streaming ? streaming_copy_runs : copy_runs;
  parallel_for(outer_count_, std::max<int64_t>((1 << 16) / inner_, 1), [&](int64_t begin, int64_t end) {
    Odometer at(outer_, outer_source_, outer_destination_, begin);
    while (begin < end) {
      const int64_t n = std::min(row - begin % row, end - begin);
      copy(inner_, destination + at.destination, to_step, source + at.source, from_step, n);
      begin += n;
      at.skip(n);
    }
    if (streaming) streaming_fence();
  });
}

void StridedCopy::run_bytes(std::byte* destination, const std::byte* source) const {
  constexpr int64_t longest = 1 << 16;  // bytes; longer runs are divided among threads below
  const bool past = !outer_.empty() && inner_ <= longest && streams(destination);
  if (past || (inner_ <= longest_short_run && !outer_.empty())) return run_runs(destination, source, past);
  // Divide the work by bytes instead of by runs, so that threads can share one long run as well as many short runs.
  parallel_for(outer_count_ * inner_, 1 << 16, [&](int64_t begin, int64_t end) {
    Odometer at(outer_, outer_source_, outer_destination_, begin / inner_);
    for (int64_t offset = begin % inner_; begin < end; offset = 0, at.next()) {
      const int64_t n = std::min(inner_ - offset, end - begin);
      std::memcpy(destination + at.destination + offset, source + at.source + offset, static_cast<size_t>(n));
      begin += n;
    }
  });
}

template <class Item>
void StridedCopy::run_items(std::byte* destination, const std::byte* source) const {
  parallel_for(outer_count_ * inner_, 16384, [&](int64_t begin, int64_t end) {
    Odometer at(outer_, outer_source_, outer_destination_, begin / inner_);
    for (int64_t offset = begin % inner_; begin < end; offset = 0, at.next()) {
      const int64_t n = std::min(inner_ - offset, end - begin);
      std::byte* to = destination + at.destination + offset * inner_destination_;
      const std::byte* from = source + at.source + offset * inner_source_;
      begin += n;
      copy_run<Item>(to, inner_destination_, from, inner_source_, n);
    }
  });
}

template <class Item>
void StridedCopy::run_transpose(std::byte* destination, const std::byte* source) const {
  // Blocks are sized such that each reads whole cache lines of the source, and writes contiguous runs of the
  // destination.
  constexpr auto size = static_cast<int64_t>(sizeof(Item));
  constexpr int64_t row_block = std::max<int64_t>(64 / size, 8), column_block = 64;
  const int64_t row_blocks = (rows_ + row_block - 1) / row_block;
  parallel_for(outer_count_ * row_blocks, grain_for(row_block * inner_ * size), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const Odometer at(outer_, outer_source_, outer_destination_, unit / row_blocks);
      const int64_t i0 = unit % row_blocks * row_block, i1 = std::min(rows_, i0 + row_block);
      std::byte* to = destination + at.destination;
      const std::byte* from = source + at.source;
      for (int64_t j0 = 0; j0 < inner_; j0 += column_block) {
        const int64_t j1 = std::min(inner_, j0 + column_block);
        int64_t i = i0;
#ifdef __SSE2__
        if constexpr (size < 16) {
          constexpr int64_t square = transposed_square<size>;
          for (; i + square <= i1; i += square) {
            int64_t j = j0;
            for (; j + square <= j1; j += square)
              transpose_square<size>(to + i * row_destination_ + j * size, row_destination_,
                                     from + i * size + j * inner_source_, inner_source_);
            for (; j < j1; ++j)
              for (int64_t r = i; r < i + square; ++r)
                std::memcpy(to + r * row_destination_ + j * size, from + r * size + j * inner_source_, size);
          }
        }
#endif
        for (; i < i1; ++i)
          for (int64_t j = j0; j < j1; ++j)
            std::memcpy(to + i * row_destination_ + j * size, from + i * size + j * inner_source_, size);
      }
    }
  });
}

template <class Item>
void StridedCopy::run_interleave(std::byte* destination, const std::byte* source) const {
  constexpr auto size = static_cast<int64_t>(sizeof(Item));
  const auto with_streams = [&](auto streams) {
    parallel_for(outer_count_, grain_for(rows_ * streams * size), [&](int64_t begin, int64_t end) {
      Odometer at(outer_, outer_source_, outer_destination_, begin);
      for (; begin < end; ++begin, at.next()) {
        auto* to = reinterpret_cast<Loose<Item>*>(destination + at.destination);
        const Loose<Item>* from[streams];
        for (int s = 0; s < streams; ++s)
          from[s] = reinterpret_cast<const Loose<Item>*>(source + at.source + s * inner_source_);
        for (int64_t i = 0; i < rows_; ++i)
          for (int s = 0; s < streams; ++s) to[i * streams + s] = from[s][i];
      }
    });
  };
  if (inner_ == 2) return with_streams(std::integral_constant<int, 2>());
  if (inner_ == 3) return with_streams(std::integral_constant<int, 3>());
  with_streams(std::integral_constant<int, 4>());
}

void StridedCopy::run(std::byte* destination, const std::byte* source) const {
  if (mode_ == Mode::nothing) return;
  if (mode_ == Mode::bytes) return run_bytes(destination, source);
  const auto with_item = [&](auto type) {
    using Item = typename decltype(type)::type;
    if (mode_ == Mode::transpose) return run_transpose<Item>(destination, source);
    mode_ == Mode::interleave ? run_interleave<Item>(destination, source) : run_items<Item>(destination, source);
  };
  dispatch_size(item_, with_item);
}

void fill(std::byte* destination, const void* element, size_t item, int64_t n) {
  dispatch_size(item, [&](auto type) {
    using Item = typename decltype(type)::type;
    Item value;
    std::memcpy(&value, element, sizeof value);
    parallel_for(n, 1 << 16, [&](int64_t begin, int64_t end) {
      repeat_item(destination + begin * static_cast<int64_t>(sizeof value), value, end - begin);
    });
  });
}

void copy_bytes(std::byte* destination, const std::byte* source, size_t bytes) {
  if (destination == source) return;
  parallel_for(static_cast<int64_t>(bytes), 1 << 17, [&](int64_t begin, int64_t end) {
    std::memcpy(destination + begin, source + begin, static_cast<size_t>(end - begin));
  });
}

}  // namespace mpsgraph::cpu
