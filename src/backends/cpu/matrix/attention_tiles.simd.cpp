// Tiled attention.
// Instruction sets: baseline, avx2, avx512, avx512_bf16.
//
// For avx512_bf16, processors with bfloat16 dot products, MPSGRAPH_BF16_PRODUCTS is defined. Operands are then
// bfloat16, and the attention weights and the score gradients are rounded to bfloat16 before they are multiplied. Sums
// and the softmax are float32.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "backends/cpu/elementwise/vector_steps.h"
#include "backends/cpu/matrix/attention_tiles.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
// Maximum rows of a register block, and vectors of sums per row, which are limited by the number of registers. On Arm,
// the factors of several steps are loaded at once, which takes one register per row.
#if defined(__aarch64__)
constexpr int most_rows = 5, most_vectors = 4;
#else
constexpr int most_rows = 6, most_vectors = vector_registers == 32 ? 4 : 2;
#endif
constexpr int64_t panel_width = most_vectors * W;
// rows and keys per tile
constexpr int64_t forward_rows = 192, forward_keys = 256, backward_rows = 96, backward_keys = 128;
static_assert(forward_keys % panel_width == 0, "panels of packed keys follow one another across tiles");
// Return the distance between rows of scores, in floats. It is an odd number of cache lines, so that the elements of a
// column, which are also read in sequence, do not map to the same cache sets.
constexpr int64_t stride_of_scores(int64_t keys) { return keys + 16; }

V load_first(const float* p, int64_t n) { return n >= W ? load(p) : load(p, n); }

float largest_of(V v) {
  return fold_lanes(v, [](V a, V b) { return greatest(a, b); });
}

constexpr float log2_of_e = 1.44269504f;

// Return the offset to subtract from the scores of a query, in base-2 units. forward() and backward() use the same
// offset, so their attention weights agree no matter how large the scores are.
float base_of(float largest) { return largest == -infinity ? 0.f : largest * log2_of_e; }

// 2^x for x <= 127 with an error of at most 3 ulp, from x = n + r with integral n. For x < -126.5, n is -127 and all
// exponent bits are zero, so the result is zero. NaN and infinity give NaN.
[[gnu::always_inline]] inline V power_of_two(V x) {
  const V c = greatest(splat(-127.f), x);  // greatest returns its second operand for NaN, so NaN is preserved
  const V shifted = c + 12582912.f, r = c - (shifted - 12582912.f);
  V p = r * 0.001326472731307149f + 0.009671512991189957f;
  p = p * r + 0.05550733581185341f;
  p = p * r + 0.24022242426872253f;
  p = p * r + 0.6931470036506653f;
  p = p * r + 1.f;
  return p * as_float((as_int(shifted) + 127) << 23);
}

// ---- factors ----

// A factor is what a matmul multiplies in one step of the inner dimension, stored in the bits of a float: one element,
// or a pair of bfloat16 elements with consecutive inner indices.
#ifdef MPSGRAPH_BF16_PRODUCTS
using Element = BFloat16;
constexpr int64_t elements_per_factor = 2;
V multiply_add(V x, V factor, V sum) {
  return std::bit_cast<V>(
      _mm512_dpbf16_ps(std::bit_cast<__m512>(sum), std::bit_cast<__m512bh>(x), std::bit_cast<__m512bh>(factor)));
}

HalfBits load_halves(const Element* p, int64_t n) { return n >= W ? load_as<HalfBits>(p) : load_as<HalfBits>(p, n); }
// Interleave elements with consecutive inner indices into pairs.
V pairs(HalfBits first, HalfBits second) { return std::bit_cast<V>(widened(first) | widened(second) << 16); }

V load_elements(const Element* p, int64_t n) { return n >= W ? load(p) : load(p, n); }
#else
using Element = float;
constexpr int64_t elements_per_factor = 1;
V multiply_add(V x, V factor, V sum) { return sum + x * factor; }

