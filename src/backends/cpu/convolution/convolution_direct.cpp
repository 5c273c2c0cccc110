// Direct loops for convolution and its gradients: the reference kernels, also used if pixels are not evenly spaced.
#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {

ConvolutionImage::ConvolutionImage(const ops::Windows& axes, const Dims& dims) {
  const Dims strides = contiguous_strides(dims);
  c = ops::size_at(dims, axes.channel), sc = ops::size_at(strides, axes.channel);
  const int first = 3 - axes.count;
  for (int i = 0; i < axes.count; ++i) {
    size[first + i] = ops::size_at(dims, axes.spatial[i]);
    step[first + i] = ops::size_at(strides, axes.spatial[i]);
  }
  const size_t batch_axes = dims.size() - static_cast<size_t>(axes.count) - 1;
  for (size_t i = 0; i < batch_axes; ++i) n *= dims[i];
  sn = c * pixels();
}

ConvolutionPlan::ConvolutionPlan(const ops::Convolution& c, const Dims& source, const Dims& w, const Dims& result)
    : x(c, source),
      y(c, result),
      weights(c, x.c, w),
      groups(weights.groups),
      inputs(weights.inputs),
      outputs(weights.outputs) {
  const Dims strides = contiguous_strides(w);
  const int first = 3 - c.count;
  for (int i = 0; i < c.count; ++i) {
    const auto axis = static_cast<size_t>(c.weights_spatial[i]);
    kernel[first + i] = w[axis];
    kernel_step[first + i] = strides[axis];
    if (const auto window = c.window(i, x.size[first + i], w[axis])) windows[first + i] = *window;
  }
  for (int i = 0; i < first; ++i) windows[i] = {1, 1, 1, 1, 0, 0, 1};
}

namespace {

template <class T>
double wide(T value) {
  return static_cast<double>(static_cast<Value<T>>(value));
}

// Call f(tap, offset) for each tap of an output pixel that reads inside the image; `offset` is the offset of the source
// pixel that the tap reads.
template <class F>
void visit_inside(const ConvolutionPlan& p, int64_t od, int64_t oy, int64_t ox, const F& f) {
  const auto& [wd, wy, wx] = p.windows;
  for (int64_t kd = 0, tap = 0; kd < p.kernel[0]; ++kd)
    for (int64_t ky = 0; ky < p.kernel[1]; ++ky)
      for (int64_t kx = 0; kx < p.kernel[2]; ++kx, ++tap) {
        const int64_t id = wd.at(od, kd), iy = wy.at(oy, ky), ix = wx.at(ox, kx);
        if (id < 0 || id >= p.x.size[0] || iy < 0 || iy >= p.x.size[1] || ix < 0 || ix >= p.x.size[2]) continue;
        f(tap, id * p.x.step[0] + iy * p.x.step[1] + ix * p.x.step[2]);
      }
}

// Along one axis, return the index of the output element for which filter tap `tap` reads input index `i`. Return -1 if
// there is no such element.
int64_t position_of(const ops::Window& w, int64_t i, int64_t tap) {
  const int64_t start = i + w.begin - tap * w.dilation;
  if (start < 0 || start % w.stride != 0 || start / w.stride >= w.output) return -1;
  return start / w.stride;
}

template <class F>
void for_pixels(const ConvolutionImage& image, const F& f) {
  for (int64_t d = 0; d < image.size[0]; ++d)
    for (int64_t y = 0; y < image.size[1]; ++y) {
      poll_run();
      for (int64_t x = 0; x < image.size[2]; ++x) f(d, y, x, d * image.step[0] + y * image.step[1] + x * image.step[2]);
    }
}

}  // namespace

