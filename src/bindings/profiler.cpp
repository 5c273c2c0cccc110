// The profiler: start, stop, and the recorded data as plain tuples, which the Python module converts.
#include "mpsgraph/runtime/profiler.h"
#include "bindings/bindings.h"
#include "mpsgraph/runtime/device.h"

namespace mpsgraph::bindings {

using namespace runtime;

namespace {

std::string_view shape_name(ProfileRecord::Shape shape) {
  switch (shape) {
    case ProfileRecord::Shape::interval: return "interval";
    case ProfileRecord::Shape::overlapping: return "overlapping";
    case ProfileRecord::Shape::instant: return "instant";
  }
  return "";
}

// Returns a list of tuples (name, category, shape, thread, begin, duration, command buffer, kernel index or -1), and
// the kernels.
py::tuple contents(const Profile& profile) {
  std::map<const KernelDescription*, int> known;
  py::list records, kernels;
  for (const ProfileRecord& record : profile.records) {
    int index = -1;
    if (const KernelDescription* kernel = record.kernel.get()) {
      const auto [place, is_new] = known.try_emplace(kernel, static_cast<int>(known.size()));
      index = place->second;
      if (is_new)
        kernels.append(py::make_tuple(kernel->name, kernel->kind, kernel->types, kernel->implementation,
                                      kernel->location, kernel->flops, kernel->bytes_read, kernel->bytes_written));
    }
    records.append(py::make_tuple(record.name, record.category, shape_name(record.shape), record.thread, record.begin,
                                  record.duration, record.command_buffer, index));
  }
  return py::make_tuple(std::move(records), std::move(kernels));
}

// Returns a pair: a dict of peak FLOP/s keyed by dtype name, and the peak bytes/s of memory.
py::tuple limits(const std::string& device) {
  DeviceLimits found;
  {
    const WithoutGil released;
    found = Device::get(device).limits();
  }
  py::dict flops;
  for (const auto& [dtype, rate] : found.flops) flops[py::str(std::string(name(dtype)))] = rate;
  return py::make_tuple(flops, found.bandwidth);
}

}  // namespace

void define_profiler(Module& module) {
  Class<Profile>(module, "Profile", "A recorded profile. mpsgraph.profiler converts it to readable tables.")
      .def("contents", &contents)
      .def_readonly("threads", &Profile::threads, "The names of the threads, by index.")
      .def_readonly("dropped", &Profile::dropped, "The number of records that were overwritten by newer ones.")
      .def_readonly("duration", &Profile::duration, "The duration of the profile in nanoseconds.")
      .def("chrome_trace", &Profile::chrome_trace, Released(),
           "Return the profile as JSON in Chrome's trace event format.");
  module.def(
      "start_profile", [](size_t capacity) { Profiler::get().start(capacity); }, py::arg("capacity"),
      "Start a profile. Raises DeviceError if one is already running.");
  module.def(
      "stop_profile", [] { return Profiler::get().stop(); },
      "Stop the profile and return it. Raises DeviceError if none is running.");
  module.def(
      "profile_session", [] { return Profiler::get().session(); },
      "Return the number of records, or 0 if no profile is running.");
  module.def("device_limits", &limits, py::arg("device"),
             "Return the peak throughput of a device, which is measured on the first call.");
  module.def("name_this_thread", &Profiler::name_this_thread, py::arg("name"),
             "Set the name of this thread in profiles.");
}

}  // namespace mpsgraph::bindings
