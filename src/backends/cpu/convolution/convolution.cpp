// Convolutions over two and three axes, grouped and depthwise, and their gradients with respect to the input and the
// weights: the portable im2col kernels.
//
// A tile of output pixels is unfolded into a matrix of patches (im2col), so that the convolution and both gradients
// become matmuls:
//   result = patches·weights, d_weights = patchesᵀ·incoming, d_patches = incoming·weightsᵀ
// The rows of d_patches are then accumulated in the input gradient. Half precision is unfolded to float. The reference
// kernels run direct loops instead.

#include "backends/cpu/convolution/convolution.h"

#include <cstring>

#include "backends/cpu/matrix/gemm.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

// A convolution plan that divides each image into tiles of output rows. In 3-D, each (depth, height) position is one
// row.
struct Plan : ConvolutionPlan {
  int64_t patch;        // columns of the patch matrix: taps * inputs, with inputs varying fastest
  int64_t all_rows;     // output rows per image
  int64_t rows, tiles;  // output rows per tile, tiles per image

  explicit Plan(const ConvolutionPlan& plan) : ConvolutionPlan(plan) {
    patch = taps() * inputs;
    all_rows = y.size[0] * y.size[1];
    // The patches of a tile should fit in L2: about 64k elements.
    rows = std::clamp<int64_t>(65536 / std::max<int64_t>(patch * width(), 1), 1, std::max<int64_t>(all_rows, 1));
    tiles = (all_rows + rows - 1) / rows;
  }
  int64_t width() const { return y.size[2]; }
  int64_t tile_pixels() const { return rows * width(); }  // pixels of a full tile
};

template <class T>
using Compute = std::conditional_t<is_half_type<T>, float, T>;

// Call f(patch pixel, patch column, source offset) for each tap of output rows [row, end) that lies inside the source.
// Each call covers consecutive patch columns, one per input channel of a group. Taps that read padding are skipped.
template <class F>
void visit_taps(const Plan& p, int64_t row, int64_t end, const F& f) {
  const auto& [wd, wy, wx] = p.windows;
  const auto outside = [](int64_t i, const ops::Window& w) { return i < 0 || i >= w.input; };
  for (int64_t r = row; r < end; ++r) {
    const int64_t od = r / p.y.size[1], oy = r % p.y.size[1];
    for (int64_t ox = 0; ox < p.width(); ++ox)
      for (int64_t kd = 0; kd < p.kernel[0]; ++kd) {
        const int64_t id = wd.at(od, kd);
        if (outside(id, wd)) continue;
        for (int64_t ky = 0; ky < p.kernel[1]; ++ky) {
          const int64_t iy = wy.at(oy, ky);
          if (outside(iy, wy)) continue;
          const int64_t tap = (kd * p.kernel[1] + ky) * p.kernel[2];
          const int64_t from = id * p.x.step[0] + iy * p.x.step[1];
          for (int64_t kx = 0; kx < p.kernel[2]; ++kx) {
            const int64_t ix = wx.at(ox, kx);
            if (!outside(ix, wx)) f((r - row) * p.width() + ox, (tap + kx) * p.inputs, from + ix * p.x.step[2]);
          }
        }
      }
  }
}

template <class T>
void unfold(const Plan& p, const T* x, int64_t row, int64_t end, Compute<T>* patches) {
  std::memset(patches, 0, static_cast<size_t>((end - row) * p.width() * p.patch) * sizeof(Compute<T>));
  visit_taps(p, row, end, [&](int64_t pixel, int64_t column, int64_t offset) {
    Compute<T>* to = patches + pixel * p.patch + column;
    if constexpr (std::is_same_v<T, Compute<T>>) {
      if (p.x.sc == 1) return static_cast<void>(std::memcpy(to, x + offset, static_cast<size_t>(p.inputs) * sizeof(T)));
    }
    for (int64_t i = 0; i < p.inputs; ++i) to[i] = x[offset + i * p.x.sc];
  });
}

// Accumulate the gradient of the patches into the image gradient, which has element type Compute<T> and the strides of
// x.
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

// Reorder the weights to [groups][patch, outputs].
template <class T>
void pack_weights(const Plan& p, const T* weights, Compute<T>* packed) {
  parallel_for(p.groups * p.taps(), grain_for(p.inputs * p.outputs * 4), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const T* from = weights + p.tap_offset(unit % p.taps()) + unit / p.taps() * p.weights.group_stride;
      Compute<T>* to = packed + unit * p.inputs * p.outputs;
      for (int64_t i = 0; i < p.inputs; ++i)
        for (int64_t o = 0; o < p.outputs; ++o) *to++ = from[i * p.weights.input_stride + o * p.weights.output_stride];
    }
  });
}

// Packs the weights of each group, plain or transposed, as GEMM panels. `memory` holds the weights in matrix form,
// followed by the panels.
template <class C>
struct PackedWeights {
  GemmPanels<C> panels;
  int64_t groups, patch, outputs;
  bool transposed;

