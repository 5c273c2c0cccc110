// Types of the arguments in operations.hpp, and the class that builds an operation from them.
#pragma once

#include <concepts>
#include <optional>
#include <variant>

#include "mpsgraph/application/graph.hpp"

namespace mpsgraph::application {

template <class T>
concept Number = std::is_arithmetic_v<T>;

// An operand: a tensor, or a number, which becomes a constant with the dtype of the operation's last tensor.
class Operand {
 public:
  Operand(const Tensor& tensor) : value_(tensor) {}
  Operand(bool value) : value_(value) {}
  template <std::floating_point T>
  Operand(T value) : value_(static_cast<double>(value)) {}
  template <std::integral T>
  Operand(T value) : value_(static_cast<int64_t>(value)) {}
  const Tensor* tensor() const { return std::get_if<Tensor>(&value_); }
  // Returns the operand as a tensor of a graph; a number becomes a constant. Without a dtype, the dtype is float32,
  // int32, or bool.
  Tensor in(const Graph& graph, std::optional<mpsgraph_dtype> dtype) const {
    if (const Tensor* given = tensor()) return *given;
    if (const bool* flag = std::get_if<bool>(&value_)) {
      if (dtype.value_or(MPSGRAPH_BOOL) != MPSGRAPH_BOOL)
        throw Failure(MPSGRAPH_DTYPE_ERROR, "a bool operand needs tensors of dtype bool; pass a number instead");
      return graph.constant(Array::scalar(*flag));
    }
    if (const int64_t* integer = std::get_if<int64_t>(&value_)) {
      if (dtype == MPSGRAPH_INT64) return graph.constant(Array::scalar(*integer));
      return graph.constant(static_cast<double>(*integer), dtype.value_or(MPSGRAPH_INT32));
    }
    return graph.constant(std::get<double>(value_), dtype.value_or(MPSGRAPH_FLOAT32));
  }

 private:
  std::variant<Tensor, bool, int64_t, double> value_;
};

// An integer, or an integer tensor of rank 0.
class Integer {
 public:
  template <std::integral T>
  Integer(T value) : number(static_cast<int64_t>(value)) {}
  Integer(const Tensor& value) : tensor(value) {}
  int64_t number = 0;
  Tensor tensor;
};

// A list of integers, such as a shape, or an integer tensor of rank 1.
class Integers {
 public:
  Integers() = default;
  Integers(std::initializer_list<int64_t> values) : numbers(values) {}
  Integers(std::span<const int64_t> values) : numbers(values.begin(), values.end()) {}
  Integers(std::vector<int64_t> values) : numbers(std::move(values)) {}
  Integers(const Tensor& value) : tensor(value) {}
  std::vector<int64_t> numbers;
  Tensor tensor;
};

// Axes of a tensor: one, a list, or all (the default). Negative axes count from the end.
class Axes {
 public:
  Axes() = default;
  template <std::integral T>
  Axes(T axis) : numbers{static_cast<int64_t>(axis)} {}
  Axes(std::initializer_list<int64_t> axes) : Axes(std::vector<int64_t>(axes)) {}
  Axes(std::vector<int64_t> axes) : numbers(std::move(axes)) {
    if (numbers.empty())
      throw Failure(MPSGRAPH_SHAPE_ERROR, "axes must not be empty; leave the argument out to use all axes");
  }
  std::vector<int64_t> numbers;  // empty for all axes
};

// Sizes along the axes of a window: a list with one size for each axis, or one size for all of them.
class Sizes {
 public:
  Sizes() = default;
  template <std::integral T>
  Sizes(T size) : numbers{static_cast<int64_t>(size)}, repeated(true) {}
  Sizes(std::initializer_list<int64_t> sizes) : numbers(sizes) {}
  Sizes(std::vector<int64_t> sizes) : numbers(std::move(sizes)) {}
  bool given() const { return !numbers.empty(); }
  // Returns the sizes along `count` axes. The operation reports a wrong number of sizes.
  std::vector<int64_t> along(size_t count) const {
    return repeated ? std::vector<int64_t>(count, numbers.front()) : numbers;
  }
  std::vector<int64_t> numbers;
  bool repeated = false;
};

namespace detail {

// Collects the operands and attributes of one operation.
class Call {
 public:
  explicit Call(const char* kind) : kind_(kind) {}
  Call(const char* kind, const Graph& graph) : kind_(kind), graph_(graph) {}

