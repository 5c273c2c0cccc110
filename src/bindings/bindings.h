// Declarations shared by the files of the Python module: conversions, references to Python objects held by C++ threads,
// and waits during which other Python threads run and Ctrl-C is handled. This header contains no logic.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/runtime/device_graph.h"

namespace mpsgraph {
struct AttributeSpec;
}

namespace mpsgraph::bindings {

namespace py = pybind11;

// --- definitions -----------------------------------------------------------------------------------------------------

// pybind11 instantiates a call wrapper for each type of function and of docstring. Converting lambdas to function
// pointers, and string literals to pointers, lets functions with the same signature share one wrapper.
template <class F>
auto shared_call(F&& f) {
  if constexpr (requires { requires std::is_pointer_v<decltype(+f)>; })
    return +f;
  else
    return std::forward<F>(f);
}
template <class T>
const T& shared_extra(const T& extra) {
  return extra;
}
inline const char* shared_extra(const char* text) { return text; }

// A call of a bound function, while it is in progress. All calls form a list, the newest first, which the GIL protects.
struct Call {
  explicit Call(PyThreadState* thread) : thread(thread), older(newest) {
    if (older) older->newer = this;
    newest = this;
  }
  ~Call() {
    (newer ? newer->older : newest) = older;
    if (older) older->newer = newer;
  }
  Call(const Call&) = delete;

  PyThreadState* const thread;
  Call *older, *newer = nullptr;
  bool entered = false;  // whether the arguments have been accepted
  static inline Call* newest = nullptr;
};
// Marks the newest call of this thread as entered (arguments.cpp). Must be the first guard of each call.
struct Entered {
  Entered() {
    Call* call = Call::newest;
    for (const PyThreadState* thread = PyThreadState_Get(); call && call->thread != thread;) call = call->older;
    if (call) call->entered = true;
  }
};
class WithoutGil;
using Released = py::call_guard<Entered, WithoutGil>;  // runs a function without the GIL
// Wraps the functions that Class and Module have defined. A wrapper raises a typed error if no overload accepts the
// arguments. Call check_arguments() after all functions are defined.
void note_definition(py::handle owner, std::string name);
void check_arguments();

template <class... Extra>
constexpr bool is_released = (std::is_same_v<Extra, Released> || ...);

class Module : public py::module_ {
 public:
  explicit Module(const py::module_& module) : py::module_(module) {}

  template <class F, class... Extra>
  Module& def(const char* name, F&& f, const Extra&... extra) {
    if constexpr (is_released<Extra...>)
      py::module_::def(name, std::forward<F>(f), shared_extra(extra)...);
    else
      py::module_::def(name, std::forward<F>(f), shared_extra(extra)..., py::call_guard<Entered>());
    note_definition(*this, name);
    return *this;
  }
};

template <class T, class... Options>
class Class : public py::class_<T, Options...> {
  using Base = py::class_<T, Options...>;

 public:
  template <class... Extra>
  Class(py::handle scope, const char* name, const Extra&... extra) : Base(scope, name, shared_extra(extra)...) {}

