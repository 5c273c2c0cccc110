// Typed one-line errors for arguments that no overload of a bound function accepts, and the display of Python values in
// errors.
//
//   [SharedEvent.wait] takes (value: int, timeout: float | None = None), got ('two')
//
// Each function that Class and Module define is wrapped in a CheckedFunction, which passes calls on. The body of each
// function marks its call (Entered). A TypeError without such a mark therefore means that pybind11 has refused the
// arguments, and the wrapper raises a typed error instead. The error shows the signature from the stub
// (python/mpsgraph/_native_arguments.py).
#include "bindings/bindings.h"

#include <structmember.h>

namespace mpsgraph::bindings {

namespace {

struct CheckedFunction {
  PyObject_HEAD;
  vectorcallfunc call;
  PyObject *function, *owner, *name;  // pybind11's function, its class or module, and its name there
  bool is_method;
};

// Replaces the current TypeError.
void refuse(const CheckedFunction& checked, PyObject* const* arguments, size_t count, PyObject* names) {
  PyErr_Clear();
  try {
    py::list positional;
    py::dict named;
    for (size_t i = 0; i < count; ++i) positional.append(py::handle(arguments[i]));
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
      named[PyTuple_GET_ITEM(names, i)] = py::handle(arguments[count + static_cast<size_t>(i)]);
    py::module_::import("mpsgraph._native_arguments")
        .attr("refuse")(py::handle(checked.owner), py::handle(checked.name), checked.is_method, positional, named);
  } catch (py::error_already_set& error) {
    error.restore();
  }
}

PyObject* call_checked(PyObject* self, PyObject* const* arguments, size_t count, PyObject* names) {
  const auto& checked = *reinterpret_cast<CheckedFunction*>(self);
  bool entered;
  PyObject* result;
  {
    Call call(PyThreadState_Get());
    result = PyObject_Vectorcall(checked.function, arguments, count, names);
    entered = call.entered;
  }
  if (!result && !entered && PyErr_ExceptionMatches(PyExc_TypeError))
    refuse(checked, arguments, static_cast<size_t>(PyVectorcall_NARGS(count)), names);
  return result;
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (!object || !reinterpret_cast<CheckedFunction*>(self)->is_method) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* attribute(PyObject* self, void* name) {
  return PyObject_GetAttrString(reinterpret_cast<CheckedFunction*>(self)->function, static_cast<const char*>(name));
}

void destroy(PyObject* self) {
  auto& checked = *reinterpret_cast<CheckedFunction*>(self);
  for (PyObject* held : {checked.function, checked.owner, checked.name}) Py_DECREF(held);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyTypeObject* checked_type() {
  static char doc[] = "__doc__", name[] = "__name__", qualified[] = "__qualname__", module[] = "__module__",
              signature[] = "__text_signature__";
  static PyGetSetDef attributes[] = {{doc, attribute, nullptr, nullptr, doc},
                                     {name, attribute, nullptr, nullptr, name},
                                     {qualified, attribute, nullptr, nullptr, qualified},
                                     {module, attribute, nullptr, nullptr, module},
                                     {signature, attribute, nullptr, nullptr, signature},
                                     {}};
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(CheckedFunction, call), READONLY, nullptr}, {}};
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(bind)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                                {Py_tp_getset, attributes},
                                {Py_tp_members, members},
                                {}};
  // Py_TPFLAGS_METHOD_DESCRIPTOR lets CPython call methods without creating a bound method first.
  static PyType_Spec spec{"mpsgraph._core.function", sizeof(CheckedFunction), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};
  static auto* const type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (!type) throw py::error_already_set();
  return type;
}

py::object checked(py::handle function, py::handle owner, py::handle name, bool is_method) {
  auto* made = PyObject_New(CheckedFunction, checked_type());
  if (!made) throw py::error_already_set();
  made->call = call_checked;
  made->function = function.inc_ref().ptr();
  made->owner = owner.inc_ref().ptr();
  made->name = name.inc_ref().ptr();
  made->is_method = is_method;
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(made));
}

struct Definition {
  py::object owner;
  std::string name;
};
std::vector<Definition>& noted() {
  static std::vector<Definition> all;
  return all;
}

}  // namespace

void note_definition(py::handle owner, std::string name) {
  noted().push_back({py::reinterpret_borrow<py::object>(owner), std::move(name)});
}

void check_arguments() {
  const py::object static_method = py::module_::import("builtins").attr("staticmethod"),
                   property = py::module_::import("builtins").attr("property");
  for (const auto& [owner, text] : std::exchange(noted(), {})) {
    const py::str name(text);
    const py::dict members = owner.attr("__dict__");
    if (!members.contains(name)) continue;
    const py::object member = members[name];
    if (Py_IS_TYPE(member.ptr(), checked_type())) continue;  // a function with several overloads
    if (PyInstanceMethod_Check(member.ptr()))
      owner.attr(name) = checked(PyInstanceMethod_GET_FUNCTION(member.ptr()), owner, name, true);
    else if (py::isinstance(member, static_method))
      owner.attr(name) = static_method(checked(member.attr("__func__"), owner, name, false));
    else if (py::isinstance(member, property))
      owner.attr(name) = property(member.attr("fget"), checked(member.attr("fset"), owner, name, true), py::none(),
                                  member.attr("__doc__"));
    else if (PyCFunction_Check(member.ptr()))
      owner.attr(name) = checked(member, owner, name, false);
  }
}

std::string shown(py::handle object) {
  return py::cast<std::string>(py::module_::import("mpsgraph._display").attr("shown")(object));
}

}  // namespace mpsgraph::bindings
