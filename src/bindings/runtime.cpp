// Device, CommandQueue, CommandBuffer, SharedEvent, Semaphore, and the shutdown of the runtime.
//
// Calls that may wait release the GIL; handlers run on the runtime's threads and acquire it.
#include "bindings/bindings.h"
#include "mpsgraph/runtime/device_graph.h"
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

// Waits for a run that the caller has started, and cancels it on a timeout and on Ctrl-C. Then waits for the end of the
// cancelled run, because variables have their old values only then. Another Ctrl-C ends that wait.
void wait_or_cancel(const std::shared_ptr<CommandBuffer>& buffer, std::optional<double> seconds) {
  const Timeout timeout = to_timeout(seconds);
  if (!timeout && !buffer->done()) {
    WithoutGil released;
    buffer->hasten();
  }
  const auto wait = [&](double slice) { return buffer->wait_for(slice); };
  bool ended;
  try {
    ended = wait_released(timeout, wait);
  } catch (const py::error_already_set&) {
    buffer->cancel();
    wait_released({}, wait);
    throw;
  }
  if (ended) return buffer->rethrow();
  buffer->cancel();
  wait_released({}, wait);
  buffer->rethrow_after_timeout(*timeout);
}

void define_runtime(Module& module) {
  Class<Device, std::unique_ptr<Device, py::nodelete>> device(
      module, "Device",
      "A backend: Device(\"cpu\"), and on a Mac Device(\"metal\"), which is the default there. Device "
      "metal has been tested against a mock of Apple's frameworks, and compiled for macOS and against "
      "Apple's interfaces; it has not yet run on Apple hardware (docs/metal.md).");
  Class<SharedEvent, std::shared_ptr<SharedEvent>> event(
      module, "SharedEvent", "A monotonically increasing number that queues and the host use to order their work.");
  Class<Semaphore, std::shared_ptr<Semaphore>> semaphore(module, "Semaphore",
                                                         "A counter that limits the number of runs in flight.");
  Class<CommandQueue, std::shared_ptr<CommandQueue>> queue(
      module, "CommandQueue", "A queue that runs command buffers in order, concurrently with other queues.");
  Class<CommandBuffer, std::shared_ptr<CommandBuffer>> buffer(
      module, "CommandBuffer", "A sequence of runs, waits, and signals that is committed to its queue once.");

  Class<CacheStatistics>(module, "CacheStatistics", "Contents and counters of an executable cache.")
      .def_readonly("count", &CacheStatistics::count)
      .def_readonly("bytes", &CacheStatistics::bytes)
      .def_readonly("count_limit", &CacheStatistics::count_limit)
      .def_readonly("byte_limit", &CacheStatistics::byte_limit)
      .def_readonly("hits", &CacheStatistics::hits)
      .def_readonly("misses", &CacheStatistics::misses)
      .def_readonly("evictions", &CacheStatistics::evictions)
      .def_readonly("compiles", &CacheStatistics::compiles)
      .def_readonly("seconds", &CacheStatistics::seconds, "Total time spent compiling, in seconds.")
      .def("__repr__", [](const CacheStatistics& s) {
        return cat("CacheStatistics(count=", s.count, ", bytes=", s.bytes, ", hits=", s.hits, ", misses=", s.misses,
                   ", compiles=", s.compiles, ", evictions=", s.evictions, ", seconds=", s.seconds, ")");
      });

  device
      .def(py::init([](const py::str& name) { return &to_device(name); }), py::arg("name"),
           "Return the device with the given name. Raises DeviceError if this build has no such device.")
      .def_static("default", &Device::default_device, py::return_value_policy::reference)
      .def_static("names", &Device::names, "Return the names of the devices in this build.")
      .def_property_readonly("name", &Device::name)
      .def_property_readonly("description", &Device::description,
                             "Human-readable description: processor, libraries, and threads.")
      .def_property_readonly("default_queue", [](Device& self) { return self.default_queue(); })
      .def("__eq__",
           [](const Device& self, const py::object& other) {
             return py::isinstance<Device>(other) && &py::cast<const Device&>(other) == &self;
           })
      .def("__hash__", [](const Device& self) { return std::hash<const void*>()(&self); })
      .def("__repr__", [](const Device& self) { return cat("Device(\"", self.name(), "\")"); });

  event
      .def(py::init([](std::optional<double> timeout) { return std::make_shared<SharedEvent>(to_timeout(timeout)); }),
           py::arg("timeout") = 60.0,
           "Create an event. `timeout` is the number of seconds after which waits time out by default, None "
           "for no limit.")
      .def_property_readonly("signaled_value", &SharedEvent::signaled_value)
      .def_property_readonly("timeout", &SharedEvent::default_timeout)
      .def("signal", &SharedEvent::signal, py::arg("value"),
           R"(Increase the value of the event; a value below the current one has no effect.

Args:
    value: New value.)")
      .def("wait", &wait_for_event, py::arg("value"), py::arg("timeout") = py::none(),
           R"(Wait until the event reaches a value.

Args:
    value: Value that the event must reach.
    timeout: Maximum number of seconds to wait. None, the default, means the event's own timeout.

Raises:
    TimeoutError: If the value is not reached in time.
    DeviceError: If the work that should signal the event failed.)");

  semaphore.def(py::init<int64_t>(), py::arg("value"))
      .def_property_readonly("value", &Semaphore::value)
      .def("signal", &Semaphore::signal)
      .def("wait", &wait_for_semaphore, py::arg("timeout") = py::none(),
           R"(Wait until the counter is positive, and decrement it.

Args:
    timeout: Maximum number of seconds to wait. None, the default, means no limit.

Raises:
    TimeoutError: If the counter does not become positive in time.)");

  queue
      .def(py::init([](const py::object& device) { return CommandQueue::create(to_device(device)); }),
           py::arg("device") = py::none())
      .def("command_buffer", &CommandQueue::command_buffer)
      .def("close", &CommandQueue::close, Released(),
           "Accept no more work, cancel waits for events, and finish the committed work.")
      .def_property_readonly("device", &CommandQueue::device, py::return_value_policy::reference);

  buffer
      .def(
          "add_scheduled_handler",
          [](CommandBuffer& self, const py::function& function) { self.add_scheduled_handler(handler(function)); },
          py::arg("handler"), R"(Add a handler that is called when the queue reaches the command buffer.

Args:
    handler: Function that is called with the command buffer.)")
      .def(
          "add_completed_handler",
          [](CommandBuffer& self, const py::function& function) { self.add_completed_handler(handler(function)); },
          py::arg("handler"),
          R"(Add a handler that is called when the work of the command buffer has completed or failed.

Args:
    handler: Function that is called with the command buffer.)")
      .def(
          "encode_wait_for_event",
          [](CommandBuffer& self, std::shared_ptr<SharedEvent> event, uint64_t value, std::optional<double> timeout) {
            const Timeout seconds = timeout ? to_timeout(timeout) : event->default_timeout();
            self.encode_wait_for_event(std::move(event), value, seconds);
          },
          py::arg("event").none(false), py::arg("value"), py::arg("timeout") = py::none())
      .def("encode_signal_event", &CommandBuffer::encode_signal_event, py::arg("event").none(false), py::arg("value"))
      .def(
          "commit", [](CommandBuffer& self) { self.commit(); }, Released(),
          "Commit the command buffer to its queue. Raises DeviceError if it has already been committed.")
      .def("wait_until_completed", &wait_until_completed, py::arg("timeout") = py::none(),
           R"(Wait until the work and the handlers have completed.

Args:
    timeout: Maximum number of seconds to wait. None, the default, means no limit.

Raises:
    TimeoutError: If they do not complete in time.
    Error: Any error that the work or a handler raised.)")
      .def_property_readonly(
          "status", [](const CommandBuffer& self) { return std::string(name(self.status())); },
          "The status: \"not_enqueued\", \"committed\", \"scheduled\", \"completed\", or \"error\".")
      .def_property_readonly("done", &CommandBuffer::done)
      .def_property_readonly(
          "error", [](const CommandBuffer& self) { return to_python_exception(self.error()); },
          "The exception that the work raised, or None.")
      .def_property_readonly("queue", [](const CommandBuffer& self) { return self.queue().shared_from_this(); });

  // Text is printed through Python, so that it goes to the current sys.stdout, which a notebook or a test may have
  // replaced.
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
      R"(Return the memory in use, and its peak since the process started, in bytes.

Memory that MPSGraph allocates internally cannot be counted. Arrays over memory of other libraries, such as fed numpy
arrays, are not included.

Returns:
    A dict keyed by device name, with an entry for each device that has been used and for "cpu", which includes memory
    of no particular device. Each value is a dict with the keys "arrays" (including variables and results), "arenas"
    (intermediate values of programs), "packed_weights" (constants of programs, packed as kernels read them), and
    "total", the sum of these three. Each of the four is a dict with the keys "current" and "peak". The key "cached"
    gives the bytes of freed blocks that are kept for the next array of their size.

Example:
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
      "Return the memory in use and in the cache of freed blocks, for the process and all devices.");
  module.def("set_buffer_cache_limit", &Device::set_memory_cache_limit, py::arg("bytes"),
             "Set the limit of the cache of freed blocks in bytes; 0 returns freed memory to the system "
             "immediately.");
  module.def("set_num_threads", &runtime::set_thread_count, py::arg("n"),
             R"(Set the number of threads that the kernels of the CPU device share.

The setting applies from the next kernel on, for all queues, and does not change results: kernels are divided into
parts at the first compilation, for the number of threads at that time. It is the counterpart of PyTorch's
torch.set_num_threads.

Args:
    n: Number of threads. 0 means automatic: OMP_NUM_THREADS, or the number of processors that the process may use.

Raises:
    DeviceError: If n is negative, or greater than the number of threads that kernels have been divided for.

Example:
    >>> mg.set_num_threads(1)
    >>> mg.get_num_threads()
    1
    >>> mg.set_num_threads(0)
)");
  module.def("get_num_threads", &runtime::thread_count,
             R"(Return the number of threads that the kernels of the CPU device share.

It is the counterpart of PyTorch's torch.get_num_threads.

Returns:
    The number of threads.

Example:
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
      "Finish all work and end the runtime's threads. Idempotent, and called at exit.");
}

}  // namespace mpsgraph::bindings
