// Conversion of element types, sizes, shapes, and attributes between Python and the core.
#include <array>
#include <limits>

#include "bindings/bindings.h"
#include "core/definition.h"
#include "core/exact_numbers.h"
#include "mpsgraph/core/custom.h"

namespace mpsgraph::bindings {

namespace {

std::array<PyObject*, dtype_count> dtype_objects;  // The references are never released.

std::string known_dtypes() {
  std::string names;
  for (int i = 0; i < dtype_count; ++i) names += (i ? ", " : "") + std::string(name(static_cast<DType>(i)));
  return names;
}

// Returns ml_dtypes.bfloat16 as a dtype, or null if the package is not installed.
PyObject* ml_bfloat16() {
  static PyObject* const dtype = []() -> PyObject* {
    try {
      return py::dtype::from_args(py::module_::import("ml_dtypes").attr("bfloat16")).release().ptr();
    } catch (py::error_already_set&) {
      return nullptr;
    }
  }();
  return dtype;
}

constexpr size_t longest_word = 200;  // Maximum length of strings that name an option or a symbol.

[[noreturn]] void attribute_error(std::string_view kind, const std::string& attribute, std::string_view expected,
                                  py::handle value) {
  throw GraphError(cat("[", kind, "] attribute ", attribute, " must be ", expected, ", got ", shown(value)));
}

// Returns an integer of up to 64 bits exactly, or nothing for other objects and larger integers.
std::optional<Attribute> exact_integer(py::handle value) {
  if (!PyIndex_Check(value.ptr())) return {};
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!number) throw py::error_already_set();
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0) return exact_real(int64_t{small});
  const unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(number.ptr()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    return {};
  }
  return exact_real(uint64_t{large});
}

Attribute to_attribute(std::string_view kind, const std::string& attribute, AttributeKind wanted, py::handle value) {
  const auto what = [&] { return cat("[", kind, "] ", attribute); };
  switch (wanted) {
    case AttributeKind::boolean:
      if (!PyBool_Check(value.ptr())) attribute_error(kind, attribute, "True or False", value);
      return value.ptr() == Py_True;
    case AttributeKind::integer: return to_size(value, what());
    case AttributeKind::real:
      if (keeps_integers(attribute)) {
        if (const std::optional<Attribute> integer = exact_integer(value)) return *integer;
      }
      if (!PyFloat_Check(value.ptr()) && !PyIndex_Check(value.ptr())) {
        if (PyNumber_Check(value.ptr()) == 0) attribute_error(kind, attribute, "a number", value);
      }
      try {
        return py::cast<double>(py::float_(py::reinterpret_borrow<py::object>(value)));
      } catch (py::error_already_set&) {
        attribute_error(kind, attribute, "a number", value);
      }
    case AttributeKind::string:
      if (!py::isinstance<py::str>(value)) attribute_error(kind, attribute, "a string", value);
      if (py::len(value) > longest_word) attribute_error(kind, attribute, "a word", value);
      return py::cast<std::string>(value);
    case AttributeKind::integers: return to_dims(value, what());
    case AttributeKind::dtype: return to_dtype(value);
    case AttributeKind::data: return to_constant(value);
    case AttributeKind::type: return to_tensor_type(value);
    case AttributeKind::types: {
      Types types;
      if (!py::isinstance<py::iterable>(value)) attribute_error(kind, attribute, "a list of types", value);
      for (py::handle item : value) types.push_back(to_tensor_type(item));
      return types;
    }
  }
  throw GraphError("unknown attribute kind");
}

}  // namespace

// --- element types ---------------------------------------------------------------------------------------------------

