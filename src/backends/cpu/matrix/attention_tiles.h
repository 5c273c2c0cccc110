// Tiled attention, which never holds all scores in memory: the arithmetic of one work item, compiled for each
// instruction set. Dao et al., "FlashAttention", arXiv:2205.14135, arXiv:2307.08691.
//
// In the forward pass, an item is a block of queries of one batch and head. The keys are processed tile by tile. For
// each query, the kernel keeps the largest score so far, the sum of exp(score - largest), and the values weighted by
// these exponentials.
//
// In the backward pass, an item is a block of keys of one batch and head. The weights are recomputed from the scores
// and from each query's largest score and sum. With D the sum of dO * O over a query's row, dS = P (dP - D).
//
// Operands are row-major float32, or bfloat16 where there are tiles for it; everything else is float32. attention.cpp
// distributes the items and maps tensors to matrices.
#pragma once

#include <cstdint>
#include <utility>

namespace mpsgraph::cpu {

// Sizes and options shared by all items of one attention operation.
struct AttentionSizes {
  int64_t queries = 0, keys = 0, features = 0, values = 0;  // n, m, e, f; `values` is the length of a value row
  float scale = 1;
  bool causal = false;
  int64_t mask_row = 0, mask_column = 0;  // strides; 0 along broadcast axes
  bool drops = false;  // apply dropout with the factors from draw()
};

// The matrices of one batch and head. Pointers refer to the first row and are null if absent; void pointers refer to
// elements of the tiles' type.
struct AttentionMatrices {
  const void *query = nullptr, *key = nullptr, *value = nullptr;
  const float* mask = nullptr;
  const float* packed_keys = nullptr;  // forward input
  void* result = nullptr;  // forward outputs:
  float* statistics = nullptr;  // the largest score and the sum of each query
  const void* incoming = nullptr;  // backward input
  const float *known_statistics = nullptr, *delta = nullptr;  // backward inputs; delta is D
  float* query_gradient = nullptr;  // accumulated backward; rows of padded(features)
  int64_t first_row = 0;  // number of its first row of scores, for draw()
};

// Dropout factors: run() sets factors[j] to the factor of the weight of key first_key + j in one row of the scores.
struct AttentionDraw {
  void (*run)(const void* state, int64_t row, int64_t first_key, int64_t count, float* factors) = nullptr;
  const void* state = nullptr;
};

struct AttentionTiles {
  int64_t lanes = 0;  // floats per vector; accumulated rows are padded to a multiple
  int64_t element_size = 0, elements_per_factor = 0;  // features and values must be multiples of elements_per_factor
  int64_t forward_rows = 0, forward_keys = 0, backward_keys = 0;  // tile sizes
  int64_t (*forward_scratch)(const AttentionSizes&) = nullptr;  // scratch floats per thread
  int64_t (*backward_scratch)(const AttentionSizes&) = nullptr;
  // Pack one tile of forward_keys keys for forward(). packed_keys holds whole tiles; each packed key takes features /
  // elements_per_factor floats.
  void (*pack_keys)(const AttentionSizes&, const void* key, int64_t tile, float* packed_keys) = nullptr;
  // Compute the result for queries [first, first + count), count <= forward_rows.
  void (*forward)(const AttentionSizes&, const AttentionMatrices&, const AttentionDraw&, int64_t first, int64_t count,
                  float* scratch) = nullptr;
  // Compute the gradients of keys [first, last) from all queries of the `count` batches that share them. key_gradient
  // and value_gradient point to row 0 and are overwritten; query_gradient is accumulated.
  void (*backward)(const AttentionSizes&, const AttentionMatrices* batches, int64_t count, const AttentionDraw&,
                   int64_t first, int64_t last, void* key_gradient, void* value_gradient, float* scratch) = nullptr;
  // out[i] = sum over j of a[i, j] * b[i, j], in rows of n.
  void (*dots)(const void* a, const void* b, int64_t rows, int64_t n, float* out) = nullptr;
  // to[i, j] = sum over parts of sums[part * apart + i * stride + j], in rows of n.
  void (*add_parts)(const float* sums, int64_t parts, int64_t apart, int64_t stride, int64_t rows, int64_t n,
                    void* to) = nullptr;
};

inline int64_t padded(int64_t n, int64_t lanes) { return (n + lanes - 1) / lanes * lanes; }

const AttentionTiles& attention_tiles();  // for the best available instruction set
const AttentionTiles* attention_tiles_of_bfloat16();  // null without bfloat16 dot products

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
