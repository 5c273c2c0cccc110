// Gradient of a convolution with respect to a source with few channels. The last transposed convolution of a decoder
// runs the same computation.
//
// A panel for a single tap would be mostly empty, so a single matmul has the channels of all taps as its columns. This
// matmul multiplies each pixel of the incoming gradient by the weights, which yields the contributions of this pixel to
// all source pixels of its window. Each image is processed by one thread, which accumulates the contributions in the
// order of the incoming pixels. If windows do not overlap, nothing needs to be accumulated, and each row of pixels is
// written directly.
#include <algorithm>

#include "backends/cpu/convolution/convolution_tap_kernels.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t scattered_rows = 96;  // incoming pixels whose products stay in L1 or L2 until they are accumulated

class TapScatter final : public Kernel {
 public:
  TapScatter(Lowering& lowering, const ConvolutionPlan& plan, int threads)
      : plan_(plan),
        threads_(threads),
        apart_(windows_lie_apart(plan)),
        tiles_(*convolution_tiles<float, float>()),
        incoming_(lowering.input(0).slot),
        weights_(lowering.input(1).slot),
        result_(lowering.output().slot) {
    const int64_t used = plan_.taps() * plan_.inputs;
    panels_ = (used + tiles_.columns - 1) / tiles_.columns;
    columns_ = panels_ * tiles_.columns;
    const int half = tiles_.columns / 2;  // columns of one vector, half of a panel; vectors are always stored whole
    last_width_ = used - (panels_ - 1) * tiles_.columns <= half ? half : tiles_.columns;
    packed_ = lowering.scratch(static_cast<size_t>(plan_.outputs * columns_) * sizeof(float));
    products_ = lowering.scratch(static_cast<size_t>(threads_ * scattered_rows * columns_) * sizeof(float));
  }

  void run(Frame& frame) const override {
    parallel_for(plan_.outputs, grain_for(columns_ * 16), [&](int64_t begin, int64_t end) { pack(frame, begin, end); });
    const int64_t rows = apart_ ? plan_.y.size[1] : 1;  // work items per image
    parallel_phases(threads_, {plan_.x.n * rows}, [&](int64_t, Items& items) {
      float* products = frame.at<float>(products_) + items.member() * scattered_rows * columns_;
      for (int64_t item : items)
        if (apart_)
          write_row(frame, item / rows, item % rows, products);
        else
          compute(frame, item, products);
    });
  }
  std::string description() const override {
    return cat("one matmul for all ", plan_.taps(), " taps, ", apart_ ? "without overlap" : "accumulated");
  }

 private:
  // Pack rows of the weight matrix [outputs][taps, channels] into panels.
  void pack(Frame& frame, int64_t begin, int64_t end) const {
    const float* weights = frame.at<const float>(weights_);
    float* packed = frame.at<float>(packed_);
    const int64_t used = plan_.taps() * plan_.inputs;
    for (int64_t output = begin; output < end; ++output)
      for (int64_t column = 0; column < columns_; ++column) {
        float* to = packed + (column / tiles_.columns * plan_.outputs + output) * tiles_.columns;
        to[column % tiles_.columns] =
            column < used
                ? weights[plan_.tap_offset(column / plan_.inputs) + column % plan_.inputs * plan_.weights.input_stride +
                          output * plan_.weights.output_stride]
                : 0.f;
      }
  }

  // Coordinates of a pixel of the incoming gradient. They are advanced incrementally, because computing them with
  // divisions would take longer than accumulating a pixel.
  struct Place {
    int64_t z = 0, y = 0, x = 0;
    void next(const ConvolutionImage& image) {
      if (++x < image.size[2]) return;
      x = 0;
      if (++y < image.size[1]) return;
      y = 0, ++z;
    }
  };

  void compute(Frame& frame, int64_t image, float* products) const {
    float* to = frame.at<float>(result_) + image * plan_.x.sn;
    std::fill_n(to, plan_.x.pixels() * plan_.x.c, 0.f);
    Place multiplied, added;
    for (int64_t pixel = 0; pixel < plan_.y.pixels(); pixel += scattered_rows) {
      poll_run();
      const int64_t count = std::min(scattered_rows, plan_.y.pixels() - pixel);
      multiply(frame, image, multiplied, count, products);
      for (int64_t i = 0; i < count; ++i, added.next(plan_.y)) add(products + i * columns_, added, to);
    }
  }