V load_elements(const float* p, int64_t n) { return load_first(p, n); }
#endif
void store_elements(Element* p, V x, int64_t n) { n >= W ? store(p, x) : store(p, x, n); }
int64_t factors_of(int64_t elements) { return (elements + elements_per_factor - 1) / elements_per_factor; }
const float* factors_at(const Element* row) { return reinterpret_cast<const float*>(row); }

// ---- matmuls ----

// The left matmul operand. The factor of a row and a step (index of the inner dimension) is at of[row * row_stride +
// step * step_stride].
struct Left {
  const float* of;
  int64_t row_stride, step_stride;
};
// The right matmul operand, in panels of panel_width columns. The factor of a step (index of the inner dimension) and a
// column of the panel is at of[panel * panel_stride + step * step_stride + column].
struct Right {
  const float* of;
  int64_t step_stride, panel_stride;
};

#if defined(__aarch64__)
// Add the products of one step, whose factors of the left operand are in a lane of `of_row`.
template <int lane, int rows, int vectors>
[[gnu::always_inline]] inline void add_lane(const V (&of_row)[rows], const float* b, V (&sums)[rows][vectors]) {
  V factors[vectors];
#pragma GCC unroll 16
  for (int v = 0; v < vectors; ++v) factors[v] = load(b + v * W);
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) sums[r][v] = multiply_add_lane<lane>(factors[v], of_row[r], sums[r][v]);
}
#endif

template <int rows, int vectors>
void multiply_block(const Left& a, const float* b, int64_t b_stride, int64_t steps, float* c, int64_t c_stride,
                    bool add) {
  V sums[rows][vectors];
  const float* row[rows];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
    row[r] = a.of + r * a.row_stride;
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) sums[r][v] = add ? load(c + r * c_stride + v * W) : V{};
  }
  int64_t k = 0;
#if defined(__aarch64__)
  if (a.step_stride == 1)
    for (; k + W <= steps; k += W) {
      V of_row[rows];
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) of_row[r] = load(row[r] + k);
      add_lane<0>(of_row, b, sums), b += b_stride;
      add_lane<1>(of_row, b, sums), b += b_stride;
      add_lane<2>(of_row, b, sums), b += b_stride;
      add_lane<3>(of_row, b, sums), b += b_stride;
    }
#endif
  for (int64_t at = k * a.step_stride; k < steps; ++k, b += b_stride, at += a.step_stride) {
    V factors[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) factors[v] = load(b + v * W);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const V x = splat(row[r][at]);
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) sums[r][v] = multiply_add(x, factors[v], sums[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) store(c + r * c_stride + v * W, sums[r][v]);
}

using MultiplyBlock = void (*)(const Left&, const float*, int64_t, int64_t, float*, int64_t, bool);
template <int rows, int... vectors>
MultiplyBlock block_for(int64_t count, std::integer_sequence<int, vectors...>) {
  static constexpr MultiplyBlock blocks[] = {multiply_block<rows, vectors + 1>...};
  return blocks[count - 1];
}
template <int rows = most_rows>
MultiplyBlock block_for(int64_t count, int64_t vectors) {
  if constexpr (rows > 1)
    if (count < rows) return block_for<rows - 1>(count, vectors);
  return block_for<rows>(vectors, std::make_integer_sequence<int, most_vectors>());
}

// Compute c[row, column] = sum over steps of a[row, step] * b[step, column], or add the sum to c if `add` is true.
// Columns are stored in entire vectors.
void multiply(int64_t rows, int64_t columns, int64_t steps, Left a, const Right& b, float* c, int64_t c_stride,
              bool add) {
  for (int64_t first = 0, panel = 0; first < columns; first += panel_width, ++panel) {
    const int64_t vectors = std::min<int64_t>(most_vectors, (columns - first + W - 1) / W);
    for (int64_t row = 0; row < rows; row += most_rows) {
      const int64_t count = std::min<int64_t>(most_rows, rows - row);
      block_for(count, vectors)({a.of + row * a.row_stride, a.row_stride, a.step_stride}, b.of + panel * b.panel_stride,
                                b.step_stride, steps, c + row * c_stride + first, c_stride, add);
    }
  }
}

