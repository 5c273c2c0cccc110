// TrainingStep: a package's training step on a device, as mpsgraph.save() in Python writes it of a Trainer.
//
// It gives each step the learning rate that the schedule has for it, chooses between applying gradients and adding them
// up, and leaves the counting to the graph, where all other state is, too: so a step that fails changes nothing, and
// save_package() writes what the next process needs to go on bit for bit.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/package.h"

namespace mpsgraph::runtime {

// May be used from several threads: steps are made one after the other.
class MPSGRAPH_API TrainingStep {
 public:
  // Both must outlive it. GraphError for a package that does not train.
  TrainingStep(const PackageContents& contents, DeviceGraph& graph);

  const NamedTensors& inputs() const { return inputs_; }  // of a batch: inputs, labels, weights of the samples
  const std::vector<std::string>& results() const;  // the loss, and metrics

  // One step on a batch, its arrays in the order of `inputs`, or by name. The results, in their order.
  // OutOfRangeError when the package's schedule has no rate for this update. `building` is held while it compiles, for
  // those who build in the same graph.
  std::vector<double> run(const std::vector<NDArray>& batch, std::mutex* building = nullptr);
  std::vector<double> run(const std::map<std::string, NDArray>& batch);

  // The results of a batch in inference mode, by the package's function "evaluate": UnsupportedError without it. Those
  // that only training has, such as "loss_scale", are NaN.
  std::vector<double> evaluate(const std::vector<NDArray>& batch, std::mutex* building = nullptr);

  int64_t step();  // how many were made
  std::vector<double> learning_rates();  // of the next step: one, unless groups or several optimizers have their own
  void set_learning_rate(double rate);  // from the next step on; UnsupportedError where there are several

 private:
  std::vector<NDArray> rates_and_step();
  std::vector<NDArray> run_function(const PackageFunction& function, std::vector<NDArray> arrays, std::mutex* building);

  const PackageContents& contents_;
  DeviceGraph& graph_;
  NamedTensors inputs_;
  std::shared_ptr<Executable> rates_;
  std::mutex mutex_;
};

}  // namespace mpsgraph::runtime
