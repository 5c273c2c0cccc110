// Compiler pass channels_last: converts channels-first convolutions and wide max pooling, and the operations around
// them, to channels last.
//
//   %c = convolution2d(%x, %w) {data_layout="NCHW"}        %t = transpose(%x) {permutation=[0,2,3,1]}
//   %a = addition(%c, %b)               (%b: [1,C,1,1])    %c = convolution2d(%t, %w) {data_layout="NHWC"}
//   %r = relu(%a)                                     ->   %a = addition(%c, %b')           (%b': [1,1,1,C])
//   %p = max_pooling2d(%r) {data_layout="NCHW"}            %r = relu(%a)
//   %m = mean(%p) {axes=[2,3]}                             %p = max_pooling2d(%r) {data_layout="NHWC"}
//                                                          %n = mean(%p) {axes=[1,2]}
//                                                          %m = transpose(%n) {permutation=[0,3,1,2]}
// Our kernels vectorize over channels, so channels must be adjacent in memory. Operations after a convolution use its
// channels-last layout if they can determine which axis holds the channels: element-wise operations, sums and
// normalizations, pooling, padding, resizing, and concatenation. For all other users and for fetched results, a
// transpose restores the original layout. A tensor that was transposed from channels last is treated like a
// convolution's result. Constant weights are transposed too. The pass also covers blocks of control flow; it changes
// nothing if a program has neither a convolution nor a wide max pooling. A signal [N,C,L] that is expanded to or
// squeezed from [N,C,1,L], where a 1-D convolution is computed as a 2-D one, is treated as an image of one row
// throughout, [N,1,L,C]. Volumes [N,C,D,H,W] become [N,D,H,W,C] in the same way.
#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "compiler/passes.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "core/ops/shape.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

