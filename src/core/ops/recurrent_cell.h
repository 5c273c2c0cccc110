// The activations of recurrent cells, shared by the graph and the kernels.
#pragma once

#include <cstdint>

namespace mpsgraph::ops {

enum class Cell : uint8_t { single_gate, lstm, gru };

// Activations in the order of Apple's enumeration; the internal operations' attribute "activations" stores these
// numbers.
enum class RecurrentActivation : uint8_t { none, relu, tanh, sigmoid, hard_sigmoid };

}  // namespace mpsgraph::ops
