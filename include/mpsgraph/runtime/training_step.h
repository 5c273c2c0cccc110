// TrainingStep: the training step of a package on a device, for packages that mpsgraph.save() wrote for a Python
// trainer.
//
// A TrainingStep looks up the learning rate that the schedule defines for each step, and decides between applying and
// accumulating gradients. The graph counts the steps and holds all other state. A step that fails therefore changes
// nothing, and save_package() writes everything that another process needs to continue with bitwise identical results.
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

// Runs the training steps of a package. Several threads may use it; steps run one after the other.
class MPSGRAPH_API TrainingStep {
 public:
  // Both arguments must outlive this object. Throws GraphError if the package has no training step.
  TrainingStep(const PackageContents& contents, DeviceGraph& graph);

  const NamedTensors& inputs() const { return inputs_; }  // inputs of a batch: inputs, labels, sample weights
  const std::vector<std::string>& results() const;  // names of the loss and the metrics

  // Runs one step on a batch, given in the order of inputs() or by name, and returns the results in the order of
  // results(). Throws OutOfRangeError if the package's schedule has no learning rate for this update. `building` is
  // locked during compilation, for programs in which other threads add operations to the same graph.
  std::vector<double> run(const std::vector<NDArray>& batch, std::mutex* building = nullptr);
  std::vector<double> run(const std::map<std::string, NDArray>& batch);

  // Returns the results for a batch in inference mode, without a step, by running the package's function "evaluate".
  // Throws UnsupportedError if the package has no such function. Results that exist only in training, such as
  // "loss_scale", are NaN.
  std::vector<double> evaluate(const std::vector<NDArray>& batch, std::mutex* building = nullptr);

  int64_t step();  // number of completed steps
  // Returns the rates of the next step: a single rate, unless parameter groups or several optimizers have their own
  // rates.
  std::vector<double> learning_rates();
  void set_learning_rate(double rate);  // from the next step on; throws UnsupportedError if there are several rates

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
