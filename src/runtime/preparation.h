// Prepared packages: forms of the constants that a device has made for its kernels, kept beside the constants.
//
//   NAME.mpsgraph/prepared/
//     cpu-0123456789abcdef.json          whom they fit, which constants' forms they are, checksums of both
//     cpu-0123456789abcdef.safetensors   the forms, each a run of bytes that begins with a cache line
//
// The digits are a checksum of what Backend::takes_forms() says. A form fits one build of the kernels on one kind of
// processor, and the weights that it was made of; what does not fit is passed over, what is damaged is refused.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "mpsgraph/runtime/package.h"
#include "runtime/mapped_file.h"

namespace mpsgraph::runtime {

struct PackageWeights {
  std::filesystem::path path;  // of their file
  std::shared_ptr<const MappedFile> file;
  std::string checksum;  // that it should have
  std::map<std::string, ConstantPtr> by_name = {};
};

// Gives the weights of a package the forms that fit this process and weights with that checksum. True when there are
// some. Then the weights need no check of their own: of those with forms, most of which nobody looks at any more, each
// is checked when its elements are first asked for, all others are checked here. PackageError for what is damaged.
bool add_prepared_forms(const std::filesystem::path& directory, PackageWeights& weights, bool verify);

// What package.cpp lends to preparing: loading that tells the constants' names, and Package::compile().
PackageContents load_package(const std::filesystem::path& directory, const LoadOptions& options,
                             PackageWeights* weights);
std::shared_ptr<Executable> compile(const PackageContents& contents, DeviceGraph& graph,
                                    const std::map<std::string, TensorType>& types);

}  // namespace mpsgraph::runtime
