// Operation family convolution: im_to_col, which copies the windows of an image into the columns of a matrix, and
// col_to_im, which adds the columns back to the pixels they were copied from. The columns are indexed by the channel c,
// the filter tap (ky, kx), and the window position (y, x):
//
//   NCHW: columns[n, (c, ky, kx), (y, x)]     NHWC: columns[n, (y, x), (ky, kx, c)]
//
// With im_to_col, a convolution becomes a single matmul. The two operations are linear, and each is the adjoint of the
// other. Padding is explicit and filled with zeros.
#include "core/ops/convolution.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {

namespace {

Windows checked_patches(const InferContext& context) {
  require_numbers(context, "kernel", 2, 1);
  return checked_windows(context, 2);
}

Shape columns(const InferContext& context, const Windows& w, const Shape& source) {
  const auto times = [&](int64_t a, int64_t b) {
    int64_t result = -1;
    if (a >= 0 && b >= 0 && __builtin_mul_overflow(a, b, &result))
      context.shape_error(cat("the columns are too large: ", a, " * ", b, " elements overflow int64, source ", source));
    return result;
  };
  const Ints& kernel = context.attributes.integers("kernel");
  int64_t positions = 1, taps = size_at(source, w.channel);
  for (int i = 0; i < 2; ++i) {
    positions = times(positions, output_size(context, w, i, size_at(source, w.spatial[i]), kernel[i]));
    taps = times(taps, kernel[i]);
  }
  return w.channel == -1 ? Shape{source[0], positions, taps} : Shape{source[0], taps, positions};
}

void require_numbers_dtype(const InferContext& context) {
  if (context.dtype(0) == DType::boolean)
    context.dtype_error("source must be numeric, got bool: cast it to float32 first");
}

std::vector<TensorType> infer_im_to_col(const InferContext& context) {
  require_numbers_dtype(context);
  const Windows w = checked_patches(context);
  return {{context.dtype(0), columns(context, w, image(context, 0, w))}};
}

// The operands are source and output_shape.
std::vector<TensorType> infer_col_to_im(const InferContext& context) {
  require_numbers_dtype(context);
  const Windows w = checked_patches(context);
  context.require_rank(0, 3);
  const Shape source = context.shape(0).ranked() ? context.shape(0) : Shape{-1, -1, -1};
  const Shape stated = stated_shape(context, 1, {source[0], -1, -1, -1});
  const Shape forward = columns(context, w, stated);
  if (!compatible(forward, source))
    context.shape_error(cat("source must have shape ", forward, " to hold the columns of an image of shape ", stated,
                            ", got ", source));
  return {{context.dtype(0), stated}};
}

void d_im_to_col(GradientContext& g) {
  g.set(0, g.graph().add("col_to_im", {g.incoming(), Builder(g.graph()).shape_of(g.input(0))}, g.attributes()));
}

void d_col_to_im(GradientContext& g) {
  if (g.needs(0)) g.set(0, g.graph().add("im_to_col", {g.incoming()}, g.attributes()));
}

}  // namespace

const Family convolution_patches_family("convolution", [] {
  const std::vector<AttributeSpec> attributes{required("kernel", AttributeKind::integers),
                                              optional("strides", Ints{1, 1}), optional("dilations", Ints{1, 1}),
                                              optional("padding", Ints{0, 0, 0, 0}), layout_attribute(2)};
  define(primitive("im_to_col", 1, attributes, infer_im_to_col, d_im_to_col));
  define(primitive("col_to_im", 2, attributes, infer_col_to_im, d_col_to_im));
});

}  // namespace mpsgraph::ops
