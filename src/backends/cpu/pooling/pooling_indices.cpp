// max_pooling_return_indices, and the kernels that use its indices to scatter gradients and to gather values.
//
// An index counts either elements of the source over some of its last axes, or taps of the window. The loops find the
// number of the element or tap together with the maximum; this file converts these numbers to and from the requested
// mode. Indices that point outside the plane of their window are skipped, so that invalid indices never cause
// out-of-bounds access.
#include "backends/cpu/pooling/pooling_maxima.h"

namespace mpsgraph::cpu {
namespace {

struct IndexPlan : PoolingPlan {
  bool global;
  int64_t period;  // number of elements, or taps, in the axes that an index flattens; indices are modulo this number
  struct Tap {
    std::array<int64_t, 4> at{};  // offset from the window's first tap
    int64_t element = 0;
  };
  std::vector<Tap> places;  // taps of a window, for local indices

  IndexPlan(const Lowering& lowering, const Dims& source_dims, const Dims& result_dims)
      : PoolingPlan(lowering, source_dims, result_dims) {
    const auto mode = *ops::indices_mode_from_name(lowering.attributes().string("return_indices_mode"));
    const ops::Pooling pooling(lowering.attributes());
    global = mode.global;
    period = 1;
    for (int axis = -mode.axes; axis < 0 && global; ++axis) period *= ops::size_at(source_dims, axis);
    for (int i = 0; i < pooling.count && !global; ++i)
      if (pooling.spatial[i] >= -mode.axes) period *= pooling.kernel[i];
    for (int64_t t = 0; t < taps() && !global; ++t) {
      Tap& tap = places.emplace_back();
      for (int64_t a = 3, rest = t; a >= 0; rest /= windows[a--].kernel) {
        tap.at[a] = rest % windows[a].kernel * windows[a].dilation;
        tap.element += tap.at[a] * source_step[a];
      }
    }
  }
};

template <Place place, class T>
void max_pool_with_indices(const IndexPlan& p, const T* x, T* y, int32_t* indices) {
  const int64_t row_size = p.row() * p.lanes;
  parallel_for(p.planes * p.rows(), grain_for(row_size * p.taps()), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t plane = unit / p.rows();
      // The index of the plane's first element. Indices are modulo `period`. If the period is longer than a plane, this
      // index may differ from 0.
      const int64_t origin = place == Place::element ? plane * p.source % p.period : 0;
      const bool wraps = place == Place::element ? p.period < p.source : p.period < p.taps();
      for_maxima<place>(p, x + plane * p.source, unit % p.rows(), 0, p.lanes,
                        [&](int64_t first, int64_t n, int64_t lane, const MaximaTile<T>& tile) {
                          T* values = y + plane * p.result + first;
                          int32_t* to = indices + plane * p.result + first;
                          std::transform(tile.m, tile.m + n, values, [](Value<T> m) { return T(m); });
                          const auto add = static_cast<int32_t>(origin + (place == Place::element ? lane : 0));
                          const int32_t step = place == Place::element && p.lanes > 1;
                          for (int32_t i = 0; i < n; ++i) to[i] = tile.at[i] < 0 ? -1 : tile.at[i] + add + i * step;
                          if (wraps)
                            for (int64_t i = 0; i < n; ++i)
                              to[i] = to[i] < 0 ? -1 : static_cast<int32_t>(to[i] % p.period);
                        });
    }
  });
}

// Converts an index to an element number within the plane, or to -1 if the index is outside the plane.
class Decoder {
 public:
  Decoder(const IndexPlan& p, int64_t plane) : p_(p), row_base_(-(plane * p.source % p.period)) {}

  void start_row(int64_t row) {
    row_ = row_position(p_, row);
    row_inside_ = true;
    for (int a : {0, 1, 2})
      row_inside_ = row_inside_ && p_.inside[a][static_cast<size_t>(row_[a])].count == p_.windows[a].kernel;
  }
  void start_position(int64_t position) {
    if (p_.global && p_.period >= p_.source) return;
    inside_ = row_inside_ && p_.inside[3][static_cast<size_t>(position)].count == p_.windows[3].kernel;
    base_ = 0;
    for (int a = 0; a < 4; ++a) {
      const int64_t i = a < 3 ? row_[a] : position;
      start_[a] = p_.windows[a].at(i, p_.global ? p_.inside[a][static_cast<size_t>(i)].first : 0);
      base_ += start_[a] * p_.source_step[a];
    }
    // A global index counts elements over the last axes, and therefore determines only the coordinates along these
    // axes. Along the other axes, all taps of a window must have the same coordinate, which is taken from the window's
    // first tap.
    if (p_.global) base_ -= base_ % p_.period;
  }

  int64_t element(int64_t index, int64_t lane) const {
    if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(p_.period)) return -1;
    if (p_.global) return within((p_.period >= p_.source ? row_base_ : base_) + index);
    const IndexPlan::Tap& tap = p_.places[static_cast<size_t>(index)];
    for (int a = 0; a < 4 && !inside_; ++a) {
      const int64_t at = start_[a] + tap.at[a];
      if (at < 0 || at >= p_.windows[a].input) return -1;
    }
    return base_ + tap.element + lane;
  }

 private:
  int64_t within(int64_t element) const {
    return static_cast<uint64_t>(element) < static_cast<uint64_t>(p_.source) ? element : -1;
  }

  const IndexPlan& p_;
  int64_t row_base_;  // negative of the plane's offset within a period that is longer than a plane
  int64_t base_ = 0;
  RowPosition row_{};
  std::array<int64_t, 4> start_{};
  bool row_inside_ = false, inside_ = false;
};

