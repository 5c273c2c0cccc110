// Padding in every mode, and its gradient.
//
// Adjacent axes without padding are merged. All rows along the last axis then consist of the same list of runs. A run
// is a part of a source row, read forward or backward, or a repeated element, or the constant. A padded position
// "shows" the source position whose value it holds. For each row of the source, the gradient adds the runs of all
// padded rows that show it, in order.

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/shape/few_bytes.h"
#include "backends/cpu/shape/strided_copy.h"
#include "core/exact_numbers.h"
#include "core/ops/shape.h"

namespace mpsgraph::cpu {
namespace {

struct PadRun {
  int64_t to, from, count, step;  // from: first element in the source row, or -1 for the constant
  bool negated;
};

// An axis, or several merged axes without padding.
struct PadAxis {
  ops::PadMode mode;
  int64_t left, size, padded;
  bool identity() const { return left == 0 && size == padded; }
  // Return the source position whose value a padded position holds (-1 for the constant), and whether it is negated.
  ops::PadSource source(int64_t position) const { return ops::pad_source(mode, position - left, size); }
};

// Return the runs that make up a padded axis, each position of which holds `n` elements.
std::vector<PadRun> runs_of(const PadAxis& axis, int64_t n) {
  std::vector<PadRun> runs;
  const auto append = [&](const PadRun& next) {
    if (!runs.empty() && runs.back().negated == next.negated && (runs.back().from < 0) == (next.from < 0)) {
      PadRun& last = runs.back();
      const int64_t step = next.from < 0 ? 0 : next.from - (last.from + (last.count - 1) * last.step);
      const bool single = last.count == 1 && next.count == 1 && step >= -1;
      if (next.from < 0 || (step == 1 && (last.step == 1 || last.count == 1) && (next.step == 1 || next.count == 1)) ||
          (single && step <= 1) || (next.count == 1 && step == last.step)) {
        last.step = next.from < 0 ? 0 : last.count == 1 ? step : last.step;
        last.count += next.count;
        return;
      }
    }
    runs.push_back(next);
  };
  const auto outside = [&](int64_t begin, int64_t end) {
    if (axis.mode == ops::PadMode::constant) {
      if (begin < end) append({begin * n, -1, (end - begin) * n, 0, false});
      return;
    }
    for (int64_t j = begin; j < end; ++j) {
      const ops::PadSource from = axis.source(j);
      append({j * n, from.index * n, n, 1, from.negated});
    }
  };
  const int64_t first = std::clamp<int64_t>(axis.left, 0, axis.padded);
  const int64_t last = std::clamp<int64_t>(axis.left + axis.size, first, axis.padded);
  outside(0, first);
  if (first < last) append({first * n, (first - axis.left) * n, (last - first) * n, 1, false});
  outside(last, axis.padded);
  return runs;
}

struct PadPlan {
  std::vector<PadAxis> outer;  // all axes except those merged into the row
  std::vector<PadRun> runs;
  // Numbers of padded rows and of source rows, and elements per padded row and per source row.
  int64_t rows = 1, source_rows = 1, row = 1, source_row = 1;
  // For each padded outer axis and each source position along it, the padded positions that hold its value, in order.
  std::vector<std::vector<std::vector<int64_t>>> shown;

  PadPlan(const Attributes& attributes, ops::PadMode mode, const Dims& unpadded, const Dims& padded) {
    for (size_t i = 0; i < padded.size(); ++i) {
      const PadAxis axis{mode, attributes.integers("left")[i], unpadded[i], padded[i]};
      if (!outer.empty() && axis.identity() && outer.back().identity())
        outer.back().size *= axis.size, outer.back().padded *= axis.size;
      else
        outer.push_back(axis);
    }
    int64_t behind = 1;
    if (outer.size() > 1 && outer.back().identity()) behind = outer.back().size, outer.pop_back();
    if (outer.empty()) outer.push_back({mode, 0, 1, 1});
    runs = runs_of(outer.back(), behind);
    row = outer.back().padded * behind, source_row = outer.back().size * behind;
    outer.pop_back();
    for (const PadAxis& axis : outer) rows *= axis.padded, source_rows *= axis.size;
  }

  void find_shown() {
    for (const PadAxis& axis : outer) {
      auto& lists = shown.emplace_back();
      if (axis.identity()) continue;
      lists.resize(static_cast<size_t>(axis.size));
      for (int64_t j = 0; j < axis.padded; ++j)
        if (const int64_t from = axis.source(j).index; from >= 0) lists[static_cast<size_t>(from)].push_back(j);
    }
  }
};

// Iterates over padded rows. For each padded row, returns the start of the source row that it copies, or -1 if it
// copies none, and whether that row is negated.
class RowWalk {
 public:
  RowWalk(const PadPlan& plan, int64_t row) : plan_(plan) {
    for (size_t i = plan.outer.size(); i-- > 0; row /= plan.outer[i].padded) index_[i] = row % plan.outer[i].padded;
    find_base();
  }
  std::pair<int64_t, bool> source() const {
    if (plan_.outer.empty()) return {0, false};
    const ops::PadSource last = plan_.outer.back().source(index_[plan_.outer.size() - 1]);
    if (base_ < 0 || last.index < 0) return {-1, false};
    return {base_ + last.index * plan_.source_row, negated_ != last.negated};
  }
  void next() {
    for (size_t i = plan_.outer.size(); i-- > 0;) {
      if (++index_[i] < plan_.outer[i].padded) {
        if (i + 1 < plan_.outer.size()) find_base();
        return;
      }
      index_[i] = 0;
    }
  }

