// Operation family fourier_transform: discrete Fourier transforms over up to four axes, of complex tensors and between
// real and Hermitean tensors. Along each transformed axis of length n,
//
//   result[k] = scale Σ_j exp(∓ 2πi j k / n) x[j]      with - for the forward and + for the inverse transform
//
// The transform of a real signal is Hermitean: real_to_hermitean_fft returns only the first n/2 + 1 points of the last
// axis among `axes`, and hermitean_to_real_fft takes a tensor with that many points. Scale and direction are
// independent. All transforms are linear, so each derivative is a transform in the opposite direction with the same
// scale. For complex tensors the derivative is the transform by the adjoint matrix. Between real and Hermitean tensors,
// the points that represent two frequencies are additionally weighted by one half or by two.
#include "core/ops/fourier_transform.h"

#include <algorithm>
#include <cmath>

#include "core/known_values.h"
#include "core/ops/primitive.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

constexpr size_t most_axes = 4;  // the limit of MPSGraph's Fourier transforms

// Checks the attributes of a transform and returns its axes in ascending order; empty if the source is unranked.
std::vector<int> checked_axes(const InferContext& c, const Shape& shape) {
  const Ints& axes = c.attributes.integers("axes");
  const std::string& scaling = c.attributes.string("scaling");
  if (scaling != "none" && scaling != "size" && scaling != "unitary")
    c.graph_error(cat("scaling must be none, size or unitary, got '", scaling, "'"));
  if (axes.empty() || axes.size() > most_axes)
    c.shape_error(cat("axes must name one to ", most_axes, " axes, got ", to_string(axes)));
  if (!shape.ranked()) return {};
  distinct_axes(c, axes, shape.rank());
  return fourier_axes(c.attributes, shape.rank());
}

void require_points(const InferContext& c, const Shape& shape, int axis) {
  if (shape[axis] == 0)
    c.shape_error(cat("the transformed axis must not be empty, got axis ", axis, " of source ", shape));
}

DType complex_of(const InferContext& c) {
  const std::optional<DType> result = is_inexact(c.dtype(0)) ? complex_type(c.dtype(0)) : std::nullopt;
  if (!result)
    c.dtype_error(cat("source must be float32 or complex64 (on the CPU also float64 or complex128), got ", c.dtype(0),
                      ": cast it to float32 first"));
  return *result;
}

std::vector<TensorType> infer_fast_fourier_transform(const InferContext& c) {
  checked_axes(c, c.shape(0));
  return {{complex_of(c), c.shape(0)}};
}

std::vector<TensorType> infer_real_to_hermitean(const InferContext& c) {
  if (is_complex(c.dtype(0)))
    c.dtype_error(cat("source must be real, got ", c.dtype(0), ": use fast_fourier_transform"));
  const DType dtype = complex_of(c);
  const std::vector<int> axes = checked_axes(c, c.shape(0));
  if (axes.empty()) return {{dtype, {}}};
  Dims dims = c.shape(0).dims();
  require_points(c, c.shape(0), axes.back());
  if (dims[axes.back()] > 0) dims[axes.back()] = dims[axes.back()] / 2 + 1;
  return {{dtype, Shape(dims)}};
}

std::vector<TensorType> infer_hermitean_to_real(const InferContext& c) {
  if (!is_complex(c.dtype(0)))
    c.dtype_error(cat("source must be complex, got ", c.dtype(0), ": convert it with complex_tensor or a cast"));
  const std::vector<int> axes = checked_axes(c, c.shape(0));
  if (axes.empty()) return {{real_type(c.dtype(0)), {}}};
  Dims dims = c.shape(0).dims();
  require_points(c, c.shape(0), axes.back());
  const bool odd = c.attributes.boolean("round_to_odd_hermitean");
  if (dims[axes.back()] == 1 && !odd)
    c.shape_error(cat("axis ", axes.back(), " of source ", c.shape(0), " has one point, which cannot represent a ",
                      "signal of even length: set round_to_odd_hermitean"));
  if (dims[axes.back()] > 0) dims[axes.back()] = 2 * (dims[axes.back()] - 1) + odd;
  return {{real_type(c.dtype(0)), Shape(dims)}};
}

// Attributes of the inverse transform (or of the forward transform, if `attributes` belong to an inverse transform),
// with the same axes and scale.
Attributes reversed(Attributes attributes) {
  attributes.set("inverse", !attributes.boolean("inverse"));
  return attributes;
}

void d_fast_fourier_transform(GradientContext& c) {
  Builder b(c.graph());
  Tensor* gradient = c.add_alike("fast_fourier_transform", {c.incoming()}, reversed(c.attributes()));
  c.set(0, b.cast(gradient, c.input(0)->dtype()));  // If the input is real, the cast keeps only the real part.
}

// ---- adjoints of the transforms between real and Hermitean tensors ----

void d_real_to_hermitean(GradientContext& c) {
  Tensor* shape = Builder(c.graph()).shape_of(c.input(0));
  c.set(0, c.add_alike("real_to_hermitean_fft_gradient", {c.incoming(), shape}, c.attributes()));
}

void d_hermitean_to_real(GradientContext& c) {
  c.set(0, c.add_alike("hermitean_to_real_fft_gradient", {c.incoming()}, c.attributes()));
}

