// Recurrent cells: the settings of a descriptor, and the equations of a time step with their derivatives, in double
// precision.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <map>
#include <vector>

#include "mps/neural_network/neuron.h"

namespace mock {

using Vector = std::vector<double>;
using Weights = std::map<MPSRNNMatrixId, Vector>;  // row-major; rows are outputs and columns are inputs

struct MatrixSize {
  int64_t rows, columns;
};

// IDs of the matrices of a gate. A cell has a matrix only if it has a data source for it, and biases only if that
// source has them.
struct Gate {
  MPSRNNMatrixId input, recurrent, memory, bias;
};

struct Cell {
  enum class Kind { single_gate, lstm, gru } kind = Kind::single_gate;
  int64_t inputs = 0, outputs = 0;
  bool input_is_identity = false, memory_is_diagonal = false, outputs_are_flipped = false;
  bool is_backward = false;  // in a bidirectional sequence
  double p_norm = 1;
  std::vector<Gate> gates;
  std::vector<Neuron> neurons;  // one per gate
  Neuron output_neuron;  // applied to an LSTM's memory
  std::map<MPSRNNMatrixId, MatrixSize> shapes;  // of the existing matrices
  Weights weights;  // from the data sources, rounded to the weight type
  MPSDataType weight_type = MPSDataTypeFloat16;

  bool has_memory() const { return kind == Kind::lstm; }
};

// Build a cell from the descriptor's data sources. Return null if one of them fails to load.
std::unique_ptr<Cell> cell_of(const MPSRNNDescriptor* descriptor, bool always_half);

// One row of one time step, with intermediate values for the gradient.
struct Step {
  Vector x, h0, c0;  // inputs of the step
  std::vector<Vector> sums, gates;  // before and after the neurons
  Vector scaled, memory_out;  // a GRU's h0 times its recurrent gate; an LSTM's memory after its neuron
  Vector c1, h1;
};

Step forward(const Cell& cell, const Weights& weights, const Vector& x, const Vector& h0, const Vector& c0);

struct Gradient {
  Vector x, h0, c0;
};

// Return the gradients of the step's inputs, given those of h1 and c1, and add to the gradients of the weights.
Gradient backward(const Cell& cell, const Weights& weights, const Step& step, const Vector& dh1, const Vector& dc1,
                  Weights& weight_gradients);

}  // namespace mock
