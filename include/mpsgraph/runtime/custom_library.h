// Libraries of custom operations: descriptions in C (mpsgraph/custom_operation.h) as entries of the registry.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mpsgraph/core/custom.h"
#include "mpsgraph/custom_operation.h"
#include "mpsgraph/export.h"

namespace mpsgraph::runtime {

// What a description means. What it points to must live as long as the process. GraphError where it is not sound.
MPSGRAPH_API CustomOperation described(const mpsgraph_custom_operation& operation);

// Loads a shared library, which stays loaded, and registers what it describes: names and keys. GraphError, and nothing
// is registered, for a file that is none, or exports no descriptions, or was made for a newer version of this library.
MPSGRAPH_API std::vector<std::pair<std::string, std::string>> load_custom_library(const std::filesystem::path& path);

// A kernel in memory of its own with a margin around every tensor: DeviceError when it wrote beside a result, or to an
// operand. What is registered with `guard`, and everything where MPSGRAPH_GUARD_CUSTOM is 1, is compiled so.
MPSGRAPH_API CustomRun prepared(const CustomOperation& operation, std::shared_ptr<const CustomSite> site);

}  // namespace mpsgraph::runtime
