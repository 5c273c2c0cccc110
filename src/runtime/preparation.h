// Prepared packages: packages that also store forms of constants, which are copies that a device has rearranged for its
// kernels.
//
//   NAME.mpsgraph/prepared/
//     cpu-0123456789abcdef.json          which build and processor the forms are for, which constants they belong to,
//                                        and the checksums of forms and weights
//     cpu-0123456789abcdef.safetensors   the forms, each a sequence of bytes aligned to a cache line
//
// The digits are a checksum of the string that Backend::takes_forms() returns. A form is valid only for one build of
// the kernels on one kind of processor, and only for the weights from which it was derived. Forms for a different
// build, processor, or weights are ignored; damaged files are errors.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "mpsgraph/runtime/package.h"
#include "runtime/mapped_file.h"

namespace mpsgraph::runtime {

struct PackageWeights {
  std::filesystem::path path;  // path of the weights file
  std::shared_ptr<const MappedFile> file;
  std::string checksum;  // expected checksum of the weights file
  std::map<std::string, ConstantPtr> by_name = {};
};

// Attaches prepared forms to the weights of a package, if the package has forms that match this process and the
// weights' checksum. Returns whether forms were attached. If so, the caller need not verify the weights: all constants
// without forms are verified here, and a constant with forms is verified when its own elements, which are rarely
// needed, are first accessed. Throws PackageError if a file is damaged.
bool add_prepared_forms(const std::filesystem::path& directory, PackageWeights& weights, bool verify);

// Functions of package.cpp that prepared packages use: load_package() also returns the names of the constants, and
// compile() does the same as Package::compile().
PackageContents load_package(const std::filesystem::path& directory, const LoadOptions& options,
                             PackageWeights* weights);
std::shared_ptr<Executable> compile(const PackageContents& contents, DeviceGraph& graph,
                                    const std::map<std::string, TensorType>& types);

}  // namespace mpsgraph::runtime
