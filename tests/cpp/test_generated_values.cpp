// Generated vector code on values that random programs avoid: NaN, infinities, signed zeros, ties, every float16, and
// integers near their limits. Also streaming stores, many accumulators, and registers that a function must preserve.
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "generated_code.h"
#include "mpsgraph/core/types.h"

using namespace mpsgraph;
using namespace generated;

namespace {

constexpr int multiple = 16;  // the length of arrays is a multiple of every vector's lanes

template <class Number>
using Bits = std::conditional_t<sizeof(Number) == 8, uint64_t, uint32_t>;

template <class Number>
std::vector<Number> special_values() {
  using Limits = std::numeric_limits<Number>;
  return {Number(0.),
          -Number(0.),
          1,
          -1,
          Number(1.5),
          -2,
          Limits::infinity(),
          -Limits::infinity(),
          Limits::quiet_NaN(),
          Limits::max(),
          Limits::lowest(),
          Limits::min()};
}

template <class Number>
bool same(Number a, Number b) {
  return (a != a && b != b) || std::bit_cast<Bits<Number>>(a) == std::bit_cast<Bits<Number>>(b);
}

// All pairs of special values, repeated to a multiple of the lanes.
template <class Number>
struct Pairs {
  std::vector<Number> x, y, result;
  Pairs() {
    for (const Number a : special_values<Number>())
      for (const Number b : special_values<Number>()) x.push_back(a), y.push_back(b);
    while (x.size() % multiple) x.push_back(1), y.push_back(2);
    result.resize(x.size());
  }
};

// Check a program over pairs of special values. `record` returns the node of the result for the nodes of x and y.
template <class Number, class Record, class Expected>
void check_pairs(const char* what, Record record, Expected expected) {
  for (const VectorSet set : supported_sets()) {
    Pairs<Number> pairs;
    VectorCode code(set, sizeof(Number));
    const int x = code.record({.kind = NodeKind::load, .stream = 0}),
              y = code.record({.kind = NodeKind::load, .stream = 1});
    code.record({.kind = NodeKind::store, .stream = 2, .a = record(code, x, y)});
    run(code, {pairs.x.data(), pairs.y.data(), pairs.result.data()}, static_cast<int64_t>(pairs.x.size()));
    for (size_t i = 0; i < pairs.x.size(); i++)
      if (const Number e = expected(pairs.x[i], pairs.y[i]); !same(pairs.result[i], e))
        check::fail(__FILE__, __LINE__,
                    std::string(what) + " of " + check::shown(pairs.x[i]) + " and " + check::shown(pairs.y[i]) +
                        " is " + check::shown(pairs.result[i]) + " instead of " + check::shown(e));
  }
}

template <class Number>
bool holds(int how, Number x, Number y) {
  switch (how) {
    case equal: return x == y;
    case less: return x < y;
    case less_or_equal: return x <= y;
    case unordered: return x != x || y != y;
    case not_equal: return x != y;
    default: return x == x && y == y;
  }
}

constexpr int comparisons[] = {equal, less, less_or_equal, unordered, not_equal, ordered};

template <class Number>
void check_comparisons() {
  const auto choice = [](VectorCode& code, int how, int a, int b) {
    const int mask = code.record({.kind = NodeKind::compare, .stream = how, .a = a, .b = b});
    return code.record({.kind = NodeKind::choose, .a = mask, .b = code.constant(3), .c = code.constant(4)});
  };
  const auto result = [](bool condition) { return Number(condition ? 3 : 4); };
  for (const int how : comparisons) {
    check_pairs<Number>(
        "comparison", [&](VectorCode& code, int x, int y) { return choice(code, how, x, y); },
        [&](Number x, Number y) { return result(holds(how, x, y)); });
    check_pairs<Number>(
        "comparison with zero", [&](VectorCode& code, int x, int) { return choice(code, how, x, code.constant(0)); },
        [&](Number x, Number) { return result(holds(how, x, Number(0))); });
    check_pairs<Number>(
        "comparison of zero", [&](VectorCode& code, int x, int) { return choice(code, how, code.constant(0), x); },
        [&](Number x, Number) { return result(holds(how, Number(0), x)); });
    check_pairs<Number>(
        "comparison with itself", [&](VectorCode& code, int x, int) { return choice(code, how, x, x); },
        [&](Number x, Number) { return result(holds(how, x, x)); });
    // The mask is used as a number, too, so the comparison cannot be inverted.
    check_pairs<Number>(
        "mask",
        [&](VectorCode& code, int x, int y) {
          const int mask = code.record({.kind = NodeKind::compare, .stream = how, .a = x, .b = y});
          const int chosen = code.record({.kind = NodeKind::choose, .a = mask, .b = x, .c = code.constant(0)});
          const int one = code.record({.kind = NodeKind::bitwise_and, .a = mask, .b = code.constant(1)});
          const int other = code.record({.kind = NodeKind::choose, .a = mask, .b = code.constant(0), .c = one});
          return code.record({.kind = NodeKind::choose, .a = mask, .b = chosen, .c = other});
        },
        [&](Number x, Number y) { return holds(how, x, y) ? x : Number(0); });
  }
}

template <class Number>
void check_extremes() {
  const auto node = [](NodeKind kind) {
    return [kind](VectorCode& code, int x, int y) { return code.record({.kind = kind, .a = x, .b = y}); };
  };
  const auto least = [](Number x, Number y) { return x < y ? x : y; };
  const auto greatest = [](Number x, Number y) { return x > y ? x : y; };
  check_pairs<Number>("least", node(NodeKind::least), least);
  check_pairs<Number>("greatest", node(NodeKind::greatest), greatest);
  for (const double limit : {-1., 1.5}) {
    const auto first = [&](NodeKind kind) {
      return
          [=](VectorCode& code, int x, int) { return code.record({.kind = kind, .a = code.constant(limit), .b = x}); };
    };
    const auto second = [&](NodeKind kind) {
      return
          [=](VectorCode& code, int x, int) { return code.record({.kind = kind, .a = x, .b = code.constant(limit)}); };
    };
    const auto c = static_cast<Number>(limit);
    check_pairs<Number>("least of a constant", first(NodeKind::least), [&](Number x, Number) { return least(c, x); });
    check_pairs<Number>("least with a constant", second(NodeKind::least),
                        [&](Number x, Number) { return least(x, c); });
    check_pairs<Number>("greatest of a constant", first(NodeKind::greatest),
                        [&](Number x, Number) { return greatest(c, x); });
    check_pairs<Number>("greatest with a constant", second(NodeKind::greatest),
                        [&](Number x, Number) { return greatest(x, c); });
  }
}

// Minimum and maximum as the recorder composes them, of two values, and of a value and a constant. NEON has
// instructions for some of them.
template <class Number>
void check_composed_extremes() {
  const auto extreme = [](NodeKind kind, Number x, Number y) {
    return (kind == NodeKind::least ? x < y : x > y) ? x : y;
  };
  const std::vector<Number> constants = {std::numeric_limits<Number>::quiet_NaN(), 0, -Number(0.), 6};
  for (const NodeKind kind : {NodeKind::least, NodeKind::greatest})
    for (const bool propagates : {false, true})
      for (const Number constant : constants) {  // NaN: none
        const bool binary = constant != constant;
        check_pairs<Number>(
            propagates ? "minimum or maximum with NaN" : "minimum or maximum without NaN",
            [&](VectorCode& code, int x, int y) {
              const auto is_nan = [&](int a) {
                return code.record({.kind = NodeKind::compare, .stream = unordered, .a = a, .b = a});
              };
              const auto choose = [&](int mask, int a, int b) {
                return code.record({.kind = NodeKind::choose, .a = mask, .b = a, .c = b});
              };
              if (!binary) y = code.constant(constant);
              const int found = code.record({.kind = kind, .a = x, .b = y});
              return propagates ? choose(is_nan(x), x, found) : choose(is_nan(x), y, choose(is_nan(y), x, found));
            },
            [&](Number x, Number y) {
              if (!binary) y = constant;
              if (x != x) return propagates ? x : y;
              return y != y && !propagates ? x : extreme(kind, x, y);
            });
        if (binary || propagates) continue;
        check_pairs<Number>(
            "minimum or maximum of a constant",
            [&](VectorCode& code, int x, int) {
              return code.record({.kind = kind, .a = code.constant(constant), .b = x});
            },
            [&](Number x, Number) { return extreme(kind, constant, x); });
      }
}

template <class Number>
void check_rounding() {
  std::vector<Number> values = special_values<Number>();
  for (const double x : {0.5, 1.5, 2.5, 3.5, 0.49999997, 0.75, 1e6 + 0.5, 8388607.5, 4503599627370495.5, 1e30})
    values.push_back(static_cast<Number>(x)), values.push_back(static_cast<Number>(-x));
  while (values.size() % multiple) values.push_back(0.25);
  for (const VectorSet set : supported_sets())
    for (int mode = 0; mode < 4; mode++) {
      VectorCode code(set, sizeof(Number));
      const int x = code.record({.kind = NodeKind::load, .stream = 0});
      code.record(
          {.kind = NodeKind::store, .stream = 1, .a = code.record({.kind = NodeKind::round, .stream = mode, .a = x})});
      std::vector<Number> result(values.size());
      run(code, {values.data(), result.data()}, static_cast<int64_t>(values.size()));
      for (size_t i = 0; i < values.size(); i++) {
        const Number v = values[i];
        const Number expected = mode == 0   ? std::nearbyint(v)
                                : mode == 1 ? std::floor(v)
                                : mode == 2 ? std::ceil(v)
                                            : std::trunc(v);
        CHECK(same(result[i], expected));
      }
    }
}

// Return 32-bit patterns of all kinds of floats.
std::vector<uint32_t> float_patterns() {
  std::mt19937 random(5);
  std::vector<uint32_t> patterns;
  for (uint32_t exponent = 0; exponent < 256; exponent++)
    for (int i = 0; i < 64; i++) {
      const uint32_t mantissa = i == 0 ? 0 : i < 24 ? 1u << (i - 1) : i < 40 ? 0x7fffffu << (i - 24) : random();
      patterns.push_back((static_cast<uint32_t>(random()) & 0x80000000) | exponent << 23 | (mantissa & 0x7fffff));
    }
  return patterns;
}

}  // namespace

