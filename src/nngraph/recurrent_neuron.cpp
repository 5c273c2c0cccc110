// Neurons as compositions of core operations, with the derivatives that the older interface states: of relu 1 at 0.
#include <cmath>

#include "nngraph/recurrent.h"

namespace mpsgraph::nngraph {
namespace {

Tensor* not_below(Builder& b, Tensor* x, double limit) {
  return b.binary("greater_than_or_equal_to", x, b.scalar_like(x, limit));
}

Tensor* scaled(Builder& b, Tensor* x, double a) { return a == 1 ? x : b.mul(x, a); }
Tensor* linear(Builder& b, Tensor* x, double a, double c) {
  return c == 0 ? scaled(b, x, a) : b.add(scaled(b, x, a), c);
}
Tensor* leaky(Builder& b, Tensor* x, double a) {
  return b.select(not_below(b, x, 0), x, a == 0 ? b.scalar_like(x, 0) : b.mul(x, a));
}

// log(1 + e^x), where e^x would be infinite x itself.
Tensor* soft_plus(Builder& b, Tensor* x) {
  constexpr double far = 30;  // from here on they are equal
  Tensor* near = b.binary("minimum", x, b.scalar_like(x, far));
  return b.select(not_below(b, x, far), x, b.unary("logarithm", b.add(b.unary("exponent", near), 1.0)));
}

}  // namespace

Tensor* apply_neuron(Builder& b, const Neuron& n, Tensor* x) {
  switch (n.type) {
    case NeuronType::none: return x;
    case NeuronType::relu: return leaky(b, x, n.a);
    case NeuronType::linear: return linear(b, x, n.a, n.b);
    case NeuronType::sigmoid: return b.unary("sigmoid", x);
    case NeuronType::hard_sigmoid:
      return b.graph().add("clamp", {linear(b, x, n.a, n.b), b.scalar_like(x, 0), b.scalar_like(x, 1)});
    case NeuronType::tanh: return scaled(b, b.unary("tanh", scaled(b, x, n.b)), n.a);
    case NeuronType::absolute: return b.unary("absolute", x);
    case NeuronType::soft_plus: return scaled(b, soft_plus(b, scaled(b, x, n.b)), n.a);
    case NeuronType::soft_sign: return b.div(x, b.add(b.unary("absolute", x), 1.0));
    case NeuronType::elu: {
      Tensor* below = b.unary("exponent", b.binary("minimum", x, b.scalar_like(x, 0)));
      return b.select(not_below(b, x, 0), x, scaled(b, b.sub(below, 1.0), n.a));
    }
    case NeuronType::relun: {
      Tensor* y = leaky(b, x, n.a);
      return b.select(not_below(b, y, n.b), b.scalar_like(x, n.b), y);
    }
    case NeuronType::power: return b.binary("power", linear(b, x, n.a, n.b), b.scalar_like(x, n.c));
    case NeuronType::exponential: {
      Tensor* y = linear(b, x, n.a, n.b);
      return b.unary("exponent", n.c == -1 ? y : scaled(b, y, std::log(n.c)));
    }
    case NeuronType::logarithm: {
      Tensor* y = b.unary("logarithm", linear(b, x, n.a, n.b));
      return n.c == -1 ? y : scaled(b, y, 1 / std::log(n.c));
    }
    case NeuronType::gelu: return b.mul(b.mul(x, 0.5), b.add(b.unary("erf", b.mul(x, std::sqrt(0.5))), 1.0));
    case NeuronType::prelu: break;
  }
  throw UnsupportedError(
      "[RNNDescriptor] a gate's neuron cannot be PReLU, which has a parameter for each channel: take "
      "ReLU with one");
}

}  // namespace mpsgraph::nngraph