  PackedWeights(const Plan& p, bool transposed)
      : panels(transposed ? p.outputs : p.patch, transposed ? p.patch : p.outputs),
        groups(p.groups),
        patch(p.patch),
        outputs(p.outputs),
        transposed(transposed) {}
  int64_t weights() const { return groups * patch * outputs; }
  int64_t elements() const { return weights() + groups * panels.elements(); }
  const C* of_group(const C* memory, int64_t g) const { return memory + weights() + g * panels.elements(); }

  template <class T>
  void pack(const Plan& p, const T* from, C* memory) const {
    pack_weights(p, from, memory);
    const int64_t pieces = panels.pieces();
    parallel_for(groups * pieces, grain_for(panels.elements() / std::max<int64_t>(pieces, 1) * 2),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t g = i / pieces;
                     const Matrix<const C> matrix{memory + g * patch * outputs, patch, outputs, outputs, 1};
                     panels.pack(transposed ? matrix.transposed() : matrix, i % pieces,
                                 memory + weights() + g * panels.elements());
                   }
                 });
  }
};

// View the output pixels of a tile for one group as a matrix [pixels, outputs], without a copy.
template <class T>
Matrix<T> pixels_of(const Plan& p, T* y, int64_t image, int64_t row, int64_t end, int64_t group) {
  return {y + image * p.y.sn + row * p.y.step[1] + group * p.outputs * p.y.sc, (end - row) * p.width(), p.outputs,
          p.y.step[2], p.y.sc};
}

// Return the pixels of a tile as floats; half precision is converted into `buffer`.
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

