// Custom operations defined from Python: shared libraries, and Python functions for shapes, gradients, thread counts,
// and kernels. The user interface is in python/mpsgraph/custom/.
#include "mpsgraph/core/custom.h"

#include <cstring>

#include "bindings/bindings.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/runtime/custom_library.h"

namespace mpsgraph::bindings {

namespace {

using Held = std::shared_ptr<PyObject>;

py::list to_objects(const std::vector<TensorType>& types) {
  py::list list;
  for (const TensorType& type : types) list.append(to_object(type));
  return list;
}

py::dict to_dict(const Attributes& attributes) {
  py::dict result;
  for (const auto& [name, value] : attributes.items()) result[py::str(name)] = to_object(value);
  return result;
}

std::vector<TensorType> call_infer(const Held& function, const CustomSite& site) {
  std::vector<TensorType> types;
  call_python([&] {
    const py::object given = py::handle(function.get())(to_objects(site.operands), to_dict(site.attributes));
    for (py::handle type : given) types.push_back(to_tensor_type(type));
  });
  return types;
}

std::vector<Tensor*> call_gradient(const Held& function, const CustomGradient& g) {
  std::vector<Tensor*> gradients;
  call_python([&] {
    const py::object graph = existing_object(g.operation.graph());
    py::list incoming, needed;
    for (size_t i = 0; i < g.incoming.size(); ++i) {
      Tensor* given = g.incoming[i];
      if (!given) given = Builder(g.operation.graph()).zeros_like(g.operation.output(i));
      incoming.append(to_object(graph, given));
    }
    for (const bool needs : g.needed) needed.append(needs);
    const py::object given = py::handle(function.get())(to_object(graph, &g.operation), incoming, needed);
    for (py::handle one : given) gradients.push_back(one.is_none() ? nullptr : py::cast<Tensor*>(one));
  });
  return gradients;
}

std::array<int64_t, 3> call_threads(const Held& function, const CustomSite& site) {
  std::array<int64_t, 3> threads{1, 1, 1};
  call_python([&] {
    const py::object given =
        py::handle(function.get())(to_objects(site.operands), to_objects(site.results), to_dict(site.attributes));
    const Dims dims = to_dims(given, "threads");
    if (dims.empty() || dims.size() > 3)
      throw ShapeError(cat("[", site.name, "] threads must return one to three numbers, got ", shown(given)));
    std::copy(dims.begin(), dims.end(), threads.begin());
  });
  return threads;
}

// Operands are copied, because the function may keep the arrays but the arena's memory is reused.
void call_kernel(const Held& function, const CustomSite& site, const std::byte* const* operands,
                 std::byte* const* results) {
  call_python([&] {
    py::list arrays;
    for (size_t i = 0; i < site.operands.size(); ++i) {
      const Dims& dims = site.operands[i].shape.dims();
      py::array array(to_numpy_dtype(site.operands[i].dtype), std::vector<py::ssize_t>(dims.begin(), dims.end()));
      if (array.nbytes() > 0) std::memcpy(array.mutable_data(), operands[i], static_cast<size_t>(array.nbytes()));
      arrays.append(array);
    }
    py::list dtypes;
    for (const TensorType& type : site.results) dtypes.append(to_numpy_dtype(type.dtype));
    const py::list given = py::handle(function.get())(arrays, to_dict(site.attributes), dtypes, site.where);
    if (py::len(given) != site.results.size())
      throw GraphError(cat("[", site.name, "] the kernel function must return ", site.results.size(), " array(s), got ",
                           py::len(given), ": ", site.where));
    for (size_t i = 0; i < site.results.size(); ++i) {
      const auto array = py::array::ensure(given[i], py::array::c_style);
      if (!array) throw py::error_already_set();
      const Dims dims(array.shape(), array.shape() + array.ndim());
      if (Shape(dims) != site.results[i].shape)
        throw ShapeError(cat("[", site.name, "] the kernel function must return result ", i,
                             " with the inferred shape ", site.results[i].shape, ", got ", to_string(dims), ": ",
                             site.where));
      if (array.nbytes() > 0) std::memcpy(results[i], array.data(), static_cast<size_t>(array.nbytes()));
    }
  });
}

// These names must equal the ones in python/mpsgraph/custom/description.py.
constexpr std::pair<AttributeKind, std::string_view> kind_words[] = {{AttributeKind::boolean, "boolean"},
                                                                     {AttributeKind::integer, "integer"},
                                                                     {AttributeKind::real, "real"},
                                                                     {AttributeKind::string, "string"},
                                                                     {AttributeKind::integers, "integers"}};

std::string_view word_of(AttributeKind kind) {
  for (const auto& [one, word] : kind_words)
    if (one == kind) return word;
  return "";
}

// Converts a tuple (name, kind, default) to the declaration of an attribute. `kind` is the name of an AttributeKind,
// and None as `default` means that the attribute has no default.
CustomOperation::AttributeOf to_attribute_spec(const py::tuple& given) {
  CustomOperation::AttributeOf made{py::cast<std::string>(given[0]), {}, {}};
  const auto kind = py::cast<std::string>(given[1]);
  bool found = false;
  for (const auto& [one, word] : kind_words) {
    if (word != kind) continue;
    made.kind = one;
    found = true;
  }
  if (!found) throw GraphError(cat("[custom] unknown attribute kind '", kind, "'"));
  if (!given[2].is_none()) {
    const py::object value = given[2];
    switch (made.kind) {
      case AttributeKind::boolean: made.default_value = py::cast<bool>(value); break;
      case AttributeKind::integer: made.default_value = to_size(value, made.name); break;
      case AttributeKind::real: made.default_value = py::cast<double>(value); break;
      case AttributeKind::string: made.default_value = py::cast<std::string>(value); break;
      default: made.default_value = to_dims(value, made.name);
    }
  }
  return made;
}

template <class T>
std::optional<Held> held(const T& object) {
  if (object.is_none()) return std::nullopt;
  return keep(object);
}

// Adds functions defined in Python to a registered operation, which may have been defined by a library.
void amend(CustomOperation& operation, const py::object& infer, const py::object& gradient, const py::object& threads,
           bool guard) {
  if (const auto function = held(infer))
    operation.infer = [f = *function](const CustomSite& site) { return call_infer(f, site); };
  if (const auto function = held(gradient))
    operation.gradient = [f = *function](const CustomGradient& g) { return call_gradient(f, g); };
  if (const auto function = held(threads); function && operation.metal)
    operation.metal->threads = [f = *function](const CustomSite& site) { return call_threads(f, site); };
  operation.guard = guard;
}

py::dict description_of(const CustomOperation& operation) {
  py::dict result;
  result["name"] = operation.name;
  result["key"] = operation.key;
  py::list attributes, dtypes;
  for (const auto& spec : operation.attributes)
    attributes.append(py::make_tuple(spec.name, std::string(word_of(spec.kind)),
                                     spec.default_value ? to_object(*spec.default_value) : py::none()));
  for (const auto& taken : operation.dtypes) {
    py::list one;
    for (const DType dtype : taken) one.append(to_object(dtype));
    dtypes.append(one);
  }
  result["attributes"] = attributes;
  result["dtypes"] = dtypes;
  result["operands"] = operation.operand_count;
  result["effect"] = operation.has_effect;
  result["cpu"] = static_cast<bool>(operation.kernel);
  result["metal"] = operation.metal.has_value();
  result["gradient"] = static_cast<bool>(operation.gradient);
  return result;
}

}  // namespace

void define_custom(Module& module) {
  module.def(
      "load_custom_library", [](const std::string& path) { return runtime::load_custom_library(path); },
      py::arg("path"), "Load a shared library, register its custom operations, and return their names and keys.");
  module.def(
      "amend_custom_operation",
      [](const std::string& name, const std::string& key, const py::object& infer, const py::object& gradient,
         const py::object& threads, bool guard) {
        CustomOperation operation = *custom_operation(name, key);
        amend(operation, infer, gradient, threads, guard);
        register_custom_operation(std::move(operation));
      },
      py::arg("name"), py::arg("key"), py::arg("infer"), py::arg("gradient"), py::arg("threads"), py::arg("guard"),
      "Set Python functions of a registered operation. A function that is None is not changed.");
  module.def(
      "register_custom_operation",
      [](const std::string& name, const std::string& key, const std::vector<py::tuple>& attributes,
         const std::vector<std::vector<py::object>>& dtypes, int operands, bool effect, const py::object& infer,
         const py::object& gradient, const py::object& threads, const std::optional<std::string>& metal,
         const std::string& function, const py::object& kernel) {
        CustomOperation operation;
        operation.name = name;
        operation.key = key;
        for (const py::tuple& one : attributes) operation.attributes.push_back(to_attribute_spec(one));
        for (const auto& taken : dtypes) {
          auto& made = operation.dtypes.emplace_back();
          for (const py::object& dtype : taken) made.push_back(to_dtype(dtype));
        }
        operation.operand_count = operands;
        operation.has_effect = effect;
        if (metal) operation.metal = {*metal, function, {}};
        amend(operation, infer, gradient, threads, false);
        if (const auto f = held(kernel)) {
          operation.runs_on_host = true;
          operation.kernel = [f = *f](const std::shared_ptr<const CustomSite>& site) -> CustomRun {
            return [=](const std::byte* const* from, std::byte* const* to, const CustomLoop&) {
              call_kernel(f, *site, from, to);
            };
          };
        }
        register_custom_operation(std::move(operation));
      },
      py::arg("name"), py::arg("key"), py::arg("attributes"), py::arg("dtypes"), py::arg("operands"), py::arg("effect"),
      py::arg("infer"), py::arg("gradient"), py::arg("threads"), py::arg("metal"), py::arg("function"),
      py::arg("kernel"),
      "Register an operation that needs no library, because its kernel is a Python function or a Metal kernel.");
  module.def(
      "custom_operation_description",
      [](const std::string& name, const std::string& key) { return description_of(*custom_operation(name, key)); },
      py::arg("name"), py::arg("key") = "",
      "Return the registry's entry for an operation. If the key is empty, return the newest entry of this name.");
}

}  // namespace mpsgraph::bindings
