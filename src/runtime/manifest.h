// Manifests: JSON files that contain a checksum of their own text.
#pragma once

#include <filesystem>
#include <functional>

#include "runtime/json.h"

namespace mpsgraph::runtime {

// Writes `manifest` to `path` and adds its checksum as the member "checksum". Throws PackageError if a name is not
// valid UTF-8.
void write_manifest(const std::filesystem::path& path, Json manifest);
// Reads a manifest. Throws PackageError if the file is missing, is not JSON, or does not match its checksum. The
// checksum is compared only after `check` has seen the other members, so that `check` can report a more specific error.
Json read_manifest(const std::filesystem::path& path, const std::function<void(const Json&)>& check);

}  // namespace mpsgraph::runtime
