// Histories: stacks in which a loop saves one value per iteration, for its derivative to pop in reverse order.
//
//   history_push(history, value) -> history        appends a value
//   history_pop(history) -> history, value         removes the last value; an empty history stays empty and yields
//                                                  zeros
//   history_empty(history) -> history              returns an empty history of the same type
//   history_addition(history, history) -> history  adds two histories value by value, aligned at the last value;
//                                                  missing values count as zero
//
// A history is an ordinary value: a loop can carry it, a branch can return it, and it can be pushed onto another
// history (of an enclosing loop). It is differentiable, and its derivative is also a history. An empty history yields
// zeros, so it also represents a zero derivative. The length of a history is only known at run time, so no tensor
// dimension could represent it.
#include "core/ops/control_flow.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

const TensorType& require_history(const InferContext& c, size_t i) {
  if (c.type(i).history == 0) c.graph_error(cat("operand ", i, " must be a history, got ", c.type(i)));
  return c.type(i);
}

// Merges two types of the same value, because a dimension may be known in only one of them.
TensorType merged(const InferContext& c, const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.history != b.history || !compatible(a.shape, b.shape))
    c.graph_error(cat("values of one history must have the same type, got ", a, " and ", b));
  return {a.dtype, merge(a.shape, b.shape), a.history};
}

TensorType value_of(TensorType history) {
  --history.history;
  return history;
}

TensorType history_of(TensorType value) {
  ++value.history;
  return value;
}

std::vector<TensorType> infer_push(const InferContext& c) {
  return {history_of(merged(c, value_of(require_history(c, 0)), c.type(1)))};
}

std::vector<TensorType> infer_pop(const InferContext& c) {
  const TensorType& history = require_history(c, 0);
  return {history, value_of(history)};
}

std::vector<TensorType> infer_empty(const InferContext& c) { return {require_history(c, 0)}; }

std::vector<TensorType> infer_addition(const InferContext& c) {
  return {merged(c, require_history(c, 0), require_history(c, 1))};
}

void d_push(GradientContext& g) {
  const Operation* pop = g.graph().create("history_pop", {g.incoming()});
  g.set(0, pop->output(0));
  g.set(1, pop->output(1));
}

void d_pop(GradientContext& g) {
  Builder b(g.graph());
  Tensor* rest = g.incoming(0) ? g.incoming(0) : b.zeros_like(g.output(0));
  Tensor* value = g.incoming(1) ? g.incoming(1) : b.zeros_like(g.output(1));
  g.set(0, g.graph().add("history_push", {rest, value}));
}

void d_history_addition(GradientContext& g) {
  g.set(0, g.incoming());
  g.set(1, g.incoming());
}

void history_operation(Kind name, int inputs, Infer infer, Gradient gradient) {
  OperationDefinition d;
  d.name = name;
  d.min_inputs = d.max_inputs = inputs;
  d.infer = std::move(infer);
  d.gradient_is_zero = !gradient;
  d.gradient = std::move(gradient);
  d.internal = true;
  define(std::move(d));
}

}  // namespace

const Family control_flow_history_family("control_flow", [] {
  history_operation("history_push", 2, infer_push, d_push);
  history_operation("history_pop", 1, infer_pop, d_pop);
  history_operation("history_empty", 1, infer_empty, {});
  history_operation("history_addition", 2, infer_addition, d_history_addition);
});

}  // namespace mpsgraph::ops
