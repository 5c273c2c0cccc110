// What recurrent cells are told apart by, for graphs and for the kernels' loops.
#pragma once

#include <cstdint>

namespace mpsgraph::ops {

enum class Cell : uint8_t { single_gate, lstm, gru };

// In Apple's order, which the internal operations' attribute "activations" numbers them by.
enum class RecurrentActivation : uint8_t { none, relu, tanh, sigmoid, hard_sigmoid };

}  // namespace mpsgraph::ops
