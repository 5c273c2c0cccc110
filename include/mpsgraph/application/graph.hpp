// Graphs, tensors, operations, and their attributes.
#pragma once

#include <array>

#include "mpsgraph/application/execution.hpp"

namespace mpsgraph::application {

class Graph;

// A value in a graph. It keeps its graph alive. A default-constructed Tensor means an operand that is not given.
class Tensor {
 public:
  Tensor() = default;
  Tensor(mpsgraph_tensor tensor, Shared<mpsgraph_graph> graph) : handle_(tensor), graph_(std::move(graph)) {}
  mpsgraph_tensor handle() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }
  Graph graph() const;
  // Returns the type as far as it is known in the graph; -1 means an unknown dimension. shape() throws Failure if the
  // rank is unknown.
  mpsgraph_type type() const {
    mpsgraph_type result;
    check(mpsgraph_tensor_type(handle_, &result));
    return result;
  }
  mpsgraph_dtype dtype() const { return type().dtype; }
  std::vector<int64_t> shape() const { return shape_of(type()); }
  std::string name() const {
    return text_of([&](char* buffer, size_t capacity, size_t* length) {
      return mpsgraph_tensor_name(handle_, buffer, capacity, length);
    });
  }
  // value() returns a copy of a variable's current value; set_value() sets it to a copy of `value`.
  Array value() const {
    mpsgraph_array array;
    check(mpsgraph_variable_read(handle_, &array));
    return Array(array);
  }
  void set_value(const Array& value) const { check(mpsgraph_variable_write(handle_, value.handle())); }

 private:
  mpsgraph_tensor handle_ = nullptr;
  Shared<mpsgraph_graph> graph_;
};

// An operation in a graph. It keeps its graph alive.
class Operation {
 public:
  Operation() = default;
  Operation(mpsgraph_operation operation, Shared<mpsgraph_graph> graph)
      : handle_(operation), graph_(std::move(graph)) {}
  mpsgraph_operation handle() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }
  Graph graph() const;
  // Returns the results of the operation.
  std::vector<Tensor> outputs() const {
    size_t count;
    check(mpsgraph_operation_output_count(handle_, &count));
    std::vector<Tensor> result;
    for (size_t i = 0; i < count; ++i) {
      mpsgraph_tensor output;
      check(mpsgraph_operation_output(handle_, i, &output));
      result.emplace_back(output, graph_);
    }
    return result;
  }

 private:
  mpsgraph_operation handle_ = nullptr;
  Shared<mpsgraph_graph> graph_;
};

// The attributes of an operation. set() adds or replaces an attribute and returns the object, so that calls can be
// chained.
class Attributes : public Shared<mpsgraph_attributes> {
 public:
  Attributes() : Shared(made([](mpsgraph_attributes* attributes) { return mpsgraph_attributes_create(attributes); })) {}
  Attributes& set(const char* name, bool value) { return done(mpsgraph_attributes_set_bool(handle(), name, value)); }
  Attributes& set(const char* name, int value) { return set(name, static_cast<int64_t>(value)); }
  Attributes& set(const char* name, int64_t value) {
    return done(mpsgraph_attributes_set_integer(handle(), name, value));
  }
  Attributes& set(const char* name, double value) { return done(mpsgraph_attributes_set_real(handle(), name, value)); }
  Attributes& set(const char* name, const char* value) {
    return done(mpsgraph_attributes_set_string(handle(), name, value));
  }
  Attributes& set(const char* name, std::initializer_list<int64_t> values) {
    return set(name, std::span(values.begin(), values.size()));
  }
  Attributes& set(const char* name, std::span<const int64_t> values) {
    return done(mpsgraph_attributes_set_integers(handle(), name, values.data(), values.size()));
  }
  Attributes& set(const char* name, const mpsgraph_type& value) {
    return done(mpsgraph_attributes_set_type(handle(), name, &value));
  }
  Attributes& set(const char* name, std::span<const mpsgraph_type> values) {
    return done(mpsgraph_attributes_set_types(handle(), name, values.data(), values.size()));
  }
  Attributes& set(const char* name, const Array& value) {
    return done(mpsgraph_attributes_set_data(handle(), name, value.handle()));
  }
  Attributes& set_dtype(const char* name, mpsgraph_dtype value) {
    return done(mpsgraph_attributes_set_dtype(handle(), name, value));
  }

 private:
  Attributes& done(mpsgraph_status status) {
    check(status);
    return *this;
  }
};

// The value of a placeholder, or of any other tensor, in a run.
using Feed = std::pair<Tensor, Array>;
// The type of a feed in a compilation.
using FeedType = std::pair<Tensor, mpsgraph_type>;

