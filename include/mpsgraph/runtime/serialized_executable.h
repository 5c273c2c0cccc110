// SerializedExecutable: a compiled program that was saved in its device's own format and is loaded to run. On Metal,
// this is an MPSGraphPackage.
//
// Unlike a package (runtime/package.h), a serialized executable contains no mpsgraph graph: its types are fixed, its
// variables are frozen, and it runs on one device. The names and the order of its inputs and outputs are stored in a
// file next to it, NAME.mpsgraphpackage.json.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/command_queue.h"
#include "mpsgraph/runtime/device.h"

namespace mpsgraph::runtime {

class CompiledProgram;

// A feed or target of a serialized executable.
struct SerializedTensor {
  std::string name;
  TensorType type;
  std::optional<size_t> position;  // position in the serialized form; nullopt if no target depends on this feed
};

// Writes the file that describes the inputs and outputs next to the serialized executable at `path`.
MPSGRAPH_API void write_interface(const std::filesystem::path& path, const std::vector<SerializedTensor>& feeds,
                                  const std::vector<SerializedTensor>& targets);

// A serialized executable that was loaded onto a device.
class MPSGRAPH_API SerializedExecutable : public std::enable_shared_from_this<SerializedExecutable> {
 public:
  // Throws PackageError if the files are missing or damaged, and UnsupportedError if the device has no format for
  // serialized executables.
  static std::shared_ptr<SerializedExecutable> load(const std::filesystem::path& path,
                                                    Device& device = Device::default_device());

  const std::vector<SerializedTensor>& feeds() const { return feeds_; }
  const std::vector<SerializedTensor>& targets() const { return targets_; }
  Device& device() const { return device_; }
  // Runs the program. Inputs are in the order of feeds() and must be contiguous and have the types of the feeds.
  // Results are in the order of targets(). Both orders are those of the original executable.
  std::vector<NDArray> run(std::vector<NDArray> inputs, const std::shared_ptr<CommandQueue>& queue = nullptr);

 private:
  explicit SerializedExecutable(Device& device) : device_(device) {}
  Device& device_;
  std::vector<SerializedTensor> feeds_, targets_;
  std::vector<size_t> feed_order_, target_order_;  // index of each serialized feed and target
  std::shared_ptr<CompiledProgram> program_;
};

}  // namespace mpsgraph::runtime
