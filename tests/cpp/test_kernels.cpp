// Kernels for shapes, gather, reductions, matmul, softmax, and loss, compared with naive loops.
//
// Convolution and pooling are tested in test_window_kernels.cpp, random numbers in test_philox.cpp.
#include "kernel_harness.h"

using namespace kernels;

namespace {

Attributes with(const char* key, Attribute value) { return {{key, std::move(value)}}; }

// Return the inner product of two arrays.
double dot(const Array& a, const Array& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Check that <gradient(incoming), x> = <incoming, forward(x)>, which holds for all x and incoming if the gradient of a
// linear operation is right.
void check_adjoint(Kind forward, Kind gradient, const Dims& dims, const Attributes& attributes) {
  for (DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::int32}) {
    const Array x = numbers(dtype, dims, 3);
    std::vector<double> shape(dims.begin(), dims.end());
    const Array y = run(forward, {x}, attributes);
    const Array incoming = numbers(dtype, y.dims, 5);
    const Array back = run(gradient, {incoming, ints(shape)}, attributes);
    CHECK_EQUAL(to_string(back.dims), to_string(dims));
    CHECK(std::abs(dot(back, x) - dot(incoming, y)) <= 1e-2 * static_cast<double>(x.size() + 1) * epsilon(dtype) * 100);
  }
}

}  // namespace

// --- shape -----------------------------------------------------------------------------------------------------------

TEST(transposes_match_naive_loops) {
  const std::vector<std::pair<Dims, Ints>> cases{{{3, 5}, {1, 0}},
                                                 {{70, 133}, {1, 0}},
                                                 {{2, 3, 4, 5}, {0, 2, 3, 1}},
                                                 {{2, 3, 4, 5}, {3, 1, 0, 2}},
                                                 {{4, 1, 6}, {2, 1, 0}},
                                                 {{7}, {0}},
                                                 {{}, {}},
                                                 {{3, 0, 2}, {2, 0, 1}},
                                                 {{5, 33, 18}, {0, 2, 1}},
                                                 {{6, 9, 4}, {1, 0, 2}},
                                                 {{2, 300, 260}, {0, 2, 1}},
                                                 {{2, 2, 2, 2, 2, 2}, {5, 3, 1, 0, 2, 4}}};
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::int8})
    for (const auto& [dims, permutation] : cases) {
      const Array x = numbers(dtype, dims);
      Dims result;
      for (int64_t axis : permutation) result.push_back(dims[static_cast<size_t>(axis)]);
      const Array expected = tabulate(dtype, result, [&](const Dims& at) {
        Dims from(at.size());
        for (size_t i = 0; i < at.size(); ++i) from[static_cast<size_t>(permutation[i])] = at[i];
        return x[linear(dims, from)];
      });
      CHECK(close(run("transpose", {x}, with("permutation", permutation)), expected));
    }
}

TEST(slices_match_naive_loops) {
  const Array x = numbers(DType::int32, {6, 7, 5});
  const auto slice = [&](Ints starts, Ints ends, Ints strides, int64_t squeeze = 0, int64_t end_mask = 0) {
    return run(
        "slice", {x},
        {{"starts", starts}, {"ends", ends}, {"strides", strides}, {"squeeze_mask", squeeze}, {"end_mask", end_mask}});
  };
  const Array a = slice({1, -2, 0}, {5, 0, 5}, {2, -2, 1});
  CHECK(close(a, tabulate(DType::int32, {2, 3, 5},
                          [&](const Dims& i) { return x[linear(x.dims, {1 + 2 * i[0], 5 - 2 * i[1], i[2]})]; })));
  const Array reversed = slice({-1, -1, -1}, {0, 0, 0}, {-1, -1, -1}, 0, 7);
  CHECK(close(reversed, tabulate(DType::int32, x.dims,
                                 [&](const Dims& i) { return x[linear(x.dims, {5 - i[0], 6 - i[1], 4 - i[2]})]; })));
  CHECK_EQUAL(to_string(slice({2, 3, 1}, {2, 6, 4}, {1, 1, 1}).dims), std::string("(0,3,3)"));
  const Array row = slice({4, 0, 2}, {0, 7, 0}, {1, 3, 1}, 5);
  CHECK(close(row, tabulate(DType::int32, {3}, [&](const Dims& i) { return x[linear(x.dims, {4, 3 * i[0], 2})]; })));
}