TEST(comparisons_and_choices_of_special_values) {
  check_comparisons<float>();
  check_comparisons<double>();
}

TEST(minima_and_maxima_of_special_values) {
  check_extremes<float>();
  check_extremes<double>();
  check_composed_extremes<float>();
  check_composed_extremes<double>();
}

TEST(all_rounding_modes) {
  check_rounding<float>();
  check_rounding<double>();
}

TEST(every_float16_is_widened_exactly) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); i++) halves[i] = static_cast<uint16_t>(i);
  for (const VectorSet set : supported_sets()) {
    VectorCode code(set);
    const int x = code.record({.kind = NodeKind::load, .format = Format::float16, .stream = 0});
    code.record({.kind = NodeKind::store, .stream = 1, .a = x});
    std::vector<float> floats(halves.size());
    run(code, {halves.data(), floats.data()}, static_cast<int64_t>(halves.size()));
    for (size_t i = 0; i < halves.size(); i++) CHECK(same(floats[i], half_to_float(halves[i])));
  }
}

TEST(floats_are_rounded_to_half_precision) {
  const std::vector<uint32_t> patterns = float_patterns();
  for (const VectorSet set : supported_sets()) {
    VectorCode code(set);
    const int x = code.record({.kind = NodeKind::load, .stream = 0});
    code.record({.kind = NodeKind::store, .format = Format::float16, .stream = 1, .a = x});
    const bool converts = converts_bfloat16(set);
    if (converts) {
      const int narrow = code.record({.kind = NodeKind::to_bfloat16, .a = x});
      code.record({.kind = NodeKind::store, .format = Format::bits16, .stream = 2, .a = narrow});
    }
    std::vector<uint32_t> source = patterns;
    std::vector<uint16_t> halves(source.size()), bfloats(source.size());
    run(code, {source.data(), halves.data(), bfloats.data()}, static_cast<int64_t>(source.size()));
    for (size_t i = 0; i < source.size(); i++) {
      const auto value = std::bit_cast<float>(source[i]);
      CHECK(same(half_to_float(halves[i]), half_to_float(float_to_half(value))));
      const bool denormal = set != VectorSet::neon && std::fpclassify(value) == FP_SUBNORMAL;
      const float expected = denormal ? std::copysign(0.f, value) : bfloat16_to_float(float_to_bfloat16(value));
      if (converts) CHECK(same(bfloat16_to_float(bfloats[i]), expected));
    }
  }
}