// The index that an axis of an image, volume, or signal has after conversion to channels last.
int64_t place_of(int64_t axis, int rank) {
  axis = ops::wrap_axis(axis, rank);
  if (rank == 3) return std::array<int64_t, 3>{0, 3, 2}[static_cast<size_t>(axis)];
  return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

// Permutations of images and volumes between channels first and channels last.
Ints to_last(size_t rank) {
  Ints permutation{0};
  for (size_t axis = 2; axis < rank; ++axis) permutation.push_back(static_cast<int64_t>(axis));
  permutation.push_back(1);
  return permutation;
}
Ints to_second(size_t rank) {
  Ints permutation{0, static_cast<int64_t>(rank) - 1};
  for (size_t axis = 1; axis + 1 < rank; ++axis) permutation.push_back(static_cast<int64_t>(axis));
  return permutation;
}

bool has_rank(const Tensor* tensor, int from, int to) {
  return tensor->type.shape.known() && tensor->type.shape.rank() >= from && tensor->type.shape.rank() <= to;
}
bool is_image(const Tensor* tensor) { return has_rank(tensor, 4, 4); }
bool is_image_or_volume(const Tensor* tensor) { return has_rank(tensor, 4, 5); }
bool may_turn(const Tensor* tensor) { return has_rank(tensor, 3, 5); }

bool has_channels_second(const Operation& operation) {
  const Attribute* layout = operation.attributes.find("data_layout");
  return layout && operation.attributes.string("data_layout") == "NCHW";
}

bool is_weights_gradient(const Operation& operation) {
  return operation.is({"convolution2d_weights_gradient", "convolution3d_weights_gradient",
                       "depthwise_convolution2d_weights_gradient", "convolution_transpose2d_weights_gradient",
                       "depthwise_convolution3d_weights_gradient"});
}

bool is_image_convolution(const Operation& operation) {
  if (!operation.attributes.has("data_layout")) return false;
  const DType dtype = operation.output()->dtype();
  if (operation.attributes.string("data_layout") == "NCDHW")
    return dtype == DType::float32 &&
           operation.is({"convolution3d", "convolution3d_data_gradient", "convolution3d_weights_gradient"});
  if (!has_channels_second(operation) ||
      !operation.is({"convolution2d", "convolution2d_data_gradient", "convolution2d_weights_gradient",
                     "convolution_transpose2d", "depthwise_convolution2d", "depthwise_convolution2d_data_gradient",
                     "depthwise_convolution2d_weights_gradient"}))
    return false;
  return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16;
}

bool is_image_pooling(const Operation& operation) {
  return has_channels_second(operation) && operation.is({"max_pooling2d", "avg_pooling2d", "max_pooling2d_gradient",
                                                         "avg_pooling2d_gradient", "max_pooling2d_at_maxima"});
}

// Whether the operation is a pooling whose windows extend over the channel axis and the three spatial axes.
bool is_volume_pooling(const Operation& operation) {
  return has_rank(operation.output(), 5, 5) && operation.is({"max_pooling4d", "avg_pooling4d", "max_pooling4d_gradient",
                                                             "avg_pooling4d_gradient", "max_pooling4d_at_maxima"});
}

// Whether the operation resizes the two spatial axes of an NCHW image. A resize without a layout covers all axes.
bool is_image_resize(const Operation& operation) {
  return operation.definition->family == "resize" && operation.attributes.string("layout") == "NCHW";
}

// Whether the operation is a max pooling for which two additional transposes are worthwhile. The kernels of
// channels-last max pooling vectorize over channels, so there must be enough channels to fill a vector. For average
// pooling, the transposes are not worthwhile.
bool is_wide_pooling(const Operation& operation) {
  constexpr int64_t enough = 8;
  if (!is_image_pooling(operation) || operation.is({"avg_pooling2d", "avg_pooling2d_gradient"}) ||
      !is_image(operation.output()))
    return false;
  const DType dtype = operation.output()->dtype();
  return (dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16) &&
         operation.output()->type.shape.dims()[1] >= enough;
}

// Whether the operation is a quantization or dequantization with the same scale for all channels.
bool rounds_alike(const Operation& operation) {
  return operation.is({"quantize", "dequantize"}) &&
         std::all_of(operation.inputs.begin() + 1, operation.inputs.end(),
                     [](const Tensor* in) { return in->type.shape.known() && in->type.shape.rank() == 0; });
}

// Reorders per-axis attributes, such as paddings, to channels last. A signal also gets the entry 0 for its single row.
Ints turned(const Ints& of_axes) {
  const size_t rank = of_axes.size();
  Ints result(std::max<size_t>(rank, 4), 0);
  for (size_t axis = 0; axis < rank; ++axis)
    result[static_cast<size_t>(place_of(static_cast<int64_t>(axis), static_cast<int>(rank)))] = of_axes[axis];
  return result;
}

// Whether the operation converts between a signal and an image with a single row.
bool is_along_rows(const Operation& operation) {
  if (!operation.is({"expand_dims", "squeeze"}) || operation.inputs.size() != 1) return false;
  const Tensor* image = operation.is("squeeze") ? operation.input(0) : operation.output();
  const Ints& axes = operation.attributes.integers("axes");
  return is_image(image) && axes.size() == 1 && ops::wrap_axis(axes[0], 4) == 2;
}

// Whether the operation is a transpose from channels last to channels first. If so, its operand can be used directly
// where channels last are needed.
bool is_back_to_second(const Operation& operation) {
  return operation.is("transpose") && is_image_or_volume(operation.output()) &&
         operation.attributes.integers("permutation") == to_second(operation.output()->shape().dims().size());
}

class ChannelsLast {
 public:
  Rewriter::Replacement operator()(Rewriter& r, const Operation& operation) {
    block_ = operation.parent;
    if (!operation.control_dependencies.empty() || operation.outputs.empty() ||
        !std::ranges::all_of(operation.outputs, [](const auto& result) { return result->type.shape.known(); }))
      return {};
    if (is_back_to_second(operation))
      turn(operation.output(), operation.output()->shape().rank(), r.now(operation.input(0)));
    const Operation* made = follow(r, operation);
    if (!made) return {};
    std::vector<Tensor*> substitutes;
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      Tensor* result = made->output(i);
      if (!turns(operation, i)) {
        substitutes.push_back(result);
        continue;
      }
      const Shape& shape = operation.output(i)->shape();
      turn(operation.output(i), shape.rank(), result);
      Builder b(r.graph());
      Tensor* back = b.transpose(result, to_second(result->shape().dims().size()));
      substitutes.push_back(shape.rank() == 3 ? b.reshape(back, shape.dims()) : back);
    }
    return substitutes;
  }

 private:
  // Whether a result changes its layout. The gradient of weights does not, because the weights keep their layout.
  static bool turns(const Operation& operation, size_t result) {
    return may_turn(operation.output(result)) && !is_weights_gradient(operation);
  }

  bool follows(const Tensor* tensor) const { return may_turn(tensor) && known(tensor, tensor->type.shape.rank()); }

  // The channels-last version of a tensor, if it was created in this block or an enclosing one; otherwise null.
  Tensor* known(const Tensor* tensor, int rank) const {
    for (const Block* block = block_; block; block = block->parent)
      if (const auto found = turned_.find({tensor, rank, block}); found != turned_.end()) return found->second;
    return nullptr;
  }
  Tensor* turn(const Tensor* tensor, int rank, Tensor* last) { return turned_[{tensor, rank, block_}] = last; }

  // Creates the operation on channels-last operands. Returns null if the operation keeps its layout.
  const Operation* follow(Rewriter& r, const Operation& operation) {
    if (is_image_convolution(operation)) return convolution(r, operation);
    if (is_wide_pooling(operation)) return with_layout(r, operation);
    if (std::ranges::none_of(operation.inputs, [&](const Tensor* in) { return follows(in); })) return nullptr;
    const bool by_axes = operation.attributes.has("axes"), by_axis = operation.attributes.has("axis");
    if (is_image_pooling(operation)) return with_layout(r, operation);
    if (is_volume_pooling(operation)) return with_windows(r, operation);
    if (is_image_resize(operation)) return resize(r, operation);
    if (is_along_rows(operation)) {
      const Tensor* same = image(r, operation.input(0), operation.input(0)->type.shape.rank());
      return same->operation->output() == same ? same->operation : nullptr;
    }
    if (!may_turn(operation.output())) return nullptr;
    const int rank = operation.output()->type.shape.rank();
    if (std::ranges::none_of(operation.inputs,
                             [&](const Tensor* in) { return follows(in) && in->type.shape.rank() == rank; }))
      return nullptr;
    if (operation.definition->elementwise && !by_axes && !by_axis) return with(r, operation, operation.attributes);
    if (operation.is({"normalization", "normalization_gradient", "normalization_gamma_gradient",
                      "normalization_beta_gradient", "mean", "variance"}) ||
        (operation.definition->family == "reduction" && by_axes))
      return with_axes(r, operation);
    if (rounds_alike(operation)) return with(r, operation, operation.attributes);
    if (operation.is({"concat", "softmax", "log_softmax"})) return with_axis(r, operation);
    if (operation.is("pad")) return padding(r, operation);
    return nullptr;
  }

  const Operation* convolution(Rewriter& r, const Operation& operation) {
    if (!is_image_or_volume(operation.output()) && !is_weights_gradient(operation)) return nullptr;
    if (!is_image_or_volume(operation.input(0)) || !is_image_or_volume(operation.input(1))) return nullptr;
    const int rank = operation.input(0)->shape().rank();
    Attributes attributes = operation.attributes;
    attributes.set("data_layout", std::string(rank == 4 ? "NHWC" : "NDHWC"));
    std::vector<Tensor*> inputs{image(r, operation.input(0), rank)};
    if (is_weights_gradient(operation)) {
      inputs.push_back(image(r, operation.input(1), rank));
      inputs.push_back(r.now(operation.input(2)));
      return r.create(operation, operation.kind(), inputs, attributes);
    }
    const bool may_change = operation.is({"convolution2d", "convolution3d"}) &&
                            operation.attributes.string("weights_layout").starts_with("OI");
    if (Tensor* weights = may_change ? turned_weights(r, *operation.input(1)->operation) : nullptr) {
      attributes.set("weights_layout", std::string(rank == 4 ? "HWIO" : "DHWIO"));
      inputs.push_back(weights);
    } else {
      inputs.push_back(r.now(operation.input(1)));
    }
    if (operation.inputs.size() == 3)
      inputs.push_back(Builder(r.graph()).ints(turned(operation.output()->shape().dims())));
    return r.create(operation, operation.kind(), inputs, attributes);
  }

  // Constant weights converted from OIHW to HWIO, or from OIDHW to DHWIO. Quantized weights are converted too, unless
  // groups of them have separate scales. Returns null for weights that are not converted.
  static Tensor* turned_weights(Rewriter& r, const Operation& maker) {
    if (maker.is("dequantize")) {
      if (maker.attributes.boolean("grouped")) return nullptr;
      Tensor* integers = turned_weights(r, *maker.input(0)->operation);
      if (!integers) return nullptr;
      std::vector<Tensor*> inputs = r.now(maker.inputs);
      inputs[0] = integers;
      Attributes attributes = maker.attributes;
      const int rank = maker.output()->shape().rank();
      const int64_t axis = ops::wrap_axis(attributes.integer("axis"), rank);
      attributes.set("axis", axis < 2 ? rank - 1 - axis : axis - 2);
      return r.create(maker, maker.kind(), inputs, attributes)->output();
    }
    const ConstantPtr value = constant_behind(r, maker);
    if (!value) return nullptr;
    Ints permutation;
    for (size_t axis = 2; axis < value->dims().size(); ++axis) permutation.push_back(static_cast<int64_t>(axis));
    permutation.insert(permutation.end(), {1, 0});
    const ConstantPtr turned = computed("transpose", {value}, {{"permutation", permutation}});
    return turned ? r.constant(maker, turned) : nullptr;
  }

  // The constant from which an operation computes the convolution's weights. One-dimensional weights get a second
  // spatial axis of length 1.
  static ConstantPtr constant_behind(Rewriter& r, const Operation& maker) {
    if (const ConstantPtr* value = constant_of(r.now(maker.output()))) return *value;
    if (!maker.is("expand_dims") || !maker.output()->type.shape.known()) return nullptr;
    const ConstantPtr* value = constant_of(r.now(maker.input(0)));
    return value ? reshaped(*value, maker.output()->type.shape.dims()) : nullptr;
  }

  const Operation* with_layout(Rewriter& r, const Operation& operation) {
    Attributes attributes = operation.attributes;
    attributes.set("data_layout", std::string("NHWC"));
    return pooling(r, operation, attributes);
  }

  // Pooling over volumes. The windows have an entry for the channel axis, which moves to the end, after the spatial
  // axes.
  const Operation* with_windows(Rewriter& r, const Operation& operation) {
    Attributes attributes = operation.attributes;
    for (const char* name : {"kernel", "strides", "dilations", "padding"}) {
      Ints of_axes = attributes.integers(name);
      std::rotate(of_axes.begin(), of_axes.begin() + static_cast<std::ptrdiff_t>(of_axes.size() / 4), of_axes.end());
      attributes.set(name, of_axes);
    }
    return pooling(r, operation, attributes);
  }

  // If an operand of a pooling is not an image or volume, it is a list of the result's dimensions, which is reordered.
  const Operation* pooling(Rewriter& r, const Operation& operation, const Attributes& attributes) {
    std::vector<Tensor*> inputs;
    for (const Tensor* in : operation.inputs)
      inputs.push_back(is_image_or_volume(in) ? image(r, in, in->shape().rank())
                                              : Builder(r.graph()).ints(turned(operation.output()->shape().dims())));
    return r.create(operation, operation.kind(), inputs, attributes);
  }

  // Converts a resize or its gradient. In a gradient, operand 1 is a full shape, which is reordered. Sizes, scales, and
  // offsets cover rows and columns only, so they do not change.
  const Operation* resize(Rewriter& r, const Operation& operation) {
    Attributes attributes = operation.attributes;
    attributes.set("layout", std::string("NHWC"));
    std::vector<Tensor*> inputs = r.now(operation.inputs);
    inputs[0] = image(r, operation.input(0), 4);
    if (operation.is({"resize_nearest_gradient", "resize_bilinear_gradient"}))
      inputs[1] = Builder(r.graph()).ints(turned(operation.output()->shape().dims()));
    return r.create(operation, operation.kind(), inputs, attributes);
  }

  const Operation* with(Rewriter& r, const Operation& operation, Attributes attributes) {
    const int rank = operation.output()->type.shape.rank();
    std::vector<Tensor*> inputs;
    for (const Tensor* in : operation.inputs) {
      if (!in->type.shape.known() || in->type.shape.rank() > rank) return nullptr;
      inputs.push_back(image(r, in, rank));
    }
    return r.create(operation, operation.kind(), inputs, std::move(attributes));
  }

  const Operation* with_axes(Rewriter& r, const Operation& operation) {
    Attributes attributes = operation.attributes;
    if (attributes.has("axes")) {
      Ints axes = attributes.integers("axes");
      for (int64_t& axis : axes) axis = place_of(axis, operation.output()->type.shape.rank());
      std::ranges::sort(axes);
      attributes.set("axes", axes);
    }
    return with(r, operation, std::move(attributes));
  }

  const Operation* with_axis(Rewriter& r, const Operation& operation) {
    const int rank = operation.output()->type.shape.rank();
    if (!std::ranges::all_of(operation.inputs,
                             [&](const Tensor* in) { return in->type.shape.known() && in->type.shape.rank() == rank; }))
      return nullptr;
    Attributes attributes = operation.attributes;
    attributes.set("axis", place_of(attributes.integer("axis"), rank));
    return with(r, operation, std::move(attributes));
  }

  const Operation* padding(Rewriter& r, const Operation& operation) {
    Attributes attributes = operation.attributes;
    for (const char* side : {"left", "right"}) attributes.set(side, turned(attributes.integers(side)));
    return with(r, operation, std::move(attributes));
  }

  // A tensor with its channels last. A tensor with fewer axes than an image or signal is first given leading axes of
  // size 1, as broadcasting would do.
  Tensor* image(Rewriter& r, const Tensor* tensor, int rank) {
    if (Tensor* last = known(tensor, rank)) return last;
    Tensor* now = r.now(tensor);
    Dims dims = tensor->type.shape.dims();
    const auto missing = static_cast<size_t>(rank) - dims.size();
    if (element_count(dims) == 1 && missing > 0) return now;  // a single element broadcasts in any layout
    // Integer kernels require that there is no transpose between them and the quantize or dequantize operation.
    if (missing == 0 && rounds_alike(*tensor->operation)) {
      const Operation* made = with(r, *tensor->operation, tensor->operation->attributes);
      return turn(tensor, rank, made->output());
    }
    dims.insert(dims.begin(), missing, 1);
    if (rank == 3) dims.insert(dims.begin() + 2, 1);  // the single row of a signal
    if (const ConstantPtr* value = constant_of(now))
      if (const ConstantPtr constant = turned_constant(*value, dims))
        return turn(tensor, rank, r.constant(*tensor->operation, constant));
    Builder b(r.graph());
    if (dims.size() != tensor->type.shape.dims().size()) now = b.reshape(now, dims);
    return turn(tensor, rank, b.transpose(now, to_last(dims.size())));
  }

  // Transposes the constant immediately instead of leaving it to pass fold, because passes that run before fold look
  // for constants.
  static ConstantPtr turned_constant(const ConstantPtr& value, const Dims& dims) {
    return computed("transpose", {reshaped(value, dims)}, {{"permutation", to_last(dims.size())}});
  }

  const Block* block_ = nullptr;  // block of the current operation
  std::map<std::tuple<const Tensor*, int, const Block*>, Tensor*> turned_;  // keyed by tensor, rank, and block
};