TEST(slice_gradients_are_adjoint) {
  check_adjoint(
      "slice", "slice_gradient", {6, 7, 5},
      {{"starts", Ints{1, -2, 0}}, {"ends", Ints{5, 0, 5}}, {"strides", Ints{2, -2, 1}}, {"squeeze_mask", int64_t{0}}});
  check_adjoint("slice", "slice_gradient", {6, 7},
                {{"starts", Ints{4, 2}}, {"ends", Ints{9, 2}}, {"strides", Ints{1, 1}}, {"squeeze_mask", int64_t{1}}});
}

TEST(concat_and_split_match_naive_loops) {
  for (int64_t axis : {0, 1, -1}) {
    const auto a = static_cast<size_t>(axis < 0 ? 2 : axis);
    Dims d1{2, 3, 4}, d2 = d1, d3 = d1;
    d2[a] = 5, d3[a] = 0;
    const std::vector<Array> parts{numbers(DType::float32, d1), numbers(DType::float32, d2, 9),
                                   numbers(DType::float32, d3)};
    const Array whole = run("concat", parts, with("axis", axis));
    const Array expected = tabulate(DType::float32, whole.dims, [&](Dims at) {
      const bool first = at[a] < d1[a];
      if (!first) at[a] -= d1[a];
      return parts[first ? 0 : 1][linear(first ? d1 : d2, at)];
    });
    CHECK(close(whole, expected));
    const std::vector<Array> back = run_all("split", {whole}, {{"axis", axis}, {"sizes", Ints{d1[a], d2[a], 0}}});
    for (size_t i = 0; i < 3; ++i) CHECK(close(back[i], parts[i]));
  }
  const Array p = numbers(DType::int16, {2, 3}), q = numbers(DType::int16, {2, 3}, 4);
  const Array mixed = run("concat", {p, q}, {{"axis", int64_t{1}}, {"interleave", true}});
  CHECK(close(mixed, tabulate(DType::int16, {2, 6},
                              [&](const Dims& at) { return (at[1] % 2 ? q : p)[at[0] * 3 + at[1] / 2]; })));
  const Array stacked = run("stack", {p, q}, with("axis", int64_t{1}));
  CHECK(close(stacked,
              tabulate(DType::int16, {2, 2, 3}, [&](const Dims& at) { return (at[1] ? q : p)[at[0] * 3 + at[2]]; })));
}

TEST(kinds_with_several_kernels_have_candidates_and_are_defined_once) {
  CHECK_EQUAL(candidates_of("convolution2d").back().name, "patches");
  CHECK_EQUAL(candidates_of("matrix_multiplication").back().name, "blocks");
  CHECK(candidates_of("softmax").empty() && candidates_of("mean").empty());
  const Lower any = [](Lowering&) { return std::unique_ptr<Kernel>(); };
  CHECK_THROWS(GraphError, define_kernel("softmax", any), "already has a kernel", "softmax");
  CHECK_THROWS(GraphError, define_kernel("convolution2d", any), "already has a kernel", "convolution2d");
  CHECK_EQUAL(candidates_of("convolution2d").back().name, "patches");
}

TEST(broadcast_and_tile_match_naive_loops) {
  for (DType dtype : all_dtypes()) {
    const Array x = numbers(dtype, {3, 1, 4});
    const Array y = run("broadcast_to", {x, ints({2, 3, 5, 4})});
    CHECK(close(y, tabulate(dtype, {2, 3, 5, 4}, [&](const Dims& at) { return x[at[1] * 4 + at[3]]; })));
    const Array column = run("broadcast_to", {numbers(dtype, {3, 1}), ints({3, 7})});
    CHECK(close(column, tabulate(dtype, {3, 7}, [&](const Dims& at) { return numbers(dtype, {3, 1})[at[0]]; })));
    const Array tiled = run("tile", {x}, with("multiplier", Ints{2, 3, 1}));
    CHECK(close(tiled, tabulate(dtype, {6, 3, 4}, [&](const Dims& at) { return x[at[0] % 3 * 4 + at[2]]; })));
  }
}