TEST(products_and_conversions_of_large_int64) {
  std::mt19937_64 random(3);
  std::vector<int64_t> x(64), y(64), product(64);
  std::vector<double> floats(64), whole(64);
  std::vector<int64_t> back(64);
  for (size_t i = 0; i < x.size(); i++) {
    x[i] = static_cast<int64_t>(random()), y[i] = static_cast<int64_t>(random());
    floats[i] = static_cast<double>(static_cast<int64_t>(random())) / 3;
  }
  x[0] = std::numeric_limits<int64_t>::min(), x[1] = std::numeric_limits<int64_t>::max(), x[2] = -1;
  for (const VectorSet set : supported_sets()) {
    if (set == VectorSet::avx2) continue;
    VectorCode code(set, 8);
    const auto load = [&](int stream) { return code.record({.kind = NodeKind::load, .stream = stream}); };
    const auto store = [&](int stream, Node node) {
      code.record({.kind = NodeKind::store, .stream = stream, .a = code.record(node)});
    };
    const int a = load(0), b = load(1), f = load(2);
    store(3, {.kind = NodeKind::integer_multiply, .a = a, .b = b});
    store(4, {.kind = NodeKind::to_float, .a = a});
    store(5, {.kind = NodeKind::to_integer, .a = f});
    run(code, {x.data(), y.data(), floats.data(), product.data(), whole.data(), back.data()}, 63);
    for (size_t i = 0; i < 63; i++) {
      CHECK_EQUAL(static_cast<uint64_t>(product[i]), static_cast<uint64_t>(x[i]) * static_cast<uint64_t>(y[i]));
      CHECK_EQUAL(whole[i], static_cast<double>(x[i]));
      CHECK_EQUAL(back[i], static_cast<int64_t>(floats[i]));
    }
    CHECK(product[63] == 0 && whole[63] == 0 && back[63] == 0);
  }
}