void define_types(Module& module) {
  Class<ElementType>(module, "DType", "The element type of a tensor, for example mpsgraph.float32.")
      .def(py::init([](py::handle value) { return ElementType{to_dtype(value)}; }), py::arg("dtype"),
           "Creates a DType from a name, a numpy dtype, or another DType. Raises DTypeError for anything "
           "else.")
      .def_property_readonly("name", [](ElementType self) { return std::string(name(self.dtype)); })
      .def_property_readonly(
          "itemsize", [](ElementType self) { return size_of(self.dtype); }, "Size of an element in bytes.")
      .def_property_readonly(
          "numpy", [](ElementType self) { return to_numpy_dtype(self.dtype); },
          "The numpy dtype. For bfloat16, ml_dtypes.bfloat16, or uint16 if ml_dtypes is not installed.")
      .def_property_readonly("is_float", [](ElementType self) { return is_float(self.dtype); })
      .def_property_readonly("is_complex", [](ElementType self) { return is_complex(self.dtype); })
      .def_property_readonly("is_integer", [](ElementType self) { return is_integer(self.dtype); })
      .def_property_readonly("is_signed", [](ElementType self) { return is_signed(self.dtype); })
      .def("__repr__", [](ElementType self) { return std::string(name(self.dtype)); })
      .def("__hash__", [](ElementType self) { return static_cast<int>(self.dtype); })
      .def("__eq__",
           [](ElementType self, const py::object& other) {
             return py::isinstance<ElementType>(other) && py::cast<ElementType>(other).dtype == self.dtype;
           })
      .def("__reduce__", [](ElementType self) {
        return py::make_tuple(py::type::of<ElementType>(), py::make_tuple(std::string(name(self.dtype))));
      });
  for (int i = 0; i < dtype_count; ++i) {
    const auto value = static_cast<DType>(i);
    dtype_objects[i] = py::cast(ElementType{value}).release().ptr();
    const std::string attribute = value == DType::boolean ? "bool_" : std::string(name(value));
    module.attr(attribute.c_str()) = py::handle(dtype_objects[i]);
  }
}

DTypeObject to_object(DType dtype) {
  return py::reinterpret_borrow<DTypeObject>(dtype_objects[static_cast<int>(dtype)]);
}

std::optional<DType> from_numpy_dtype(const py::dtype& dtype) {
  const auto size = dtype.itemsize();
  const auto any = [&](std::initializer_list<DType> candidates) -> std::optional<DType> {
    for (DType candidate : candidates)
      if (static_cast<py::ssize_t>(size_of(candidate)) == size) return candidate;
    return {};
  };
  switch (dtype.kind()) {
    case 'f': return any({DType::float32, DType::float16, DType::float64});
    case 'i': return any({DType::int32, DType::int64, DType::int8, DType::int16});
    case 'u': return any({DType::uint8, DType::uint16, DType::uint32, DType::uint64});
    case 'c': return any({DType::complex64, DType::complex128});
    case 'b': return DType::boolean;
    case 'V':
      if (size == 2 && py::cast<std::string>(dtype.attr("name")) == "bfloat16") return DType::bfloat16;
      return {};
    default: return {};
  }
}

py::dtype to_numpy_dtype(DType dtype) {
  static std::array<PyObject*, dtype_count> cache{};
  PyObject*& cached = cache[static_cast<int>(dtype)];
  if (!cached) {
    if (dtype == DType::bfloat16)
      cached = ml_bfloat16() ? ml_bfloat16() : py::dtype("uint16").release().ptr();
    else
      cached = py::dtype(std::string(name(dtype))).release().ptr();
  }
  return py::reinterpret_borrow<py::dtype>(cached);
}

DType to_dtype(py::handle object) {
  if (py::isinstance<ElementType>(object)) return py::cast<ElementType>(object).dtype;
  if (py::isinstance<py::str>(object))
    if (auto known = dtype_from_name(py::cast<std::string>(object))) return *known;
  if (!object.is_none()) {
    try {
      if (auto known = from_numpy_dtype(py::dtype::from_args(py::reinterpret_borrow<py::object>(object))))
        return *known;
    } catch (py::error_already_set&) {}
  }
  throw DTypeError(cat("dtype must be one of ", known_dtypes(), ", got ", shown(object)));
}

// --- sizes and shapes ------------------------------------------------------------------------------------------------

int64_t to_size(py::handle object, std::string_view what) {
  if (!PyIndex_Check(object.ptr()) || PyBool_Check(object.ptr()))
    throw ShapeError(cat(what, " must be an integer, got ", shown(object)));
  auto index = py::reinterpret_steal<py::object>(PyNumber_Index(object.ptr()));
  if (!index) throw py::error_already_set();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow) throw ShapeError(cat(what, " must fit in 64 bits, got ", shown(object)));
  return value;
}

