// Compiler pass quantize: turns a convolution or matmul of dequantized integers, with its epilogue, into an integer
// operation.
//
//   %x = dequantize(%q, %sx)
//   %w = dequantize(%i, %sw) {axis=3}          (%i and all scales are constants)
//   %c = convolution2d(%x, %w)
//   %b = addition(%c, %bias)            ->   %y = quantized_convolution2d(%q, %i, %r) {bias, scales, activation="relu"}
//   %a = addition(%b, dequantize(%r, %sr))
//   %h = relu(%a)
//   %y = quantize(%h, %sy)
// Sums of integer products are exact, and are multiplied by a scale only once. Bias, residual, relu, and the last
// quantize are optional; without the last quantize, the result is float32. The pass runs before expand, which would
// replace dequantize and quantize with formulas. Kernels require channels last, one group, a multiple of four input
// channels, and weights without a zero point. A matmul becomes a 1x1 convolution over rows.
#include <cmath>
#include <unordered_map>

#include "compiler/passes.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "core/ops/convolution.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::compiler {
namespace {

bool is_byte(DType dtype) { return dtype == DType::int8 || dtype == DType::uint8; }

// A scale and a zero point, each a single constant that applies to a whole tensor.
struct Steps {
  double scale = 1;
  int64_t zero_point = 0;

  // The scale and zero point of a dequantize or quantize operation.
  static std::optional<Steps> of(const Operation& operation) {
    Steps steps;
    for (size_t i = 1; i < operation.inputs.size(); ++i) {
      const ConstantPtr* value = constant_of(operation.input(i));
      if (!value || (*value)->elements() != 1 || operation.input(i)->type.shape.rank() != 0) return {};
      if (i == 1)
        steps.scale = (*value)->scalar();
      else
        steps.zero_point = (*value)->integer();
    }
    return steps.scale > 0 && std::isfinite(steps.scale) ? std::optional(steps) : std::nullopt;
  }
};

// A tensor of 8-bit integers with one scale and zero point.
struct Bytes {
  const Tensor* tensor;
  Steps steps;

  static std::optional<Bytes> behind(const Tensor* floats) {
    const Operation& maker = *floats->operation;
    if (!maker.is("dequantize") || !is_byte(maker.input(0)->dtype()) || floats->dtype() != DType::float32) return {};
    const auto steps = Steps::of(maker);
    return steps ? std::optional(Bytes{maker.input(0), *steps}) : std::nullopt;
  }
};

// Quantized int8 weights, with a single scale or one scale per output channel.
struct Weights {
  ConstantPtr value, scale;

  static std::optional<Weights> behind(const Tensor* floats, int outputs_axis) {
    const Operation& maker = *floats->operation;
    if (!maker.is("dequantize") || maker.input(0)->dtype() != DType::int8) return {};
    const ConstantPtr *value = constant_of(maker.input(0)), *scale = constant_of(maker.input(1));
    if (!value || !scale || maker.attributes.boolean("grouped")) return {};
    if (maker.inputs.size() > 2) {
      const ConstantPtr* zero = constant_of(maker.input(2));
      for (int64_t i = 0; zero && i < (*zero)->elements(); ++i)
        if ((*zero)->integer((*zero)->is_splat() ? 0 : i) != 0) return {};
      if (!zero) return {};
    }
    const Shape& shape = floats->type.shape;
    const int64_t axis = maker.attributes.integer("axis");
    if ((*scale)->dims().size() == 1 && (axis < 0 ? axis + shape.rank() : axis) != outputs_axis) return {};
    return Weights{*value, *scale};
  }
};

struct QuantizedFusion {
  const Operation* root;
  Bytes source;
  Weights weights;
  ConstantPtr bias;
  std::optional<Bytes> residual;
  bool relu = false;
  std::optional<Steps> result;  // scale and zero point of the result; nullopt if the result is float32
  const Operation* tail;
};

// The bias as one number per output channel, taken from a constant that varies only along the last axis; otherwise
// null.
ConstantPtr bias_of(const Tensor* tensor, int64_t outputs) {
  const ConstantPtr* value = constant_of(tensor);
  if (!value || (*value)->dtype() != DType::float32) return nullptr;
  const Dims& dims = (*value)->dims();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1 && (i + 1 != dims.size() || dims[i] != outputs)) return nullptr;
  std::vector<float> values;
  const bool one = (*value)->is_splat() || (*value)->elements() == 1;
  for (int64_t i = 0; i < outputs; ++i) values.push_back(static_cast<float>((*value)->scalar(one ? 0 : i)));
  for (float v : values)
    if (!std::isfinite(v)) return nullptr;
  return ConstantData::copy(DType::float32, {outputs}, values.data());
}

class Quantizer {
 public:
  explicit Quantizer(const Program& program) : users_(program) { find(program.graph->root()); }
  bool any() const { return !by_tail_.empty(); }