  void multiply(Frame& frame, int64_t image, Place& place, int64_t count, float* products) const {
    const ConvolutionImage& y = plan_.y;
    const float* incoming = frame.at<const float>(incoming_) + image * y.sn;
    const TileRun run{0, 0, plan_.outputs};
    for (int64_t i = 0; i < count; i += tiles_.rows) {
      const int rows = static_cast<int>(std::min<int64_t>(tiles_.rows, count - i));
      const float* from[ConvolutionTiles<float, float>::most_rows];
      float* to[ConvolutionTiles<float, float>::most_rows];
      for (int r = 0; r < rows; ++r, place.next(y)) {
        from[r] = incoming + place.z * y.step[0] + place.y * y.step[1] + place.x * y.step[2];
        to[r] = products + (i + r) * columns_;
      }
      for (int64_t panel = 0; panel < panels_; ++panel) {
        tiles_.multiply(rows, from, &run, 1, frame.at<const float>(packed_) + panel * plan_.outputs * tiles_.columns,
                        to, panel + 1 < panels_ ? tiles_.columns : last_width_, {});
        for (int r = 0; r < rows; ++r) to[r] += tiles_.columns;
      }
    }
  }

  // Write the contributions of one row of incoming pixels to the image rows that their windows cover.
  void write_row(Frame& frame, int64_t image, int64_t y, float* products) const {
    const auto& [wz, wy, wx] = plan_.windows;
    const int64_t width = wx.kernel * plan_.inputs, step = plan_.x.step[1];  // contiguous elements of a window row
    float* to = frame.at<float>(result_) + image * plan_.x.sn + y * wy.kernel * step;
    Place place{0, y, 0};
    for (int64_t x = 0; x < plan_.y.size[2]; x += scattered_rows) {
      const int64_t count = std::min(scattered_rows, plan_.y.size[2] - x);
      multiply(frame, image, place, count, products);
      for (int64_t ky = 0; ky < wy.kernel; ++ky) {
        float* row = to + ky * step + x * width;
        const float* from = products + ky * width;
        for (int64_t i = 0; i < count; ++i, from += columns_)
          for (int64_t j = 0; j < width; ++j) *row++ = from[j];
      }
    }
  }

  // Add the contributions of one incoming pixel to an image.
  void add(const float* products, const Place& place, float* image) const {
    const auto& [wz, wy, wx] = plan_.windows;
    const int64_t channels = plan_.inputs;
    for (int64_t kz = 0; kz < wz.kernel; ++kz) {
      const int64_t iz = wz.at(place.z, kz);
      for (int64_t ky = 0; ky < wy.kernel; ++ky) {
        const int64_t iy = wy.at(place.y, ky);
        if (iz < 0 || iz >= wz.input || iy < 0 || iy >= wy.input) {
          products += wx.kernel * channels;
          continue;
        }
        float* row = image + iz * plan_.x.step[0] + iy * plan_.x.step[1];
        for (int64_t kx = 0; kx < wx.kernel; ++kx, products += channels) {
          const int64_t ix = wx.at(place.x, kx);
          if (ix < 0 || ix >= wx.input) continue;
          for (int64_t c = 0; c < channels; ++c) row[ix * plan_.x.step[2] + c] += products[c];
        }
      }
    }
  }

  ConvolutionPlan plan_;
  int threads_;
  bool apart_;
  const ConvolutionTiles<float, float>& tiles_;
  Slot incoming_, weights_, result_, packed_, products_;
  int64_t panels_, columns_;
  int last_width_;
};

}  // namespace

bool windows_lie_apart(const ConvolutionPlan& plan) {
  if (plan.x.size[0] != 1 || plan.kernel[0] != 1 || plan.x.step[2] != plan.inputs) return false;
  for (const size_t axis : {size_t{1}, size_t{2}}) {
    const ops::Window& w = plan.windows[axis];
    if (w.stride != w.kernel || w.dilation != 1 || w.begin != 0 || w.input != w.kernel * plan.y.size[axis])
      return false;
  }
  return true;
}

std::unique_ptr<Kernel> tap_scatter(Lowering& lowering, const ConvolutionPlan& plan, int threads) {
  return std::make_unique<TapScatter>(lowering, plan, threads);
}

}  // namespace mpsgraph::cpu
