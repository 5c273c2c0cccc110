// The variables of a graph: MPSGraph variables, in one MPSGraph that all programs with variables are lowered into.
//
// An MPSGraph keeps every operation that was ever added. So that many programs, one for each batch size say, do not
// make it grow for ever, the home moves to a new MPSGraph, values and all, when most of what it holds belongs to
// programs that are gone; the others are then stale and are compiled anew.
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
  // Held by each program that has been lowered into the MPSGraph; another one after each move.
  std::shared_ptr<const int> generation() const { return generation_; }
  // Whoever encodes a program of the MPSGraph holds it: Apple does not say that several threads may. Reads and writes
  // by the host do not, because nothing else runs then.
  std::mutex encoding;
  // Before another program is lowered, while nothing runs.
  void make_room();

 private:
  friend class MetalVariable;
  void move();

  MetalDevice& device_;
  MPSGraph* graph_;
  std::shared_ptr<const int> generation_ = std::make_shared<int>(0);
  int programs_ = 0;  // lowered since the last move
  std::vector<std::weak_ptr<MetalVariable>> variables_;
};

class MetalVariable final : public runtime::VariableStorage {
 public:
  static std::shared_ptr<MetalVariable> make(std::shared_ptr<MetalVariables> home, const ConstantPtr& value);

  TensorType type() const override { return type_; }
  runtime::NDArray read() const override;
  void write(const runtime::NDArray& value) override;

  MPSGraphTensor* tensor() const { return there_.variable; }  // in the home's MPSGraph; nil when it has no elements
  MetalVariables& home() const { return *home_; }

 private:
  friend class MetalVariables;
  MetalVariable(std::shared_ptr<MetalVariables> home, TensorType type)
      : home_(std::move(home)), type_(std::move(type)) {}
  struct InGraph {
    MPSGraphTensor* variable = nil;
    MPSGraphTensor* value = nil;  // a read of it
    MPSGraphTensor* given = nil;  // a placeholder that `assign` assigns to it
    MPSGraphOperation* assign = nil;
  };
  InGraph declared(MPSGraph* graph, NSData* value) const;

  const std::shared_ptr<MetalVariables> home_;
  const TensorType type_;
  InGraph there_;
};

}  // namespace mpsgraph::metal
