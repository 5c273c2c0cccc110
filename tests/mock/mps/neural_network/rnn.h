// Recurrent cells: what a descriptor says, and the equations of a time step and their derivatives, in double precision.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <map>
#include <vector>

#include "mps/neural_network/neuron.h"

namespace mock {

using Vector = std::vector<double>;
using Weights = std::map<MPSRNNMatrixId, Vector>;  // row by row; rows are outputs, columns inputs

struct MatrixSize {
  int64_t rows, columns;
};

// Of a gate: the numbers of its matrices. A cell has a matrix if it was given a data source, biases if that had some.
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
  std::vector<Neuron> neurons;  // one a gate
  Neuron output_neuron;  // of an LSTM's memory
  std::map<MPSRNNMatrixId, MatrixSize> shapes;  // of the matrices that there are
  Weights weights;  // as the data sources gave them, rounded to the type of the weights
  MPSDataType weight_type = MPSDataTypeFloat16;

  bool has_memory() const { return kind == Kind::lstm; }
};

// Reads the descriptor's data sources; nothing if one of them refused to load.
std::unique_ptr<Cell> cell_of(const MPSRNNDescriptor* descriptor, bool always_half);

// One row of one time step.
struct Step {
  Vector x, h0, c0;  // what went in
  std::vector<Vector> sums, gates;  // before and after the neurons
  Vector scaled, memory_out;  // a GRU's h0 times its recurrent gate; an LSTM's memory after its neuron
  Vector c1, h1;
};

Step forward(const Cell& cell, const Weights& weights, const Vector& x, const Vector& h0, const Vector& c0);

struct Gradient {
  Vector x, h0, c0;
};

// Of the gradients of h1 and c1; adds to those of the weights.
Gradient backward(const Cell& cell, const Weights& weights, const Step& step, const Vector& dh1, const Vector& dc1,
                  Weights& weight_gradients);

}  // namespace mock
