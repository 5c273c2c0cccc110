// DeviceGraph, Executable, Execution, and their descriptors.
//
// Each training step makes one call into this file: feeds become arrays that borrow their memory, the run waits without
// the GIL, and results are returned as NDArrays.
#include "bindings/bindings.h"

namespace mpsgraph::bindings {

using namespace runtime;

// Defined in runtime.cpp.
void wait_until_completed(const std::shared_ptr<CommandBuffer>& buffer, std::optional<double> seconds);
void wait_or_cancel(const std::shared_ptr<CommandBuffer>& buffer, std::optional<double> seconds);

namespace {

using Feeds = py::typing::Dict<Tensor, py::object>;
using Arrays = py::typing::List<NDArray>;
using QueuePointer = std::shared_ptr<CommandQueue>;
// An argument that may be None. A pointer could express this as well, but for a pointer, pybind11 would search other
// modules for None's type, which would create and discard an exception in each call.
template <class T>
using Maybe = std::optional<T>;

Arrays as_list(const std::vector<NDArray>& arrays) {
  Arrays list;
  // An invalid array has not been allocated yet; Python receives None in its place.
  for (auto& array : arrays) list.append(array.valid() ? py::cast(array) : py::none());
  return list;
}

// An ExecutionDescriptor that keeps its handlers as Python objects, so that they can be read back.
struct Descriptor {
  ExecutionDescriptor fields;
  py::object scheduled_handler = py::none(), completed_handler = py::none();

  static ExecutionDescriptor::Handler handler(const py::object& function) {
    if (function.is_none()) return {};
    return [function = keep(function)](const std::vector<NDArray>& results, std::exception_ptr error) {
      call_python([&] { py::handle(function.get())(as_list(results), to_python_exception(error)); });
    };
  }
  ExecutionDescriptor native() const {
    ExecutionDescriptor result = fields;
    result.scheduled_handler = handler(scheduled_handler);
    result.completed_handler = handler(completed_handler);
    return result;
  }
};
using MaybeDescriptor = Maybe<const Descriptor*>;

struct CompilationDescriptor {
  std::vector<std::string> disabled_passes;
  bool reference_kernels = false;
  py::object observe = py::none();
  std::map<std::string, std::shared_ptr<compiler::Callable>> callables;
  bool check_finite = false;

  compiler::Options native() const {
    compiler::Options result;
    result.callables.insert(callables.begin(), callables.end());
    result.disabled_passes = disabled_passes;
    result.reference_kernels = reference_kernels;
    result.check_finite = check_finite;
    if (!observe.is_none())
      result.observe = [function = keep(observe)](std::string_view pass, const std::string& text) {
        call_python([&] { py::handle(function.get())(std::string(pass), text); });
      };
    return result;
  }
};
using MaybeOptions = Maybe<const CompilationDescriptor*>;

compiler::Options native(MaybeOptions options) { return options ? (*options)->native() : compiler::Options(); }
ExecutionDescriptor native(MaybeDescriptor descriptor) {
  return descriptor ? (*descriptor)->native() : ExecutionDescriptor();
}

// --- conversion of inputs and results --------------------------------------------------------------------------------

// Objects other than arrays, such as image batches, matrices, and vectors, can represent an array. Their method
// `_tensor_data(buffer, written)` returns the array to read or write, where `buffer` is the command buffer to which the
// run is encoded, or None.
py::object standing_for(py::handle value, py::handle buffer, bool written) {
  static PyObject* const name = PyUnicode_InternFromString("_tensor_data");
  auto given = py::reinterpret_borrow<py::object>(value);
  if (py::isinstance<py::array>(value) || py::isinstance<NDArray>(value)) return given;
  if (PyObject_HasAttr(value.ptr(), name) == 0) return given;
  return given.attr(name)(buffer, written);
}

// Notifies result objects that `buffer` writes their arrays, which are not available until `buffer` has completed.
void note_writer(const std::optional<Sequence<py::object>>& results, py::handle buffer) {
  if (!results || results->is_none()) return;
  for (py::handle item : *results)
    if (py::hasattr(item, "_note_writer")) item.attr("_note_writer")(buffer);
}

void to_feeds(const Feeds& feeds, CopyRule copy, py::handle buffer, std::vector<Tensor*>& tensors,
              std::vector<NDArray>& arrays) {
  tensors.reserve(feeds.size());
  arrays.reserve(feeds.size());
  for (auto [key, value] : feeds) {
    if (!py::isinstance<Tensor>(key))
      throw GraphError(cat("[run] feeds must map placeholders to arrays, got the key ", shown(key)));
    tensors.push_back(py::cast<Tensor*>(key));
    arrays.push_back(to_ndarray(standing_for(value, buffer, false), copy, tensors.back()->dtype(), true,
                                "feed " + tensors.back()->name()));
  }
}

std::vector<NDArray> to_inputs(const Executable& executable, const Sequence<py::object>& inputs, CopyRule copy,
                               py::handle buffer = py::none()) {
  std::vector<NDArray> result;
  if (!PySequence_Check(inputs.ptr()))
    throw GraphError(cat("[run] inputs must be a sequence of arrays in the order of `feeds`, got a ",
                         py::cast<std::string>(py::type::of(inputs).attr("__name__"))));
  auto sequence = py::reinterpret_steal<py::object>(PySequence_Fast(inputs.ptr(), ""));
  if (!sequence) throw py::error_already_set();
  const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(sequence.ptr()));
  if (count != executable.feeds().size())
    throw GraphError(cat("[run] the number of inputs must be ", executable.feeds().size(), ", got ", count));
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const Tensor& feed = *executable.feeds()[i].first;
    const py::object value = standing_for(PySequence_Fast_GET_ITEM(sequence.ptr(), i), buffer, false);
    result.push_back(to_ndarray(value, copy, feed.dtype(), true, "feed " + feed.name()));
  }
  return result;
}

