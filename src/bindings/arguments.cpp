// Typed one-line errors for arguments that no overload of a bound function accepts, and the display of Python values in
// errors.
//
// For such arguments, pybind11 raises a TypeError of many lines: every overload in full, and a repr of each argument,
// however long. This file replaces pybind11's single entry point, which all functions of the module share. The
// replacement calls the original entry point, and if that rejects the arguments, rewrites the error:
//
//   [SharedEvent.wait] takes (value: int, timeout: float | None), got ('two')
#include <array>

#include "bindings/bindings.h"

namespace mpsgraph::bindings {

namespace {

using Slow = PyObject* (*)(PyObject*, PyObject*, PyObject*);  // signature of methods with the flag METH_VARARGS
// signature of methods with the flags METH_FASTCALL and METH_KEYWORDS
using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
PyCFunction entry = nullptr;  // pybind11's original entry point.

template <class To>
To as(PyCFunction function) {
  return reinterpret_cast<To>(reinterpret_cast<void (*)()>(function));
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
}

constexpr size_t longest_form = 160;

// Names that appear in pybind11's signatures, and the text that replaces them in messages.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> plain{{
    {"mpsgraph._core.", ""},
    {"collections.abc.", ""},
    {"typing.SupportsInt | typing.SupportsIndex", "int"},
    {"typing.SupportsFloat | typing.SupportsIndex", "float"},
    {"typing.SupportsInt", "int"},
    {"typing.SupportsFloat", "float"},
    {"typing.", ""},
    {"numpy.", ""},
}};

// Extracts the parameters of each overload, such as "(value: int, timeout: float | None)", and joins them with "or".
std::string forms_of(const std::string& text) {
  std::string forms;
  for (int i = 1;; ++i) {
    const std::string number = cat("\n    ", i, ". ");
    const size_t begin = text.find(number);
    if (begin == text.npos) return forms;
    std::string form = text.substr(begin + number.size(), text.find('\n', begin + 1) - begin - number.size());
    form = form.substr(std::min(form.find('('), form.size()));
    if (const size_t result = form.rfind(" -> "); result != form.npos) form.resize(result);
    if (form.starts_with("(self: ")) form = "(" + form.substr(std::min(form.find_first_of(",)") + 1, form.size()));
    if (form == "(") form = "()";
    if (form.starts_with("( ")) form.erase(1, 1);
    for (auto [from, to] : plain) replace_all(form, from, to);
    if (form.size() > longest_form) form = form.substr(0, longest_form) + "...)";
    forms += (forms.empty() ? "" : " or ") + form;
  }
}

// If the current Python error is pybind11's rejection of the arguments, replaces it with a typed error.
void reword(const std::vector<py::handle>& positional, const std::vector<std::pair<py::handle, py::handle>>& named) {
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return;
  py::error_already_set error;
  const std::string text = py::cast<std::string>(py::str(error.value()));
  const size_t end = text.find("(): incompatible ");
  if (end == text.npos) {
    error.restore();
    return;
  }
  std::string where = text.substr(0, end);
  const bool constructs = where == "__init__", is_method = constructs || text.find("(self: ") != text.npos;
  if (is_method && !positional.empty()) {
    const auto owner = py::cast<std::string>(py::type::of(positional[0]).attr("__name__"));
    where = constructs ? owner : owner + "." + where;
  }
  std::string came;
  for (size_t i = is_method ? 1 : 0; i < positional.size(); ++i)
    came += (came.empty() ? "" : ", ") + shown(positional[i]);
  for (auto [name, value] : named)
    came += (came.empty() ? "" : ", ") + py::cast<std::string>(name) + "=" + shown(value);
  const auto type = py::module_::import("mpsgraph._core").attr("DTypeError");
  PyErr_SetString(type.ptr(), cat("[", where, "] takes ", forms_of(text), ", got (", came, ")").c_str());
}

PyObject* fast(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  PyObject* result = as<Fast>(entry)(self, arguments, count, names);
  if (result) return result;
  const Py_ssize_t positional = PyVectorcall_NARGS(static_cast<size_t>(count));
  std::vector<std::pair<py::handle, py::handle>> named;
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    named.emplace_back(PyTuple_GET_ITEM(names, i), arguments[positional + i]);
  reword({arguments, arguments + positional}, named);
  return nullptr;
}

PyObject* slow(PyObject* self, PyObject* arguments, PyObject* options) {
  PyObject* result = as<Slow>(entry)(self, arguments, options);
  if (result) return result;
  std::vector<py::handle> positional;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) positional.emplace_back(PyTuple_GET_ITEM(arguments, i));
  std::vector<std::pair<py::handle, py::handle>> named;
  if (options)
    for (auto [name, value] : py::reinterpret_borrow<py::dict>(options)) named.emplace_back(name, value);
  reword(positional, named);
  return nullptr;
}

// Replaces pybind11's entry point in a function, including static methods and the accessors of properties.
void take_over(py::handle object) {
  PyObject* function = object.ptr();
  if (PyInstanceMethod_Check(function)) function = PyInstanceMethod_GET_FUNCTION(function);
  if (PyCFunction_Check(function)) {
    PyMethodDef& method = *reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
    if (method.ml_meth != entry) return;
    method.ml_meth = method.ml_flags & METH_FASTCALL
                         ? reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fast))
                         : reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(slow));
    return;
  }
  for (const char* part : {"__func__", "fget", "fset"})
    if (py::hasattr(object, part)) take_over(object.attr(part));
}

}  // namespace

std::string shown(py::handle object) {
  return py::cast<std::string>(py::module_::import("mpsgraph._display").attr("shown")(object));
}

void reword_refusals(py::module_& module) {
  const py::object any = module.attr("library_version");
  entry = reinterpret_cast<PyCFunctionObject*>(any.ptr())->m_ml->ml_meth;
  for (auto [name, value] : py::reinterpret_borrow<py::dict>(module.attr("__dict__"))) {
    if (!py::isinstance<py::type>(value)) {
      if (PyCFunction_Check(value.ptr())) take_over(value);
      continue;
    }
    // Iterates over a copy, because attribute lookups modify the dicts of classes.
    const auto members = py::dict(value.attr("__dict__"));
    for (auto [member, item] : members) take_over(item);
  }
}

}  // namespace mpsgraph::bindings
