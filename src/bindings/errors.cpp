// The typed errors as Python exceptions, each also a subclass of the matching built-in exception.
#include "bindings/bindings.h"
#include "mpsgraph/core/check_error.h"

#include <filesystem>
#include <new>
#include <system_error>

namespace mpsgraph::bindings {

namespace {

struct Exceptions {
  PyObject *error, *shape, *out_of_range, *check, *dtype, *graph, *unsupported, *device, *timeout, *cancelled, *memory,
      *checkpoint, *package, *limit;
};
Exceptions exceptions;  // Owned by the module and never released.

PyObject* define(Module& module, const char* name, const char* doc, std::vector<PyObject*> bases) {
  py::tuple tuple(bases.size());
  for (size_t i = 0; i < bases.size(); ++i) tuple[i] = py::reinterpret_borrow<py::object>(bases[i]);
  const std::string qualified = std::string("mpsgraph.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, tuple.ptr(), nullptr);
  if (!type) throw py::error_already_set();
  module.add_object(name, py::reinterpret_borrow<py::object>(type));
  return type;
}

// Returns the Python class for an error of this library, or null for other C++ exceptions.
PyObject* class_of(const std::exception& error) {
  const auto is = [&]<class T>() { return dynamic_cast<const T*>(&error) != nullptr; };
  if (is.operator()<ShapeError>()) return exceptions.shape;
  if (is.operator()<OutOfRangeError>()) return exceptions.out_of_range;
  if (is.operator()<CheckError>()) return exceptions.check;
  if (is.operator()<DTypeError>()) return exceptions.dtype;
  if (is.operator()<GraphError>()) return exceptions.graph;
  if (is.operator()<PackageError>()) return exceptions.package;
  if (is.operator()<UnsupportedError>()) return exceptions.unsupported;
  if (is.operator()<LimitError>()) return exceptions.limit;
  if (is.operator()<TimeoutError>()) return exceptions.timeout;
  if (is.operator()<CancelledError>()) return exceptions.cancelled;
  if (is.operator()<OutOfMemoryError>() || is.operator()<std::bad_alloc>()) return exceptions.memory;
  if (is.operator()<DeviceError>()) return exceptions.device;
  if (is.operator()<Error>()) return exceptions.error;
  if (is.operator()<std::filesystem::filesystem_error>()) return exceptions.package;
  if (is.operator()<std::system_error>()) return exceptions.device;
  return nullptr;
}

// Returns a message as a Python string. A message can quote a damaged file: bytes that are not UTF-8 become escapes.
py::object text_of(std::string_view message) {
  PyObject* text = PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace");
  if (!text) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(text);
}

// This function must not be named message_of, too, because it would then hide the function of that name below in all
// files of this unity build.
py::object python_message_of(const std::exception& error) {
  const bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return text_of(memory ? "out of memory: use smaller shapes or batches" : error.what());
}

void set_error(const std::exception& error) {
  if (auto* from_python = dynamic_cast<const PythonError*>(&error)) {
    PyObject* exception = from_python->exception.get();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
  } else {
    PyErr_SetObject(class_of(error), python_message_of(error).ptr());
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
    return py::reinterpret_borrow<py::object>(type ? type : PyExc_RuntimeError)(python_message_of(e));
  } catch (...) {
    return py::reinterpret_borrow<py::object>(PyExc_RuntimeError)("unknown error");
  }
}

std::string message_of(const py::error_already_set& error) {
  return cat(py::cast<std::string>(error.type().attr("__name__")), ": ", py::cast<std::string>(py::str(error.value())));
}

void define_errors(Module& module) {
  auto& e = exceptions;
  e.error = define(module, "Error", "Base class of the errors that mpsgraph raises.", {PyExc_Exception});
  e.shape = define(module, "ShapeError", "Raised when ranks, sizes, or axes do not match or are out of range.",
                   {e.error, PyExc_ValueError});
  e.out_of_range =
      define(module, "OutOfRangeError", "Raised when an index, a class number, or a length is out of range.",
             {e.error, PyExc_IndexError});
  e.check = define(module, "CheckError", "Raised when a check fails during a run.", {e.error, PyExc_AssertionError});
  e.dtype = define(module, "DTypeError", "Raised when element types do not match or are not supported.",
                   {e.error, PyExc_TypeError});
  e.graph =
      define(module, "GraphError",
             "Raised for invalid graphs and arguments, such as tensors of another graph, unknown names, or invalid "
             "text.",
             {e.error, PyExc_ValueError});
  e.unsupported =
      define(module, "UnsupportedError", "Raised when a device does not support an operation that is otherwise valid.",
             {e.error, PyExc_NotImplementedError});
  e.device = define(module, "DeviceError",
                    "Raised when a run or a device fails, for example for lack of memory or after a fork.",
                    {e.error, PyExc_RuntimeError});
  e.timeout = define(module, "TimeoutError", "Raised when an event or a command buffer does not complete in time.",
                     {e.device, PyExc_TimeoutError});
  e.cancelled =
      define(module, "CancelledError", "Raised when a run was cancelled; variables keep their values.", {e.device});
  e.memory =
      define(module, "OutOfMemoryError", "Raised when there is not enough memory.", {e.device, PyExc_MemoryError});
  e.limit = define(module, "LimitError", "Raised when a graph or a file exceeds a limit set with mpsgraph.limits.",
                   {e.error, PyExc_ValueError});
  e.checkpoint = define(module, "CheckpointError", "Raised when a checkpoint is damaged or is not a checkpoint.",
                        {e.error, PyExc_ValueError});
  e.package =
      define(module, "PackageError", "Raised when a package is damaged, is not a package, or cannot be written.",
             {e.error, PyExc_ValueError});
  py::register_exception_translator([](std::exception_ptr pointer) {
    if (!pointer) return;
    try {
      std::rethrow_exception(pointer);
    } catch (const std::exception& error) {
      if (!class_of(error)) throw;  // for pybind11's own translators
      set_error(error);
    }
  });
}

}  // namespace mpsgraph::bindings
