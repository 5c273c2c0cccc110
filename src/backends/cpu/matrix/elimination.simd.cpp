// Gauss-Jordan elimination (elimination.h).
//
// Each row of the block is one vector, held in as many registers as needed. The elimination of a column reads, updates,
// and writes each row once, in the L1 cache.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backends/cpu/matrix/elimination.h"
#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

// A row of the block. The compiler splits it into as many registers as it needs.
template <class T>
using Row = Vector<T, eliminated_columns * sizeof(T)>;

template <class T>
int64_t largest_below(const T* column, int64_t n, int64_t from) {
  int64_t pivot = from;
  for (int64_t i = from + 1; i < n; ++i)
    if (std::abs(column[i * eliminated_columns]) > std::abs(column[pivot * eliminated_columns])) pivot = i;
  return pivot;
}

template <class T>
void eliminate(T* columns, int64_t n, int64_t first, int64_t count, int64_t* exchanged) {
  using V = Row<T>;
  const auto row = [=](int64_t i) { return columns + i * eliminated_columns; };
  for (int64_t c = 0; c < count; ++c) {
    const int64_t k = first + c, pivot = exchanged[k] = largest_below(columns + c, n, k);
    V step;
    std::memcpy(&step, row(pivot), sizeof step);
    if (pivot != k) std::memcpy(row(pivot), row(k), sizeof step);
    const T scale = 1 / step[c];
    step[c] = 1;
    step *= scale;
    // Build, in a register, a mask of all lanes except lane c. Setting a single element of the row in memory would
    // instead stall the next load of the row.
    LaneMask<V> others = ~LaneMask<V>{};
    others[c] = 0;
    const auto subtract = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T factor = row(i)[c];
        LaneMask<V> bits;
        std::memcpy(&bits, row(i), sizeof bits);
        const V rest = reinterpret_cast<V>(bits & others) - factor * step;
        std::memcpy(row(i), &rest, sizeof rest);
      }
    };
    subtract(0, k);
    std::memcpy(row(k), &step, sizeof step);
    subtract(k + 1, n);
  }
}

}  // namespace

constinit const Eliminate<float> eliminate_float = eliminate<float>;
constinit const Eliminate<double> eliminate_double = eliminate<double>;

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
