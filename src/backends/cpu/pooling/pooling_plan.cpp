// PoolingPlan: maps the axes of an operand to planes, windowed axes, and lanes.
#include "backends/cpu/pooling/pooling.h"

namespace mpsgraph::cpu {

PoolingPlan::PoolingPlan(const Lowering& lowering, const ops::Pooling& pooling, const Dims& source_dims,
                         const Dims& result_dims) {
  const auto rank = source_dims.size();
  std::vector<ops::Window> axes;  // one window per axis, trivial if the axis is not windowed
  for (int64_t size : source_dims) axes.push_back({size, 1, 1, 1, 0, 0, size});
  for (int i = 0; i < pooling.count; ++i) {
    ops::Window& axis = axes[rank - static_cast<size_t>(-pooling.spatial[i])];
    axis = pooling.window(i, axis.input);
    axis.output = ops::size_at(result_dims, pooling.spatial[i]);
  }
  const auto trivial = [](const ops::Window& w) {
    return w.kernel == 1 && w.stride == 1 && w.begin == 0 && w.end == 0 && w.output == w.input;
  };
  size_t first = 0, last = rank;  // all axes in [first, last) are treated as windowed
  while (first + 1 < last && trivial(axes[first])) planes *= axes[first++].input;
  while (last > first && trivial(axes[last - 1])) lanes *= axes[--last].input;
  for (int a = 0; a < 4; ++a) windows[a] = {1, 1, 1, 1, 0, 0, 1};
  std::vector<ops::Window> windowed(axes.begin() + static_cast<int64_t>(first),
                                    axes.begin() + static_cast<int64_t>(last));
  for (size_t i = windowed.size(); i-- > 1;) {
    // Merge axis i with axis i - 1, if every window covers all of axis i.
    const ops::Window whole = windowed[i];
    ops::Window& w = windowed[i - 1];
    if (whole.kernel != whole.input || whole.output != 1 || whole.begin != 0 || whole.end != 0) continue;
    if (whole.dilation != 1 || w.dilation != 1) continue;
    for (int64_t* size : {&w.input, &w.kernel, &w.stride, &w.begin, &w.end}) *size *= whole.input;
    windowed.erase(windowed.begin() + static_cast<int64_t>(i));
  }
  std::copy(windowed.rbegin(), windowed.rend(), windows.rbegin());
  source = result = lanes;
  for (int a = 3; a >= 0; --a) {
    const ops::Window& w = windows[a];
    source_step[a] = source, result_step[a] = result;
    source *= w.input, result *= w.output;
    for (int64_t i = 0; i < w.output; ++i)
      inside[a].push_back(ops::pooling_taps(w, i, pooling.include_zero_pad_to_average));
    disjoint = disjoint && w.stride >= w.reach();
    covering = covering && w.kernel == w.stride && (w.dilation == 1 || w.kernel == 1) && w.begin == 0 &&
               w.output * w.stride >= w.input;
  }
  if (source >= ops::window_limit) {
    const Operation& operation = lowering.operation();
    throw UnsupportedError(cat("[", operation.kind(), "] images must have fewer than 2^31 elements on the CPU, got ",
                               source, " in '", operation.name, "'; split the image", operation.where()));
  }
}

PoolingBlocks::PoolingBlocks(const PoolingPlan& p) {
  blocks = p.planes >= thread_count() ? 1 : std::clamp<int64_t>(p.lanes / 16, 1, thread_count());
  parts = std::clamp<int64_t>(p.planes * blocks / grain_for(p.source * 8 / blocks), 1, thread_count());
}

}  // namespace mpsgraph::cpu
