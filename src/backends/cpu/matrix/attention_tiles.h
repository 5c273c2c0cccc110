// Attention in tiles of queries by keys, so that the scores are never all in memory: the arithmetic of one item of
// work, for each vector set. Dao et al., "FlashAttention", arXiv:2205.14135, arXiv:2307.08691.
//
// Forward, an item is some queries of one batch and head. They meet the keys tile by tile; each query keeps the largest
// score so far, the sum of exponentials of the scores less that, and the values weighed by these. Backward, an item is
// some keys of one batch and head. Weights come again from the scores and each query's largest score and sum; with D
// the sum of dO O over a query's row, dS = P (dP - D).
//
// Operands are row-major and float32, or bfloat16 where there are tiles for it; all else is float32. Who shares out
// items, and what tensors are, is in attention.cpp.
#pragma once

#include <cstdint>
#include <utility>

namespace mpsgraph::cpu {

// What all items of one operation have in common.
struct AttentionSizes {
  int64_t queries = 0, keys = 0, features = 0, values = 0;  // n, m, e, f: values is the length of a value
  float scale = 1;
  bool causal = false;
  int64_t mask_row = 0, mask_column = 0;  // strides; 0 where the mask is broadcast
  bool drops = false;  // weights: then draw() gives the factor of each
};

// One batch and head. Pointers stand at its first row; null where there is none. What is void has the tiles' elements.
struct AttentionMatrices {
  const void *query = nullptr, *key = nullptr, *value = nullptr;
  const float* mask = nullptr;
  const float* packed_keys = nullptr;  // read forward
  void* result = nullptr;  // written forward, and
  float* statistics = nullptr;  // of each query the largest score and the sum
  const void* incoming = nullptr;  // read backward
  const float *known_statistics = nullptr, *delta = nullptr;  // likewise; delta is D
  float* query_gradient = nullptr;  // added to backward: rows of padded(features)
  int64_t first_row = 0;  // of its scores among those of all: what draw() counts
};

// What weights are multiplied by: factors[j] for the weight of key first_key + j and a row of the scores.
struct AttentionDraw {
  void (*run)(const void* state, int64_t row, int64_t first_key, int64_t count, float* factors) = nullptr;
  const void* state = nullptr;
};

struct AttentionTiles {
  int64_t lanes = 0;  // of a vector: rows that are added to have a multiple of it
  int64_t element_size = 0, elements_per_factor = 0;  // features and values are multiples of the latter
  int64_t forward_rows = 0, forward_keys = 0, backward_keys = 0;  // of tiles
  int64_t (*forward_scratch)(const AttentionSizes&) = nullptr;  // floats for a thread
  int64_t (*backward_scratch)(const AttentionSizes&) = nullptr;
  // A tile of forward_keys rows of keys as forward() takes them; packed_keys has rows of a multiple of tiles, each of
  // features / elements_per_factor floats.
  void (*pack_keys)(const AttentionSizes&, const void* key, int64_t tile, float* packed_keys) = nullptr;
  // The queries [first, first + count), count <= forward_rows.
  void (*forward)(const AttentionSizes&, const AttentionMatrices&, const AttentionDraw&, int64_t first, int64_t count,
                  float* scratch) = nullptr;
  // The keys [first, last) with all queries of `count` batches that share them; key_gradient and value_gradient stand
  // at row 0 and are written, query_gradient is added to.
  void (*backward)(const AttentionSizes&, const AttentionMatrices* batches, int64_t count, const AttentionDraw&,
                   int64_t first, int64_t last, void* key_gradient, void* value_gradient, float* scratch) = nullptr;
  // out[i] = sum over j of a[i, j] b[i, j], rows of n.
  void (*dots)(const void* a, const void* b, int64_t rows, int64_t n, float* out) = nullptr;
  // to[i, j] = sum over parts of sums[part * apart + i * stride + j], rows of n.
  void (*add_parts)(const float* sums, int64_t parts, int64_t apart, int64_t stride, int64_t rows, int64_t n,
                    void* to) = nullptr;
};

inline int64_t padded(int64_t n, int64_t lanes) { return (n + lanes - 1) / lanes * lanes; }

const AttentionTiles& attention_tiles();  // of the best instruction set here
const AttentionTiles* attention_tiles_of_bfloat16();  // null where the processor has no products of it

namespace baseline {
extern const AttentionTiles attention_tiles;
}
namespace avx2 {
extern const AttentionTiles attention_tiles;
}
namespace avx512 {
extern const AttentionTiles attention_tiles;
}
namespace avx512_bf16 {
extern const AttentionTiles attention_tiles;
}

}  // namespace mpsgraph::cpu
