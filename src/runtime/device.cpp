// The registry of backends and the devices made from them.
#include "runtime/device.h"

#include <utility>

#include "core/errors.h"

namespace mpsgraph::runtime {

namespace {

// Never destroyed: queue threads may use a device until the process is gone.
struct Registry {
  struct Entry {
    std::string name;
    BackendFactory factory;
    Device* device = nullptr;
  };
  std::mutex mutex;
  std::vector<Entry> entries;
};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

}  // namespace

void register_backend(std::string name, BackendFactory factory) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  for (auto& entry : all.entries)
    if (entry.name == name) return;  // registering twice is harmless
  all.entries.push_back({std::move(name), factory});
}

Device::Device(std::string name, std::unique_ptr<Backend> backend)
    : name_(std::move(name)), backend_(std::move(backend)) {}

Device& Device::get(std::string_view name) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  for (auto& entry : all.entries) {
    if (entry.name != name) continue;
    if (!entry.device) entry.device = new Device(entry.name, entry.factory());
    entry.device->check_usable();
    return *entry.device;
  }
  std::string known;
  for (auto& entry : all.entries) known += (known.empty() ? "" : ", ") + entry.name;
  throw DeviceError(cat("there is no device \"", name, "\"; this build has: ", known.empty() ? "none" : known));
}

Device& Device::default_device() {
  auto all = names();
  return get(all.empty() ? "cpu" : all.front());
}

std::vector<std::string> Device::names() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::vector<std::string> result;
  for (auto& entry : all.entries) result.push_back(entry.name);
  return result;
}

const std::shared_ptr<CommandQueue>& Device::default_queue() {
  check_usable();
  std::lock_guard lock(mutex_);
  if (!default_queue_) default_queue_ = CommandQueue::create(*this);
  return default_queue_;
}

void Device::check_usable() const { guard_.check(cat("device ", name_)); }

}  // namespace mpsgraph::runtime