// A graph on a device, with the names of its inputs, outputs and variables. Copies refer to the same graph.
class Graph : public Shared<mpsgraph_graph> {
 public:
  using Shared::Shared;
  explicit Graph(Shared<mpsgraph_graph> graph) : Shared(std::move(graph)) {}
  // Creates an empty graph.
  Graph() : Graph(Device()) {}
  explicit Graph(const Device& device)
      : Shared(made([&](mpsgraph_graph* graph) { return mpsgraph_graph_create(device.handle(), graph); })) {}
  // Opens a package.
  static Graph open(const std::string& path, const Device& device = {}) {
    return Graph(
        made([&](mpsgraph_graph* graph) { return mpsgraph_graph_open(path.c_str(), device.handle(), graph); }));
  }
  // Parses the textual form of a graph, which core/text.h describes.
  static Graph from_text(const std::string& text, const Device& device = {}) {
    return Graph(made([&](mpsgraph_graph* graph) {
      return mpsgraph_graph_from_text(text.data(), text.size(), device.handle(), graph);
    }));
  }
  std::string text() const {
    return text_of([&](char* buffer, size_t capacity, size_t* length) {
      return mpsgraph_graph_text(handle(), buffer, capacity, length);
    });
  }
  // save() writes a package with the current values of all variables. load_state() sets the variables to the values in
  // a package; if any value differs in dtype or shape from its variable, no variable is changed.
  void save(const std::string& path) const { check(mpsgraph_graph_save(handle(), path.c_str())); }
  void load_state(const std::string& path) const { check(mpsgraph_graph_load_state(handle(), path.c_str())); }

  // Adds an operation with a single result, and returns the result. create() adds any other operation. operations.hpp
  // has a function with typed arguments for each kind of operation.
  Tensor add(const char* kind, List<Tensor> inputs, const Attributes& attributes = {},
             const char* name = nullptr) const {
    mpsgraph_tensor result;
    const auto given = handles(inputs);
    check(mpsgraph_graph_add(handle(), kind, given.data(), given.size(), attributes.handle(), name, &result));
    return {result, *this};
  }
  Operation create(const char* kind, List<Tensor> inputs, const Attributes& attributes = {},
                   const char* name = nullptr) const {
    mpsgraph_operation result;
    const auto given = handles(inputs);
    check(mpsgraph_operation_create(handle(), kind, given.data(), given.size(), attributes.handle(), name, &result));
    return {result, *this};
  }
  // Adds a placeholder. With a name, it becomes an input of the graph.
  Tensor placeholder(const mpsgraph_type& type, const char* name = nullptr) const {
    const Tensor result = add("placeholder", {}, Attributes().set("type", type), name);
    if (name) set_name(MPSGRAPH_INPUT, name, result);
    return result;
  }
  // Adds a variable with a copy of `value` as its initial value.
  Tensor variable(const Array& value, const char* name = nullptr) const {
    return add("variable", {}, Attributes().set("value", value), name);
  }
  // Adds a constant with a copy of `value`, or with a number in all elements.
  Tensor constant(const Array& value, const char* name = nullptr) const {
    return add("constant", {}, Attributes().set("value", value), name);
  }
  Tensor constant(double value, const mpsgraph_type& type) const {
    mpsgraph_tensor result;
    check(mpsgraph_graph_constant(handle(), value, &type, &result));
    return {result, *this};
  }
  Tensor constant(double value, mpsgraph_dtype dtype = MPSGRAPH_FLOAT32) const {
    return constant(value, application::type(dtype, {}));
  }
  // Adds the gradients of `of` with respect to each tensor. The gradient of a tensor has the tensor's type. If `of` is
  // not a scalar, the gradients are those of the sum of its elements.
  std::vector<Tensor> gradients(const Tensor& of, List<Tensor> with_respect_to) const {
    const auto given = handles(with_respect_to);
    std::vector<mpsgraph_tensor> found(given.size());
    check(mpsgraph_graph_gradients(of.handle(), given.data(), given.size(), found.data()));
    std::vector<Tensor> result;
    for (const mpsgraph_tensor tensor : found) result.emplace_back(tensor, *this);
    return result;
  }
  // Calls `build` and returns what it returns. All operations that it creates run after `operations`.
  template <class Build>
  auto after(List<Operation> operations, Build&& build) const {
    const auto first = handles(operations);
    check(mpsgraph_graph_begin_control_dependencies(handle(), first.data(), first.size()));
    const Ended end{handle()};
    return build();
  }

