// Philox and the random kernel compared with numbers from TensorFlow and the known answers of Random123.
//
// The expected values are in tests/data/philox_vectors.json as hexadecimal bits, and must match exactly.
#include <dlfcn.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/random/box_muller.h"
#include "backends/cpu/random/philox.h"
#include "kernel_harness.h"

using namespace kernels;
using nlohmann::json;

namespace {

const json& vectors() {
  static const json all = json::parse(std::ifstream(MPSGRAPH_TEST_DATA "/philox_vectors.json"));
  return all;
}

uint64_t bits(const json& hex) { return std::stoull(hex.get<std::string>(), nullptr, 16); }
uint64_t number(const json& decimal) { return std::stoull(decimal.get<std::string>()); }

Array state_of(uint64_t key, uint64_t low, uint64_t high) {
  Array state = array(DType::int32, {7});
  Philox(key, low, high).write_state(reinterpret_cast<int32_t*>(state.bytes.data()));
  return state;
}
Philox philox_of(const Array& state) { return Philox(reinterpret_cast<const int32_t*>(state.bytes.data())); }

// Return the bits of element i as an unsigned integer.
uint64_t bits_at(const Array& a, int64_t i) {
  uint64_t result = 0;
  std::memcpy(&result, a.bytes.data() + static_cast<size_t>(i) * size_of(a.dtype), size_of(a.dtype));
  return result;
}

std::vector<Array> draw(const Array& state, double n, Attributes attributes) {
  return run_all("random", {ints({n}), state}, std::move(attributes));
}

void check_bits(const Array& values, const json& expected, const std::string& what) {
  CHECK_EQUAL(values.size(), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < values.size(); ++i) {
    if (bits_at(values, i) != bits(expected[static_cast<size_t>(i)]))
      check::fail(__FILE__, __LINE__, cat(what, "[", i, "]: the bits of ", values[i], " are not those expected"));
  }
}

Attributes distribution(const char* name, DType dtype) {
  return {{"distribution", std::string(name)}, {"dtype", dtype}};
}

}  // namespace

TEST(philox_matches_random123_known_answers) {
  for (const json& v : vectors()["random123"]) {
    const auto word = [&](const char* field, size_t i) { return bits(v[field][i]); };
    const Philox philox(word("key", 0) | word("key", 1) << 32, word("counter", 0) | word("counter", 1) << 32,
                        word("counter", 2) | word("counter", 3) << 32);
    for (size_t i = 0; i < 4; ++i) CHECK_EQUAL(philox.block()[i], word("output", i));
  }
}

TEST(random_numbers_match_tensorflow_by_key_and_counter) {
  for (const json& v : vectors()["by_key_and_counter"]) {
    const Philox philox(number(v["key"]), number(v["counter_low"]), number(v["counter_high"]));
    const Array state = state_of(number(v["key"]), number(v["counter_low"]), number(v["counter_high"]));
    uint32_t words[12];
    philox.generate(words, 3);
    for (size_t i = 0; i < v["u32"].size(); ++i) CHECK_EQUAL(words[i], bits(v["u32"][i]));
    const auto n = static_cast<double>(v["u32"].size());
    check_bits(draw(state, n, distribution("uniform", DType::float32))[0], v["uniform_f32"], "uniform float32");
    check_bits(draw(state, n, distribution("uniform", DType::float16))[0], v["uniform_f16"], "uniform float16");
    check_bits(draw(state, n, distribution("uniform", DType::bfloat16))[0], v["uniform_bf16"], "uniform bfloat16");
    check_bits(draw(state, n, distribution("uniform", DType::float64))[0], v["uniform_f64"], "uniform float64");
    check_bits(draw(state, n, distribution("normal", DType::float32))[0], v["normal_f32"], "normal");
    check_bits(draw(state, n, distribution("truncated_normal", DType::float32))[0], v["truncated_normal_f32"],
               "truncated normal");
    Attributes digits = distribution("uniform", DType::int32);
    digits.set("max_integer", int64_t{10});
    const Array integers = draw(state, n, digits)[0];
    for (int64_t i = 0; i < integers.size(); ++i)
      CHECK_EQUAL(integers[i], v["uniform_i32_0_10"][static_cast<size_t>(i)].get<double>());
  }
}

