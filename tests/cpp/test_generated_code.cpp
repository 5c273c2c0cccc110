// Generated vector code against a plain evaluation: random straight-line programs with more values than registers, more
// streams than pointers, every kind of node, whole vectors and tails, for both instruction sets.
//
// Floats stay small integers, so that sums and products are exact and fused multiply-adds change nothing.
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/jit/code_memory.h"
#include "backends/cpu/jit/vector_code.h"
#include "check.h"
#include "mpsgraph/core/types.h"

using namespace mpsgraph;
using namespace mpsgraph::cpu::jit;

namespace {

using Memory = std::vector<std::vector<std::byte>>;  // one a stream

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }
float number(uint32_t x) { return std::bit_cast<float>(x); }

uint32_t evaluate(const Node& node, const std::vector<uint32_t>& values) {
  const auto value = [&](int operand) { return operand < 0 ? 0u : values[operand]; };
  const uint32_t a = value(node.a), b = value(node.b), c = value(node.c);
  const float x = number(a), y = number(b);
  switch (node.kind) {
    case Kind::constant: return node.bits;
    case Kind::add: return bits(x + y);
    case Kind::subtract: return bits(x - y);
    case Kind::multiply: return bits(x * y);
    case Kind::divide: return bits(x / y);
    case Kind::least: return x < y ? a : b;
    case Kind::greatest: return x > y ? a : b;
    case Kind::square_root: return bits(std::sqrt(x));
    case Kind::round:
      return bits(node.stream == 0   ? std::nearbyint(x)
                  : node.stream == 1 ? std::floor(x)
                  : node.stream == 2 ? std::ceil(x)
                                     : std::trunc(x));
    case Kind::bitwise_and: return a & b;
    case Kind::bitwise_or: return a | b;
    case Kind::bitwise_xor: return a ^ b;
    case Kind::and_not: return ~a & b;
    case Kind::integer_add: return a + b;
    case Kind::integer_subtract: return a - b;
    case Kind::shift_left: return a << node.stream;
    case Kind::shift_right: return a >> node.stream;
    case Kind::shift_right_sign: return static_cast<uint32_t>(static_cast<int32_t>(a) >> node.stream);
    case Kind::to_float: return bits(static_cast<float>(static_cast<int32_t>(a)));
    case Kind::to_integer: return static_cast<uint32_t>(static_cast<int32_t>(x));
    case Kind::to_bfloat16: return float_to_bfloat16(x);
    case Kind::scale: return bits(std::ldexp(x, static_cast<int>(y)));
    case Kind::compare: {
      const bool holds = node.stream == equal           ? x == y
                         : node.stream == less          ? x < y
                         : node.stream == less_or_equal ? x <= y
                         : node.stream == unordered     ? x != x || y != y
                         : node.stream == not_equal     ? x != y
                                                        : x == x && y == y;
      return holds ? ~0u : 0u;
    }
    case Kind::choose: return a ? b : c;
    default: return 0;
  }
}

struct Program {
  VectorCode code;
  std::vector<Format> formats;  // of the streams
  int inputs = 0, scalars = 0;
};

