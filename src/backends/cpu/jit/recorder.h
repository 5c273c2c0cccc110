// Records the element-wise operations of a region as VectorCode.
//
// Values are node numbers. In lanes of 32 bits floats and halves are float lanes, booleans are masks, int32, int8 and
// uint8 are integer lanes. In lanes of 64 bits, for regions with float64 or int64, there are these two and masks;
// float32 and shorter integers are float64 there, and may be cast. What cannot be recorded says so with nothing
// (std::nullopt, false); the region is then interpreted by tile functions instead.
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
  std::optional<int> scalar(DType dtype, int stream) { return read(Kind::scalar, dtype, stream); }  // one for all
  // `shared`: the result has uses besides being stored once.
  std::optional<int> apply(const Operation& operation, std::span<const int> operands, bool shared);
  bool store(DType dtype, int value, int stream);
  int sum(int value);  // number of the accumulator; of lanes of 32 bits
  void prefetch(int stream) { code_.prefetch(stream); }

  // With non-temporal stores to the given streams, whose memory is then aligned to a vector. `prefetches`:
  // with the prefetches that were requested.
  VectorCode code(std::span<const int> streaming = {}, bool prefetches = true) const;

 private:
  std::optional<int> read(Kind kind, DType dtype, int stream);

  VectorCode code_;
  const bool has_bfloat16_;  // AVX512-BF16 is there
};

}  // namespace mpsgraph::cpu::jit
