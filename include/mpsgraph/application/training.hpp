// Trainers and optimizers.
#pragma once

#include "mpsgraph/application/tensors.hpp"

namespace mpsgraph::application {

// Adds one step of stochastic gradient descent on a loss for each variable, and returns the operations that execute it.
inline std::vector<Operation> minimize(const Tensor& loss, List<Tensor> variables, const Operand& learning_rate) {
  const std::vector<Tensor> slopes = gradients(loss, variables);
  std::vector<Operation> updates;
  for (size_t i = 0; i < variables.size(); ++i)
    updates.push_back(assign(variables[i], stochastic_gradient_descent(learning_rate, variables[i], slopes[i])));
  return updates;
}

struct Adam {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// Adds one step of Adam on a loss for each variable, and returns the operations that execute it. The moments, and the
// powers of beta1 and beta2, are new variables.
inline std::vector<Operation> minimize(const Tensor& loss, List<Tensor> variables, const Adam& adam_options) {
  const Graph graph = loss.graph();
  const std::vector<Tensor> slopes = gradients(loss, variables);
  const Tensor power1 = graph.variable(Array::scalar(1.0f), "beta1_power");
  const Tensor power2 = graph.variable(Array::scalar(1.0f), "beta2_power");
  const Tensor next1 = power1 * adam_options.beta1, next2 = power2 * adam_options.beta2;
  std::vector<Operation> updates{assign(power1, next1), assign(power2, next2)};
  for (size_t i = 0; i < variables.size(); ++i) {
    const Tensor momentum = graph.variable(Array::zeros(variables[i].type()));
    const Tensor velocity = graph.variable(Array::zeros(variables[i].type()));
    const auto results = adam(adam_options.learning_rate, adam_options.beta1, adam_options.beta2, adam_options.epsilon,
                              cast(next1, variables[i].dtype()), cast(next2, variables[i].dtype()), variables[i],
                              momentum, velocity, slopes[i]);
    updates.push_back(assign(variables[i], results[0]));
    updates.push_back(assign(momentum, results[1]));
    updates.push_back(assign(velocity, results[2]));
  }
  return updates;
}

// Arrays by name, such as {{"inputs", x}, {"labels", y}}.
using Named = List<std::pair<const char*, Array>>;

// A training step, built from tensors and operations of a graph, or opened from a package that mpsgraph.save(path,
// trainer) wrote in Python.
class Trainer : public Shared<mpsgraph_trainer> {
 public:
  // Creates a trainer whose step feeds these tensors in this order, computes the loss, which must have one element, and
  // executes the updates.
  Trainer(const Graph& graph, List<Tensor> feeds, const Tensor& loss, List<Operation> updates)
      : Shared(make(graph, feeds, loss, updates)) {}
  // Opens the package of a trainer and continues from the state that was saved.
  static Trainer open(const std::string& path, const Device& device = {}) {
    mpsgraph_trainer opened;
    check(mpsgraph_trainer_open(path.c_str(), device.handle(), &opened));
    return Trainer(opened);
  }

  // Runs one training step on arrays in the order of the inputs and returns the loss.
  double step(List<Array> feeds) const {
    const auto given = handles(feeds);
    double loss;
    check(mpsgraph_train_step(handle(), given.data(), given.size(), &loss));
    return loss;
  }
  // Runs one training step, or an evaluation without a step, on a batch of named arrays. Returns the loss and all
  // metrics in the order of result_names().
  std::vector<double> step(Named batch) const { return numbers(&mpsgraph_trainer_train_step, batch); }
  std::vector<double> evaluate(Named batch) const { return numbers(&mpsgraph_trainer_evaluate, batch); }
  // Computes the model's outputs in inference mode from arrays in the order of the model's inputs.
  std::vector<Array> predict(List<Array> inputs) const {
    const auto given = handles(inputs);
    size_t count;
    check(mpsgraph_graph_tensor_count(graph().handle(), MPSGRAPH_OUTPUT, &count));
    std::vector<mpsgraph_array> made(count);
    check(mpsgraph_trainer_predict(handle(), nullptr, given.data(), given.size(), made.data(), count));
    return {made.begin(), made.end()};
  }

  // Return the names and types of a batch's arrays, and the names of the results of step() and evaluate().
  std::vector<std::string> input_names() const {
    return names(&mpsgraph_trainer_input_count, &mpsgraph_trainer_input_name_at);
  }
  std::vector<mpsgraph_type> input_types() const {
    std::vector<mpsgraph_type> found(input_names().size());
    for (size_t i = 0; i < found.size(); ++i) check(mpsgraph_trainer_input_type(handle(), i, &found[i]));
    return found;
  }
  std::vector<std::string> result_names() const {
    return names(&mpsgraph_trainer_result_count, &mpsgraph_trainer_result_name_at);
  }
  // Returns the graph that contains the trainer's state.
  Graph graph() const {
    mpsgraph_graph held;
    check(mpsgraph_trainer_graph(handle(), &held));
    return Graph(held);
  }
  // Return the number of completed steps, and the learning rate of the next step. They exist only for trainers from
  // open().
  int64_t step_count() const {
    int64_t count;
    check(mpsgraph_trainer_step_count(handle(), &count));
    return count;
  }
  double learning_rate() const {
    double rate;
    check(mpsgraph_trainer_learning_rate(handle(), &rate));
    return rate;
  }
  void set_learning_rate(double rate) const { check(mpsgraph_trainer_set_learning_rate(handle(), rate)); }
  // save() writes a package from which Python, C++ and C can continue; load_state() sets the state from such a package.
  void save(const std::string& path) const { check(mpsgraph_trainer_save(handle(), path.c_str())); }
  void load_state(const std::string& path) const { check(mpsgraph_trainer_load_state(handle(), path.c_str())); }

 private:
  using Shared::Shared;
  static mpsgraph_trainer make(const Graph& graph, List<Tensor> feeds, const Tensor& loss, List<Operation> updates) {
    const auto fed = handles(feeds);
    const auto executed = handles(updates);
    mpsgraph_trainer trainer;
    check(mpsgraph_trainer_create(graph.handle(), fed.data(), fed.size(), loss.handle(), executed.data(),
                                  executed.size(), &trainer));
    return trainer;
  }
  template <class Function>
  std::vector<double> numbers(Function function, Named batch) const {
    std::vector<const char*> given;
    std::vector<mpsgraph_array> arrays;
    for (const auto& [name, array] : batch) given.push_back(name), arrays.push_back(array.handle());
    size_t count;
    check(mpsgraph_trainer_result_count(handle(), &count));
    std::vector<double> results(count);
    check(function(handle(), given.data(), arrays.data(), arrays.size(), results.data(), count));
    return results;
  }
  template <class Count, class At>
  std::vector<std::string> names(Count count_of, At name_at) const {
    size_t count;
    check(count_of(handle(), &count));
    std::vector<std::string> found;
    for (size_t i = 0; i < count; ++i)
      found.push_back(text_of([&](char* buffer, size_t capacity, size_t* length) {
        return name_at(handle(), i, buffer, capacity, length);
      }));
    return found;
  }
};

}  // namespace mpsgraph::application