// Values of one kind each: float numbers of at most 64, masks, integers below 2^12.
Program random_program(VectorSet set, std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  Program p{VectorCode(set), {}};
  std::vector<int> floats, masks, integers;
  p.inputs = 1 + below(12);
  for (int s = 0; s < p.inputs; s++) {
    const auto format = static_cast<Format>(below(4));
    p.formats.push_back(format);
    const int value = p.code.record({.kind = Kind::load, .format = format, .stream = s});
    const bool integer = format == Format::bits16 || format == Format::bits8;
    (integer ? integers : floats).push_back(value);
  }
  p.scalars = below(8);
  for (int s = 0; s < p.scalars; s++) {
    // Of bits16 both halves of a lane are the element, of bits8 all four bytes.
    const auto format = below(2) == 0 ? static_cast<Format>(below(4)) : Format::bits32;
    p.formats.push_back(format);
    const int value = p.code.record({.kind = Kind::scalar, .format = format, .stream = p.inputs + s});
    if (format == Format::bits32 || format == Format::float16)
      floats.push_back(value);
    else
      integers.push_back(
          p.code.record({.kind = Kind::shift_right, .stream = format == Format::bits8 ? 24 : 16, .a = value}));
  }
  for (int i = 0; i < 3; i++) floats.push_back(p.code.constant(static_cast<float>(below(9) - 4)));
  integers.push_back(p.code.constant(int32_t(below(4096))));
  const auto any = [&](std::vector<int>& from) { return from[below(static_cast<int>(from.size()))]; };
  const auto two = [&](Kind kind, int a, int b) { return p.code.record({.kind = kind, .a = a, .b = b}); };
  const auto bounded = [&](int value) {
    return two(Kind::greatest, p.code.constant(-64.f), two(Kind::least, p.code.constant(64.f), value));
  };
  masks.push_back(two(Kind::compare, any(floats), any(floats)));
  const int operations = below(4) == 0 ? 150 : 1 + below(40);
  for (int i = 0; i < operations; i++) {
    const int a = any(floats), b = any(floats);
    switch (below(16)) {
      case 0: floats.push_back(bounded(two(Kind::add, a, b))); break;
      case 1: floats.push_back(bounded(two(Kind::subtract, a, b))); break;
      case 2: floats.push_back(bounded(two(Kind::multiply, a, b))); break;
      case 3: floats.push_back(bounded(two(Kind::add, two(Kind::multiply, a, b), any(floats)))); break;
      case 4: floats.push_back(bounded(two(Kind::subtract, any(floats), two(Kind::multiply, a, b)))); break;
      case 5: floats.push_back(bounded(two(Kind::subtract, two(Kind::multiply, a, b), any(floats)))); break;
      case 6: floats.push_back(two(below(2) ? Kind::least : Kind::greatest, a, b)); break;
      case 7: floats.push_back(p.code.record({.kind = Kind::round, .stream = below(4), .a = a})); break;
      case 8: {
        static constexpr int how[] = {equal, less, less_or_equal, unordered, not_equal, ordered};
        masks.push_back(p.code.record({.kind = Kind::compare, .stream = how[below(6)], .a = a, .b = b}));
        break;
      }
      case 9: floats.push_back(p.code.record({.kind = Kind::choose, .a = any(masks), .b = a, .c = b})); break;
      case 10:
        floats.push_back(p.code.record({.kind = Kind::choose, .a = any(masks), .b = a, .c = p.code.constant(0.f)}));
        break;
      case 11: {
        static constexpr Kind how[] = {Kind::bitwise_and, Kind::bitwise_or, Kind::bitwise_xor, Kind::and_not};
        masks.push_back(two(how[below(4)], any(masks), any(masks)));
        break;
      }
      case 12: {
        const int sum = two(below(2) ? Kind::integer_add : Kind::integer_subtract, any(integers), any(integers));
        static constexpr Kind how[] = {Kind::shift_left, Kind::shift_right, Kind::shift_right_sign};
        const int shifted = p.code.record({.kind = how[below(3)], .stream = 1 + below(3), .a = sum});
        integers.push_back(two(Kind::bitwise_and, shifted, p.code.constant(int32_t(4095))));
        break;
      }
      case 13: {
        const int half = two(Kind::divide, a, p.code.constant(static_cast<float>(1 + below(5))));
        floats.push_back(p.code.record({.kind = Kind::round, .stream = below(4), .a = half}));
        break;
      }
      case 14: {
        const int root = p.code.record({.kind = Kind::square_root, .a = two(Kind::greatest, a, p.code.constant(0.f))});
        floats.push_back(p.code.record({.kind = Kind::round, .stream = below(4), .a = root}));
        break;
      }
      default: {
        const int turned = p.code.record({.kind = Kind::to_integer, .a = a});
        floats.push_back(p.code.record({.kind = Kind::to_float, .a = turned}));
        if (converts_bfloat16(set)) {
          const int narrow = p.code.record({.kind = Kind::to_bfloat16, .a = any(floats)});
          floats.push_back(p.code.record({.kind = Kind::shift_left, .stream = 16, .a = narrow}));
        }
        if (set == VectorSet::avx512) floats.push_back(bounded(two(Kind::scale, a, p.code.constant(float(below(3))))));
      }
    }
  }
  const int outputs = 1 + below(6);
  for (int s = 0; s < outputs; s++) {
    const int stream = static_cast<int>(p.formats.size());
    const auto format = static_cast<Format>(below(4));
    p.formats.push_back(format);
    const bool integer = format == Format::bits16 || format == Format::bits8;
    p.code.record({.kind = Kind::store, .format = format, .stream = stream, .a = any(integer ? integers : floats)});
  }
  for (int i = below(4); i > 0; i--) p.code.record({.kind = Kind::accumulate, .a = any(floats)});
  return p;
}

