// The C interface as C++ classes that release their handles automatically, accept spans, and throw exceptions.
// Header-only; requires C++20.
//
// These classes need only mpsgraph.h from the library. A program compiled with them therefore works with newer versions
// of the library and with a library built by a different compiler. The classes of mpsgraph.hpp are for programs that
// extend the library.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpsgraph/mpsgraph.h"

namespace mpsgraph::application {

// The exception that all functions throw for a status other than MPSGRAPH_OK. It holds the status and the error
// message.
class Failure : public std::runtime_error {
 public:
  Failure(mpsgraph_status status, const std::string& message) : std::runtime_error(message), status(status) {}
  const mpsgraph_status status;
};

// Throws Failure unless `status` is MPSGRAPH_OK.
inline void check(mpsgraph_status status) {
  if (status != MPSGRAPH_OK) throw Failure(status, mpsgraph_error_message());
}

// Owns one reference to the object behind a handle. Copies refer to the same object.
template <class Handle>
class Shared {
 public:
  Shared() = default;
  explicit Shared(Handle handle) : handle_(handle) {}  // takes ownership of one reference
  Shared(const Shared& other) : handle_(other.handle_) {
    if (handle_) check(mpsgraph_retain(handle_));
  }
  Shared(Shared&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Shared() { mpsgraph_release(handle_); }
  Handle handle() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Handle handle_ = nullptr;
};

// Returns the dtype of elements of type T. Throws std::invalid_argument if no dtype corresponds to T.
template <class T>
constexpr mpsgraph_dtype dtype_of() {
  using Element = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<Element, float>) return MPSGRAPH_FLOAT32;
  if constexpr (std::is_same_v<Element, double>) return MPSGRAPH_FLOAT64;
  if constexpr (std::is_same_v<Element, bool>) return MPSGRAPH_BOOL;
  if constexpr (std::is_same_v<Element, int8_t>) return MPSGRAPH_INT8;
  if constexpr (std::is_same_v<Element, int16_t>) return MPSGRAPH_INT16;
  if constexpr (std::is_same_v<Element, int32_t>) return MPSGRAPH_INT32;
  if constexpr (std::is_same_v<Element, int64_t>) return MPSGRAPH_INT64;
  if constexpr (std::is_same_v<Element, uint8_t>) return MPSGRAPH_UINT8;
  if constexpr (std::is_same_v<Element, uint16_t>) return MPSGRAPH_UINT16;
  if constexpr (std::is_same_v<Element, uint32_t>) return MPSGRAPH_UINT32;
  if constexpr (std::is_same_v<Element, uint64_t>) return MPSGRAPH_UINT64;
  throw std::invalid_argument("the element type must have a corresponding mpsgraph dtype, as float and int32_t do");
}

// Returns a type with this dtype and shape; -1 means an unknown dimension.
inline mpsgraph_type type(mpsgraph_dtype dtype, std::span<const int64_t> dims) {
  if (dims.size() > MPSGRAPH_MAX_RANK)
    throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                  "a type must have at most 16 dimensions, got " + std::to_string(dims.size()));
  mpsgraph_type result{dtype, static_cast<int32_t>(dims.size()), {}};
  for (size_t i = 0; i < dims.size(); ++i) result.dims[i] = dims[i];
  return result;
}
inline mpsgraph_type type(mpsgraph_dtype dtype, std::initializer_list<int64_t> dims) {
  return type(dtype, std::span(dims.begin(), dims.size()));
}

// An array in CPU memory. Copies of an Array share its elements.
class Array : public Shared<mpsgraph_array> {
 public:
  using Shared::Shared;
  static Array zeros(const mpsgraph_type& type) {
    mpsgraph_array array;
    check(mpsgraph_array_create(&type, &array));
    return Array(array);
  }
  // Returns an array with a copy of `values` in row-major order.
  template <class T>
  static Array of(std::initializer_list<int64_t> dims, std::span<const T> values) {
    Array array = zeros(application::type(dtype_of<T>(), dims));
    check(mpsgraph_array_write(array.handle(), values.data(), values.size_bytes()));
    return array;
  }
  // Returns an array over the caller's memory without copying it. The memory must outlive the array and all runs that
  // use it.
  template <class T>
  static Array over(std::initializer_list<int64_t> dims, std::span<T> memory) {
    const mpsgraph_type wanted = application::type(dtype_of<T>(), dims);
    mpsgraph_array array;
    check(mpsgraph_array_from_memory(&wanted, nullptr, const_cast<std::remove_const_t<T>*>(memory.data()),
                                     memory.size_bytes(), !std::is_const_v<T>, nullptr, nullptr, &array));
    return Array(array);
  }