// Pack `count` rows of n factors as the columns of panels, in the order to[panel][step][column], with zeros after the
// last row.
void pack_transposed(const float* rows, int64_t count, int64_t n, float* to) {
  for (int64_t first = 0; first < count; first += panel_width, to += n * panel_width)
    for (int64_t part = 0; part < panel_width; part += W)
      for (int64_t i = 0; i < n; i += W) {
        const int64_t some = std::min<int64_t>(W, n - i);
        V square[W];
        for (int lane = 0; lane < W; ++lane) {
          const int64_t at = first + part + lane;
          square[lane] = at < count ? load_first(rows + at * n + i, some) : V{};
        }
        transpose(square);
        for (int64_t k = 0; k < some; ++k) store(to + (i + k) * panel_width + part, square[k]);
      }
}
Right packed(const float* of, int64_t n) { return {of, panel_width, n * panel_width}; }

// Use rows of n elements as the left operand, with the inner dimension along the rows.
Left along_rows(const Element* rows, int64_t n) { return {factors_at(rows), n / elements_per_factor, 1}; }

// Use rows of n elements as the right operand, with the rows along the inner dimension. The operand is used in place if
// the rows consist of entire vectors of single-element factors; otherwise, it is a copy padded with zeros.
Right rows_as_steps(const Element* rows, int64_t count, int64_t n, float* copy) {
  const int64_t whole = padded(n, W);
#ifdef MPSGRAPH_BF16_PRODUCTS
  for (int64_t i = 0; i < count; i += 2)
    for (int64_t j = 0; j < n; j += W) {
      const HalfBits second = i + 1 < count ? load_halves(rows + (i + 1) * n + j, n - j) : HalfBits{};
      store(copy + i / 2 * whole + j, pairs(load_halves(rows + i * n + j, n - j), second));
    }
#else
  if (whole == n) return {rows, n, panel_width};
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(copy + i * whole, rows + i * n, static_cast<size_t>(n) * sizeof(float));
    std::fill(copy + i * whole + n, copy + (i + 1) * whole, 0.f);
  }
#endif
  return {copy, whole, panel_width};
}

// Use a tile of floats as the left operand, with the inner dimension along its rows (rows_of) or along its columns
// (columns_of). Rows are `stride` floats apart and consist of entire vectors, with zeros after `columns`. columns_of
// may overwrite the tile. rows_of writes to `copy` if the tile must be converted.
Left rows_of(float* tile, int64_t stride, int64_t rows, int64_t columns, float* copy) {
#ifdef MPSGRAPH_BF16_PRODUCTS
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; j += W)
      store_elements(reinterpret_cast<Element*>(copy + r * stride) + j, load(tile + r * stride + j), W);
  return {copy, stride, 1};
#else
  static_cast<void>(rows), static_cast<void>(columns), static_cast<void>(copy);
  return {tile, stride, 1};
#endif
}
Left columns_of(float* tile, int64_t stride, int64_t rows, int64_t columns) {
#ifdef MPSGRAPH_BF16_PRODUCTS
  for (int64_t r = 0; r < rows; r += 2)
    for (int64_t j = 0; j < columns; j += W) {
      float* at = tile + r * stride + j;
      store(at, pairs(to_bfloat16(load(at)), r + 1 < rows ? to_bfloat16(load(at + stride)) : HalfBits{}));
    }
#else
  static_cast<void>(rows), static_cast<void>(columns);
#endif
  return {tile, 1, elements_per_factor * stride};
}

// ---- scores ----

