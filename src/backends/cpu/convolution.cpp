// convolution2d and its gradients with respect to data and weights, for every layout, group, stride,
// dilation and padding.
//
// A tile of output pixels is unfolded to a matrix of patches, and all three operations become matrix
// products with it: result = patches·weights, d_weights = patchesᵀ·incoming, d_patches = incoming·weightsᵀ
// (folded back by adding). The halves unfold to float. The reference runs direct loops instead.

#include "core/ops/convolution.h"

#include <cstring>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

// Strides of an image tensor in the order batch, height, width, channel.
struct Image {
  int64_t n, c, h, w, sn, sc, sh, sw;
  Image(const ops::Windows2d& axes, const Dims& dims) {
    const Dims strides = contiguous_strides(dims);
    const auto size = [&](int axis) { return dims[static_cast<size_t>(axis)]; };
    const auto stride = [&](int axis) { return strides[static_cast<size_t>(axis)]; };
    n = size(axes.batch), c = size(axes.channel), h = size(axes.spatial[0]), w = size(axes.spatial[1]);
    sn = stride(axes.batch), sc = stride(axes.channel), sh = stride(axes.spatial[0]), sw = stride(axes.spatial[1]);
  }
};

// Everything the three operations need to know: x is the source's shape, y the result's, w the weights'.
struct Plan {
  Image x, y;
  int64_t kh, kw, sy, sx, si, so;     // kernel sizes; strides of the weights by ky, kx, input and output channel
  int64_t groups, inputs, outputs;    // channels of one group
  int64_t patch;                      // kh * kw * inputs: columns of the patch matrix, in that order
  int64_t rows, tiles;                // output rows of a tile, and tiles of an image
  ops::Window wy, wx;

  Plan(const ops::Convolution2d& c, const Dims& source, const Dims& weights, const Dims& result)
      : x(c, source), y(c, result), groups(c.groups) {
    const Dims strides = contiguous_strides(weights);
    const auto size = [&](int axis) { return weights[static_cast<size_t>(axis)]; };
    const auto stride = [&](int axis) { return strides[static_cast<size_t>(axis)]; };
    kh = size(c.weights_spatial[0]), kw = size(c.weights_spatial[1]);
    sy = stride(c.weights_spatial[0]), sx = stride(c.weights_spatial[1]);
    si = stride(c.weights_in), so = stride(c.weights_out);
    inputs = size(c.weights_in), outputs = size(c.weights_out) / groups;
    patch = kh * kw * inputs;
    if (const auto window = c.window(0, x.h, kh)) wy = *window;
    if (const auto window = c.window(1, x.w, kw)) wx = *window;
    // A tile's patches should stay in the second-level cache: about 64k elements.
    rows = std::clamp<int64_t>(65536 / std::max<int64_t>(patch * y.w, 1), 1, std::max<int64_t>(y.h, 1));
    tiles = (y.h + rows - 1) / rows;
  }
  int64_t pixels() const { return rows * y.w; }  // of a full tile
  bool empty() const { return y.n * y.h * y.w * y.c == 0 || patch == 0; }
};

template <class T>
using Compute = std::conditional_t<is_half_type<T>, float, T>;

// Calls f(patch pixel, patch column, source offset, n) for each run of n contiguous patch columns of output rows
// [row, end) that lies inside the source; n is the input channels of a tap. Padding is not visited.
template <class F>
void visit_taps(const Plan& p, int64_t row, int64_t end, const F& f) {
  for (int64_t oy = row; oy < end; ++oy)
    for (int64_t ox = 0; ox < p.y.w; ++ox)
      for (int64_t ky = 0; ky < p.kh; ++ky) {
        const int64_t iy = p.wy.at(oy, ky);
        if (iy < 0 || iy >= p.x.h) continue;
        for (int64_t kx = 0; kx < p.kw; ++kx) {
          const int64_t ix = p.wx.at(ox, kx);
          if (ix >= 0 && ix < p.x.w) f((oy - row) * p.y.w + ox, (ky * p.kw + kx) * p.inputs, iy * p.x.sh + ix * p.x.sw);
        }
      }
}

