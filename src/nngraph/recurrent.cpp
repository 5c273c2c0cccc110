// Recurrent descriptors: validation, names of weights, and the matrices that hold them.
#include "nngraph/recurrent.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mpsgraph::nngraph {

using runtime::NDArray;

namespace {

constexpr std::string_view kind_names[] = {"input weights", "recurrent weights", "memory weights", "bias terms"};

struct IdName {
  std::string_view name;
  size_t gate;
  WeightKind kind;
};
constexpr auto in = WeightKind::input, recurrent = WeightKind::recurrent, memory = WeightKind::memory,
               bias = WeightKind::bias;
constexpr std::array<IdName, static_cast<size_t>(MatrixId::count)> id_names = {{
    {"single_gate_input_weights", 0, in},
    {"single_gate_recurrent_weights", 0, recurrent},
    {"single_gate_bias_terms", 0, bias},
    {"lstm_input_gate_input_weights", 0, in},
    {"lstm_input_gate_recurrent_weights", 0, recurrent},
    {"lstm_input_gate_memory_weights", 0, memory},
    {"lstm_input_gate_bias_terms", 0, bias},
    {"lstm_forget_gate_input_weights", 1, in},
    {"lstm_forget_gate_recurrent_weights", 1, recurrent},
    {"lstm_forget_gate_memory_weights", 1, memory},
    {"lstm_forget_gate_bias_terms", 1, bias},
    {"lstm_memory_gate_input_weights", 2, in},
    {"lstm_memory_gate_recurrent_weights", 2, recurrent},
    {"lstm_memory_gate_memory_weights", 2, memory},
    {"lstm_memory_gate_bias_terms", 2, bias},
    {"lstm_output_gate_input_weights", 3, in},
    {"lstm_output_gate_recurrent_weights", 3, recurrent},
    {"lstm_output_gate_memory_weights", 3, memory},
    {"lstm_output_gate_bias_terms", 3, bias},
    {"gru_input_gate_input_weights", 0, in},
    {"gru_input_gate_recurrent_weights", 0, recurrent},
    {"gru_input_gate_bias_terms", 0, bias},
    {"gru_recurrent_gate_input_weights", 1, in},
    {"gru_recurrent_gate_recurrent_weights", 1, recurrent},
    {"gru_recurrent_gate_bias_terms", 1, bias},
    {"gru_output_gate_input_weights", 2, in},
    {"gru_output_gate_recurrent_weights", 2, recurrent},
    {"gru_output_gate_input_gate_weights", 2, memory},
    {"gru_output_gate_bias_terms", 2, bias},
}};

RecurrentCell cell_of(MatrixId id) {
  if (id <= MatrixId::single_gate_bias_terms) return RecurrentCell::single_gate;
  return id <= MatrixId::lstm_output_gate_bias_terms ? RecurrentCell::lstm : RecurrentCell::gru;
}

// Shape of one gate's array of weights of the given kind. Each row holds the weights of one output.
Dims size_of_weights(const RecurrentDescriptor& d, WeightKind kind) {
  switch (kind) {
    case WeightKind::input: return {d.outputs, d.inputs};
    case WeightKind::recurrent: return {d.outputs, d.outputs};
    case WeightKind::memory:
      if (d.cell == RecurrentCell::lstm && d.diagonal_memory) return {d.outputs};
      return {d.outputs, d.outputs};
    case WeightKind::bias: return {d.outputs};
  }
  throw GraphError("unknown kind of weights");
}

// Copy an array into a matrix of a different dtype. Conversion to float16 rounds to nearest even.
void copy_converted(const NDArray& from, NDArray to) {
  const NDArray dense = from.contiguous() ? from : from.copy_contiguous();
  NDArray result = NDArray::allocate(to.dtype(), dense.dims());
  const auto value = [&](int64_t i) {
    if (dense.dtype() == DType::float32) return reinterpret_cast<const float*>(dense.data())[i];
    return half_to_float(reinterpret_cast<const uint16_t*>(dense.data())[i]);
  };
  for (int64_t i = 0; i < dense.elements(); ++i) {
    if (to.dtype() == DType::float32)
      reinterpret_cast<float*>(result.data())[i] = value(i);
    else
      reinterpret_cast<uint16_t*>(result.data())[i] = float_to_half(value(i));
  }
  to.copy_from(NDArray(result.buffer(), to.dtype(), to.dims(), contiguous_strides(to.dims())));
}

}  // namespace

std::string_view name(MatrixId id) { return id_names.at(static_cast<size_t>(id)).name; }

std::string gate_name(RecurrentCell cell, size_t gate) {
  constexpr std::string_view lstm[] = {"input gate", "forget gate", "memory gate", "output gate"};
  constexpr std::string_view gru[] = {"input gate", "recurrent gate", "output gate"};
  if (cell == RecurrentCell::single_gate) return "gate";
  return std::string(cell == RecurrentCell::lstm ? lstm[gate] : gru[gate]);
}