// Use the new state for the following draws, as TensorFlow's generator does.
TEST(generator_sequences_match_tensorflow) {
  for (const json& v : vectors()["generator_sequences"]) {
    Array state = state_of(0, v["seed"].get<uint64_t>(), 0);
    for (const json& step : v["draws"]) {
      const std::vector<Array> drawn =
          draw(state, 6, distribution(step["distribution"].get<std::string>().c_str(), DType::float32));
      check_bits(drawn[0], step["values"], step["distribution"].get<std::string>());
      state = drawn[1];
      Array expected = state_of(0, step["next_counter"].get<uint64_t>(), 0);
      CHECK(close(state, expected));
    }
  }
}

#ifdef __GLIBC__
// A function of the C library. A compiler's own library may have functions of the same names, which round differently.
float (*c_function(const char* name))(float) {
  static void* const library = dlopen("libm.so.6", RTLD_NOW);
  CHECK(library != nullptr);
  return reinterpret_cast<float (*)(float)>(dlsym(library, name));
}

// Compare with the C library for every uniform number as radius and as angle, and for counts that do not fill a vector.
TEST(normals_are_bitwise_equal_to_c_library) {
  constexpr uint32_t count = 1u << 23, at_once = 1000;
  const auto log = c_function("logf"), sin = c_function("sinf"), cos = c_function("cosf");
#ifdef __x86_64__
  std::vector<Normals> all{baseline::normals};
  if (instruction_set() != "baseline") all.push_back(avx2::normals);
#else
  std::vector<Normals> all{normals()};
#endif
  for (const Normals normals : all) {
    int64_t wrong = 0;
    for (uint32_t first = 0; first < count; first += at_once) {
      const uint32_t n = std::min(at_once, count - first);
      uint32_t words[2 * at_once];
      float found[2 * at_once];
      for (uint32_t i = 0; i < n; ++i) words[2 * i] = words[2 * i + 1] = first + i;
      normals(words, n, found);
      for (uint32_t i = 0; i < n; ++i) {
        const float u = uniform_float(first + i), radius = std::sqrt(-2.0f * log(std::max(u, 1e-7f)));
        const auto angle = static_cast<float>(2 * 3.14159265358979323846 * static_cast<double>(u));
        wrong += found[2 * i] != sin(angle) * radius || found[2 * i + 1] != cos(angle) * radius;
      }
    }
    CHECK_EQUAL(wrong, 0);
  }
}
#endif

TEST(counters_carry_and_states_round_trip) {
  Philox philox(0x123456789abcdef0u, ~uint64_t{0} - 1, 7);
  const Philox::Block third = philox.skipped(2).block();
  CHECK(third == Philox(0x123456789abcdef0u, 0, 8).block());
  uint32_t words[4 * 19];
  philox.generate(words, 19);  // the carry occurs within a vector
  for (int64_t i = 0; i < 19; ++i)
    for (size_t w = 0; w < 4; ++w)
      CHECK_EQUAL(words[4 * i + static_cast<int64_t>(w)], philox.skipped(static_cast<uint64_t>(i)).block()[w]);
  philox.generate(words, 19, 1000);
  for (int64_t i = 0; i < 19; ++i)
    for (size_t w = 0; w < 4; ++w)
      CHECK_EQUAL(words[4 * i + static_cast<int64_t>(w)], philox.skipped(1000 * static_cast<uint64_t>(i)).block()[w]);
  int32_t state[7];
  philox.write_state(state);
  CHECK_EQUAL(state[0], 1);
  CHECK(Philox(state).block() == philox.block());
}

TEST(state_advances_as_requested) {
  const Array state = state_of(5, 100, 9);
  const auto next = [&](double n, Attributes attributes, const char* advance) {
    attributes.set("advance", std::string(advance));
    Array drawn = draw(state, n, attributes)[1];
    const Philox from = philox_of(state);
    for (uint64_t blocks = 0; blocks < 10000; ++blocks)
      if (from.skipped(blocks).block() == philox_of(drawn).block()) return static_cast<int64_t>(blocks);
    return int64_t{-1};
  };
  CHECK_EQUAL(next(6, distribution("uniform", DType::float32), "tensorflow"), 1536);
  CHECK_EQUAL(next(6, distribution("uniform", DType::float32), "blocks"), 2);
  CHECK_EQUAL(next(6, distribution("normal", DType::float64), "blocks"), 3);
  CHECK_EQUAL(next(6, distribution("truncated_normal", DType::float32), "blocks"), 512);
  CHECK_EQUAL(next(0, distribution("uniform", DType::float32), "tensorflow"), 0);
}

