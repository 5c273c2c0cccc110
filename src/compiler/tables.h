// Tables over the tensors and operations of one graph, for passes that visit every operation. They index vectors by
// operation id instead of hashing addresses: a pass over a long program would spend most of its time in hash maps.
#pragma once

#include <algorithm>
#include <span>
#include <unordered_map>
#include <vector>

#include "mpsgraph/core/graph.h"

namespace mpsgraph::compiler {

// A value for each tensor of a graph, initially T(). The graph must not grow while the table is in use.
template <class T>
class TensorTable {
 public:
  explicit TensorTable(const Graph& graph) : first_(static_cast<size_t>(graph.operation_count())) {}

  T& operator[](const Tensor* tensor) {
    return tensor->index == 0 ? first_[static_cast<size_t>(tensor->operation->id)] : others_[tensor];
  }
  T operator[](const Tensor* tensor) const {
    if (tensor->index == 0) return first_[static_cast<size_t>(tensor->operation->id)];
    const auto found = others_.find(tensor);
    return found == others_.end() ? T() : found->second;
  }
  template <class Visit>
  void for_each(const Visit& visit) {
    for (T& value : first_) visit(value);
    for (auto& [tensor, value] : others_) visit(value);
  }

 private:
  std::vector<T> first_;  // the values of the first results, indexed by operation id
  std::unordered_map<const Tensor*, T> others_;
};

// The positions of a block's operations in that block. The table is as long as the range of their ids, so the tables of
// all blocks of a graph take space proportional to the graph's size and depth.
class Positions {
 public:
  explicit Positions(const Block& block) : block_(&block) {
    if (block.operations.empty()) return;
    int64_t last = lowest_ = block.operations.front()->id;
    for (const auto& operation : block.operations) {
      lowest_ = std::min(lowest_, operation->id);
      last = std::max(last, operation->id);
    }
    positions_.resize(static_cast<size_t>(last - lowest_ + 1));
    for (size_t i = 0; i < block.operations.size(); i++)
      positions_[static_cast<size_t>(block.operations[i]->id - lowest_)] = static_cast<int>(i);
  }

  // The position of an operation; -1 if it is not in this block.
  int operator()(const Operation* operation) const {
    return operation->parent == block_ ? positions_[static_cast<size_t>(operation->id - lowest_)] : -1;
  }

 private:
  const Block* block_;
  int64_t lowest_ = 0;
  std::vector<int> positions_;
};

// Lists of T, one for each of a fixed number of keys, stored one after the other.
template <class T>
class Lists {
 public:
  // Calls `enter(add)` twice; `add(key, item)` appends an item to a key's list, and both calls must add the same items.
  template <class Enter>
  Lists(size_t keys, const Enter& enter) : ends_(keys + 1) {
    enter([&](int key, const T&) { ends_[static_cast<size_t>(key) + 1]++; });
    for (size_t key = 0; key < keys; key++) ends_[key + 1] += ends_[key];
    items_.resize(ends_.back());
    std::vector<size_t> next(ends_.begin(), ends_.end() - 1);
    enter([&](int key, const T& item) { items_[next[static_cast<size_t>(key)]++] = item; });
  }

  std::span<const T> operator[](int key) const {
    const size_t begin = ends_[static_cast<size_t>(key)];
    return {items_.data() + begin, ends_[static_cast<size_t>(key) + 1] - begin};
  }

 private:
  std::vector<size_t> ends_;
  std::vector<T> items_;
};

}  // namespace mpsgraph::compiler
