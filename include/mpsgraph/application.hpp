// The C interface in C++: objects that release themselves, spans, exceptions. Header-only, C++20.
//
// It needs nothing of the library but mpsgraph.h, so a program that was compiled with it runs with newer libraries, and
// with another compiler's. The classes of the core (mpsgraph.hpp) are for those who extend the library.
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

class Failure : public std::runtime_error {
 public:
  Failure(mpsgraph_status status, const std::string& message) : std::runtime_error(message), status(status) {}
  const mpsgraph_status status;
};

inline void check(mpsgraph_status status) {
  if (status != MPSGRAPH_OK) throw Failure(status, mpsgraph_error_message());
}

// A counted handle. Copies share the object.
template <class Handle>
class Shared {
 public:
  Shared() = default;
  explicit Shared(Handle handle) : handle_(handle) {}  // takes the count over
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
  throw std::invalid_argument("no element type of mpsgraph");
}

inline mpsgraph_type type(mpsgraph_dtype dtype, std::span<const int64_t> dims) {
  if (dims.size() > MPSGRAPH_MAX_RANK) throw Failure(MPSGRAPH_INVALID_ARGUMENT, "more than 16 dimensions");
  mpsgraph_type result{dtype, static_cast<int32_t>(dims.size()), {}};
  for (size_t i = 0; i < dims.size(); ++i) result.dims[i] = dims[i];
  return result;
}
inline mpsgraph_type type(mpsgraph_dtype dtype, std::initializer_list<int64_t> dims) {
  return type(dtype, std::span(dims.begin(), dims.size()));
}

class Array : public Shared<mpsgraph_array> {
 public:
  using Shared::Shared;
  static Array zeros(const mpsgraph_type& type) {
    mpsgraph_array array;
    check(mpsgraph_array_create(&type, &array));
    return Array(array);
  }
  // A copy of the numbers.
  template <class T>
  static Array of(std::initializer_list<int64_t> dims, std::span<const T> values) {
    Array array = zeros(application::type(dtype_of<T>(), dims));
    check(mpsgraph_array_write(array.handle(), values.data(), values.size_bytes()));
    return array;
  }
  // The memory itself, which must outlive the array and all runs with it.
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
  // The array's own memory, row-major; Failure for another type of element.
  template <class T>
  std::span<T> span() const {
    if (type().dtype != dtype_of<T>()) throw Failure(MPSGRAPH_DTYPE_ERROR, "the array has another type of element");
    void* data;
    size_t bytes;
    check(mpsgraph_array_data(handle(), &data, &bytes));
    return {static_cast<T*>(data), bytes / sizeof(T)};
  }
};

using Tensor = mpsgraph_tensor;  // both belong to their graph
using Operation = mpsgraph_operation;

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

// Given the results when the run has ended; on a thread of the library's. It must not throw.
using Completion = std::function<void(mpsgraph_status, const std::string& message, std::vector<Array> results)>;

class Execution : public Shared<mpsgraph_execution> {
 public:
  using Shared::Shared;
  void wait(double seconds = -1) const { check(mpsgraph_execution_wait(handle(), seconds)); }
};