// Weights of the points of a Hermitean tensor along its halved axis. The first point and, if the real signal has even
// length, the last point have weight 1. All other points also represent their mirror images, which are not stored, and
// have weight `others`.
Tensor* point_weights(Builder& b, const Attributes& attributes, const Dims& full, DType dtype, float others) {
  const int axis = fourier_axes(attributes, static_cast<int>(full.size())).back();
  const int64_t n = full[axis], points = n / 2 + 1;
  std::vector<float> weights(points, others);
  weights.front() = 1;
  if (n % 2 == 0) weights.back() = 1;
  Dims dims(full.size(), 1);
  dims[axis] = points;
  const ConstantPtr value = ConstantData::copy(DType::float32, dims, weights.data());
  return b.cast(b.graph().add("constant", {}, {{"value", value}}), dtype);
}

std::vector<TensorType> infer_real_to_hermitean_gradient(const InferContext& c) {
  return {{real_type(c.dtype(0)), shape_operand(c, 1)}};
}
std::vector<Tensor*> decompose_real_to_hermitean_gradient(Builder& b, const std::vector<Tensor*>& inputs,
                                                          const Attributes& attributes) {
  const std::optional<Ints> full = constant_value(inputs[1]);
  if (!full)
    throw UnsupportedError(
        "[real_to_hermitean_fft_gradient] the source's shape must be static to compile this gradient");
  const int axis = fourier_axes(attributes, static_cast<int>(full->size())).back();
  Attributes back = reversed(attributes);
  back.set("round_to_odd_hermitean", full->at(axis) % 2 == 1);
  Tensor* weights = point_weights(b, attributes, *full, inputs[0]->dtype(), 0.5f);
  return {b.graph().add("hermitean_to_real_fft", {b.mul(inputs[0], weights)}, back)};
}
void d_real_to_hermitean_gradient(GradientContext& c) {
  if (c.needs(0)) c.set(0, c.add_alike("real_to_hermitean_fft", {c.incoming()}, c.attributes()));
}

std::vector<Tensor*> decompose_hermitean_to_real_gradient(Builder& b, const std::vector<Tensor*>& inputs,
                                                          const Attributes& attributes) {
  Attributes back = reversed(attributes);
  back.erase("round_to_odd_hermitean");
  Tensor* transformed = b.graph().add("real_to_hermitean_fft", {inputs[0]}, back);
  return {b.mul(transformed, point_weights(b, attributes, inputs[0]->shape().dims(), transformed->dtype(), 2))};
}
void d_hermitean_to_real_gradient(GradientContext& c) {
  c.set(0, c.add_alike("hermitean_to_real_fft", {c.incoming()}, c.attributes()));
}

void transform(Kind name, int inputs, bool odd, Infer infer, Infer unvalued, Gradient gradient,
               Decompose decompose = {}) {
  std::vector<AttributeSpec> attributes{optional("axes", Ints{}), optional("inverse", false),
                                        optional("scaling", std::string("none"))};
  if (odd) attributes.push_back(optional("round_to_odd_hermitean", false));
  OperationDefinition d = primitive(name, inputs, std::move(attributes), std::move(infer), std::move(gradient));
  d.tensor_attributes = {"axes"};
  d.infer_unvalued = std::move(unvalued);
  d.internal = static_cast<bool>(decompose);
  d.decompose = std::move(decompose);
  define(std::move(d));
}

}  // namespace

std::vector<int> fourier_axes(const Attributes& attributes, int rank) {
  std::vector<int> axes;
  for (int64_t axis : attributes.integers("axes")) axes.push_back(wrap_axis(axis, rank));
  std::sort(axes.begin(), axes.end());
  return axes;
}

double fourier_scale(const Attributes& attributes, const Dims& full) {
  double size = 1;
  for (int axis : fourier_axes(attributes, static_cast<int>(full.size()))) size *= static_cast<double>(full[axis]);
  const std::string& scaling = attributes.string("scaling");
  return scaling == "size" ? 1 / size : scaling == "unitary" ? 1 / std::sqrt(size) : 1;
}

const Family fourier_transform_family("fourier_transform", [] {
  // Without known axes, only the dtype can be inferred.
  const Infer complex = [](const InferContext& c) -> std::vector<TensorType> { return {{complex_of(c), {}}}; };
  const Infer same = [](const InferContext& c) -> std::vector<TensorType> { return {{complex_of(c), c.shape(0)}}; };
  const Infer real = [](const InferContext& c) -> std::vector<TensorType> { return {{real_type(c.dtype(0)), {}}}; };
  transform("fast_fourier_transform", 1, false, infer_fast_fourier_transform, same, d_fast_fourier_transform);
  transform("real_to_hermitean_fft", 1, false, infer_real_to_hermitean, complex, d_real_to_hermitean);
  transform("hermitean_to_real_fft", 1, true, infer_hermitean_to_real, real, d_hermitean_to_real);
  transform("real_to_hermitean_fft_gradient", 2, false, infer_real_to_hermitean_gradient, real,
            d_real_to_hermitean_gradient, decompose_real_to_hermitean_gradient);
  transform("hermitean_to_real_fft_gradient", 1, true, infer_real_to_hermitean, complex, d_hermitean_to_real_gradient,
            decompose_hermitean_to_real_gradient);
});

}  // namespace mpsgraph::ops
