// The training step of a package: determines the learning rates, chooses the function for this batch, and runs it.
#include "mpsgraph/runtime/training_step.h"

#include <algorithm>
#include <cmath>

#include "mpsgraph/core/attributes.h"
#include "mpsgraph/runtime/executable.h"

namespace mpsgraph::runtime {

namespace {

double number_in(const NDArray& array, int64_t place = 0) {
  if (place >= array.elements()) throw PackageError("a value of the package's training step must not be empty");
  const NDArray dense = array.contiguous() ? array : array.copy_contiguous();
  const auto* first = static_cast<const std::byte*>(dense.data()) + static_cast<size_t>(place) * size_of(dense.dtype());
  return ConstantData::copy(dense.dtype(), {}, first)->scalar();
}

const PackageTraining& training_of(const PackageContents& contents) {
  if (!contents.training)
    throw GraphError("the package has no training step, because it was saved from a graph or a model; save a trainer");
  return *contents.training;
}

void set_number(DeviceGraph& graph, Tensor* variable, double number) {
  NDArray value = NDArray::allocate(variable->dtype(), variable->shape().dims());
  ConstantData::splat(variable->dtype(), variable->shape().dims(), number)->expand_into(value.data());
  graph.set_variable(variable, value);
}

}  // namespace

TrainingStep::TrainingStep(const PackageContents& contents, DeviceGraph& graph) : contents_(contents), graph_(graph) {
  const PackageTraining& training = training_of(contents);
  for (const auto& item : contents.function("train_step")->inputs)
    if (std::ranges::find(training.rates, item.first) == training.rates.end()) inputs_.push_back(item);
  const PackageFunction& rates = *contents.function("rates");
  std::vector<Tensor*> targets;
  for (const std::string& name : training.rates)
    targets.push_back(std::ranges::find(rates.outputs, name, &std::pair<std::string, Tensor*>::first)->second);
  targets.push_back(training.step);
  rates_ = graph.compile({}, targets);
}

const std::vector<std::string>& TrainingStep::results() const { return contents_.training->results; }

std::vector<NDArray> TrainingStep::rates_and_step() {
  try {
    return rates_->run({});
  } catch (const OutOfRangeError&) {
    throw OutOfRangeError(
        "the learning rate schedule in the package has no rate for this update, because the package was saved with "
        "rates for fewer updates; set a learning rate, or save the trainer with a larger `updates`");
  }
}

std::vector<NDArray> TrainingStep::run_function(const PackageFunction& function, std::vector<NDArray> arrays,
                                                std::mutex* building) {
  std::vector<Tensor*> feeds, targets;
  for (const auto& [name, tensor] : function.inputs) feeds.push_back(tensor);
  for (const auto& [name, tensor] : function.outputs) targets.push_back(tensor);
  std::shared_ptr<Executable> executable;
  {
    std::unique_lock<std::mutex> lock;
    if (building) lock = std::unique_lock(*building);
    executable = graph_.executable_for(feeds, arrays, targets, function.operations);
  }
  return executable->run(std::move(arrays));
}

std::vector<double> TrainingStep::run(const std::vector<NDArray>& batch, std::mutex* building) {
  if (batch.size() != inputs_.size()) {
    std::string names;
    for (const auto& [name, tensor] : inputs_) names += cat(names.empty() ? "" : ", ", name);
    throw GraphError(cat("the number of arrays for the training step must be ", inputs_.size(), " (", names, "), got ",
                         batch.size()));
  }
  const std::lock_guard lock(mutex_);
  const PackageTraining& training = *contents_.training;
  const std::vector<NDArray> rates = rates_and_step();
  const auto made = static_cast<int64_t>(number_in(rates.back()));
  const PackageFunction& kind = *contents_.function((made + 1) % training.every == 0 ? "train_step" : "accumulate");
  std::vector<NDArray> arrays;
  for (size_t given = 0; const auto& [name, tensor] : kind.inputs) {
    const auto rate = std::ranges::find(training.rates, name);
    arrays.push_back(rate == training.rates.end() ? batch[given++] : rates[rate - training.rates.begin()]);
  }
  const std::vector<NDArray> all = run_function(kind, std::move(arrays), building);
  std::vector<double> results;
  for (const std::string& name : training.results) {
    const auto place = std::ranges::find(kind.outputs, name, &std::pair<std::string, Tensor*>::first);
    results.push_back(number_in(all[place - kind.outputs.begin()]));
  }
  return results;
}

std::vector<double> TrainingStep::run(const std::map<std::string, NDArray>& batch) {
  std::vector<NDArray> arrays;
  for (const auto& [name, tensor] : inputs_) {
    const auto found = batch.find(name);
    if (found == batch.end())
      throw GraphError(cat("the training step needs the input '", name, "', which was not given"));
    arrays.push_back(found->second);
  }
  for (const auto& [name, array] : batch)
    if (std::ranges::find(inputs_, name, &std::pair<std::string, Tensor*>::first) == inputs_.end())
      throw GraphError(cat("the training step has no input '", name, "'"));
  return run(arrays);
}

std::vector<double> TrainingStep::evaluate(const std::vector<NDArray>& batch, std::mutex* building) {
  const PackageFunction* evaluate = contents_.function("evaluate");
  if (!evaluate) throw UnsupportedError("the package has no function 'evaluate'");
  if (batch.size() != evaluate->inputs.size())
    throw GraphError(cat("the number of arrays for the function 'evaluate' must be ", evaluate->inputs.size(), ", got ",
                         batch.size()));
  const std::vector<NDArray> all = run_function(*evaluate, batch, building);
  std::vector<double> found;
  for (const std::string& name : results()) {
    const auto place = std::ranges::find(evaluate->outputs, name, &std::pair<std::string, Tensor*>::first);
    const bool there = place != evaluate->outputs.end();
    found.push_back(there ? number_in(all[place - evaluate->outputs.begin()]) : std::nan(""));
  }
  return found;
}

int64_t TrainingStep::step() {
  return static_cast<int64_t>(number_in(graph_.variable_value(contents_.training->step)));
}

std::vector<double> TrainingStep::learning_rates() {
  std::vector<double> rates;
  std::vector<NDArray> arrays = rates_and_step();
  arrays.pop_back();
  for (const NDArray& array : arrays)
    for (int64_t i = 0; i < array.elements(); ++i) rates.push_back(number_in(array, i));
  return rates;
}

void TrainingStep::set_learning_rate(double rate) {
  if (!(rate >= 0) || std::isinf(rate))
    throw GraphError(cat("the learning rate must be finite and at least 0, got ", rate));
  const PackageTraining& training = *contents_.training;
  if (training.tables.size() != 1 || training.tables[0]->shape().rank() != 1)
    throw UnsupportedError(
        "the package has several learning rates, one per parameter group or optimizer; write to the variables that "
        "hold them instead");
  const std::lock_guard lock(mutex_);
  set_number(graph_, training.tables[0], rate);
  set_number(graph_, training.last_row, 0);
}

}  // namespace mpsgraph::runtime