// Reverts the conversion of a depthwise convolution if the conversion left no other operation between its two
// transposes. Channels-first depthwise convolutions have kernels that vectorize along image rows, and two transposes of
// an image take longer than a convolution with a few filter taps. Convolutions with strides or dilations are not
// reverted, because the kernels that vectorize along rows do not support them.
class LoneDepthwise {
 public:
  explicit LoneDepthwise(const Program& program) : users_(program) {}

  Rewriter::Replacement operator()(Rewriter& r, const Operation& back) {
    if (!back.control_dependencies.empty() || !is_back_to_second(back)) return {};
    const auto stands_alone = [&](const Operation& operation) {
      return operation.parent == back.parent && operation.control_dependencies.empty();
    };
    const Operation& convolution = *back.input(0)->operation;
    if (!stands_alone(convolution) || !is_depthwise(convolution) || !users_.only(convolution.output())) return {};
    const Operation& there = *convolution.input(0)->operation;
    if (!stands_alone(there) || !there.is("transpose") || there.attributes.integers("permutation") != to_last(4) ||
        !users_.only(convolution.input(0)))
      return {};
    Attributes attributes = convolution.attributes;
    attributes.set("data_layout", std::string("NCHW"));
    const std::vector<Tensor*> inputs{r.now(there.input(0)), r.now(convolution.input(1))};
    return std::vector<Tensor*>{r.create(convolution, convolution.kind(), inputs, attributes)->output()};
  }

