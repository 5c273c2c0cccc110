// The hash encoding of neural graphics primitives and its gradient, as kernels for the CPU (Müller et al., 2022).
//
// At each level a grid lies over the unit cube. Its corners have rows in the level's table: each its own where there
// are enough, else the one that a hash of its coordinates says. A place is told by the rows of the eight corners around
// it, each in proportion to its nearness, level after level. examples/nerf.py makes operations of these functions;
// hash_encoding.metal says the same for graphics processors.

#include <algorithm>
#include <cstdint>

namespace {

using float2 = float __attribute__((vector_size(8)));  // as in Metal; GCC and Clang have it

struct Level {
  uint32_t cells;  // along each edge of the cube
  uint32_t step[3];
  uint32_t last;  // row of the table; rows are a power of two
  bool hashed;

  Level(int64_t resolution, int64_t rows)
      : cells(static_cast<uint32_t>(resolution)), last(static_cast<uint32_t>(rows - 1)) {
    const uint32_t side = cells + 1, in_order[3] = {1, side, side * side}, primes[3] = {1, 2654435761u, 805459861u};
    hashed = static_cast<uint64_t>(side) * side * side > static_cast<uint64_t>(rows);
    std::copy_n(hashed ? primes : in_order, 3, step);
  }

  // Calls visit(row, weight) for the eight corners around a place.
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

// places (n, 3) and tables (levels, rows, 2) -> (n, 2 * levels). Threads take blocks of places level by level, so that
// the table of one level at a time is read again and again while it is in the processor's cache.
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

// incoming (n, 2 * levels), places and tables -> the gradient of tables. A level is one thread's, so that no two add to
// the same row, and sums are in the same order every time.
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
