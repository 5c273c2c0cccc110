// MPSGraphPackages. The mock has no file format: a package is a directory whose manifest is a number, by which the
// same process finds the executable again. This tests the calls and the bookkeeping, but not the format.
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

namespace {

std::mutex packages_mutex;
std::map<int, MPSGraphExecutable*>& packages() {
  static auto& instance = *new std::map<int, MPSGraphExecutable*>;
  return instance;
}

}  // namespace

@implementation MPSGraphExecutableSerializationDescriptor
@synthesize append = _append, deploymentPlatform = _deploymentPlatform,
            minimumDeploymentTarget = _minimumDeploymentTarget;
@end

@implementation MPSGraphExecutable (MockPackage)

- (void)serializeToMPSGraphPackageAtURL:(NSURL*)url descriptor:(MPSGraphExecutableSerializationDescriptor*)descriptor {
  const std::filesystem::path directory = url.path.UTF8String;
  if (directory.extension() != ".mpsgraphpackage")
    misuse(@"serialize: the path must end with .mpsgraphpackage, got %@", url.path);
  if (!descriptor.append && std::filesystem::exists(directory)) misuse(@"serialize: %@ already exists", url.path);
  if (!std::filesystem::is_directory(std::filesystem::absolute(directory).parent_path()))
    misuse(@"serialize: the folder of %@ does not exist", url.path);
  std::filesystem::create_directory(directory);
  std::lock_guard lock(packages_mutex);
  const int number = static_cast<int>(packages().size());
  packages()[number] = self;
  std::ofstream(directory / "manifest.plist") << number;
}

- (instancetype)initWithMPSGraphPackageAtURL:(NSURL*)url
                       compilationDescriptor:(MPSGraphCompilationDescriptor*)descriptor {
  std::ifstream manifest(std::filesystem::path(url.path.UTF8String) / "manifest.plist");
  if (!manifest) misuse(@"MPSGraphExecutable: the file manifest.plist of %@ couldn't be opened", url.path);
  int number = -1;
  manifest >> number;
  std::lock_guard lock(packages_mutex);
  const auto found = packages().find(number);
  return found == packages().end() ? nil : found->second;
}
@end
