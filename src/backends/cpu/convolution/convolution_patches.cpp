// im_to_col and col_to_im: unfold the windows of images into columns, and fold columns back by adding.
//
// With channels first, the inner loop copies a row of window positions for one channel and one tap; with channels last,
// it copies all channels of one tap at one position. When columns are folded, each thread owns entire planes (channels
// first) or ranges of channels (channels last), and adds their elements in a fixed order. Half precision and integers
// are summed in their accumulator type.
#include <cstring>

#include "backends/cpu/convolution/convolution.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

struct Patches {
  int64_t n, c;
  ops::Window wy, wx;
  bool channels_last;

  Patches(const Attributes& attributes, const Dims& image) {
    const ops::Windows w(attributes);
    const Ints& kernel = attributes.integers("kernel");
    n = image[0], c = ops::size_at(image, w.channel);
    wy = *w.window(0, ops::size_at(image, w.spatial[0]), kernel[0]);
    wx = *w.window(1, ops::size_at(image, w.spatial[1]), kernel[1]);
    channels_last = w.channel == -1;
  }
  int64_t taps() const { return wy.kernel * wx.kernel; }
  int64_t positions() const { return wy.output * wx.output; }
  int64_t image() const { return wy.input * wx.input * c; }
};

template <class T>
void planes_to_columns(const Patches& p, const T* x, T* y) {
  parallel_for(p.n * p.c * p.taps(), grain_for(p.positions() * int64_t{sizeof(T)}), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t tap = unit % p.taps(), ky = tap / p.wx.kernel, kx = tap % p.wx.kernel;
      const T* plane = x + unit / p.taps() * p.wy.input * p.wx.input;
      T* row = y + unit * p.positions();
      const auto [first, last] = p.wx.inside(kx);
      for (int64_t oy = 0; oy < p.wy.output; ++oy, row += p.wx.output) {
        const int64_t iy = p.wy.at(oy, ky);
        if (iy < 0 || iy >= p.wy.input || first == last) {
          std::fill(row, row + p.wx.output, T(0));
          continue;
        }
        const T* from = plane + iy * p.wx.input + p.wx.at(first, kx);
        std::fill(row, row + first, T(0));
        if (p.wx.stride == 1)
          std::copy_n(from, last - first, row + first);
        else
          for (int64_t ox = first; ox < last; ++ox, from += p.wx.stride) row[ox] = *from;
        std::fill(row + last, row + p.wx.output, T(0));
      }
    }
  });
}

template <class T>
void pixels_to_columns(const Patches& p, const T* x, T* y) {
  const int64_t row_size = p.wx.output * p.taps() * p.c;
  parallel_for(p.n * p.wy.output, grain_for(row_size * int64_t{sizeof(T)}), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const T* image = x + unit / p.wy.output * p.image();
      T* to = y + unit * row_size;
      for (int64_t ox = 0; ox < p.wx.output; ++ox)
        for (int64_t ky = 0; ky < p.wy.kernel; ++ky) {
          const int64_t iy = p.wy.at(unit % p.wy.output, ky);
          for (int64_t kx = 0; kx < p.wx.kernel; ++kx, to += p.c) {
            const int64_t ix = p.wx.at(ox, kx);
            if (iy < 0 || iy >= p.wy.input || ix < 0 || ix >= p.wx.input)
              std::fill_n(to, p.c, T(0));
            else
              std::copy_n(image + (iy * p.wx.input + ix) * p.c, p.c, to);
          }
        }
    }
  });
}

// Fold the columns of one channel into its plane.
template <class T, class V>
void add_to_plane(const Patches& p, const T* columns, V* plane) {
  for (int64_t tap = 0; tap < p.taps(); ++tap) {
    const int64_t ky = tap / p.wx.kernel, kx = tap % p.wx.kernel;
    const auto [first, last] = p.wx.inside(kx);
    if (first == last) continue;
    for (int64_t oy = 0; oy < p.wy.output; ++oy) {
      const int64_t iy = p.wy.at(oy, ky);
      if (iy < 0 || iy >= p.wy.input) continue;
      const T* row = columns + tap * p.positions() + oy * p.wx.output;
      V* to = plane + iy * p.wx.input + p.wx.at(first, kx);
      for (int64_t ox = first; ox < last; ++ox, to += p.wx.stride) *to += V(row[ox]);
    }
  }
}