// Return how many of the `count` keys starting at first_key the query may attend to under the causal mask.
int64_t allowed_keys(const AttentionSizes& s, int64_t query, int64_t first_key, int64_t count) {
  return s.causal ? std::clamp<int64_t>(query + 1 - first_key, 0, count) : count;
}

// Turn a row of products of a query and keys into scores. After this call, score j is row[j] times the returned
// `scale`. The mask has been added, and padding and keys excluded by a causal mask are -infinity. If seeks_largest is
// true, `largest` is the largest score; it may ignore scores that are NaN.
struct RowOfScores {
  float scale, largest;
};

template <bool seeks_largest>
[[gnu::always_inline]] inline RowOfScores make_scores(const AttentionSizes& s, const AttentionMatrices& m,
                                                      int64_t query, int64_t first_key, int64_t count, float* row) {
  const int64_t allowed = allowed_keys(s, query, first_key, count), whole = padded(count, W);
  V largest = splat(-infinity);
  if (!m.mask && s.scale > 0) {
    for (int64_t j = allowed; j < whole; ++j) row[j] = -infinity;
    if (!seeks_largest) return {s.scale, 0};
    for (int64_t j = 0; j < whole; j += W) largest = greatest(load(row + j), largest);
    return {s.scale, largest_of(largest) * s.scale};
  }
  const float* mask = m.mask ? m.mask + query * s.mask_row + first_key * s.mask_column : nullptr;
  const float same = mask && !s.mask_column ? *mask : 0.f;
  int64_t j = 0;
  for (; j + W <= allowed; j += W) {
    V x = load(row + j) * s.scale;
    x += mask && s.mask_column ? load(mask + j) : splat(same);
    store(row + j, x);
  }
  for (; j < allowed; ++j) row[j] = row[j] * s.scale + (mask && s.mask_column ? mask[j] : same);
  for (; j < whole; ++j) row[j] = -infinity;
  if (!seeks_largest) return {1, 0};
  for (j = 0; j < whole; j += W) largest = greatest(load(row + j), largest);
  return {1, largest_of(largest)};
}

// Return whether the mask excludes all keys for this query.
bool is_blind(const AttentionSizes& s, const AttentionMatrices& m, int64_t query) {
  if (!m.mask) return false;
  const float* mask = m.mask + query * s.mask_row;
  for (int64_t j = allowed_keys(s, query, 0, s.keys); j-- > 0;)
    if (mask[j * s.mask_column] != -infinity) return false;
  return true;
}

// Return whether the mask operand allows any of the queries to attend to any of the keys. NaN allows it, too.
bool allows(const AttentionSizes& s, const AttentionMatrices& m, int64_t query, int64_t rows, int64_t key,
            int64_t count) {
  if (!m.mask || !s.mask_column) return true;
  for (int64_t r = 0; r < (s.mask_row ? rows : 1); ++r) {
    const float* mask = m.mask + (query + r) * s.mask_row + key;
    int64_t j = 0;
    for (; j + W <= count; j += W)
      if (any(load(mask + j) != splat(-infinity))) return true;
    for (; j < count; ++j)
      if (mask[j] != -infinity) return true;
  }
  return false;
}

// Keys of a tile: the first one, and their number.
struct Keys {
  int64_t first, count;
};

// Return the keys of a tile without the panels at both ends whose keys the mask operand excludes for all queries, as
// for padding, a window, or a causal mask that is an operand.
Keys allowed_panels(const AttentionSizes& s, const AttentionMatrices& m, int64_t query, int64_t rows, Keys keys) {
  auto [key, count] = keys;
  while (count > 0) {
    const int64_t before = (count - 1) / panel_width * panel_width;
    if (allows(s, m, query, rows, key + before, count - before)) break;
    count = before;
  }
  while (count > 0 && !allows(s, m, query, rows, key, std::min(count, panel_width)))
    key += panel_width, count -= panel_width;
  return {key, std::max<int64_t>(count, 0)};
}