  // Returns the tensor with this role and name, or all tensors with a role, or their names in the same order.
  Tensor find(mpsgraph_role role, const char* name) const {
    mpsgraph_tensor found;
    check(mpsgraph_graph_find(handle(), role, name, &found));
    return {found, *this};
  }
  Operation find_operation(const char* name) const {
    mpsgraph_operation found;
    check(mpsgraph_graph_find_operation(handle(), name, &found));
    return {found, *this};
  }
  std::vector<Tensor> tensors(mpsgraph_role role) const {
    std::vector<Tensor> found;
    for (size_t i = 0; i < count(role); ++i) {
      mpsgraph_tensor tensor;
      check(mpsgraph_graph_tensor_at(handle(), role, i, &tensor));
      found.emplace_back(tensor, *this);
    }
    return found;
  }
  std::vector<std::string> names(mpsgraph_role role) const {
    std::vector<std::string> found;
    for (size_t i = 0; i < count(role); ++i)
      found.push_back(text_of([&](char* buffer, size_t capacity, size_t* length) {
        return mpsgraph_graph_name_at(handle(), role, i, buffer, capacity, length);
      }));
    return found;
  }
  // Names a placeholder as an input, or any tensor as an output.
  void set_name(mpsgraph_role role, const char* name, const Tensor& tensor) const {
    check(mpsgraph_graph_set_name(handle(), role, name, tensor.handle()));
  }

  // Compiles the graph from its named inputs to its named outputs. `types` has one type per input; it may be empty if
  // the shapes of all inputs are static.
  Executable compile(List<mpsgraph_type> types = {}) const {
    mpsgraph_executable executable;
    check(mpsgraph_graph_compile(handle(), types.empty() ? nullptr : types.data(), types.size(), &executable));
    return Executable(executable);
  }
  // Compiles any feeds and targets, and operations to execute for their effects. A graph keeps the executables that it
  // has compiled, so that compiling the same program again is fast.
  Executable compile(List<FeedType> feeds, List<Tensor> targets, List<Operation> operations = {}) const {
    std::vector<mpsgraph_tensor> fed;
    std::vector<mpsgraph_type> types;
    for (const auto& [tensor, type] : feeds) fed.push_back(tensor.handle()), types.push_back(type);
    const auto wanted = handles(targets);
    const auto executed = handles(operations);
    mpsgraph_executable executable;
    check(mpsgraph_executable_create(handle(), fed.data(), types.data(), fed.size(), wanted.data(), wanted.size(),
                                     executed.data(), executed.size(), &executable));
    return Executable(executable);
  }
  // Computes the targets from the feeds, executes the operations for their effects, and returns the values of the
  // targets in order. run_async() returns immediately.
  std::vector<Array> run(List<Feed> feeds, List<Tensor> targets, List<Operation> operations = {}) const {
    return compile_for(feeds, targets, operations).run(values(feeds));
  }
  Array run(List<Feed> feeds, const Tensor& target) const { return run(feeds, List<Tensor>(&target, 1)).front(); }
  Execution run_async(List<Feed> feeds, List<Tensor> targets, List<Operation> operations = {},
                      Completion completion = {}, const Queue* queue = nullptr) const {
    return compile_for(feeds, targets, operations).run_async(values(feeds), std::move(completion), queue);
  }

 private:
  struct Ended {
    mpsgraph_graph graph;
    ~Ended() { mpsgraph_graph_end_control_dependencies(graph); }
  };
  size_t count(mpsgraph_role role) const {
    size_t result;
    check(mpsgraph_graph_tensor_count(handle(), role, &result));
    return result;
  }
  Executable compile_for(List<Feed> feeds, List<Tensor> targets, List<Operation> operations) const {
    std::vector<FeedType> types;
    for (const auto& [tensor, array] : feeds) types.emplace_back(tensor, array.type());
    return compile(types, targets, operations);
  }
  static std::vector<Array> values(List<Feed> feeds) {
    std::vector<Array> result;
    for (const auto& [tensor, array] : feeds) result.push_back(array);
    return result;
  }
};

inline Graph Tensor::graph() const { return Graph(graph_); }
inline Graph Operation::graph() const { return Graph(graph_); }

// Adds the gradients of `of` with respect to each tensor, as Graph::gradients().
inline std::vector<Tensor> gradients(const Tensor& of, List<Tensor> with_respect_to) {
  return of.graph().gradients(of, with_respect_to);
}

// read() returns a copy of a variable's current value; write() sets it to a copy of `value`.
inline Array read(const Tensor& variable) { return variable.value(); }
inline void write(const Tensor& variable, const Array& value) { variable.set_value(value); }

}  // namespace mpsgraph::application
