// The legacy MPSNNGraph API: parameter states, and the optimizers that encode updates.
#include "bindings/nngraph.h"
#include "mpsgraph/runtime/command_queue.h"
#include "nngraph/backend.h"
#include "nngraph/optimizer.h"
#include "nngraph/transaction.h"

namespace mpsgraph::bindings {

using namespace nngraph;
using runtime::CommandBuffer;
using runtime::NDArray;

namespace {

// --- states and optimizers -------------------------------------------------------------------------------------------

py::object to_python(const NDArray* array) { return array ? py::cast(*array) : py::object(py::none()); }

void require_written(const ParameterState& state) {
  const auto buffer = state.written_by.lock();
  if (!buffer) return;
  using enum runtime::CommandBufferStatus;  // The status is used instead of done(), which would also wait for handlers.
  if (const auto status = buffer->status(); status != completed && status != error)
    throw DeviceError("the command buffer that writes this state has not completed; wait for it first");
}

StatePtr to_state(const py::dict& arrays) {
  std::vector<NamedArray> named;
  for (const auto& [key, value] : arrays)
    if (!value.is_none())
      named.push_back({py::cast<std::string>(key), to_ndarray(value, false, DType::float32, true, "a state's array")});
  return std::make_shared<ParameterState>(std::move(named));
}

// Encodes one update for each array that both `gradients` and `source` contain. Values and moments are written in place
// when the command buffer runs.
void encode_step(const std::shared_ptr<Optimizer>& optimizer, CommandBuffer& buffer,
                 const std::vector<NDArray>& gradients, const std::vector<NDArray>& values,
                 const std::vector<std::vector<NDArray>>& moments, const std::vector<NDArray>& results) {
  if (gradients.size() != values.size() || results.size() != values.size())
    throw GraphError(cat(optimizer->name(), ": the numbers of gradients (", gradients.size(), "), values (",
                         values.size(), "), and results (", results.size(), ") must be equal"));
  if (moments.size() != optimizer->moments().size())
    throw GraphError(cat(optimizer->name(), " needs ", optimizer->moments().size(),
                         " moment(s) for each parameter, got ", moments.size()));
  for (const auto& arrays : moments)
    if (arrays.size() != values.size())
      throw GraphError(cat(optimizer->name(), ": each moment must have one array per parameter, got ", arrays.size(),
                           " array(s) for ", values.size(), " parameter(s)"));
  std::vector<std::vector<NDArray>> written;
  for (size_t i = 0; i < values.size(); ++i) {  // All arrays are validated before any is encoded.
    if (gradients[i].dims() != values[i].dims())
      throw ShapeError(cat(optimizer->name(), ": the gradient must have the shape of the values, got gradient ",
                           gradients[i].type(), " for values ", values[i].type()));
    std::vector<NDArray> kept{results[i]};
    for (const auto& arrays : moments) kept.push_back(arrays[i]);
    for (const NDArray& array : kept) {
      if (array.dims() != values[i].dims() || array.dtype() != DType::float32)
        throw ShapeError(cat(optimizer->name(), ": results and moments must be float32 with the shape of the values, ",
                             "got ", array.type(), " for values ", values[i].type()));
      if (!array.writable()) throw DeviceError(cat(optimizer->name(), ": results and moments must be writable"));
    }
    written.push_back(std::move(kept));
  }
  const NodeBackend* backend = find_node_backend(buffer.queue().device().name());
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<NDArray> given(written[i].begin() + 1, written[i].end());
    if (backend) {
      backend->encode_step(*optimizer, buffer, {gradients[i], values[i], given, results[i]});
      continue;
    }
    std::vector<NDArray> made = optimizer->encode(buffer, buffer.queue().device(), values[i], gradients[i], given);
    buffer.encode(
        [made = std::move(made), kept = std::move(written[i])]() mutable {
          for (size_t k = 0; k < kept.size(); ++k) kept[k].copy_from(made[k]);
        },
        cat(optimizer->name(), " update"));
  }
  EncodeTransaction::on_failure([optimizer, before = optimizer->time_step()] { optimizer->set_time_step(before); });
  optimizer->advance();
}

OptimizerDescriptor to_optimizer_descriptor(double rate, double rescale, std::optional<std::pair<double, double>> clip,
                                            const std::string& type, double scale) {
  OptimizerDescriptor d;
  d.learning_rate = rate, d.gradient_rescale = rescale, d.regularization_scale = scale;
  if (clip) {
    d.apply_gradient_clipping = true;
    d.gradient_clip_min = clip->first, d.gradient_clip_max = clip->second;
    if (!(clip->first <= clip->second))
      throw GraphError(cat("gradient_clip must be (minimum, maximum) with minimum <= maximum, got (", clip->first, ", ",
                           clip->second, ")"));
  }
  using Regularization = OptimizerDescriptor::Regularization;
  if (type == "none")
    d.regularization_type = Regularization::none;
  else if (type == "l1")
    d.regularization_type = Regularization::l1;
  else if (type == "l2")
    d.regularization_type = Regularization::l2;
  else
    throw GraphError(cat("regularization_type must be none, l1 or l2, got ", type));
  return d;
}

void define_states(Module& module) {
  Class<ParameterState, StatePtr>(module, "NNParameterState",
                                  "Named parameters, gradients, or statistics of a batch or of a data source.")
      .def(py::init(&to_state), py::arg("arrays"), "Create a state over float32 arrays, which are not copied.")
      .def_property_readonly("names",
                             [](const ParameterState& self) {
                               py::typing::List<py::str> names;
                               for (const NamedArray& named : self.arrays) names.append(py::str(named.name));
                               return names;
                             })
      .def(
          "array", [](ParameterState& self, const std::string& name) { return to_python(self.find(name)); },
          py::arg("name"), "Return the array with this name, which may not be written yet; None if there is none.")
      .def(
          "read",
          [](ParameterState& self, const std::string& name) {
            require_written(self);
            return to_python(self.find(name));
          },
          py::arg("name"),
          "Return the array with this name, or None. Raises DeviceError if the command buffer that writes "
          "it has not completed.")
      .def(
          "array_for",
          [](ParameterState& self, const std::string& name, const std::shared_ptr<CommandBuffer>& buffer) {
            const auto writer = self.written_by.lock();
            if (writer && &writer->queue() != &buffer->queue()) require_written(self);
            return to_python(self.find(name));
          },
          py::arg("name"), py::arg("command_buffer").none(false),
          "Return the array with this name, or None, for use in a command buffer. Earlier work on the same "
          "queue may still have to write it.");
}

using Clip = std::optional<std::pair<double, double>>;

void define_optimizers(Module& module) {
  Class<Optimizer, std::shared_ptr<Optimizer>>(module, "NNOptimizer", "An optimizer of the legacy MPSNNGraph API.")
      .def_property(
          "learning_rate", [](const Optimizer& self) { return self.descriptor.learning_rate; },
          [](Optimizer& self, double rate) { self.descriptor.learning_rate = rate; })
      .def_property("time_step", &Optimizer::time_step, &Optimizer::set_time_step)
      .def_property_readonly("moments",
                             [](const Optimizer& self) {
                               py::typing::List<py::str> names;
                               for (std::string_view name : self.moments()) names.append(py::str(std::string(name)));
                               return names;
                             })
      .def(
          "encode_arrays",
          [](const std::shared_ptr<Optimizer>& self, const std::shared_ptr<CommandBuffer>& buffer,
             const std::vector<NDArray>& gradients, const std::vector<NDArray>& values,
             const std::vector<std::vector<NDArray>>& moments,
             const std::vector<NDArray>& results) { encode_step(self, *buffer, gradients, values, moments, results); },
          py::arg("command_buffer"), py::arg("gradients"), py::arg("values"), py::arg("moments"), py::arg("results"));
  Class<StochasticGradientDescent, Optimizer, std::shared_ptr<StochasticGradientDescent>>(module, "NNSGD")
      .def(py::init([](double rate, double momentum, bool nesterov, double rescale, Clip clip, const std::string& type,
                       double scale) {
             return std::make_shared<StochasticGradientDescent>(
                 to_optimizer_descriptor(rate, rescale, clip, type, scale), momentum, nesterov);
           }),
           py::arg("learning_rate"), py::arg("momentum_scale"), py::arg("use_nesterov_momentum"),
           py::arg("gradient_rescale"), py::arg("gradient_clip"), py::arg("regularization_type"),
           py::arg("regularization_scale"))
      .def_readonly("momentum_scale", &StochasticGradientDescent::momentum_scale)
      .def_readonly("use_nesterov_momentum", &StochasticGradientDescent::use_nesterov_momentum);
  Class<RMSProp, Optimizer, std::shared_ptr<RMSProp>>(module, "NNRMSProp")
      .def(py::init([](double rate, double decay, double epsilon, double rescale, Clip clip, const std::string& type,
                       double scale) {
             return std::make_shared<RMSProp>(to_optimizer_descriptor(rate, rescale, clip, type, scale), decay,
                                              epsilon);
           }),
           py::arg("learning_rate"), py::arg("decay"), py::arg("epsilon"), py::arg("gradient_rescale"),
           py::arg("gradient_clip"), py::arg("regularization_type"), py::arg("regularization_scale"))
      .def_readonly("decay", &RMSProp::decay)
      .def_readonly("epsilon", &RMSProp::epsilon);
  Class<Adam, Optimizer, std::shared_ptr<Adam>>(module, "NNAdam")
      .def(py::init([](double rate, double beta1, double beta2, double epsilon, int64_t step, bool amsgrad,
                       double rescale, Clip clip, const std::string& type, double scale) {
             return std::make_shared<Adam>(to_optimizer_descriptor(rate, rescale, clip, type, scale), beta1, beta2,
                                           epsilon, step, amsgrad);
           }),
           py::arg("learning_rate"), py::arg("beta1"), py::arg("beta2"), py::arg("epsilon"), py::arg("time_step"),
           py::arg("amsgrad"), py::arg("gradient_rescale"), py::arg("gradient_clip"), py::arg("regularization_type"),
           py::arg("regularization_scale"))
      .def_readonly("beta1", &Adam::beta1)
      .def_readonly("beta2", &Adam::beta2)
      .def_readonly("epsilon", &Adam::epsilon);
}

}  // namespace

void define_nngraph_states(Module& module) {
  define_states(module);
  define_optimizers(module);
}

}  // namespace mpsgraph::bindings