int64_t end_of_keys(const AttentionSizes& s, int64_t last_query) {
  return s.causal ? std::min(s.keys, last_query) : s.keys;
}

// Allocates consecutive parts of a thread's scratch memory. If `memory` is null, the object only counts how many floats
// are needed.
struct Parts {
  float* memory;
  int64_t floats = 0;
  float* take(int64_t count) {
    const int64_t before = std::exchange(floats, floats + padded(count, 16));
    return memory ? memory + before : nullptr;
  }
};

// ---- forward ----

const Element* elements(const void* operand, int64_t at) { return static_cast<const Element*>(operand) + at; }

void pack_keys(const AttentionSizes& s, const void* key, int64_t tile, float* packed_keys) {
  const int64_t first = tile * forward_keys, count = std::min(forward_keys, s.keys - first);
  const int64_t steps = factors_of(s.features);
  pack_transposed(factors_at(elements(key, first * s.features)), count, steps, packed_keys + first * steps);
}

struct ForwardParts {
  static constexpr int64_t scores_stride = stride_of_scores(forward_keys);
  ForwardParts(const AttentionSizes& s, float* memory) {
    Parts parts{memory};
    values = parts.take(forward_keys * padded(s.values, W));
    scores = parts.take(forward_rows * scores_stride);
    sums = parts.take(forward_rows * padded(s.values, W));
    factors = parts.take(forward_keys);
    floats = parts.floats;
  }
  float *values, *scores, *sums, *factors;
  int64_t floats;
};

int64_t forward_scratch(const AttentionSizes& s) { return ForwardParts(s, nullptr).floats; }

void forward(const AttentionSizes& s, const AttentionMatrices& m, const AttentionDraw& draw, int64_t first,
             int64_t rows, float* scratch) {
  const ForwardParts at(s, scratch);
  const int64_t width = padded(s.values, W), stride = ForwardParts::scores_stride, steps = factors_of(s.features);
  float largest[forward_rows], total[forward_rows];
  std::fill_n(largest, rows, -infinity);
  std::fill_n(total, rows, 0.f);
  std::fill_n(at.sums, rows * width, 0.f);
  const int64_t end = end_of_keys(s, first + rows);
  for (int64_t tile = 0; tile < end; tile += forward_keys) {
    const auto [key, count] = allowed_panels(s, m, first, rows, {tile, std::min(forward_keys, end - tile)});
    if (count == 0) continue;
    const int64_t whole = padded(count, W);
    multiply(rows, count, steps, along_rows(elements(m.query, first * s.features), s.features),
             packed(m.packed_keys + key * steps, steps), at.scores, stride, false);
    for (int64_t r = 0; r < rows; ++r) {
      float* row = at.scores + r * stride;
      const RowOfScores scores = make_scores<true>(s, m, first + r, key, count, row);
      const float most = std::max(largest[r], scores.largest), base = base_of(most), factor = scores.scale * log2_of_e;
      V sum{};
      for (int64_t j = 0; j < whole; j += W) {
        const V p = power_of_two(load(row + j) * factor - base);
        store(row + j, p);
        sum += p;
      }
      const float shrink = largest[r] == most ? 1.f : std::exp2(largest[r] * log2_of_e - base);
      total[r] = total[r] * shrink + sum_of(sum);
      largest[r] = most;
      if (shrink != 1.f)
        for (int64_t j = 0; j < width; j += W) store(at.sums + r * width + j, load(at.sums + r * width + j) * shrink);
      if (s.drops) {
        draw.run(draw.state, m.first_row + first + r, key, count, at.factors);
        for (int64_t j = 0; j < count; ++j) row[j] *= at.factors[j];
      }
    }
    multiply(rows, width, factors_of(count), rows_of(at.scores, stride, rows, count, at.scores),
             rows_as_steps(elements(m.value, key * s.values), count, s.values, at.values), at.sums, width, true);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const bool blind = !(total[r] > 0) && is_blind(s, m, first + r);
    const float each = 1.f / total[r];
    Element* out = static_cast<Element*>(m.result) + (first + r) * s.values;
    for (int64_t j = 0; j < s.values; j += W)
      store_elements(out + j, blind ? V{} : load(at.sums + r * width + j) * each, s.values - j);
    if (!m.statistics) continue;
    m.statistics[2 * (first + r)] = blind ? infinity : largest[r];
    m.statistics[2 * (first + r) + 1] = blind ? 1.f : total[r];
  }
}

