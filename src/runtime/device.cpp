// The registry of backends, and the devices created from them.
#include "mpsgraph/runtime/device.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "mpsgraph/core/errors.h"
#include "runtime/backend.h"
#include "runtime/framework_oracle.h"

namespace mpsgraph::runtime {

namespace {

// Never destroyed, because queue threads may use a device until the process ends.
struct Registry {
  struct Entry {
    BackendEntry backend;
    std::optional<bool> available;
    Device* device = nullptr;

    bool usable() {
      if (!available) available = !backend.available || backend.available();
      return *available;
    }
  };
  std::mutex mutex;
  std::vector<Entry> entries;  // backends, highest rank first
};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

}  // namespace

SerializedOrder CompiledProgram::serialize(const std::filesystem::path&, const SerializationDescriptor&) const {
  throw UnsupportedError(
      "[serialize] this device has no native form of executables: serialize on device \"metal\" to write an "
      "MPSGraphPackage, or use save() to write a package for every device");
}

std::unique_ptr<CompiledProgram> Backend::load(const std::filesystem::path& path) {
  throw UnsupportedError(
      cat("[load] device ", name(), " cannot run ", path.string(),
          ": an MPSGraphPackage only runs on device \"metal\"; load() opens packages on every device"));
}

FrameworkOracle* oracle_of(const Device& device) { return dynamic_cast<FrameworkOracle*>(&device.backend()); }

void register_backend(BackendEntry entry) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  for (auto& other : all.entries)
    if (other.backend.name == entry.name) return;  // Registering a backend twice is harmless.
  const auto place =
      std::ranges::find_if(all.entries, [&](const Registry::Entry& other) { return other.backend.rank < entry.rank; });
  all.entries.insert(place, {std::move(entry), std::nullopt, nullptr});
}

Device::Device(std::string name, std::unique_ptr<Backend> backend)
    : name_(std::move(name)), backend_(std::move(backend)) {}
Device::~Device() = default;

std::string Device::description() const { return backend_->description(); }

Device& Device::get(std::string_view name) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  for (auto& entry : all.entries) {
    if (entry.backend.name != name || !entry.usable()) continue;
    if (!entry.device) entry.device = new Device(entry.backend.name, entry.backend.make());
    entry.device->check_usable();
    return *entry.device;
  }
  std::string known;
  for (auto& entry : all.entries)
    if (entry.usable()) known += (known.empty() ? "" : ", ") + entry.backend.name;
  throw DeviceError(
      cat("device \"", name, "\" is not available; the available devices are: ", known.empty() ? "none" : known));
}

Device& Device::default_device() {
  auto all = names();
  return get(all.empty() ? "cpu" : all.front());
}

std::vector<std::string> Device::names() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<std::string> result;
  for (auto& entry : all.entries)
    if (entry.usable()) result.push_back(entry.backend.name);
  return result;
}

std::map<std::string, BufferStatistics> Device::memory_statistics_of_each() {
  std::map<std::string, BufferStatistics> result{{"cpu", Buffer::statistics()}};
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  for (const auto& entry : all.entries)
    if (entry.device && entry.device->name() != "cpu")
      result[entry.device->name()] = entry.device->backend().memory_statistics();
  return result;
}

BufferStatistics Device::memory_statistics() {
  BufferStatistics total = Buffer::statistics();
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  for (const auto& entry : all.entries) {
    if (!entry.device) continue;
    const BufferStatistics own = entry.device->backend().memory_statistics();
    total.live_bytes += own.live_bytes;
    total.peak_live_bytes += own.peak_live_bytes;
    total.cached_bytes += own.cached_bytes;
    total.allocations += own.allocations;
    total.reused += own.reused;
  }
  return total;
}

void Device::set_memory_cache_limit(size_t bytes) {
  Buffer::set_cache_limit(bytes);
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  for (const auto& entry : all.entries)
    if (entry.device) entry.device->backend().set_memory_cache_limit(bytes);
}

const std::shared_ptr<CommandQueue>& Device::default_queue() {
  check_usable();
  std::lock_guard lock(mutex_);
  if (!default_queue_) default_queue_ = CommandQueue::create(*this);
  return default_queue_;
}

const DeviceLimits& Device::limits() {
  std::lock_guard lock(mutex_);
  if (!limits_) limits_ = backend_->measure_limits();
  return *limits_;
}

void Device::check_usable() const {
  // Every run calls this function, so it first makes a cheap check for a fork and builds the error message only if that
  // check fails.
  if (guard_.forked()) guard_.check(cat("device ", name_));
}

}  // namespace mpsgraph::runtime
