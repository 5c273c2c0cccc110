// Manifests: JSON files that hold a checksum of themselves.
#pragma once

#include <filesystem>
#include <functional>

#include "runtime/json.h"

namespace mpsgraph::runtime {

// Writes `manifest` with its checksum as "checksum". PackageError for a name that is no UTF-8.
void write_manifest(const std::filesystem::path& path, Json manifest);
// PackageError for what is missing, is no JSON, or has another checksum than it says. The checksum is compared after
// `check` has seen the rest, so that it can say what is wrong in words of its own.
Json read_manifest(const std::filesystem::path& path, const std::function<void(const Json&)>& check);

}  // namespace mpsgraph::runtime
