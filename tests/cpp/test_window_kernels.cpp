// Convolution and pooling kernels, fast and reference, compared with naive loops: layouts, groups, strides, dilations,
// paddings, ceil mode, all float dtypes, and sizes of one and zero.
#include "core/ops/convolution.h"
#include "core/ops/pooling.h"
#include "kernel_harness.h"

using namespace kernels;

namespace {

// Permute dimensions from the logical order (N, H, W, C or H, W, I, O) into the layout.
Dims laid_out(const Dims& logical, const std::string& layout) {
  if (layout == "NCHW") return {logical[0], logical[3], logical[1], logical[2]};
  if (layout == "OIHW") return {logical[3], logical[2], logical[0], logical[1]};
  return logical;
}
int64_t at(const Dims& logical, const std::string& layout, int64_t a, int64_t b, int64_t c, int64_t d) {
  return linear(laid_out(logical, layout), laid_out({a, b, c, d}, layout));
}

struct Case {
  Dims source, weights;  // in logical order
  Ints strides{1, 1}, dilations{1, 1}, padding{0, 0, 0, 0};
  const char* style = "TF_VALID";
  int64_t groups = 1;
};

const std::vector<Case> cases{
    {{2, 6, 7, 3}, {3, 2, 3, 4}, {1, 1}, {1, 1}, {0, 0, 0, 0}, "TF_VALID", 1},
    {{2, 6, 7, 3}, {3, 3, 3, 4}, {1, 1}, {1, 1}, {0, 0, 0, 0}, "TF_SAME", 1},
    {{1, 7, 8, 4}, {3, 3, 2, 6}, {2, 3}, {1, 1}, {0, 0, 0, 0}, "TF_SAME", 2},
    {{3, 8, 9, 2}, {3, 2, 2, 3}, {1, 2}, {2, 3}, {2, 1, 0, 3}, "EXPLICIT", 1},
    {{2, 5, 6, 4}, {2, 2, 1, 4}, {2, 1}, {1, 1}, {0, 0, 0, 0}, "ONNX_SAME_LOWER", 4},
    {{5, 4, 4, 1}, {1, 1, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, "TF_VALID", 1},
    {{2, 1, 1, 5}, {1, 1, 5, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}, "TF_VALID", 1},
    {{1, 24, 40, 3}, {5, 5, 3, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}, "TF_SAME", 1},
    {{0, 5, 5, 2}, {3, 3, 2, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}, "TF_VALID", 1},
    {{2, 5, 5, 0}, {3, 3, 0, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}, "TF_VALID", 1},
};

// Call f(source, weights, result) with the indices of every product that the convolution computes.
template <class F>
void for_each_product(const Case& c, const ops::Window& wy, const ops::Window& wx, const F& f) {
  const int64_t outputs = c.weights[3] / c.groups, inputs = c.weights[2];
  for (int64_t n = 0; n < c.source[0]; ++n)
    for (int64_t oy = 0; oy < wy.output; ++oy)
      for (int64_t ox = 0; ox < wx.output; ++ox)
        for (int64_t ky = 0; ky < c.weights[0]; ++ky)
          for (int64_t kx = 0; kx < c.weights[1]; ++kx) {
            const int64_t iy = wy.at(oy, ky), ix = wx.at(ox, kx);
            if (iy < 0 || iy >= c.source[1] || ix < 0 || ix >= c.source[2]) continue;
            for (int64_t o = 0; o < c.weights[3]; ++o)
              for (int64_t i = 0; i < inputs; ++i) f(n, oy, ox, o, iy, ix, o / outputs * inputs + i, ky, kx, i);
          }
}

std::vector<double> shape_list(const Dims& dims) { return {dims.begin(), dims.end()}; }

}  // namespace

TEST(convolutions_and_gradients_match_naive_loops) {
  for (const Case& c : cases)
    for (const std::string layout : {"NHWC", "NCHW"})
      for (const std::string weights_layout : {"HWIO", "OIHW"})
        for (DType dtype : float_dtypes())
          for (bool reference : {false, true}) {
            const Attributes attributes{{"strides", c.strides},
                                        {"dilations", c.dilations},
                                        {"padding", c.padding},
                                        {"padding_style", std::string(c.style)},
                                        {"groups", c.groups},
                                        {"data_layout", layout},
                                        {"weights_layout", weights_layout}};
            const Array x = numbers(dtype, laid_out(c.source, layout)),
                        w = numbers(dtype, laid_out(c.weights, weights_layout), 5);
            const Array y = run("convolution2d", {x, w}, attributes, reference);
            const auto style = *ops::padding_style_from_name(c.style);
            const auto window = [&](size_t i) {
              return *ops::make_window(c.source[i + 1], c.weights[i], c.strides[i], c.dilations[i], style,
                                       c.padding[2 * i], c.padding[2 * i + 1], false);
            };
            const ops::Window wy = window(0), wx = window(1);
            const Dims result{c.source[0], wy.output, wx.output, c.weights[3]};
            const Array g = numbers(dtype, y.dims, 7);
            std::vector<double> ey(static_cast<size_t>(y.size())), ex(static_cast<size_t>(x.size())),
                ew(static_cast<size_t>(w.size()));
            for_each_product(c, wy, wx,
                             [&](int64_t n, int64_t oy, int64_t ox, int64_t o, int64_t iy, int64_t ix, int64_t ci,
                                 int64_t ky, int64_t kx, int64_t i) {
                               const int64_t iy_ = at(result, layout, n, oy, ox, o),
                                             ix_ = at(c.source, layout, n, iy, ix, ci),
                                             iw = at(c.weights, weights_layout, ky, kx, i, o);
                               ey[static_cast<size_t>(iy_)] += x[ix_] * w[iw];
                               ex[static_cast<size_t>(ix_)] += g[iy_] * w[iw];
                               ew[static_cast<size_t>(iw)] += g[iy_] * x[ix_];
                             });
            const double tolerance = 4 * epsilon(dtype);
            CHECK(close(y, array(dtype, y.dims, ey), tolerance));
            CHECK(close(run("convolution2d_data_gradient", {g, w, ints(shape_list(x.dims))}, attributes, reference),
                        array(dtype, x.dims, ex), tolerance));
            CHECK(close(run("convolution2d_weights_gradient", {g, x, ints(shape_list(w.dims))}, attributes, reference),
                        array(dtype, w.dims, ew), tolerance));
          }
}

TEST(integer_convolution_throws) {
  CHECK_THROWS(DTypeError,
               run("convolution2d", {numbers(DType::int32, {1, 3, 3, 1}), numbers(DType::int32, {1, 1, 1, 1})}),
               "convolution2d");
}

namespace {

struct PoolCase {
  Dims source;  // in logical order
  Ints kernel, strides, dilations{1, 1}, padding{0, 0, 0, 0};
  const char* style = "TF_VALID";
  bool ceil_mode = false, count_padding = false;
};

const std::vector<PoolCase> pool_cases{
    {{2, 6, 8, 5}, {2, 2}, {2, 2}},
    {{3, 7, 9, 33}, {2, 2}, {2, 2}},
    {{2, 7, 9, 16}, {3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}, "TF_SAME"},
    {{1, 7, 9, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, "EXPLICIT", false, true},
    {{2, 8, 7, 3}, {2, 3}, {3, 2}, {1, 1}, {1, 0, 2, 1}, "EXPLICIT", true, true},
    {{2, 8, 7, 3}, {3, 2}, {2, 2}, {2, 1}, {0, 0, 0, 0}, "TF_SAME", false, false},
    {{2, 8, 7, 3}, {3, 2}, {2, 2}, {1, 3}, {0, 0, 0, 0}, "ONNX_SAME_LOWER", false, true},
    {{2, 5, 5, 130}, {5, 5}, {5, 5}},
    {{1, 5, 5, 1}, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}, "TF_VALID", true},
    {{0, 4, 4, 3}, {2, 2}, {2, 2}},
    {{2, 4, 4, 0}, {2, 2}, {2, 2}},
};

}  // namespace

TEST(pooling_and_gradients_match_naive_loops) {
  for (const PoolCase& c : pool_cases)
    for (const std::string layout : {"NHWC", "NCHW"})
      for (DType dtype : float_dtypes()) {
        Attributes attributes{{"kernel", c.kernel},
                              {"strides", c.strides},
                              {"dilations", c.dilations},
                              {"padding", c.padding},
                              {"padding_style", std::string(c.style)},
                              {"data_layout", layout},
                              {"ceil_mode", c.ceil_mode}};
        const Array x = numbers(dtype, laid_out(c.source, layout)), values = numbers(dtype, x.dims, 9);
        const Array largest = run("max_pooling2d", {x}, attributes);
        const Array g = numbers(dtype, largest.dims, 7);
        const auto window = [&](size_t i) {
          return *ops::make_window(c.source[i + 1], c.kernel[i], c.strides[i], c.dilations[i],
                                   *ops::padding_style_from_name(c.style), c.padding[2 * i], c.padding[2 * i + 1],
                                   c.ceil_mode);
        };
        const ops::Window wy = window(0), wx = window(1);
        const Dims result{c.source[0], wy.output, wx.output, c.source[3]};
        std::vector<double> maxima(static_cast<size_t>(g.size())), picked = maxima, means = maxima;
        std::vector<double> max_gradient(static_cast<size_t>(x.size())), mean_gradient = max_gradient;
        for_each_index(result, [&](const Dims& i) {
          std::vector<int64_t> taps;
          int64_t divisor = 0;
          for (int64_t ky = 0; ky < c.kernel[0]; ++ky)
            for (int64_t kx = 0; kx < c.kernel[1]; ++kx) {
              const int64_t iy = wy.at(i[1], ky), ix = wx.at(i[2], kx);
              if (iy < c.source[1] + wy.end && ix < c.source[2] + wx.end) ++divisor;
              if (iy >= 0 && iy < c.source[1] && ix >= 0 && ix < c.source[2])
                taps.push_back(at(c.source, layout, i[0], iy, ix, i[3]));
            }
          if (!c.count_padding) divisor = static_cast<int64_t>(taps.size());
          const auto to = static_cast<size_t>(at(result, layout, i[0], i[1], i[2], i[3]));
          int64_t best = taps[0];
          for (int64_t tap : taps) {
            if (x[tap] > x[best]) best = tap;
            means[to] += x[tap] / static_cast<double>(divisor);
            mean_gradient[static_cast<size_t>(tap)] += g[static_cast<int64_t>(to)] / static_cast<double>(divisor);
          }
          maxima[to] = x[best], picked[to] = values[best];
          max_gradient[static_cast<size_t>(best)] += g[static_cast<int64_t>(to)];
        });
        const double tolerance = 4 * epsilon(dtype);
        CHECK(close(largest, array(dtype, g.dims, maxima)));
        CHECK(close(run("max_pooling2d_gradient", {g, x}, attributes), array(dtype, x.dims, max_gradient), tolerance));
        CHECK(close(run("max_pooling2d_at_maxima", {values, x}, attributes), array(dtype, g.dims, picked)));
        attributes.set("include_zero_pad_to_average", c.count_padding);
        CHECK(close(run("avg_pooling2d", {x}, attributes), array(dtype, g.dims, means), tolerance));
        CHECK(close(run("avg_pooling2d_gradient", {g, ints(shape_list(x.dims))}, attributes),
                    array(dtype, x.dims, mean_gradient), tolerance));
      }
}

TEST(max_pooling_propagates_nan) {
  Array x = numbers(DType::float32, {1, 4, 4, 20});
  x.set(linear(x.dims, {0, 1, 1, 3}), std::numeric_limits<double>::quiet_NaN());
  const Attributes attributes{{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const Array y = run("max_pooling2d", {x}, attributes);
  for (int64_t i = 0; i < y.size(); ++i) CHECK_EQUAL(std::isnan(y[i]), i == 3);
  const Array g =
      run("max_pooling2d_gradient",
          {array(DType::float32, y.dims, std::vector<double>(static_cast<size_t>(y.size()), 1)), x}, attributes);
  CHECK_EQUAL(g[linear(x.dims, {0, 1, 1, 3})], 1.0);
}