  mpsgraph_type type() const {
    mpsgraph_type result;
    check(mpsgraph_array_type(handle(), &result));
    return result;
  }
  // Returns the array's own memory, which is valid as long as the array exists. Throws Failure if the elements are not
  // of type T.
  template <class T>
  std::span<T> span() const {
    if (type().dtype != dtype_of<T>())
      throw Failure(
          MPSGRAPH_DTYPE_ERROR,
          "span<T>() requires an array whose dtype matches T, but the dtypes differ; call type() to query the dtype");
    void* data;
    size_t bytes;
    check(mpsgraph_array_data(handle(), &data, &bytes));
    return {static_cast<T*>(data), bytes / sizeof(T)};
  }
};

using Tensor = mpsgraph_tensor;  // tensors are owned by their graph, so they need not be released
using Operation = mpsgraph_operation;

// The attributes of an operation. set() adds or replaces an attribute and returns the object, so that calls can be
// chained.
class Attributes : public Shared<mpsgraph_attributes> {
 public:
  Attributes() : Shared(make()) {}
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
    return done(mpsgraph_attributes_set_integers(handle(), name, values.begin(), values.size()));
  }
  Attributes& set(const char* name, const mpsgraph_type& value) {
    return done(mpsgraph_attributes_set_type(handle(), name, &value));
  }
  Attributes& set(const char* name, const Array& value) {
    return done(mpsgraph_attributes_set_data(handle(), name, value.handle()));
  }

 private:
  static mpsgraph_attributes make() {
    mpsgraph_attributes made;
    check(mpsgraph_attributes_create(&made));
    return made;
  }
  Attributes& done(mpsgraph_status status) {
    check(status);
    return *this;
  }
};

inline std::vector<mpsgraph_array> handles(std::span<const Array> arrays) {
  std::vector<mpsgraph_array> result;
  for (const Array& array : arrays) result.push_back(array.handle());
  return result;
}

// Called with the results, or the error, when a run has ended. It is called on a thread of the library and must not
// throw.
using Completion = std::function<void(mpsgraph_status, const std::string& message, std::vector<Array> results)>;

// A run that run_async() started.
class Execution : public Shared<mpsgraph_execution> {
 public:
  using Shared::Shared;
  // Waits until the run is done. Throws Failure if the run failed or takes longer than `seconds`; a negative number
  // means no timeout.
  void wait(double seconds = -1) const { check(mpsgraph_execution_wait(handle(), seconds)); }
  // Cancels the run without waiting for its end. Variables then have the values from before the run.
  void cancel() const { check(mpsgraph_execution_cancel(handle())); }
};

// A compiled program. Several threads may run it at the same time.
class Executable : public Shared<mpsgraph_executable> {
 public:
  using Shared::Shared;
  // Runs the program on one array per input and returns new arrays with the outputs. A run that takes longer than
  // `seconds` is cancelled: run() throws Failure, and variables have the values from before the run. A negative number
  // means no timeout.
  std::vector<Array> run(std::span<const Array> inputs, double seconds = -1) const {
    size_t count;
    check(mpsgraph_executable_output_count(handle(), &count));
    std::vector<mpsgraph_array> made(count);
    const auto given = handles(inputs);
    check(mpsgraph_executable_run_for(handle(), given.data(), given.size(), made.data(), count, seconds));
    return {made.begin(), made.end()};
  }
  std::vector<Array> run(std::initializer_list<Array> inputs, double seconds = -1) const {
    return run(std::span(inputs.begin(), inputs.size()), seconds);
  }
  // Runs the program and writes its results into the caller's arrays.
  void run(std::span<const Array> inputs, std::span<const Array> results) const {
    const auto given = handles(inputs);
    auto written = handles(results);
    check(mpsgraph_executable_run(handle(), given.data(), given.size(), written.data(), written.size()));
  }
  // Starts a run and returns immediately. `completion` is called when the run has ended.
  Execution run_async(std::span<const Array> inputs, Completion completion) const {
    const auto given = handles(inputs);
    auto held = std::make_unique<Completion>(std::move(completion));
    mpsgraph_execution started;
    check(mpsgraph_executable_run_async(handle(), given.data(), given.size(), nullptr, 0, nullptr, &complete,
                                        held.get(), &started));
    held.release();  // the callback complete() deletes the object
    return Execution(started);
  }