// Fold channels [begin, end) of an image's columns into the image.
template <class T, class V>
void add_to_pixels(const Patches& p, const T* columns, int64_t begin, int64_t end, V* image) {
  for (int64_t oy = 0; oy < p.wy.output; ++oy)
    for (int64_t ox = 0; ox < p.wx.output; ++ox)
      for (int64_t ky = 0; ky < p.wy.kernel; ++ky) {
        const int64_t iy = p.wy.at(oy, ky);
        for (int64_t kx = 0; kx < p.wx.kernel; ++kx, columns += p.c) {
          const int64_t ix = p.wx.at(ox, kx);
          if (iy < 0 || iy >= p.wy.input || ix < 0 || ix >= p.wx.input) continue;
          V* to = image + (iy * p.wx.input + ix) * p.c;
          for (int64_t c = begin; c < end; ++c) to[c] += V(columns[c]);
        }
      }
}

// Partition of the work into images or planes. With channels last and fewer images than threads, images are also split
// into blocks of channels.
struct Work {
  int64_t blocks, units, parts, size;  // size: elements that a unit accumulates
  Work(const Patches& p) {
    blocks = p.channels_last ? (p.n >= thread_count() ? 1 : std::clamp<int64_t>(p.c / 16, 1, thread_count())) : p.c;
    units = p.n * blocks;
    size = p.channels_last ? p.image() : p.wy.input * p.wx.input;
    parts = std::clamp<int64_t>(units / grain_for(p.positions() * p.taps() * p.c / std::max<int64_t>(blocks, 1)), 1,
                                thread_count());
  }
};

template <class T>
std::unique_ptr<Kernel> columns_to_image(Lowering& lowering, const Patches& p, Slot columns, Slot image) {
  using V = Accumulate<T>;
  constexpr bool direct = std::is_same_v<T, V>;
  const Work work(p);
  const Slot scratch = direct ? image : lowering.scratch(static_cast<size_t>(work.parts * work.size) * sizeof(V));
  return kernel([=](Frame& f) {
    parallel_parts(work.parts, [&](int64_t part) {
      for (int64_t unit = work.units * part / work.parts; unit < work.units * (part + 1) / work.parts; ++unit) {
        poll_run();
        const int64_t n = unit / work.blocks, block = unit % work.blocks;
        T* result = f.at<T>(image) + (p.channels_last ? n : unit) * work.size;
        V* to;
        if constexpr (direct)
          to = result;
        else
          to = f.at<V>(scratch) + part * work.size;
        const T* from = f.at<const T>(columns) + (p.channels_last ? n * p.c : unit) * p.taps() * p.positions();
        if (!p.channels_last) {
          std::fill(to, to + work.size, V(0));
          add_to_plane(p, from, to);
          if constexpr (!direct) std::transform(to, to + work.size, result, [](V value) { return T(value); });
          continue;
        }
        const int64_t begin = p.c * block / work.blocks, end = p.c * (block + 1) / work.blocks;
        for (int64_t pixel = 0; pixel < work.size; pixel += p.c) std::fill(to + pixel + begin, to + pixel + end, V(0));
        add_to_pixels(p, from, begin, end, to);
        if constexpr (!direct)
          for (int64_t pixel = 0; pixel < work.size; pixel += p.c)
            for (int64_t c = begin; c < end; ++c) result[pixel + c] = T(to[pixel + c]);
      }
    });
  });
}

std::unique_ptr<Kernel> lower_im_to_col(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const Patches p(lowering.attributes(), x.dims);
  return dispatch_size(size_of(x.dtype), [&](auto type) {
    using T = typename decltype(type)::type;
    return kernel([=](Frame& f) {
      p.channels_last ? pixels_to_columns(p, f.at<const T>(x.slot), f.at<T>(y.slot))
                      : planes_to_columns(p, f.at<const T>(x.slot), f.at<T>(y.slot));
    });
  });
}

std::unique_ptr<Kernel> lower_col_to_im(Lowering& lowering) {
  const Operand columns = lowering.input(0), image = lowering.output();
  const Patches p(lowering.attributes(), image.dims);
  return dispatch_algebraic(lowering, image.dtype, [&](auto type) {
    return columns_to_image<typename decltype(type)::type>(lowering, p, columns.slot, image.slot);
  });
}

}  // namespace

const Kernels convolution_patches_kernels("convolution_patches", [] {
  define_kernel("im_to_col", lower_im_to_col);
  define_kernel("col_to_im", lower_col_to_im);
});

}  // namespace mpsgraph::cpu
