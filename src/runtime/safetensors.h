// Tensors in one file of the safetensors format: eight bytes with the length of a header, the header in JSON, the data.
//
// Reading maps the file and believes nothing in it: every tensor must have a dtype that we have, a shape that fits its
// bytes, and bytes that lie within the file and in no other tensor.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mpsgraph/core/attributes.h"
#include "runtime/mapped_file.h"

namespace mpsgraph::runtime {

// The tensors by name, borrowed from the mapping, which they keep alive. Large ones offer private views. PackageError.
std::map<std::string, ConstantPtr> read_safetensors(const std::shared_ptr<const MappedFile>& file,
                                                    const std::filesystem::path& path);

struct TensorToWrite {
  std::string name;
  TensorType type;
  std::function<void(const Append&)> write;  // all of its elements, row-major
};
// Whole or not at all. PackageError when it cannot be written.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors);

}  // namespace mpsgraph::runtime