Dims to_dims(py::handle object, std::string_view what) {
  if (PyIndex_Check(object.ptr()) && !py::isinstance<py::array>(object)) return {to_size(object, what)};
  const bool unordered = PyDict_Check(object.ptr()) || PyAnySet_Check(object.ptr()) || PyBytes_Check(object.ptr());
  if (!py::isinstance<py::iterable>(object) || py::isinstance<py::str>(object) || unordered)
    throw ShapeError(cat(what, " must be a sequence of integers, got ", shown(object)));
  Dims dims;
  for (py::handle item : object) dims.push_back(to_size(item, what));
  return dims;
}

Shape to_shape(py::handle object, std::string_view what) {
  return object.is_none() ? Shape() : Shape(to_dims(object, what));
}

py::object to_object(const Shape& shape) {
  if (!shape.ranked()) return py::none();
  py::tuple result(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) result[i] = shape[i];
  return result;
}

TensorType to_tensor_type(py::handle object) {
  if (!py::isinstance<py::tuple>(object) || py::len(object) != 2)
    throw GraphError(cat("a type must be a pair (dtype, shape), got ", shown(object)));
  auto pair = py::reinterpret_borrow<py::tuple>(object);
  return {to_dtype(pair[0]), to_shape(pair[1], "shape")};
}

py::tuple to_object(const TensorType& type) { return py::make_tuple(to_object(type.dtype), to_object(type.shape)); }

// --- attributes ------------------------------------------------------------------------------------------------------

// In addition to its own attributes, an operation of kind `custom` has the attributes of the user's operation, which
// the registry stores.
static Attributes to_custom_attributes(const OperationDefinition& definition, const py::dict& values) {
  const auto word = [&](const char* key) {
    return values.contains(key) ? py::cast<std::string>(py::str(values[key])) : std::string();
  };
  const CustomOperationPtr custom = custom_operation(word("operation"), word("key"));
  Attributes result;
  for (auto [key, value] : values) {
    const auto attribute = py::cast<std::string>(key);
    const auto own = std::ranges::find(definition.attributes, std::string_view(attribute), &AttributeSpec::name);
    const auto theirs = std::ranges::find(custom->attributes, attribute, &CustomOperation::AttributeOf::name);
    if (own == definition.attributes.end() && theirs == custom->attributes.end()) {
      std::string known;
      for (const auto& one : custom->attributes) known += (known.empty() ? "" : ", ") + one.name;
      throw GraphError(cat("[", custom->name, "] unknown attribute ", attribute, ": this operation has ",
                           known.empty() ? "no attributes" : "the attributes " + known));
    }
    const AttributeKind kind = theirs == custom->attributes.end() ? own->kind : theirs->kind;
    result.set(attribute, to_attribute(custom->name, attribute, kind, value));
  }
  return result;
}

Attributes to_attributes(Kind kind, const py::dict& values) {
  const OperationDefinition& definition = definition_of(kind);
  if (!definition.complete || !values.contains("operation")) return to_attributes(kind, definition.attributes, values);
  return to_custom_attributes(definition, values);
}

Attributes to_attributes(std::string_view kind, const std::vector<AttributeSpec>& specs, const py::dict& values) {
  Attributes result;
  for (auto [key, value] : values) {
    const auto attribute = py::cast<std::string>(key);
    const auto spec = std::ranges::find(specs, std::string_view(attribute), &AttributeSpec::name);
    if (spec == specs.end()) {
      std::string known;
      for (auto& other : specs) known += (known.empty() ? "" : ", ") + std::string(other.name);
      throw GraphError(cat("[", kind, "] unknown attribute ", attribute, ": this operation has ",
                           known.empty() ? "no attributes" : "the attributes " + known));
    }
    result.set(attribute, to_attribute(kind, attribute, spec->kind, value));
  }
  return result;
}

py::object to_object(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> py::object {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, DType> || std::is_same_v<T, TensorType>)
          return to_object(value);
        else if constexpr (std::is_same_v<T, ConstantPtr>)
          return py::cast(std::const_pointer_cast<ConstantData>(value));
        else if constexpr (std::is_same_v<T, Types>) {
          py::list list;
          for (const TensorType& type : value) list.append(to_object(type));
          return list;
        } else {
          return py::cast(value);
        }
      },
      attribute);
}

}  // namespace mpsgraph::bindings
