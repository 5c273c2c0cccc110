// Libraries of custom operations: turns descriptions in C (mpsgraph/custom_operation.h) into registered operations.
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

// Converts a description. The memory that it points to must remain valid until the process ends. Throws GraphError if
// the description is invalid.
MPSGRAPH_API CustomOperation described(const mpsgraph_custom_operation& operation);

// Loads a shared library, which remains loaded, and registers its operations. Returns their names and keys. Throws
// GraphError, without registering anything, if the file is not a library, exports no descriptions, or was built for a
// newer version of mpsgraph.
MPSGRAPH_API std::vector<std::pair<std::string, std::string>> load_custom_library(const std::filesystem::path& path);

// Returns the function that runs a kernel. In guarded mode, which is on if the operation was registered with `guard` or
// the environment variable MPSGRAPH_GUARD_CUSTOM is 1, the kernel runs on copies with a margin around each tensor, and
// the function throws DeviceError if the kernel wrote outside its results or to an operand.
MPSGRAPH_API CustomRun prepared(const CustomOperation& operation, std::shared_ptr<const CustomSite> site);

}  // namespace mpsgraph::runtime