  template <class F, class... Extra>
  Class& def(const char* name, F&& f, const Extra&... extra) {
    if constexpr (is_released<Extra...>)
      Base::def(name, shared_call(std::forward<F>(f)), shared_extra(extra)...);
    else
      Base::def(name, shared_call(std::forward<F>(f)), shared_extra(extra)..., py::call_guard<Entered>());
    note_definition(*this, name);
    return *this;
  }
  template <class F, class... Extra>
    requires(!std::is_convertible_v<F, const char*>)
  Class& def(F&& constructor, const Extra&... extra) {
    if constexpr (is_released<Extra...>)
      Base::def(std::forward<F>(constructor), shared_extra(extra)...);
    else
      Base::def(std::forward<F>(constructor), shared_extra(extra)..., py::call_guard<Entered>());
    note_definition(*this, "__init__");
    return *this;
  }
  template <class F, class... Extra>
  Class& def_static(const char* name, F&& f, const Extra&... extra) {
    if constexpr (is_released<Extra...>)
      Base::def_static(name, shared_call(std::forward<F>(f)), shared_extra(extra)...);
    else
      Base::def_static(name, shared_call(std::forward<F>(f)), shared_extra(extra)..., py::call_guard<Entered>());
    note_definition(*this, name);
    return *this;
  }
  template <class Getter, class Setter, class... Extra>
  Class& def_property(const char* name, Getter&& get, Setter&& set, const Extra&... extra) {
    const py::cpp_function checked_set(shared_call(std::forward<Setter>(set)), py::is_method(*this),
                                       py::call_guard<Entered>());
    Base::def_property(name, shared_call(std::forward<Getter>(get)), checked_set, shared_extra(extra)...);
    note_definition(*this, name);
    return *this;
  }
  template <class Getter, class... Extra>
  Class& def_property_readonly(const char* name, Getter&& get, const Extra&... extra) {
    Base::def_property_readonly(name, shared_call(std::forward<Getter>(get)), shared_extra(extra)...);
    return *this;
  }
  template <class Member, class... Extra>
  Class& def_readwrite(const char* name, Member member, const Extra&... extra) {
    Base::def_readwrite(name, member, shared_extra(extra)...);
    note_definition(*this, name);
    return *this;
  }
  template <class Member, class... Extra>
  Class& def_readonly(const char* name, Member member, const Extra&... extra) {
    Base::def_readonly(name, member, shared_extra(extra)...);
    return *this;
  }
};

// --- references from C++ (python_reference.cpp) ----------------------------------------------------------------------

// Releases a reference on any thread, with or without the GIL. Without the GIL, the main thread releases it later, so
// that no queue ever waits for the interpreter.
void release_object(PyObject* object) noexcept;
// Releases the objects whose release had to wait for the GIL. The caller must hold the GIL.
void release_pending_objects();
// Returns a reference that C++ objects can share. The last owner releases it with release_object.
std::shared_ptr<PyObject> keep(py::handle object);

// A Python exception that propagates through C++ threads. Unlike pybind11's exception class, it can be thrown to
// several waiting threads.
struct PythonError : Error {
  PythonError(std::string message, std::shared_ptr<PyObject> exception)
      : Error(std::move(message)), exception(std::move(exception)) {}
  std::shared_ptr<PyObject> exception;
};

// Calls `function` with the GIL and converts exceptions that it raises to PythonError.
void call_python(const std::function<void()>& function);

// Releases the GIL during its lifetime. If a thread tries to reacquire the GIL while the interpreter is shutting down,
// it blocks forever: before 3.14, CPython would terminate such a thread by unwinding its stack, which would end the
// process at the first destructor.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* thread_;
};

// Calls wait(seconds) without the GIL, in short intervals, until it returns true. Returns false when the timeout is
// over. Raises KeyboardInterrupt on Ctrl-C.
bool wait_released(runtime::Timeout timeout, const std::function<bool(double)>& wait);
runtime::Timeout to_timeout(std::optional<double> seconds);  // Throws DeviceError for NaN.

// --- errors (errors.cpp, arguments.cpp) ------------------------------------------------------------------------------

void define_errors(Module& module);
void define_limits(Module& module);  // limits.cpp
py::object to_python_exception(const std::exception_ptr& error);  // Returns None for a null exception.
std::string message_of(const py::error_already_set& error);  // Returns "TypeError: ...", without the traceback.
std::string shown(py::handle object);  // Formats a value as one short line for an error message.

// --- types, shapes, attributes (convert.cpp) -------------------------------------------------------------------------

// A Python object of a bound class. Signatures show that class as the type.
template <class T>
class Object : public py::object {
 public:
  PYBIND11_OBJECT_DEFAULT(Object, py::object, check)
  T& operator*() const { return py::cast<T&>(*this); }
  T* operator->() const { return py::cast<T*>(*this); }

 private:
  static bool check(PyObject* object) { return py::isinstance<T>(object); }
};

// An argument that must be a sequence of T. Other objects are rejected with a typed error.
template <class T>
class Sequence : public py::object {
 public:
  PYBIND11_OBJECT_DEFAULT(Sequence, py::object, PyObject_Type)
};

// A DType as a Python object.
struct ElementType {
  DType dtype;
};
using DTypeObject = Object<ElementType>;

void define_types(Module& module);
DTypeObject to_object(DType dtype);  // Returns the only Python object for the dtype.
DType to_dtype(py::handle object);  // Accepts a DType, a name, or a numpy dtype.
std::optional<DType> from_numpy_dtype(const py::dtype& dtype);
// bfloat16 becomes the dtype of ml_dtypes if that package is installed, otherwise uint16.
py::dtype to_numpy_dtype(DType dtype);