TEST(shifts_by_every_count) {
  std::vector<uint32_t> x(16), left(16), right(16);
  std::vector<int32_t> sign(16);
  for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<uint32_t>(0x9e3779b97f4a7c15u * (i + 1) >> 32);
  for (const VectorSet set : supported_sets())
    for (int count = 1; count < 32; count++) {
      VectorCode code(set);
      const int a = code.record({.kind = NodeKind::load, .stream = 0});
      int stream = 1;
      for (const NodeKind kind : {NodeKind::shift_left, NodeKind::shift_right, NodeKind::shift_right_sign})
        code.record(
            {.kind = NodeKind::store, .stream = stream++, .a = code.record({.kind = kind, .stream = count, .a = a})});
      run(code, {x.data(), left.data(), right.data(), sign.data()}, 16);
      for (size_t i = 0; i < x.size(); i++) {
        CHECK_EQUAL(left[i], x[i] << count);
        CHECK_EQUAL(right[i], x[i] >> count);
        CHECK_EQUAL(sign[i], static_cast<int32_t>(x[i]) >> count);
      }
    }
}

TEST(streaming_stores_write_all_elements) {
  alignas(64) static float from[160], to[160];
  for (const VectorSet set : supported_sets())
    for (const int64_t n : {0, 3, 16, 31, 64, 130}) {
      for (int i = 0; i < 160; i++) from[i] = static_cast<float>(i), to[i] = -1;
      VectorCode code(set);
      const int x = code.record({.kind = NodeKind::load, .stream = 0});
      const int doubled = code.record({.kind = NodeKind::add, .a = x, .b = x});
      code.record({.kind = NodeKind::store, .streaming = 1, .stream = 1, .a = doubled});
      run(code, {from, to}, n);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      for (int i = 0; i < 160; i++) CHECK_EQUAL(to[i], i < n ? 2.f * static_cast<float>(i) : -1.f);
    }
}

