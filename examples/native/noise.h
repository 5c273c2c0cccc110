// Reproducible numbers for the examples, and their output. tests/c_interface/test_talks.py computes the same numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <vector>

#include "mpsgraph/application.hpp"

// Returns `count` numbers in [0, 1) that depend only on the seed.
inline std::vector<float> noise(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t number = seed * 0x9e3779b9u;
  for (float& value : values) {
    uint32_t bits = number++;
    bits = (bits ^ bits >> 16) * 0x7feb352du;
    bits = (bits ^ bits >> 15) * 0x846ca68bu;
    value = static_cast<float>((bits ^ bits >> 16) >> 8) * 0x1p-24f;
  }
  return values;
}

// Returns an array of numbers in [-limit, limit).
inline mpsgraph::application::Array uniform(std::initializer_list<int64_t> shape, float limit, uint32_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<float> values = noise(count, seed);
  for (float& value : values) value = (value * 2 - 1) * limit;
  return mpsgraph::application::Array::owning(shape, std::move(values));
}

// Prints the values of an array exactly, so that a test can compare them.
inline void print_values(const char* name, const mpsgraph::application::Array& array) {
  std::printf("%s", name);
  switch (array.dtype()) {
    case MPSGRAPH_FLOAT32:
      for (const float value : array.values<float>()) std::printf(" %a", static_cast<double>(value));
      break;
    case MPSGRAPH_INT32:
      for (const int32_t value : array.values<int32_t>()) std::printf(" %d", static_cast<int>(value));
      break;
    case MPSGRAPH_UINT16:
      for (const uint16_t value : array.values<uint16_t>()) std::printf(" %u", static_cast<unsigned>(value));
      break;
    default: throw mpsgraph::application::Failure(MPSGRAPH_DTYPE_ERROR, "print_values needs float32, int32, or uint16");
  }
  std::printf("\n");
}
