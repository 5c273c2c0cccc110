// Types and gradients of the convolution, pooling, shape, and gather families, without running any kernel.
#include "check.h"
#include "core/definition.h"
#include "core/ops/convolution.h"
#include "core/ops/pooling.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/core/gradients.h"
#include "mpsgraph/core/text.h"

using namespace mpsgraph;
using namespace mpsgraph::ops;

namespace {

struct Fixture {
  Graph graph;
  Builder b{graph};

  Tensor* input(Shape shape, DType dtype = DType::float32) {
    return graph.add("placeholder", {}, {{"type", TensorType{dtype, std::move(shape)}}});
  }
  Shape shape(Kind kind, std::vector<Tensor*> inputs, Attributes attributes = {}) {
    return graph.add(kind, std::move(inputs), std::move(attributes))->shape();
  }
  // Check that gradients up to this order exist and have the types of the tensors they belong to.
  void differentiate(Tensor* y, const std::vector<Tensor*>& by, int order = 3) {
    for (; order > 0; --order) {
      const std::vector<Tensor*> d = gradients(b.sum(graph.add("square", {y})), by);
      y = nullptr;
      for (size_t i = 0; i < by.size(); ++i) {
        CHECK_EQUAL(d[i]->dtype(), by[i]->dtype());
        CHECK(compatible(d[i]->shape(), by[i]->shape()));
        if (by[i]->shape().known()) CHECK_EQUAL(d[i]->shape(), by[i]->shape());
        Tensor* sum = b.sum(d[i]);
        sum = b.reshape(sum, Ints{1});
        y = y ? b.add(y, sum) : sum;
      }
    }
    verify(graph);
  }
};

std::string text(const std::string& value) { return value; }

Attributes slice_of(Ints starts, Ints ends, Ints strides, int64_t squeeze = 0, int64_t start_mask = 0,
                    int64_t end_mask = 0) {
  return {{"starts", starts},         {"ends", ends},        {"strides", strides}, {"squeeze_mask", squeeze},
          {"start_mask", start_mask}, {"end_mask", end_mask}};
}

}  // namespace

TEST(windows_match_brute_force_counting) {
  for (int64_t input = 0; input < 9; ++input)
    for (int64_t kernel = 1; kernel < 5; ++kernel)
      for (int64_t stride = 1; stride < 4; ++stride)
        for (int64_t dilation = 1; dilation < 3; ++dilation)
          for (int64_t padding = 0; padding < 3; ++padding)
            for (bool ceil_mode : {false, true}) {
              const auto w = make_window(input, kernel, stride, dilation, PaddingStyle::explicit_padding, padding,
                                         padding + 1, ceil_mode);
              const int64_t reach = (kernel - 1) * dilation + 1, length = input + 2 * padding + 1;
              int64_t whole = 0, begun = 0;
              for (int64_t start = 0; start + reach <= length; start += stride) ++whole;
              for (int64_t start = 0; start < input + padding; start += stride) ++begun;
              if (whole == 0) {
                CHECK_EQUAL(w.has_value(), input == 0);
                continue;
              }
              int64_t expected = whole;
              if (ceil_mode && (length - reach) % stride != 0 && begun > whole) ++expected;
              CHECK_EQUAL(w->output, expected);
              CHECK_EQUAL(w->overhang, std::max<int64_t>((expected - 1) * stride + reach - length, 0));
            }
}

TEST(same_padding_matches_tensorflow) {
  const auto same = [](int64_t input, int64_t kernel, int64_t stride, PaddingStyle style) {
    const Window w = *make_window(input, kernel, stride, 1, style, 0, 0, false);
    return Ints{w.output, w.begin, w.end};
  };
  CHECK_EQUAL(same(28, 5, 1, PaddingStyle::tf_same), (Ints{28, 2, 2}));
  CHECK_EQUAL(same(28, 2, 1, PaddingStyle::tf_same), (Ints{28, 0, 1}));
  CHECK_EQUAL(same(28, 2, 1, PaddingStyle::onnx_same_lower), (Ints{28, 1, 0}));
  CHECK_EQUAL(same(5, 3, 2, PaddingStyle::tf_same), (Ints{3, 1, 1}));
  CHECK_EQUAL(same(6, 3, 2, PaddingStyle::tf_same), (Ints{3, 0, 1}));
  CHECK_EQUAL(same(7, 1, 3, PaddingStyle::tf_same), (Ints{3, 0, 0}));
  CHECK_EQUAL(same(0, 3, 2, PaddingStyle::tf_same), (Ints{0, 0, 0}));
}

