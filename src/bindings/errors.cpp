// The typed errors as Python exceptions, each also a subclass of the matching built-in exception.
#include "bindings/bindings.h"
#include "mpsgraph/core/check_error.h"

#include <new>

namespace mpsgraph::bindings {

namespace {

struct Exceptions {
  PyObject *error, *shape, *out_of_range, *check, *dtype, *graph, *unsupported, *device, *timeout, *checkpoint,
      *package;
};
Exceptions exceptions;  // Owned by the module and never released.

PyObject* define(py::module_& module, const char* name, const char* doc, std::vector<PyObject*> bases) {
  py::tuple tuple(bases.size());
  for (size_t i = 0; i < bases.size(); ++i) tuple[i] = py::reinterpret_borrow<py::object>(bases[i]);
  const std::string qualified = std::string("mpsgraph.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, tuple.ptr(), nullptr);
  if (!type) throw py::error_already_set();
  module.add_object(name, py::reinterpret_borrow<py::object>(type));
  return type;
}

// Returns the Python class for a C++ error, or null for errors of other libraries.
PyObject* class_of(const std::exception& error) {
  const auto is = [&]<class T>() { return dynamic_cast<const T*>(&error) != nullptr; };
  if (is.operator()<ShapeError>()) return exceptions.shape;
  if (is.operator()<OutOfRangeError>()) return exceptions.out_of_range;
  if (is.operator()<CheckError>()) return exceptions.check;
  if (is.operator()<DTypeError>()) return exceptions.dtype;
  if (is.operator()<GraphError>()) return exceptions.graph;
  if (is.operator()<PackageError>()) return exceptions.package;
  if (is.operator()<UnsupportedError>()) return exceptions.unsupported;
  if (is.operator()<TimeoutError>()) return exceptions.timeout;
  if (is.operator()<DeviceError>()) return exceptions.device;
  if (is.operator()<Error>()) return exceptions.error;
  return nullptr;
}

void set_error(const Error& error) {
  if (auto* from_python = dynamic_cast<const PythonError*>(&error)) {
    PyObject* exception = from_python->exception.get();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
  } else {
    PyErr_SetString(class_of(error), error.what());
  }
}

}  // namespace

py::object to_python_exception(const std::exception_ptr& error) {
  if (!error) return py::none();
  try {
    std::rethrow_exception(error);
  } catch (const PythonError& e) {
    return py::reinterpret_borrow<py::object>(e.exception.get());
  } catch (const std::exception& e) {
    PyObject* type = class_of(e);
    return py::reinterpret_borrow<py::object>(type ? type : PyExc_RuntimeError)(e.what());
  } catch (...) {
    return py::reinterpret_borrow<py::object>(PyExc_RuntimeError)("unknown error");
  }
}

std::string message_of(const py::error_already_set& error) {
  return cat(py::cast<std::string>(error.type().attr("__name__")), ": ", py::cast<std::string>(py::str(error.value())));
}

void define_errors(py::module_& module) {
  auto& e = exceptions;
  e.error = define(module, "Error", "Every error that mpsgraph raises.", {PyExc_Exception});
  e.shape = define(module, "ShapeError", "Ranks, dimensions, sizes, axes.", {e.error, PyExc_ValueError});
  e.out_of_range = define(module, "OutOfRangeError", "Indices, labels, lengths outside of what they count.",
                          {e.error, PyExc_IndexError});
  e.check = define(module, "CheckError", "A check of a run that did not hold.", {e.error, PyExc_AssertionError});
  e.dtype = define(module, "DTypeError", "Element types that do not match.", {e.error, PyExc_TypeError});
  e.graph = define(module, "GraphError", "Structure: foreign tensors, feeds, names, attributes, text.",
                   {e.error, PyExc_ValueError});
  e.unsupported =
      define(module, "UnsupportedError", "Valid, but not possible here.", {e.error, PyExc_NotImplementedError});
  e.device = define(module, "DeviceError", "The run itself: memory, queues, command buffers, fork.",
                    {e.error, PyExc_RuntimeError});
  e.timeout = define(module, "TimeoutError", "What did not come in time.", {e.device, PyExc_TimeoutError});
  e.checkpoint = define(module, "CheckpointError", "A damaged or foreign checkpoint.", {e.error, PyExc_ValueError});
  e.package = define(module, "PackageError", "A damaged or foreign package.", {e.error, PyExc_ValueError});
  py::register_exception_translator([](std::exception_ptr pointer) {
    if (!pointer) return;
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      set_error(error);
    } catch (const std::bad_alloc&) {
      PyErr_SetString(exceptions.device, "the system gives no more memory: use smaller shapes");
    }
  });
}

}  // namespace mpsgraph::bindings