 private:
  static void complete(void* context, mpsgraph_status status, const char* message, const mpsgraph_array* results,
                       size_t count) {
    const std::unique_ptr<Completion> held(static_cast<Completion*>(context));
    std::vector<Array> arrays;
    for (size_t i = 0; i < count; ++i) {
      check(mpsgraph_retain(results[i]));
      arrays.emplace_back(results[i]);
    }
    if (*held) (*held)(status, message, std::move(arrays));
  }
};

// A graph on the default device, with the names of its inputs, outputs and variables.
class Graph : public Shared<mpsgraph_graph> {
 public:
  using Shared::Shared;
  // Creates an empty graph.
  Graph() : Shared(make([](mpsgraph_graph* graph) { return mpsgraph_graph_create(nullptr, graph); })) {}
  // Opens a package.
  static Graph open(const std::string& path) {
    return Graph(make([&](mpsgraph_graph* graph) { return mpsgraph_graph_open(path.c_str(), nullptr, graph); }));
  }
  // Parses the textual form of a graph, which core/text.h describes.
  static Graph from_text(const std::string& text) {
    return Graph(make(
        [&](mpsgraph_graph* graph) { return mpsgraph_graph_from_text(text.data(), text.size(), nullptr, graph); }));
  }
  // save() writes a package with the current values of all variables. load_state() sets the variables to the values in
  // a package; if any value differs in dtype or shape from its variable, no variable is changed.
  void save(const std::string& path) const { check(mpsgraph_graph_save(handle(), path.c_str())); }
  void load_state(const std::string& path) const { check(mpsgraph_graph_load_state(handle(), path.c_str())); }

  // Adds an operation with a single result, and returns the result. create() adds any other operation.
  Tensor add(const char* kind, std::span<const Tensor> inputs, const Attributes& attributes = {},
             const char* name = nullptr) const {
    Tensor made;
    check(mpsgraph_graph_add(handle(), kind, inputs.data(), inputs.size(), attributes.handle(), name, &made));
    return made;
  }
  Tensor add(const char* kind, std::initializer_list<Tensor> inputs, const Attributes& attributes = {},
             const char* name = nullptr) const {
    return add(kind, std::span(inputs.begin(), inputs.size()), attributes, name);
  }
  Operation create(const char* kind, std::initializer_list<Tensor> inputs, const Attributes& attributes = {},
                   const char* name = nullptr) const {
    Operation made;
    check(mpsgraph_operation_create(handle(), kind, inputs.begin(), inputs.size(), attributes.handle(), name, &made));
    return made;
  }
  // Adds a placeholder and names it as an input.
  Tensor placeholder(const mpsgraph_type& type, const char* name) const {
    const Tensor made = add("placeholder", {}, Attributes().set("type", type), name);
    set_name(MPSGRAPH_INPUT, name, made);
    return made;
  }
  // Adds a variable with a copy of `value` as its initial value.
  Tensor variable(const Array& value, const char* name) const {
    return add("variable", {}, Attributes().set("value", value), name);
  }
  // Adds the gradients of `of` with respect to each tensor.
  std::vector<Tensor> gradients(Tensor of, std::span<const Tensor> with_respect_to) const {
    std::vector<Tensor> made(with_respect_to.size());
    check(mpsgraph_graph_gradients(of, with_respect_to.data(), made.size(), made.data()));
    return made;
  }

  // Returns the tensor with this role and name, or all tensors with a role.
  Tensor find(mpsgraph_role role, const char* name) const {
    Tensor found;
    check(mpsgraph_graph_find(handle(), role, name, &found));
    return found;
  }
  std::vector<Tensor> tensors(mpsgraph_role role) const {
    size_t count;
    check(mpsgraph_graph_tensor_count(handle(), role, &count));
    std::vector<Tensor> found(count);
    for (size_t i = 0; i < count; ++i) check(mpsgraph_graph_tensor_at(handle(), role, i, &found[i]));
    return found;
  }
  // Names a placeholder as an input, or any tensor as an output.
  void set_name(mpsgraph_role role, const char* name, Tensor tensor) const {
    check(mpsgraph_graph_set_name(handle(), role, name, tensor));
  }

