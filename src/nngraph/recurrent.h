// Description of a recurrent layer: its cell, the weights of each gate, and their layout in the matrices that a caller
// trains.
//
// x is the input of a time step; h0 and c0 are the output and the memory cell of the previous step. Each gate has its
// own neuron g and weights W, U, V, and b. act is the neuron cell_to_output, and p is p_norm. Juxtaposed vectors are
// multiplied element-wise.
//
//   single gate  h1 = g(W x + U h0 + b)
//   LSTM         i, f, z = g(W x + U h0 + V c0 + b);  c1 = f c0 + i z;  o = g(W x + U h0 + V c1 + b);  h1 = o act(c1)
//   GRU          z, r = g(W x + U h0 + b);  h = g(W x + b + U (r h0) + V (z h0));
//                h1 = (1 - z^p)^(1/p) h + z h0, or with flip_output_gates (1 - z^p)^(1/p) h0 + z h
//
// A minimally gated unit is a GRU that has V but not U in its output gate. Omitted weights are zero.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mpsgraph/core/builder.h"
#include "nngraph/data_source.h"
#include "nngraph/matrix.h"

namespace mpsgraph::nngraph {

// Apply a neuron such that automatic differentiation of the result uses Apple's derivatives at 0: 1 for relu and relun.
Tensor* apply_neuron(Builder& b, const Neuron& neuron, Tensor* x);

// Identifies an array of weights of one gate. The values equal those of Apple's MPSRNNMatrixId, and `count` is their
// number.
enum class MatrixId : uint8_t {
  single_gate_input_weights,
  single_gate_recurrent_weights,
  single_gate_bias_terms,
  lstm_input_gate_input_weights,
  lstm_input_gate_recurrent_weights,
  lstm_input_gate_memory_weights,
  lstm_input_gate_bias_terms,
  lstm_forget_gate_input_weights,
  lstm_forget_gate_recurrent_weights,
  lstm_forget_gate_memory_weights,
  lstm_forget_gate_bias_terms,
  lstm_memory_gate_input_weights,
  lstm_memory_gate_recurrent_weights,
  lstm_memory_gate_memory_weights,
  lstm_memory_gate_bias_terms,
  lstm_output_gate_input_weights,
  lstm_output_gate_recurrent_weights,
  lstm_output_gate_memory_weights,
  lstm_output_gate_bias_terms,
  gru_input_gate_input_weights,
  gru_input_gate_recurrent_weights,
  gru_input_gate_bias_terms,
  gru_recurrent_gate_input_weights,
  gru_recurrent_gate_recurrent_weights,
  gru_recurrent_gate_bias_terms,
  gru_output_gate_input_weights,
  gru_output_gate_recurrent_weights,
  gru_output_gate_input_gate_weights,
  gru_output_gate_bias_terms,
  count
};

enum class RecurrentCell : uint8_t { single_gate, lstm, gru };
// Kinds of weights, in the formulas above W (`input`), U (`recurrent`), V (`memory`), and b (`bias`). In an LSTM, V
// holds the peephole weights; in a GRU, only the output gate has V.
enum class WeightKind : uint8_t { input, recurrent, memory, bias };
inline constexpr int weight_kinds = 4;

// Weights are float32 or float16 of shape [outputs, inputs]; bias and diagonal memory weights have shape [outputs].
// Invalid arrays mean omitted weights.
struct Gate {
  runtime::NDArray weights[weight_kinds];
  Neuron neuron;
  const runtime::NDArray& operator[](WeightKind kind) const { return weights[static_cast<size_t>(kind)]; }
};

struct MPSGRAPH_API RecurrentDescriptor {
  RecurrentCell cell = RecurrentCell::single_gate;
  int64_t inputs = 1, outputs = 1;
  bool identity_input = false;  // W is the identity, so inputs must equal outputs
  bool float32_weights = false;  // whether the layer stores its weights as float32; otherwise as float16
  bool backward = false;  // in bidirectional inference, whether the layer runs from the last step to the first
  std::vector<Gate> gates;  // order of the gates: one gate; input, forget, memory, output; or input, recurrent, output
  bool diagonal_memory = false;  // whether peepholes are diagonal matrices; LSTM only
  Neuron cell_to_output{"tanh", 1, 1, 1};
  double p_norm = 1;
  bool flip_output_gates = false;

  // throws GraphError, ShapeError, DTypeError, or UnsupportedError with the names of the gate and its weights
  void check() const;
  size_t gate_count() const { return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1; }
  DType weight_dtype() const { return float32_weights ? DType::float32 : DType::float16; }
};
MPSGRAPH_API std::string gate_name(RecurrentCell cell, size_t gate);  // e.g. "forget gate"

// Location of a gate's weights.
struct WeightPart {
  size_t matrix, gate;
  WeightKind kind;
  int64_t row, column, rows, columns;
};

// The matrices that store a layer's weights. The gates' weights of one kind are stacked in one matrix, so that each
// step needs only one matmul for them.
class MPSGRAPH_API WeightLayout {
 public:
  explicit WeightLayout(const RecurrentDescriptor& descriptor);

  struct Size {
    WeightKind kind;
    int64_t rows, columns;
  };
  const std::vector<Size>& matrices() const { return matrices_; }
  const std::vector<WeightPart>& parts() const { return parts_; }
  const WeightPart* find(size_t gate, WeightKind kind) const;  // null if these weights are omitted
  const WeightPart& part(MatrixId id) const;  // throws GraphError if the layer has no such weights
  std::vector<Matrix> zeros(DType dtype) const;
  std::vector<Matrix> initial(const RecurrentDescriptor& descriptor) const;

 private:
  RecurrentCell cell_;
  std::vector<Size> matrices_;
  std::vector<WeightPart> parts_;
};
MPSGRAPH_API std::string_view name(MatrixId id);

}  // namespace mpsgraph::nngraph