// ---- backward ----

struct BackwardParts {
  static constexpr int64_t scores_stride = stride_of_scores(backward_keys);
  BackwardParts(const AttentionSizes& s, float* memory) {
    const int64_t features = padded(s.features, W), values = padded(s.values, W);
    Parts parts{memory};
    keys = parts.take(backward_keys * s.features);
    packed_values = parts.take(backward_keys * s.values);
    key_steps = parts.take(backward_keys * features);
    query_steps = parts.take(backward_rows * features);
    incoming_steps = parts.take(backward_rows * values);
    weights = parts.take(backward_rows * scores_stride);
    scores = parts.take(backward_rows * scores_stride);
    if (elements_per_factor > 1) narrowed_scores = parts.take(backward_rows * scores_stride);
    key_sums = parts.take(backward_keys * features);
    value_sums = parts.take(backward_keys * values);
    factors = parts.take(backward_keys);
    floats = parts.floats;
  }
  float *keys, *packed_values, *key_steps, *query_steps, *incoming_steps, *weights, *scores,
      *narrowed_scores = nullptr, *key_sums, *value_sums, *factors;
  int64_t floats;
};

int64_t backward_scratch(const AttentionSizes& s) { return BackwardParts(s, nullptr).floats; }

// Compute the attention weights and the gradient of the scores, in place. On entry, at.weights holds the products of
// queries and keys, and at.scores the gradient of the attention weights.
void differentiate_rows(const AttentionSizes& s, const AttentionMatrices& m, const AttentionDraw& draw, int64_t query,
                        int64_t rows, int64_t key, int64_t count, const BackwardParts& at) {
  const int64_t whole = padded(count, W), stride = BackwardParts::scores_stride;
  for (int64_t r = 0; r < rows; ++r) {
    float *weights = at.weights + r * stride, *scores = at.scores + r * stride;
    const float factor = make_scores<false>(s, m, query + r, key, count, weights).scale * log2_of_e;
    const float* known = m.known_statistics + 2 * (query + r);
    const float base = base_of(known[0]), each = 1.f / known[1], delta = m.delta[query + r];
    if (!s.drops) {
      for (int64_t j = 0; j < whole; j += W) {
        const V p = power_of_two(load(weights + j) * factor - base) * each;
        store(weights + j, p);
        store(scores + j, p * (load(scores + j) - delta) * s.scale);
      }
      continue;
    }
    draw.run(draw.state, m.first_row + query + r, key, count, at.factors);
    std::fill(at.factors + count, at.factors + whole, 0.f);
    for (int64_t j = 0; j < whole; j += W) {
      const V p = power_of_two(load(weights + j) * factor - base) * each, raised = load(at.factors + j);
      store(weights + j, p * raised);
      store(scores + j, p * (load(scores + j) * raised - delta) * s.scale);
    }
  }
}

void store_rows(const float* from, int64_t stride, int64_t rows, int64_t n, Element* to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; j += W) store_elements(to + i * n + j, load(from + i * stride + j), n - j);
}