// `results` are the arrays into which the run writes, so they are used in place and never copied.
std::vector<NDArray> to_results(const std::vector<Tensor*>& targets, const std::optional<Sequence<py::object>>& results,
                                py::handle buffer = py::none()) {
  std::vector<NDArray> arrays;
  if (!results || results->is_none()) return arrays;
  for (py::handle item : *results) {
    if (arrays.size() == targets.size())
      throw GraphError(cat("[run] results must have one array per target (", targets.size(), "), got more"));
    const Tensor& target = *targets[arrays.size()];
    arrays.push_back(item.is_none() ? NDArray()
                                    : to_ndarray(standing_for(item, buffer, true), false, target.dtype(), false,
                                                 "result " + target.name()));
  }
  if (arrays.size() != targets.size())
    throw GraphError(cat("[run] the number of results (", arrays.size(), ") must equal the number of targets (",
                         targets.size(), ")"));
  return arrays;
}

// --- running ---------------------------------------------------------------------------------------------------------

// An Execution in Python. `targets` determines the form of `results`: if it is None, a list in the order of the
// targets; if it is a tensor, that tensor's array; if it is a sequence of tensors, a dict of arrays keyed by tensor, as
// for Graph.run.
struct Started {
  std::shared_ptr<Execution> execution;
  py::object targets = py::none();

  void wait(std::optional<double> timeout = {}) const { wait_until_completed(execution->command_buffer(), timeout); }

  py::object results() const {
    wait();
    const Arrays arrays = as_list(execution->pending_results());
    if (targets.is_none()) return arrays;
    if (py::isinstance<Tensor>(targets)) return arrays[0];
    py::dict by_target;
    size_t i = 0;
    for (py::handle target : targets) by_target[target] = arrays[i++];
    return by_target;
  }
};

Started start(const std::shared_ptr<Executable>& executable, std::vector<NDArray> inputs, std::vector<NDArray> results,
              const ExecutionDescriptor& descriptor, const QueuePointer& queue, bool waiting = false,
              py::object targets = py::none()) {
  ExecutionDescriptor here = descriptor;
  here.wait_until_completed = false;
  std::shared_ptr<Execution> execution;
  {
    WithoutGil released;
    waiting = waiting || descriptor.wait_until_completed;
    execution = executable->run_async(std::move(inputs), std::move(results), here, queue, waiting);
  }
  Started started{std::move(execution), std::move(targets)};
  if (descriptor.wait_until_completed) started.wait();
  return started;
}