// Long draws are split into pieces and between threads; each number must still come from its own block.
TEST(long_draws_equal_short_ones) {
  const Array state = state_of(42, 7, 0);
  for (const char* name : {"uniform", "normal"}) {
    const Array all = draw(state, 100001, distribution(name, DType::float32))[0];
    for (uint64_t block : {0u, 63u, 64u, 12345u, 25000u}) {
      const Philox at = philox_of(state).skipped(block);
      Array there = array(DType::int32, {7});
      at.write_state(reinterpret_cast<int32_t*>(there.bytes.data()));
      const Array some = draw(there, 4, distribution(name, DType::float32))[0];
      for (int64_t i = 0; i < 4 && static_cast<int64_t>(block) * 4 + i < all.size(); ++i)
        CHECK_EQUAL(all[static_cast<int64_t>(block) * 4 + i], some[i]);
    }
  }
}

TEST(ranges_and_scales_are_applied) {
  const Array state = state_of(1, 2, 3);
  for (DType dtype : float_dtypes()) {
    Attributes range = distribution("uniform", dtype);
    const Array plain = draw(state, 1000, range)[0];
    range.set("min", -2.0);
    range.set("max", 6.0);
    const Array scaled = draw(state, 1000, range)[0];
    for (int64_t i = 0; i < 1000; ++i) {
      CHECK(scaled[i] >= -2 && scaled[i] <= 6);
      CHECK(std::abs(scaled[i] - (plain[i] * 8 - 2)) <= 8 * epsilon(dtype));
    }
  }
  Attributes integers = distribution("uniform", DType::int64);
  integers.set("min_integer", int64_t{-3});
  integers.set("max_integer", int64_t{4});
  const Array drawn = draw(state, 1000, integers)[0];
  std::vector<int> seen(7);
  for (int64_t i = 0; i < 1000; ++i) ++seen.at(static_cast<size_t>(drawn[i] + 3));
  for (int count : seen) CHECK(count > 100);
}

TEST(normal_distributions_have_expected_moments) {
  const Array state = state_of(99, 0, 0);
  const auto moments = [&](const char* name, DType dtype, const char* method) {
    Attributes attributes = distribution(name, dtype);
    attributes.set("sampling_method", std::string(method));
    attributes.set("mean", 3.0);
    attributes.set("standard_deviation", 2.0);
    const Array x = draw(state, 20000, attributes)[0];
    double mean = 0, square = 0, largest = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      const double z = (x[i] - 3) / 2;
      mean += z, square += z * z, largest = std::max(largest, std::abs(z));
    }
    return std::array{mean / 20000, square / 20000, largest};
  };
  for (const char* method : {"box_muller", "inverse_cdf"})
    for (DType dtype : float_dtypes()) {
      const auto normal = moments("normal", dtype, method);
      CHECK(std::abs(normal[0]) < 0.03);
      CHECK(std::abs(normal[1] - 1) < 0.03);
      CHECK(normal[2] > 3);
      const auto truncated = moments("truncated_normal", dtype, method);
      CHECK(std::abs(truncated[0]) < 0.03);
      CHECK(std::abs(truncated[1] - 0.774) < 0.03);  // 1 - 4 phi(2) / (Phi(2) - Phi(-2))
      CHECK(truncated[2] <= 2.0 + 4 * epsilon(dtype));
    }
}

TEST(inverse_normal_matches_erfc) {
  for (double z : {-8.0, -3.0, -1.0, -1e-3, 0.0, 0.5, 2.0, 5.0}) {
    const double p = 0.5 * std::erfc(-z / std::sqrt(2.0));
    CHECK(std::abs(inverse_normal(p) - z) < (z > 4 ? 1e-9 : 1e-12));  // above 4, p itself is rounded
  }
}
