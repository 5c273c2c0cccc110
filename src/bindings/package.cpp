// Packages: saving the named outputs of a graph, loading packages into Python graphs, and executables in the serialized
// form of a device.
#include "mpsgraph/runtime/package.h"
#include "bindings/bindings.h"
#include "mpsgraph/runtime/inference.h"
#include "mpsgraph/runtime/serialized_executable.h"

namespace mpsgraph::bindings {

namespace {

using runtime::NamedTensors;
using runtime::PackageContents;

NamedTensors to_named(const py::dict& tensors, std::string_view what) {
  NamedTensors result;
  for (auto [name, tensor] : tensors) {
    if (!py::isinstance<py::str>(name) || !py::isinstance<Tensor>(tensor))
      throw GraphError(cat("[save] ", what, " must map names to tensors, got ", shown(name), ": ", shown(tensor)));
    result.emplace_back(py::cast<std::string>(name), py::cast<Tensor*>(tensor));
  }
  return result;
}

py::dict to_dict(py::handle graph, const NamedTensors& tensors) {
  py::dict result;
  for (auto& [name, tensor] : tensors) result[py::str(name)] = to_object(graph, tensor);
  return result;
}

std::vector<runtime::PackageFunction> to_functions(const py::dict& functions) {
  std::vector<runtime::PackageFunction> result;
  for (auto [name, parts] : functions) {
    const auto three = py::cast<py::tuple>(parts);
    result.push_back({py::cast<std::string>(name), to_named(py::cast<py::dict>(three[0]), "inputs"),
                      to_named(py::cast<py::dict>(three[1]), "outputs"), py::cast<std::vector<Operation*>>(three[2])});
  }
  return result;
}

runtime::PackageTraining to_training(const py::dict& training) {
  return {py::cast<Tensor*>(training["step"]),
          py::cast<Tensor*>(training["first_update"]),
          py::cast<Tensor*>(training["last_row"]),
          py::cast<std::vector<Tensor*>>(training["tables"]),
          py::cast<int64_t>(training["every"]),
          py::cast<std::vector<std::string>>(training["rates"]),
          py::cast<std::vector<std::string>>(training["results"]),
          py::cast<std::string>(training["description"])};
}

void save(const std::string& path, const std::shared_ptr<Graph>& graph, const py::dict& inputs, const py::dict& outputs,
          const py::dict& parameters, const Sequence<Tensor>& trainable, runtime::DeviceGraph* values, bool locations,
          const py::dict& functions, const py::dict& training) {
  PackageContents contents{graph,
                           to_named(inputs, "inputs"),
                           to_named(outputs, "outputs"),
                           to_named(parameters, "parameters"),
                           to_tensors(trainable, "save"),
                           to_functions(functions)};
  if (!training.empty()) contents.training = to_training(training);
  py::gil_scoped_release release;
  runtime::save_package(path, contents, values, {.locations = locations});
}

py::dict package_functions(const PackageContents& self, py::handle graph) {
  py::dict result;
  for (const runtime::PackageFunction& function : self.functions) {
    py::list operations;
    for (Operation* operation : function.operations) operations.append(to_object(graph, operation));
    result[py::str(function.name)] =
        py::make_tuple(to_dict(graph, function.inputs), to_dict(graph, function.outputs), operations);
  }
  return result;
}

py::dict training_of(const PackageContents& self, py::handle graph) {
  py::dict result;
  if (!self.training) return result;
  py::list tables;
  for (Tensor* table : self.training->tables) tables.append(to_object(graph, table));
  result["step"] = to_object(graph, self.training->step);
  result["first_update"] = to_object(graph, self.training->first_update);
  result["last_row"] = to_object(graph, self.training->last_row);
  result["tables"] = tables;
  result["every"] = self.training->every;
  result["rates"] = self.training->rates;
  result["results"] = self.training->results;
  result["description"] = self.training->description;
  return result;
}

PackageContents load(const std::string& path, bool verify) {
  py::gil_scoped_release release;
  return runtime::load_package(path, {.verify = verify});
}

py::tuple prepare(const std::string& path, const Sequence<py::dict>& types, const py::object& device) {
  std::vector<std::map<std::string, TensorType>> of_inputs;
  for (py::handle one : types) {
    of_inputs.emplace_back();
    for (const auto& [name, type] : py::cast<py::dict>(one))
      of_inputs.back().emplace(py::cast<std::string>(name), to_tensor_type(type));
  }
  runtime::Device& on = to_device(device);
  runtime::Preparation made;
  {
    WithoutGil released;
    made = runtime::prepare_package(path, of_inputs, on);
  }
  return py::make_tuple(made.file.string(), made.made_for, made.constants, made.bytes);
}

PackageContents optimize_for_inference(const std::shared_ptr<Graph>& graph, const py::dict& inputs,
                                       const py::dict& outputs, const py::dict& parameters,
                                       const Sequence<py::tuple>& known, runtime::DeviceGraph* values) {
  const PackageContents contents{
      graph, to_named(inputs, "inputs"), to_named(outputs, "outputs"), to_named(parameters, "parameters"), {}};
  std::vector<std::pair<Tensor*, ConstantPtr>> constants;
  for (py::handle item : known) {
    const auto pair = py::cast<py::tuple>(item);
    constants.emplace_back(py::cast<Tensor*>(pair[0]), to_constant(pair[1]));
  }
  py::gil_scoped_release release;
  return runtime::optimize_for_inference(contents, values, constants);
}

py::typing::List<Tensor> tensors_to_quantize(const GraphObject& graph, const Sequence<Tensor>& outputs) {
  return to_list(graph, compiler::tensors_to_quantize(*graph, to_tensors(outputs, "quantize")));
}

PackageContents quantized(const std::shared_ptr<Graph>& graph, const py::dict& inputs, const py::dict& outputs,
                          const py::dict& parameters, const Sequence<py::tuple>& tensors, bool per_channel) {
  const PackageContents contents{
      graph, to_named(inputs, "inputs"), to_named(outputs, "outputs"), to_named(parameters, "parameters"), {}};
  std::unordered_map<const Tensor*, compiler::Quantized> how;
  for (py::handle item : tensors) {
    const auto four = py::cast<py::tuple>(item);
    how[py::cast<Tensor*>(four[0])] = {py::cast<double>(four[1]), py::cast<int64_t>(four[2]), to_dtype(four[3])};
  }
  py::gil_scoped_release release;
  return runtime::quantized(contents, how, per_channel);
}

using Self = std::shared_ptr<runtime::SerializedExecutable>;

py::typing::List<py::tuple> described(const std::vector<runtime::SerializedTensor>& tensors) {
  py::typing::List<py::tuple> result;
  for (const auto& tensor : tensors) result.append(py::make_tuple(tensor.name, to_object(tensor.type)));
  return result;
}

std::vector<runtime::NDArray> run_serialized(const Self& self, const Sequence<py::object>& inputs) {
  std::vector<runtime::NDArray> arrays;
  for (py::handle input : inputs) {
    if (arrays.size() == self->feeds().size())
      throw GraphError(cat("[run] inputs must have one array per feed (", self->feeds().size(), "), got more"));
    const auto& feed = self->feeds()[arrays.size()];
    arrays.push_back(to_ndarray(input, std::nullopt, feed.type.dtype, true, "feed " + feed.name));
  }
  WithoutGil released;
  return self->run(std::move(arrays));
}

void define_serialized_executable(Module& module) {
  Class<runtime::SerializedExecutable, Self>(
      module, "SerializedExecutable",
      "An executable read from a file that Executable.serialize() wrote; on device metal, an "
      "MPSGraphPackage.")
      .def(py::init([](const std::string& path, const py::object& device) {
             runtime::Device& on = to_device(device);
             WithoutGil released;
             return runtime::SerializedExecutable::load(path, on);
           }),
           py::arg("path"), py::arg("device") = py::none(),
           "Load a serialized executable. Raises PackageError if the package is missing or damaged, and "
           "UnsupportedError if the device has no serialized form.")
      .def_property_readonly(
          "feeds", [](const Self& self) { return described(self->feeds()); },
          "The (name, (dtype, shape)) of each feed.")
      .def_property_readonly(
          "targets", [](const Self& self) { return described(self->targets()); },
          "The (name, (dtype, shape)) of each target.")
      .def_property_readonly("device", &runtime::SerializedExecutable::device, py::return_value_policy::reference)
      .def("run", &run_serialized, py::arg("inputs"),
           R"(Run the executable and wait for the results.

Args:
    inputs: Arrays in the order of `feeds`.

Returns:
    A list of NDArrays in the order of `targets`.)");
}

}  // namespace

void define_package_contents(Module& module) {
  Class<PackageContents>(module, "PackageContents", "The contents of a package, from which one Graph can be created.")
      .def(py::init(&load), py::arg("path"), py::arg("verify") = true,
           "Load a package. Raises PackageError if it is damaged.")
      .def(
          "inputs", [](const PackageContents& self, py::handle graph) { return to_dict(graph, self.inputs); },
          py::arg("graph"),
          "Return the inputs of the Graph that was created from these contents: a dict of placeholders keyed by name.")
      .def(
          "outputs", [](const PackageContents& self, py::handle graph) { return to_dict(graph, self.outputs); },
          py::arg("graph"))
      .def(
          "parameters", [](const PackageContents& self, py::handle graph) { return to_dict(graph, self.parameters); },
          py::arg("graph"))
      .def(
          "trainable",
          [](const PackageContents& self, py::handle graph) {
            py::tuple result(self.trainable.size());
            for (size_t i = 0; i < self.trainable.size(); ++i) result[i] = to_object(graph, self.trainable[i]);
            return result;
          },
          py::arg("graph"))
      .def("functions", &package_functions, py::arg("graph"),
           "Return a dict of (inputs, outputs, operations) keyed by function name.")
      .def("training", &training_of, py::arg("graph"),
           "Return a description of the training steps that the functions form, empty if there are none.");
}

void define_package(Module& module) {
  module.def("save_package", &save, py::arg("path"), py::arg("graph").none(false), py::arg("inputs"),
             py::arg("outputs"), py::arg("parameters"), py::arg("trainable"), py::arg("values") = py::none(),
             py::arg("locations") = false, py::arg("functions") = py::dict(), py::arg("training") = py::dict(),
             "Write a package. `values` is the DeviceGraph that holds the variables' values; `functions` and "
             "`training` have the form that PackageContents returns.");
  module.def("optimize_for_inference", &optimize_for_inference, py::arg("graph").none(false), py::arg("inputs"),
             py::arg("outputs"), py::arg("parameters"), py::arg("known") = py::tuple(), py::arg("values") = py::none(),
             "Return the contents of an optimized graph. `known` are (placeholder, value) pairs.");
  module.def("tensors_to_quantize", &tensors_to_quantize, py::arg("graph"), py::arg("outputs"));
  module.def("quantized", &quantized, py::arg("graph").none(false), py::arg("inputs"), py::arg("outputs"),
             py::arg("parameters"), py::arg("tensors"), py::arg("per_channel"),
             "Return the contents of a quantized graph. `tensors` are (tensor, scale, zero_point, dtype).");
  module.def("prepare_package", &prepare, py::arg("path"), py::arg("types"), py::arg("device") = py::none(),
             "Add the device's preprocessed constants to a package. `types` is a sequence of dicts of types keyed by "
             "input name, one dict for each combination of input types. Return (file, engine and processor, number of "
             "constants, bytes).");
  define_serialized_executable(module);
}

}  // namespace mpsgraph::bindings
