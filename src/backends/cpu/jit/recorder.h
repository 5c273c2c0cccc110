// Records the operations of a fused element-wise kernel as VectorCode.
//
// Values are node indices. With 32-bit lanes, floats and half precision are float lanes, booleans are masks, and int32,
// int8, and uint8 are integer lanes. 64-bit lanes, which are used if float64 or int64 occur, hold float64, int64, and
// masks. float32 and shorter integers are then represented as float64 and can only be cast. If an operation cannot be
// recorded, the functions return std::nullopt or false, and tile functions run the kernel instead.
#pragma once

#include <optional>
#include <span>

#include "backends/cpu/jit/vector_code.h"
#include "mpsgraph/core/graph.h"

namespace mpsgraph::cpu::jit {

class Recorder {
 public:
  Recorder(VectorSet set, int lane_bytes) : code_(set, lane_bytes), has_bfloat16_(converts_bfloat16(set)) {}

  std::optional<int> load(DType dtype, int stream) { return read(Kind::load, dtype, stream); }
  // Record one element that all lanes read.
  std::optional<int> scalar(DType dtype, int stream) { return read(Kind::scalar, dtype, stream); }
  // Record an operation. `shared` means that the result has uses other than a single store to memory, or a single cast
  // to float32. Only these two round a value that was cast to half precision.
  std::optional<int> apply(const Operation& operation, std::span<const int> operands, bool shared);
  bool store(DType dtype, int value, int stream);
  int sum(int value);  // returns the index of the accumulator; 32-bit lanes only
  // Request prefetches of a stream, except for NEON: its vectors are a quarter of a cache line, so three of four
  // prefetches would be redundant, and Arm processors prefetch sequential accesses by themselves.
  void prefetch(int stream) {
    if (code_.set != VectorSet::neon) code_.prefetch(stream);
  }

  // Return the code. Stores to the streams in `streaming` are non-temporal, so the memory of these streams must be
  // aligned to a vector. If `prefetches` is false, the requested prefetches are left out.
  VectorCode code(std::span<const int> streaming = {}, bool prefetches = true) const;

 private:
  std::optional<int> read(Kind kind, DType dtype, int stream);

  VectorCode code_;
  const bool has_bfloat16_;  // whether an instruction converts to bfloat16
};

}  // namespace mpsgraph::cpu::jit