 private:
  // Recompute the part of the source offset that depends on all outer axes except the last one. The last outer axis is
  // added per row, because its index changes with every row.
  void find_base() {
    base_ = 0, negated_ = false;
    for (size_t i = 0; i + 1 < plan_.outer.size(); ++i) {
      const ops::PadSource from = plan_.outer[i].source(index_[i]);
      if (from.index < 0) {
        base_ = -1;
        return;
      }
      base_ = base_ * plan_.outer[i].size + from.index;
      negated_ ^= from.negated;
    }
    if (!plan_.outer.empty()) base_ *= plan_.outer.back().size * plan_.source_row;
  }

  const PadPlan& plan_;
  std::array<int64_t, max_rank> index_{};
  int64_t base_ = 0;
  bool negated_ = false;
};

// Negates an element: for integers, flips all bits and adds one; for floats, flips the sign bits.
template <class T>
struct Negation {
  T turned{}, added{};
  explicit Negation(DType dtype) {
    constexpr size_t bytes = sizeof(T);
    uint8_t bits[bytes] = {};
    if (is_integer(dtype)) {
      std::memset(bits, 0xff, bytes);
      added = T(1);
    } else if (dtype != DType::boolean) {
      for (size_t part = is_complex(dtype) ? bytes / 2 : bytes, at = part; at <= bytes; at += part) bits[at - 1] = 0x80;
    }
    std::memcpy(&turned, bits, bytes);
  }
  T operator()(T x) const {
    if constexpr (std::is_same_v<T, Item16>) {
      // complex128: only sign bits are flipped, nothing is added
      for (int i = 0; i < 2; ++i) x.words[i] ^= turned.words[i];
      return x;
    } else {
      return static_cast<T>((x ^ turned) + added);
    }
  }
};

template <class T>
void pad(const PadPlan& plan, T value, const Negation<T>& negative, const T* x, T* y) {
  parallel_for(plan.rows, grain_for(plan.row * int64_t{sizeof(T)}), [&](int64_t begin, int64_t end) {
    RowWalk walk(plan, begin);
    for (int64_t row = begin; row < end; ++row, walk.next()) {
      T* to = y + row * plan.row;
      const auto [first, row_negated] = walk.source();
      if (first < 0) {
        std::fill_n(to, plan.row, value);
        continue;
      }
      for (const PadRun& run : plan.runs) {
        T* out = to + run.to;
        if (run.from < 0) {
          std::fill_n(out, run.count, value);
          continue;
        }
        const T* from = x + first + run.from;
        if (run.step == 1)
          copy_few_bytes(reinterpret_cast<std::byte*>(out), reinterpret_cast<const std::byte*>(from),
                         static_cast<size_t>(run.count) * sizeof(T));
        else if (run.step == 0)
          std::fill_n(out, run.count, *from);
        else
          for (int64_t i = 0; i < run.count; ++i) out[i] = from[-i];
        if (run.negated != row_negated)
          for (int64_t i = 0; i < run.count; ++i) out[i] = negative(out[i]);
      }
    }
  });
}

template <class V, class T>
void add_runs(const PadPlan& plan, const T* incoming, bool row_negated, V* to) {
  for (const PadRun& run : plan.runs) {
    if (run.from < 0) continue;
    const T* in = incoming + run.to;
    V* out = to + run.from;
    const bool negated = run.negated != row_negated;
    const auto add = [&](V& sum, T x) {  // Accumulate is unsigned for integers, so their sums wrap
      const auto a = static_cast<Accumulate<V>>(sum), b = static_cast<Accumulate<V>>(x);
      sum = static_cast<V>(negated ? a - b : a + b);
    };
    if (run.step == 1)
      for (int64_t i = 0; i < run.count; ++i) add(out[i], in[i]);
    else
      for (int64_t i = 0; i < run.count; ++i) add(out[i * run.step], in[i]);
  }
}

// Compute the gradient with respect to the source of the padding. If sums are accumulated in a different type than the
// result's, `sums` holds one row of sums for each of the parts that are processed in parallel.
template <class V, class T>
void pad_gradient(const PadPlan& plan, const T* incoming, T* y, V* sums) {
  const int64_t parts = std::clamp<int64_t>(plan.source_rows / grain_for(plan.row * 8), 1, thread_count());
  parallel_parts(parts, [&](int64_t part) {
    for (int64_t row = plan.source_rows * part / parts; row < plan.source_rows * (part + 1) / parts; ++row) {
      if (row % 16 == 0) poll_run();
      V* to = nullptr;
      if constexpr (std::is_same_v<V, T>)
        to = y + row * plan.source_row;
      else
        to = sums + part * plan.source_row;
      std::fill_n(to, plan.source_row, V(0));
      // Iterate over all combinations of padded positions, along the outer axes, that hold copies of this source row.
      const size_t rank = plan.outer.size();
      std::array<int64_t, max_rank> own;  // the only position on an axis without padding
      std::array<std::span<const int64_t>, max_rank> lists;
      std::array<size_t, max_rank> which{};
      bool some = true;
      int64_t rest = row;
      for (size_t i = rank; i-- > 0; rest /= plan.outer[i].size) {
        own[i] = rest % plan.outer[i].size;
        if (plan.shown[i].empty())
          lists[i] = {&own[i], 1};
        else
          lists[i] = plan.shown[i][static_cast<size_t>(own[i])];
        some &= !lists[i].empty();
      }
      while (some) {
        int64_t from = 0;
        bool negated = false;
        for (size_t i = 0; i < rank; ++i) {
          const int64_t position = lists[i][which[i]];
          from = from * plan.outer[i].padded + position;
          negated ^= plan.outer[i].source(position).negated;
        }
        add_runs(plan, incoming + from * plan.row, negated, to);
        size_t i = rank;
        while (i > 0 && ++which[i - 1] == lists[i - 1].size()) which[--i] = 0;
        some = i > 0;
      }
      if constexpr (!std::is_same_v<V, T>)
        std::transform(to, to + plan.source_row, y + row * plan.source_row, [](V v) { return static_cast<T>(v); });
    }
  });
}

// Build a kernel for short rows with constant padding: it fills the entire result with the constant, and then copies
// the source into the interior in a single strided copy. Return null if rows are long.
std::unique_ptr<Kernel> short_rows_kernel(const PadPlan& plan, const Attributes& attributes, const Operand& x,
                                          const Operand& y, const ConstantPtr& value) {
  constexpr int64_t short_bytes = 256;
  const size_t item = size_of(x.dtype);
  const Dims strides = contiguous_strides(y.dims);
  int64_t first = 0;
  for (size_t i = 0; i < y.dims.size(); ++i) first += attributes.integers("left")[i] * strides[i];
  if (plan.row * static_cast<int64_t>(item) > short_bytes || x.elements() == 0) return nullptr;
  const StridedCopy copy(item, x.dims, strides, contiguous_strides(x.dims));
  return kernel([copy, value, item, n = y.elements(), offset = first * static_cast<int64_t>(item), x = x.slot,
                 y = y.slot](Frame& f) {
    fill(f.pointers[y], value->bytes(), item, n);
    copy.run(f.pointers[y] + offset, f.pointers[x]);
  });
}

std::unique_ptr<Kernel> lower_pad(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const ops::PadMode mode = *ops::pad_mode_from_name(lowering.attributes().string("mode"));
  const bool given = lowering.attributes().string("mode") == "constant";
  const ConstantPtr value =
      given ? element_of(lowering.attributes(), "value", y.dtype) : ConstantData::splat(y.dtype, {}, 0.0);
  const PadPlan plan(lowering.attributes(), x.elements() == 0 ? ops::PadMode::constant : mode, x.dims, y.dims);
  if (mode == ops::PadMode::constant)
    if (auto short_rows = short_rows_kernel(plan, lowering.attributes(), x, y, value)) return short_rows;
  return dispatch_size(size_of(x.dtype), [&](auto type) {
    using T = typename decltype(type)::type;
    T element;
    std::memcpy(&element, value->bytes(), sizeof element);
    return kernel([plan, element, negative = Negation<T>(x.dtype), x = x.slot, y = y.slot](Frame& f) {
      pad(plan, element, negative, f.at<const T>(x), f.at<T>(y));
    });
  });
}

std::unique_ptr<Kernel> lower_pad_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), y = lowering.output();
  const ops::PadMode mode = *ops::pad_mode_from_name(lowering.attributes().string("mode"));
  PadPlan plan(lowering.attributes(), y.elements() == 0 ? ops::PadMode::constant : mode, y.dims, incoming.dims);
  plan.find_shown();
  return dispatch_algebraic(lowering, y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using Sum = Value<T>;
    const size_t bytes = is_half_type<T> ? static_cast<size_t>(thread_count() * plan.source_row) * sizeof(Sum) : 0;
    const Slot sums = bytes > 0 ? lowering.scratch(bytes) : y.slot;
    return kernel(
        [=](Frame& f) { pad_gradient(plan, f.at<const T>(incoming.slot), f.at<T>(y.slot), f.at<Sum>(sums)); });
  });
}

}  // namespace

const Kernels pad_kernels("pad", [] {
  define_kernel("pad", lower_pad);
  define_kernel("pad_gradient", lower_pad_gradient);
});

}  // namespace mpsgraph::cpu