TEST(pooling_taps_match_brute_force_counting) {
  for (int64_t input = 1; input < 8; ++input)
    for (int64_t kernel = 1; kernel < 4; ++kernel)
      for (int64_t dilation = 1; dilation < 4; ++dilation)
        for (int64_t padding = 0; padding < kernel; ++padding) {
          const auto w =
              make_window(input, kernel, 2, dilation, PaddingStyle::explicit_padding, padding, padding, true);
          for (int64_t position = 0; w && position < w->output; ++position) {
            const PoolingTaps inside = pooling_taps(*w, position, false), padded = pooling_taps(*w, position, true);
            int64_t count = 0, divisor = 0;
            for (int64_t tap = 0; tap < kernel; ++tap) {
              const int64_t at = w->at(position, tap);
              const bool in_input = at >= 0 && at < input;
              CHECK_EQUAL(in_input, tap >= inside.first && tap < inside.first + inside.count);
              count += in_input;
              divisor += at < input + padding;
            }
            CHECK_EQUAL(inside.count, count);
            CHECK_EQUAL(inside.divisor, count);
            CHECK_EQUAL(padded.divisor, divisor);
          }
        }
}

TEST(padding_sources_repeat_indefinitely) {
  const auto row = [](PadMode mode, int64_t size) {
    Ints result;
    for (int64_t i = -5; i < size + 5; ++i) {
      const PadSource source = pad_source(mode, i, size);
      result.push_back(source.negated ? -source.index - 1 : source.index);  // -1 - i means negated
    }
    return result;
  };
  CHECK_EQUAL(row(PadMode::reflect, 3), (Ints{1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1}));
  CHECK_EQUAL(row(PadMode::symmetric, 3), (Ints{1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1}));
  CHECK_EQUAL(row(PadMode::clamp_to_edge, 3), (Ints{0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2}));
  CHECK_EQUAL(row(PadMode::periodic, 3), (Ints{1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1}));
  CHECK_EQUAL(row(PadMode::anti_periodic, 3), (Ints{1, 2, -1, -2, -3, 0, 1, 2, -1, -2, -3, 0, 1}));
  CHECK_EQUAL(row(PadMode::reflect, 1), (Ints{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  CHECK_EQUAL(pad_source(PadMode::constant, -1, 3).index, -1);
}

TEST(slices_match_python) {
  const auto counted = [](int64_t start, int64_t end, int64_t stride, int64_t size) {
    const SliceRange r = *slice_range(slice_of({start}, {end}, {stride}), 0, size);
    Ints result;
    for (int64_t i = 0; i < r.count; ++i) result.push_back(r.start + i * r.stride);
    return result;
  };
  CHECK_EQUAL(counted(1, 4, 1, 5), (Ints{1, 2, 3}));
  CHECK_EQUAL(counted(-2, 100, 1, 5), (Ints{3, 4}));
  CHECK_EQUAL(counted(4, 0, -2, 5), (Ints{4, 2}));
  CHECK_EQUAL(counted(-1, -100, -1, 3), (Ints{2, 1, 0}));
  CHECK_EQUAL(counted(3, 1, 1, 5), Ints{});
  CHECK_EQUAL(counted(0, 5, 1, 0), Ints{});
  CHECK_EQUAL(counted(5, 0, -1, 0), Ints{});
  CHECK(!slice_range(slice_of({3}, {0}, {1}, 1), 0, 3));
  CHECK_EQUAL(slice_range(slice_of({-1}, {0}, {1}, 1), 0, 3)->start, 2);
}

TEST(convolution_types_and_errors) {
  Fixture f;
  Tensor *x = f.input({-1, 32, 32, 3}), *w = f.input({5, 5, 3, 16});
  CHECK_EQUAL(f.shape("convolution2d", {x, w}), (Shape{-1, 28, 28, 16}));
  CHECK_EQUAL(f.shape("convolution2d", {x, w}, {{"padding_style", text("TF_SAME")}, {"strides", Ints{2, 3}}}),
              (Shape{-1, 16, 11, 16}));
  CHECK_EQUAL(f.shape("convolution2d", {x, w},
                      {{"padding_style", text("EXPLICIT")}, {"padding", Ints{1, 2, 3, 4}}, {"dilations", Ints{1, 2}}}),
              (Shape{-1, 31, 31, 16}));
  CHECK_EQUAL(f.shape("convolution2d", {f.input({}), w}), (Shape{-1, -1, -1, 16}));
  CHECK_EQUAL(f.shape("convolution2d", {f.input({2, 6, 8, 8}), f.input({4, 3, 3, 3})},
                      {{"data_layout", text("NCHW")}, {"weights_layout", text("OIHW")}, {"groups", int64_t{2}}}),
              (Shape{2, 4, 6, 6}));
  CHECK_EQUAL(f.shape("convolution2d", {f.input({0, 8, 8, 3}), f.input({3, 3, 3, 0})}), (Shape{0, 6, 6, 0}));
  CHECK_THROWS(ShapeError, f.shape("convolution2d", {f.input({8, 32, 32, 3}), f.input({5, 5, 4, 16})}),
               "[convolution2d] weights have 4 input channel(s) (HWIO axis 2), but source has 3 (NHWC axis 3): "
               "source (8,32,32,3), weights (5,5,4,16)");
  CHECK_THROWS(ShapeError, f.shape("convolution2d", {f.input({1, 4, 4, 3}), w}),
               "the kernel covers 5 elements of the height, but source has size 4 (axis 1)");
  CHECK_THROWS(ShapeError, f.shape("convolution2d", {x, w}, {{"groups", int64_t{3}}}),
               "3 input channel(s) in each of 3 groups");
  CHECK_THROWS(ShapeError, f.shape("convolution2d", {x, w}, {{"strides", Ints{0, 1}}}), "strides must be");
  CHECK_THROWS(GraphError, f.shape("convolution2d", {x, w}, {{"padding_style", text("SAME")}}), "padding_style must be",
               "got 'SAME'");
  CHECK_THROWS(GraphError, f.shape("convolution2d", {x, w}, {{"padding", Ints{1, 1, 1, 1}}}),
               "requires padding_style EXPLICIT");
  CHECK_THROWS(DTypeError, f.shape("convolution2d", {x, f.input({5, 5, 3, 16}, DType::float16)}), "cast");
}

TEST(convolution_gradient_types_and_errors) {
  Fixture f;
  Tensor *r = f.input({8, 28, 28, 16}), *w = f.input({5, 5, 3, 16}), *x = f.input({8, 32, 32, 3});
  CHECK_EQUAL(f.shape("convolution2d_data_gradient", {r, w, f.b.ints({8, 32, 32, 3})}), (Shape{8, 32, 32, 3}));
  CHECK_EQUAL(f.shape("convolution2d_data_gradient", {r, w, f.input({-1}, DType::int32)}), (Shape{8, -1, -1, 3}));
  CHECK_EQUAL(f.shape("convolution2d_weights_gradient", {r, x, f.b.ints({5, 5, 3, 16})}), (Shape{5, 5, 3, 16}));
  CHECK_THROWS(ShapeError, f.shape("convolution2d_data_gradient", {r, w, f.b.ints({8, 32, 33, 3})}),
               "incoming gradient must", "got (8,28,28,16)", "(8,28,29,16) of the convolution's result");
  CHECK_THROWS(ShapeError, f.shape("convolution2d_data_gradient", {r, w, f.b.ints({8, 32, 32, 4})}), "got (8,32,32,4)");
  CHECK_THROWS(ShapeError, f.shape("convolution2d_weights_gradient", {r, x, f.b.ints({5, 4, 3, 16})}),
               "(8,28,29,16) of the convolution's result");
}

TEST(convolution_gradients_of_any_order_have_right_types) {
  for (const Shape& source : {Shape{2, 9, 9, 4}, Shape{-1, -1, 9, 4}, Shape{}}) {
    Fixture f;
    Tensor *x = f.input(source), *w = f.input({3, 3, 2, 6});
    f.differentiate(f.graph.add("convolution2d", {x, w},
                                {{"groups", int64_t{2}}, {"strides", Ints{2, 1}}, {"padding_style", text("TF_SAME")}}),
                    {x, w});
  }
}

TEST(pooling_types_and_gradients) {
  for (const Shape& source : {Shape{2, 9, 9, 4}, Shape{-1, -1, 9, 4}, Shape{}}) {
    for (Kind kind : Kinds{"max_pooling2d", "avg_pooling2d"}) {
      Fixture f;
      Tensor* x = f.input(source);
      Tensor* y = f.graph.add(kind, {x}, {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"ceil_mode", true}});
      if (source.known()) CHECK_EQUAL(y->shape(), (Shape{2, 5, 5, 4}));
      f.differentiate(y, {x});
    }
  }
  Fixture f;
  Tensor* x = f.input({1, 4, 4, 1});
  const Attributes same{{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  CHECK_THROWS(ShapeError,
               f.shape("max_pooling2d", {x},
                       {{"kernel", Ints{2, 2}},
                        {"strides", Ints{2, 2}},
                        {"padding_style", text("EXPLICIT")},
                        {"padding", Ints{2, 0, 0, 0}}}),
               "padding must be smaller");
  CHECK_THROWS(ShapeError, f.shape("max_pooling2d", {x}, {{"kernel", Ints{2}}, {"strides", Ints{2, 2}}}),
               "kernel must be 2 numbers");
  CHECK_THROWS(ShapeError, f.shape("max_pooling2d_gradient", {x, x}, same), "incoming gradient must", "got (1,4,4,1)");
  CHECK_THROWS(ShapeError, f.shape("max_pooling2d_at_maxima", {x, f.input({1, 4, 5, 1})}, same), "the same shape");
}

TEST(reshape_types_and_errors) {
  Fixture f;
  Tensor* x = f.input({4, 6});
  CHECK_EQUAL(f.shape("reshape", {x, f.b.ints({-1, 8})}), (Shape{3, 8}));
  CHECK_EQUAL(f.shape("reshape", {x, f.b.ints({2, 12})}), (Shape{2, 12}));
  CHECK_EQUAL(f.shape("reshape", {f.input({-1, 6}), f.b.ints({-1, 12})}), (Shape{-1, 12}));
  CHECK_EQUAL(f.shape("reshape", {f.input({}), f.b.ints({3, 4})}), (Shape{3, 4}));
  CHECK_EQUAL(f.shape("reshape", {x, f.input({3}, DType::int64)}), (Shape{-1, -1, -1}));
  CHECK_EQUAL(f.shape("reshape", {x, f.input({-1}, DType::int64)}), Shape());
  CHECK_EQUAL(f.shape("reshape", {f.input({0, 3}), f.b.ints({-1, 5})}), (Shape{0, 5}));
  CHECK_THROWS(ShapeError, f.shape("reshape", {f.input({3, 4}), f.b.ints({5, 3})}),
               "[reshape] cannot reshape 12 elements to (5,3): source (3,4)");
  CHECK_THROWS(ShapeError, f.shape("reshape", {x, f.b.ints({-1, 5})}), "cannot reshape 24 elements to (-1,5)");
  CHECK_THROWS(ShapeError, f.shape("reshape", {f.input({0}), f.b.ints({-1, 0})}), "-1 is ambiguous");
  CHECK_THROWS(ShapeError, f.shape("reshape", {x, f.b.ints({-1, -1})}), "except for one -1");
  CHECK_THROWS(ShapeError, f.shape("reshape", {x, f.b.ints(Ints(17, 1))}), "at most 16");
  CHECK_THROWS(ShapeError, f.shape("reshape", {x, f.b.ints({int64_t{1} << 40, int64_t{1} << 40})}), "2^62");
  CHECK_THROWS(DTypeError, f.shape("reshape", {x, f.input({2})}), "must be integers");
}

TEST(transpose_squeeze_and_flatten_types) {
  Fixture f;
  Tensor *x = f.input({2, 3, -1}), *any = f.input({});
  CHECK_EQUAL(f.shape("transpose", {x}, {{"permutation", Ints{2, 0, -2}}}), (Shape{-1, 2, 3}));
  CHECK_EQUAL(f.shape("transpose", {any}, {{"permutation", Ints{1, 0}}}), (Shape{-1, -1}));
  CHECK_THROWS(ShapeError, f.shape("transpose", {x}, {{"permutation", Ints{0, 1, 1}}}), "axis 1 twice");
  CHECK_THROWS(ShapeError, f.shape("transpose", {x}, {{"permutation", Ints{0, 1}}}), "one entry for each axis");
  CHECK_EQUAL(f.shape("expand_dims", {x}, {{"axes", Ints{0, -1}}}), (Shape{1, 2, 3, -1, 1}));
  CHECK_EQUAL(f.shape("squeeze", {f.input({1, 3, 1})}), (Shape{3}));
  CHECK_EQUAL(f.shape("squeeze", {f.input({-1, 3, 1})}), Shape());
  CHECK_EQUAL(f.shape("squeeze", {f.input({-1, 3, 1})}, {{"axes", Ints{0}}}), (Shape{3, 1}));
  CHECK_THROWS(ShapeError, f.shape("squeeze", {x}, {{"axes", Ints{1}}}), "got axis 1 of size 3");
  CHECK_EQUAL(f.shape("flatten2d", {f.input({2, 3, 4})}, {{"axis", int64_t{1}}}), (Shape{2, 12}));
  CHECK_EQUAL(f.shape("flatten2d", {f.input({2, 3, 4})}, {{"axis", int64_t{3}}}), (Shape{24, 1}));
  CHECK_EQUAL(f.shape("flatten2d", {f.input({-1, 3, 4})}, {{"axis", int64_t{-2}}}), (Shape{-1, 12}));
  CHECK_EQUAL(f.shape("flatten2d", {any}, {{"axis", int64_t{1}}}), (Shape{-1, -1}));
  CHECK_EQUAL(f.shape("shape_of", {x}), (Shape{3}));
  CHECK_EQUAL(f.graph.add("cast", {x}, {{"dtype", DType::int8}})->type, (TensorType{DType::int8, {2, 3, -1}}));
}

TEST(broadcast_types_and_errors) {
  Fixture f;
  CHECK_EQUAL(f.shape("broadcast_to", {f.input({3, 1}), f.b.ints({2, 3, 4})}), (Shape{2, 3, 4}));
  CHECK_EQUAL(f.shape("broadcast_to", {f.input({-1}), f.b.ints({0})}), (Shape{0}));
  CHECK_EQUAL(f.shape("broadcast_to", {f.input({3, -1}), f.input({2}, DType::int32)}), (Shape{3, -1}));
  CHECK_THROWS(ShapeError, f.shape("broadcast_to", {f.input({3}), f.b.ints({2})}),
               "source (3) cannot be broadcast to (2)");
  CHECK_THROWS(ShapeError, f.shape("broadcast_to", {f.input({3}), f.b.ints({1})}), "cannot be broadcast");
  CHECK_THROWS(ShapeError, f.shape("broadcast_to", {f.input({1, 3}), f.b.ints({3})}), "cannot be broadcast");
  CHECK_THROWS(ShapeError, f.shape("broadcast_to", {f.input({3}), f.b.ints({-1})}), "negative dimension");
  CHECK_THROWS(ShapeError, f.shape("broadcast_gradient", {f.input({2, 3}), f.b.ints({4})}),
               "cannot be the result of broadcasting");
}

TEST(slice_types_and_errors) {
  Fixture f;
  Tensor* x = f.input({4, 5, -1});
  CHECK_EQUAL(f.shape("slice", {x}, slice_of({0, 4, 0}, {2, 0, 1}, {1, -2, 1})), (Shape{2, 2, -1}));
  CHECK_EQUAL(f.shape("slice", {x}, slice_of({0, 0, 0}, {0, 5, 0}, {1, 1, 1}, 4)), (Shape{0, 5}));
  CHECK_EQUAL(f.shape("slice", {x}, slice_of({1, 1, 1}, {2, 2, 2}, {1, -1, 1}, 0, 3, 2)), (Shape{2, 5, -1}));
  CHECK_THROWS(ShapeError, f.shape("slice", {x}, slice_of({4, 0, 0}, {0, 0, 0}, {1, 1, 1}, 1)),
               "index 4 is out of range for axis 0");
  CHECK_THROWS(ShapeError, f.shape("slice", {x}, slice_of({0, 0, 0}, {0, 0, 0}, {1, 0, 1})), "got 0 for axis 1");
  CHECK_THROWS(ShapeError, f.shape("slice", {x}, slice_of({0}, {1}, {1})), "one entry for each axis");
  CHECK_THROWS(ShapeError, f.shape("slice", {x}, slice_of({0, 0, 0}, {0, 0, 0}, {1, 1, 1}, 8)),
               "bits set only for existing axes (3)");
  CHECK_THROWS(ShapeError, f.shape("slice", {x}, slice_of({0, 0, 0}, {0, 0, 0}, {1, 1, INT64_MIN})), "less than 2^62");
}

TEST(concat_and_split_types_and_errors) {
  Fixture f;
  Tensor *a = f.input({2, 3}), *b = f.input({-1, 3}), *any = f.input({});
  CHECK_EQUAL(f.shape("concat", {a, a, f.input({1, 3})}, {{"axis", int64_t{0}}}), (Shape{5, 3}));
  CHECK_EQUAL(f.shape("concat", {a, b}, {{"axis", int64_t{0}}}), (Shape{-1, 3}));
  CHECK_EQUAL(f.shape("concat", {b, a}, {{"axis", int64_t{-1}}}), (Shape{2, 6}));
  CHECK_EQUAL(f.shape("concat", {any, a}, {{"axis", int64_t{1}}}), (Shape{2, -1}));
  CHECK_EQUAL(f.shape("concat", {b, a}, {{"axis", int64_t{0}}, {"interleave", true}}), (Shape{4, 3}));
  CHECK_THROWS(ShapeError, f.shape("concat", {a, f.input({2, 4})}, {{"axis", int64_t{0}}}), "operand 1 of shape (2,4)");
  CHECK_THROWS(ShapeError, f.shape("concat", {a, f.input({1, 3})}, {{"axis", int64_t{0}}, {"interleave", true}}),
               "operand 1");
  CHECK_THROWS(ShapeError, f.shape("concat", {a}, {{"axis", int64_t{2}}}), "axis 2");
  CHECK_EQUAL(f.shape("stack", {a, b}, {{"axis", int64_t{-1}}}), (Shape{2, 3, 2}));
  CHECK_THROWS(ShapeError, f.shape("stack", {a, f.input({2, 4})}, {{"axis", int64_t{0}}}), "operand 1");
  CHECK_EQUAL(f.graph.create("split", {any}, {{"sizes", Ints{1, 0}}, {"axis", int64_t{0}}})->outputs.size(), size_t{2});
  CHECK_THROWS(ShapeError, f.shape("split", {a}, {{"sizes", Ints{1, 0}}, {"axis", int64_t{0}}}), "size of axis 0 (2)",
               "with sum 1");
  CHECK_THROWS(ShapeError, f.shape("split", {a}, {{"sizes", Ints{}}, {"axis", int64_t{0}}}), "at least one entry");
}

TEST(pad_and_tile_types_and_errors) {
  Fixture f;
  Tensor* x = f.input({0, 3});
  CHECK_EQUAL(f.shape("pad", {x}, {{"left", Ints{1, 2}}, {"right", Ints{0, 3}}}), (Shape{1, 8}));
  CHECK_THROWS(ShapeError,
               f.shape("pad", {x}, {{"left", Ints{1, 2}}, {"right", Ints{0, 3}}, {"mode", text("reflect")}}),
               "nothing to repeat");
  CHECK_THROWS(ShapeError, f.shape("pad", {x}, {{"left", Ints{-1, 2}}, {"right", Ints{0, 3}}}), "use slice to crop");
  CHECK_THROWS(ShapeError, f.shape("pad", {x}, {{"left", Ints{1}}, {"right", Ints{0}}}), "one entry for each axis");
  CHECK_THROWS(GraphError, f.shape("pad", {x}, {{"left", Ints{1, 1}}, {"right", Ints{0, 0}}, {"mode", text("edge")}}),
               "mode must be", "got 'edge'");
  CHECK_THROWS(DTypeError,
               f.shape("pad", {f.input({3}, DType::uint8)},
                       {{"left", Ints{1}}, {"right", Ints{0}}, {"mode", text("anti_periodic")}}),
               "signed");
  CHECK_EQUAL(f.shape("tile", {x}, {{"multiplier", Ints{2, 2}}}), (Shape{0, 6}));
  CHECK_EQUAL(f.shape("tile", {f.input({-1})}, {{"multiplier", Ints{0}}}), (Shape{0}));
  CHECK_THROWS(ShapeError, f.shape("tile", {x}, {{"multiplier", Ints{1, int64_t{1} << 62}}}), "2^60");
}

TEST(gather_types_and_errors) {
  Fixture f;
  Tensor* u = f.input({4, 5, 6});
  CHECK_EQUAL(f.shape("gather", {u, f.input({2, 3}, DType::int32)}, {{"axis", int64_t{1}}}), (Shape{4, 2, 3, 6}));
  CHECK_EQUAL(f.shape("gather", {u, f.input(Dims{}, DType::int32)}, {{"axis", int64_t{-1}}}), (Shape{4, 5}));
  CHECK_EQUAL(
      f.shape("gather", {u, f.input({4, 3}, DType::int64)}, {{"axis", int64_t{2}}, {"batch_dimensions", int64_t{1}}}),
      (Shape{4, 5, 3}));
  CHECK_EQUAL(f.shape("gather", {u, f.input({}, DType::int64)}, {{"axis", int64_t{2}}}), Shape());
  CHECK_THROWS(
      ShapeError,
      f.shape("gather", {u, f.input({3, 3}, DType::int64)}, {{"axis", int64_t{2}}, {"batch_dimensions", int64_t{1}}}),
      "batch dimension 0");
  CHECK_THROWS(
      ShapeError,
      f.shape("gather", {u, f.input({4, 3}, DType::int64)}, {{"axis", int64_t{0}}, {"batch_dimensions", int64_t{1}}}),
      "axis 0");
  CHECK_THROWS(DTypeError, f.shape("gather", {u, f.input({2})}, {{"axis", int64_t{0}}}), "indices must be integers");
  CHECK_EQUAL(f.shape("one_hot", {f.input({2, 3}, DType::int32)}, {{"depth", int64_t{10}}, {"axis", int64_t{0}}}),
              (Shape{10, 2, 3}));
  CHECK_THROWS(ShapeError, f.shape("one_hot", {f.input({2}, DType::int32)}, {{"depth", int64_t{-1}}}), "depth");
}

TEST(shape_operation_gradients_have_right_types) {
  for (const Shape& shape : {Shape{4, 6}, Shape{-1, 6}, Shape{-1, -1}, Shape{}}) {
    Fixture f;
    Tensor *x = f.input(shape), *z = f.input(shape), *i = f.input({3}, DType::int32);
    const std::vector<std::pair<std::string_view, Attributes>> unary = {
        {"transpose", {{"permutation", Ints{1, 0}}}},
        {"expand_dims", {{"axes", Ints{0, -1}}}},
        {"flatten2d", {{"axis", int64_t{1}}}},
        {"cast", {{"dtype", DType::float64}}},
        {"slice", slice_of({3, 0}, {0, 6}, {-1, 2})},
        {"slice", slice_of({3, 0}, {0, 6}, {1, 2}, 1)},
        {"pad", {{"left", Ints{1, 2}}, {"right", Ints{0, 3}}, {"mode", text("anti_periodic")}}},
        {"pad", {{"left", Ints{1, 2}}, {"right", Ints{0, 3}}, {"value", 3.0}}},
        {"tile", {{"multiplier", Ints{2, 3}}}},
    };
    for (const auto& [kind, attributes] : unary)
      f.differentiate(f.graph.add(kind_named(kind), {x}, attributes), {x}, 2);
    f.differentiate(f.graph.add("reshape", {x, f.b.ints({-1, 2})}), {x}, 2);
    f.differentiate(f.graph.add("gather", {x, i}, {{"axis", int64_t{1}}}), {x}, 2);
    for (bool interleave : {false, true})
      f.differentiate(f.graph.add("concat", {x, z, x}, {{"axis", int64_t{0}}, {"interleave", interleave}}), {x, z}, 2);
    f.differentiate(f.graph.add("stack", {x, z}, {{"axis", int64_t{-1}}}), {x, z}, 2);
    const Operation* parts = f.graph.create("split", {x}, {{"sizes", Ints{1, 3}}, {"axis", int64_t{0}}});
    f.differentiate(parts->output(1), {x}, 2);
    Tensor* row = f.graph.add("slice", {x}, slice_of({0, 0}, {1, 0}, {1, 1}, 0, 0, 2));
    f.differentiate(f.b.broadcast_like(row, x), {x}, 2);
  }
}

// The gradients of concat operands that static slices can express.
TEST(concat_gradients_use_slices_where_sizes_are_static) {
  const auto kinds = [](const std::vector<Shape>& shapes) {
    Fixture f;
    std::vector<Tensor*> parts;
    for (const Shape& shape : shapes) parts.push_back(f.input(shape));
    gradients(f.graph.add("concat", parts, {{"axis", int64_t{0}}}), parts);
    std::string found;
    for (const auto& operation : f.graph.root().operations) {
      if (operation->is("slice"))
        found += cat(to_string(operation->attributes.integers("starts")),
                     to_string(operation->attributes.integers("ends")), operation->attributes.integer("end_mask"), " ");
      if (operation->is("concat_gradient")) found += "concat_gradient ";
    }
    return found;
  };
  CHECK_EQUAL(kinds({{2}, {3}, {0}}), "(0)(2)0 (2)(5)0 (0)(0)0 ");
  CHECK_EQUAL(kinds({{2}, {-1}, {1}, {0}}), "(0)(2)0 (2)(-1)0 (-1)(0)1 (0)(0)0 ");
  CHECK_EQUAL(kinds({{2}, {-1}}), "(0)(2)0 (2)(0)1 ");
  CHECK_EQUAL(kinds({{-1}, {-1}}), "concat_gradient ");
}

TEST(decompositions_have_the_types_of_their_composites) {
  Fixture f;
  const auto check = [&](Kind kind, const std::vector<Tensor*>& inputs, const Attributes& attributes) {
    const Operation* operation = f.graph.create(kind, inputs, attributes);
    const std::vector<Tensor*> parts = definition_of(kind).decompose(f.b, inputs, operation->attributes);
    CHECK_EQUAL(parts.size(), operation->outputs.size());
    for (size_t i = 0; i < parts.size(); ++i) CHECK_EQUAL(parts[i]->type, operation->output(i)->type);
  };
  check("broadcast_gradient", {f.input({2, 3, 4}), f.b.ints({3, 1})}, {});
  check("broadcast_gradient", {f.input({2, 3}), f.b.ints({2, 3})}, {});
  check("tile_gradient", {f.input({4, 0, 5}), f.b.ints({2, 7, 5})}, {{"multiplier", Ints{2, 0, 1}}});
  check("concat_gradient", {f.input({5, 3}), f.input({2, 3}), f.input({3, 3})}, {{"axis", int64_t{0}}});
  check("concat_gradient", {f.input({4, 3}), f.input({2, 3}), f.input({2, 3})},
        {{"axis", int64_t{0}}, {"interleave", true}});
}

TEST(shapes_given_as_operands_are_bounds_checked) {
  Fixture f;
  Tensor *unknown = f.input(Shape()), *weights = f.input({1, 3, 3, 3});
  CHECK_THROWS(ShapeError, f.graph.add("depthwise_convolution3d_data_gradient", {unknown, weights, f.b.ints({5})}),
               "4 or more entries", "(5)");
  CHECK_THROWS(ShapeError,
               f.graph.add("avg_pooling4d_gradient", {unknown, f.b.ints({5, 6})},
                           {{"kernel", Ints{1, 1, 1, 1}}, {"strides", Ints{1, 1, 1, 1}}}),
               "4 or more entries", "(5,6)");
  Tensor* sizes = f.input({int64_t{1} << 40}, DType::int32);
  CHECK_THROWS(ShapeError, f.graph.create("split", {unknown, sizes}, {{"axis", int64_t{0}}}), "sizes", "at most 65536");
}
