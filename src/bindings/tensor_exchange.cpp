// Runs of executables on the tensors of a framework that provides DLPack's C functions, `__dlpack_c_exchange_api__`.
//
// Converting a hundred tensors one by one in Python would take longer than some runs. Here one call takes a list and
// returns a list. Memory is shared as DLPack specifies: inputs are kept alive until the run is over, and results keep
// their buffers alive.
#include <array>
#include <cstdint>

#include "bindings/bindings.h"
#include "mpsgraph/runtime/dlpack.h"
#include "mpsgraph/runtime/process.h"
#include "mpsgraph/runtime/threads.h"

// Defined by the DLPack standard, version 1.3; the layout must not change.
extern "C" {

struct DLPackExchangeAPIHeader {
  DLPackVersion version;
  DLPackExchangeAPIHeader* prev_api;
};

struct DLPackExchangeAPI {
  DLPackExchangeAPIHeader header;
  void* managed_tensor_allocator;
  int (*managed_tensor_from_py_object_no_sync)(void* object, DLManagedTensorVersioned** out);
  int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned* tensor, void** out);
  int (*dltensor_from_py_object_no_sync)(void* object, DLTensor* out);  // The result is a borrowed view of the tensor.
  void* current_work_stream;
};

}  // extern "C"

namespace mpsgraph::bindings {

using runtime::Executable;
using runtime::NDArray;

namespace {

// Returns the functions in the capsule. If their major version is not 1, searches the older versions that the capsule
// links to. Returns null if no version has major version 1.
const DLPackExchangeAPI* functions_of(const py::object& capsule) {
  constexpr const char* name = "dlpack_exchange_api";
  if (!PyCapsule_IsValid(capsule.ptr(), name)) return nullptr;
  auto* header = static_cast<DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule.ptr(), name));
  while (header && header->version.major != 1) header = header->prev_api;
  return reinterpret_cast<const DLPackExchangeAPI*>(header);
}

bool says(py::handle tensor, PyObject* question) {
  const auto answer = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(tensor.ptr(), question));
  if (!answer) throw py::error_already_set();
  return answer.ptr() == Py_True;
}

class TensorExchange {
 public:
  // `types` are the tensor types that the functions support. `questions` are names of tensor methods without arguments;
  // a tensor for which one of them returns True cannot be shared, because its memory does not hold its plain values.
  // `prepare` converts every tensor that cannot be shared, for whatever reason, to an array. `team` holds the addresses
  // of the functions that LentTeam needs.
  TensorExchange(py::tuple types, const std::vector<std::string>& questions, py::function prepare,
                 std::optional<std::pair<uintptr_t, uintptr_t>> team)
      : types_(std::move(types)), prepare_(std::move(prepare)), team_(team) {
    if (types_.empty()) throw GraphError("[TensorExchange] types must contain at least one tensor type, got none");
    functions_ = functions_of(py::getattr(types_[0], "__dlpack_c_exchange_api__", py::none()));
    if (!functions_ || !functions_->dltensor_from_py_object_no_sync)
      throw UnsupportedError(cat("[TensorExchange] ", shown(types_[0]), " must provide __dlpack_c_exchange_api__ of ",
                                 "version 1; otherwise pass its tensors through __dlpack__"));
    for (const std::string& question : questions) questions_.append(py::str(question));
  }

  py::typing::List<py::object> run(const std::shared_ptr<Executable>& executable, const Sequence<py::object>& tensors,
                                   const std::vector<size_t>& places) const {
    std::optional<runtime::LentTeam> lent;
    // A forked child has no threads of its parent, and would wait forever for the threads of the team.
    if (team_ && !guard_.forked())
      lent.emplace(reinterpret_cast<runtime::LentTeam::Fork>(team_->first),
                   reinterpret_cast<runtime::LentTeam::Size>(team_->second));
    // Keeps alive the memory that the run reads. The memory is released, with the GIL held, when this call returns. If
    // the call is interrupted before the run is over, the memory is released at the end of the run.
    const std::shared_ptr<PyObject> held = keep(py::list());
    std::vector<NDArray> inputs = to_inputs(*executable, tensors, places, held);
    return to_tensors(run_and_wait(executable, std::move(inputs), {}, nullptr));
  }

