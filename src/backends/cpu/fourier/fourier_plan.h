// FourierPlan: what a Fourier transform of one length knows before it sees data, and the functions that run it.
//
// Data are planar while they are transformed: real and imaginary parts apart. A transform of many signals at once keeps
// them side by side in lanes, so that every step is one vector operation and every length vectorises alike: data are
// [n][2][lanes]. One long signal is seen as a matrix of n1 x n2, whose columns and then rows are such lanes.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace mpsgraph::cpu {

// exp(-2 pi i k / n), exact on the axes.
std::complex<double> root_of_unity(int64_t k, int64_t n);

// Memory aligned to a cache line, so that no vector straddles two.
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

// Where the lanes of a block begin that would begin at `lane`: the last ones of `count` overlap those before, unless
// there are too few of them.
inline int64_t first_lane(int64_t lane, int64_t count, int lanes) {
  return count < lanes ? lane : std::min(lane, count - lanes);
}

// Lanes of n points, in passes of small radices (Stockham's order: the result comes out sorted; decimated in time:
// points are multiplied by twiddle factors before a pass, so that additions and twiddle factors are one fused
// operation).
template <class T>
struct LanePlan {
  LanePlan() = default;
  explicit LanePlan(int64_t n) : LanePlan(n, 1, 0) {}
  // Of rows of a matrix whose `columns` are lanes, and are transformed already: lane k is multiplied by exp(-2 pi i j k
  // / (n columns)) at point j first. The columns come in blocks of `lanes`.
  LanePlan(int64_t n, int64_t columns, int lanes);
  static bool possible(int64_t n);  // no prime factor above max_radix

  static constexpr int max_radix = 31;
  struct Pass {
    int radix;
    int64_t before;  // the product of the radices before
    int64_t points;  // that are left: before x radix x points = n
    // [blocks][before][which][re, im], or [re, im][lanes] in place of the last. With w = exp(-2 pi i q / (before
    // radix)) those which a radix needs: of 2, w; of 4, w and w²; of 8, w, w exp(-i pi/4), w² and w⁴; else w to
    // w^(radix - 1).
    std::vector<T, LineAllocator<T>> factors;
    int64_t factors_stride;  // of q
    std::vector<T> roots;  // [radix]: cosine, sine; of radices without formulas of their own
  };
  int64_t n = 1;
  std::vector<Pass> passes;
};

// One signal of n points.
template <class T>
struct FourierPlan {
  FourierPlan(int64_t n, int lanes);
  size_t work() const;  // numbers that a thread needs to transform one signal

  int64_t n;
  int lanes;
  // Short: one of many lanes.
  LanePlan<T> whole;
  // Long: columns and rows of a matrix.
  int64_t n1 = 0, n2 = 0;
  LanePlan<T> columns, rows;
  // With a large prime factor: a convolution of a good length (Bluestein).
  std::unique_ptr<const FourierPlan> convolution;
  std::vector<T> chirp_re, chirp_im, spectrum_re, spectrum_im;

  bool whole_sides() const { return n1 % lanes == 0 && n2 % lanes == 0; }
  // So long that overlapping lanes cost less than parts of numbers that are first taken apart.
  bool long_sides() const { return std::min(n1, n2) >= lanes && n >= 2 * lanes * lanes; }
  // Of the transposed columns, parts apart: numbers from one row to the next, and of all.
  int64_t pitch() const { return (n1 + lanes - 1) / lanes * lanes; }
  int64_t plane() const { return n2 * pitch(); }
};

// A real signal of an even number n of points, as a complex one of half the length whose real parts are the even points
// and whose imaginary parts are the odd ones: w[k] = exp(-2 pi i k / n) for k <= n / 2.
template <class T>
struct HalfPlan {
  explicit HalfPlan(int64_t n);
  int64_t half;
  std::vector<T> re, im;
};

// What one instruction set brings.
template <class T>
struct FourierFunctions {
  int lanes;
  // One planar signal to another, which may be the same; both with room for `lanes` more numbers.
  void (*signal)(const FourierPlan<T>& plan, const T* re, const T* im, T* to_re, T* to_im, T* work);
  // Complex numbers to others, which may be the same, of a plan with long_sides(); `ahead`: how many numbers of T
  // further the next signal lies, or 0.
  void (*complex_signal)(const FourierPlan<T>& plan, const T* from, T* to, int64_t ahead, bool inverse, T scale,
                         T* work);
  // Lanes to lanes, data and room for as much.
  void (*side_by_side)(const LanePlan<T>& plan, T* data, T* room);
  // The same from and to memory, of neighbouring complex signals whose points lie `stride` apart.
  void (*columns)(const LanePlan<T>& plan, const T* from, T* to, int64_t stride, bool inverse, T scale, T* room);
  // n complex numbers apart and together again.
  void (*split)(const T* numbers, T* re, T* im, int64_t n);
  void (*join)(const T* re, const T* im, T* numbers, int64_t n, T scale_re, T scale_im);
  // As many rows of n complex numbers as there are lanes, `pitch` complex numbers apart, into lanes and out of them;
  // exchanged: imaginary parts come first in the lanes.
  void (*rows_to_lanes)(const T* rows, int64_t pitch, T* data, int64_t n, bool exchanged);
  void (*lanes_to_rows)(const T* data, T* rows, int64_t pitch, int64_t n, bool exchanged, T scale_re, T scale_im);
  // In place between the transform of even and odd points as one signal and that of the real signal: half + 1 points
  // become, for each k, x = (z[k] + conj z[half - k] - i w[k] (z[k] - conj z[half - k])) with parts scaled before.
  void (*pairs)(const HalfPlan<T>& plan, T* re, T* im, T scale_re, T scale_im);
  void (*pairs_of_lanes)(const HalfPlan<T>& plan, T* data, T scale_re, T scale_im);
};
template <class T>
const FourierFunctions<T>& fourier_functions();  // of the best instruction set here

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
