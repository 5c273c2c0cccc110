// Process-wide functions and devices of the C interface, and the table of all functions.
#include "c_api/objects.h"
#include "mpsgraph/runtime/threads.h"

using namespace mpsgraph;
using namespace mpsgraph::c_api;
using runtime::Device;

const char* mpsgraph_version(void) { return MPSGRAPH_VERSION; }

mpsgraph_status mpsgraph_thread_count(int32_t* count) {
  return guarded([&] { *required(count, "count") = runtime::thread_count(); });
}

mpsgraph_status mpsgraph_set_thread_count(int32_t count) {
  return guarded([&] { runtime::set_thread_count(count); });
}

mpsgraph_status mpsgraph_get_memory_statistics(mpsgraph_memory_statistics* statistics) {
  return guarded([&] {
    required(statistics, "statistics");
    const runtime::BufferStatistics now = Device::memory_statistics();
    *statistics = {now.live_bytes, now.peak_live_bytes, now.cached_bytes, now.cache_limit, now.allocations, now.reused};
  });
}

mpsgraph_status mpsgraph_set_memory_cache_limit(uint64_t bytes) {
  return guarded([&] { Device::set_memory_cache_limit(bytes); });
}

mpsgraph_status mpsgraph_device_count(size_t* count) {
  return guarded([&] { *required(count, "count") = Device::names().size(); });
}

mpsgraph_status mpsgraph_device_name_at(size_t index, char* buffer, size_t capacity, size_t* length) {
  return guarded([&] {
    const auto names = Device::names();
    if (index >= names.size())
      throw OutOfRangeError(cat("device index ", index, " is out of range: the number of devices is ", names.size()));
    write_text(names[index], buffer, capacity, length);
  });
}

mpsgraph_status mpsgraph_device_open(const char* name, mpsgraph_device* device) {
  return guarded([&] {
    required(device, "device");
    Device& found = name ? Device::get(name) : Device::default_device();
    *device = static_cast<mpsgraph_device>(give(std::make_shared<DeviceObject>(found)));
  });
}

mpsgraph_status mpsgraph_device_name(mpsgraph_device device, char* buffer, size_t capacity, size_t* length) {
  return guarded([&] { write_text(device_or_default(device).name(), buffer, capacity, length); });
}

mpsgraph_status mpsgraph_device_description(mpsgraph_device device, char* buffer, size_t capacity, size_t* length) {
  return guarded([&] { write_text(device_or_default(device).description(), buffer, capacity, length); });
}

const mpsgraph_functions* mpsgraph_get_functions(uint32_t interface_version) {
  static const mpsgraph_functions table = {
      sizeof(mpsgraph_functions),
#include "c_api/function_table.inc"
  };
  return interface_version >= 1 && interface_version <= MPSGRAPH_INTERFACE_VERSION ? &table : nullptr;
}