void note_writer(const std::optional<Sequence<py::object>>& results, const Started& started) {
  note_writer(results, py::cast(started.execution->command_buffer()));
}

Arrays run(const std::shared_ptr<Executable>& executable, std::vector<NDArray> inputs, std::vector<NDArray> results,
           const QueuePointer& queue, std::optional<double> timeout) {
  return as_list(run_and_wait(executable, std::move(inputs), std::move(results), queue, timeout));
}

Arrays encode(const std::shared_ptr<Executable>& executable, const std::shared_ptr<CommandBuffer>& buffer,
              std::vector<NDArray> inputs, std::vector<NDArray> results, ExecutionDescriptor descriptor) {
  const bool wait = std::exchange(descriptor.wait_until_completed, false);
  std::vector<NDArray> outputs;
  {
    WithoutGil released;
    outputs = executable->encode(*buffer, std::move(inputs), std::move(results), descriptor);
    if (wait) buffer->commit();
  }
  if (wait) wait_until_completed(buffer, {});
  return as_list(outputs);
}

// The converted arguments of a DeviceGraph call, with the executable found in the cache or compiled.
struct Request {
  std::vector<Tensor*> feeds, targets;
  std::vector<NDArray> inputs, results;
  std::shared_ptr<Executable> executable;

  Request(DeviceGraph& graph, const Feeds& feed_values, const Sequence<Tensor>& target_list,
          const Sequence<Operation>& operation_list, const std::optional<Sequence<py::object>>& result_arrays,
          CopyRule copy, MaybeOptions options_pointer, py::handle buffer = py::none()) {
    to_feeds(feed_values, copy, buffer, feeds, inputs);
    targets = to_tensors(target_list, "targets");
    results = to_results(targets, result_arrays, buffer);
    const auto operations = to_operations(operation_list, "target_operations");
    const auto options = native(options_pointer);
    WithoutGil released;
    executable = graph.executable_for(feeds, inputs, targets, operations, options);
  }
};

std::shared_ptr<Executable> compile(DeviceGraph& self, const py::typing::Dict<Tensor, py::tuple>& feeds,
                                    const Sequence<Tensor>& targets, const Sequence<Operation>& target_operations,
                                    MaybeOptions options_pointer) {
  std::vector<Feed> typed;
  for (auto [key, value] : feeds) {
    if (!py::isinstance<Tensor>(key))
      throw GraphError(cat("[compile] feeds must map placeholders to types, got the key ", shown(key)));
    typed.emplace_back(py::cast<Tensor*>(key), to_tensor_type(value));
  }
  const auto tensors = to_tensors(targets, "targets");
  const auto operations = to_operations(target_operations, "target_operations");
  const auto options = native(options_pointer);
  WithoutGil released;
  return self.compile(typed, tensors, operations, options);
}

ExecutionDescriptor::Stage to_stage(const std::string& at) {
  if (at == "completed") return ExecutionDescriptor::Stage::completed;
  if (at == "scheduled") return ExecutionDescriptor::Stage::scheduled;
  throw DeviceError(cat("[signal_event] at must be \"completed\" or \"scheduled\", got \"", at, "\""));
}