// Half precision of the integers at hand: exact, so the plain formulas do.
uint16_t half_of(float x) {
  if (x == 0) return std::signbit(x) ? 0x8000 : 0;
  int exponent;
  const float fraction = std::frexp(std::fabs(x), &exponent);
  return static_cast<uint16_t>((x < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                               (static_cast<int>(fraction * 2048) & 0x3ff));
}

uint32_t read(const Memory& memory, int stream, Format format, int64_t i) {
  const std::byte* at = memory[stream].data() + i * bytes_of(format);
  uint32_t value = 0;
  std::memcpy(&value, at, bytes_of(format));
  if (format != Format::float16) return value;
  if ((value & 0x7fff) == 0) return (value & 0x8000) << 16;
  const float magnitude = std::ldexp(1.f + (value & 0x3ff) / 1024.f, static_cast<int>(value >> 10 & 31) - 15);
  return bits(value & 0x8000 ? -magnitude : magnitude);
}

void write(Memory& memory, int stream, Format format, int64_t i, uint32_t value) {
  if (format == Format::float16) value = half_of(number(value));
  std::memcpy(memory[stream].data() + i * bytes_of(format), &value, bytes_of(format));
}

Memory random_memory(const Program& p, int64_t n, std::mt19937& random) {
  Memory memory;
  for (size_t s = 0; s < p.formats.size(); s++) {
    memory.emplace_back(static_cast<size_t>(n + 4) * bytes_of(p.formats[s]));
    const bool integer = p.formats[s] == Format::bits16 || p.formats[s] == Format::bits8;
    for (int64_t i = 0; i < n + 4; i++) {
      const int value = static_cast<int>(random() % 9) - 4;
      write(memory, static_cast<int>(s), p.formats[s], i,
            integer ? static_cast<uint32_t>(value + 4) : bits(float(value)));
    }
  }
  return memory;
}

// The last elements in AVX2, those that are narrow in memory of their own, as stitch.cpp calls it.
void call_of_tail(const Program& p, Function call, std::vector<std::byte*> streams, int64_t begin, int64_t rest,
                  uint64_t tail, float* sums) {
  Memory vectors(streams.size(), std::vector<std::byte>(8 * 2));
  std::vector<std::byte*> narrow(streams.size(), nullptr);
  for (size_t s = 0; s < streams.size(); s++) {
    const int64_t size = bytes_of(p.formats[s]);
    const bool scalar = static_cast<int>(s) >= p.inputs && static_cast<int>(s) < p.inputs + p.scalars;
    if (scalar) continue;
    streams[s] += begin * size;
    if (size == 4) continue;
    narrow[s] = std::exchange(streams[s], vectors[s].data());
    std::memcpy(vectors[s].data(), narrow[s], rest * size);
  }
  call(streams.data(), 0, tail, sums);
  for (size_t s = 0; s < streams.size(); s++)
    if (narrow[s]) std::memcpy(narrow[s], vectors[s].data(), rest * bytes_of(p.formats[s]));
}

void expect_same(const Program& p, int64_t n, std::mt19937& random) {
  const int64_t lanes = lanes_of(p.code.set), rest = n % lanes;
  const Memory before = random_memory(p, n, random);
  Memory expected = before, made = before;
  std::vector<double> expected_sums(p.code.accumulators, 0.0);
  for (int64_t i = 0; i < n; i++) {
    std::vector<uint32_t> values;
    for (const Node& node : p.code.nodes) {
      uint32_t value = 0;
      if (node.kind == Kind::load)
        value = read(before, node.stream, node.format, i);
      else if (node.kind == Kind::scalar)
        value = read(before, node.stream, node.format, 0) * (node.format == Format::bits16  ? 0x10001
                                                             : node.format == Format::bits8 ? 0x1010101
                                                                                            : 1);
      else if (node.kind == Kind::store)
        write(expected, node.stream, node.format, i, values[node.a]);
      else if (node.kind == Kind::accumulate)
        expected_sums[node.stream] += number(values[node.a]);
      else
        value = evaluate(node, values);
      values.push_back(value);
    }
  }
  const auto code = CodeMemory::make(generate(p.code));
  CHECK(code != nullptr);
  std::vector<std::byte*> streams;
  for (auto& one : made) streams.push_back(one.data());
  const int32_t signs[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  const uint64_t tail = rest == 0    ? 0
                        : lanes == 8 ? reinterpret_cast<uint64_t>(signs + 8 - rest)
                                     : (uint64_t{1} << rest) - 1;
  float sums[4][16] = {};
  const auto call = code->entry<Function>();
  if (p.code.set == VectorSet::avx2 && rest > 0) {
    call(streams.data(), n - rest, 0, sums[0]);
    call_of_tail(p, call, streams, n - rest, rest, tail, sums[0]);
  } else {
    call(streams.data(), n - rest, tail, sums[0]);
  }
  CHECK(made == expected);  // also that nothing behind the last element was written
  for (int k = 0; k < p.code.accumulators; k++) {
    double sum = 0;
    for (int lane = 0; lane < lanes; lane++) sum += sums[k][lane];
    CHECK_EQUAL(sum, expected_sums[k]);
  }
}

void random_programs(VectorSet set) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; round++) {
    const Program p = random_program(set, random);
    for (const int64_t n : {0, 1, 7, 8, 15, 16, 17, 40, 67}) expect_same(p, n, random);
  }
}

}  // namespace

TEST(random_programs_in_avx512) {
  if (cpu::instruction_set() == "AVX-512") random_programs(VectorSet::avx512);
}

TEST(random_programs_in_avx2) {
  if (cpu::instruction_set() != "baseline") random_programs(VectorSet::avx2);
}
