// Matrices, vectors, converters, and recurrent layers of the legacy API; mpsgraph.nngraph wraps them.
#include "bindings/bindings.h"
#include "nngraph/recurrent_inference.h"
#include "nngraph/recurrent_training.h"

namespace mpsgraph::bindings {

using namespace nngraph;
using runtime::NDArray;

namespace {

using CommandBufferPointer = std::shared_ptr<runtime::CommandBuffer>;
using LayerStates = std::vector<std::pair<py::object, py::object>>;  // The output and the cell (or None) of each layer.

// --- arguments -------------------------------------------------------------------------------------------------------

NDArray shared_array(py::handle object, const std::string& what) { return to_ndarray(object, false, {}, false, what); }

// Returns the memory of an array as a buffer. If the array covers a whole buffer, possibly on the device, the result is
// that buffer. Otherwise, the result is a new buffer that borrows the array's memory.
std::shared_ptr<runtime::Buffer> buffer_of(py::handle object, const std::string& what) {
  const NDArray array = to_ndarray(object, false, {}, true, what);
  if (array.data() == array.buffer()->data() && array.bytes() == array.buffer()->bytes()) return array.buffer();
  return runtime::Buffer::borrow(array.data(), array.bytes(), [held = array.buffer()] {}, array.writable());
}

std::vector<Matrix> matrices_of(const py::object& object, std::string_view what) {
  std::vector<Matrix> result;
  if (object.is_none()) return result;
  if (!py::isinstance<py::sequence>(object))
    throw GraphError(cat("[", what, "] must be a list of Matrix objects, got ", shown(object)));
  for (py::handle item : py::reinterpret_borrow<py::sequence>(object)) {
    if (!py::isinstance<Matrix>(item))
      throw GraphError(
          cat("[", what, "] item ", result.size(), " must be a Matrix, got ", shown(item), ": pass Matrix(array)"));
    result.push_back(py::cast<Matrix&>(item));
  }
  return result;
}

std::vector<int64_t> offsets_of(const py::object& object, std::string_view what) {
  std::vector<int64_t> result;
  if (object.is_none()) return result;
  for (py::handle item : py::cast<py::sequence>(object)) result.push_back(to_size(item, what));
  return result;
}

std::optional<RecurrentState> state_of(const std::optional<LayerStates>& layers) {
  if (!layers) return std::nullopt;
  RecurrentState state;
  for (const auto& [output, cell] : *layers) {
    LayerState one;
    if (!output.is_none()) one.output = shared_array(output, "the state's output");
    if (!cell.is_none()) one.cell = shared_array(cell, "the state's memory cell");
    state.push_back(one);
  }
  return state;
}

std::optional<LayerState> one_state_of(const std::optional<LayerStates>& layers) {
  const std::optional<RecurrentState> state = state_of(layers);
  if (!state) return std::nullopt;
  if (state->size() != 1)
    throw GraphError(cat("the recurrent state of a training layer must have 1 layer, got ", state->size()));
  return state->front();
}

py::tuple to_tuple(const LayerState& state) {
  return py::make_tuple(state.output, state.cell.valid() ? py::cast(state.cell) : py::none());
}

py::typing::List<py::tuple> to_list_of_tuples(const std::vector<LayerState>& states) {
  py::typing::List<py::tuple> result;
  for (const LayerState& state : states) result.append(to_tuple(state));
  return result;
}

py::typing::List<NDArray> to_list_of_arrays(const std::vector<Matrix>& matrices) {
  py::typing::List<NDArray> result;
  for (const Matrix& matrix : matrices) result.append(matrix.array());
  return result;
}

runtime::CommandBuffer& open_buffer(const CommandBufferPointer& buffer) {
  if (!buffer) throw GraphError("command_buffer must not be None: pass CommandQueue.command_buffer()");
  return *buffer;
}

// --- matrices and vectors --------------------------------------------------------------------------------------------

void define_matrices(Module& module) {
  Class<Matrix>(module, "Matrix", "A matrix over existing memory. mpsgraph.nngraph.Matrix wraps this class.")
      .def(py::init([](const py::object& array) { return Matrix(shared_array(array, "the matrix")); }),
           py::arg("array"), "Create a matrix over an array of shape [rows, columns] or [matrices, rows, columns].")
      .def(py::init([](const py::object& buffer, int64_t rows, int64_t columns, int64_t matrices, int64_t row_bytes,
                       int64_t matrix_bytes, const py::object& dtype, int64_t offset) {
             const MatrixDescriptor descriptor{rows, columns, matrices, row_bytes, matrix_bytes, to_dtype(dtype)};
             if (py::isinstance<runtime::Device>(buffer)) return Matrix(to_device(buffer), descriptor);
             return Matrix(buffer_of(buffer, "the matrix's buffer"), descriptor, offset);
           }),
           py::arg("buffer"), py::arg("rows"), py::arg("columns"), py::arg("matrices"), py::arg("row_bytes"),
           py::arg("matrix_bytes"), py::arg("dtype"), py::arg("offset"),
           "Create a matrix over a buffer, or over new memory of zeros if buffer is a device.")
      .def_property_readonly("rows", &Matrix::rows)
      .def_property_readonly("columns", &Matrix::columns)
      .def_property_readonly("matrices", [](const Matrix& self) { return self.descriptor().matrices; })
      .def_property_readonly("row_bytes", [](const Matrix& self) { return self.descriptor().row_bytes; })
      .def_property_readonly("matrix_bytes", [](const Matrix& self) { return self.descriptor().matrix_bytes; })
      .def_property_readonly("offset", &Matrix::byte_offset)
      .def_property_readonly("dtype", [](const Matrix& self) { return to_object(self.dtype()); })
      .def_property_readonly("array", &Matrix::array);
  Class<Vector>(module, "Vector", "A vector over existing memory. mpsgraph.nngraph.Vector wraps this class.")
      .def(py::init([](const py::object& array) { return Vector(shared_array(array, "the vector")); }),
           py::arg("array"), "Create a vector over an array of shape [length] or [vectors, length].")
      .def(py::init([](const py::object& buffer, int64_t length, int64_t vectors, int64_t vector_bytes,
                       const py::object& dtype, int64_t offset) {
             const VectorDescriptor descriptor{length, vectors, vector_bytes, to_dtype(dtype)};
             if (py::isinstance<runtime::Device>(buffer)) return Vector(to_device(buffer), descriptor);
             return Vector(buffer_of(buffer, "the vector's buffer"), descriptor, offset);
           }),
           py::arg("buffer"), py::arg("length"), py::arg("vectors"), py::arg("vector_bytes"), py::arg("dtype"),
           py::arg("offset"), "Create a vector over a buffer, or over new memory of zeros if buffer is a device.")
      .def_property_readonly("length", [](const Vector& self) { return self.descriptor().length; })
      .def_property_readonly("vectors", [](const Vector& self) { return self.descriptor().vectors; })
      .def_property_readonly("vector_bytes", [](const Vector& self) { return self.descriptor().vector_bytes; })
      .def_property_readonly("offset", &Vector::byte_offset)
      .def_property_readonly("dtype", [](const Vector& self) { return to_object(self.descriptor().dtype); })
      .def_property_readonly("array", &Vector::array);

  const auto copy = [&](const char* name, std::string_view what, auto encode) {
    module.def(
        name,
        [encode, what](const CommandBufferPointer& buffer, const py::object& device, const py::object& images,
                       const Matrix& matrix, bool channels_first, int64_t row, int64_t column, int64_t index) {
          const DataLayout layout = channels_first ? DataLayout::feature_channels_x_height_x_width
                                                   : DataLayout::height_x_width_x_feature_channels;
          require_open(what, open_buffer(buffer), to_device(device));
          encode(*buffer, shared_array(images, "images"), matrix, layout, MatrixOrigin{row, column, index});
        },
        py::arg("command_buffer"), py::arg("device"), py::arg("images"), py::arg("matrix"), py::arg("channels_first"),
        py::arg("row"), py::arg("column"), py::arg("index"),
        "Encode copies between images and the rows of a matrix, one row for each image.");
  };
  copy("encode_images_to_matrix", "ImageCopyToMatrix", encode_images_to_matrix);
  copy("encode_matrix_to_images", "MatrixCopyToImage",
       [](runtime::CommandBuffer& buffer, const NDArray& images, const Matrix& matrix, DataLayout layout,
          const MatrixOrigin& origin) { encode_matrix_to_images(buffer, matrix, images, layout, origin); });
}

// --- descriptors -----------------------------------------------------------------------------------------------------

void define_recurrent_descriptor(Module& module) {
  using Self = RecurrentDescriptor;
  Class<Self>(module, "RecurrentDescriptor",
              "Description of a recurrent layer, with the weights read from its data source.")
      .def(py::init([](int cell, int64_t inputs, int64_t outputs) {
             Self self;
             self.cell = static_cast<RecurrentCell>(cell);
             self.inputs = inputs;
             self.outputs = outputs;
             self.gates.resize(self.gate_count());
             return self;
           }),
           py::arg("cell"), py::arg("inputs"), py::arg("outputs"),
           "Create a descriptor. `cell` is 0 for a single gate, 1 for LSTM, and 2 for GRU.")
      .def_readwrite("identity_input", &Self::identity_input)
      .def_readwrite("float32_weights", &Self::float32_weights)
      .def_readwrite("backward", &Self::backward)
      .def_readwrite("diagonal_memory", &Self::diagonal_memory)
      .def_readwrite("p_norm", &Self::p_norm)
      .def_readwrite("flip_output_gates", &Self::flip_output_gates)
      .def(
          "set_weights",
          [](Self& self, size_t gate, int kind, const py::object& array) {
            self.gates.at(gate).weights[kind] = to_ndarray(array, true, {}, true, "weights");
          },
          py::arg("gate"), py::arg("kind"), py::arg("array"),
          "Copy the weights of a gate. `kind` is 0 for input, 1 for recurrent, 2 for memory, and 3 for "
          "bias.")
      .def(
          "set_neuron",
          [](Self& self, int gate, const std::string& type, double a, double b, double c) {
            const Neuron neuron{type, a, b, c};
            (gate < 0 ? self.cell_to_output : self.gates.at(static_cast<size_t>(gate)).neuron) = neuron;
          },
          py::arg("gate"), py::arg("type"), py::arg("a"), py::arg("b"), py::arg("c"),
          "Set the activation of a gate; gate -1 is the activation from the cell to the output.");
}

// --- layers ----------------------------------------------------------------------------------------------------------

void define_training_layer(Module& module) {
  Class<TrainingState>(module, "RNNMatrixTrainingState",
                       "The values of one time step of a forward sequence that its gradient needs.")
      .def_readonly("step", &TrainingState::step, "Index of the time step, starting at 0.");

  using Self = RecurrentTrainingLayer;
  Class<Self>(module, "RecurrentTrainingLayer",
              "A recurrent layer for training. mpsgraph.nngraph.RNNMatrixTrainingLayer wraps this class.")
      .def(py::init([](const py::object& device, const RecurrentDescriptor& descriptor) {
             return std::make_unique<Self>(to_device(device), descriptor);
           }),
           py::arg("device"), py::arg("descriptor"))
      .def_readwrite("store_all_intermediate_states", &Self::store_all_intermediate_states)
      .def_readwrite("accumulate_weight_gradients", &Self::accumulate_weight_gradients)
      .def_property_readonly("form_count", &Self::form_count, "Number of executables in the cache.")
      .def_property_readonly("compiled", &Self::compiled, "Number of executables compiled so far.")
      .def("initial_weights", [](const Self& self) { return to_list_of_arrays(self.initial_weights()); })
      .def(
          "zeros",
          [](const Self& self, const py::object& dtype) {
            return to_list_of_arrays(dtype.is_none() ? self.zero_weights() : self.zero_gradients(to_dtype(dtype)));
          },
          py::arg("dtype"), "Create weight gradients of the given dtype, or weights if dtype is None.")
      .def(
          "encode_forward",
          [](Self& self, const CommandBufferPointer& buffer, const py::object& sources,
             const py::object& source_offsets, const py::object& destinations, const py::object& destination_offsets,
             const py::object& weights, const std::optional<LayerStates>& input_state, bool gives_states) {
            ForwardSequence s;
            s.sources = matrices_of(sources, "source_matrices");
            s.source_offsets = offsets_of(source_offsets, "source_offsets");
            s.destinations = matrices_of(destinations, "destination_matrices");
            s.destination_offsets = offsets_of(destination_offsets, "destination_offsets");
            s.weights = matrices_of(weights, "weights");
            s.input_state = one_state_of(input_state);
            s.gives_states = gives_states;
            ForwardResult result;
            {
              const WithoutGil released;
              result = self.encode_forward(open_buffer(buffer), s);
            }
            return py::make_tuple(result.training_states, to_list_of_tuples(result.states));
          },
          py::arg("command_buffer"), py::arg("sources"), py::arg("source_offsets"), py::arg("destinations"),
          py::arg("destination_offsets"), py::arg("weights"), py::arg("input_state"), py::arg("gives_states"))
      .def(
          "encode_gradient",
          [](Self& self, const CommandBufferPointer& buffer, const py::object& forward_sources,
             const py::object& forward_source_offsets, const py::object& source_gradients,
             const py::object& source_gradient_offsets, const py::object& destination_gradients,
             const py::object& destination_offsets, const py::object& weight_gradients,
             const std::vector<TrainingState>& training_states, const py::object& weights,
             const std::optional<LayerStates>& input_state, bool gives_states) -> py::object {
            GradientSequence s;
            s.forward_sources = matrices_of(forward_sources, "forward_sources");
            s.forward_source_offsets = offsets_of(forward_source_offsets, "forward_source_offsets");
            s.source_gradients = matrices_of(source_gradients, "source_gradients");
            s.source_gradient_offsets = offsets_of(source_gradient_offsets, "source_gradient_offsets");
            s.destination_gradients = matrices_of(destination_gradients, "destination_gradients");
            s.destination_gradient_offsets = offsets_of(destination_offsets, "destination_offsets");
            s.gives_destinations = !destination_gradients.is_none();
            s.weight_gradients = matrices_of(weight_gradients, "weight_gradients");
            s.gives_weights = !weight_gradients.is_none();
            s.training_states = training_states;
            s.weights = matrices_of(weights, "weights");
            s.input_state = one_state_of(input_state);
            s.gives_states = gives_states;
            std::optional<LayerState> result;
            {
              const WithoutGil released;
              result = self.encode_gradient(open_buffer(buffer), s);
            }
            if (result) return to_tuple(*result);
            return py::none();
          },
          py::arg("command_buffer"), py::arg("forward_sources"), py::arg("forward_source_offsets"),
          py::arg("source_gradients"), py::arg("source_gradient_offsets"), py::arg("destination_gradients"),
          py::arg("destination_offsets"), py::arg("weight_gradients"), py::arg("training_states"), py::arg("weights"),
          py::arg("input_state"), py::arg("gives_states"))
      .def(
          "encode_copy_weights",
          [](Self& self, const CommandBufferPointer& buffer, const py::object& weights, int id, const Matrix& matrix,
             bool from_weights, int64_t row, int64_t column) {
            if (id < 0 || id >= static_cast<int>(MatrixId::count))
              throw GraphError(cat("[encode_copy_weights] matrix id must be a value of RNNMatrixId, got ", id));
            self.encode_copy_weights(open_buffer(buffer), matrices_of(weights, "weights"), static_cast<MatrixId>(id),
                                     matrix, from_weights, {row, column, 0});
          },
          py::arg("command_buffer"), py::arg("weights"), py::arg("matrix_id"), py::arg("matrix"),
          py::arg("copy_from_weights_to_matrix"), py::arg("row"), py::arg("column"));
  module.def("rnn_matrix_ids", [] {
    std::vector<std::string> names;
    for (int id = 0; id < static_cast<int>(MatrixId::count); ++id) names.emplace_back(name(static_cast<MatrixId>(id)));
    return names;
  });
}

void define_inference_layer(Module& module) {
  using Self = RecurrentInferenceLayer;
  // Converts the time steps of a sequence, which are image batches, or matrices with or without offsets.
  const auto steps = [](const std::string& what, const py::object& items, const py::object& offsets,
                        bool images) -> Steps {
    if (!images) return steps_of_matrices(what, matrices_of(items, what), offsets_of(offsets, what));
    std::vector<NDArray> arrays;
    if (!items.is_none())
      for (py::handle item : py::cast<py::sequence>(items)) arrays.push_back(shared_array(item, what));
    return steps_of_images(what, arrays);
  };
  Class<Self>(module, "RecurrentInferenceLayer",
              "Recurrent layers for inference. mpsgraph.nngraph.RNNMatrixInferenceLayer and "
              "RNNImageInferenceLayer wrap this class.")
      .def(py::init([](const std::string& name, const py::object& device,
                       const std::vector<RecurrentDescriptor>& descriptors,
                       bool images) { return std::make_unique<Self>(name, to_device(device), descriptors, images); }),
           py::arg("name"), py::arg("device"), py::arg("descriptors"), py::arg("images"))
      .def_readwrite("store_all_intermediate_states", &Self::store_all_intermediate_states)
      .def_property(
          "combine_mode", [](const Self& self) { return static_cast<int>(self.combine_mode); },
          [](Self& self, int mode) { self.combine_mode = static_cast<BidirectionalCombineMode>(mode); },
          "How the directions of a bidirectional layer are combined: 0 for none, 1 for add, 2 for concatenate.")
      .def_property_readonly("layer_count", &Self::layer_count)
      .def_property_readonly("form_count", &Self::form_count, "Number of executables in the cache.")
      .def_property_readonly("compiled", &Self::compiled, "Number of executables compiled so far.")
      .def(
          "encode_sequence",
          [steps](Self& self, const CommandBufferPointer& buffer, const py::object& sources,
                  const py::object& source_offsets, const py::object& destinations,
                  const py::object& destination_offsets, const std::optional<LayerStates>& input_state,
                  bool gives_states, bool images) {
            const Steps in = steps("sources", sources, source_offsets, images);
            const Steps out = steps("destinations", destinations, destination_offsets, images);
            const std::optional<RecurrentState> state = state_of(input_state);
            std::vector<RecurrentState> states;
            {
              const WithoutGil released;
              states = self.encode_sequence(open_buffer(buffer), in, out, state, gives_states);
            }
            py::typing::List<py::typing::List<py::tuple>> result;
            for (const RecurrentState& one : states) result.append(to_list_of_tuples(one));
            return result;
          },
          py::arg("command_buffer"), py::arg("sources"), py::arg("source_offsets"), py::arg("destinations"),
          py::arg("destination_offsets"), py::arg("input_state"), py::arg("gives_states"), py::arg("images"))
      .def(
          "encode_bidirectional_sequence",
          [steps](Self& self, const CommandBufferPointer& buffer, const py::object& sources, const py::object& forward,
                  const py::object& backward, bool images) {
            const Steps in = steps("sources", sources, py::none(), images);
            const Steps ahead = steps("forward destinations", forward, py::none(), images);
            const Steps back = steps("backward destinations", backward, py::none(), images);
            const WithoutGil released;
            self.encode_bidirectional_sequence(open_buffer(buffer), in, ahead, back);
          },
          py::arg("command_buffer"), py::arg("sources"), py::arg("forward"), py::arg("backward"), py::arg("images"));
}

}  // namespace

void define_nngraph_recurrent(Module& module) {
  define_matrices(module);
  define_recurrent_descriptor(module);
  define_training_layer(module);
  define_inference_layer(module);
}

}  // namespace mpsgraph::bindings
