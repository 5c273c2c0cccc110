// Package: a directory with a graph and its named inputs and outputs, for applications to load and run.
//
//   NAME.mpsgraph/
//     package.json          the manifest: names and checksums
//     graph.txt             the operations, in the form of core/text.h
//     weights.safetensors   variables and large constants, which are mapped into memory instead of being read
//     prepared/             optional: weights in the layout of the kernels, for certain processors
//
// Packages are untrusted data: any problem with a package is a PackageError, and no package can refer to files outside
// itself.
//
// Packages with only inputs and outputs have format version 1, which every release can read. Packages with further
// functions, such as a training step, have format version 2; releases that do not support it report the version in
// their error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"
#include "mpsgraph/runtime/device_graph.h"

namespace mpsgraph::runtime {

using NamedTensors = std::vector<std::pair<std::string, Tensor*>>;  // named tensors, in order

// A further function of a package's graph: its inputs, its outputs, and the operations that change variables.
struct PackageFunction {
  std::string name;
  NamedTensors inputs, outputs;  // inputs are placeholders; outputs are any tensors
  std::vector<Operation*> operations;
};

// The training step of a package (training_step.h). It consists of the functions "train_step", "rates", and, if
// gradients are accumulated over several batches, "accumulate".
struct PackageTraining {
  // An int32 variable of rank 0 with the number of completed steps, which train_step increments.
  Tensor* step = nullptr;
  Tensor* first_update = nullptr;  // int32 variable of rank 0: the update to which row 0 of `tables` belongs
  Tensor* last_row = nullptr;  // int32 variable of rank 0: the row for all updates after the end of `tables`
  std::vector<Tensor*> tables;  // variables with the results of "rates", one row per update
  int64_t every = 1;  // number of batches per update
  std::vector<std::string> rates;  // inputs of train_step that receive the outputs of "rates"
  std::vector<std::string> results;  // scalar outputs of train_step, the loss first
  std::string description;  // information for the frontend of one language, which other frontends ignore
};

// The contents of a package. `inputs` are placeholders; `parameters` and `trainable` are variables.
struct MPSGRAPH_API PackageContents {
  std::shared_ptr<Graph> graph;
  NamedTensors inputs, outputs, parameters;
  std::vector<Tensor*> trainable;
  std::vector<PackageFunction> functions = {};  // functions in addition to the function from inputs to outputs
  std::optional<PackageTraining> training = {};

  const PackageFunction* function(const std::string& name) const;  // null if the package has no function of this name
};

// Options of load_package().
struct LoadOptions {
  bool verify = true;  // compare checksums, which reads all bytes of the weights
  bool prepared = true;  // use the prepared weights for this processor, if there are any
};
// Reads a package. Throws PackageError if it is missing or damaged, or if it needs custom operations that are not
// defined in this process.
MPSGRAPH_API PackageContents load_package(const std::filesystem::path& directory, const LoadOptions& options = {});

// Options of save_package().
struct SaveOptions {
  // Store where each operation was built, e.g. "model.py:41". This reveals the names of source files.
  bool locations = false;
};
// Writes a package with everything that outputs, parameters, and functions depend on; the rest of the graph is omitted.
// Variables are saved with their values on the device of `values`, or with their initial values if `values` is null.
// Replaces an existing package. Throws PackageError if `directory` exists and is not a package.
MPSGRAPH_API void save_package(const std::filesystem::path& directory, const PackageContents& contents,
                               DeviceGraph* values = nullptr, const SaveOptions& options = {});

// The result of prepare_package().
struct Preparation {
  std::filesystem::path file;
  std::string made_for;  // the engine and processor that can use the file; other engines and processors ignore it
  size_t constants = 0, bytes = 0;
};
// Adds prepared weights to a package. Prepared weights are the constants in the layout that the device's kernels read,
// as derived when the package is compiled for inputs of these types. A process that loads the package on the same kind
// of processor with the same release maps these weights into memory; other processes derive them again, as they would
// without preparation. The folder `prepared` has one file per processor, which later calls replace; saving the package
// again removes all of these files. Throws UnsupportedError if the device has nothing to prepare.
MPSGRAPH_API Preparation prepare_package(const std::filesystem::path& directory,
                                         const std::vector<std::map<std::string, TensorType>>& types,
                                         Device& device = Device::default_device());

// A package that was loaded onto a device.
class MPSGRAPH_API Package {
 public:
  static Package load(const std::filesystem::path& directory, Device& device = Device::default_device(),
                      const LoadOptions& options = {});

  const PackageContents& contents() const { return contents_; }
  DeviceGraph& on_device() const { return *graph_; }
  // throws a GraphError that lists the names if the package has no such input
  Tensor* input(const std::string& name) const;
  Tensor* output(const std::string& name) const;

  // Compiles the package for the given types of its inputs, by name; inputs with static shapes may be omitted. The
  // executable's feeds and targets are in the order of inputs and outputs.
  std::shared_ptr<Executable> compile(const std::map<std::string, TensorType>& types = {}) const;
  // Runs the package on named inputs and returns the named outputs.
  std::map<std::string, NDArray> run(const std::map<std::string, NDArray>& inputs) const;

 private:
  Package(PackageContents contents, Device& device);
  PackageContents contents_;
  std::shared_ptr<DeviceGraph> graph_;
};

}  // namespace mpsgraph::runtime