  // A number among the operands gets the dtype of the last tensor, except of those from mask().
  Call& operand(const Operand& value) {
    operands_.push_back(value);
    if (const Tensor* tensor = value.tensor()) {
      require(*tensor);
      dtype_ = tensor->dtype();
    }
    return *this;
  }
  Call& mask(const Tensor& tensor) {
    require(tensor);
    operands_.push_back(tensor);
    return *this;
  }
  Call& list(List<Tensor> tensors) {
    for (const Tensor& tensor : tensors) operand(tensor);
    return *this;
  }
  // `flag` is the attribute that states whether the operand is given.
  Call& optional(const Tensor& tensor, const char* flag = nullptr) {
    if (tensor) operand(tensor);
    if (flag) set(flag, static_cast<bool>(tensor));
    return *this;
  }
  Call& shape(const Integers& shape) {
    shapes_.emplace_back(operands_.size(), shape);
    operands_.emplace_back(shape.tensor);
    if (shape.tensor) require(shape.tensor);
    return *this;
  }

  template <class Value>
  Call& set(const char* name, const Value& value) {
    attributes_.set(name, value);
    return *this;
  }
  Call& set(const char* name, const std::vector<int64_t>& values) {
    attributes_.set(name, std::span<const int64_t>(values));
    return *this;
  }
  Call& set_dtype(const char* name, mpsgraph_dtype value) {
    attributes_.set_dtype(name, value);
    return *this;
  }
  // Attributes that may also be tensors. If one of them is a tensor, all become operands.
  Call& set(const char* name, const Integer& value) {
    known_.push_back({name, value.tensor, {value.number}, true});
    return *this;
  }
  Call& set(const char* name, const Integers& value) {
    known_.push_back({name, value.tensor, value.numbers, false});
    return *this;
  }

  Operation create(const char* name) {
    if (!graph_)
      throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                    std::string("[") + kind_ + "] at least one operand must be a tensor, got only numbers");
    finish();
    std::vector<Tensor> inputs;
    for (const Operand& value : operands_) inputs.push_back(value.in(*graph_, dtype_));
    return graph_->create(kind_, inputs, attributes_, name);
  }
  Tensor tensor(const char* name) { return create(name).outputs().front(); }
  std::vector<Tensor> tensors(const char* name) { return create(name).outputs(); }
  std::array<Tensor, 2> pair(const char* name) {
    const auto results = tensors(name);
    return {results.at(0), results.at(1)};
  }

 private:
  struct Known {
    const char* name;
    Tensor tensor;
    std::vector<int64_t> numbers;
    bool is_scalar;
  };
  void require(const Tensor& tensor) {
    if (!tensor)
      throw Failure(MPSGRAPH_INVALID_ARGUMENT,
                    std::string("[") + kind_ +
                        "] a required operand is a default-constructed Tensor; pass a tensor of "
                        "a graph");
    if (!graph_) graph_ = tensor.graph();
  }
  Tensor constant(std::span<const int64_t> values, bool is_scalar) const {
    const int64_t count = static_cast<int64_t>(values.size());
    return graph_->constant(is_scalar ? Array::scalar(values.front()) : Array::of<int64_t>({count}, values));
  }
  void finish() {
    for (const auto& [index, shape] : shapes_)
      if (!shape.tensor) operands_[index] = constant(shape.numbers, false);
    bool any = false;
    for (const Known& each : known_) any = any || each.tensor;
    for (const Known& each : known_) {
      if (any)
        operands_.emplace_back(each.tensor ? each.tensor : constant(each.numbers, each.is_scalar));
      else if (each.is_scalar)
        attributes_.set(each.name, each.numbers.front());
      else
        attributes_.set(each.name, std::span<const int64_t>(each.numbers));
    }
  }

  const char* kind_;
  std::optional<Graph> graph_;
  std::optional<mpsgraph_dtype> dtype_;
  std::vector<Operand> operands_;
  std::vector<std::pair<size_t, Integers>> shapes_;
  std::vector<Known> known_;
  Attributes attributes_;
};

}  // namespace detail
}  // namespace mpsgraph::application
