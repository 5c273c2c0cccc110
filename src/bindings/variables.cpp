// Access to the variables of a DeviceGraph.
#include "bindings/bindings.h"

namespace mpsgraph::bindings {

using namespace runtime;

void define_variable_access(DeviceGraphClass& graph) {
  graph
      .def("variable_value", &DeviceGraph::variable_value, py::arg("variable").none(false), Released(),
           "Return a copy of a variable's value, after all work that was committed to the device's default "
           "queue.")
      .def(
          "variable_values",
          [](DeviceGraph& self, const Sequence<Tensor>& variables) {
            const auto tensors = to_tensors(variables, "variables");
            std::vector<NDArray> values;
            {
              WithoutGil released;
              values = self.variable_values(tensors);
            }
            py::typing::List<NDArray> list;
            for (const NDArray& value : values) list.append(py::cast(value));
            return list;
          },
          py::arg("variables"),
          "Return copies of the values of variables, in their order, after all work that was committed to the device's "
          "default queue. The Metal device copies all of them in one program.")
      .def_property_readonly(
          "exclusive_accesses", &DeviceGraph::exclusive_accesses,
          "The number of runs that assigned variables, of accesses to variables from the host, and of compilations. "
          "While it does not change, no variable changes.")
      .def(
          "set_variables",
          [](DeviceGraph& self, const py::typing::Dict<Tensor, py::object>& values) {
            std::vector<std::pair<Tensor*, NDArray>> arrays;
            for (auto [key, value] : values) {
              if (!py::isinstance<Tensor>(key))
                throw GraphError(cat("[set_variables] values must map variables to arrays, got the key ", shown(key)));
              auto* variable = py::cast<Tensor*>(key);
              arrays.emplace_back(variable, to_ndarray(py::reinterpret_borrow<py::object>(value), {}, variable->dtype(),
                                                       false, "the value of " + variable->name()));
            }
            WithoutGil released;
            self.set_variables(arrays);
          },
          py::arg("values"),
          "Set the values of variables, given as a dict of arrays keyed by variable. Nothing changes unless all values "
          "fit. The Metal device copies all of them in one program.")
      .def(
          "set_variable",
          [](DeviceGraph& self, Tensor& variable, const py::object& value) {
            const NDArray array = to_ndarray(value, {}, variable.dtype(), false, "the value of " + variable.name());
            WithoutGil released;
            self.set_variable(&variable, array);
          },
          py::arg("variable"), py::arg("value"));
}

}  // namespace mpsgraph::bindings
