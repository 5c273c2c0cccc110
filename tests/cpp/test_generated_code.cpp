// Generated vector code compared with a plain evaluation, for all instruction sets that this processor supports. Random
// straight-line programs have more values than registers, more streams than pointer registers, every kind of node,
// whole vectors and tails, and 32-bit and 64-bit lanes.
//
// Floats are small integers, so that sums and products are exact even with fused multiply-adds.
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "generated_code.h"
#include "mpsgraph/core/types.h"

using namespace mpsgraph;
using namespace generated;

namespace {

using Memory = std::vector<std::vector<std::byte>>;  // one per stream

template <class Number>
using Bits = std::conditional_t<sizeof(Number) == 8, uint64_t, uint32_t>;

template <class Number>
Bits<Number> evaluate(const Node& node, const std::vector<Bits<Number>>& values) {
  using Lane = Bits<Number>;
  const auto bits = [](Number n) { return std::bit_cast<Lane>(n); };
  const auto signed_of = [](Lane x) { return static_cast<std::make_signed_t<Lane>>(x); };
  const auto value = [&](int operand) { return operand < 0 ? Lane{0} : values[operand]; };
  const Lane a = value(node.a), b = value(node.b), c = value(node.c);
  const Number x = std::bit_cast<Number>(a), y = std::bit_cast<Number>(b);
  switch (node.kind) {
    case NodeKind::constant: return static_cast<Lane>(node.bits);
    case NodeKind::add: return bits(x + y);
    case NodeKind::subtract: return bits(x - y);
    case NodeKind::multiply: return bits(x * y);
    case NodeKind::divide: return bits(x / y);
    case NodeKind::least: return x < y ? a : b;
    case NodeKind::greatest: return x > y ? a : b;
    case NodeKind::square_root: return bits(std::sqrt(x));
    case NodeKind::round:
      return bits(node.stream == 0   ? std::nearbyint(x)
                  : node.stream == 1 ? std::floor(x)
                  : node.stream == 2 ? std::ceil(x)
                                     : std::trunc(x));
    case NodeKind::bitwise_and: return a & b;
    case NodeKind::bitwise_or: return a | b;
    case NodeKind::bitwise_xor: return a ^ b;
    case NodeKind::and_not: return ~a & b;
    case NodeKind::integer_add: return a + b;
    case NodeKind::integer_subtract: return a - b;
    case NodeKind::integer_multiply: return a * b;
    case NodeKind::integer_least: return signed_of(a) < signed_of(b) ? a : b;
    case NodeKind::integer_greatest: return signed_of(a) > signed_of(b) ? a : b;
    case NodeKind::integer_compare: {
      const bool holds = node.stream == equal           ? a == b
                         : node.stream == less          ? signed_of(a) < signed_of(b)
                         : node.stream == less_or_equal ? signed_of(a) <= signed_of(b)
                                                        : a != b;
      return holds ? ~Lane{0} : Lane{0};
    }
    case NodeKind::shift_left: return a << node.stream;
    case NodeKind::shift_right: return a >> node.stream;
    case NodeKind::shift_right_sign: return static_cast<Lane>(signed_of(a) >> node.stream);
    case NodeKind::to_float: return bits(static_cast<Number>(signed_of(a)));
    case NodeKind::to_integer: return static_cast<Lane>(static_cast<std::make_signed_t<Lane>>(x));
    case NodeKind::to_bfloat16: return float_to_bfloat16(static_cast<float>(x));
    case NodeKind::scale: return bits(std::ldexp(x, static_cast<int>(y)));
    case NodeKind::compare: {
      const bool holds = node.stream == equal           ? x == y
                         : node.stream == less          ? x < y
                         : node.stream == less_or_equal ? x <= y
                         : node.stream == unordered     ? x != x || y != y
                         : node.stream == not_equal     ? x != y
                                                        : x == x && y == y;
      return holds ? ~Lane{0} : Lane{0};
    }
    case NodeKind::choose: return a ? b : c;
    default: return 0;
  }
}

struct Program {
  VectorCode code;
  std::vector<Format> formats;  // of the streams
  int inputs = 0, scalars = 0;
};

// Generate a random program over three kinds of values: floats up to 64, masks, and integers below 2^12.
Program random_program(VectorSet set, int lane_bytes, std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  Program p{VectorCode(set, lane_bytes), {}};
  const bool wide = lane_bytes == 8, lacks_integers = wide && set == VectorSet::avx2;
  const auto any_of = [&](std::initializer_list<Format> formats) {
    return formats.begin()[below(static_cast<int>(formats.size()))];
  };
  const auto loaded = [&] {
    return wide ? any_of({Format::lane, Format::float32, Format::int32, Format::bits8})
                : any_of({Format::lane, Format::float16, Format::bits16, Format::bits8});
  };
  const auto stored = [&] {
    return wide ? any_of({Format::lane, Format::float32, Format::int32, Format::bits8})
                : any_of({Format::lane, Format::float16, Format::bits16, Format::bits8});
  };
  std::vector<int> floats, masks, integers;
  p.inputs = 1 + below(12);
  for (int s = 0; s < p.inputs; s++) {
    const Format format = loaded();
    p.formats.push_back(format);
    const int value = p.code.record({.kind = NodeKind::load, .format = format, .stream = s});
    const bool integer = format == Format::bits16 || format == Format::bits8;
    (integer ? integers : floats).push_back(value);
  }
  p.scalars = below(8);
  for (int s = 0; s < p.scalars; s++) {
    // A bits16 scalar fills both halves of a lane, and a bits8 scalar all four bytes.
    const Format format = below(2) == 0 ? loaded() : Format::lane;
    p.formats.push_back(format);
    const int value = p.code.record({.kind = NodeKind::scalar, .format = format, .stream = p.inputs + s});
    const int upper = 8 * lane_bytes - (format == Format::bits8 ? 8 : 16);
    if (format == Format::bits8 || format == Format::bits16)
      integers.push_back(p.code.record({.kind = NodeKind::shift_right, .stream = upper, .a = value}));
    else
      floats.push_back(value);
  }
  // No constant is 0, because the sign of the minimum or maximum of two zeros is unspecified.
  for (int i = 0; i < 3; i++) floats.push_back(p.code.constant(below(2) ? 1 + below(4) : -1 - below(4)));
  integers.push_back(p.code.integer(below(4096)));
  const auto any = [&](std::vector<int>& from) { return from[below(static_cast<int>(from.size()))]; };
  const auto two = [&](NodeKind kind, int a, int b) { return p.code.record({.kind = kind, .a = a, .b = b}); };
  const auto bounded = [&](int value) {
    const int below_limit = two(NodeKind::least, p.code.constant(64), value);
    return two(NodeKind::greatest, p.code.constant(-64), below_limit);
  };
  masks.push_back(two(NodeKind::compare, any(floats), any(floats)));
  const int operations = below(4) == 0 ? 150 : 1 + below(40);
  for (int i = 0; i < operations; i++) {
    const int a = any(floats), b = any(floats);
    switch (below(17)) {
      case 0: floats.push_back(bounded(two(NodeKind::add, a, b))); break;
      case 1: floats.push_back(bounded(two(NodeKind::subtract, a, b))); break;
      case 2: floats.push_back(bounded(two(NodeKind::multiply, a, b))); break;
      case 3: floats.push_back(bounded(two(NodeKind::add, two(NodeKind::multiply, a, b), any(floats)))); break;
      case 4: floats.push_back(bounded(two(NodeKind::subtract, any(floats), two(NodeKind::multiply, a, b)))); break;
      case 5: floats.push_back(bounded(two(NodeKind::subtract, two(NodeKind::multiply, a, b), any(floats)))); break;
      case 6: floats.push_back(two(below(2) ? NodeKind::least : NodeKind::greatest, a, b)); break;
      case 7: floats.push_back(p.code.record({.kind = NodeKind::round, .stream = below(4), .a = a})); break;
      case 8: {
        static constexpr int how[] = {equal, less, less_or_equal, unordered, not_equal, ordered};
        masks.push_back(p.code.record({.kind = NodeKind::compare, .stream = how[below(6)], .a = a, .b = b}));
        break;
      }
      case 9: floats.push_back(p.code.record({.kind = NodeKind::choose, .a = any(masks), .b = a, .c = b})); break;
      case 10:
        floats.push_back(p.code.record({.kind = NodeKind::choose, .a = any(masks), .b = a, .c = p.code.constant(0)}));
        break;
      case 11: {
        static constexpr NodeKind how[] = {NodeKind::bitwise_and, NodeKind::bitwise_or, NodeKind::bitwise_xor,
                                           NodeKind::and_not};
        masks.push_back(two(how[below(4)], any(masks), any(masks)));
        break;
      }
      case 12: {
        const int sum =
            two(below(2) ? NodeKind::integer_add : NodeKind::integer_subtract, any(integers), any(integers));
        static constexpr NodeKind how[] = {NodeKind::shift_left, NodeKind::shift_right, NodeKind::shift_right_sign};
        const int shifted =
            p.code.record({.kind = how[below(lacks_integers ? 2 : 3)], .stream = 1 + below(3), .a = sum});
        integers.push_back(two(NodeKind::bitwise_and, shifted, p.code.integer(4095)));
        break;
      }
      case 16: {
        const int x = two(NodeKind::integer_subtract, any(integers), any(integers)), y = any(integers);
        static constexpr Comparison how[] = {equal, less, less_or_equal, not_equal};
        masks.push_back(p.code.record({.kind = NodeKind::integer_compare,
                                       .stream = how[below(set == VectorSet::avx2 ? 2 : 4)],
                                       .a = below(2) ? x : y,
                                       .b = below(2) ? x : y}));
        if (lacks_integers) break;
        static constexpr NodeKind kinds[] = {NodeKind::integer_multiply, NodeKind::integer_least,
                                             NodeKind::integer_greatest};
        const bool lacks_extremes = wide && set == VectorSet::neon;
        integers.push_back(
            two(NodeKind::bitwise_and, two(kinds[below(lacks_extremes ? 1 : 3)], x, y), p.code.integer(4095)));
        break;
      }
      case 13: {
        const int half = two(NodeKind::divide, a, p.code.constant(1 + below(5)));
        floats.push_back(p.code.record({.kind = NodeKind::round, .stream = below(4), .a = half}));
        break;
      }
      case 14: {
        const int root =
            p.code.record({.kind = NodeKind::square_root, .a = two(NodeKind::greatest, a, p.code.constant(0))});
        floats.push_back(p.code.record({.kind = NodeKind::round, .stream = below(4), .a = root}));
        break;
      }
      default: {
        if (!lacks_integers) {
          const int turned = p.code.record({.kind = NodeKind::to_integer, .a = a});
          floats.push_back(p.code.record({.kind = NodeKind::to_float, .a = turned}));
        }
        if (!wide && converts_bfloat16(set)) {
          const int narrow = p.code.record({.kind = NodeKind::to_bfloat16, .a = any(floats)});
          floats.push_back(p.code.record({.kind = NodeKind::shift_left, .stream = 16, .a = narrow}));
        }
        if (set == VectorSet::avx512) floats.push_back(bounded(two(NodeKind::scale, a, p.code.constant(below(3)))));
      }
    }
  }
  const int outputs = 1 + below(6);
  for (int s = 0; s < outputs; s++) {
    const int stream = static_cast<int>(p.formats.size());
    const Format format = stored();
    p.formats.push_back(format);
    const bool integer = format == Format::bits16 || format == Format::bits8;
    p.code.record({.kind = NodeKind::store, .format = format, .stream = stream, .a = any(integer ? integers : floats)});
  }
  for (int i = wide ? 0 : below(4); i > 0; i--) p.code.record({.kind = NodeKind::accumulate, .a = any(floats)});
  return p;
}

// Convert one of the small integers used here to float16, exactly.
uint16_t half_of(float x) {
  if (x == 0) return std::signbit(x) ? 0x8000 : 0;
  int exponent;
  const float fraction = std::frexp(std::fabs(x), &exponent);
  return static_cast<uint16_t>((x < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                               (static_cast<int>(fraction * 2048) & 0x3ff));
}

// Return an element as the bits of a lane.
template <class Number>
Bits<Number> read(const Memory& memory, int stream, Format format, int64_t i) {
  const int bytes = bytes_of(format, sizeof(Number));
  Bits<Number> value = 0;
  std::memcpy(&value, memory[stream].data() + i * bytes, bytes);
  const auto as = [](double x) { return std::bit_cast<Bits<Number>>(static_cast<Number>(x)); };
  if (format == Format::float32) return as(std::bit_cast<float>(static_cast<uint32_t>(value)));
  if (format == Format::int32) return as(static_cast<int32_t>(value));
  if (format != Format::float16) return value;
  const double sign = value & 0x8000 ? -1 : 1;
  if ((value & 0x7fff) == 0) return as(sign * 0.);
  return as(sign * std::ldexp(1 + (value & 0x3ff) / 1024., static_cast<int>(value >> 10 & 31) - 15));
}

template <class Number>
void write(Memory& memory, int stream, Format format, int64_t i, Bits<Number> value) {
  const int bytes = bytes_of(format, sizeof(Number));
  const auto number = std::bit_cast<Number>(value);
  if (format == Format::float16) value = half_of(static_cast<float>(number));
  if (format == Format::float32) value = std::bit_cast<uint32_t>(static_cast<float>(number));
  if (format == Format::int32) value = static_cast<uint32_t>(static_cast<int32_t>(number));
  std::memcpy(memory[stream].data() + i * bytes, &value, bytes);
}

// Return the factor that repeats an element throughout a lane.
template <class Number>
Bits<Number> repeated(Format format) {
  const auto ones = static_cast<Bits<Number>>(-1);
  return format == Format::bits16 ? ones / 0xffff : format == Format::bits8 ? ones / 0xff : 1;
}

template <class Number>
Memory random_memory(const Program& p, int64_t n, std::mt19937& random) {
  Memory memory;
  for (size_t s = 0; s < p.formats.size(); s++) {
    memory.emplace_back(static_cast<size_t>(n + 4) * bytes_of(p.formats[s], sizeof(Number)));
    const bool integer = p.formats[s] == Format::bits16 || p.formats[s] == Format::bits8;
    for (int64_t i = 0; i < n + 4; i++) {
      const int value = static_cast<int>(random() % 9) - 4;
      write<Number>(memory, static_cast<int>(s), p.formats[s], i,
                    integer ? static_cast<Bits<Number>>(value + 4) : std::bit_cast<Bits<Number>>(Number(value)));
    }
  }
  return memory;
}

// Run AVX2 code on the last elements through buffers for narrow dtypes, like fused_kernel.cpp does.
void call_of_tail(const Program& p, Function call, std::vector<std::byte*> streams, int64_t begin, int64_t rest,
                  uint64_t tail, float* sums) {
  Memory vectors(streams.size(), std::vector<std::byte>(16));
  std::vector<std::byte*> narrow(streams.size(), nullptr);
  for (size_t s = 0; s < streams.size(); s++) {
    const int64_t size = bytes_of(p.formats[s], p.code.lane_bytes);
    const bool scalar = static_cast<int>(s) >= p.inputs && static_cast<int>(s) < p.inputs + p.scalars;
    if (scalar) continue;
    streams[s] += begin * size;
    if (size == p.code.lane_bytes) continue;
    narrow[s] = std::exchange(streams[s], vectors[s].data());
    std::memcpy(vectors[s].data(), narrow[s], rest * size);
  }
  call(streams.data(), 0, tail, sums);
  for (size_t s = 0; s < streams.size(); s++)
    if (narrow[s]) std::memcpy(narrow[s], vectors[s].data(), rest * bytes_of(p.formats[s], p.code.lane_bytes));
}

template <class Number>
void expect_same(const Program& p, int64_t n, std::mt19937& random) {
  const int64_t lanes = lanes_of(p.code.set, sizeof(Number)), rest = n % lanes;
  const Memory before = random_memory<Number>(p, n, random);
  Memory expected = before, made = before;
  std::vector<double> expected_sums(p.code.accumulators, 0.0);
  for (int64_t i = 0; i < n; i++) {
    std::vector<Bits<Number>> values;
    for (const Node& node : p.code.nodes) {
      Bits<Number> value = 0;
      if (node.kind == NodeKind::load)
        value = read<Number>(before, node.stream, node.format, i);
      else if (node.kind == NodeKind::scalar)
        value = read<Number>(before, node.stream, node.format, 0) * repeated<Number>(node.format);
      else if (node.kind == NodeKind::store)
        write<Number>(expected, node.stream, node.format, i, values[node.a]);
      else if (node.kind == NodeKind::accumulate)
        expected_sums[node.stream] += std::bit_cast<Number>(values[node.a]);
      else
        value = evaluate<Number>(node, values);
      values.push_back(value);
    }
  }
  const auto code = CodeMemory::make(generate(p.code));
  CHECK(code != nullptr);
  std::vector<std::byte*> streams;
  for (auto& one : made) streams.push_back(one.data());
  const uint64_t tail = tail_argument(p.code.set, sizeof(Number), rest);
  float sums[4][16] = {};
  const auto call = code->entry<Function>();
  if (p.code.set == VectorSet::avx2 && rest > 0) {
    call(streams.data(), n - rest, 0, sums[0]);
    call_of_tail(p, call, streams, n - rest, rest, tail, sums[0]);
  } else {
    call(streams.data(), n - rest, tail, sums[0]);
  }
  CHECK(made == expected);  // nothing may be written beyond the last element either
  for (int k = 0; k < p.code.accumulators; k++) {
    double sum = 0;
    for (int lane = 0; lane < lanes; lane++) sum += sums[k][lane];
    CHECK_EQUAL(sum, expected_sums[k]);
  }
}

template <class Number>
void random_programs(VectorSet set) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; round++) {
    const Program p = random_program(set, sizeof(Number), random);
    for (const int64_t n : {0, 1, 2, 3, 7, 8, 15, 16, 17, 40, 67, 70}) expect_same<Number>(p, n, random);
  }
}

}  // namespace

TEST(random_float_programs) {
  for (const VectorSet set : supported_sets()) random_programs<float>(set);
}

TEST(random_double_programs) {
  for (const VectorSet set : supported_sets()) random_programs<double>(set);
}
