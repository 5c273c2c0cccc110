// SerializedExecutable: a compiled program in its device's own form on disk, loaded to run; on Metal an
// MPSGraphPackage.
//
// Unlike a package (runtime/package.h) it holds no graph of ours: fixed types, values of variables frozen, one device.
// What its inputs and outputs are called, and their order, stands in a file beside it: NAME.mpsgraphpackage.json.
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

struct SerializedTensor {
  std::string name;
  TensorType type;
  std::optional<size_t> position;  // among the written ones; none: it makes no difference to any target
};

// Writes the file beside it.
MPSGRAPH_API void write_interface(const std::filesystem::path& path, const std::vector<SerializedTensor>& feeds,
                                  const std::vector<SerializedTensor>& targets);

class MPSGRAPH_API SerializedExecutable : public std::enable_shared_from_this<SerializedExecutable> {
 public:
  // PackageError for what is missing or damaged, UnsupportedError on a device without such a form.
  static std::shared_ptr<SerializedExecutable> load(const std::filesystem::path& path,
                                                    Device& device = Device::default_device());

  const std::vector<SerializedTensor>& feeds() const { return feeds_; }
  const std::vector<SerializedTensor>& targets() const { return targets_; }
  Device& device() const { return device_; }
  // Inputs in the order of feeds(), contiguous and of their types; results in the order of targets(). Both are the
  // executable's that was serialized.
  std::vector<NDArray> run(std::vector<NDArray> inputs, const std::shared_ptr<CommandQueue>& queue = nullptr);

 private:
  explicit SerializedExecutable(Device& device) : device_(device) {}
  Device& device_;
  std::vector<SerializedTensor> feeds_, targets_;
  std::vector<size_t> feed_order_, target_order_;  // which of them each written one is
  std::shared_ptr<CompiledProgram> program_;
};

}  // namespace mpsgraph::runtime
