// Trainers of the C interface: training steps that are built from tensors and operations of a graph, or read from a
// package that mpsgraph.save() wrote for a Python trainer.
#include <algorithm>
#include <optional>

#include "c_api/objects.h"
#include "mpsgraph/core/attributes.h"
#include "mpsgraph/runtime/executable.h"
#include "mpsgraph/runtime/training_step.h"

using namespace mpsgraph;
using namespace mpsgraph::c_api;
using runtime::NamedTensors;
using runtime::NDArray;

namespace {

// A trainer. `mutex` serializes training steps and the functions that must not run during a step.
struct TrainerObject : Object {
  static constexpr HandleKind its_kind = HandleKind::trainer;
  TrainerObject(std::shared_ptr<GraphObject> graph, NamedTensors feeds, Tensor* loss, std::vector<Operation*> updates)
      : Object(its_kind), graph(std::move(graph)), feeds(std::move(feeds)), loss(loss), updates(std::move(updates)) {}
  explicit TrainerObject(std::shared_ptr<GraphObject> of_package) : Object(its_kind), graph(std::move(of_package)) {
    packaged.emplace(graph->contents, graph->on_device);
    feeds = packaged->inputs();
  }

  std::vector<std::string> results() const { return packaged ? packaged->results() : std::vector<std::string>{"loss"}; }
  runtime::TrainingStep& package_step() {
    if (!packaged)
      throw UnsupportedError(
          "this function needs a trainer from mpsgraph_trainer_open, got one from mpsgraph_trainer_create");
    return *packaged;
  }

  const std::shared_ptr<GraphObject> graph;
  NamedTensors feeds;
  Tensor* const loss = nullptr;
  const std::vector<Operation*> updates;
  std::optional<runtime::TrainingStep> packaged;
  std::mutex mutex;
};

// Sorts the input arrays into the order of the tensors in `wanted`. `names` contains the tensor name of each input
// array. If `names` is NULL, the arrays are already in this order.
std::vector<NDArray> arrays_for(const NamedTensors& wanted, const char* const* names, const mpsgraph_array* inputs,
                                size_t count) {
  if (count != wanted.size()) {
    std::string known;
    for (const auto& item : wanted) known += cat(known.empty() ? "" : ", ", item.first);
    throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                  cat("the number of inputs must be ", wanted.size(), " (", known, "), got ", count));
  }
  const auto given = objects<ArrayObject>(inputs, count);
  std::vector<NDArray> arrays(count);
  for (size_t i = 0; i < count; ++i) {
    size_t place = i;
    if (names) {
      tensor_named(wanted, required(names[i], "a name"));
      const auto found = std::ranges::find(wanted, std::string_view(names[i]), &NamedTensors::value_type::first);
      place = static_cast<size_t>(found - wanted.begin());
    }
    if (arrays[place].valid())
      throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat("input '", wanted[place].first, "' was given twice"));
    arrays[place] = given[i]->array;
  }
  return arrays;
}

std::vector<NDArray> run(GraphObject& graph, const NamedTensors& feeds, std::vector<NDArray> arrays,
                         const std::vector<Tensor*>& targets, const std::vector<Operation*>& operations,
                         std::vector<NDArray> results = {}) {
  std::vector<Tensor*> placeholders;
  for (const auto& [name, tensor] : feeds) placeholders.push_back(tensor);
  std::shared_ptr<runtime::Executable> executable;
  {
    const std::lock_guard lock(graph.mutex);
    executable = graph.on_device.executable_for(placeholders, arrays, targets, operations);
  }
  return executable->run(std::move(arrays), std::move(results));
}

std::vector<double> step(TrainerObject& trainer, std::vector<NDArray> arrays) {
  const std::lock_guard lock(trainer.mutex);
  if (trainer.packaged) return trainer.packaged->run(arrays, &trainer.graph->mutex);
  const NDArray number = run(*trainer.graph, trainer.feeds, std::move(arrays), {trainer.loss}, trainer.updates)[0];
  return {ConstantData::copy(number.dtype(), number.dims(), number.data())->scalar()};
}