  // Compiles the graph from its named inputs to its named outputs. `types` has one type per input; it may be empty if
  // the shapes of all inputs are static.
  Executable compile(std::span<const mpsgraph_type> types = {}) const {
    mpsgraph_executable made;
    check(mpsgraph_graph_compile(handle(), types.empty() ? nullptr : types.data(), types.size(), &made));
    return Executable(made);
  }

 private:
  template <class Make>
  static mpsgraph_graph make(Make&& of) {
    mpsgraph_graph made;
    check(of(&made));
    return made;
  }
};

// Custom operations (see custom_operation.h), which graphs and packages contain as operations of kind "custom". Load or
// register them before you open a package that needs them. register_custom_operation() copies the description, but not
// the memory that it points to.
inline void load_custom_operations(const std::string& library) { check(mpsgraph_custom_load(library.c_str())); }
inline void register_custom_operation(const mpsgraph_custom_operation& operation) {
  check(mpsgraph_custom_register(&operation));
}

// read() returns a copy of a variable's current value; write() sets it to a copy of `value`.
inline Array read(Tensor variable) {
  mpsgraph_array value;
  check(mpsgraph_variable_read(variable, &value));
  return Array(value);
}
inline void write(Tensor variable, const Array& value) { check(mpsgraph_variable_write(variable, value.handle())); }

// Returns the text that a function of the C interface writes into a buffer.
template <class Write>
std::string text_of(Write&& write) {
  size_t length;
  check(write(nullptr, 0, &length));
  std::string text(length + 1, '\0');
  check(write(text.data(), text.size(), &length));
  text.resize(length);
  return text;
}

// Arrays by name, such as {{"inputs", x}, {"labels", y}}.
using Named = std::initializer_list<std::pair<const char*, Array>>;

// A training step, built from tensors and operations of a graph, or opened from a package that mpsgraph.save(path,
// trainer) wrote in Python.
class Trainer : public Shared<mpsgraph_trainer> {
 public:
  Trainer(const Graph& graph, std::span<const Tensor> feeds, Tensor loss, std::span<const Operation> updates)
      : Shared(make(graph, feeds, loss, updates)) {}
  // Opens the package of a trainer and continues from the state that was saved.
  static Trainer open(const std::string& path, mpsgraph_device device = nullptr) {
    mpsgraph_trainer opened;
    check(mpsgraph_trainer_open(path.c_str(), device, &opened));
    return Trainer(opened);
  }

  // Runs one training step on arrays in the order of the inputs and returns the loss.
  double step(std::initializer_list<Array> feeds) const { return step(std::span(feeds.begin(), feeds.size())); }
  double step(std::span<const Array> feeds) const {
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
  std::vector<Array> predict(std::initializer_list<Array> inputs) const {
    const auto given = handles(std::span(inputs.begin(), inputs.size()));
    size_t count;
    check(mpsgraph_graph_tensor_count(graph().handle(), MPSGRAPH_OUTPUT, &count));
    std::vector<mpsgraph_array> made(count);
    check(mpsgraph_trainer_predict(handle(), nullptr, given.data(), given.size(), made.data(), count));
    return {made.begin(), made.end()};
  }

  // Return the names of a batch's arrays, and of the results of step() and evaluate().
  std::vector<std::string> input_names() const {
    return names(&mpsgraph_trainer_input_count, &mpsgraph_trainer_input_name_at);
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
  static mpsgraph_trainer make(const Graph& graph, std::span<const Tensor> feeds, Tensor loss,
                               std::span<const Operation> updates) {
    mpsgraph_trainer made;
    check(mpsgraph_trainer_create(graph.handle(), feeds.data(), feeds.size(), loss, updates.data(), updates.size(),
                                  &made));
    return made;
  }
  template <class Function>
  std::vector<double> numbers(Function function, Named batch) const {
    std::vector<const char*> names;
    std::vector<mpsgraph_array> arrays;
    for (const auto& [name, array] : batch) names.push_back(name), arrays.push_back(array.handle());
    size_t count;
    check(mpsgraph_trainer_result_count(handle(), &count));
    std::vector<double> results(count);
    check(function(handle(), names.data(), arrays.data(), arrays.size(), results.data(), count));
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
