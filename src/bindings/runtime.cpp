// Device, CommandQueue, CommandBuffer, SharedEvent, Semaphore, and the shutdown of the runtime.
//
// Calls that may wait release the GIL; handlers run on the runtime's threads and acquire it.
#include "bindings/bindings.h"
#include "mpsgraph/runtime/printing.h"
#include "mpsgraph/runtime/threads.h"

namespace mpsgraph::bindings {

using namespace runtime;

namespace {

CommandBuffer::Handler handler(const py::function& function) {
  return [function = keep(function)](CommandBuffer& buffer) {
    call_python([&] { py::handle(function.get())(buffer.shared_from_this()); });
  };
}

void wait_for_event(const std::shared_ptr<SharedEvent>& event, uint64_t value, std::optional<double> seconds) {
  const Timeout timeout = seconds ? to_timeout(seconds) : event->default_timeout();
  if (!wait_released(timeout, [&](double slice) { return event->wait_for(value, slice); }))
    event->throw_timeout(value, *timeout);
}

void wait_for_semaphore(const std::shared_ptr<Semaphore>& semaphore, std::optional<double> seconds) {
  const Timeout timeout = to_timeout(seconds);
  if (!wait_released(timeout, [&](double slice) { return semaphore->wait_for(slice); }))
    Semaphore::throw_timeout(*timeout);
}

}  // namespace

Device& to_device(py::handle object) {
  if (object.is_none()) return Device::default_device();
  const bool is_name = py::isinstance<py::str>(object) && py::len(object) < 100;
  if (is_name) return Device::get(py::cast<std::string>(object));
  if (!py::isinstance<Device>(object))
    throw DeviceError(cat("device must be a Device, its name, or None, got ", shown(object)));
  Device& device = py::cast<Device&>(object);
  device.check_usable();
  return device;
}

void wait_until_completed(const std::shared_ptr<CommandBuffer>& buffer, std::optional<double> seconds) {
  const Timeout timeout = to_timeout(seconds);
  if (!timeout && !buffer->done()) {
    WithoutGil released;
    buffer->hasten();
  }
  if (!wait_released(timeout, [&](double slice) { return buffer->wait_for(slice); })) buffer->throw_timeout(*timeout);
  buffer->rethrow();
}

void define_runtime(py::module_& module) {
  Class<Device, std::unique_ptr<Device, py::nodelete>> device(
      module, "Device",
      "A backend of this process: Device(\"cpu\"), and on a Mac Device(\"metal\"), which is the default there. "
      "Device metal has been verified over a mock of Apple's frameworks, by "
      "compiling for macOS and against Apple's interfaces; it has not yet run on "
      "Apple hardware (docs/metal.md).");
  Class<SharedEvent, std::shared_ptr<SharedEvent>> event(
      module, "SharedEvent", "A number that only grows, by which queues and the host order their work.");
  Class<Semaphore, std::shared_ptr<Semaphore>> semaphore(module, "Semaphore",
                                                         "A counter that limits how many steps are in flight.");
  Class<CommandQueue, std::shared_ptr<CommandQueue>> queue(module, "CommandQueue",
                                                           "Runs command buffers in order, beside other queues.");
  Class<CommandBuffer, std::shared_ptr<CommandBuffer>> buffer(module, "CommandBuffer",
                                                              "Work, waits and signals, committed once.");

  device
      .def(py::init([](const py::str& name) { return &to_device(name); }), py::arg("name"),
           "DeviceError when there is none.")
      .def_static("default", &Device::default_device, py::return_value_policy::reference)
      .def_static("names", &Device::names, "The devices of this build.")
      .def_property_readonly("name", &Device::name)
      .def_property_readonly("description", &Device::description, "For people: processor, libraries, threads.")
      .def_property_readonly("default_queue", [](Device& self) { return self.default_queue(); })
      .def("__eq__",
           [](const Device& self, const py::object& other) {
             return py::isinstance<Device>(other) && &py::cast<const Device&>(other) == &self;
           })
      .def("__hash__", [](const Device& self) { return std::hash<const void*>()(&self); })
      .def("__repr__", [](const Device& self) { return cat("Device(\"", self.name(), "\")"); });

  event
      .def(py::init([](std::optional<double> timeout) { return std::make_shared<SharedEvent>(to_timeout(timeout)); }),
           py::arg("timeout") = 60.0, "`timeout`: seconds that waits take at most by default; None for no limit.")
      .def_property_readonly("signaled_value", &SharedEvent::signaled_value)
      .def_property_readonly("timeout", &SharedEvent::default_timeout)
      .def("signal", &SharedEvent::signal, py::arg("value"),
           "Raises the value; one that was passed already changes nothing.")
      .def("wait", &wait_for_event, py::arg("value"), py::arg("timeout") = py::none(),
           "Until the value is reached. TimeoutError; DeviceError when what was to signal it failed.");

  semaphore.def(py::init<int64_t>(), py::arg("value"))
      .def_property_readonly("value", &Semaphore::value)
      .def("signal", &Semaphore::signal)
      .def("wait", &wait_for_semaphore, py::arg("timeout") = py::none(), "Takes one, when there is one. TimeoutError.");

  queue
      .def(py::init([](const py::object& device) { return CommandQueue::create(to_device(device)); }),
           py::arg("device") = py::none())
      .def("command_buffer", &CommandQueue::command_buffer)
      .def("close", &CommandQueue::close, py::call_guard<WithoutGil>(),
           "Takes no more work, cancels event waits, finishes what was committed.")
      .def_property_readonly("device", &CommandQueue::device, py::return_value_policy::reference);

  buffer
      .def(
          "add_scheduled_handler",
          [](CommandBuffer& self, const py::function& function) { self.add_scheduled_handler(handler(function)); },
          py::arg("handler"), "handler(command_buffer), when the queue reaches it.")
      .def(
          "add_completed_handler",
          [](CommandBuffer& self, const py::function& function) { self.add_completed_handler(handler(function)); },
          py::arg("handler"), "handler(command_buffer), when its work is done or has failed.")
      .def(
          "encode_wait_for_event",
          [](CommandBuffer& self, std::shared_ptr<SharedEvent> event, uint64_t value, std::optional<double> timeout) {
            const Timeout seconds = timeout ? to_timeout(timeout) : event->default_timeout();
            self.encode_wait_for_event(std::move(event), value, seconds);
          },
          py::arg("event").none(false), py::arg("value"), py::arg("timeout") = py::none())
      .def("encode_signal_event", &CommandBuffer::encode_signal_event, py::arg("event").none(false), py::arg("value"))
      .def(
          "commit", [](CommandBuffer& self) { self.commit(); }, py::call_guard<WithoutGil>(),
          "DeviceError the second time.")
      .def("wait_until_completed", &wait_until_completed, py::arg("timeout") = py::none(),
           "Until work and handlers are done. Raises what they raised; TimeoutError.")
      .def_property_readonly(
          "status", [](const CommandBuffer& self) { return std::string(name(self.status())); },
          "\"not_enqueued\", \"committed\", \"scheduled\", \"completed\" or \"error\".")
      .def_property_readonly("done", &CommandBuffer::done)
      .def_property_readonly(
          "error", [](const CommandBuffer& self) { return to_python_exception(self.error()); },
          "An exception, or None.")
      .def_property_readonly("queue", [](const CommandBuffer& self) { return self.queue().shared_from_this(); });

  // Printing through Python reaches sys.stdout even if a notebook or a test has replaced it.
  set_print_handler([](const std::string& text) {
    if (!Py_IsInitialized()) return;
    call_python(
        [&] { py::module_::import("builtins").attr("print")(text, py::arg("end") = "", py::arg("flush") = true); });
  });
  module.def(
      "memory_statistics",
      [] {
        py::dict devices;
        for (const auto& [name, s] : Device::memory_statistics_of_each()) {
          py::dict device;
          for (const auto& [use, index] : {std::pair{"arrays", 0}, {"arenas", 1}, {"packed_weights", 2}}) {
            py::dict item;
            item["current"] = s.live_by_use[static_cast<size_t>(index)];
            item["peak"] = s.peak_by_use[static_cast<size_t>(index)];
            device[use] = item;
          }
          py::dict total;
          total["current"] = s.live_bytes;
          total["peak"] = s.peak_live_bytes;
          device["total"] = total;
          device["cached"] = s.cached_bytes;
          devices[py::str(name)] = device;
        }
        return devices;
      },
      R"(How much memory is in use, and the most that was since the process began, in bytes.

A dict by device's name, of those that have been used, and "cpu", which has what is no other device's. Each has
"arrays" (also variables and results), "arenas" (what programs compute in between) and "packed_weights" (constants of
programs, packed as kernels read them), and their "total", each a dict of "current" and "peak"; and "cached", bytes of
freed blocks that wait for the next array of their size. Memory that MPSGraph allocates by itself nobody can count.
Arrays over other people's memory, such as fed numpy arrays, are not ours and not in it.

>>> before = mg.memory_statistics()["cpu"]["arrays"]["current"]
>>> kept = mg.asarray(np.zeros(1000, np.float32), copy=True)
>>> mg.memory_statistics()["cpu"]["arrays"]["current"] >= before
True
)");
  module.def(
      "buffer_statistics",
      [] {
        const auto s = Device::memory_statistics();
        py::dict result;
        result["live_bytes"] = s.live_bytes;
        result["peak_live_bytes"] = s.peak_live_bytes;
        result["cached_bytes"] = s.cached_bytes;
        result["cache_limit"] = s.cache_limit;
        result["allocations"] = s.allocations;
        result["reused"] = s.reused;
        return result;
      },
      "Memory in use and in the cache of freed blocks, of the process and of all devices.");
  module.def("set_buffer_cache_limit", &Device::set_memory_cache_limit, py::arg("bytes"),
             "0: freed memory goes back at once.");
  module.def("set_num_threads", &runtime::set_thread_count, py::arg("n"),
             R"(Says how many threads the CPU device's kernels use together; 0: automatic.

Automatic is OMP_NUM_THREADS, or as many as there are processors that the process may use. It holds from the next kernel
on, for all queues, and changes no result: kernels are cut into parts at the first compilation, for the number that
holds then. PyTorch's torch.set_num_threads.

Raises DeviceError for a negative number, and for more threads than kernels have been cut for.

>>> mg.set_num_threads(1)
>>> mg.get_num_threads()
1
>>> mg.set_num_threads(0)
)");
  module.def("get_num_threads", &runtime::thread_count,
             R"(How many threads the CPU device's kernels use together. PyTorch's torch.get_num_threads.

>>> mg.get_num_threads() >= 1
True
)");
  module.def(
      "shutdown",
      [] {
        {
          WithoutGil released;
          runtime::shutdown();
        }
        release_pending_objects();
      },
      "Finishes all work and ends the runtime's threads; called at exit. Idempotent.");
}

}  // namespace mpsgraph::bindings