// Splits work units, such as tiles of output rows, into a fixed number of parts, each with its own memory, and calls
// f(part, begin, end) for each part.
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
std::unique_ptr<Kernel> by_patches(Lowering& lowering, const Plan& p, Slot x, Slot w, Slot y) {
  using C = Compute<T>;
  const Parts work(p.x.n * p.tiles, p.tile_pixels() * p.patch * p.outputs);
  const PackedWeights<C> packed(p, false);
  const int64_t own = p.tile_pixels() * (p.patch + (is_half_type<T> ? p.outputs : 0));
  const Slot scratch = lowering.scratch(static_cast<size_t>(packed.elements() + work.parts * own) * sizeof(C));
  return kernel(
      [=](Frame& f) {
        C* weights = f.at<C>(scratch);
        packed.pack(p, f.at<const T>(w), weights);
        work.run([&](int64_t part, int64_t begin, int64_t end) {
          C *patches = weights + packed.elements() + part * own, *results = patches + p.tile_pixels() * p.patch;
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t image = unit / p.tiles, row = unit % p.tiles * p.rows,
                          last = std::min(p.all_rows, row + p.rows);
            for (int64_t g = 0; g < p.groups; ++g) {
              poll_run();
              unfold(p, f.at<const T>(x) + image * p.x.sn + g * p.inputs * p.x.sc, row, last, patches);
              const Matrix<T> out = pixels_of(p, f.at<T>(y), image, row, last, g);
              const Matrix<const C> left{patches, out.rows, p.patch, p.patch, 1};
              const C* right = packed.of_group(weights, g);
              if constexpr (std::is_same_v<T, C>) {
                packed.panels.multiply(left, right, out);
              } else {
                packed.panels.multiply(left, right, {results, out.rows, p.outputs, p.outputs, 1});
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

// Images and groups run in parallel. The tiles of an image run in sequence, because their patches overlap.
template <class T>
std::unique_ptr<Kernel> back_by_patches(Lowering& lowering, const Plan& p, Slot incoming, Slot w, Slot x) {
  using C = Compute<T>;
  const Parts work(p.x.n * p.groups, p.y.pixels() * p.patch * p.outputs);
  const PackedWeights<C> packed(p, true);
  const int64_t image_size = p.x.sn;
  const int64_t own = p.tile_pixels() * (p.patch + (is_half_type<T> ? p.outputs : 0));
  const int64_t folded = is_half_type<T> ? p.x.n * image_size : 0;
  const Slot scratch = lowering.scratch(static_cast<size_t>(packed.elements() + work.parts * own + folded) * sizeof(C));
  return kernel(
      [=](Frame& f) {
        C* weights = f.at<C>(scratch);
        packed.pack(p, f.at<const T>(w), weights);
        C* gradient;
        if constexpr (is_half_type<T>)
          gradient = weights + packed.elements() + work.parts * own;
        else
          gradient = f.at<T>(x);
        const int64_t elements = p.x.n * image_size;
        parallel_for(elements, 65536,
                     [&](int64_t begin, int64_t end) { std::fill(gradient + begin, gradient + end, C(0)); });
        work.run([&](int64_t part, int64_t begin, int64_t end) {
          C *patches = weights + packed.elements() + part * own, *buffer = patches + p.tile_pixels() * p.patch;
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t image = unit / p.groups, g = unit % p.groups;
            for (int64_t row = 0; row < p.all_rows; row += p.rows) {
              poll_run();
              const int64_t last = std::min(p.all_rows, row + p.rows);
              const Matrix<const C> from =
                  read_pixels<T>(pixels_of(p, f.at<const T>(incoming), image, row, last, g), buffer);
              packed.panels.multiply(from, packed.of_group(weights, g), {patches, from.rows, p.patch, p.patch, 1});
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

// Each part accumulates the gradient of its own tiles, and the partial gradients are then added in order.
template <class T>
std::unique_ptr<Kernel> weights_by_patches(Lowering& lowering, const Plan& p, Slot incoming, Slot x, Slot w) {
  using C = Compute<T>;
  const Parts work(p.x.n * p.tiles, p.tile_pixels() * p.patch * p.outputs);
  const int64_t sums = p.groups * p.patch * p.outputs,
                own = sums + p.tile_pixels() * (p.patch + (is_half_type<T> ? p.outputs : 0));
  const Slot scratch = lowering.scratch(static_cast<size_t>(work.parts * own) * sizeof(C));
  return kernel(
      [=](Frame& f) {
        work.run([&](int64_t part, int64_t begin, int64_t end) {
          C *sum = f.at<C>(scratch) + part * own, *patches = sum + sums, *buffer = patches + p.tile_pixels() * p.patch;
          std::fill(sum, sum + sums, C(0));
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t image = unit / p.tiles, row = unit % p.tiles * p.rows,
                          last = std::min(p.all_rows, row + p.rows);
            for (int64_t g = 0; g < p.groups; ++g) {
              poll_run();
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
          for (int64_t tap = 0; tap < p.taps(); ++tap)
            for (int64_t i = 0; i < p.inputs; ++i)
              for (int64_t o = 0; o < p.outputs; ++o, ++at) {
                C total = all[at];
                for (int64_t part = 1; part < work.parts; ++part) total += all[part * own + at];
                weights[p.tap_offset(tap) + g * p.weights.group_stride + i * p.weights.input_stride +
                        o * p.weights.output_stride] = T(total);
              }
      },
      "patches");
}

std::unique_ptr<Kernel> zeros(const Operand& y) {
  return kernel([slot = y.slot, bytes = y.bytes()](Frame& f) { std::memset(f.at<std::byte>(slot), 0, bytes); });
}

// Shared body of the lowerings of a convolution and its two gradients. The operands are source and weights in the
// convolution, incoming gradient and weights in the input gradient, and incoming gradient and source in the weight
// gradient.
template <class Direct, class Patches>
std::unique_ptr<Kernel> lower(Lowering& lowering, const ConvolutionPlan& p, const Direct& direct,
                              const Patches& patches) {
  const Operand a = lowering.input(0), b = lowering.input(1), out = lowering.output();
  return dispatch_float(lowering, out.dtype, [&](auto type) -> std::unique_ptr<Kernel> {
    using T = typename decltype(type)::type;
    if (p.empty()) return zeros(out);
    if (!lowering.reference_only() && p.even()) return patches(type, Plan(p), a.slot, b.slot, out.slot);
    return kernel([=](Frame& f) { direct(p, f.at<const T>(a.slot), f.at<const T>(b.slot), f.at<T>(out.slot)); },
                  "direct");
  });
}

}  // namespace

std::unique_ptr<Kernel> convolve(Lowering& lowering, const ConvolutionPlan& plan) {
  return lower(
      lowering, plan,
      []<class T>(const ConvolutionPlan& p, const T* x, const T* w, T* y) {
        DirectConvolution<T>::forward(p, x, w, y);
      },
      [&](auto type, const Plan& p, Slot a, Slot b, Slot out) {
        return by_patches<typename decltype(type)::type>(lowering, p, a, b, out);
      });
}

std::unique_ptr<Kernel> convolve_back(Lowering& lowering, const ConvolutionPlan& plan) {
  return lower(
      lowering, plan,
      []<class T>(const ConvolutionPlan& p, const T* incoming, const T* w, T* x) {
        DirectConvolution<T>::data_gradient(p, incoming, w, x);
      },
      [&](auto type, const Plan& p, Slot a, Slot b, Slot out) {
        return back_by_patches<typename decltype(type)::type>(lowering, p, a, b, out);
      });
}

std::unique_ptr<Kernel> convolve_weights(Lowering& lowering, const ConvolutionPlan& plan) {
  return lower(
      lowering, plan,
      []<class T>(const ConvolutionPlan& p, const T* incoming, const T* x, T* w) {
        DirectConvolution<T>::weights_gradient(p, incoming, x, w);
      },
      [&](auto type, const Plan& p, Slot a, Slot b, Slot out) {
        return weights_by_patches<typename decltype(type)::type>(lowering, p, a, b, out);
      });
}

}  // namespace mpsgraph::cpu
