// Neurons of gates: those of the nodes, but for three whose derivative the core's walk would take from operations that
// have another one at 0.
#include "nngraph/recurrent.h"
#include "nngraph/windows.h"

namespace mpsgraph::nngraph {
namespace {

Tensor* not_below(Builder& b, Tensor* x, double limit) {
  return b.binary("greater_than_or_equal_to", x, b.scalar_like(x, limit));
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
  if (n.type == "relu") return leaky(b, x, n.a);
  if (n.type == "softplus") return b.mul(soft_plus(b, b.mul(x, n.b)), n.a);
  if (n.type == "relun") {
    Tensor* y = leaky(b, x, n.a);
    return b.select(not_below(b, y, n.b), b.scalar_like(x, n.b), y);
  }
  return neuron(b, n.type, n.a, n.b, n.c, nullptr, x);
}

}  // namespace mpsgraph::nngraph