TEST(eight_accumulators_sum_vectors_and_tails) {
  std::vector<float> x(150);
  for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i % 7);
  for (const VectorSet set : supported_sets())
    for (const int64_t n : {1, 2, 3, 64, 149}) {
      VectorCode code(set);
      const int value = code.record({.kind = NodeKind::load, .stream = 0});
      for (int k = 0; k < 8; k++)  // the upper lanes of a tail's vectors are not 0
        code.record({.kind = NodeKind::accumulate,
                     .a = code.record({.kind = NodeKind::add, .a = value, .b = code.constant(k + 1)})});
      alignas(64) float sums[8][16] = {};
      sums[3][0] = 100;
      run(code, {x.data()}, n, sums[0]);
      double expected = 0;
      for (int64_t i = 0; i < n; i++) expected += x[static_cast<size_t>(i)];
      for (int k = 0; k < 8; k++) {
        double sum = 0;
        for (int lane = 0; lane < lanes_of(set); lane++) sum += sums[k][lane];
        CHECK_EQUAL(sum, expected + static_cast<double>(n) * (k + 1) + (k == 3 ? 100 : 0));
      }
    }
}

// Return a program that holds many values at once.
VectorCode wide_program(VectorSet set, int values) {
  VectorCode code(set);
  const int x = code.record({.kind = NodeKind::load, .stream = 0});
  std::vector<int> held;
  for (int i = 0; i < values; i++)
    held.push_back(code.record(
        {.kind = NodeKind::square_root, .a = code.record({.kind = NodeKind::add, .a = x, .b = code.constant(i * i)})}));
  int sum = held.back();
  for (int i = values - 1; i-- > 0;)
    sum = code.record({.kind = NodeKind::add, .a = sum, .b = held[static_cast<size_t>(i)]});
  code.record({.kind = NodeKind::store, .stream = 1, .a = sum});
  return code;
}

TEST(values_beyond_the_registers_are_spilled) {
  std::vector<float> x(21), y(21);
  for (const VectorSet set : supported_sets())
    for (const int values : {20, 40, 90}) {
      run(wide_program(set, values), {x.data(), y.data()}, 21);
      for (const float one : y) CHECK_EQUAL(one, static_cast<float>(values * (values - 1) / 2));
    }
}

TEST(neon_code_with_too_many_constants_is_empty) {
  VectorCode code(VectorSet::neon);
  int sum = code.record({.kind = NodeKind::load, .stream = 0});
  for (int i = 0; i < 5000; i++)
    sum = code.record({.kind = NodeKind::multiply, .a = sum, .b = code.constant(1.1 + i / 4096.)});
  code.record({.kind = NodeKind::store, .stream = 1, .a = sum});
  CHECK(generate(code).empty());
  CHECK(CodeMemory::make({}) == nullptr);
}

#if defined(__aarch64__)
TEST(neon_code_preserves_registers) {
  const auto memory = CodeMemory::make(generate(wide_program(VectorSet::neon, 60)));
  float x[8] = {}, y[8];
  std::byte* streams[] = {reinterpret_cast<std::byte*>(x), reinterpret_cast<std::byte*>(y)};
  double before[8], after[8];
  for (int i = 0; i < 8; i++) before[i] = i + 0.5;
  register std::byte** r0 asm("x0") = streams;
  register int64_t r1 asm("x1") = 4;
  register uint64_t r2 asm("x2") = 3;
  register float* r3 asm("x3") = nullptr;
  uint64_t stack_before, stack_after;
  asm volatile(
      "ldp d8, d9, [%[before]]\n ldp d10, d11, [%[before], #16]\n ldp d12, d13, [%[before], #32]\n"
      "ldp d14, d15, [%[before], #48]\n mov %[stack_before], sp\n blr %[code]\n mov %[stack_after], sp\n"
      "stp d8, d9, [%[after]]\n stp d10, d11, [%[after], #16]\n stp d12, d13, [%[after], #32]\n"
      "stp d14, d15, [%[after], #48]\n"
      : "+r"(r0), "+r"(r1), "+r"(r2), "+r"(r3), [stack_before] "=&r"(stack_before), [stack_after] "=&r"(stack_after)
      : [before] "r"(before), [after] "r"(after), [code] "r"(memory->entry<Function>())
      : "memory", "cc", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
        "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
  for (int i = 0; i < 8; i++) CHECK_EQUAL(after[i], before[i]);
  CHECK_EQUAL(stack_after, stack_before);
  for (int i = 0; i < 7; i++) CHECK_EQUAL(y[i], 1770.f);
}
#endif
