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

// Returns tuples (name, category, shape, thread, begin, duration, command buffer, kernel index or -1), and the kernels.
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

// Returns ({dtype name: FLOP/s}, bytes/s).
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

void define_profiler(py::module_& module) {
  Class<Profile>(module, "Profile", "What was recorded; mpsgraph.profiler makes it readable.")
      .def("contents", &contents)
      .def_readonly("threads", &Profile::threads, "Names by number.")
      .def_readonly("dropped", &Profile::dropped, "Records that made room for newer ones.")
      .def_readonly("duration", &Profile::duration, "Nanoseconds.")
      .def("chrome_trace", &Profile::chrome_trace, py::call_guard<WithoutGil>(),
           "JSON in Chrome's trace event format.");
  module.def(
      "start_profile", [](size_t capacity) { Profiler::get().start(capacity); }, py::arg("capacity"),
      "DeviceError when a profile is being taken already.");
  module.def("stop_profile", [] { return Profiler::get().stop(); }, "DeviceError when none is being taken.");
  module.def("profile_session", [] { return Profiler::get().session(); }, "0 when no profile is being taken.");
  module.def("device_limits", &limits, py::arg("device"), "Measured when first asked for.");
  module.def("name_this_thread", &Profiler::name_this_thread, py::arg("name"), "In profiles.");
}

}  // namespace mpsgraph::bindings
