// FourierPlan: precomputed data for a Fourier transform of one length, and the functions that run it.
//
// During a transform, data is planar: real and imaginary parts are separate. Many signals are transformed at once, side
// by side in lanes, so every step is a vector operation and every length vectorizes equally well; the data is
// [n][2][lanes]. A single long signal is treated as an n1 x n2 matrix, whose columns and then rows form such lanes.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace mpsgraph::cpu {

// Return exp(-2 pi i k / n), exact on the axes.
std::complex<double> root_of_unity(int64_t k, int64_t n);

// Allocates memory aligned to cache lines, so that no vector straddles two.
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

// Return the first lane of the block that would begin at `lane`. The last block of `count` lanes overlaps the previous
// one, unless there are too few lanes in total.
inline int64_t first_lane(int64_t lane, int64_t count, int lanes) {
  return count < lanes ? lane : std::min(lane, count - lanes);
}

// Plan for lanes of n points, in passes of small radices. Stockham's ordering yields sorted results. The passes
// decimate in time: points are multiplied by twiddle factors before a pass, which fuses these multiplications with the
// additions.
template <class T>
struct LanePlan {
  LanePlan() = default;
  explicit LanePlan(int64_t n) : LanePlan(n, 1, 0) {}
  // Plan for the rows of a matrix whose `columns` are lanes and already transformed: point j of lane k is first
  // multiplied by exp(-2 pi i j k / (n columns)). The columns come in blocks of `lanes`.
  LanePlan(int64_t n, int64_t columns, int lanes);
  static bool possible(int64_t n);  // no prime factor above max_radix

  static constexpr int max_radix = 31;
  struct Pass {
    int radix;
    int64_t before;  // product of the preceding radices
    int64_t points;  // remaining points: before x radix x points = n
    // Twiddle factors [blocks][before][which][re, im], or [re, im][lanes] in place of the last. With w = exp(-2 pi i q
    // / (before radix)), each radix stores those it needs: 2 needs w; 4 needs w and w²; 8 needs w, w exp(-i pi/4), w²
    // and w⁴; others need w to w^(radix - 1).
    std::vector<T, LineAllocator<T>> factors;
    int64_t factors_stride;  // between consecutive q
    std::vector<T> roots;  // [radix][cosine, sine], for radices without a dedicated butterfly
  };
  int64_t n = 1;
  std::vector<Pass> passes;
};

// Plan for a single signal of n points.
template <class T>
struct FourierPlan {
  FourierPlan(int64_t n, int lanes);
  size_t work() const;  // scratch numbers of T per thread and signal

  int64_t n;
  int lanes;
  // For short signals: a plan for many lanes.
  LanePlan<T> whole;
  // For long signals: plans for the columns and rows of a matrix.
  int64_t n1 = 0, n2 = 0;
  LanePlan<T> columns, rows;
  // For lengths with a large prime factor: a convolution of a suitable length (Bluestein).
  std::unique_ptr<const FourierPlan> convolution;
  std::vector<T> chirp_re, chirp_im, spectrum_re, spectrum_im;

  bool whole_sides() const { return n1 % lanes == 0 && n2 % lanes == 0; }
  // Return whether the sides are so long that overlapping lanes cost less than first splitting complex numbers into
  // planes.
  bool long_sides() const { return std::min(n1, n2) >= lanes && n >= 2 * lanes * lanes; }
  // Size of the transposed planar columns, in numbers of T: the distance between rows, and the size of a plane.
  int64_t pitch() const { return (n1 + lanes - 1) / lanes * lanes; }
  int64_t plane() const { return n2 * pitch(); }
};

// Plan for a real signal with an even number n of points, transformed as a complex signal of half the length, whose
// real parts are the even points and whose imaginary parts are the odd ones: w[k] = exp(-2 pi i k / n) for k <= n / 2.
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
  // Transform a planar signal, possibly in place. Both buffers need room for `lanes` additional numbers.
  void (*signal)(const FourierPlan<T>& plan, const T* re, const T* im, T* to_re, T* to_im, T* work);
  // Transform a complex signal, possibly in place, with a plan that has long_sides(). `ahead` is the distance to the
  // next signal in numbers of T, or 0.
  void (*complex_signal)(const FourierPlan<T>& plan, const T* from, T* to, int64_t ahead, bool inverse, T scale,
                         T* work);
  // Transform lanes in place; `room` must be as large as `data`.
  void (*side_by_side)(const LanePlan<T>& plan, T* data, T* room);
  // Transform adjacent complex signals from and to memory, with points `stride` apart.
  void (*columns)(const LanePlan<T>& plan, const T* from, T* to, int64_t stride, bool inverse, T scale, T* room);
  // Split n complex numbers into real and imaginary parts, and join them again.
  void (*split)(const T* numbers, T* re, T* im, int64_t n);
  void (*join)(const T* re, const T* im, T* numbers, int64_t n, T scale_re, T scale_im);
  // Load one row of n complex numbers into each lane, or store it; rows are `pitch` complex numbers apart. With
  // `exchanged`, imaginary parts come first in the lanes.
  void (*rows_to_lanes)(const T* rows, int64_t pitch, T* data, int64_t n, bool exchanged);
  void (*lanes_to_rows)(const T* data, T* rows, int64_t pitch, int64_t n, bool exchanged, T scale_re, T scale_im);
  // Convert in place between the transform of even and odd points as one complex signal and that of the real signal.
  // Each of half + 1 points k becomes x = (z[k] + conj z[half - k] - i w[k] (z[k] - conj z[half - k])), with the parts
  // scaled first.
  void (*pairs)(const HalfPlan<T>& plan, T* re, T* im, T scale_re, T scale_im);
  void (*pairs_of_lanes)(const HalfPlan<T>& plan, T* data, T scale_re, T scale_im);
};
template <class T>
const FourierFunctions<T>& fourier_functions();  // for the best available instruction set

namespace baseline {
const FourierFunctions<float>& fourier_float();
const FourierFunctions<double>& fourier_double();
}  // namespace baseline
namespace avx2 {
const FourierFunctions<float>& fourier_float();
const FourierFunctions<double>& fourier_double();
}  // namespace avx2
namespace avx512 {
const FourierFunctions<float>& fourier_float();
const FourierFunctions<double>& fourier_double();
}  // namespace avx512

}  // namespace mpsgraph::cpu
