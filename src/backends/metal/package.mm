// Writes MPSGraphPackages and runs loaded ones.
#include "backends/metal/package.h"

#include <unistd.h>

#include <functional>
#include <system_error>

#include "backends/metal/guarded.h"
#include "backends/metal/signposts.h"

namespace mpsgraph::metal {

using runtime::NDArray;
namespace fs = std::filesystem;

namespace {

constexpr const char* extension = ".mpsgraphpackage";
constexpr const char* manifest = "manifest.plist";  // A file of every package that MPSGraph writes.

NSURL* url_of(const std::filesystem::path& path) {
  return [NSURL fileURLWithPath:@(std::filesystem::absolute(path).c_str())];
}

[[noreturn]] void needs_newer_system() {
  throw UnsupportedError("[serialize] MPSGraphPackages require macOS 14.0 or later; use save() to write a package of "
                         "this library instead");
}

MPSGraphDeploymentPlatform platform_named(const std::string& name) API_AVAILABLE(macos(14.0), ios(17.0)) {
  if (name == "macOS") return MPSGraphDeploymentPlatformMacOS;
  if (name == "iOS") return MPSGraphDeploymentPlatformIOS;
  if (name == "tvOS") return MPSGraphDeploymentPlatformTvOS;
  if (name == "visionOS") return MPSGraphDeploymentPlatformVisionOS;
  throw GraphError(cat("[serialize] platform must be one of macOS, iOS, tvOS, visionOS, got \"", name, "\""));
}

std::vector<std::optional<size_t>> positions(const std::vector<size_t>& order, size_t count) {
  std::vector<std::optional<size_t>> result(count);
  for (size_t place = 0; place < order.size(); ++place) result[order[place]] = place;
  return result;
}

}  // namespace

namespace {

// Write to a temporary location, and replace the existing package when the new one is complete.
void replace(fs::path path, const std::function<void(const fs::path&)>& write) {
  if (path.filename().empty()) path = path.parent_path();
  if (path.extension() != extension)
    throw PackageError(
        cat("[serialize] the path of an MPSGraphPackage must end with ", extension, ", got ", path.string()));
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(folder) || access(folder.c_str(), W_OK) != 0)  // MPSGraph would abort the process
    throw PackageError(cat("[serialize] ", folder.string(), " must be an existing and writable folder"));
  fs::path fresh = path;
  fresh.replace_filename(cat(".", path.stem().string(), ".new", extension));
  std::error_code error;
  fs::remove_all(fresh, error);
  write(fresh);
  if (!fs::exists(fresh, error))
    throw PackageError(cat("[serialize] MPSGraph failed to write ", path.string(), " without reporting an error"));
  fs::remove_all(path, error);
  fs::rename(fresh, path, error);
  if (error) throw PackageError(cat("[serialize] cannot write ", path.string(), ": ", error.message()));
}

}  // namespace

runtime::SerializedOrder MetalProgram::serialize(const std::filesystem::path& path,
                                                 const runtime::SerializationDescriptor& descriptor) const {
  return guarded([&]() -> runtime::SerializedOrder {
    if (METAL_AVAILABLE(14.0, 17.0)) {
      MPSGraphExecutableSerializationDescriptor* form = [MPSGraphExecutableSerializationDescriptor new];
      form.deploymentPlatform = platform_named(descriptor.platform);
      if (!descriptor.minimum_deployment_target.empty())
        form.minimumDeploymentTarget = @(descriptor.minimum_deployment_target.c_str());
      // The package needs a separate MPSGraph, in which the variables are constants.
      MPSGraph* graph = [MPSGraph new];
      GraphTensors values;
      for (const NDArray& value : home_ ? home_->read(storages_) : std::vector<NDArray>()) {
        values.push_back([graph constantWithData:[NSData dataWithBytes:value.data() length:value.bytes()]
                                           shape:shape_of(value.dims())
                                        dataType:data_type(value.dtype())]);
      }
      ProgramLowering lowering(graph, program_, std::move(values), true);
      lowering.run();
      if (!lowering.reports.empty()) {
        const Operation& check = *lowering.reports.front().operation;
        if (!check.is({"check_indices", "find_outside"}))
          throw UnsupportedError(cat("[serialize] an MPSGraphPackage cannot contain print '", check.name,
                                     "'; remove the print, or use save()", check.where()));
        const std::string& of = check.attributes.string("of");
        if (!check.attributes.string("message").empty())
          throw UnsupportedError(cat("[serialize] an MPSGraphPackage cannot raise an error for ",
                                     check.attributes.string("message"), "; remove the ",
                                     of == "check" ? "check" : "check_finite", ", or use save()", check.where()));
        const bool slices = of.starts_with("dynamic_");
        throw UnsupportedError(
            cat("[serialize] an MPSGraphPackage cannot raise an error for out-of-range ", slices ? "starts" : "indices",
                " '", check.input(0)->name(), "' of ", of,
                slices ? "; clamp them to a constant range" : "; set out_of_range to \"clip\" or \"zeros\"",
                ", or use save()", check.where()));
      }
      const GraphProgram compiled(device_, graph, lowering.feeds, lowering.targets, nil,
                                  GraphProgram::Form::executable);
      replace(path, [&](const fs::path& fresh) {
        [compiled.executable() serializeToMPSGraphPackageAtURL:url_of(fresh) descriptor:form];
      });
      return {positions(compiled.feed_order(), fed_.size()), positions(compiled.target_order(), computed_.size())};
    }
    needs_newer_system();
  });
}

MetalPackage::MetalPackage(MetalDevice& device, const std::filesystem::path& path) : device_(device) {
  if (METAL_AVAILABLE(14.0, 17.0)) {
    std::error_code error;
    if (!fs::is_regular_file(path / manifest, error))  // MPSGraph would abort the process
      throw PackageError(cat("[load] ", path.string(), " must be an MPSGraphPackage, but contains no ", manifest,
                             "; write the package again with Executable.serialize()"));
    executable_ = [[MPSGraphExecutable alloc] initWithMPSGraphPackageAtURL:url_of(path)
                                                     compilationDescriptor:compilation_descriptor()];
    if (!executable_) throw PackageError(cat("[load] MPSGraph cannot read ", path.string()));
    return;
  }
  needs_newer_system();
}

void MetalPackage::run(std::span<const NDArray> feeds, std::span<NDArray> results) {
  guarded([&] {
    MetalCommands commands(this, device_, device_.queue, "package");
    encode_into(commands, feeds, results);
    commands.finish();
  });
}

bool MetalPackage::encode(runtime::DeviceCommands& commands, std::span<const NDArray> feeds,
                          std::span<NDArray> results) {
  guarded([&] { encode_into(static_cast<MetalCommands&>(commands), feeds, results); });
  return true;
}

void MetalPackage::encode_into(MetalCommands& commands, std::span<const NDArray> feeds, std::span<NDArray> results) {
  const Signpost encoding(Phase::encode, "package");
  const std::vector<bool> all_feeds(feeds.size(), true), all_results(results.size(), true);
  const RunData data(device_, commands, feeds, results, all_feeds, all_results);
  NSMutableArray<MPSGraphTensorData*>*in = [NSMutableArray array], *out = [NSMutableArray array];
  for (MPSGraphTensorData* input : data.inputs) [in addObject:input];
  for (MPSGraphTensorData* output : data.outputs) [out addObject:output];
  MPSCommandBuffer* buffer = commands.next_program();
  const std::lock_guard lock(encoding_);
  [executable_ encodeToCommandBuffer:buffer inputsArray:in resultsArray:out executionDescriptor:nil];
}

}  // namespace mpsgraph::metal
