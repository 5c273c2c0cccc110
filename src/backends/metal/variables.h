// The variables of a graph. They are MPSGraph variables in the one MPSGraph into which all programs with variables are
// lowered.
//
// An MPSGraph keeps every operation ever added to it, so many programs, such as one per batch size, would let it grow
// without bound. When most of an MPSGraph belongs to destroyed programs, the variables and their values therefore move
// to a new MPSGraph. The remaining programs become stale and are recompiled.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backends/metal/device.h"
#include "runtime/backend.h"

namespace mpsgraph::metal {

class MetalVariable;

class MetalVariables final : public runtime::VariableHome, public std::enable_shared_from_this<MetalVariables> {
 public:
  explicit MetalVariables(MetalDevice& device) : device_(device), graph_([MPSGraph new]) {}

  MPSGraph* graph() const { return graph_; }
  MetalDevice& device() const { return device_; }
  // A token that each program in the current MPSGraph holds; replaced after each move.
  std::shared_ptr<const int> generation() const { return generation_; }
  // Locked while a program of the MPSGraph is encoded, because Apple does not document that several threads may encode
  // programs of one MPSGraph. The host's reads and writes of variables need no lock, because no program is encoded or
  // runs during a read or write.
  std::mutex encoding;
  // Move the variables to a new MPSGraph if necessary. Call this before lowering another program, while no program
  // runs.
  void make_room();

 private:
  friend class MetalVariable;
  void move();

  MetalDevice& device_;
  MPSGraph* graph_;
  std::shared_ptr<const int> generation_ = std::make_shared<int>(0);
  int programs_ = 0;  // number of programs lowered since the last move
  std::vector<std::weak_ptr<MetalVariable>> variables_;
};

class MetalVariable final : public runtime::VariableStorage {
 public:
  static std::shared_ptr<MetalVariable> make(std::shared_ptr<MetalVariables> home, const ConstantPtr& value);

  TensorType type() const override { return type_; }
  runtime::NDArray read() const override;
  void write(const runtime::NDArray& value) override;

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
