// Geometry of gather and its gradient: a tensor [batch, outer, n, inner] and indices [batch, picks].
#pragma once

#include <cstdint>

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

struct Picks {
  int64_t batch = 1, outer = 1, n = 1, inner = 1, picks = 1;
  Picks(const Attributes& attributes, const Dims& updates, const Dims& indices) {
    const auto rank = static_cast<int64_t>(updates.size());
    const int64_t batches = attributes.integer("batch_dimensions");
    int64_t axis = attributes.integer("axis");
    if (axis < 0) axis += rank;
    for (int64_t i = 0; i < rank; ++i)
      (i < batches ? batch : i < axis ? outer : i == axis ? n : inner) *= updates[static_cast<size_t>(i)];
    for (size_t i = static_cast<size_t>(batches); i < indices.size(); ++i) picks *= indices[i];
  }
};

}  // namespace mpsgraph::cpu
