// The variables of a graph. They are MPSGraph variables in the one MPSGraph into which all programs with variables are
// lowered.
//
// If executables of an MPSGraph share its variables (shared_variables.h), each of these programs is an executable.
// Otherwise, the programs run through the MPSGraph, which compiles a program again if it has run 15 others since.
//
// An MPSGraph keeps every operation ever added to it, so many programs, such as one per batch size, would let it grow
// without bound. When most of an MPSGraph belongs to destroyed programs, the variables and their values therefore move
// to a new MPSGraph. The remaining programs become stale and are recompiled.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/metal/device.h"
#include "backends/metal/graph_program.h"
#include "runtime/backend.h"

namespace mpsgraph::metal {

class MetalVariable;

class MetalVariables final : public runtime::VariableHome, public std::enable_shared_from_this<MetalVariables> {
 public:
  explicit MetalVariables(MetalDevice& device);

  MPSGraph* graph() const { return graph_; }
  MetalDevice& device() const { return device_; }
  const GraphProgram::Form form;  // of the programs with variables
  // A token that each program in the current MPSGraph holds; replaced after each move.
  std::shared_ptr<const int> generation() const { return generation_; }
  // Locked while a program of the MPSGraph is encoded, because Apple does not document that several threads may encode
  // programs of one MPSGraph. The host's reads and writes of variables need no lock, because no program is encoded or
  // runs during a read or write.
  std::mutex encoding;
  // Move the variables to a new MPSGraph if necessary. Call this before lowering another program, while no program
  // runs.
  void make_room();

  // Copy the values of variables of this object. One program reads all of them, and one program writes them, unless
  // they are larger than 1 GiB together.
  using Storages = std::span<const std::shared_ptr<runtime::VariableStorage>>;
  std::vector<runtime::NDArray> read(Storages storages);
  void write(Storages storages, std::span<const runtime::NDArray> values);

 private:
  friend class MetalVariable;
  void move();
  // Return the program with these feeds, targets, and operations, from the cache if possible.
  const GraphProgram& access(GraphTensors feeds, GraphTensors targets, NSArray<MPSGraphOperation*>* operations);
  void assign(const GraphProgram& program, std::span<const runtime::NDArray> values);
  // Return initial data that repeats one element. MPSGraph keeps the initial data of a variable, so variables whose
  // data repeats the same element share memory.
  NSData* repeated(std::span<const std::byte> element, size_t bytes);

  MetalDevice& device_;
  MPSGraph* graph_;
  std::shared_ptr<const int> generation_ = std::make_shared<int>(0);
  int programs_ = 0;  // number of programs lowered since the last move
  std::vector<std::weak_ptr<MetalVariable>> variables_;
  std::list<GraphProgram> accesses_;  // programs with which the host reads and writes; the last used is the first
  std::map<std::vector<std::byte>, NSData*> repeated_;  // the largest data of each element
};

class MetalVariable final : public runtime::VariableStorage {
 public:
  static std::shared_ptr<MetalVariable> make(std::shared_ptr<MetalVariables> home, const ConstantPtr& value);

  TensorType type() const override { return type_; }
  // The MPSGraph tensor of this variable in the MPSGraph that currently holds the variables; nil if the variable has no
  // elements.
  MPSGraphTensor* tensor() const { return there_.variable; }
  MetalVariables& home() const { return *home_; }

 private:
  friend class MetalVariables;
  MetalVariable(std::shared_ptr<MetalVariables> home, TensorType type)
      : home_(std::move(home)), type_(std::move(type)) {}
  struct InGraph {
    MPSGraphTensor* variable = nil;
    MPSGraphTensor* value = nil;  // result of a read of the variable
    MPSGraphTensor* given = nil;  // placeholder for the value that `assign` writes
    MPSGraphOperation* assign = nil;
  };
  InGraph declared(MPSGraph* graph, NSData* value) const;

  const std::shared_ptr<MetalVariables> home_;
  const TensorType type_;
  InGraph there_;
};

}  // namespace mpsgraph::metal
