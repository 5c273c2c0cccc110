// Package: a graph with named inputs and outputs in a directory, for applications to load and run.
//
//   NAME.mpsgraph/
//     package.json          what it is: names, checksums
//     graph.txt             the operations, in the form of core/text.h
//     weights.safetensors   variables and large constants, which the loaded graph maps and does not copy
//     prepared/             weights as kernels want them, for some processors, where somebody asked for that
//
// A package is data from outside: whatever is wrong with it is a PackageError, and nothing in it names another file.
// Of format version 1 are packages of inputs and outputs alone, which every reader takes; of 2 those that hold more
// functions, such as a training step, which an older reader refuses with the version that it lacks.
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

using NamedTensors = std::vector<std::pair<std::string, Tensor*>>;  // in order

// One more thing that a package's graph can be asked for: what goes in, what comes out, what is changed.
struct PackageFunction {
  std::string name;
  NamedTensors inputs, outputs;  // of placeholders, of any tensors
  std::vector<Operation*> operations;
};

// How the functions "train_step", "rates" and, where gradients are added up over some batches, "accumulate" make steps
// of training (training_step.h).
struct PackageTraining {
  Tensor* step = nullptr;              // a variable, int32 of rank 0: steps that were made; train_step counts it
  Tensor* first_update = nullptr;      // likewise: the update that the first row of the tables is for
  Tensor* last_row = nullptr;          // likewise: the row that all later updates have
  std::vector<Tensor*> tables;         // variables: what "rates" gives, a row for each update
  int64_t every = 1;                   // batches to an update
  std::vector<std::string> rates;      // inputs of train_step that the outputs of "rates" are fed to
  std::vector<std::string> results;    // outputs of train_step that are numbers, the loss first
  std::string description;             // what a language's own door wants to know, which is nothing to the others
};

// What a package holds: `inputs` are placeholders, `parameters` variables, `trainable` variables too.
struct MPSGRAPH_API PackageContents {
  std::shared_ptr<Graph> graph;
  NamedTensors inputs, outputs, parameters;
  std::vector<Tensor*> trainable;
  std::vector<PackageFunction> functions = {};  // beside that of inputs and outputs
  std::optional<PackageTraining> training = {};

  const PackageFunction* function(const std::string& name) const;  // nullptr: there is none
};

struct LoadOptions {
  bool verify = true;  // compare checksums, which touches every byte of the weights
  bool prepared = true;  // take what prepare_package() has written for this processor
};
MPSGRAPH_API PackageContents load_package(const std::filesystem::path& directory, const LoadOptions& options = {});

struct SaveOptions {
  bool locations = false;  // say where each operation was built, "model.py:41": names of its author's files
};
// Writes what outputs, parameters and functions depend on; anything else in the graph stays out. Variables keep the
// values that they have on the device of `values` when it is given, else their first ones. An existing package is
// replaced; anything else in that place is a PackageError.
MPSGRAPH_API void save_package(const std::filesystem::path& directory, const PackageContents& contents,
                               DeviceGraph* values = nullptr, const SaveOptions& options = {});

// What was prepared.
struct Preparation {
  std::filesystem::path file;
  std::string made_for;  // the engine and the processor that take it; others pass it over
  size_t constants = 0, bytes = 0;
};
// Adds to a package what the device makes of its constants when it compiles the package for inputs of these types: the
// weights in the order in which its kernels read them. Whoever loads the package on such a processor, with the same
// release, maps them instead of making them; all others make them, as without. `prepared` holds one file a processor,
// which is replaced; saving the package anew removes them. UnsupportedError where the device makes nothing of it.
MPSGRAPH_API Preparation prepare_package(const std::filesystem::path& directory,
                                         const std::vector<std::map<std::string, TensorType>>& types,
                                         Device& device = Device::default_device());

// A loaded package on a device.
class MPSGRAPH_API Package {
 public:
  static Package load(const std::filesystem::path& directory, Device& device = Device::default_device(),
                      const LoadOptions& options = {});

  const PackageContents& contents() const { return contents_; }
  DeviceGraph& on_device() const { return *graph_; }
  Tensor* input(const std::string& name) const;  // GraphError that lists the names when there is none
  Tensor* output(const std::string& name) const;

  // For these types of the inputs, by name; inputs of known shape need none. The executable's feeds and targets stand
  // in the order of inputs and outputs.
  std::shared_ptr<Executable> compile(const std::map<std::string, TensorType>& types = {}) const;
  std::map<std::string, NDArray> run(const std::map<std::string, NDArray>& inputs) const;

 private:
  Package(PackageContents contents, Device& device);
  PackageContents contents_;
  std::shared_ptr<DeviceGraph> graph_;
};

}  // namespace mpsgraph::runtime
