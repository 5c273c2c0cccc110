// Loop histories, the lists of values that a loop saves for its gradient, one per iteration (history_memory.h): push
// appends a copy of a value, and pop returns the last value in place.
//
// The slot of a history holds the address of its last node.
#include <cstring>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/shape/strided_copy.h"

namespace mpsgraph::cpu {
namespace {

using History = const HistoryNode*;

// The type of one value in a history: a tensor, or a nested history.
struct Value {
  DType dtype;
  int64_t elements;
  int history;
  size_t bytes;

  explicit Value(TensorType type)
      : dtype(type.dtype),
        elements(type.shape.elements()),
        history(type.history - 1),
        bytes(history ? sizeof(History) : static_cast<size_t>(elements) * size_of(dtype)) {}
  Value inner() const {
    Value value = *this;
    if (--value.history == 0) value.bytes = static_cast<size_t>(elements) * size_of(dtype);
    return value;
  }
};

Value value_of(const Lowering& lowering) { return Value(lowering.operation().inputs[0]->type); }

std::unique_ptr<Kernel> lower_push(Lowering& lowering) {
  const Slot history = lowering.input(0).slot, value = lowering.input(1).slot, result = lowering.output().slot;
  return kernel([=, bytes = value_of(lowering).bytes](Frame& f) {
    HistoryNode* node = f.history.node(*f.at<History>(history), bytes);
    copy_bytes(node->data(), f.at<std::byte>(value), bytes);
    *f.at<History>(result) = node;
  });
}

std::unique_ptr<Kernel> lower_pop(Lowering& lowering) {
  const Slot history = lowering.input(0).slot, rest = lowering.output(0).slot, value = lowering.output(1).slot;
  lowering.enters_memory(1);
  return kernel([=, bytes = value_of(lowering).bytes](Frame& f) {
    const HistoryNode* last = *f.at<History>(history);
    if (!last) {
      HistoryNode* zeros = f.history.node(nullptr, bytes);
      std::memset(zeros->data(), 0, bytes);
      last = zeros;
    }
    f.pointers[value] = const_cast<std::byte*>(last->data());
    *f.at<History>(rest) = last->previous;
  });
}

std::unique_ptr<Kernel> lower_empty(Lowering& lowering) {
  return kernel([result = lowering.output().slot](Frame& f) { *f.at<History>(result) = nullptr; });
}

// Add two histories value by value, starting with the last values. If one history is longer, its remaining values are
// not copied: the result shares their nodes.
template <class T>
History sum(HistoryMemory& memory, History a, History b, const Value& value) {
  History result = nullptr;
  const HistoryNode** link = &result;
  for (; a && b; a = a->previous, b = b->previous) {
    HistoryNode* node = memory.node(nullptr, value.bytes);
    if (value.history) {
      const auto inner = [](const HistoryNode* n) { return *reinterpret_cast<const History*>(n->data()); };
      *reinterpret_cast<History*>(node->data()) = sum<T>(memory, inner(a), inner(b), value.inner());
    } else {
      const T *x = reinterpret_cast<const T*>(a->data()), *y = reinterpret_cast<const T*>(b->data());
      T* z = reinterpret_cast<T*>(node->data());
      for (int64_t i = 0; i < value.elements; ++i) z[i] = T(Accumulate<T>(x[i]) + Accumulate<T>(y[i]));
    }
    *link = node;
    link = &node->previous;
  }
  *link = a ? a : b;
  return result;
}

std::unique_ptr<Kernel> lower_addition(Lowering& lowering) {
  const Slot a = lowering.input(0).slot, b = lowering.input(1).slot, result = lowering.output().slot;
  const Value value = value_of(lowering);
  return dispatch_algebraic(lowering, value.dtype, [&](auto type) -> std::unique_ptr<Kernel> {
    using T = typename decltype(type)::type;
    return kernel(
        [=](Frame& f) { *f.at<History>(result) = sum<T>(f.history, *f.at<History>(a), *f.at<History>(b), value); });
  });
}

}  // namespace

const Kernels control_flow_history_kernels("control_flow_history", [] {
  define_kernel("history_push", lower_push);
  define_kernel("history_pop", lower_pop);
  define_kernel("history_empty", lower_empty);
  define_kernel("history_addition", lower_addition);
});

}  // namespace mpsgraph::cpu
