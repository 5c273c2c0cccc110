// Device: one instance of a backend in this process, with a default queue for work that specifies no queue.
//
// Devices are created at first use and live until the process ends. In a forked child, a device that was created before
// the fork throws DeviceError.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"
#include "mpsgraph/runtime/command_queue.h"
#include "mpsgraph/runtime/ndarray.h"

namespace mpsgraph::runtime {

// The peak performance of a device, for profiles. For dtypes that are not listed, the value of float32 applies.
struct DeviceLimits {
  std::map<DType, double> flops;  // FLOP/s, where a multiply-add counts as two; empty if unknown
  double bandwidth = 0;  // bytes/s between memory and processor, in both directions together
};

class Backend;

// A device, such as "cpu" or "metal". Its functions may be called from several threads.
class MPSGRAPH_API Device {
 public:
  // Returns the device with this name. If no device has this name, throws a DeviceError that lists the devices.
  static Device& get(std::string_view name);
  static Device& default_device();  // "metal" if available, otherwise "cpu"
  static std::vector<std::string> names();  // names of all devices, the default device first

  // Statistics of the whole process, including all devices that have been used.
  static BufferStatistics memory_statistics();
  // Statistics by device name. Memory of the process that belongs to no other device is counted for "cpu".
  static std::map<std::string, BufferStatistics> memory_statistics_of_each();
  static void set_memory_cache_limit(size_t bytes);  // the limit applies to each device

  const std::string& name() const { return name_; }
  std::string description() const;
  const DeviceLimits& limits();  // the limits are measured at first use
  Backend& backend() const { return *backend_; }
  const std::shared_ptr<CommandQueue>& default_queue();
  void check_usable() const;  // throws DeviceError in a forked child

 private:
  Device(std::string name, std::unique_ptr<Backend> backend);
  // Never called, because queues may use the device until the process ends.
  ~Device();
  const ForkGuard guard_;
  const std::string name_;
  const std::unique_ptr<Backend> backend_;
  std::mutex mutex_;
  std::optional<DeviceLimits> limits_;
  std::shared_ptr<CommandQueue> default_queue_;
};

}  // namespace mpsgraph::runtime