template <class T>
void unfold(const Plan& p, const T* x, int64_t row, int64_t end, Compute<T>* patches) {
  std::memset(patches, 0, static_cast<size_t>((end - row) * p.y.w * p.patch) * sizeof(Compute<T>));
  visit_taps(p, row, end, [&](int64_t pixel, int64_t column, int64_t offset) {
    Compute<T>* to = patches + pixel * p.patch + column;
    if constexpr (std::is_same_v<T, Compute<T>>) {
      if (p.x.sc == 1) return static_cast<void>(std::memcpy(to, x + offset, static_cast<size_t>(p.inputs) * sizeof(T)));
    }
    for (int64_t i = 0; i < p.inputs; ++i) to[i] = x[offset + i * p.x.sc];
  });
}

// The image's gradient in Compute<T>, with the strides of x.
template <class C>
void fold(const Plan& p, const C* patches, int64_t row, int64_t end, C* x) {
  visit_taps(p, row, end, [&](int64_t pixel, int64_t column, int64_t offset) {
    const C* from = patches + pixel * p.patch + column;
    C* to = x + offset;
    if (p.x.sc == 1) {
      for (int64_t i = 0; i < p.inputs; ++i) to[i] += from[i];
    } else {
      for (int64_t i = 0; i < p.inputs; ++i) to[i * p.x.sc] += from[i];
    }
  });
}

// Weights as [groups][patch, outputs].
template <class T>
void pack_weights(const Plan& p, const T* weights, Compute<T>* packed) {
  parallel_for(p.groups * p.kh * p.kw, grain_for(p.inputs * p.outputs * 4), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t g = unit / (p.kh * p.kw), tap = unit % (p.kh * p.kw);
      const T* from = weights + tap / p.kw * p.sy + tap % p.kw * p.sx + g * p.outputs * p.so;
      Compute<T>* to = packed + unit * p.inputs * p.outputs;
      for (int64_t i = 0; i < p.inputs; ++i)
        for (int64_t o = 0; o < p.outputs; ++o) *to++ = from[i * p.si + o * p.so];
    }
  });
}

// The output pixels of a tile for one group as a matrix [pixels, outputs], in place when it can be.
template <class T>
Matrix<T> pixels_of(const Plan& p, T* y, int64_t image, int64_t row, int64_t end, int64_t group) {
  return {y + image * p.y.sn + row * p.y.sh + group * p.outputs * p.y.sc, (end - row) * p.y.w, p.outputs, p.y.sw,
          p.y.sc};
}

// For the halves: the tile as floats, in `buffer`.
template <class T>
Matrix<const Compute<T>> read_pixels(const Matrix<const T>& m, [[maybe_unused]] Compute<T>* buffer) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    return m;
  } else {
    for (int64_t i = 0; i < m.rows; ++i)
      for (int64_t j = 0; j < m.columns; ++j)
        buffer[i * m.columns + j] = m.data[i * m.row_stride + j * m.column_stride];
    return {buffer, m.rows, m.columns, m.columns, 1};
  }
}

// Runs f(part, begin, end) over units in a fixed number of parts, each with memory of its own.
struct Parts {
  int64_t units, parts;
  Parts(int64_t units, int64_t work_per_unit)
      : units(units), parts(std::clamp<int64_t>(units / grain_for(work_per_unit), 1, thread_count())) {}
  template <class F>
  void run(const F& f) const {
    parallel_parts(parts, [&](int64_t part) { f(part, units * part / parts, units * (part + 1) / parts); });
  }
};