TEST(padding_modes_match_expected_values) {
  const Array x = array(DType::float32, {4}, {1, 2, 3, 4});
  const auto pad = [&](const char* mode, std::vector<double> expected, double value = 0) {
    const Array y =
        run("pad", {x}, {{"left", Ints{3}}, {"right", Ints{2}}, {"mode", std::string(mode)}, {"value", value}});
    CHECK(close(y, array(DType::float32, {9}, expected)));
  };
  pad("constant", {7, 7, 7, 1, 2, 3, 4, 7, 7}, 7);
  pad("zero", {0, 0, 0, 1, 2, 3, 4, 0, 0});
  pad("reflect", {4, 3, 2, 1, 2, 3, 4, 3, 2});
  pad("symmetric", {3, 2, 1, 1, 2, 3, 4, 4, 3});
  pad("clamp_to_edge", {1, 1, 1, 1, 2, 3, 4, 4, 4});
  pad("periodic", {2, 3, 4, 1, 2, 3, 4, 1, 2});
  pad("anti_periodic", {-2, -3, -4, 1, 2, 3, 4, -1, -2});
  for (const char* mode : {"constant", "zero", "reflect", "symmetric", "clamp_to_edge", "periodic", "anti_periodic"})
    check_adjoint("pad", "pad_gradient", {3, 4, 5},
                  {{"left", Ints{2, 0, 3}}, {"right", Ints{1, 3, 0}}, {"mode", std::string(mode)}});
}

TEST(shape_of_returns_int32) {
  CHECK(close(run("shape_of", {numbers(DType::bfloat16, {4, 0, 7})}), array(DType::int32, {3}, {4, 0, 7})));
}

// --- gather ----------------------------------------------------------------------------------------------------------

TEST(gather_matches_naive_loops) {
  for (DType dtype : all_dtypes()) {
    const Array x = numbers(dtype, {2, 3, 5, 4});
    const Array indices = array(DType::int32, {2, 3}, {4, 0, -1, 2, 5, 2});
    const Array y = run("gather", {x, indices}, {{"axis", int64_t{2}}, {"batch_dimensions", int64_t{1}}});
    CHECK(close(y, tabulate(dtype, {2, 3, 3, 4}, [&](const Dims& at) {
                  const auto i = static_cast<int64_t>(indices[at[0] * 3 + at[2]]);
                  return i < 0 || i >= 5 ? 0 : x[linear(x.dims, {at[0], at[1], i, at[3]})];
                })));
  }
  const Array scalar =
      run("gather", {numbers(DType::float32, {3, 4}), array(DType::int64, {}, {2})}, {{"axis", int64_t{0}}});
  CHECK(close(scalar, tabulate(DType::float32, {4},
                               [&](const Dims& at) { return numbers(DType::float32, {3, 4})[8 + at[0]]; })));
}

TEST(gather_gradients_match_naive_loops) {
  for (DType dtype : {DType::float32, DType::float64, DType::float16, DType::int32, DType::uint8}) {
    const Array indices = array(DType::uint8, {2, 4}, {4, 4, 1, 9, 0, 4, 0, 0});
    const Array g = numbers(dtype, {2, 3, 4, 2});
    const Array y = run("gather_gradient", {g, indices, ints({2, 3, 5, 2})},
                        {{"axis", int64_t{2}}, {"batch_dimensions", int64_t{1}}});
    Array expected = array(dtype, {2, 3, 5, 2});
    for_each_index(g.dims, [&](const Dims& at) {
      const auto i = static_cast<int64_t>(indices[at[0] * 4 + at[2]]);
      if (i >= 5) return;
      const int64_t to = linear(expected.dims, {at[0], at[1], i, at[3]});
      expected.set(to, expected[to] + g[linear(g.dims, at)]);
    });
    CHECK(close(y, expected));
  }
  const Array one_row =
      run("gather_gradient",
          {array(DType::float32, {3, 2}, {1, 2, 3, 4, 5, 6}), array(DType::int32, {3}, {1, 1, 1}), ints({4, 2})},
          {{"axis", int64_t{0}}});
  CHECK(close(one_row, array(DType::float32, {4, 2}, {0, 0, 9, 12, 0, 0, 0, 0})));
}