 private:
  // Whether the operation is a channels-last float32 convolution with one filter per channel, without strides or
  // dilations.
  static bool is_depthwise(const Operation& operation) {
    if (!operation.is({"convolution2d", "depthwise_convolution2d"}) || !is_image(operation.input(0)) ||
        operation.attributes.string("data_layout") != "NHWC" || operation.output()->dtype() != DType::float32)
      return false;
    const Ints &strides = operation.attributes.integers("strides"), &apart = operation.attributes.integers("dilations");
    if (strides.back() != 1 || std::ranges::any_of(apart, [](int64_t d) { return d != 1; })) return false;
    if (operation.is("depthwise_convolution2d")) return true;
    const int64_t groups = operation.attributes.integer("groups");
    return groups > 1 && groups == operation.input(0)->shape().dims().back() &&
           groups == operation.output()->shape().dims().back();
  }

  Users users_;
};

}  // namespace

void channels_last(Program& program) {
  const auto begins = [](const Operation& operation) {
    return is_image_convolution(operation) || is_wide_pooling(operation);
  };
  if (!any_operation(program, begins)) return;
  ChannelsLast pass;
  rewrite(program, std::ref(pass));
  LoneDepthwise alone(program);
  rewrite(program, std::ref(alone));
}

}  // namespace mpsgraph::compiler
