// Tiled attention, which never stores all scores: the arithmetic of one work item, compiled for each instruction set.
// Source: Dao et al., "FlashAttention", arXiv:2205.14135, arXiv:2307.08691.
//
// For the attention itself, a work item is a block of queries of one batch and head. The keys are processed tile by
// tile. For each query, the kernel keeps the largest score so far, the sum of exp(score - largest), and the sum of the
// values weighted by these exponentials.
//
// For the gradient, a work item is a block of keys of one batch and head. The attention weights P are recomputed from
// the scores and from each query's largest score and sum. With dO the gradient of the result O, dP that of P, and D the
// sum of dO * O over a query's row, the gradient of the scores is dS = P (dP - D).
//
// Operands are row-major float32, or bfloat16 if the processor has tiles for it; all other data is float32.
// attention.cpp distributes the work items and maps tensors to matrices.
#pragma once

#include <cstdint>
#include <utility>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// Sizes and options shared by all work items of one attention operation.
struct AttentionSizes {
  // Number of query rows and of key rows, elements of a query or key row, and elements of a value row.
  int64_t queries = 0, keys = 0, features = 0, values = 0;
  float scale = 1;
  bool causal = false;
  int64_t mask_row = 0, mask_column = 0;  // strides of the mask; 0 along axes of size 1
  bool drops = false;  // apply dropout with the factors from draw()
};

// The matrices of one batch and head. Each pointer refers to the first row of a matrix, and is null if the matrix is
// absent. void pointers refer to elements of the type that the tiles multiply.
struct AttentionMatrices {
  const void *query = nullptr, *key = nullptr, *value = nullptr;
  const float* mask = nullptr;
  const float* packed_keys = nullptr;  // input of forward()
  void* result = nullptr;  // output of forward()
  float* statistics = nullptr;  // output of forward(): the largest score and the sum of exponentials of each query
  const void* incoming = nullptr;  // input of backward()
  const float *known_statistics = nullptr, *delta = nullptr;  // inputs of backward(); `delta` holds D for each query
  float* query_gradient = nullptr;  // output of backward(), which accumulates rows of padded(features) floats
  int64_t first_row = 0;  // index of the batch's first row of scores among all batches, for dropout
};

// Dropout factors. run() sets factors[j] to the factor of the attention weight of key first_key + j, for j < count, in
// the given row of scores.
struct AttentionDraw {
  void (*run)(const void* state, int64_t row, int64_t first_key, int64_t count, float* factors) = nullptr;
  const void* state = nullptr;
};

struct AttentionTiles {
  int64_t lanes = 0;  // floats per vector; accumulated rows are padded to a multiple of `lanes`
  int64_t element_size = 0, elements_per_factor = 0;  // features and values must be multiples of elements_per_factor
  int64_t forward_rows = 0, forward_keys = 0, backward_keys = 0;  // rows and keys per tile
  int64_t (*forward_scratch)(const AttentionSizes&) = nullptr;  // scratch floats per thread
  int64_t (*backward_scratch)(const AttentionSizes&) = nullptr;
  // Pack one tile of `forward_keys` keys for forward(). `packed_keys` holds whole tiles, even for the last keys, and
  // each key takes features / elements_per_factor floats.
  void (*pack_keys)(const AttentionSizes&, const void* key, int64_t tile, float* packed_keys) = nullptr;
  // Compute the result for queries [first, first + count), where count <= forward_rows.
  void (*forward)(const AttentionSizes&, const AttentionMatrices&, const AttentionDraw&, int64_t first, int64_t count,
                  float* scratch) = nullptr;
  // Compute the gradients of keys [first, last) from all queries of the `count` batches that share these keys.
  // `key_gradient` and `value_gradient` point to row 0 and are overwritten; `query_gradient` is accumulated.
  void (*backward)(const AttentionSizes&, const AttentionMatrices* batches, int64_t count, const AttentionDraw&,
                   int64_t first, int64_t last, void* key_gradient, void* value_gradient, float* scratch) = nullptr;
  // Compute out[i] = sum over j < n of a[i, j] * b[i, j] for each row i.
  void (*dots)(const void* a, const void* b, int64_t rows, int64_t n, float* out) = nullptr;
  // Compute to[i, j] = sum over all parts of sums[part * apart + i * stride + j] for each row i and column j < n.
  void (*add_parts)(const float* sums, int64_t parts, int64_t apart, int64_t stride, int64_t rows, int64_t n,
                    void* to) = nullptr;
};

inline int64_t padded(int64_t n, int64_t lanes) { return (n + lanes - 1) / lanes * lanes; }

const AttentionTiles* attention_tiles_of_bfloat16();  // returns null if the processor lacks bfloat16 dot products

MPSGRAPH_VECTOR_TABLE(AttentionTiles, attention_tiles);
namespace avx512_bf16 {
extern const AttentionTiles attention_tiles;
}

}  // namespace mpsgraph::cpu
