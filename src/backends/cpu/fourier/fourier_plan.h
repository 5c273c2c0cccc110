// FourierPlan: precomputed data for a Fourier transform of one length, and the functions that run it.
//
// During a transform, data is planar: real and imaginary parts are separate. Many signals are transformed at once, one
// per vector lane, so every operation is a vector operation and every length vectorizes equally well. The layout of the
// data is [n][2][lanes]. A single long signal is treated as an n1 x n2 matrix, whose columns and then rows are
// transformed in lanes.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "backends/cpu/instruction_set.h"

namespace mpsgraph::cpu {

// Return exp(-2 pi i k / n), exact on the axes.
std::complex<double> root_of_unity(int64_t k, int64_t n);

// Allocates memory aligned to cache lines, so that no vector straddles two cache lines.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t line{64};
  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), line)); }
  void deallocate(T* p, size_t) { ::operator delete(p, line); }
  bool operator==(const LineAllocator&) const = default;
};

// Return the first lane of a block of `lanes` lanes. This is `lane`, unless the block would extend beyond `count`: such
// a block begins earlier, overlapping the previous one, so that it ends at `count`. If there are fewer than `lanes`
// lanes in total, the only block begins at `lane`.
inline int64_t first_lane(int64_t lane, int64_t count, int lanes) {
  return count < lanes ? lane : std::min(lane, count - lanes);
}

// Plan for signals of n points in lanes, as a sequence of passes with small radices. Stockham's ordering yields results
// in natural order. The passes decimate in time: points are multiplied by twiddle factors before they are added, so
// that each multiplication and the addition that follows become a fused multiply-add.
template <class T>
struct LanePlan {
  LanePlan() = default;
  explicit LanePlan(int64_t n) : LanePlan(n, 1, 0) {}
  // Plan for the rows of a matrix, with lanes along its `columns`, which are already transformed: point j of column k
  // is first multiplied by exp(-2 pi i j k / (n columns)). The columns are divided into blocks of `lanes`.
  LanePlan(int64_t n, int64_t columns, int lanes);
  static bool possible(int64_t n);  // whether n has no prime factor above max_radix

  static constexpr int max_radix = 31;
  struct Pass {
    int radix;
    int64_t before;  // product of the preceding radices
    int64_t points;  // number of butterflies per value of q: before x radix x points = n
    // Twiddle factors in the order [blocks][before][factor][re, im] or, with separate factors per lane,
    // [blocks][before][factor][re, im][lanes]. With w = exp(-2 pi i q / (before radix)) for q < before, radix 2 stores
    // w; radix 4 stores w and w²; radix 8 stores w, w exp(-i pi/4), w², and w⁴; other radices store w to w^(radix - 1).
    std::vector<T, LineAllocator<T>> factors;
    int64_t factors_stride;  // distance between the factors of consecutive q
    // cosines and sines of the multiples of 1 / radix of a turn, for radices without a dedicated butterfly
    std::vector<T> roots;
  };
  int64_t n = 1;
  std::vector<Pass> passes;
};

// Plan for a single signal of n points.
template <class T>
struct FourierPlan {
  FourierPlan(int64_t n, int lanes);
  size_t work() const;  // scratch elements of type T per thread and signal

  int64_t n;
  int lanes;
  // For short signals: a plan that transforms many signals in lanes.
  LanePlan<T> whole;
  // For long signals: plans for the columns and rows of a matrix.
  int64_t n1 = 0, n2 = 0;
  LanePlan<T> columns, rows;
  void (*poll)();  // called regularly while a long signal is transformed; may throw
  // For lengths with a large prime factor: a convolution of a suitable length (Bluestein).
  std::unique_ptr<const FourierPlan> convolution;
  std::vector<T> chirp_re, chirp_im, spectrum_re, spectrum_im;

  bool whole_sides() const { return n1 % lanes == 0 && n2 % lanes == 0; }
  // Return whether both sides of the matrix are so long that transforming some lanes twice, in overlapping blocks,
  // costs less than first splitting complex numbers into real and imaginary planes.
  bool long_sides() const { return std::min(n1, n2) >= lanes && n >= 2 * lanes * lanes; }
  // Sizes of the transposed planar columns, in elements of type T: pitch() is the distance between rows, and plane() is
  // the size of a plane.
  int64_t pitch() const { return (n1 + lanes - 1) / lanes * lanes; }
  int64_t plane() const { return n2 * pitch(); }
};

// Plan for a real signal with an even number n of points. It is transformed as a complex signal of half the length,
// whose real parts are the even points and whose imaginary parts are the odd points. The plan holds w[k] = exp(-2 pi i
// k / n) for k <= n / 2.
template <class T>
struct HalfPlan {
  explicit HalfPlan(int64_t n);
  int64_t half;
  std::vector<T> re, im;
};

// The transform functions of one instruction set.
template <class T>
struct FourierFunctions {
  int lanes;
  // Transform a planar signal, possibly in place. Source and destination need room for `lanes` additional elements.
  void (*signal)(const FourierPlan<T>& plan, const T* re, const T* im, T* to_re, T* to_im, T* work);
  // Transform a complex signal, possibly in place, with a plan that has long_sides(). `ahead` is the distance to the
  // next signal in elements of type T, or 0 if there is none.
  void (*complex_signal)(const FourierPlan<T>& plan, const T* from, T* to, int64_t ahead, bool inverse, T scale,
                         T* work);
  // Transform lanes in place. The scratch memory `room` must be twice as large as `data`.
  void (*side_by_side)(const LanePlan<T>& plan, T* data, T* room);
  // Transform adjacent complex signals from memory to memory. Consecutive points of a signal are `stride` complex
  // numbers apart.
  void (*columns)(const LanePlan<T>& plan, const T* from, T* to, int64_t stride, bool inverse, T scale, T* room);
  // Split n complex numbers into real and imaginary parts; join() merges them again.
  void (*split)(const T* numbers, T* re, T* im, int64_t n);
  void (*join)(const T* re, const T* im, T* numbers, int64_t n, T scale_re, T scale_im);
  // Load n complex numbers of each row into the row's lane, or store them. Rows are `pitch` complex numbers apart. With
  // `exchanged`, imaginary parts come first in the lanes.
  void (*rows_to_lanes)(const T* rows, int64_t pitch, T* data, int64_t n, bool exchanged);
  void (*lanes_to_rows)(const T* data, T* rows, int64_t pitch, int64_t n, bool exchanged, T scale_re, T scale_im);
  // Convert in place between the transform z of the even and odd points as one complex signal and the transform x of
  // the real signal. For each k <= half, x[k] = z[k] + conj z[half - k] - i w[k] (z[k] - conj z[half - k]), where the
  // real and imaginary parts of z are first multiplied by scale_re and scale_im.
  void (*pairs)(const HalfPlan<T>& plan, T* re, T* im, T scale_re, T scale_im);
  void (*pairs_of_lanes)(const HalfPlan<T>& plan, T* data, T scale_re, T scale_im);
};
template <class T>
const FourierFunctions<T>& fourier_functions();  // returns the functions for the best available instruction set

MPSGRAPH_VECTOR_TABLE(FourierFunctions<float>, fourier_float);
MPSGRAPH_VECTOR_TABLE(FourierFunctions<double>, fourier_double);

}  // namespace mpsgraph::cpu