template <class T>
std::unique_ptr<Kernel> convolve(Lowering& lowering, const Plan& p, Slot x, Slot w, Slot y) {
  using C = Compute<T>;
  const Parts work(p.x.n * p.tiles, p.pixels() * p.patch * p.outputs);
  const int64_t packed = p.patch * p.outputs * p.groups,
                own = p.pixels() * (p.patch + (is_half_type<T> ? p.outputs : 0));
  const Slot scratch = lowering.scratch(static_cast<size_t>(packed + work.parts * own) * sizeof(C));
  return kernel(
      [=](Frame& f) {
        C* weights = f.at<C>(scratch);
        pack_weights(p, f.at<const T>(w), weights);
        work.run([&](int64_t part, int64_t begin, int64_t end) {
          C *patches = weights + packed + part * own, *results = patches + p.pixels() * p.patch;
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t image = unit / p.tiles, row = unit % p.tiles * p.rows, last = std::min(p.y.h, row + p.rows);
            for (int64_t g = 0; g < p.groups; ++g) {
              unfold(p, f.at<const T>(x) + image * p.x.sn + g * p.inputs * p.x.sc, row, last, patches);
              const Matrix<T> out = pixels_of(p, f.at<T>(y), image, row, last, g);
              const Matrix<const C> left{patches, out.rows, p.patch, p.patch, 1};
              const Matrix<const C> right{weights + g * p.patch * p.outputs, p.patch, p.outputs, p.outputs, 1};
              if constexpr (std::is_same_v<T, C>) {
                gemm<C>(left, right, out);
              } else {
                gemm<C>(left, right, {results, out.rows, p.outputs, p.outputs, 1});
                for (int64_t i = 0; i < out.rows; ++i)
                  for (int64_t o = 0; o < p.outputs; ++o)
                    out.data[i * out.row_stride + o * out.column_stride] = T(results[i * p.outputs + o]);
              }
            }
          }
        });
      },
      "patches");
}

// Images are independent; tiles of an image are not, for their patches overlap.
template <class T>
std::unique_ptr<Kernel> convolve_back(Lowering& lowering, const Plan& p, Slot incoming, Slot w, Slot x) {
  using C = Compute<T>;
  const Parts work(p.x.n * p.groups, p.y.h * p.y.w * p.patch * p.outputs);
  const int64_t packed = p.patch * p.outputs * p.groups, image_size = p.x.h * p.x.w * p.x.c;
  const int64_t own = p.pixels() * (p.patch + (is_half_type<T> ? p.outputs : 0));
  const int64_t folded = is_half_type<T> ? p.x.n * image_size : 0;
  const Slot scratch = lowering.scratch(static_cast<size_t>(packed + work.parts * own + folded) * sizeof(C));
  return kernel(
      [=](Frame& f) {
        C* weights = f.at<C>(scratch);
        pack_weights(p, f.at<const T>(w), weights);
        C* gradient;
        if constexpr (is_half_type<T>)
          gradient = weights + packed + work.parts * own;
        else
          gradient = f.at<T>(x);
        const int64_t elements = p.x.n * image_size;
        parallel_for(elements, 65536,
                     [&](int64_t begin, int64_t end) { std::fill(gradient + begin, gradient + end, C(0)); });
        work.run([&](int64_t part, int64_t begin, int64_t end) {
          C *patches = weights + packed + part * own, *buffer = patches + p.pixels() * p.patch;
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t image = unit / p.groups, g = unit % p.groups;
            for (int64_t row = 0; row < p.y.h; row += p.rows) {
              const int64_t last = std::min(p.y.h, row + p.rows);
              const Matrix<const C> from =
                  read_pixels<T>(pixels_of(p, f.at<const T>(incoming), image, row, last, g), buffer);
              const Matrix<const C> right{weights + g * p.patch * p.outputs, p.patch, p.outputs, p.outputs, 1};
              gemm<C>(from, right.transposed(), {patches, from.rows, p.patch, p.patch, 1});
              fold(p, patches, row, last, gradient + image * p.x.sn + g * p.inputs * p.x.sc);
            }
          }
        });
        if constexpr (is_half_type<T>) {
          T* to = f.at<T>(x);
          parallel_for(elements, 32768, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) to[i] = T(gradient[i]);
          });
        }
      },
      "patches");
}

