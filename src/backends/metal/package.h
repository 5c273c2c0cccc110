// MPSGraphPackages are compiled programs in the file format that Apple's applications load.
#pragma once

#include "backends/metal/program.h"

namespace mpsgraph::metal {

// A loaded package that MetalProgram::serialize() wrote. Feeds and targets are in the order of the executable that was
// serialized.
class MetalPackage final : public runtime::CompiledProgram {
 public:
  MetalPackage(MetalDevice& device, const std::filesystem::path& path);

  void run(std::span<const runtime::NDArray> feeds, std::span<runtime::NDArray> results) override;
  bool encode(runtime::DeviceCommands& commands, std::span<const runtime::NDArray> feeds,
              std::span<runtime::NDArray> results) override;
  size_t arena_bytes() const override { return 0; }
  size_t constant_bytes() const override { return 0; }
  std::vector<std::string> kernel_names() const override { return {"MPSGraphPackage"}; }
  std::string plan() const override { return "an MPSGraphPackage\n"; }

 private:
  void encode_into(MetalCommands& commands, std::span<const runtime::NDArray> feeds,
                   std::span<runtime::NDArray> results);
  MetalDevice& device_;
  std::mutex encoding_;  // locked while the executable is encoded, as in MetalProgram
  MPSGraphExecutable* executable_ = nil;
};

}  // namespace mpsgraph::metal
