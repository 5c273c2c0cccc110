// CPU kernels of the hash encoding of neural graphics primitives and its gradient (Müller et al., arXiv:2201.05989).
//
// Each level divides the unit cube into a grid. The corners of its cells have rows in the level's table: separate ones
// if the table is large enough, otherwise those given by a hash of the coordinates. A position is encoded, level by
// level, as the trilinear interpolation of the rows of the eight corners around it. hash_encoding.py makes operations
// of these functions; hash_encoding.metal contains the same kernels for GPUs.

#include <algorithm>
#include <cstdint>

namespace {

using float2 = float __attribute__((vector_size(8)));  // Metal's type; GCC and Clang support the attribute.

struct Level {
  uint32_t cells;  // Along each edge of the cube.
  uint32_t step[3];
  uint32_t last;  // Last row of the table, whose number of rows is a power of two.
  bool hashed;

  Level(int64_t resolution, int64_t rows)
      : cells(static_cast<uint32_t>(resolution)), last(static_cast<uint32_t>(rows - 1)) {
    const uint32_t side = cells + 1, in_order[3] = {1, side, side * side}, primes[3] = {1, 2654435761u, 805459861u};
    hashed = static_cast<uint64_t>(side) * side * side > static_cast<uint64_t>(rows);
    std::copy_n(hashed ? primes : in_order, 3, step);
  }

  // Calls visit(row, weight) for the eight corners around a position.
  template <typename Visit>
  void corners(const float* place, Visit visit) const {
    uint32_t at[3][2];
    float weight[3][2];
    for (int axis = 0; axis < 3; ++axis) {
      const float x = std::max(0.0f, std::min(1.0f, place[axis])) * static_cast<float>(cells);
      const uint32_t low = std::min(static_cast<uint32_t>(x), cells - 1);
      at[axis][0] = low * step[axis];
      at[axis][1] = at[axis][0] + step[axis];
      weight[axis][1] = x - static_cast<float>(low);
      weight[axis][0] = 1.0f - weight[axis][1];
    }
    for (int corner = 0; corner < 8; ++corner) {
      const int i = corner & 1, j = corner >> 1 & 1, k = corner >> 2;
      const uint32_t row = hashed ? (at[0][i] ^ at[1][j] ^ at[2][k]) & last : at[0][i] + at[1][j] + at[2][k];
      visit(row, weight[0][i] * weight[1][j] * weight[2][k]);
    }
  }
};

}  // namespace

// Maps places (n, 3) and tables (levels, rows, 2) to (n, 2 * levels). Threads process blocks of positions level by
// level, so that the table of one level stays in the processor's cache.
void hash_encoding(mpsgraph::custom::Call& call) {
  const auto places = call.operand<float>(0), tables = call.operand<float>(1);
  const auto resolutions = call.integers("resolutions");
  const auto encoded = call.result<float>(0);
  const int64_t count = places.dim(0), levels = tables.dim(0), rows = tables.dim(1);
  const int64_t block = 2048, blocks = (count + block - 1) / block;
  call.parallel_for(levels * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t l = i / blocks, first = i % blocks * block;
      const Level level(resolutions[l], rows);
      const auto* table = reinterpret_cast<const float2*>(&tables[l * rows * 2]);
      auto* to = reinterpret_cast<float2*>(&encoded[l * 2]);
      for (int64_t n = first; n < std::min(first + block, count); ++n) {
        float2 sum = {0, 0};
        level.corners(&places[n * 3], [&](uint32_t row, float weight) { sum += weight * table[row]; });
        to[n * levels] = sum;
      }
    }
  });
}

// Computes the gradient of tables from incoming (n, 2 * levels), places, and tables. Each level belongs to one thread,
// so no two threads add to the same row, and the order of additions is always the same.
void hash_encoding_gradient(mpsgraph::custom::Call& call) {
  const auto incoming = call.operand<float>(0), places = call.operand<float>(1);
  const auto resolutions = call.integers("resolutions");
  const auto gradient = call.result<float>(0);
  const int64_t count = places.dim(0), levels = gradient.dim(0), rows = gradient.dim(1);
  call.parallel_for(levels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t l = begin; l < end; ++l) {
      const Level level(resolutions[l], rows);
      auto* table = reinterpret_cast<float2*>(&gradient[l * rows * 2]);
      const auto* from = reinterpret_cast<const float2*>(&incoming[l * 2]);
      std::fill_n(table, rows, float2{0, 0});
      for (int64_t n = 0; n < count; ++n) {
        const float2 share = from[n * levels];
        level.corners(&places[n * 3], [&](uint32_t row, float weight) { table[row] += weight * share; });
      }
    }
  });
}
