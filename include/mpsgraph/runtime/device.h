// Device: one instance of a backend in this process, with a queue that runs what names no other.
//
// Devices are made at first use and live as long as the process. After a fork a device that existed before refuses.
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

// What a device can do at most, for profiles. Types that are missing are computed as float32.
struct DeviceLimits {
  std::map<DType, double> flops;  // FLOP/s, where a multiply-add counts as two; empty: not known
  double bandwidth = 0;           // bytes/s between memory and processor, both ways together
};

class Backend;

class MPSGRAPH_API Device {
 public:
  static Device& get(std::string_view name);       // DeviceError that lists the names when there is no such device
  static Device& default_device();                 // "metal" where there is one, else "cpu"
  static std::vector<std::string> names();         // the default device first

  // Of the process and of all devices that have been used.
  static BufferStatistics memory_statistics();
  // By name; what of the process's memory is no other device's is "cpu"'s.
  static std::map<std::string, BufferStatistics> memory_statistics_of_each();
  static void set_memory_cache_limit(size_t bytes);  // of each of them

  const std::string& name() const { return name_; }
  std::string description() const;
  const DeviceLimits& limits();                    // measured on first use
  Backend& backend() const { return *backend_; }
  const std::shared_ptr<CommandQueue>& default_queue();
  void check_usable() const;                       // DeviceError in a forked child

 private:
  Device(std::string name, std::unique_ptr<Backend> backend);
  ~Device();                                       // never: queues may use it until the process is gone
  const ForkGuard guard_;
  const std::string name_;
  const std::unique_ptr<Backend> backend_;
  std::mutex mutex_;
  std::optional<DeviceLimits> limits_;
  std::shared_ptr<CommandQueue> default_queue_;
};

}  // namespace mpsgraph::runtime