class Executable : public Shared<mpsgraph_executable> {
 public:
  using Shared::Shared;
  std::vector<Array> run(std::span<const Array> inputs) const {
    size_t count;
    check(mpsgraph_executable_output_count(handle(), &count));
    std::vector<mpsgraph_array> made(count);
    const auto given = handles(inputs);
    check(mpsgraph_executable_run(handle(), given.data(), given.size(), made.data(), count));
    return {made.begin(), made.end()};
  }
  std::vector<Array> run(std::initializer_list<Array> inputs) const {
    return run(std::span(inputs.begin(), inputs.size()));
  }
  // Into the caller's arrays.
  void run(std::span<const Array> inputs, std::span<const Array> results) const {
    const auto given = handles(inputs);
    auto written = handles(results);
    check(mpsgraph_executable_run(handle(), given.data(), given.size(), written.data(), written.size()));
  }
  Execution run_async(std::span<const Array> inputs, Completion completion) const {
    const auto given = handles(inputs);
    auto held = std::make_unique<Completion>(std::move(completion));
    mpsgraph_execution started;
    check(mpsgraph_executable_run_async(handle(), given.data(), given.size(), nullptr, 0, nullptr, &complete,
                                        held.get(), &started));
    held.release();  // by complete()
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

class Graph : public Shared<mpsgraph_graph> {
 public:
  using Shared::Shared;
  Graph() : Shared(make([](mpsgraph_graph* graph) { return mpsgraph_graph_create(nullptr, graph); })) {}
  static Graph open(const std::string& path) {  // a package
    return Graph(make([&](mpsgraph_graph* graph) { return mpsgraph_graph_open(path.c_str(), nullptr, graph); }));
  }
  static Graph from_text(const std::string& text) {
    return Graph(make(
        [&](mpsgraph_graph* graph) { return mpsgraph_graph_from_text(text.data(), text.size(), nullptr, graph); }));
  }
  void save(const std::string& path) const { check(mpsgraph_graph_save(handle(), path.c_str())); }
  void load_state(const std::string& path) const { check(mpsgraph_graph_load_state(handle(), path.c_str())); }

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
  Tensor placeholder(const mpsgraph_type& type, const char* name) const {
    const Tensor made = add("placeholder", {}, Attributes().set("type", type), name);
    set_name(MPSGRAPH_INPUT, name, made);
    return made;
  }
  Tensor variable(const Array& value, const char* name) const {
    return add("variable", {}, Attributes().set("value", value), name);
  }
  std::vector<Tensor> gradients(Tensor of, std::span<const Tensor> with_respect_to) const {
    std::vector<Tensor> made(with_respect_to.size());
    check(mpsgraph_graph_gradients(of, with_respect_to.data(), made.size(), made.data()));
    return made;
  }

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
  void set_name(mpsgraph_role role, const char* name, Tensor tensor) const {
    check(mpsgraph_graph_set_name(handle(), role, name, tensor));
  }

  // The named inputs and outputs; `types` only where the graph leaves dimensions open.
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

// Operations of your own (custom_operation.h), which graphs and packages have as kind "custom". They come before a package
// that needs them is opened. `register` copies the description, not what it points to.
inline void load_custom_operations(const std::string& library) { check(mpsgraph_custom_load(library.c_str())); }
inline void register_custom_operation(const mpsgraph_custom_operation& operation) {
  check(mpsgraph_custom_register(&operation));
}

inline Array read(Tensor variable) {
  mpsgraph_array value;
  check(mpsgraph_variable_read(variable, &value));
  return Array(value);
}
inline void write(Tensor variable, const Array& value) { check(mpsgraph_variable_write(variable, value.handle())); }

// The words of functions that write them into a buffer.
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

// A training step: of parts of a graph, or of a package that mpsgraph.save(path, trainer) in Python wrote.
class Trainer : public Shared<mpsgraph_trainer> {
 public:
  Trainer(const Graph& graph, std::span<const Tensor> feeds, Tensor loss, std::span<const Operation> updates)
      : Shared(make(graph, feeds, loss, updates)) {}
  // Goes on where the trainer, or who last saved the package, stopped.
  static Trainer open(const std::string& path, mpsgraph_device device = nullptr) {
    mpsgraph_trainer opened;
    check(mpsgraph_trainer_open(path.c_str(), device, &opened));
    return Trainer(opened);
  }

  // The loss, of arrays in the order of the inputs.
  double step(std::initializer_list<Array> feeds) const { return step(std::span(feeds.begin(), feeds.size())); }
  double step(std::span<const Array> feeds) const {
    const auto given = handles(feeds);
    double loss;
    check(mpsgraph_train_step(handle(), given.data(), given.size(), &loss));
    return loss;
  }
  // The loss and all metrics, in the order of `result_names`.
  std::vector<double> step(Named batch) const { return numbers(&mpsgraph_trainer_train_step, batch); }
  std::vector<double> evaluate(Named batch) const { return numbers(&mpsgraph_trainer_evaluate, batch); }
  std::vector<Array> predict(std::initializer_list<Array> inputs) const {
    const auto given = handles(std::span(inputs.begin(), inputs.size()));
    size_t count;
    check(mpsgraph_graph_tensor_count(graph().handle(), MPSGRAPH_OUTPUT, &count));
    std::vector<mpsgraph_array> made(count);
    check(mpsgraph_trainer_predict(handle(), nullptr, given.data(), given.size(), made.data(), count));
    return {made.begin(), made.end()};
  }

  std::vector<std::string> input_names() const {
    return names(&mpsgraph_trainer_input_count, &mpsgraph_trainer_input_name_at);
  }
  std::vector<std::string> result_names() const {
    return names(&mpsgraph_trainer_result_count, &mpsgraph_trainer_result_name_at);
  }
  Graph graph() const {
    mpsgraph_graph held;
    check(mpsgraph_trainer_graph(handle(), &held));
    return Graph(held);
  }
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