TEST(one_hot_matches_naive_loops) {
  const Array indices = array(DType::int32, {2, 3}, {0, 2, 5, -1, 1, 3});
  for (int64_t axis : {-1, 0, 1})
    for (DType dtype : {DType::float32, DType::int8, DType::float64}) {
      const Array y =
          run("one_hot", {indices},
              {{"depth", int64_t{4}}, {"axis", axis}, {"dtype", dtype}, {"on_value", 3.0}, {"off_value", -1.0}});
      const size_t a = axis < 0 ? 2 : static_cast<size_t>(axis);
      CHECK(close(y, tabulate(dtype, y.dims, [&](Dims at) {
                    const int64_t depth = at[a];
                    at.erase(at.begin() + static_cast<int64_t>(a));
                    return static_cast<int64_t>(indices[linear(indices.dims, at)]) == depth ? 3.0 : -1.0;
                  })));
    }
}

// --- reductions ------------------------------------------------------------------------------------------------------

namespace {

void check_reduction(Kind kind, DType dtype, const Array& x, const Ints& axes, double start,
                     double (*combine)(double, double)) {
  Dims dims = x.dims;
  for (size_t i = 0; i < dims.size(); ++i)
    if (axes.empty() || std::count(axes.begin(), axes.end(), static_cast<int64_t>(i))) dims[i] = 1;
  Array expected = array(dtype, dims);
  std::vector<double> totals(static_cast<size_t>(expected.size()), start);
  for_each_index(x.dims, [&](Dims at) {
    const double value = x[linear(x.dims, at)];
    for (size_t i = 0; i < at.size(); ++i) at[i] = std::min(at[i], dims[i] - 1);
    double& total = totals[static_cast<size_t>(linear(dims, at))];
    total = combine(total, value);
  });
  for (size_t i = 0; i < totals.size(); ++i) expected.set(static_cast<int64_t>(i), totals[i]);
  CHECK(close(run(kind, {x}, with("axes", axes)), expected, 2 * epsilon(dtype)));
}

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_ = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST(reductions_over_any_axes_match_naive_loops) {
  const std::vector<std::pair<Dims, Ints>> cases{{{3, 4, 5}, {}},        {{3, 4, 5}, {0}},      {{3, 4, 5}, {1}},
                                                 {{3, 4, 5}, {2}},       {{3, 4, 5}, {0, 2}},   {{2, 3, 4, 5}, {1, 3}},
                                                 {{2, 3, 4, 5}, {0, 2}}, {{7, 700}, {0}},       {{7, 700}, {1}},
                                                 {{700, 7}, {0}},        {{1, 1}, {0}},         {{}, {}},
                                                 {{5, 1, 3}, {1}},       {{40, 50, 33}, {0, 1}}};
  for (const auto& [dims, axes] : cases) {
    for (DType dtype : number_dtypes()) {
      if (element_count(dims) > 10000 && dtype != DType::float32) continue;
      const Array x = numbers(dtype, dims);
      if (is_float(dtype) || (is_signed(dtype) && size_of(dtype) > 2))
        check_reduction("reduction_sum", dtype, x, axes, 0, [](double a, double b) { return a + b; });
      check_reduction("reduction_maximum", dtype, x, axes, -infinity,
                      [](double a, double b) { return std::max(a, b); });
      check_reduction("reduction_minimum", dtype, x, axes, infinity, [](double a, double b) { return std::min(a, b); });
      check_reduction("reduction_maximum_propagate_nan", dtype, x, axes, -infinity,
                      [](double a, double b) { return std::max(a, b); });
      check_reduction("reduction_minimum_propagate_nan", dtype, x, axes, infinity,
                      [](double a, double b) { return std::min(a, b); });
    }
    const Array truths = numbers(DType::boolean, dims);
    check_reduction("reduction_and", DType::boolean, truths, axes, 1, [](double a, double b) { return a * b; });
    check_reduction("reduction_or", DType::boolean, truths, axes, 0, [](double a, double b) { return std::max(a, b); });
  }
  const Array factors = array(DType::float32, {2, 3}, {1, 2, 3, -4, 0.5, 6});
  CHECK(close(run("reduction_product", {factors}, with("axes", Ints{1})), array(DType::float32, {2, 1}, {6, -12})));
  CHECK(close(run("reduction_product", {array(DType::uint8, {3}, {100, 3, 1})}, with("axes", Ints{})),
              array(DType::uint8, {1}, {300 % 256})));
}

TEST(reductions_of_empty_and_nan_inputs) {
  const Array none = array(DType::float32, {2, 0});
  CHECK(close(run("reduction_sum", {none}, with("axes", Ints{1})), array(DType::float32, {2, 1}, {0, 0})));
  CHECK(close(run("reduction_product", {none}, with("axes", Ints{1})), array(DType::float32, {2, 1}, {1, 1})));
  CHECK_EQUAL(run("reduction_sum", {none}, with("axes", Ints{0})).size(), 0);
  for (DType dtype : float_dtypes()) {
    const Array x = array(dtype, {2, 3}, {nan_, 1, 2, nan_, nan_, nan_});
    const auto reduce = [&](Kind kind) { return run(kind, {x}, with("axes", Ints{1})); };
    CHECK(close(reduce("reduction_maximum"), array(dtype, {2, 1}, {2, nan_})));
    CHECK(close(reduce("reduction_minimum"), array(dtype, {2, 1}, {1, nan_})));
    CHECK(close(reduce("reduction_maximum_propagate_nan"), array(dtype, {2, 1}, {nan_, nan_})));
    CHECK(close(reduce("reduction_minimum_propagate_nan"), array(dtype, {2, 1}, {nan_, nan_})));
  }
}

TEST(sum_of_ten_million_floats_is_accurate) {
  Array x = array(DType::float32, {10'000'000});
  auto* values = reinterpret_cast<float*>(x.bytes.data());
  double exact = 0;
  for (int64_t i = 0; i < x.size(); ++i) exact += values[i] = 0.1f + 1e-3f * static_cast<float>(i % 7);
  CHECK(std::abs(run("reduction_sum", {x}, with("axes", Ints{}))[0] / exact - 1) < 1e-6);
  x.dims = {2'500'000, 4};
  const Array columns = run("reduction_sum", {x}, with("axes", Ints{0}));
  CHECK(std::abs((columns[0] + columns[1] + columns[2] + columns[3]) / exact - 1) < 1e-6);
  Array ones = array(DType::bfloat16, {100'000});
  for (int64_t i = 0; i < ones.size(); ++i) ones.set(i, 1);
  CHECK(std::abs(run("reduction_sum", {ones}, with("axes", Ints{}))[0] / 1e5 - 1) < 4e-3);
}

TEST(arg_reductions_of_ties_and_nan) {
  const Array x = array(DType::float32, {2, 4}, {1, 5, 5, nan_, 3, 0, 7, 7});
  CHECK(close(run("reduction_arg_maximum", {x}, with("axis", int64_t{1})), array(DType::int32, {2, 1}, {3, 2})));
  CHECK(close(run("reduction_arg_minimum", {x}, with("axis", int64_t{-1})), array(DType::int32, {2, 1}, {3, 1})));
  CHECK(close(run("reduction_arg_maximum", {x}, with("axis", int64_t{0})), array(DType::int32, {1, 4}, {1, 0, 1, 0})));
  for (DType dtype : number_dtypes()) {
    const Array y = numbers(dtype, {3, 50, 300});
    const Array expected = tabulate(DType::int32, {3, 1, 300}, [&](const Dims& at) {
      int64_t best = 0;
      for (int64_t i = 1; i < 50; ++i)
        if (y[(at[0] * 50 + i) * 300 + at[2]] > y[(at[0] * 50 + best) * 300 + at[2]]) best = i;
      return static_cast<double>(best);
    });
    CHECK(close(run("reduction_arg_maximum", {y}, with("axis", int64_t{1})), expected));
  }
}

// --- matrix ----------------------------------------------------------------------------------------------------------

TEST(matmuls_with_broadcast_batches_match_naive_loops) {
  const std::vector<std::pair<Dims, Dims>> cases{
      {{3, 4}, {4, 5}}, {{2, 3, 4}, {4, 5}},    {{2, 1, 3, 4}, {5, 4, 2}}, {{1, 1}, {1, 1}},       {{3, 0}, {0, 2}},
      {{0, 3}, {3, 2}}, {{2, 3, 4}, {2, 4, 1}}, {{65, 70}, {70, 131}},     {{3, 1, 600}, {600, 7}}};
  for (const auto& [a, b] : cases) {
    for (DType dtype : float_dtypes())
      for (bool reference : {false, true}) {
        const Array x = numbers(dtype, a), y = numbers(dtype, b, 7),
                    z = run("matrix_multiplication", {x, y}, {}, reference);
        const size_t rank = z.dims.size();
        const auto at_batch = [&](const Dims& dims, const Dims& at, int64_t row, int64_t column) {
          Dims index(dims.size());
          for (size_t i = 0; i + 2 < dims.size(); ++i) index[i] = dims[i] == 1 ? 0 : at[i + rank - dims.size()];
          index[dims.size() - 2] = row, index[dims.size() - 1] = column;
          return linear(dims, index);
        };
        const Array expected = tabulate(dtype, z.dims, [&](const Dims& at) {
          double sum = 0;
          for (int64_t k = 0; k < a.back(); ++k)
            sum += x[at_batch(a, at, at[rank - 2], k)] * y[at_batch(b, at, k, at[rank - 1])];
          return sum;
        });
        CHECK(close(z, expected, 4 * epsilon(dtype)));
      }
  }
}

// --- softmax and loss ------------------------------------------------------------------------------------------------

namespace {

struct Softmax {  // computed naively in float64
  Array source;
  size_t axis;
  double sum(const Array& a, Dims at, const std::function<double(int64_t)>& f) const {
    double total = 0;
    for (at[axis] = 0; at[axis] < a.dims[axis]; ++at[axis]) total += f(linear(a.dims, at));
    return total;
  }
  double largest(Dims at) const {
    double m = -infinity;
    for (at[axis] = 0; at[axis] < source.dims[axis]; ++at[axis]) m = std::max(m, source[linear(source.dims, at)]);
    return m;
  }
  double log(const Dims& at) const {
    const double m = largest(at);
    return source[linear(source.dims, at)] - m -
           std::log(sum(source, at, [&](int64_t i) { return std::exp(source[i] - m); }));
  }
  double operator()(const Dims& at) const { return std::exp(log(at)); }
};

const std::vector<std::pair<Dims, int64_t>> softmax_cases{{{64, 10}, -1}, {{3, 5}, 0}, {{2, 7, 300}, 1}, {{2, 2100}, 1},
                                                          {{2, 3, 4}, 1}, {{4, 1}, 1}, {{0, 3}, 1},      {{5}, 0}};

}  // namespace

TEST(softmax_and_gradients_match_naive_loops) {
  for (DType dtype : float_dtypes())
    for (const auto& [dims, axis] : softmax_cases) {
      const Array x = numbers(dtype, dims), g = numbers(dtype, dims, 11);
      const Softmax s{x, static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis)};
      const Attributes attributes = with("axis", axis);
      const double tolerance = 20 * epsilon(dtype);
      std::vector<double> values;
      for_each_index(dims, [&](const Dims& at) { values.push_back(s(at)); });
      CHECK(close(run("softmax", {x}, attributes), array(dtype, dims, values), tolerance));
      CHECK(close(run("log_softmax", {x}, attributes), tabulate(dtype, dims, [&](const Dims& at) { return s.log(at); }),
                  tolerance));
      if (element_count(dims) > 4150) continue;
      CHECK(close(run("softmax_gradient", {g, x}, attributes),
                  tabulate(dtype, dims,
                           [&](const Dims& at) {
                             const int64_t i = linear(dims, at);
                             return values[static_cast<size_t>(i)] * (g[i] - s.sum(x, at, [&](int64_t j) {
                                      return g[j] * values[static_cast<size_t>(j)];
                                    }));
                           }),
                  tolerance));
      CHECK(close(run("log_softmax_gradient", {g, x}, attributes),
                  tabulate(dtype, dims,
                           [&](const Dims& at) {
                             const int64_t i = linear(dims, at);
                             return g[i] -
                                    values[static_cast<size_t>(i)] * s.sum(x, at, [&](int64_t j) { return g[j]; });
                           }),
                  tolerance));
    }
  const Array large = run("softmax", {array(DType::float32, {1, 3}, {1000, 1000, -1000})}, with("axis", int64_t{1}));
  CHECK(close(large, array(DType::float32, {1, 3}, {0.5, 0.5, 0}), 1e-6));
}

TEST(cross_entropy_and_gradients_match_naive_loops) {
  for (DType dtype : float_dtypes())
    for (const auto& [dims, axis] : softmax_cases) {
      const Array x = numbers(dtype, dims), labels = numbers(dtype, dims, 13);
      const Softmax s{x, static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis)};
      Dims kept = dims;
      kept[s.axis] = 1;
      const Array losses = tabulate(DType::float64, kept, [&](Dims at) {
        double loss = 0;
        for (at[s.axis] = 0; at[s.axis] < dims[s.axis]; ++at[s.axis])
          loss -= labels[linear(dims, at)] == 0 ? 0 : labels[linear(dims, at)] * s.log(at);
        return loss;
      });
      double total = 0, scale = 1;
      for (int64_t i = 0; i < losses.size(); ++i) total += losses[i], scale = std::max(scale, std::abs(losses[i]));
      for (const char* reduction : {"none", "sum", "mean"}) {
        const bool none = std::string(reduction) == "none", mean = std::string(reduction) == "mean";
        const Attributes attributes{{"axis", axis}, {"reduction", std::string(reduction)}};
        const double over = mean ? static_cast<double>(losses.size()) : 1;
        Array expected = none ? array(dtype, kept) : array(dtype, {}, {total / over});
        if (none)
          for (int64_t i = 0; i < losses.size(); ++i) expected.set(i, losses[i]);
        const double tolerance = epsilon(dtype) * 50 * scale;
        CHECK(close(run("softmax_cross_entropy", {x, labels}, attributes), expected, tolerance));
        if (element_count(dims) > 4150) continue;
        const Array incoming = none ? numbers(dtype, kept, 17) : array(dtype, {}, {1.5});
        CHECK(close(run("softmax_cross_entropy_gradient", {incoming, x, labels}, attributes),
                    tabulate(dtype, dims,
                             [&](Dims at) {
                               const int64_t i = linear(dims, at);
                               const double share = s.sum(labels, at, [&](int64_t j) { return labels[j]; });
                               const double slope = s(at) * share - labels[i];
                               at[s.axis] = 0;
                               return slope * (none ? incoming[linear(kept, at)] : 1.5 / over);
                             }),
                    tolerance));
      }
    }
  const Array impossible = run("softmax_cross_entropy",
                               {array(DType::float32, {1, 2}, {0, -infinity}), array(DType::float32, {1, 2}, {1, 0})});
  CHECK(close(impossible, array(DType::float32, {1, 1}, {0})));
}