void require_room(const double* values, size_t count, size_t there) {
  if (count > there)
    throw Failure(MPSGRAPH_INVALID_ARGUMENT, cat("the number of results must be at most ", there, ", got ", count));
  if (count > 0) required(values, "results");
}

const std::string& name_at(const std::vector<std::string>& names, size_t index) {
  if (index >= names.size())
    throw OutOfRangeError(cat("index ", index, " is out of range: the number of names is ", names.size()));
  return names[index];
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

void give_trainer(std::shared_ptr<TrainerObject> made, mpsgraph_trainer* trainer) {
  *trainer = static_cast<mpsgraph_trainer>(give(std::move(made)));
}

}  // namespace

mpsgraph_status mpsgraph_trainer_create(mpsgraph_graph graph, const mpsgraph_tensor* feeds, size_t feed_count,
                                        mpsgraph_tensor loss, const mpsgraph_operation* updates, size_t update_count,
                                        mpsgraph_trainer* trainer) {
  return guarded([&] {
    required(trainer, "trainer");
    const auto held = object<GraphObject>(graph);
    const auto end = object<TensorObject>(loss);
    const std::lock_guard lock(held->mutex);
    Tensor* number = held->own(*end);
    if (!is_float(number->dtype()))
      throw DTypeError(
          cat("the loss must have a floating-point dtype, but '", number->name(), "' is ", to_string(number->type)));
    if (!number->shape().known() || number->shape().elements() != 1)
      throw ShapeError(cat("the loss must have exactly one element, but '", number->name(), "' is ",
                           to_string(number->type), "; use its mean"));
    if (update_count == 0)
      throw Failure(MPSGRAPH_INVALID_ARGUMENT, "a training step must have at least one update, got none");
    NamedTensors fed;
    for (Tensor* tensor : held->tensors(feeds, feed_count)) fed.emplace_back(tensor->name(), tensor);
    give_trainer(std::make_shared<TrainerObject>(held, fed, number, held->operations(updates, update_count)), trainer);
  });
}

mpsgraph_status mpsgraph_train_step(mpsgraph_trainer trainer, const mpsgraph_array* feeds, size_t feed_count,
                                    double* loss) {
  return guarded([&] {
    const auto held = object<TrainerObject>(trainer);
    const std::vector<double> results = step(*held, arrays_for(held->feeds, nullptr, feeds, feed_count));
    if (loss) *loss = results[0];
  });
}

mpsgraph_status mpsgraph_trainer_open(const char* path, mpsgraph_device device, mpsgraph_trainer* trainer) {
  return guarded([&] {
    required(trainer, "trainer");
    runtime::Device& where = device_or_default(device);
    auto graph = std::make_shared<GraphObject>(runtime::load_package(required(path, "path")), where);
    give_trainer(std::make_shared<TrainerObject>(std::move(graph)), trainer);
  });
}

mpsgraph_status mpsgraph_trainer_graph(mpsgraph_trainer trainer, mpsgraph_graph* graph) {
  return guarded([&] {
    required(graph, "graph");
    *graph = static_cast<mpsgraph_graph>(give(object<TrainerObject>(trainer)->graph));
  });
}

mpsgraph_status mpsgraph_trainer_input_count(mpsgraph_trainer trainer, size_t* count) {
  return guarded([&] { *required(count, "count") = object<TrainerObject>(trainer)->feeds.size(); });
}

mpsgraph_status mpsgraph_trainer_input_name_at(mpsgraph_trainer trainer, size_t index, char* buffer, size_t capacity,
                                               size_t* length) {
  return guarded(
      [&] { write_text(name_at(names_of(object<TrainerObject>(trainer)->feeds), index), buffer, capacity, length); });
}

mpsgraph_status mpsgraph_trainer_input_type(mpsgraph_trainer trainer, size_t index, mpsgraph_type* type) {
  return guarded([&] {
    required(type, "type");
    const auto held = object<TrainerObject>(trainer);
    if (index >= held->feeds.size())
      throw OutOfRangeError(
          cat("input index ", index, " is out of range: the number of inputs is ", held->feeds.size()));
    *type = from_type(held->feeds[index].second->type);
  });
}

mpsgraph_status mpsgraph_trainer_result_count(mpsgraph_trainer trainer, size_t* count) {
  return guarded([&] { *required(count, "count") = object<TrainerObject>(trainer)->results().size(); });
}