void RecurrentDescriptor::check() const {
  if (inputs < 1 || outputs < 1 || inputs > (1 << 24) || outputs > (1 << 24))
    throw ShapeError(
        cat("[RNNDescriptor] the numbers of input and output feature channels must be from 1 to 2^24, got ", inputs,
            " and ", outputs));
  if (gates.size() != gate_count())
    throw GraphError(
        cat("[RNNDescriptor] the number of gates of this cell must be ", gate_count(), ", got ", gates.size()));
  if (identity_input && inputs != outputs)
    throw ShapeError(
        cat("[RNNDescriptor] without input weights, the input must have as many feature channels as the "
            "output; got ",
            inputs, " and ", outputs));
  if (!(p_norm > 0)) throw GraphError(cat("[RNNDescriptor] gate_pnorm_value must be positive, got ", p_norm));
  for (size_t g = 0; g <= gates.size(); ++g)
    if ((g < gates.size() ? gates[g].neuron : cell_to_output).type == "prelu")
      throw UnsupportedError(
          "[RNNDescriptor] a gate's neuron cannot be PReLU, which has one slope per channel; use ReLU, which has a "
          "single slope");
  for (size_t g = 0; g < gates.size(); ++g) {
    for (int k = 0; k < weight_kinds; ++k) {
      const NDArray& array = gates[g].weights[k];
      if (!array.valid()) continue;
      const auto kind = static_cast<WeightKind>(k);
      const std::string what = cat(gate_name(cell, g), "'s ", kind_names[k]);
      const bool has_memory = cell == RecurrentCell::lstm || (cell == RecurrentCell::gru && g == 2);
      if (kind == WeightKind::memory && !has_memory)
        throw GraphError(cat("[RNNDescriptor] this kind of cell has no ", what, "; do not set them"));
      const Dims expected = size_of_weights(*this, kind);
      if (array.dims() != expected)
        throw ShapeError(cat("[RNNDescriptor] the ", what, " must have shape ", to_string(expected),
                             " (outputs, inputs), got ", to_string(array.dims())));
      if (array.dtype() != DType::float32 && array.dtype() != DType::float16)
        throw DTypeError(cat("[RNNDescriptor] the ", what, " must be float32 or float16, got ", array.dtype()));
    }
  }
}

// --- layout ----------------------------------------------------------------------------------------------------------

WeightLayout::WeightLayout(const RecurrentDescriptor& d) : cell_(d.cell) {
  for (int k = 0; k < weight_kinds; ++k) {
    const auto kind = static_cast<WeightKind>(k);
    if (kind == WeightKind::input && d.identity_input) continue;
    const Dims size = size_of_weights(d, kind);
    const bool row = size.size() == 1;  // the biases of all gates form one row
    int64_t given = 0;
    for (size_t g = 0; g < d.gates.size(); ++g) {
      if (!d.gates[g][kind].valid()) continue;
      const int64_t at = given++ * d.outputs;
      parts_.push_back(
          {matrices_.size(), g, kind, row ? 0 : at, row ? at : 0, row ? 1 : size[0], row ? size[0] : size[1]});
    }
    if (given) matrices_.push_back({kind, row ? 1 : given * d.outputs, row ? given * d.outputs : size[1]});
  }
}

const WeightPart* WeightLayout::find(size_t gate, WeightKind kind) const {
  for (const WeightPart& part : parts_)
    if (part.gate == gate && part.kind == kind) return &part;
  return nullptr;
}

const WeightPart& WeightLayout::part(MatrixId id) const {
  const IdName& named = id_names.at(static_cast<size_t>(id));
  const WeightPart* part = cell_of(id) == cell_ ? find(named.gate, named.kind) : nullptr;
  if (part) return *part;
  std::string known;
  for (const WeightPart& own : parts_) {
    for (const IdName& other : id_names) {
      if (cell_of(static_cast<MatrixId>(&other - id_names.data())) == cell_ && other.gate == own.gate &&
          other.kind == own.kind)
        known += cat(known.empty() ? "" : ", ", other.name);
    }
  }
  throw GraphError(
      cat("[encode_copy_weights] the layer has no ", named.name, "; it has ", known.empty() ? "no weights" : known));
}

std::vector<Matrix> WeightLayout::zeros(DType dtype) const {
  if (dtype != DType::float32 && dtype != DType::float16)
    throw DTypeError(cat("[RNNMatrixTrainingLayer] weight matrices must be float32 or float16, got ", dtype));
  std::vector<Matrix> result;
  for (const Size& size : matrices_)
    result.emplace_back(MatrixDescriptor{.rows = size.rows, .columns = size.columns, .dtype = dtype});
  return result;
}

std::vector<Matrix> WeightLayout::initial(const RecurrentDescriptor& d) const {
  std::vector<Matrix> result = zeros(d.weight_dtype());
  for (const WeightPart& part : parts_) {
    const NDArray& matrix = result[part.matrix].array();
    const Dims strides = matrix.strides();
    const int64_t at = (part.row * strides[0] + part.column) * static_cast<int64_t>(size_of(matrix.dtype()));
    copy_converted(d.gates[part.gate][part.kind], NDArray(matrix.buffer(), matrix.dtype(), {part.rows, part.columns},
                                                          strides, static_cast<size_t>(at)));
  }
  return result;
}

}  // namespace mpsgraph::nngraph
