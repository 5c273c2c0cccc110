// CellGraph: a recurrent cell over a whole sequence as operations of the core graph, and its gradients.
//
// Plain cells are one operation of the family `recurrent`, which has specialized kernels. Cells that it does not
// support (peepholes that are matrices or belong to the output gate, other neurons, norms, minimally gated units) are
// unrolled step by step; their gradients recompute the forward pass. Sequences are float32 [T, N, channels].
#pragma once

#include "nngraph/recurrent.h"

namespace mpsgraph::nngraph {

struct CellStart {
  Tensor *state = nullptr, *cell = nullptr;  // shape [N, H]; null means zeros
};

struct CellSequence {
  Tensor* states = nullptr;  // [T, N, H]
  Tensor* cells = nullptr;  // memory cells of shape [T, N, H]; LSTM only
  Tensor* gates = nullptr;  // training state that the operation's gradient reads; null for an unrolled cell
};

struct CellGradients {
  Tensor *source = nullptr, *state = nullptr, *cell = nullptr;
  std::vector<Tensor*> weights;  // gradients of the weights, in the order of the layout
};

class CellGraph {
 public:
  // `weights`: float32, one per matrix of the layout.
  CellGraph(Builder& b, const RecurrentDescriptor& descriptor, const WeightLayout& layout,
            std::vector<Tensor*> weights);

  // Whether a single core operation computes the cell over the whole sequence. In training, that operation also returns
  // values for its gradient.
  static bool is_operation(const RecurrentDescriptor& descriptor);

  CellSequence forward(Tensor* source, const CellStart& start, bool training, bool reverse = false);
  // Return the gradients of the sequence. `known` is the result that forward() returned in training. `known` is used
  // only if the cell is a single core operation. `last` holds the gradients of the last state and cell, or null.
  CellGradients backward(Tensor* source, const CellStart& start, const CellSequence& known, Tensor* d_states,
                         const CellStart& last);

 private:
  struct Operands;
  CellSequence written_out(Tensor* source, const CellStart& start, bool reverse);
  CellSequence as_operation(Tensor* source, const CellStart& start, bool training, bool reverse);
  CellGradients operation_backward(Tensor* source, const CellStart& start, const CellSequence& known, Tensor* d_states,
                                   const CellStart& last);
  Operands operands(Tensor* source, const CellStart& start);
  std::vector<Tensor*> inputs_by_step(Tensor* source, size_t gate);

  Tensor* slice(Tensor* x, int64_t axis, int64_t start, int64_t length);
  Tensor* concat(const std::vector<Tensor*>& tensors, int64_t axis);
  Tensor* part(const WeightPart* part);  // null if `part` is null
  bool all_gates(WeightKind kind) const;
  bool any_gate(WeightKind kind) const;
  Tensor* packed(WeightKind kind);  // the weights of all gates in one tensor; omitted weights are zero
  Tensor* unpacked(Tensor* gradient, WeightKind kind);
  Tensor* matrix(WeightKind kind) const;  // null if the layer has no matrix of this kind
  Tensor* plus(Tensor* a, Tensor* b) { return a && b ? b_.add(a, b) : a ? a : b; }

  Builder& b_;
  const RecurrentDescriptor& d_;
  const WeightLayout& layout_;
  const std::vector<Tensor*> weights_;
};

}  // namespace mpsgraph::nngraph