// Each part sums its tiles; the parts are added in order.
template <class T>
std::unique_ptr<Kernel> convolve_weights(Lowering& lowering, const Plan& p, Slot incoming, Slot x, Slot w) {
  using C = Compute<T>;
  const Parts work(p.x.n * p.tiles, p.pixels() * p.patch * p.outputs);
  const int64_t sums = p.groups * p.patch * p.outputs,
                own = sums + p.pixels() * (p.patch + (is_half_type<T> ? p.outputs : 0));
  const Slot scratch = lowering.scratch(static_cast<size_t>(work.parts * own) * sizeof(C));
  return kernel(
      [=](Frame& f) {
        work.run([&](int64_t part, int64_t begin, int64_t end) {
          C *sum = f.at<C>(scratch) + part * own, *patches = sum + sums, *buffer = patches + p.pixels() * p.patch;
          std::fill(sum, sum + sums, C(0));
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t image = unit / p.tiles, row = unit % p.tiles * p.rows, last = std::min(p.y.h, row + p.rows);
            for (int64_t g = 0; g < p.groups; ++g) {
              unfold(p, f.at<const T>(x) + image * p.x.sn + g * p.inputs * p.x.sc, row, last, patches);
              const Matrix<const C> from =
                  read_pixels<T>(pixels_of(p, f.at<const T>(incoming), image, row, last, g), buffer);
              const Matrix<const C> left{patches, from.rows, p.patch, p.patch, 1};
              gemm<C>(left.transposed(), from, {sum + g * p.patch * p.outputs, p.patch, p.outputs, p.outputs, 1}, true);
            }
          }
        });
        T* weights = f.at<T>(w);
        const C* all = f.at<C>(scratch);
        for (int64_t g = 0, at = 0; g < p.groups; ++g)
          for (int64_t tap = 0; tap < p.kh * p.kw; ++tap)
            for (int64_t i = 0; i < p.inputs; ++i)
              for (int64_t o = 0; o < p.outputs; ++o, ++at) {
                C total = all[at];
                for (int64_t part = 1; part < work.parts; ++part) total += all[part * own + at];
                weights[tap / p.kw * p.sy + tap % p.kw * p.sx + i * p.si + (g * p.outputs + o) * p.so] = T(total);
              }
      },
      "patches");
}

// The reference: direct loops. Element [tap, input, output] of the weights belongs to group `g`.
int64_t weight_at(const Plan& p, int64_t ky, int64_t kx, int64_t i, int64_t output) {
  return ky * p.sy + kx * p.sx + i * p.si + output * p.so;
}

template <class T>
void reference(const Plan& p, const T* x, const T* w, T* y) {
  parallel_for(p.y.n * p.y.c, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t n = unit / p.y.c, o = unit % p.y.c, first = o / p.outputs * p.inputs;
      for (int64_t oy = 0; oy < p.y.h; ++oy)
        for (int64_t ox = 0; ox < p.y.w; ++ox) {
          double sum = 0;
          for (int64_t ky = 0; ky < p.kh; ++ky)
            for (int64_t kx = 0; kx < p.kw; ++kx) {
              const int64_t iy = p.wy.at(oy, ky), ix = p.wx.at(ox, kx);
              if (iy < 0 || iy >= p.x.h || ix < 0 || ix >= p.x.w) continue;
              for (int64_t i = 0; i < p.inputs; ++i)
                sum += double(Compute<T>(x[n * p.x.sn + iy * p.x.sh + ix * p.x.sw + (first + i) * p.x.sc])) *
                       double(Compute<T>(w[weight_at(p, ky, kx, i, o)]));
            }
          y[n * p.y.sn + oy * p.y.sh + ox * p.y.sw + o * p.y.sc] = T(Compute<T>(sum));
        }
    }
  });
}

template <class T>
void reference_back(const Plan& p, const T* incoming, const T* w, T* x) {
  parallel_for(p.x.n * p.x.c, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t n = unit / p.x.c, c = unit % p.x.c, g = c / p.inputs, i = c % p.inputs;
      for (int64_t iy = 0; iy < p.x.h; ++iy)
        for (int64_t ix = 0; ix < p.x.w; ++ix) {
          double sum = 0;
          for (int64_t ky = 0; ky < p.kh; ++ky)
            for (int64_t kx = 0; kx < p.kw; ++kx) {
              const int64_t ty = iy + p.wy.begin - ky * p.wy.dilation, tx = ix + p.wx.begin - kx * p.wx.dilation;
              if (ty < 0 || tx < 0 || ty % p.wy.stride || tx % p.wx.stride) continue;
              const int64_t oy = ty / p.wy.stride, ox = tx / p.wx.stride;
              if (oy >= p.y.h || ox >= p.y.w) continue;
              for (int64_t o = g * p.outputs; o < (g + 1) * p.outputs; ++o)
                sum += double(Compute<T>(incoming[n * p.y.sn + oy * p.y.sh + ox * p.y.sw + o * p.y.sc])) *
                       double(Compute<T>(w[weight_at(p, ky, kx, i, o)]));
            }
          x[n * p.x.sn + iy * p.x.sh + ix * p.x.sw + c * p.x.sc] = T(Compute<T>(sum));
        }
    }
  });
}

