// VectorCode: straight-line code over vectors of 32-bit lanes, recorded as a list of nodes and then generated as
// machine code for a loop over n elements.
//
// Nodes refer to earlier nodes by number. Equal nodes are recorded once; products that are only added become fused
// multiply-adds. Types are the recorder's business: a lane is 32 bits, of a float, an integer or a mask (all or none).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "backends/cpu/jit/assembler.h"

namespace mpsgraph::cpu::jit {

enum class Kind : uint8_t {
  constant,    // bits
  scalar,      // one element at streams[stream], read before the loop; bits16, bits8: as often as a lane holds it
  load,        // streams[stream], `format` in memory
  store,       // a -> streams[stream]
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
  round,       // stream: 0 nearest, 1 down, 2 up, 3 to zero
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  and_not,          // and_not: not a and b
  integer_add,
  integer_subtract,
  shift_left,
  shift_right,
  shift_right_sign,  // shifts: stream is the count
  to_float,
  to_integer,  // integers; to_integer rounds to zero
  to_bfloat16, // the nearest bfloat16's bits as an integer, denormals as 0; only AVX512-BF16
  scale,       // a 2^b, b an integer as float; this and the next ones only with AVX-512
  near_reciprocal,  // of normal numbers below 2^126, within 1 ulp
  mantissa,    // in [3/4, 3/2)
  exponent,    // of the number that begins with a's highest bit
  logarithm,   // b, a logarithm of a, but where a is no positive number: -inf of 0, inf of inf, else NaN
  compare,     // stream: Comparison
  choose,      // a is a mask: b where set, else c
};

enum Comparison : uint8_t { equal = 0, less = 1, less_or_equal = 2, unordered = 3, not_equal = 4, ordered = 7 };

// How elements lie in memory. bits16 and bits8 are stored from the lowest bits of a lane; those above 16 bits are 0.
enum class Format : uint8_t { bits32, float16, bits16, bits8 };
inline int bytes_of(Format format) { return format == Format::bits32 ? 4 : format == Format::bits8 ? 1 : 2; }

struct Node {
  Kind kind;
  Format format = Format::bits32;
  uint8_t past_caches = 0;  // store: streamed
  int stream = 0;
  uint32_t bits = 0;
  int a = -1, b = -1, c = -1;
  auto operator<=>(const Node&) const = default;
};

class VectorCode {
 public:
  explicit VectorCode(VectorSet set) : set(set) {}

  int record(Node node);
  int constant(float value) { return record({.kind = Kind::constant, .bits = std::bit_cast<uint32_t>(value)}); }
  int constant(int32_t value) { return record({.kind = Kind::constant, .bits = std::bit_cast<uint32_t>(value)}); }
  bool is_constant(int node) const { return node >= 0 && nodes[node].kind == Kind::constant; }
  // Loads of this stream prefetch `prefetch_distance` bytes ahead.
  void prefetch(int stream) { prefetched.push_back(stream); }

  VectorSet set;
  std::vector<Node> nodes;
  std::vector<int> prefetched;
  int accumulators = 0;

 private:
  std::map<Node, int> known_;
};

// What a generated function is called with. `whole` elements in whole vectors, then the lanes of `tail`: their bits, or
// for AVX2 the address of a vector whose signs they are; 0: none. Each accumulator is a vector's lanes, added to.
// AVX2 has no masks for elements below 32 bits: of these the tail reads and writes a whole vector's, so that the caller
// gives it memory of its own (stitch.cpp).
using Function = void (*)(std::byte* const* streams, int64_t whole, uint64_t tail, float* accumulators);

bool converts_bfloat16(VectorSet set);  // does the processor, in one instruction?
inline int lanes_of(VectorSet set) { return set == VectorSet::avx512 ? 16 : 8; }

// How often each node is used, by those that are needed.
std::vector<int> uses_of(const std::vector<Node>& nodes);
void contract(std::vector<Node>& nodes);
std::vector<uint8_t> generate(VectorCode code);

}  // namespace mpsgraph::cpu::jit
