// Node family neuron: element-wise functions with parameters a, b, and c. MPSCNNNeuron…Node.
//
// The gradient of ReLU at 0 is 1, as in Apple's implementation; for the core's relu it is 0.
#include <cmath>

#include "nngraph/windows.h"

namespace mpsgraph::nngraph {
namespace {

Tensor* at_least(Builder& b, Tensor* x, double limit) {
  return b.binary("greater_than_or_equal_to", x, b.scalar_like(x, limit));
}
Tensor* at_least_zero(Builder& b, Tensor* x) { return at_least(b, x, 0); }

Tensor* power(Builder& b, double base, Tensor* x) {
  return b.unary("exponent", base == -1 ? x : b.mul(x, std::log(base)));
}

Tensor* slopes_of(Builder& b, const ConstantPtr& slopes) { return b.graph().add("constant", {}, {{"value", slopes}}); }

Tensor* scaled(Builder& b, Tensor* x, double scale) { return scale == 1 ? x : b.mul(x, scale); }
Tensor* line(Builder& b, Tensor* x, double scale, double shift) {
  Tensor* y = scaled(b, x, scale);
  return shift == 0 ? y : b.add(y, shift);
}

}  // namespace

Tensor* neuron(Builder& b, std::string_view type, double a, double b_, double c, const ConstantPtr& slopes, Tensor* x,
               bool derived) {
  if (type == "none") return x;
  const auto clamp = [&](Tensor* y, double low, double high) {
    return b.graph().add("clamp", {y, b.scalar_like(y, low), b.scalar_like(y, high)});
  };
  const auto leaky = [&] {
    Tensor* below = a == 0 ? b.scalar_like(x, 0) : b.mul(x, a);
    return b.select(at_least_zero(b, x), x, below);
  };
  if (type == "relu") return a == 0 && !derived ? b.unary("relu", x) : leaky();
  if (type == "linear") return line(b, x, a, b_);
  if (type == "sigmoid") return b.unary("sigmoid", x);
  if (type == "hard_sigmoid") return clamp(line(b, x, a, b_), 0, 1);
  if (type == "tanh") return scaled(b, b.unary("tanh", scaled(b, x, b_)), a);
  if (type == "absolute") return b.unary("absolute", x);
  if (type == "softplus") {  // log(1 + e^z) = max(z, 0) + log(1 + e^-|z|)
    Tensor* z = scaled(b, x, b_);
    // The derivatives of max(z, 0) and |z| at z = 0 are both taken as 1. The derivative of the whole formula at 0 is
    // then 1 - 1/2 = 1/2, the correct derivative of softplus.
    Tensor *above = at_least_zero(b, z), *none = b.scalar_like(z, 0);
    Tensor* size = b.select(above, z, b.neg(z));
    Tensor* small = b.unary("logarithm", b.add(b.unary("exponent", b.neg(size)), 1));
    return scaled(b, b.add(b.select(above, z, none), small), a);
  }
  if (type == "softsign") return b.div(x, b.add(b.unary("absolute", x), 1));
  if (type == "elu") {
    // The minimum with 0 keeps the exponential finite for large x, for which the other branch is selected.
    Tensor* limited = b.binary("minimum", x, b.scalar_like(x, 0));
    Tensor* below = b.mul(b.sub(b.unary("exponent", limited), 1), a);
    return b.select(at_least_zero(b, x), x, below);
  }
  if (type == "prelu") {
    Tensor* below = b.mul(x, slopes_of(b, slopes));
    return b.select(at_least_zero(b, x), x, below);
  }
  if (type == "relun") {  // ReLUN is constant above b.
    Tensor *y = leaky(), *limit = b.scalar_like(x, b_);
    return b.select(at_least(b, y, b_), limit, y);
  }
  if (type == "power") {
    Tensor* exponent = b.scalar_like(x, c);
    return b.binary("power", line(b, x, a, b_), exponent);
  }
  if (type == "exponential") return power(b, c, line(b, x, a, b_));
  if (type == "logarithm") {
    Tensor* y = b.unary("logarithm", line(b, x, a, b_));
    return c == -1 ? y : b.div(y, std::log(c));
  }
  if (type == "gelu") {
    Tensor* share = b.add(b.unary("erf", b.mul(x, std::sqrt(0.5))), 1);
    return b.mul(b.mul(x, 0.5), share);
  }
  throw GraphError(
      cat("unknown neuron type '", std::string(type),
          "'; must be one of none, relu, linear, sigmoid, hard_sigmoid, tanh, absolute, softplus, softsign, "
          "elu, prelu, relun, power, exponential, logarithm, gelu"));
}

namespace {

struct Type {
  std::string_view name, apple;
  double a, b, c;
};
constexpr Type types[] = {
    {"relu", "ReLU", 0, 0, 0},
    {"linear", "Linear", 1, 0, 0},
    {"sigmoid", "Sigmoid", 0, 0, 0},
    {"hard_sigmoid", "HardSigmoid", 0.2, 0.5, 0},
    {"tanh", "TanH", 1, 1, 0},
    {"absolute", "Absolute", 0, 0, 0},
    {"softplus", "SoftPlus", 1, 1, 0},
    {"softsign", "SoftSign", 0, 0, 0},
    {"elu", "ELU", 1, 0, 0},
    {"prelu", "PReLU", 0, 0, 0},
    {"relun", "ReLUN", 1, 6, 0},
    {"power", "Power", 1, 0, 1},
    {"exponential", "Exponential", 1, 0, -1},
    {"logarithm", "Logarithm", 1, 0, -1},
    {"gelu", "GeLU", 0, 0, 0},
};

ConstantPtr slopes(const Lowering& l, std::string_view type) {
  if (type != "prelu") return nullptr;
  const ConstantPtr& data = l.attributes().data("slopes");
  if (data->elements() != l.channels())
    l.shape_error(cat("a PReLU needs one slope per channel (", l.channels(), "), got ", data->elements()));
  return data;
}

void define_neuron(const Type& type) {
  static std::vector<std::string> kept;  // keeps the names alive as long as the table that refers to them
  kept.reserve(2 * std::size(types));
  NodeDefinition d;
  d.name = kept.emplace_back(cat("neuron_", type.name));
  d.apple = kept.emplace_back(cat("MPSCNNNeuron", type.apple, "Node"));
  d.first_macos = type.name == "gelu" ? "10.15" : "10.13";
  d.apple_gradient = "MPSCNNNeuronGradientNode";
  if (type.name == "prelu")
    d.attributes = {required("slopes", AttributeKind::data)};
  else
    d.attributes = {optional("a", type.a), optional("b", type.b), optional("c", type.c)};
  d.lower = [name = type.name](Lowering& l) {
    const Attributes& a = l.attributes();
    if (name == "prelu") return neuron(l.b, name, 0, 0, 0, slopes(l, name), l.sources[0]);
    return neuron(l.b, name, a.real("a"), a.real("b"), a.real("c"), nullptr, l.sources[0]);
  };
  if (type.name == "relu")
    d.gradient = [](Lowering& l, Tensor* incoming, size_t) {
      Tensor* below = l.b.mul(incoming, l.attributes().real("a"));
      return l.b.select(at_least_zero(l.b, l.sources[0]), incoming, below);
    };
  define_node(std::move(d));
}

}  // namespace

const NodeFamily neuron_family("neuron", [] {
  for (const Type& type : types) define_neuron(type);
});

}  // namespace mpsgraph::nngraph
