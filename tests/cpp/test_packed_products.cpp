// Matmuls with weights packed at a few bits: every candidate that accepts a case, compared with sums in double.
#include "backends/cpu/amx.h"
#include "kernel_harness.h"

using namespace kernels;

namespace {

struct Case {
  int64_t rows, steps, columns, group;
  bool transposed = true;
};

// Return integers with arbitrary bits.
Array words_of(Dims dims) {
  Array a = array(DType::uint32, std::move(dims));
  uint32_t seed = 7;
  for (int64_t i = 0; i < a.size(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    const uint32_t word = seed ^ seed >> 15;
    std::memcpy(a.bytes.data() + i * 4, &word, 4);
  }
  return a;
}

// Return numbers of different sizes, small enough that products of float16 do not overflow.
Array fractions(DType dtype, Dims dims, uint32_t seed) {
  const double unit = dtype == DType::float16 ? 0x1p-6 : 1;
  Array a = array(dtype, std::move(dims));
  for (int64_t i = 0; i < a.size(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    a.set(i, (static_cast<double>(seed >> 8) / (1 << 23) - 1) * (seed >> 20 & 7 ? 1 : 100) * unit);
  }
  return a;
}

uint32_t element(const Array& words, int64_t row, int64_t i, int bits) {
  uint32_t q = 0;
  for (int b = 0; b < bits; ++b) {
    const int64_t bit = i * bits + b;
    uint32_t word;
    std::memcpy(&word, words.bytes.data() + (row * words.dims[1] + bit / 32) * 4, 4);
    q |= (word >> (bit % 32) & 1u) << b;
  }
  return q;
}

void check_case(const Case& c, int bits, DType dtype, DType scale_dtype) {
  const int64_t rows = c.transposed ? c.columns : c.steps, width = c.transposed ? c.steps : c.columns;
  const Array x = fractions(dtype, {c.rows, c.steps}, 1), words = words_of({rows, width * bits / 32});
  const Array scale = fractions(scale_dtype, {rows, width / c.group}, 2),
              bias = fractions(scale_dtype, {rows, width / c.group}, 3), added = fractions(dtype, {c.columns}, 4);
  const auto weight = [&](int64_t row, int64_t i) {
    const int64_t group = row * scale.dims[1] + i / c.group;
    return element(words, row, i, bits) * scale[group] + bias[group];
  };
  std::vector<double> exact, most;
  for (int64_t m = 0; m < c.rows; ++m)
    for (int64_t n = 0; n < c.columns; ++n) {
      double sum = added[n], all = std::abs(sum);
      for (int64_t k = 0; k < c.steps; ++k) {
        const double product = x[m * c.steps + k] * (c.transposed ? weight(n, k) : weight(k, n));
        sum += product, all += std::abs(product);
      }
      exact.push_back(sum), most.push_back(all);
    }
  Graph graph;
  std::vector<Tensor*> tensors;
  const std::vector<Array> inputs{x, words, scale, bias, added};
  for (const Array& a : inputs)
    tensors.push_back(graph.add("constant", {}, {{"value", ConstantData::copy(a.dtype, a.dims, a.bytes.data())}}));
  const Operation* operation =
      graph.create("quantized_matrix_multiplication", tensors,
                   {{"bits", static_cast<int64_t>(bits)}, {"transpose_b", c.transposed}, {"has_bias", true}});
  // Rounding errors of sums in float32 grow with the square root of the number of terms. bfloat16_blocks rounds the
  // weights to bfloat16.
  const double sums = 2e-6 * std::max(1.0, std::sqrt(static_cast<double>(c.steps) / 512));
  const double tolerance = dtype == DType::float32 ? sums : dtype == DType::float16 ? 1e-3 : 1.2e-2;
  int accepted = 0;
  for (const Candidate& candidate : candidates_of("quantized_matrix_multiplication")) {
    HarnessLowering lowering(*operation, false);
    Offer offer = candidate.offer(lowering);
    if (!offer) continue;
    ++accepted;
    const Array y = run_kernel(*offer.take(), lowering, inputs)[0];
    bool agrees = true;
    for (int64_t i = 0; i < y.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      agrees = agrees && std::abs(y[i] - exact[at]) <= tolerance * most[at];
    }
    if (!agrees)
      check::fail(__FILE__, __LINE__,
                  cat(candidate.name, " agrees for ", bits, " bits, ", dtype, ", ", c.rows, " rows of ", c.steps,
                      " by ", c.columns, ", groups of ", c.group));
  }
  CHECK(accepted >= 2);
}

}  // namespace

TEST(products_with_packed_weights_agree_in_all_candidates) {
  for (const int bits : {2, 3, 4, 5, 6, 8})
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16})
      for (const Case& c : {Case{1, 128, 37, 64}, Case{1, 96, 5, 32}, Case{2, 384, 33, 128}, Case{3, 160, 6, 32},
                            Case{5, 256, 70, 64}, Case{16, 128, 64, 32}, Case{7, 192, 16, 96}, Case{9, 384, 40, 64},
                            Case{11, 160, 37, 32}, Case{13, 640, 20, 128}})
        check_case(c, bits, dtype, dtype);
}

TEST(products_of_many_rows_with_packed_weights_agree_in_all_candidates) {
  for (const int bits : {3, 4, 8})
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
      for (const Case& c : {Case{17, 288, 41, 32}, Case{70, 640, 130, 64}, Case{33, 128, 200, 128}})
        check_case(c, bits, dtype, DType::float16);
      check_case({40, 72, 96, 32, false}, bits, dtype, DType::float32);
    }
}

TEST(products_in_amx_registers_agree_with_other_candidates) {
  if (!has_amx()) return;
  for (const int bits : {4, 8})
    for (const int64_t group : {32, 64, 128}) check_case({9, 2048, 2056, group}, bits, DType::float32, DType::bfloat16);
}