 private:
  std::vector<NDArray> to_inputs(const Executable& executable, const py::object& tensors,
                                 const std::vector<size_t>& places, const std::shared_ptr<PyObject>& held) const {
    auto sequence = py::reinterpret_steal<py::object>(PySequence_Fast(tensors.ptr(), "tensors must be a sequence"));
    if (!sequence) throw py::error_already_set();
    const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(sequence.ptr()));
    if (places.size() != executable.feeds().size())
      throw GraphError(
          cat("[run] places must have one index per feed (", executable.feeds().size(), "), got ", places.size()));
    const bool brief = executable.brief();
    std::vector<NDArray> inputs;
    inputs.reserve(places.size());
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] >= count)
        throw GraphError(cat("[run] places must be valid indices of tensors (", count, " in total), got ", places[i]));
      auto tensor = py::reinterpret_borrow<py::object>(
          PySequence_Fast_GET_ITEM(sequence.ptr(), static_cast<Py_ssize_t>(places[i])));
      NDArray shared = borrowed(tensor, brief, held);
      if (!shared.valid()) {
        const Tensor& feed = *executable.feeds()[i].first;
        shared = to_ndarray(prepare_(tensor), {}, feed.dtype(), true, "feed " + feed.name());
      }
      inputs.push_back(std::move(shared));
    }
    return inputs;
  }

  // Returns an invalid array if the memory cannot be shared. If a run is not brief, the call that started it may be
  // interrupted while the run continues. The tensor may then be assigned other memory, so an alias of the tensor is
  // kept alive until the run is over.
  NDArray borrowed(py::object& tensor, bool brief, const std::shared_ptr<PyObject>& held) const {
    static PyObject* const detach = PyUnicode_InternFromString("detach");
    const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(tensor.ptr()));
    if (std::none_of(types_.begin(), types_.end(), [&](py::handle known) { return known.ptr() == type; })) return {};
    for (py::handle question : questions_)
      if (says(tensor, question.ptr())) return {};
    py::object owner = tensor;
    if (!brief) owner = py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(tensor.ptr(), detach));
    if (!owner) throw py::error_already_set();
    DLTensor said{};
    if (functions_->dltensor_from_py_object_no_sync(owner.ptr(), &said) != 0) {
      PyErr_Clear();  // `prepare` will raise a better error for the same problem.
      return {};
    }
    const std::optional<DType> dtype = runtime::dtype_of_dlpack(said.dtype);
    if (said.device.device_type != runtime::dlpack_cpu || !dtype || !whole(said)) return {};
    if (PyList_Append(held.get(), owner.ptr()) != 0) throw py::error_already_set();
    Dims dims(said.shape, said.shape + said.ndim);
    Dims strides = contiguous_strides(dims);
    return NDArray::borrow(static_cast<std::byte*>(said.data) + said.byte_offset, *dtype, std::move(dims),
                           std::move(strides), [held] {});
  }

  // Returns whether the tensor is in row-major order and its memory is aligned to its elements.
  static bool whole(const DLTensor& tensor) {
    int64_t expected = 1;
    for (int32_t axis = tensor.ndim - 1; axis >= 0; --axis) {
      if (tensor.shape[axis] == 0) return false;
      if (tensor.strides && tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
      expected *= tensor.shape[axis];
    }
    const size_t alignment = std::clamp<size_t>(tensor.dtype.bits / 8, 1, 8);
    return tensor.data && (reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset) % alignment == 0;
  }

  py::typing::List<py::object> to_tensors(const std::vector<NDArray>& arrays) const {
    py::typing::List<py::object> result(arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      void* object = nullptr;
      if (functions_->managed_tensor_to_py_object_no_sync(runtime::to_dlpack_versioned(arrays[i]), &object) != 0)
        throw py::error_already_set();
      PyList_SET_ITEM(result.ptr(), static_cast<Py_ssize_t>(i), static_cast<PyObject*>(object));
    }
    return result;
  }

  py::tuple types_;
  py::list questions_;
  py::function prepare_;
  std::optional<std::pair<uintptr_t, uintptr_t>> team_;
  const runtime::ForkGuard guard_;
  const DLPackExchangeAPI* functions_ = nullptr;
};

}  // namespace

void define_tensor_exchange(Module& module) {
  Class<TensorExchange>(module, "TensorExchange", "Runs executables on the tensors of another framework.")
      .def(py::init<py::tuple, const std::vector<std::string>&, py::function,
                    std::optional<std::pair<uintptr_t, uintptr_t>>>(),
           py::arg("types"), py::arg("questions"), py::arg("prepare"), py::arg("team") = py::none(),
           "Create an exchange. `types` are tensor types, the first of which has "
           "`__dlpack_c_exchange_api__`. `questions` are names of methods; if one of them returns True, the "
           "tensor's memory does not hold its plain values. `prepare(tensor)` returns an array for a tensor "
           "that cannot be shared. `team` holds the addresses of GOMP_parallel and omp_get_max_threads, "
           "whose threads then help with short runs. Raises UnsupportedError if the first type does not "
           "provide these functions in version 1.")
      .def("run", &TensorExchange::run, py::arg("executable").none(false), py::arg("tensors"), py::arg("places"),
           "Run an executable. `places` has the index of the tensor for each feed. Return new tensors in "
           "the order of the targets.");
}

}  // namespace mpsgraph::bindings