template <class T>
void DirectConvolution<T>::forward(const ConvolutionPlan& p, const T* x, const T* w, T* y) {
  parallel_for(p.y.n * p.y.c, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t n = unit / p.y.c, o = unit % p.y.c, g = o / p.outputs;
      const T* image = x + n * p.x.sn + g * p.inputs * p.x.sc;
      const T* kernel = w + g * p.weights.group_stride + o % p.outputs * p.weights.output_stride;
      for_pixels(p.y, [&](int64_t od, int64_t oy, int64_t ox, int64_t pixel) {
        double sum = 0;
        visit_inside(p, od, oy, ox, [&](int64_t tap, int64_t from) {
          const T* taps = kernel + p.tap_offset(tap);
          for (int64_t i = 0; i < p.inputs; ++i)
            sum += wide(image[from + i * p.x.sc]) * wide(taps[i * p.weights.input_stride]);
        });
        y[n * p.y.sn + o * p.y.sc + pixel] = T(static_cast<Value<T>>(sum));
      });
    }
  });
}

template <class T>
void DirectConvolution<T>::data_gradient(const ConvolutionPlan& p, const T* incoming, const T* w, T* x) {
  parallel_for(p.x.n * p.x.c, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t n = unit / p.x.c, c = unit % p.x.c, g = c / p.inputs;
      const T* from = incoming + n * p.y.sn + g * p.outputs * p.y.sc;
      const T* kernel = w + g * p.weights.group_stride + c % p.inputs * p.weights.input_stride;
      for_pixels(p.x, [&](int64_t id, int64_t iy, int64_t ix, int64_t pixel) {
        double sum = 0;
        for (int64_t tap = 0; tap < p.taps(); ++tap) {
          const int64_t od = position_of(p.windows[0], id, tap / (p.kernel[1] * p.kernel[2]));
          const int64_t oy = position_of(p.windows[1], iy, tap / p.kernel[2] % p.kernel[1]);
          const int64_t ox = position_of(p.windows[2], ix, tap % p.kernel[2]);
          if (od < 0 || oy < 0 || ox < 0) continue;
          const T* at = from + od * p.y.step[0] + oy * p.y.step[1] + ox * p.y.step[2];
          const T* taps = kernel + p.tap_offset(tap);
          for (int64_t o = 0; o < p.outputs; ++o) sum += wide(at[o * p.y.sc]) * wide(taps[o * p.weights.output_stride]);
        }
        x[n * p.x.sn + c * p.x.sc + pixel] = T(static_cast<Value<T>>(sum));
      });
    }
  });
}

template <class T>
void DirectConvolution<T>::weights_gradient(const ConvolutionPlan& p, const T* incoming, const T* x, T* w) {
  parallel_for(p.y.c * p.inputs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t o = unit / p.inputs, i = unit % p.inputs, g = o / p.outputs;
      T* kernel = w + g * p.weights.group_stride + o % p.outputs * p.weights.output_stride + i * p.weights.input_stride;
      const T* image = x + (g * p.inputs + i) * p.x.sc;
      for (int64_t tap = 0; tap < p.taps(); ++tap) {
        const std::array at{tap / (p.kernel[1] * p.kernel[2]), tap / p.kernel[2] % p.kernel[1], tap % p.kernel[2]};
        double sum = 0;
        for_pixels(p.y, [&](int64_t od, int64_t oy, int64_t ox, int64_t pixel) {
          int64_t from = 0;
          for (int axis : {0, 1, 2}) {
            const int64_t position = axis == 0 ? od : axis == 1 ? oy : ox;
            const int64_t element = p.windows[axis].at(position, at[axis]);
            if (element < 0 || element >= p.x.size[axis]) return;
            from += element * p.x.step[axis];
          }
          for (int64_t n = 0; n < p.y.n; ++n)
            sum += wide(incoming[n * p.y.sn + o * p.y.sc + pixel]) * wide(image[n * p.x.sn + from]);
        });
        kernel[p.tap_offset(tap)] = T(static_cast<Value<T>>(sum));
      }
    }
  });
}

template struct DirectConvolution<float>;
template struct DirectConvolution<double>;
template struct DirectConvolution<Half>;
template struct DirectConvolution<BFloat16>;

}  // namespace mpsgraph::cpu
