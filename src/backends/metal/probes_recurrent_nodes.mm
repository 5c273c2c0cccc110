// Probes of Apple's recurrent layers over matrices and images, compared with the CPU. Turi Create trains LSTMs over
// matrices on Macs; no other project is known to use the other layers.
#include "backends/metal/probes.h"
#include "backends/metal/probes_nodes.h"
#include "nngraph/recurrent_inference.h"
#include "nngraph/recurrent_training.h"

namespace mpsgraph::metal {

using namespace nngraph;
using runtime::CommandQueue;
using runtime::Device;
using runtime::NDArray;
using runtime::Probe;

namespace {

constexpr int64_t rows = 2, channels = 4, steps = 3;

// Weights are small so that cells do not saturate.
NDArray weights_of(const Dims& dims, size_t seed) {
  Values values(static_cast<size_t>(element_count(dims)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * static_cast<float>((i * 5 + seed * 3) % 9) - 0.4f;
  return array_of(values, dims);
}

RecurrentDescriptor layer(RecurrentCell cell) {
  RecurrentDescriptor d;
  d.cell = cell;
  d.inputs = d.outputs = channels;
  d.float32_weights = true;
  d.gates.resize(d.gate_count());
  for (size_t gate = 0; gate < d.gates.size(); ++gate) {
    d.gates[gate].weights[0] = weights_of({channels, channels}, gate);
    d.gates[gate].weights[1] = weights_of({channels, channels}, gate + 4);
    d.gates[gate].weights[3] = weights_of({channels}, gate + 8);
    const bool squashes = cell == RecurrentCell::single_gate || gate == 2;
    d.gates[gate].neuron = {squashes ? "tanh" : "sigmoid", 1, 1, 0};
  }
  return d;
}

RecurrentDescriptor peeping(bool diagonal) {
  RecurrentDescriptor d = layer(RecurrentCell::lstm);
  d.diagonal_memory = diagonal;
  for (size_t gate : {0, 1, 3})
    d.gates[gate].weights[2] = weights_of(diagonal ? Dims{channels} : Dims{channels, channels}, gate + 12);
  return d;
}

RecurrentDescriptor backward(RecurrentDescriptor d) {
  d.backward = true;
  return d;
}

Steps steps_of(Device& device, const Values& like) {
  Steps made;
  for (int64_t t = 0; t < steps; ++t) {
    const Matrix matrix(device, {.rows = rows, .columns = channels});
    if (!like.empty()) {
      const NDArray source = images_of({rows, channels}, -2 + 0.5f * static_cast<float>(t));
      std::memcpy(matrix.array().data(), source.data(), source.bytes());
    }
    made.push_back(matrix.array());
  }
  return made;
}

Ask inferred(const std::vector<RecurrentDescriptor>& layers, bool images, bool both_ways,
             BidirectionalCombineMode mode = BidirectionalCombineMode::none) {
  return [=](Device& device) {
    RecurrentInferenceLayer through("probe", device, layers, images);
    through.combine_mode = mode;
    const Steps sources = steps_of(device, {1}), first = steps_of(device, {}), second = steps_of(device, {});
    const auto buffer = CommandQueue::create(device)->command_buffer();
    const bool two = both_ways && mode == BidirectionalCombineMode::none;
    if (both_ways)
      through.encode_bidirectional_sequence(*buffer, sources, first, two ? second : Steps{});
    else
      through.encode_sequence(*buffer, sources, first, {}, false);
    finish(buffer);
    Values all;
    for (const Steps& made : {first, two ? second : Steps{}})
      for (const NDArray& step : made)
        for (float value : values_of(step)) all.push_back(value);
    return all;
  };
}

std::string recurrent_inference(MetalDevice&) {
  Beside beside;
  RecurrentDescriptor gru = layer(RecurrentCell::gru), flipped = gru, norm = gru;
  flipped.flip_output_gates = true;
  norm.p_norm = 2;
  RecurrentDescriptor identity = layer(RecurrentCell::single_gate);
  identity.identity_input = true;
  identity.gates[0].weights[0] = NDArray();
  RecurrentDescriptor cell = layer(RecurrentCell::lstm);
  cell.cell_to_output = {"tanh", 1.5, 0.5, 1};
  for (const bool images : {false, true}) {
    const std::string of = images ? "images, " : "matrices, ";
    beside.ask(of + "single gate", inferred({layer(RecurrentCell::single_gate)}, images, false));
    beside.ask(of + "single gate with identity input", inferred({identity}, images, false));
    beside.ask(of + "LSTM", inferred({layer(RecurrentCell::lstm)}, images, false));
    beside.ask(of + "LSTM with peepholes", inferred({peeping(false)}, images, false));
    beside.ask(of + "LSTM with diagonal peepholes", inferred({peeping(true)}, images, false));
    beside.ask(of + "LSTM with another cell neuron", inferred({cell}, images, false));
    beside.ask(of + "GRU", inferred({gru}, images, false));
    beside.ask(of + "GRU flipped", inferred({flipped}, images, false));
    beside.ask(of + "GRU with p-norm 2", inferred({norm}, images, false));
    beside.ask(of + "two layers", inferred({layer(RecurrentCell::lstm), gru}, images, false));
    const std::vector<RecurrentDescriptor> ways{layer(RecurrentCell::lstm), backward(layer(RecurrentCell::lstm))};
    beside.ask(of + "both ways", inferred(ways, images, true));
    beside.ask(of + "both directions added", inferred(ways, images, true, BidirectionalCombineMode::add));
  }
  return beside.answer();
}

Ask learned(const RecurrentDescriptor& descriptor, bool accumulates) {
  return [=](Device& device) {
    RecurrentTrainingLayer layer(device, descriptor);
    layer.accumulate_weight_gradients = accumulates;
    const auto matrices = [&](float from) {
      std::vector<Matrix> made;
      for (const NDArray& step : steps_of(device, {from})) made.emplace_back(step);
      return made;
    };
    ForwardSequence forward;
    forward.weights = layer.initial_weights();
    forward.sources = matrices(1);
    forward.destinations = matrices(1);
    GradientSequence gradient;
    gradient.forward_sources = forward.sources;
    gradient.source_gradients = matrices(1);
    gradient.destination_gradients = matrices(1);
    gradient.weight_gradients = layer.zero_gradients(DType::float32);
    gradient.weights = forward.weights;
    gradient.gives_destinations = gradient.gives_weights = true;
    const auto queue = CommandQueue::create(device);
    for (int time = 0; time < 2; ++time) {
      const auto buffer = queue->command_buffer();
      gradient.training_states = layer.encode_forward(*buffer, forward).training_states;
      layer.encode_gradient(*buffer, gradient);
      finish(buffer);
    }
    Values all;
    const auto each = [](const std::vector<Matrix>& matrices, const std::function<void(float)>& take) {
      for (const Matrix& matrix : matrices)
        for (int64_t r = 0; r < matrix.rows(); ++r)
          for (int64_t c = 0; c < matrix.columns(); ++c)
            take(reinterpret_cast<const float*>(matrix.array().data())[r * matrix.array().strides()[0] + c]);
    };
    for (const auto* made : {&forward.destinations, &gradient.destination_gradients})
      each(*made, [&](float value) { all.push_back(value); });
    float sum = 0, size = 0;  // averages are compared, because the layout of weights differs between devices
    each(gradient.weight_gradients, [&](float value) { sum += value, size += std::abs(value); });
    all.insert(all.end(), {sum, size});
    return all;
  };
}

std::string recurrent_training(MetalDevice&) {
  Beside beside;
  beside.ask("single gate", learned(layer(RecurrentCell::single_gate), false));
  beside.ask("LSTM", learned(layer(RecurrentCell::lstm), false));
  beside.ask("LSTM, accumulated gradients", learned(layer(RecurrentCell::lstm), true));
  beside.ask("GRU", learned(layer(RecurrentCell::gru), false));
  return beside.answer();
}

}  // namespace

std::vector<Probe> recurrent_node_probes(MetalDevice& device) {
  const char* method = "three time steps are processed by the layer on this device and on the CPU";
  return {
      probe(device, "recurrent_inference", "Do Apple's recurrent layers follow nngraph's formulas?", method,
            "Results that differ from the CPU: src/backends/metal/nngraph/recurrent_descriptors.mm must refuse that "
            "form.",
            recurrent_inference),
      probe(device, "recurrent_training", "Do the gradients of Apple's recurrent layers follow nngraph's formulas?",
            method,
            "Results that differ from the CPU: src/backends/metal/nngraph/recurrent_training.mm must refuse that cell.",
            recurrent_training),
  };
}

}  // namespace mpsgraph::metal
