// Steps of Gauss-Jordan elimination on some columns of a matrix, once per vector set.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

constexpr int64_t eliminated_columns = 16;  // at most, whose steps are found together

// The steps of columns [first, first + count) with partial pivoting, on these columns alone: `columns` holds them, n
// rows of `eliminated_columns`, zero beyond `count`. exchanged[k] is the row that step k has exchanged with row k. The
// columns then hold what the steps together do to a matrix.
template <class T>
using Eliminate = void (*)(T* columns, int64_t n, int64_t first, int64_t count, int64_t* exchanged);

namespace baseline {
extern const Eliminate<float> eliminate_float;
extern const Eliminate<double> eliminate_double;
}  // namespace baseline
namespace avx2 {
extern const Eliminate<float> eliminate_float;
extern const Eliminate<double> eliminate_double;
}  // namespace avx2
namespace avx512 {
extern const Eliminate<float> eliminate_float;
extern const Eliminate<double> eliminate_double;
}  // namespace avx512

}  // namespace mpsgraph::cpu
