// Probes of packages and compilation descriptors. Macs may abort the process, so each probe runs in a separate one.
#include <unistd.h>

#include <filesystem>

#include "backends/metal/availability.h"
#include "backends/metal/direct.h"
#include "backends/metal/probes.h"

namespace mpsgraph::metal {

using runtime::NDArray;
using runtime::Probe;

namespace {

namespace fs = std::filesystem;

const char* const needs_macos_14 = "not asked: this macOS version does not have the feature";

// Compile an executable for y. A nil descriptor selects the defaults, as in applications that pass no descriptor.
MPSGraphExecutable* compiled_with(MetalDevice& device, MPSGraph* graph, MPSGraphTensor* y,
                                  MPSGraphCompilationDescriptor* descriptor) {
  return [graph compileWithDevice:device.graph_device
                            feeds:@{}
                    targetTensors:@[ y ]
                 targetOperations:nil
            compilationDescriptor:descriptor];
}

NSURL* probe_url(const fs::path& path) { return [NSURL fileURLWithPath:@(path.c_str())]; }

struct ProbeFolder {
  const fs::path path = fs::temp_directory_path() / cat("mpsgraph-probe-", getpid());
  ~ProbeFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

void write_package_of_sum(MetalDevice& device, const fs::path& path) API_AVAILABLE(macos(14.0), ios(17.0)) {
  MPSGraph* graph = [MPSGraph new];
  MPSGraphTensor* one = [graph constantWithScalar:1 shape:@[ @1 ] dataType:MPSDataTypeFloat32];
  MPSGraphTensor* two = [graph additionWithPrimaryTensor:one secondaryTensor:one name:nil];
  [compiled_with(device, graph, two, compilation_descriptor())
      serializeToMPSGraphPackageAtURL:probe_url(path)
                           descriptor:[MPSGraphExecutableSerializationDescriptor new]];
}

std::string package_without_a_folder(MetalDevice& device) {
  if (METAL_AVAILABLE(14.0, 17.0)) {
    const ProbeFolder folder;
    const fs::path path = folder.path / "model.mpsgraphpackage";
    write_package_of_sum(device, path);
    return fs::exists(path) ? "the folder is made and the package written" : "nothing is written, without an error";
  }
  return needs_macos_14;
}

std::string package_without_a_manifest(MetalDevice& device) {
  if (METAL_AVAILABLE(14.0, 17.0)) {
    const ProbeFolder folder;
    const fs::path path = folder.path / "model.mpsgraphpackage";
    fs::create_directory(folder.path);
    write_package_of_sum(device, path);
    if (!fs::remove(path / "manifest.plist")) {
      std::string files;
      for (const auto& entry : fs::directory_iterator(path)) files += " " + entry.path().filename().string();
      return cat("no manifest.plist, but", files);
    }
    MPSGraphExecutable* loaded = [[MPSGraphExecutable alloc] initWithMPSGraphPackageAtURL:probe_url(path)
                                                                    compilationDescriptor:compilation_descriptor()];
    return loaded ? "an executable is loaded" : "nothing is loaded, without an error";
  }
  return needs_macos_14;
}

std::string halves_at_the_default_level(MetalDevice& device) {
  MPSGraph* graph = [MPSGraph new];
  const uint16_t given[] = {0x0000, 0x7C00, 0x7E00};  // bits of 0, infinity, and NaN
  MPSGraphTensor* x = [graph constantWithData:[NSData dataWithBytes:given length:sizeof given]
                                        shape:@[ @3 ]
                                     dataType:MPSDataTypeFloat16];
  MPSGraphTensor* logarithm = [graph logarithmWithTensor:x name:nil];
  MPSGraphTensor* wide = [graph castTensor:logarithm toType:MPSDataTypeFloat32 name:nil];
  MPSGraphExecutable* executable = compiled_with(device, graph, wide, nil);
  const NDArray result = device.allocate(DType::float32, {3});
  run_now(device.queue, [&](MPSCommandBuffer* buffer) {
    [executable encodeToCommandBuffer:buffer
                          inputsArray:@[]
                         resultsArray:@[ device.data_of(result).data ]
                  executionDescriptor:nil];
  });
  const auto* numbers = reinterpret_cast<const float*>(result.data());
  return cat("float16 logarithms of 0, infinity, NaN: ", list(std::vector<float>(numbers, numbers + 3)));
}

}  // namespace

std::vector<Probe> package_probes(MetalDevice& device) {
  return {
      probe(device, "package_without_a_folder", "What happens when a package is written into a missing folder?",
            "a package of one sum",
            "An error, or a new folder: the check in src/backends/metal/package.mm only improves the message. An "
            "aborted process: the check is needed.",
            package_without_a_folder),
      probe(device, "package_without_a_manifest", "What happens when a package without its manifest.plist is loaded?",
            "a package of one sum, whose manifest is removed",
            "An aborted process: the check of the manifest in src/backends/metal/package.mm is needed. Nothing, or an "
            "error: the check only improves the message. No manifest.plist: the check refuses every package.",
            package_without_a_manifest),
      probe(device, "halves_at_the_default_level", "Are float16 results correct at the default optimization level?",
            "logarithms of 0, infinity and NaN in float16, compiled without a descriptor",
            "[-inf, inf, nan]: applications need not select level 0 as docs/metal.md asks, on this machine. Other "
            "values: applications must select level 0.",
            halves_at_the_default_level),
  };
}

}  // namespace mpsgraph::metal
