// Tensors in a file of the safetensors format: eight bytes with the length of the header, the header in JSON, then the
// data.
//
// The reader maps the file and validates all of its contents: every tensor must have a supported dtype, a shape that
// matches its number of bytes, and data that lies within the file and does not overlap the data of another tensor.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mpsgraph/core/attributes.h"
#include "runtime/mapped_file.h"

namespace mpsgraph::runtime {

// Returns a map from names to the tensors of a safetensors file. The tensors borrow the mapping and keep it alive;
// large tensors can also be read directly from the file. Throws PackageError if the file is invalid.
std::map<std::string, ConstantPtr> read_safetensors(const std::shared_ptr<const MappedFile>& file,
                                                    const std::filesystem::path& path);

struct TensorToWrite {
  std::string name;
  TensorType type;
  std::function<void(const Append&)> write;  // writes all elements in row-major order
};
// Writes the file completely or not at all. Throws PackageError if it cannot be written.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors);

}  // namespace mpsgraph::runtime