mpsgraph_status mpsgraph_trainer_result_name_at(mpsgraph_trainer trainer, size_t index, char* buffer, size_t capacity,
                                                size_t* length) {
  return guarded(
      [&] { write_text(name_at(object<TrainerObject>(trainer)->results(), index), buffer, capacity, length); });
}

mpsgraph_status mpsgraph_trainer_train_step(mpsgraph_trainer trainer, const char* const* names,
                                            const mpsgraph_array* inputs, size_t input_count, double* results,
                                            size_t result_count) {
  return guarded([&] {
    const auto held = object<TrainerObject>(trainer);
    require_room(results, result_count, held->results().size());
    const std::vector<double> made = step(*held, arrays_for(held->feeds, names, inputs, input_count));
    std::copy_n(made.begin(), result_count, results);
  });
}

mpsgraph_status mpsgraph_trainer_evaluate(mpsgraph_trainer trainer, const char* const* names,
                                          const mpsgraph_array* inputs, size_t input_count, double* results,
                                          size_t result_count) {
  return guarded([&] {
    const auto held = object<TrainerObject>(trainer);
    runtime::TrainingStep& own = held->package_step();
    const runtime::PackageFunction* function = held->graph->contents.function("evaluate");
    require_room(results, result_count, held->results().size());
    const NamedTensors& wanted = function ? function->inputs : held->feeds;
    const std::vector<NDArray> arrays = arrays_for(wanted, names, inputs, input_count);
    const std::lock_guard lock(held->mutex);
    const std::vector<double> made = own.evaluate(arrays, &held->graph->mutex);
    std::copy_n(made.begin(), result_count, results);
  });
}

mpsgraph_status mpsgraph_trainer_predict(mpsgraph_trainer trainer, const char* const* names,
                                         const mpsgraph_array* inputs, size_t input_count, mpsgraph_array* results,
                                         size_t result_count) {
  return guarded([&] {
    const auto held = object<TrainerObject>(trainer);
    NamedTensors wanted, given;
    {
      const std::lock_guard lock(held->graph->mutex);
      wanted = held->graph->contents.inputs, given = held->graph->contents.outputs;
    }
    if (given.empty())
      throw UnsupportedError(
          "the trainer's graph must have a named output to predict; name one with mpsgraph_graph_set_name");
    std::vector<NDArray> written = results_of(results, result_count, given.size());
    std::vector<NDArray> arrays = arrays_for(wanted, names, inputs, input_count);
    std::vector<Tensor*> targets;
    for (const auto& [name, tensor] : given) targets.push_back(tensor);
    const std::lock_guard lock(held->mutex);
    give_results(run(*held->graph, wanted, std::move(arrays), targets, {}, std::move(written)), results);
  });
}

mpsgraph_status mpsgraph_trainer_step_count(mpsgraph_trainer trainer, int64_t* count) {
  return guarded([&] {
    required(count, "count");
    *count = object<TrainerObject>(trainer)->package_step().step();
  });
}

mpsgraph_status mpsgraph_trainer_learning_rate(mpsgraph_trainer trainer, double* rate) {
  return guarded([&] {
    required(rate, "rate");
    *rate = object<TrainerObject>(trainer)->package_step().learning_rates().at(0);
  });
}

mpsgraph_status mpsgraph_trainer_set_learning_rate(mpsgraph_trainer trainer, double rate) {
  return guarded([&] {
    const auto held = object<TrainerObject>(trainer);
    const std::lock_guard lock(held->mutex);
    held->package_step().set_learning_rate(rate);
  });
}

mpsgraph_status mpsgraph_trainer_save(mpsgraph_trainer trainer, const char* path) {
  return guarded([&] {
    required(path, "path");
    const auto held = object<TrainerObject>(trainer);
    const std::lock_guard lock(held->mutex);
    save(*held->graph, path);
  });
}

mpsgraph_status mpsgraph_trainer_load_state(mpsgraph_trainer trainer, const char* path) {
  return guarded([&] {
    required(path, "path");
    const auto held = object<TrainerObject>(trainer);
    const std::lock_guard lock(held->mutex);
    load_state(*held->graph, path);
  });
}
