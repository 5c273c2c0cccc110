// VectorCode: straight-line code over vectors of lanes of 32 or 64 bits, recorded as a list of nodes and then generated
// as machine code for a loop over n elements.
//
// Nodes refer to earlier nodes by number. Equal nodes are recorded once; products that are only added become fused
// multiply-adds. Types are the recorder's business: a lane is the bits of a float, which is float64 where there are 64
// of them, of an integer or of a mask (all or none).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "backends/cpu/jit/assembler.h"

namespace mpsgraph::cpu::jit {

enum class Kind : uint8_t {
  constant,  // bits
  scalar,  // one element at streams[stream], read before the loop; bits16, bits8: as often as a lane holds it
  load,  // streams[stream], `format` in memory
  store,  // a -> streams[stream]
  accumulate,  // sum of a over all elements, lane by lane
  add,
  subtract,
  multiply,
  divide,
  least,
  greatest,
  square_root,
  multiply_add,
  multiply_subtract,
  negated_multiply_add,  // a b + c, a b - c, c - a b
  round,  // stream: 0 nearest, 1 down, 2 up, 3 to zero
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  and_not,  // and_not: not a and b
  integer_add,
  integer_subtract,
  integer_multiply,
  integer_least,
  integer_greatest,  // these three of lanes of 64 bits only with AVX-512
  integer_compare,  // stream: Comparison; with AVX2 equal and less
  shift_left,
  shift_right,
  shift_right_sign,  // shifts: stream is the count
  to_float,
  to_integer,  // integers; to_integer rounds to zero; of lanes of 64 bits only with AVX-512, as shift_right_sign
  to_bfloat16,  // the nearest bfloat16's bits as an integer, denormals as 0; only AVX512-BF16, in lanes of 32 bits
  scale,  // a 2^b, b rounded down; this and the next ones only with AVX-512
  near_reciprocal,  // of normal numbers below 2^126, within 1 ulp; in lanes of 32 bits
  mantissa,  // in [3/4, 3/2)
  exponent,  // of the number that begins with a's highest bit
  logarithm,  // b, a logarithm of a, but where a is no positive number: -inf of 0, inf of inf, else NaN
  look_up,  // the last four bits of a say which of sixteen numbers at address `bits`, of a lane's width and aligned to
  // vectors; in lanes of 64 bits
  compare,  // stream: Comparison
  choose,  // a is a mask: b where set, else c
};

inline bool is_comparison(Kind kind) { return kind == Kind::compare || kind == Kind::integer_compare; }
enum Comparison : uint8_t { equal = 0, less = 1, less_or_equal = 2, unordered = 3, not_equal = 4, ordered = 7 };

// How elements lie in memory: as in a lane, as other numbers, which are converted, or as fewer bits, which are stored
// from the lowest of a lane; those above 16 bits are 0. float32 and int32, to which float64 is rounded to zero, belong
// to lanes of 64 bits, float16 and bits16 to those of 32.
enum class Format : uint8_t { lane, float32, int32, float16, bits16, bits8 };
inline int bytes_of(Format format, int lane_bytes) {
  switch (format) {
    case Format::lane: return lane_bytes;
    case Format::float32:
    case Format::int32: return 4;
    case Format::bits8: return 1;
    default: return 2;
  }
}

struct Node {
  Kind kind;
  Format format = Format::lane;
  uint8_t streaming = 0;  // store: streamed
  int stream = 0;
  uint64_t bits = 0;
  int a = -1, b = -1, c = -1;
  auto operator<=>(const Node&) const = default;
};

class VectorCode {
 public:
  explicit VectorCode(VectorSet set, int lane_bytes = 4) : set(set), lane_bytes(lane_bytes) {}

  int record(Node node);
  // A float of a lane's width.
  int constant(double value) {
    return integer(lane_bytes == 8 ? std::bit_cast<int64_t>(value) : std::bit_cast<int32_t>(static_cast<float>(value)));
  }
  int integer(int64_t value) {
    const auto bits = static_cast<uint64_t>(value);
    return record({.kind = Kind::constant, .bits = lane_bytes == 8 ? bits : bits & 0xffffffff});
  }
  bool is_constant(int node) const { return node >= 0 && nodes[node].kind == Kind::constant; }
  // Loads of this stream prefetch `prefetch_distance` bytes ahead.
  void prefetch(int stream) { prefetched.push_back(stream); }

  VectorSet set;
  int lane_bytes;
  std::vector<Node> nodes;
  std::vector<int> prefetched;
  int accumulators = 0;

 private:
  std::map<Node, int> known_;
};

// What a generated function is called with. `whole` elements in whole vectors, then the lanes of `tail`: their bits, or
// for AVX2 the address of a vector whose signs they are; 0: none. Each accumulator is a vector's lanes, added to.
// AVX2 has no masks for elements narrower than a lane: of these the tail reads and writes a whole vector's, so that the
// caller gives it memory of its own (fused_kernel.cpp). Accumulators are of lanes of 32 bits.
using Function = void (*)(std::byte* const* streams, int64_t whole, uint64_t tail, float* accumulators);

bool converts_bfloat16(VectorSet set);  // does the processor, in one instruction?
inline int lanes_of(VectorSet set, int lane_bytes = 4) { return (set == VectorSet::avx512 ? 64 : 32) / lane_bytes; }

// How often each node is used, by those that are needed.
std::vector<int> uses_of(const std::vector<Node>& nodes);
void contract(std::vector<Node>& nodes);
std::vector<uint8_t> generate(VectorCode code);

}  // namespace mpsgraph::cpu::jit
