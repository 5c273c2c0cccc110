// Control flow: functions that build the blocks of if, for, and while.
//
// Blocks are functions. A block takes and returns one Tensor, or a std::array or std::vector of tensors, and the
// operation returns its results in the same form:
//
//   const Tensor y = if_(x > 0, [&] { return x; }, [&] { return -x; });
//   const Tensor power = for_(0, 10, 1, one, [&](Tensor index, Tensor value) { return value * x; });
//   const auto [low, high] = while_(std::array{a, b}, [](auto v) { return v[0] < v[1]; },
//                                   [](auto v) { return std::array{v[0] + 1, v[1] - 1}; });
#pragma once

#include "mpsgraph/application/tensors.hpp"

namespace mpsgraph::application {
namespace detail {

template <class Values>
std::vector<Tensor> listed(const Values& values) {
  if constexpr (std::is_same_v<Values, Tensor>)
    return {values};
  else
    return {values.begin(), values.end()};
}
// Returns tensors in the form Values; `count` tensors are there.
template <class Values>
Values formed(std::span<const Tensor> tensors) {
  if constexpr (std::is_same_v<Values, Tensor>) {
    return tensors.front();
  } else if constexpr (std::is_same_v<Values, std::vector<Tensor>>) {
    return {tensors.begin(), tensors.end()};
  } else {
    Values result{};
    for (size_t i = 0; i < result.size(); ++i) result[i] = tensors[i];
    return result;
  }
}
template <class T>
inline constexpr bool is_form = std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>>;
template <size_t count>
inline constexpr bool is_form<std::array<Tensor, count>> = true;

// Blocks of one operation. Blocks that no operation uses are discarded.
class Blocks {
 public:
  explicit Blocks(const Graph& graph) : graph_(graph) {}
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  ~Blocks() {
    if (open_) mpsgraph_graph_abandon_block(graph_.handle());
    if (ended_ > 0) mpsgraph_graph_abandon_block(graph_.handle());
  }
  // Adds a block. `build` takes the block's arguments and returns its results.
  template <class Build>
  void add(List<mpsgraph_type> types, Build&& build) {
    std::vector<mpsgraph_tensor> arguments(types.size());
    check(mpsgraph_graph_begin_block(graph_.handle(), types.data(), types.size(), arguments.data()));
    open_ = true;
    std::vector<Tensor> tensors;
    for (const mpsgraph_tensor argument : arguments) tensors.emplace_back(argument, graph_);
    const std::vector<Tensor> results = build(tensors);
    const auto returned = handles(results);
    check(mpsgraph_graph_end_block(graph_.handle(), returned.data(), returned.size()));
    open_ = false;
    ++ended_;
  }
  std::vector<Tensor> create(const char* kind, List<Tensor> inputs, const char* name) {
    const auto given = handles(inputs);
    const size_t count = std::exchange(ended_, 0);  // the call consumes the blocks even if it fails
    mpsgraph_operation made;
    check(mpsgraph_operation_create_with_blocks(graph_.handle(), kind, given.data(), given.size(), nullptr, name, count,
                                                &made));
    return Operation(made, graph_).outputs();
  }

 private:
  Graph graph_;
  bool open_ = false;
  size_t ended_ = 0;
};

inline std::vector<mpsgraph_type> types_of(std::span<const Tensor> tensors) {
  std::vector<mpsgraph_type> types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

}  // namespace detail

// Returns the results of `then` if the predicate is true, and otherwise those of `otherwise`. Both must return the same
// number of tensors with the same types. A run executes only one of them.
template <class Then, class Else>
auto if_(const Tensor& predicate, Then&& then, Else&& otherwise, const char* name = nullptr) {
  using Values = std::decay_t<decltype(then())>;
  static_assert(detail::is_form<Values>, "a block must return a Tensor, or an array or a vector of tensors");
  static_assert(std::is_same_v<Values, std::decay_t<decltype(otherwise())>>, "both blocks must return the same type");
  detail::Blocks blocks(predicate.graph());
  blocks.add({}, [&](const auto&) { return detail::listed(then()); });
  blocks.add({}, [&](const auto&) { return detail::listed(otherwise()); });
  return detail::formed<Values>(blocks.create("if", {predicate}, name));
}

// Calls `body(index, values)` to build a loop over the indices from `lower` up to, but not including, `upper`, and
// returns the last values. The index has the dtype of the bounds, int32 for numbers.
template <class Values, class Body>
Values for_(const Operand& lower, const Operand& upper, const Operand& step, const Values& initial, Body&& body,
            const char* name = nullptr) {
  static_assert(detail::is_form<Values>, "the initial values must be a Tensor, or an array or a vector of tensors");
  const std::vector<Tensor> first = detail::listed(initial);
  if (first.empty()) throw Failure(MPSGRAPH_GRAPH_ERROR, "[for] at least one initial value is required");
  const Graph graph = first.front().graph();
  std::optional<mpsgraph_dtype> dtype;
  for (const Operand* bound : {&lower, &upper, &step})
    if (bound->tensor()) dtype = bound->tensor()->dtype();
  std::vector<Tensor> inputs{lower.in(graph, dtype), upper.in(graph, dtype), step.in(graph, dtype)};
  std::vector<mpsgraph_type> types{inputs[0].type()};
  for (const Tensor& value : first) inputs.push_back(value), types.push_back(value.type());
  detail::Blocks blocks(graph);
  blocks.add(types, [&](const std::vector<Tensor>& arguments) {
    const Values results = body(arguments.front(), detail::formed<Values>(std::span(arguments).subspan(1)));
    return detail::listed(results);
  });
  return detail::formed<Values>(blocks.create("for", inputs, name));
}

// Repeats `body(values)` while `condition(values)` returns a true predicate, and returns the last values.
//
// The condition may also return a std::pair of the predicate and values, like the block "before" of MPSGraph. These are
// then the arguments of the body, and the result of the loop when the predicate is false.
template <class Values, class Condition, class Body>
auto while_(const Values& initial, Condition&& condition, Body&& body, const char* name = nullptr) {
  static_assert(detail::is_form<Values>, "the initial values must be a Tensor, or an array or a vector of tensors");
  using Returned = std::decay_t<decltype(condition(initial))>;
  const std::vector<Tensor> first = detail::listed(initial);
  if (first.empty()) throw Failure(MPSGRAPH_GRAPH_ERROR, "[while] at least one initial value is required");
  detail::Blocks blocks(first.front().graph());
  std::vector<mpsgraph_type> handed_on;
  const auto before = [&](const std::vector<Tensor>& arguments) {
    std::vector<Tensor> results;
    const Values values = detail::formed<Values>(arguments);
    if constexpr (std::is_same_v<Returned, Tensor>) {
      results = detail::listed(values);
      handed_on = detail::types_of(results);
      results.insert(results.begin(), condition(values));
    } else {
      const auto [predicate, next] = condition(values);
      results = detail::listed(next);
      handed_on = detail::types_of(results);
      results.insert(results.begin(), predicate);
    }
    return results;
  };
  const auto finish = [&]<class Next>(std::type_identity<Next>) {
    blocks.add(handed_on, [&](const std::vector<Tensor>& arguments) {
      const Values results = body(detail::formed<Next>(arguments));
      return detail::listed(results);
    });
    return detail::formed<Next>(blocks.create("while", first, name));
  };
  blocks.add(detail::types_of(first), before);
  if constexpr (std::is_same_v<Returned, Tensor>)
    return finish(std::type_identity<Values>());
  else
    return finish(std::type_identity<typename Returned::second_type>());
}

}  // namespace mpsgraph::application
