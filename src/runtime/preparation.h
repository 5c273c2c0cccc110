// Prepared packages: the forms of constants that a device has derived for its kernels, stored in the package.
//
//   NAME.mpsgraph/prepared/
//     cpu-0123456789abcdef.json          what the forms fit, which constants they belong to, checksums of both
//     cpu-0123456789abcdef.safetensors   the forms, each a sequence of bytes aligned to a cache line
//
// The digits are a checksum of the text that Backend::takes_forms() returns. A form is valid only for one build of the
// kernels on one kind of processor and for the weights that it was derived from. Forms that do not fit are ignored;
// damaged files are errors.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "mpsgraph/runtime/package.h"
#include "runtime/mapped_file.h"

namespace mpsgraph::runtime {

struct PackageWeights {
  std::filesystem::path path;  // of the weights file
  std::shared_ptr<const MappedFile> file;
  std::string checksum;  // the expected checksum
  std::map<std::string, ConstantPtr> by_name = {};
};

// Attaches prepared forms to the weights of a package if there are forms that fit this process and the weights'
// checksum, and returns whether there were any. If so, the caller need not verify the weights: a constant with forms,
// whose own elements are rarely needed, is verified when they are first accessed, and all other constants are verified
// here. Throws PackageError if a file is damaged.
bool add_prepared_forms(const std::filesystem::path& directory, PackageWeights& weights, bool verify);

// Functions of package.cpp that preparation needs: loading a package together with the names of its constants, and
// compiling it as Package::compile() does.
PackageContents load_package(const std::filesystem::path& directory, const LoadOptions& options,
                             PackageWeights* weights);
std::shared_ptr<Executable> compile(const PackageContents& contents, DeviceGraph& graph,
                                    const std::map<std::string, TensorType>& types);

}  // namespace mpsgraph::runtime
