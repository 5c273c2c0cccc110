// VectorCode: straight-line code over vectors of 32-bit or 64-bit lanes, recorded as a list of nodes and then compiled
// to machine code for a loop over n elements.
//
// Nodes refer to earlier nodes by index. Equal nodes are recorded once, and products that are only added or subtracted
// become fused multiply-adds. Nodes do not store types; the recorder keeps track of them. A lane holds the bits of a
// float (float64 in 64-bit lanes), an integer, or a mask (all bits set or clear).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace mpsgraph::cpu::jit {

enum class VectorSet { avx2, avx512, neon };

enum class Kind : uint8_t {
  constant,  // `bits` in every lane
  scalar,  // one element at streams[stream], read before the loop; narrow formats are repeated to fill the lane
  load,  // element of streams[stream], stored in memory as `format`
  store,  // stores a to streams[stream]
  accumulate,  // sum of a over all elements, lane by lane
  add,
  subtract,
  multiply,
  divide,
  // least and greatest return the second operand if either is NaN. The result's sign is unspecified if both are zeros.
  least,
  greatest,
  square_root,
  multiply_add,
  multiply_subtract,
  negated_multiply_add,  // a b + c, a b - c, c - a b
  round,  // `stream` is the rounding mode: 0 nearest, 1 down, 2 up, 3 toward zero
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  and_not,  // ~a & b
  integer_add,
  integer_subtract,
  integer_multiply,
  integer_least,
  // For 64-bit lanes, integer_multiply requires AVX-512 or NEON, and integer_least and integer_greatest AVX-512.
  integer_greatest,
  integer_compare,  // `stream` is the Comparison; AVX2 supports only equal and less
  shift_left,
  shift_right,
  shift_right_sign,  // for shifts, `stream` is the count
  to_float,
  // to_integer rounds toward zero. For 64-bit lanes, AVX2 lacks to_float, to_integer, and shift_right_sign.
  to_integer,
  to_bfloat16,  // bits of the nearest bfloat16; 32-bit lanes only, requires converts_bfloat16(); denormals are 0 on x86
  scale,  // a 2^b, b rounded down; this and the nodes up to look_up require AVX-512
  near_reciprocal,  // 1 / a within 1 ulp, for normal numbers below 2^126; 32-bit lanes only
  mantissa,  // mantissa of a, in [3/4, 3/2)
  exponent,  // floor(log2 |a|)
  logarithm,  // returns b (a logarithm of a) if a is positive and finite; otherwise -inf for 0, inf for inf, and NaN
  // entry of the aligned 16-entry table at address `bits`, indexed by the low four bits of a; 64-bit lanes only
  look_up,
  compare,  // `stream` is the Comparison
  choose,  // b where the mask a is set, otherwise c
};

inline bool is_comparison(Kind kind) { return kind == Kind::compare || kind == Kind::integer_compare; }
enum Comparison : uint8_t { equal = 0, less = 1, less_or_equal = 2, unordered = 3, not_equal = 4, ordered = 7 };

// Format of an element in memory. `lane` is the format of a lane. float32 and int32 (for 64-bit lanes) and float16 (for
// 32-bit lanes) are numbers that are converted; conversion to int32 rounds toward zero. bits16 (for 32-bit lanes) and
// bits8 are the lowest bits of a lane, whose bits above the lowest 16 must be 0.
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
  uint8_t streaming = 0;  // whether a store is a streaming store
  int stream = 0;
  uint64_t bits = 0;
  int a = -1, b = -1, c = -1;
  bool operator==(const Node&) const = default;
};

struct NodeHash {
  size_t operator()(const Node& node) const {
    uint64_t hash = node.bits;
    for (const int part : {static_cast<int>(node.kind), static_cast<int>(node.format), static_cast<int>(node.streaming),
                           node.stream, node.a, node.b, node.c})
      hash = (hash ^ (hash >> 29) ^ static_cast<uint32_t>(part)) * 0x9e3779b97f4a7c15u;
    return static_cast<size_t>(hash ^ (hash >> 32));
  }
};

class VectorCode {
 public:
  explicit VectorCode(VectorSet set, int lane_bytes = 4) : set(set), lane_bytes(lane_bytes) {}

  int record(Node node);
  // Record a floating-point constant as wide as a lane.
  int constant(double value) {
    return integer(lane_bytes == 8 ? std::bit_cast<int64_t>(value) : std::bit_cast<int32_t>(static_cast<float>(value)));
  }
  int integer(int64_t value) {
    const auto bits = static_cast<uint64_t>(value);
    return record({.kind = Kind::constant, .bits = lane_bytes == 8 ? bits : bits & 0xffffffff});
  }
  bool is_constant(int node) const { return node >= 0 && nodes[node].kind == Kind::constant; }
  // Make loads of this stream prefetch `prefetch_distance` bytes ahead.
  void prefetch(int stream) { prefetched.push_back(stream); }

  VectorSet set;
  int lane_bytes;
  std::vector<Node> nodes;
  std::vector<int> prefetched;
  int accumulators = 0;

 private:
  std::unordered_map<Node, int, NodeHash> known_;
};

// A generated function. It processes `whole` elements in entire vectors and then the tail. Each accumulator is a vector
// to which the function adds, in 32-bit lanes only; accumulators are 64 bytes apart. `tail` is 0 if there is no tail;
// otherwise, its meaning depends on the instruction set:
//   AVX-512  a bit mask of lanes.
//   AVX2     the address of a vector whose sign bits are the mask. AVX2 has no masks for elements narrower than a lane,
//            so the tail accesses entire vectors of such elements, and the caller must provide separate memory for them
//            (fused_kernel.cpp).
//   NEON     a number of elements, which are processed one at a time.
using Function = void (*)(std::byte* const* streams, int64_t whole, uint64_t tail, float* accumulators);

bool converts_bfloat16(VectorSet set);  // returns whether a single instruction converts to bfloat16
inline int vector_bytes_of(VectorSet set) { return set == VectorSet::avx512 ? 64 : set == VectorSet::avx2 ? 32 : 16; }
inline int lanes_of(VectorSet set, int lane_bytes = 4) { return vector_bytes_of(set) / lane_bytes; }

// Return, for each node, the number of nodes that use it as an operand. Only users that contribute to a store or a sum
// count.
std::vector<int> uses_of(const std::vector<Node>& nodes);
void contract(std::vector<Node>& nodes);
// Return machine code. It is empty if the code has more constants or spilled values than an instruction can address.
std::vector<uint8_t> generate(VectorCode code);
int loop_instructions(VectorCode code);  // returns the number of instructions of the generated loop over vectors

}  // namespace mpsgraph::cpu::jit