// Call f(element of the source plane, element of the result plane) for every index that points into the source plane.
template <class F>
void for_indices(const IndexPlan& p, int64_t plane, const std::byte* indices, DType type, const F& f) {
  Decoder decoder(p, plane);
  const int64_t first = plane * p.result;
  const auto* narrow = reinterpret_cast<const int32_t*>(indices) + first;
  int64_t i = 0;
  // if the period is at least the size of a plane, subtracting the offset of the plane from an index gives the element
  // number within the plane
  if (p.global && p.period >= p.source && type == DType::int32) {
    for (; i < p.result; ++i)
      if (const int64_t element = decoder.element(narrow[i], 0); element >= 0) f(element, i);
    return;
  }
  for (int64_t row = 0; row < p.rows(); ++row) {
    decoder.start_row(row);
    for (int64_t position = 0; position < p.row(); ++position) {
      decoder.start_position(position);
      for (int64_t lane = 0; lane < p.lanes; ++lane, ++i) {
        const int64_t index = type == DType::int32 ? narrow[i] : integer_at(indices, type, first + i);
        const int64_t element = decoder.element(index, lane);
        if (element >= 0) f(element, i);
      }
    }
  }
}

std::unique_ptr<Kernel> lower_return_indices(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output(0), indices = lowering.output(1);
  return dispatch_wide(lowering, x.dtype, lower_return_indices, [&](auto type) {
    using T = typename decltype(type)::type;
    const IndexPlan p(lowering, x.dims, y.dims);
    return kernel([=](Frame& f) {
      const auto run = p.global ? max_pool_with_indices<Place::element, T> : max_pool_with_indices<Place::tap, T>;
      run(p, f.at<const T>(x.slot), f.at<T>(y.slot), f.at<int32_t>(indices.slot));
    });
  });
}

// Threads divide the planes, but not blocks of lanes, because an index may point to a different lane.
template <class T>
std::unique_ptr<Kernel> scatter(Lowering& lowering, const IndexPlan& p, Slot incoming, const Operand& indices, Slot g) {
  PoolingBlocks b(p);
  b.blocks = 1;
  b.parts = std::clamp<int64_t>(p.planes / grain_for(p.source * 4), 1, thread_count());
  return kernel(
      [=, type = indices.dtype, slot = indices.slot, scratch = gradient_scratch<T>(lowering, p, b)](Frame& f) {
        for_gradient_blocks(p, b, f.at<T>(g), f.at<Value<T>>(scratch), true,
                            [&](int64_t plane, int64_t, int64_t, Value<T>* to) {
                              const T* from = f.at<const T>(incoming) + plane * p.result;
                              for_indices(p, plane, f.at<std::byte>(slot), type,
                                          [&](int64_t element, int64_t i) { to[element] += Value<T>(from[i]); });
                            });
      });
}

std::unique_ptr<Kernel> lower_gradient_from_indices(Lowering& lowering) {
  const Operand incoming = lowering.input(0), indices = lowering.input(1), g = lowering.output();
  return dispatch_wide(lowering, g.dtype, lower_gradient_from_indices, [&](auto type) {
    const IndexPlan p(lowering, g.dims, incoming.dims);
    return scatter<typename decltype(type)::type>(lowering, p, incoming.slot, indices, g.slot);
  });
}

std::unique_ptr<Kernel> lower_at_indices(Lowering& lowering) {
  const Operand values = lowering.input(0), indices = lowering.input(1), y = lowering.output();
  const IndexPlan p(lowering, values.dims, y.dims);
  return dispatch_size(size_of(y.dtype), [&](auto type) {
    using T = typename decltype(type)::type;
    return kernel([=](Frame& f) {
      parallel_for(p.planes, grain_for(p.result * 8), [&](int64_t begin, int64_t end) {
        for (int64_t plane = begin; plane < end; ++plane) {
          const T* from = f.at<const T>(values.slot) + plane * p.source;
          T* to = f.at<T>(y.slot) + plane * p.result;
          std::fill(to, to + p.result, T(0));
          for_indices(p, plane, f.at<std::byte>(indices.slot), indices.dtype,
                      [&](int64_t element, int64_t i) { to[i] = from[element]; });
        }
      });
    });
  });
}

}  // namespace

const Kernels pooling_indices_kernels("pooling_indices", [] {
  define_kernel("max_pooling2d_return_indices", lower_return_indices);
  define_kernel("max_pooling4d_return_indices", lower_return_indices);
  define_kernel("max_pooling2d_gradient_from_indices", lower_gradient_from_indices);
  define_kernel("max_pooling4d_gradient_from_indices", lower_gradient_from_indices);
  define_kernel("max_pooling2d_at_indices", lower_at_indices);
  define_kernel("max_pooling4d_at_indices", lower_at_indices);
});

}  // namespace mpsgraph::cpu