// Throws ShapeError if the object is not an integer or does not fit in 64 bits.
int64_t to_size(py::handle object, std::string_view what);
Dims to_dims(py::handle object, std::string_view what);
Shape to_shape(py::handle object, std::string_view what);  // Python's None means an unranked shape.
// Returns a tuple with -1 for dynamic dimensions, or None if the shape is unranked.
py::object to_object(const Shape& shape);
TensorType to_tensor_type(py::handle object);  // Accepts a pair (dtype, shape).
py::tuple to_object(const TensorType& type);
// Converts the attributes of an operation of the given kind.
Attributes to_attributes(Kind kind, const py::dict& values);
Attributes to_attributes(std::string_view kind, const std::vector<AttributeSpec>& specs, const py::dict& values);
py::object to_object(const Attribute& attribute);

// --- graphs (graph.cpp) ----------------------------------------------------------------------------------------------

using GraphObject = Object<Graph>;
using TensorObject = Object<Tensor>;
using OperationObject = Object<Operation>;

void define_graph(Module& module);
// Returns the Python object of a tensor. As long as that object is alive, the same object is returned. The tensor's
// object keeps the Python object of the graph alive.
TensorObject to_object(py::handle graph, Tensor* tensor);
OperationObject to_object(py::handle graph, Operation* operation);
py::object graph_object(const std::shared_ptr<Graph>& graph);
// Returns the existing Python object of the graph. Throws GraphError if the graph has none.
py::object existing_object(Graph& graph);
std::vector<Tensor*> to_tensors(py::handle sequence, std::string_view what);
std::vector<Operation*> to_operations(py::handle sequence, std::string_view what);
template <class T>
py::typing::List<T> to_list(py::handle graph, const std::vector<T*>& items) {
  py::typing::List<T> result;
  for (T* item : items) result.append(to_object(graph, item));
  return result;
}

// --- arrays (ndarray.cpp) --------------------------------------------------------------------------------------------

// Python's argument `copy`: None copies arrays that cannot be shared, False rejects them, and True always copies.
using CopyRule = std::optional<bool>;

void define_ndarray(Module& module);
std::optional<float> to_number(const runtime::NDArray& array);  // Returns the only element of a float32 array.
// Converts a Python object to an array. Without `dtype`, an array keeps its own dtype. Numbers and lists are converted
// to `dtype`, but not from float to integer or from complex to real.
runtime::NDArray to_ndarray(py::handle object, CopyRule copy, std::optional<DType> dtype, bool contiguous,
                            const std::string& what);
ConstantPtr to_constant(py::handle object);  // Accepts ConstantData, an array, or a pair (array, dtype).
py::array to_numpy(const runtime::NDArray& array, py::handle owner);

// --- packages (package.cpp) ------------------------------------------------------------------------------------------

// Defines the class for a package's contents. Must be called before the Graph class is defined, because graphs can be
// constructed from package contents.
void define_package_contents(Module& module);
void define_package(Module& module);

// --- the legacy MPSNNGraph API (nngraph.h) ---------------------------------------------------------------------------

void define_nngraph(Module& module);

// --- runtime (runtime.cpp, custom.cpp, executables.cpp, tensor_exchange.cpp, probes.cpp) -----------------------------

void define_runtime(Module& module);
void define_profiler(Module& module);
void define_probes(Module& module);  // Used only by the self-test.
void define_custom(Module& module);
// Defines the base class Callee. Must be called before define_executables.
void define_exchange(Module& module);
void define_executables(Module& module);
void define_executable_templates(Module& module);
using DeviceGraphClass = Class<runtime::DeviceGraph, std::shared_ptr<runtime::DeviceGraph>>;
void define_variable_access(DeviceGraphClass& graph);
void define_tensor_exchange(Module& module);
// Runs the executable without holding the GIL, on the calling thread if the executable is brief.
std::vector<runtime::NDArray> run_and_wait(const std::shared_ptr<runtime::Executable>& executable,
                                           std::vector<runtime::NDArray> inputs, std::vector<runtime::NDArray> results,
                                           const std::shared_ptr<runtime::CommandQueue>& queue,
                                           std::optional<double> timeout = {});
runtime::Device& to_device(py::handle object);  // Accepts a Device, a name, or None for the default device.

// --- the legacy MPSNNGraph API (nngraph_recurrent.cpp) ---------------------------------------------------------------

void define_nngraph_recurrent(Module& module);

}  // namespace mpsgraph::bindings

template <class T>
struct pybind11::detail::handle_type_name<mpsgraph::bindings::Object<T>> {
  static constexpr auto name = make_caster<T>::name;
};
template <class T>
struct pybind11::detail::handle_type_name<mpsgraph::bindings::Sequence<T>> {
  static constexpr auto name = const_name("collections.abc.Sequence[") + make_caster<T>::name + const_name("]");
};