void define_descriptors(Module& module) {
  Class<Descriptor>(module, "ExecutionDescriptor",
                    "Options of an asynchronous run: handlers, events to wait for and to signal, and whether the "
                    "call waits.")
      .def(py::init([](bool wait, py::object scheduled, py::object completed) {
             Descriptor result;
             result.fields.wait_until_completed = wait;
             result.scheduled_handler = std::move(scheduled);
             result.completed_handler = std::move(completed);
             return result;
           }),
           py::arg("wait_until_completed") = false, py::arg("scheduled_handler") = py::none(),
           py::arg("completed_handler") = py::none(),
           "Create a descriptor. Handlers are called with (results, error), where error is None if the run "
           "succeeded.")
      .def_property(
          "wait_until_completed", [](const Descriptor& self) { return self.fields.wait_until_completed; },
          [](Descriptor& self, bool value) { self.fields.wait_until_completed = value; })
      .def_readwrite("scheduled_handler", &Descriptor::scheduled_handler)
      .def_readwrite("completed_handler", &Descriptor::completed_handler)
      .def(
          "wait_for_event",
          [](Descriptor& self, std::shared_ptr<SharedEvent> event, uint64_t value, std::optional<double> timeout) {
            const Timeout seconds = timeout ? to_timeout(timeout) : event->default_timeout();
            self.fields.wait_for_event(std::move(event), value, seconds);
          },
          py::arg("event").none(false), py::arg("value"), py::arg("timeout") = py::none(),
          R"(Delay the run until the event reaches a value.

Args:
    event: Event to wait for.
    value: Value that the event must reach.
    timeout: Maximum number of seconds to wait. None, the default, means the event's own timeout.)")
      .def(
          "signal_event",
          [](Descriptor& self, std::shared_ptr<SharedEvent> event, uint64_t value, const std::string& at) {
            self.fields.signal_event(std::move(event), value, to_stage(at));
          },
          py::arg("event").none(false), py::arg("value"), py::arg("at") = "completed");
}

void define_execution(Module& module) {
  Class<Started>(module, "Execution", "A run that has been started; `results` waits for it to finish.")
      .def(
          "wait",
          [](const Started& self, std::optional<double> timeout) -> const Started& {
            self.wait(timeout);
            return self;
          },
          py::arg("timeout") = py::none(),
          R"(Wait until the run has finished.

Args:
    timeout: Maximum number of seconds to wait. None, the default, means no limit.

Returns:
    The execution itself.

Raises:
    TimeoutError: If the run does not finish in time.
    Error: Any error that the run itself raised.)")
      .def(
          "cancel", [](const Started& self) { self.execution->cancel(); },
          R"(Cancel the run, without waiting for it to end.

The run ends before its next kernel, or within a long kernel, unless it finishes first. Variables then have their values
from before the run, and waiting for the run raises CancelledError.)")
      .def_property_readonly(
          "done", [](const Started& self) { return self.execution->done(); },
          "Whether the run has finished, successfully or not. Does not wait.")
      .def_property_readonly(
          "results", &Started::results,
          "The results, after waiting for the run. Their form is that of the method that started it: for "
          "Graph.run_async, the array of a single target or a dict of arrays keyed by target; for an "
          "Executable or a DeviceGraph, a list in the order of the targets. Raises the error of the run, "
          "if any.")
      .def(
          "__float__",
          [](const Started& self) -> py::float_ {
            self.wait();
            const auto& results = self.execution->pending_results();
            if (results.empty()) throw py::type_error("an execution without targets cannot be converted to a number");
            if (const auto number = to_number(results.front())) return py::float_(*number);
            return py::float_(py::cast(results.front()));
          },
          "Wait for the run and return the first result, which must have one element, as a number.")
      .def_property_readonly(
          "pending_results", [](const Started& self) { return as_list(self.execution->pending_results()); },
          "The result arrays in the order of the targets, without waiting. An array may not be written yet, "
          "and is None while its shape is unknown.")
      .def_property_readonly(
          "command_buffer", [](const Started& self) { return self.execution->command_buffer(); },
          "The committed command buffer of the run.")
      .def_property_readonly(
          "error", [](const Started& self) { return to_python_exception(self.execution->error()); },
          "The exception that the run has raised, or None.");
}

void define_executable(Module& module) {
  using Self = std::shared_ptr<Executable>;
  const auto graph = [](const Self& self) { return graph_object(self->graph()); };
  Class<Executable, compiler::Callable, Self>(
      module, "Executable", py::multiple_inheritance(),
      "Targets and target operations compiled for one device and for one type of each feed.")
      .def(
          "run",
          [](const Self& self, const Sequence<py::object>& inputs, const std::optional<Sequence<py::object>>& results,
             const Maybe<QueuePointer>& queue, CopyRule copy, std::optional<double> timeout) {
            return run(self, to_inputs(*self, inputs, copy), to_results(self->targets(), results),
                       queue.value_or(nullptr), timeout);
          },
          py::arg("inputs"), py::arg("results") = py::none(), py::arg("queue") = py::none(),
          py::arg("copy") = py::none(), py::arg("timeout") = py::none(), R"(Run the executable and wait for the results.

Args:
    inputs: Arrays in the order of `feeds`.
    results: Arrays to write to, in the order of `targets`. None, the default, allocates them.
    queue: Command queue to run on. None, the default, means the device's own queue.
    copy: Handling of inputs that cannot be shared: None, the default, copies them; False raises ShapeError.
    timeout: Maximum number of seconds to wait. A run that takes longer is cancelled, and variables keep their values.
        None, the default, means no limit.

Returns:
    A list of NDArrays in the order of `targets`.

Raises:
    TimeoutError: If the run does not end in time.)")
      .def(
          "run_async",
          [](const Self& self, const Sequence<py::object>& inputs, const std::optional<Sequence<py::object>>& results,
             MaybeDescriptor descriptor, const Maybe<QueuePointer>& queue, CopyRule copy) {
            Started started = start(self, to_inputs(*self, inputs, copy), to_results(self->targets(), results),
                                    native(descriptor), queue.value_or(nullptr));
            note_writer(results, started);
            return started;
          },
          py::arg("inputs"), py::arg("results") = py::none(), py::arg("descriptor") = py::none(),
          py::arg("queue") = py::none(), py::arg("copy") = py::none())
      .def(
          "encode",
          [](const Self& self, const std::shared_ptr<CommandBuffer>& buffer, const Sequence<py::object>& inputs,
             const std::optional<Sequence<py::object>>& results, MaybeDescriptor descriptor, CopyRule copy) {
            const py::object behind = py::cast(buffer);
            Arrays made = encode(self, buffer, to_inputs(*self, inputs, copy, behind),
                                 to_results(self->targets(), results, behind), native(descriptor));
            note_writer(results, behind);
            return made;
          },
          py::arg("command_buffer").none(false), py::arg("inputs"), py::arg("results") = py::none(),
          py::arg("descriptor") = py::none(), py::arg("copy") = py::none(),
          R"(Encode a run to a command buffer, which the caller commits.

Args:
    command_buffer: Command buffer of a queue on the executable's device.
    inputs: Arrays in the order of `feeds`.
    results: Arrays to write to, in the order of `targets`. None, the default, allocates them.
    descriptor: Handlers and events of the run. Defaults to None.
    copy: Handling of inputs that cannot be shared: None, the default, copies them; False raises ShapeError.

Returns:
    A list of NDArrays in the order of `targets`, which are written when the command buffer has completed.)")
      .def_property_readonly("feeds",
                             [graph](const Self& self) {
                               py::typing::List<Tensor> result;
                               for (auto& [tensor, type] : self->feeds()) result.append(to_object(graph(self), tensor));
                               return result;
                             })
      .def_property_readonly(
          "feed_types",
          [](const Self& self) {
            py::typing::List<py::tuple> result;
            for (auto& [tensor, type] : self->feeds()) result.append(to_object(type));
            return result;
          },
          "The (dtype, shape) of each feed.")
      .def_property_readonly("targets",
                             [graph](const Self& self) { return bindings::to_list(graph(self), self->targets()); })
      .def_property_readonly("target_types",
                             [](const Self& self) {
                               py::typing::List<py::tuple> result;
                               for (auto& type : self->target_types()) result.append(to_object(type));
                               return result;
                             })
      .def_property_readonly(
          "target_operations",
          [graph](const Self& self) { return bindings::to_list(graph(self), self->target_operations()); })
      .def_property_readonly("device", &Executable::device, py::return_value_policy::reference)
      .def_property_readonly("bytes", &Executable::bytes, "Size of the planned intermediates and constants in bytes.")
      .def(
          "serialize",
          [](const Self& self, const std::string& path, const std::string& platform, const std::string& minimum) {
            WithoutGil released;
            self->serialize(path, {platform, minimum});
          },
          py::arg("path"), py::arg("platform") = "macOS", py::arg("minimum_deployment_target") = "",
          R"(Write an MPSGraphPackage for applications (device metal only).

Variables are frozen to their current values. The file PATH.json next to the package names its inputs and outputs.

Args:
    path: Path of the package.
    platform: "macOS" (the default), "iOS", "tvOS", or "visionOS".
    minimum_deployment_target: Oldest supported version of the platform, for example "17.0". Defaults to "".

Raises:
    UnsupportedError: On other devices, and before macOS 14.0.

Source: serializeToMPSGraphPackageAtURL:descriptor:.)")
      .def_property_readonly("own_bytes", &Executable::own_bytes,
                             "The bytes of memory that only this executable uses, such as constants.")
      .def_property_readonly("shared_bytes", &Executable::shared_bytes,
                             "The bytes of intermediate values, in memory that executables share.")
      .def("kernel_names", &Executable::kernel_names, "Return the names of the kernels, in execution order.")
      .def("plan", &Executable::plan, "Return a human-readable description of kernels, buffers, and offsets.");
}

void define_compilation_descriptor(Module& module) {
  Class<CompilationDescriptor>(
      module, "CompilationDescriptor",
      "Options of a compilation: passes to skip, reference kernels, observation, and callables.")
      .def(py::init([](std::vector<std::string> disabled_passes, bool reference_kernels, py::object observe,
                       std::map<std::string, std::shared_ptr<compiler::Callable>> callables, bool check_finite) {
             return CompilationDescriptor{std::move(disabled_passes), reference_kernels, std::move(observe),
                                          std::move(callables), check_finite};
           }),
           py::arg("disabled_passes") = py::tuple(), py::arg("reference_kernels") = false,
           py::arg("observe") = py::none(), py::arg("callables") = py::dict(), py::arg("check_finite") = false,
           "Create a descriptor. `observe(pass_name, text)` is called with the program after each pass. "
           "`callables` are executables of other graphs, or ends of an Exchange, by the symbol that `call` "
           "operations use. With `check_finite`, a run ends with CheckError at the first operation that "
           "produces NaN or an infinity.")
      .def_readwrite("check_finite", &CompilationDescriptor::check_finite)
      .def_readwrite("callables", &CompilationDescriptor::callables)
      .def_readwrite("disabled_passes", &CompilationDescriptor::disabled_passes)
      .def_readwrite("reference_kernels", &CompilationDescriptor::reference_kernels)
      .def_readwrite("observe", &CompilationDescriptor::observe);
}

void define_device_graph(Module& module) {
  DeviceGraphClass graph(module, "DeviceGraph",
                         "A graph on one device, with the values of its variables and its executables there.");
  define_variable_access(graph);
  graph
      .def(py::init([](const std::shared_ptr<Graph>& graph, const py::object& device) {
             return std::make_shared<DeviceGraph>(graph, to_device(device));
           }),
           py::arg("graph").none(false), py::arg("device") = py::none())
      .def("compile", &compile, py::arg("feeds"), py::arg("targets"), py::arg("target_operations") = py::tuple(),
           py::arg("options") = py::none(),
           R"(Return an executable, from the cache if an equal one was compiled before.

Args:
    feeds: A dict of types (dtype, shape), keyed by placeholder.
    targets: Tensors to compute.
    target_operations: Operations to run in addition. Defaults to none.
    options: Options of the compilation. Defaults to None.

Returns:
    An Executable.)")
      .def(
          "run",
          [](DeviceGraph& self, const Feeds& feeds, const Sequence<Tensor>& targets,
             const Sequence<Operation>& operations, const std::optional<Sequence<py::object>>& results,
             const Maybe<QueuePointer>& queue, CopyRule copy, MaybeOptions options, std::optional<double> timeout) {
            Request request(self, feeds, targets, operations, results, copy, options);
            return run(request.executable, std::move(request.inputs), std::move(request.results),
                       queue.value_or(nullptr), timeout);
          },
          py::arg("feeds"), py::arg("targets"), py::arg("target_operations") = py::tuple(),
          py::arg("results") = py::none(), py::arg("queue") = py::none(), py::arg("copy") = py::none(),
          py::arg("options") = py::none(), py::arg("timeout") = py::none(),
          R"(Run targets and target operations, and wait for the results.

Args:
    feeds: A dict of arrays, keyed by placeholder.
    targets: Tensors to compute.
    target_operations: Operations to run in addition. Defaults to none.
    results: Arrays to write to, in the order of targets. None, the default, allocates them.
    queue: Command queue to run on. None, the default, means the device's own queue.
    copy: Handling of feeds that cannot be shared: None, the default, copies them; False raises ShapeError.
    options: Options of the compilation. Defaults to None.
    timeout: Maximum number of seconds to wait. A run that takes longer is cancelled, and variables keep their values.
        None, the default, means no limit.

Returns:
    A list of NDArrays in the order of targets.)")
      .def(
          "run_async",
          [](DeviceGraph& self, const Feeds& feeds, const Sequence<Tensor>& targets,
             const Sequence<Operation>& operations, const std::optional<Sequence<py::object>>& results,
             MaybeDescriptor descriptor, const Maybe<QueuePointer>& queue, CopyRule copy, MaybeOptions options,
             py::object keyed_by) {
            Request request(self, feeds, targets, operations, results, copy, options);
            Started started = start(request.executable, std::move(request.inputs), std::move(request.results),
                                    native(descriptor), queue.value_or(nullptr), false, std::move(keyed_by));
            note_writer(results, started);
            return started;
          },
          py::arg("feeds"), py::arg("targets"), py::arg("target_operations") = py::tuple(),
          py::arg("results") = py::none(), py::arg("descriptor") = py::none(), py::arg("queue") = py::none(),
          py::arg("copy") = py::none(), py::arg("options") = py::none(), py::arg("keyed_by") = py::none(),
          R"(Start a run of targets and target operations, and return immediately.

Args:
    feeds: A dict of arrays, keyed by placeholder.
    targets: Tensors to compute.
    target_operations: Operations to run in addition. Defaults to none.
    results: Arrays to write to, in the order of targets. None, the default, allocates them.
    descriptor: Handlers and events of the run. Defaults to None.
    queue: Command queue to run on. None, the default, means the device's own queue.
    copy: Handling of feeds that cannot be shared: None, the default, copies them; False raises ShapeError.
    options: Options of the compilation. Defaults to None.
    keyed_by: A tensor or a sequence of tensors: the execution then returns the array of that tensor, or a dict of
        arrays keyed by tensor. None, the default, means a list in the order of targets.

Returns:
    An Execution.)")
      .def(
          "encode",
          [](DeviceGraph& self, const std::shared_ptr<CommandBuffer>& buffer, const Feeds& feeds,
             const Sequence<Tensor>& targets, const Sequence<Operation>& operations,
             const std::optional<Sequence<py::object>>& results, MaybeDescriptor descriptor, CopyRule copy,
             MaybeOptions options) {
            const py::object behind = py::cast(buffer);
            Request request(self, feeds, targets, operations, results, copy, options, behind);
            Arrays made = encode(request.executable, buffer, std::move(request.inputs), std::move(request.results),
                                 native(descriptor));
            note_writer(results, behind);
            return made;
          },
          py::arg("command_buffer").none(false), py::arg("feeds"), py::arg("targets"),
          py::arg("target_operations") = py::tuple(), py::arg("results") = py::none(),
          py::arg("descriptor") = py::none(), py::arg("copy") = py::none(), py::arg("options") = py::none())
      .def("set_cache_limits", &DeviceGraph::set_cache_limits, py::arg("count"), py::arg("bytes"))
      .def("clear_cache", &DeviceGraph::clear_cache)
      .def_property_readonly("cache", &DeviceGraph::cache_statistics, "The current counters of the executable cache.")
      .def_property_readonly(
          "graph",
          [](const DeviceGraph& self) { return py::reinterpret_borrow<GraphObject>(graph_object(self.graph())); })
      .def_property_readonly("device", &DeviceGraph::device, py::return_value_policy::reference);
}

}  // namespace

std::vector<NDArray> run_and_wait(const std::shared_ptr<Executable>& executable, std::vector<NDArray> inputs,
                                  std::vector<NDArray> results, const QueuePointer& queue,
                                  std::optional<double> timeout) {
  const Started started = start(executable, std::move(inputs), std::move(results), {}, queue, !timeout);
  wait_or_cancel(started.execution->command_buffer(), timeout);
  return started.execution->pending_results();
}

void define_executables(Module& module) {
  define_descriptors(module);
  define_execution(module);
  define_executable(module);
  define_compilation_descriptor(module);
  define_device_graph(module);
}

}  // namespace mpsgraph::bindings