template <class T>
void reference_weights(const Plan& p, const T* incoming, const T* x, T* w) {
  parallel_for(p.y.c, 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o)
      for (int64_t ky = 0; ky < p.kh; ++ky)
        for (int64_t kx = 0; kx < p.kw; ++kx)
          for (int64_t i = 0; i < p.inputs; ++i) {
            double sum = 0;
            for (int64_t n = 0; n < p.y.n; ++n)
              for (int64_t oy = 0; oy < p.y.h; ++oy)
                for (int64_t ox = 0; ox < p.y.w; ++ox) {
                  const int64_t iy = p.wy.at(oy, ky), ix = p.wx.at(ox, kx), c = o / p.outputs * p.inputs + i;
                  if (iy < 0 || iy >= p.x.h || ix < 0 || ix >= p.x.w) continue;
                  sum += double(Compute<T>(incoming[n * p.y.sn + oy * p.y.sh + ox * p.y.sw + o * p.y.sc])) *
                         double(Compute<T>(x[n * p.x.sn + iy * p.x.sh + ix * p.x.sw + c * p.x.sc]));
                }
            w[weight_at(p, ky, kx, i, o)] = T(Compute<T>(sum));
          }
  });
}

std::unique_ptr<Kernel> zeros(const Operand& y) {
  return kernel([slot = y.slot, bytes = y.bytes()](Frame& f) { std::memset(f.at<std::byte>(slot), 0, bytes); });
}

// What the three lowerings share: two operands and a result, which play source, weights and result by turns.
template <class Direct, class Patches>
std::unique_ptr<Kernel> lower(Lowering& lowering, const Plan& p, const Direct& direct, const Patches& patches) {
  const Operand a = lowering.input(0), b = lowering.input(1), out = lowering.output();
  return dispatch_float(lowering, out.dtype, [&](auto type) -> std::unique_ptr<Kernel> {
    using T = typename decltype(type)::type;
    if (p.empty()) return zeros(out);
    if (!lowering.reference_only()) return patches(type, a.slot, b.slot, out.slot);
    return kernel([=](Frame& f) { direct(p, f.at<const T>(a.slot), f.at<const T>(b.slot), f.at<T>(out.slot)); },
                  "direct");
  });
}

std::unique_ptr<Kernel> lower_convolution(Lowering& lowering) {
  const Plan p(ops::Convolution2d(lowering.attributes()), lowering.input(0).dims, lowering.input(1).dims,
               lowering.output().dims);
  return lower(
      lowering, p, [](auto&&... arguments) { reference(arguments...); },
      [&](auto type, Slot a, Slot b, Slot out) {
        return convolve<typename decltype(type)::type>(lowering, p, a, b, out);
      });
}

std::unique_ptr<Kernel> lower_data_gradient(Lowering& lowering) {
  const Plan p(ops::Convolution2d(lowering.attributes()), lowering.output().dims, lowering.input(1).dims,
               lowering.input(0).dims);
  return lower(
      lowering, p, [](auto&&... arguments) { reference_back(arguments...); },
      [&](auto type, Slot a, Slot b, Slot out) {
        return convolve_back<typename decltype(type)::type>(lowering, p, a, b, out);
      });
}

std::unique_ptr<Kernel> lower_weights_gradient(Lowering& lowering) {
  const Plan p(ops::Convolution2d(lowering.attributes()), lowering.input(1).dims, lowering.output().dims,
               lowering.input(0).dims);
  return lower(
      lowering, p, [](auto&&... arguments) { reference_weights(arguments...); },
      [&](auto type, Slot a, Slot b, Slot out) {
        return convolve_weights<typename decltype(type)::type>(lowering, p, a, b, out);
      });
}

}  // namespace

void register_convolution_kernels() {
  define_kernel("convolution2d", lower_convolution);
  define_kernel("convolution2d_data_gradient", lower_data_gradient);
  define_kernel("convolution2d_weights_gradient", lower_weights_gradient);
}

}  // namespace mpsgraph::cpu
