// References to Python objects that may be released on C++ threads, and calls and waits that release or acquire the
// GIL.
#include <cxxabi.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <new>

#include "bindings/bindings.h"
#include "mpsgraph/runtime/process.h"

#if PY_VERSION_HEX < 0x030c0000
extern "C" PyAPI_FUNC(int) _PyEval_AddPendingCall(PyInterpreterState*, int (*)(void*), void*);
#endif

namespace mpsgraph::bindings {

namespace {

// References that the interpreter releases at its next opportunity. The list is never destroyed, because buffers may
// outlive the interpreter.
struct Pending {
  runtime::ForkGuard guard;
  std::mutex mutex;
  std::vector<PyObject*> objects;
};

// A forked child uses a new list, because a thread that does not exist in the child may have held the parent's mutex.
Pending& pending() {
  static std::atomic<Pending*> instance{new Pending};
  Pending* current = instance.load();
  if (!current->guard.forked()) return *current;
  auto anew = std::make_unique<Pending>();
  if (instance.compare_exchange_strong(current, anew.get())) return *anew.release();
  return *current;
}

// Whether the calling thread holds the GIL. PyGILState_Check() returns true on every thread once the process has
// created a subinterpreter.
bool holds_gil() {
#if PY_VERSION_HEX >= 0x030d0000
  PyThreadState* const current = PyThreadState_GetUnchecked();
#else
  PyThreadState* const current = _PyThreadState_UncheckedGet();
#endif
  return current && current == PyGILState_GetThisThreadState();
}

int drop_pending(void*) {
  release_pending_objects();
  return 0;
}

int drop_object(void* object) {
  Py_DECREF(static_cast<PyObject*>(object));
  return 0;
}

// Can be called on any thread, without the GIL. Before 3.12, Py_AddPendingCall reads the interpreter from the state of
// the thread that has the GIL, and crashes if that state is being freed. The function used instead takes the
// interpreter as an argument.
void call_soon(int (*function)(void*), void* argument = nullptr) {
#if PY_VERSION_HEX >= 0x030c0000
  Py_AddPendingCall(function, argument);
#else
  _PyEval_AddPendingCall(PyInterpreterState_Main(), function, argument);
#endif
}

}  // namespace

void release_object(PyObject* object) noexcept {
  if (!object || !Py_IsInitialized()) return;
  if (holds_gil()) return Py_DECREF(object);
  try {
    Pending& of_process = pending();
    std::lock_guard lock(of_process.mutex);
    of_process.objects.push_back(object);
  } catch (const std::bad_alloc&) {
    return call_soon(drop_object, object);  // needs no memory; the object is never released if the queue is full
  }
  // If the interpreter's queue of pending calls is full, a later release or release_pending_objects() releases the
  // object.
  call_soon(drop_pending);
}

void release_pending_objects() {
  std::vector<PyObject*> objects;
  {
    Pending& of_process = pending();
    std::lock_guard lock(of_process.mutex);
    objects.swap(of_process.objects);
  }
  for (PyObject* object : objects) Py_DECREF(object);
}

std::shared_ptr<PyObject> keep(py::handle object) {
  return std::shared_ptr<PyObject>(object.inc_ref().ptr(), release_object);
}

void call_python(const std::function<void()>& function) {
  py::gil_scoped_acquire gil;
  try {
    function();
  } catch (py::error_already_set& error) {
    throw PythonError(error.what(), keep(error.value()));
  }
}

WithoutGil::~WithoutGil() {
#ifdef __GLIBCXX__
  try {
    PyEval_RestoreThread(thread_);
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
#else
  PyEval_RestoreThread(thread_);
#endif
}

bool wait_released(runtime::Timeout timeout, const std::function<bool(double)>& wait) {
  constexpr double slice = 0.02;  // seconds; Ctrl-C is noticed between slices
  double left = timeout.value_or(HUGE_VAL);
  for (;;) {
    bool ready;
    {
      WithoutGil released;
      ready = wait(std::clamp(left, 0.0, slice));
    }
    release_pending_objects();
    if (ready) return true;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    left -= slice;
    if (left <= 0) return false;
  }
}

runtime::Timeout to_timeout(std::optional<double> seconds) {
  if (seconds && std::isnan(*seconds))
    throw DeviceError("timeout must be a number of seconds, or None for no limit, got NaN");
  return seconds && std::isinf(*seconds) ? std::nullopt : seconds;
}

}  // namespace mpsgraph::bindings
