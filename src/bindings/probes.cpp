// Bindings for the self-test only: probes of a device, and gradients computed by the automatic differentiation of the
// framework that the device uses.
#include "bindings/bindings.h"
#include "compiler/program.h"
#include "mpsgraph/runtime/executable.h"
#include "runtime/framework_oracle.h"

namespace mpsgraph::bindings {

using namespace runtime;

namespace {

std::vector<NDArray> apple_gradients(Device& device, const Graph& graph, const std::vector<Tensor*>& feeds,
                                     const std::vector<NDArray>& arrays, Tensor* of) {
  std::vector<std::pair<Tensor*, TensorType>> types;
  for (size_t i = 0; i < feeds.size(); ++i) types.emplace_back(feeds[i], arrays[i].type());
  compiler::Program program = compiler::specialize(graph, types, {of}, {});
  if (program.rest)
    throw UnsupportedError("the framework's own gradients do not support shapes that depend on run-time values");
  if (!program.variables.empty()) throw UnsupportedError("the framework's own gradients do not support variables");
  FrameworkOracle* const oracle = oracle_of(device);
  if (!oracle)
    throw UnsupportedError(
        cat("device ", device.name(), " does not use a framework with its own automatic differentiation"));
  return oracle->gradients(std::move(program), arrays);
}

}  // namespace

void define_probes(Module& module) {
  Class<Probe>(module, "Probe", "A question about a device that only a run on it can answer.")
      .def_readonly("name", &Probe::name)
      .def_readonly("question", &Probe::question)
      .def_readonly("method", &Probe::method, "How the probe determines the answer.")
      .def_readonly("meaning", &Probe::meaning, "What each answer implies for the code.")
      .def(
          "ask", [](const Probe& self) { return self.ask(); }, Released(),
          "Return the answer. If the device rejects the run, this raises or terminates the process.");

  module.def("compile_seconds", &runtime::compile_seconds,
             "Return the time in seconds that this process has spent compiling, for all graphs.");
  module.def(
      "probes",
      [](const py::object& device) {
        FrameworkOracle* const oracle = oracle_of(to_device(device));
        return oracle ? oracle->probes() : std::vector<Probe>{};
      },
      py::arg("device"), "Return the probes of a device.");
  module.def(
      "apple_gradients",
      [](const py::object& device, const Sequence<Tensor>& feeds, const Sequence<py::object>& arrays,
         const TensorObject& of) {
        const std::vector<Tensor*> placeholders = to_tensors(feeds, "feeds");
        std::vector<NDArray> given;
        for (py::handle array : arrays)
          given.push_back(to_ndarray(array, {}, placeholders.at(given.size())->dtype(), true, "feed"));
        if (given.size() != placeholders.size())
          throw GraphError(cat("arrays must have one array per feed (", placeholders.size(), "), got ", given.size()));
        py::typing::List<py::object> result;
        for (const NDArray& gradient : apple_gradients(to_device(device), of->graph(), placeholders, given, &*of))
          result.append(gradient.valid() ? py::cast(gradient) : py::none());
        return result;
      },
      py::arg("device"), py::arg("feeds"), py::arg("arrays"), py::arg("of"),
      "Return the gradients of `of` with respect to feeds, computed by the framework's own "
      "differentiation. The entry of a feed without a gradient is None.");
}

}  // namespace mpsgraph::bindings