  Rewriter::Replacement visit(Rewriter& r, const Operation& operation) const {
    const auto found = by_tail_.find(&operation);
    if (found == by_tail_.end()) return {};
    const QuantizedFusion& f = found->second;
    const bool product = f.root->is("matrix_multiplication");
    const Dims& dims = operation.output()->type.shape.dims();
    const Dims& source = f.source.tensor->type.shape.dims();
    Builder b(r.graph());
    const auto as_rows = [&](Tensor* x, int64_t channels) {
      return product ? b.reshape(x, {element_count(x->type.shape.dims()) / channels, 1, 1, channels}) : x;
    };
    std::vector<Tensor*> inputs{as_rows(r.now(f.source.tensor), source.back()), weights(r, f, product)};
    if (f.residual) inputs.push_back(as_rows(r.now(f.residual->tensor), dims.back()));
    if (!product) {
      Operation* made = r.create(operation, "quantized_convolution2d", inputs, attributes(f, operation));
      return std::vector<Tensor*>{made->output()};
    }
    Tensor* rows = r.graph().add("quantized_convolution2d", inputs, attributes(f, operation));
    return std::vector<Tensor*>{r.create(operation, "reshape", {rows, b.ints(dims)})->output()};
  }

 private:
  static Tensor* weights(Rewriter& r, const QuantizedFusion& f, bool product) {
    const ConstantPtr& value = f.weights.value;
    Dims dims = value->dims();
    if (product) dims.insert(dims.begin(), {1, 1});
    std::vector<int8_t> all(static_cast<size_t>(value->is_splat() ? value->elements() : 0));
    if (value->is_splat()) value->expand_into(all.data());
    return r.graph().add("constant", {},
                         {{"value", value->is_splat() ? ConstantData::copy(DType::int8, dims, all.data())
                                                      : ConstantData::borrow(DType::int8, dims, value->bytes(),
                                                                             std::make_shared<ConstantPtr>(value))}});
  }

  static Attributes attributes(const QuantizedFusion& f, const Operation& tail) {
    const bool product = f.root->is("matrix_multiplication");
    Attributes a = product ? Attributes{} : f.root->attributes;
    if (product) a.set("padding_style", std::string("TF_VALID"));
    a.set("source_scale", f.source.steps.scale);
    a.set("source_zero_point", f.source.steps.zero_point);
    a.set("weights_scale", f.weights.scale);
    a.set("bias", f.bias);
    a.set("activation", std::string(f.relu ? "relu" : "none"));
    a.set("dtype", tail.output()->dtype());
    if (f.residual) {
      a.set("has_residual", true);
      a.set("residual_scale", f.residual->steps.scale);
      a.set("residual_zero_point", f.residual->steps.zero_point);
    }
    if (f.result) {
      a.set("result_scale", f.result->scale);
      a.set("result_zero_point", f.result->zero_point);
    }
    return a;
  }

  void find(const Block& block) {
    for (const auto& operation : block.operations) {
      for (const auto& inner : operation->blocks) find(*inner);
      if (operation->is({"convolution2d", "matrix_multiplication"})) match(*operation);
    }
  }

  // The operands of an integer operation; nullopt if no kernel supports them.
  static std::optional<QuantizedFusion> operands(const Operation& root) {
    const auto source = Bytes::behind(root.input(0));
    if (!source || root.output()->type.shape.elements() == 0) return {};
    const Dims& w = root.input(1)->type.shape.dims();
    int out = static_cast<int>(w.size()) - 1, in = out - 1;
    if (root.is("convolution2d")) {
      const ops::Convolution c(root.attributes);
      if (c.groups != 1 || c.channel != -1) return {};
      out = c.weights_out, in = c.weights_in;
    } else if (w.size() != 2) {
      return {};
    }
    if (w[in] % 4 != 0 || w[in] == 0) return {};
    const auto weights = Weights::behind(root.input(1), out);
    if (!weights) return {};
    ConstantPtr none = ConstantData::splat(DType::float32, {w[out]}, 0.0);
    return QuantizedFusion{&root, *source, *weights, none, {}, false, {}, &root};
  }

  void match(const Operation& root) {
    auto fusion = operands(root);
    if (!fusion) return;
    const int64_t outputs = root.output()->type.shape.dims().back();
    const Operation* before_residual = nullptr;
    bool has_bias = false;
    const auto take = [&](const Operation& user) {
      const Tensor* value = fusion->tail->output();
      if (user.is("relu") && !fusion->relu) return fusion->relu = true;
      if (user.is("quantize") && user.input(0) == value && is_byte(user.output()->dtype())) {
        fusion->result = Steps::of(user);
        return fusion->result.has_value();
      }
      if (!user.is("addition") || fusion->relu || user.output()->type != value->type) return false;
      const Tensor* other = user.input(user.input(0) == value ? 1 : 0);
      if (ConstantPtr bias = has_bias || fusion->residual ? nullptr : bias_of(other, outputs)) {
        fusion->bias = std::move(bias);
        return has_bias = true;
      }
      if (fusion->residual || other->type != value->type || !(fusion->residual = Bytes::behind(other))) return false;
      before_residual = fusion->tail;
      return true;
    };
    while (const Operation* user = fusion->result ? nullptr : users_.only(fusion->tail->output())) {
      if (user->parent != root.parent || !take(*user)) break;
      fusion->tail = user;
    }
    if (fusion->residual && !fusion->result) {  // a residual is only added if the result is quantized too
      fusion->residual.reset();
      fusion->relu = false;
      fusion->tail = before_residual;
    }
    by_tail_.emplace(fusion->tail, *fusion);
  }

  Users users_;
  std::unordered_map<const Operation*, QuantizedFusion> by_tail_;
};

}  // namespace

void quantize(Program& program) {
  if (!any_operation(program, [](const Operation& operation) { return operation.is("dequantize"); })) return;
  const Quantizer quantizer(program);
  if (!quantizer.any()) return;
  rewrite(program, [&](Rewriter& r, const Operation& operation) { return quantizer.visit(r, operation); });
}

}  // namespace mpsgraph::compiler