void backward(const AttentionSizes& s, const AttentionMatrices* batches, int64_t batch_count, const AttentionDraw& draw,
              int64_t first, int64_t last, void* key_gradient, void* value_gradient, float* scratch) {
  const BackwardParts at(s, scratch);
  const int64_t features = padded(s.features, W), values = padded(s.values, W), stride = BackwardParts::scores_stride;
  const int64_t feature_steps = factors_of(s.features), value_steps = factors_of(s.values);
  for (int64_t key = first; key < last; key += backward_keys) {
    const int64_t count = std::min(backward_keys, last - key);
    const Element *keys = elements(batches[0].key, key * s.features), *own = elements(batches[0].value, key * s.values);
    pack_transposed(factors_at(keys), count, feature_steps, at.keys);
    pack_transposed(factors_at(own), count, value_steps, at.packed_values);
    const Right key_steps = rows_as_steps(keys, count, s.features, at.key_steps);
    std::fill_n(at.key_sums, count * features, 0.f);
    std::fill_n(at.value_sums, count * values, 0.f);
    for (const AttentionMatrices* m = batches; m < batches + batch_count; ++m)
      for (int64_t query = s.causal ? key / backward_rows * backward_rows : 0; query < s.queries;
           query += backward_rows) {
        const int64_t rows = std::min(backward_rows, s.queries - query), row_steps = factors_of(rows);
        if (!allows(s, *m, query, rows, key, count)) continue;
        const Element *q = elements(m->query, query * s.features), *incoming = elements(m->incoming, query * s.values);
        multiply(rows, count, feature_steps, along_rows(q, s.features), packed(at.keys, feature_steps), at.weights,
                 stride, false);
        multiply(rows, count, value_steps, along_rows(incoming, s.values), packed(at.packed_values, value_steps),
                 at.scores, stride, false);
        differentiate_rows(s, *m, draw, query, rows, key, count, at);
        multiply(count, values, row_steps, columns_of(at.weights, stride, rows, count),
                 rows_as_steps(incoming, rows, s.values, at.incoming_steps), at.value_sums, values, true);
        multiply(rows, features, factors_of(count), rows_of(at.scores, stride, rows, count, at.narrowed_scores),
                 key_steps, m->query_gradient + query * features, features, true);
        multiply(count, features, row_steps, columns_of(at.scores, stride, rows, count),
                 rows_as_steps(q, rows, s.features, at.query_steps), at.key_sums, features, true);
      }
    store_rows(at.key_sums, features, count, s.features, static_cast<Element*>(key_gradient) + key * s.features);
    store_rows(at.value_sums, values, count, s.values, static_cast<Element*>(value_gradient) + key * s.values);
  }
}

void dots(const void* a, const void* b, int64_t rows, int64_t n, float* out) {
  for (int64_t i = 0; i < rows; ++i) {
    V sum{};
    for (int64_t j = 0; j < n; j += W)
      sum += load_elements(elements(a, i * n + j), n - j) * load_elements(elements(b, i * n + j), n - j);
    out[i] = sum_of(sum);
  }
}

// Sum the rows that the parts accumulated. Rows are `stride` floats apart, and the parts are `apart` floats apart.
void add_parts(const float* sums, int64_t parts, int64_t apart, int64_t stride, int64_t rows, int64_t n, void* to) {
  for (int64_t i = 0; i < rows; ++i, sums += stride)
    for (int64_t j = 0; j < n; j += W) {
      V sum = load(sums + j);
      for (int64_t part = 1; part < parts; ++part) sum += load(sums + part * apart + j);
      store_elements(static_cast<Element*>(to) + i * n + j, sum, n - j);
    }
}

}  // namespace

constinit const AttentionTiles attention_tiles{.lanes = W,
                                               .element_size = sizeof(Element),
                                               .elements_per_factor = elements_per_factor,
                                               .forward_rows = forward_rows,
                                               .forward_keys = forward_keys,
                                               .backward_keys = backward_keys,
                                               .forward_scratch = forward_scratch,
                                               .backward_scratch = backward_scratch,
                                               .pack_keys = pack_keys,
                                               .forward = forward,
                                               .backward = backward,
                                               .dots = dots,
                                               .add_parts = add_parts};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
