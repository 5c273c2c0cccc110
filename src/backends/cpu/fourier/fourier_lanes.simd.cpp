// Fourier transforms of lanes and of single signals.
//
// A stage (called a pass in the code) of radix r reads r strided points, multiplies them by their twiddle factors, and
// transforms them. The sources and destinations of points (lanes, planar signals, memory) are template parameters, so
// the first and last stages need no copy.
#include "backends/cpu/fourier/fourier_butterflies.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

// ---- passes
//
// Sources and destinations are passed by value. If they were passed by reference, the compiler would have to assume
// that any store may change their pointers, and would reload the pointers each time.

template <class T>
using Pass = typename LanePlan<T>::Pass;

// Hide the value of a number from the optimizer. Otherwise, GCC keeps a separate pointer for each point of a butterfly.
// These pointers do not fit in registers and are incremented in memory, which makes transforms a third slower.
inline void forget(int64_t& number) { __asm__("" : "+r"(number)); }

// For each p < points and q < before, read the `radix` points q + before * (p + j * points) for j < radix, multiply
// them by the twiddle factors of q, transform them, and store the results as points q + before * (radix * p + k) for k
// < radix.
template <int radix, class W, class T, class From, class To>
void pass(const Pass<T>& plan, const T* factors, From from, To to) {
  const int64_t points = plan.points, before = plan.before;
  const int64_t from_step = from.pitch() * before * points, to_step = to.pitch() * before;
  int64_t moved = 0;
  for (int64_t q = 0; q < before; ++q, factors += plan.factors_stride) {
    W w;
    if constexpr (!std::is_same_v<W, NotTurned<T>>) w.factors = factors;
    int64_t from_first = from.pitch() * q, to_first = to.pitch() * q;
    for (int64_t p = 0; p < points; ++p, moved += radix) {
      forget(from_first), forget(to_first);
      V<T> re[radix], im[radix];
      int64_t at = from_first;
      for (int j = 0; j < radix; ++j, at += from_step) {
        from.ask(moved + j);
        const Number<T> x = from.get(at);
        re[j] = x.re, im[j] = x.im;
      }
      Butterfly<T, radix>::run(re, im, w);
      at = to_first;
      for (int k = 0; k < radix; ++k, at += to_step) {
        to.ask(moved + k);
        to.put(at, re[k], im[k]);
      }
      from_first += from.pitch() * before, to_first += to_step * radix;
    }
  }
}

// A pass for a radix without a dedicated butterfly. The pass multiplies the sums and differences of mirrored points by
// roots of unity.
template <class W, class T, class From, class To>
void odd_pass(const Pass<T>& plan, const T* factors, From from, To to) {
  constexpr int most = LanePlan<T>::max_radix;
  const int64_t points = plan.points, before = plan.before;
  const int radix = plan.radix, half = radix / 2;
  int64_t moved = 0;
  for (int64_t q = 0; q < before; ++q, factors += plan.factors_stride) {
    for (int64_t p = 0; p < points; ++p, moved += radix) {
      const auto get = [&](int j) {
        from.ask(moved + j);
        const Number<T> x = from.get(from.pitch() * (q + before * (p + j * points)));
        if constexpr (std::is_same_v<W, NotTurned<T>>) {
          return x;
        } else {
          if (j == 0) return x;
          const W w{factors};
          const auto c = w.re(j - 1), s = w.im(j - 1);
          return Number<T>{x.re * c - x.im * s, x.re * s + x.im * c};
        }
      };
      V<T> sum_re[most / 2 + 1], sum_im[most / 2 + 1], difference_re[most / 2 + 1], difference_im[most / 2 + 1];
      const Number<T> first = get(0);
      V<T> all_re = first.re, all_im = first.im;
      for (int j = 1; j <= half; ++j) {
        const Number<T> a = get(j), b = get(radix - j);
        sum_re[j] = a.re + b.re, sum_im[j] = a.im + b.im;
        difference_re[j] = a.re - b.re, difference_im[j] = a.im - b.im;
        all_re += sum_re[j], all_im += sum_im[j];
      }
      const auto put = [&](int k, V<T> re, V<T> im) {
        to.ask(moved + k);
        to.put(to.pitch() * (q + before * (radix * p + k)), re, im);
      };
      put(0, all_re, all_im);
      for (int k = 1; k <= half; ++k) {
        V<T> cos_re = first.re, cos_im = first.im, sin_re = {}, sin_im = {};
        for (int j = 1, at = k; j <= half; ++j, at = (at + k) % radix) {
          const T c = plan.roots[2 * at], s = plan.roots[2 * at + 1];
          cos_re += sum_re[j] * c, cos_im += sum_im[j] * c;
          sin_re += difference_re[j] * s, sin_im += difference_im[j] * s;
        }
        put(k, cos_re - sin_im, cos_im + sin_re);
        put(radix - k, cos_re + sin_im, cos_im - sin_re);
      }
    }
  }
}

template <class W, class T, class From, class To>
void run_pass(const Pass<T>& plan, const T* factors, From from, To to) {
  switch (plan.radix) {
    case 2: return pass<2, W, T>(plan, factors, from, to);
    case 3: return pass<3, W, T>(plan, factors, from, to);
    case 4: return pass<4, W, T>(plan, factors, from, to);
    case 5: return pass<5, W, T>(plan, factors, from, to);
    case 8: return pass<8, W, T>(plan, factors, from, to);
    default: return odd_pass<W, T>(plan, factors, from, to);
  }
}

// Run all passes. `room` is scratch memory for two sets of lanes. If the lanes are columns of a matrix, `block` selects
// their twiddle factors.
template <class T, class From, class To, class First = NotTurned<T>, class Next = Turned<T>>
void transform(const LanePlan<T>& plan, From from, To to, T* room, int64_t block = 0) {
  const size_t count = plan.passes.size();
  if (count == 0) {
    const Number<T> x = from.get(0);
    return to.put(0, x.re, x.im);
  }
  const auto factors = [&](size_t i) {
    const Pass<T>& pass = plan.passes[i];
    return pass.factors.data() + block * pass.before * pass.factors_stride;
  };
  if (count == 1) return run_pass<First, T>(plan.passes[0], factors(0), from, to);
  Lanes<T> here{room}, there{room + 2 * L<T> * plan.n};
  run_pass<First, T>(plan.passes[0], factors(0), from, here);
  for (size_t i = 1; i + 1 < count; ++i) {
    run_pass<Next, T>(plan.passes[i], factors(i), here, there);
    std::swap(here, there);
  }
  run_pass<Next, T>(plan.passes[count - 1], factors(count - 1), here, to);
}

template <class T>
void side_by_side(const LanePlan<T>& plan, T* data, T* room) {
  transform<T>(plan, Lanes<T>{data}, Lanes<T>{data}, room);
}

template <class T>
Memory<T> memory(const T* from, T* to, int64_t stride, bool inverse, T scale) {
  return {from, to, stride, T(inverse ? -1 : 1), scale, inverse ? -scale : scale};
}

template <class T>
void columns(const LanePlan<T>& plan, const T* from, T* to, int64_t stride, bool inverse, T scale, T* room) {
  const Memory<T> points = memory<T>(from, to, 2 * stride, inverse, scale);
  transform<T>(plan, points, points, room);
}

// ---- single signals

// The buffer that holds the transposed columns of a matrix until its rows are transformed. rows(k) returns columns k, k
// + 1, ... of the buffer, one per lane.
template <class T>
struct Transposed {
  T *re, *im;
  int64_t row, column;  // distances between rows and between columns, in elements of type T
  Planar<T> rows(int64_t k) const { return {re + k * column, im + k * column, row}; }
};

// Transform the columns of the matrix [n1][n2], transpose them, and transform its rows, which gives result[k1 + n1 k2].
// The twiddle factors between columns and rows are applied by the row passes.
//
// If a side length is not a multiple of the number of lanes, the last lanes overlap the previous ones. If a side length
// is smaller than the number of lanes, the extra lanes compute on arbitrary data and are discarded. column(j) is the
// source of the lanes that start at column j, and result(k) is the destination of the lanes that start at row k. The
// last column pass works in place, because each butterfly writes the points that it has read, so the working set stays
// small.
template <class T, class Column, class Result>
void matrix_passes(const FourierPlan<T>& plan, const Column& column, const Result& result, Transposed<T> transposed,
                   T* room) {
  constexpr int lanes = L<T>;
  const int64_t n1 = plan.n1, n2 = plan.n2;
  for (int64_t block = 0; block < n2; block += lanes) {
    plan.poll();
    const int64_t j = first_lane(block, n2, lanes), count = n2 < lanes ? n2 : lanes;
    transform<T>(plan.columns, column(j), Lanes<T>{room}, room);
    for (int64_t other = 0; other < n1; other += lanes) {
      const int64_t k = first_lane(other, n1, lanes);
      const Planar<T> to = transposed.rows(k);
      // Real and imaginary parts are transposed separately, because registers hold only one transposed block.
      for (const int part : {0, lanes}) {
        V<T> rows[lanes];
        load_transposed<T>(room + 2 * lanes * k + part, 2 * lanes, rows);
        T* place = (part ? to.im : to.re) + j * to.stride;
        if (count == lanes)
          for (int i = 0; i < lanes; ++i) store(place + i * to.stride, rows[i]);
        else
          for (int64_t i = 0; i < count; ++i) store(place + i * to.stride, rows[i]);
      }
    }
  }
  // If n1 is smaller than the number of lanes, the extra lanes of a row store arbitrary results where the next row
  // begins. The next row overwrites them.
  using To = decltype(result(0));
  for (int64_t block = 0; block * lanes < n1; ++block) {
    plan.poll();
    const int64_t k = first_lane(block * lanes, n1, lanes);
    transform<T, Planar<T>, To, LanesTurned<T>, LanesTurned<T>>(plan.rows, transposed.rows(k), result(k), room, block);
  }
}

template <class T>
void matrix_signal(const FourierPlan<T>& plan, const T* re, const T* im, T* to_re, T* to_im, T* work) {
  const auto column = [&](int64_t j) { return Planar<T>{const_cast<T*>(re) + j, const_cast<T*>(im) + j, plan.n2}; };
  const auto result = [&](int64_t k) { return Planar<T>{to_re + k, to_im + k, plan.n1}; };
  matrix_passes<T>(plan, column, result, {work, work + plan.plane(), plan.pitch(), 1}, work + 2 * plan.plane());
}

// Transform a complex signal, and prefetch the source and destination of the next signal, `ahead` elements away. The
// transposed columns are stored in the memory of the result, which leaves more of L1 for other data. This is not
// possible if source and result share memory or if lanes overlap; the columns are then stored in `work`.
template <class T>
void complex_signal(const FourierPlan<T>& plan, const T* from, T* to, int64_t ahead, bool inverse, T scale, T* work) {
  const T *next_from = from + ahead, *next_to = to + ahead;
  const auto column = [&](int64_t j) {
    return MemoryAhead<T>{memory<T>(from + 2 * j, nullptr, 2 * plan.n2, inverse, scale), next_from + 2 * j * plan.n1};
  };
  const auto result = [&](int64_t k) {
    return MemoryAhead<T>{memory<T>(nullptr, to + 2 * k, 2 * plan.n1, inverse, scale), next_to + 2 * k * plan.n2};
  };
  if (from == to || !plan.whole_sides())
    return matrix_passes<T>(plan, column, result, {work, work + plan.plane(), plan.pitch(), 1},
                            work + 2 * plan.plane());
  matrix_passes<T>(plan, column, result, {to, to + L<T>, 2 * plan.n1, 2}, work);
}

// Call f(begin, end) for pieces of [0, n), with plan.poll() before each.
template <class T, class F>
void for_pieces(const FourierPlan<T>& plan, int64_t n, const F& f) {
  constexpr int64_t piece = 1 << 18;
  for (int64_t begin = 0; begin < n; begin += piece) {
    plan.poll();
    f(begin, begin + piece < n ? begin + piece : n);
  }
}

// Multiplying by the chirp exp(-i pi j²/n) turns the transform into a convolution with exp(+i pi j²/n).
template <class T>
void signal(const FourierPlan<T>& plan, const T* re, const T* im, T* to_re, T* to_im, T* work);

template <class T>
void convolved_signal(const FourierPlan<T>& plan, const T* re, const T* im, T* to_re, T* to_im, T* work) {
  const FourierPlan<T>& convolution = *plan.convolution;
  const int64_t n = plan.n, m = convolution.n, size = m + L<T>;
  T *a_re = work, *a_im = a_re + size, *b_re = a_im + size, *b_im = b_re + size, *rest = b_im + size;
  for_pieces(plan, n, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const T c = plan.chirp_re[j], s = plan.chirp_im[j], x = re[j], y = im[j];
      a_re[j] = x * c - y * s, a_im[j] = x * s + y * c;
    }
  });
  std::memset(a_re + n, 0, static_cast<size_t>(m - n) * sizeof(T));
  std::memset(a_im + n, 0, static_cast<size_t>(m - n) * sizeof(T));
  signal(convolution, a_re, a_im, b_re, b_im, rest);
  for_pieces(plan, m, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const T c = plan.spectrum_re[j], s = plan.spectrum_im[j], x = b_re[j], y = b_im[j];
      b_re[j] = x * c - y * s, b_im[j] = x * s + y * c;
    }
  });
  signal(convolution, b_im, b_re, a_im, a_re, rest);  // exchanging real and imaginary parts gives the inverse transform
  for_pieces(plan, n, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const T c = plan.chirp_re[j], s = plan.chirp_im[j], x = a_re[j], y = a_im[j];
      to_re[j] = x * c - y * s, to_im[j] = x * s + y * c;
    }
  });
}

template <class T>
void signal(const FourierPlan<T>& plan, const T* re, const T* im, T* to_re, T* to_im, T* work) {
  if (plan.n1) return matrix_signal(plan, re, im, to_re, to_im, work);
  if (plan.convolution) return convolved_signal(plan, re, im, to_re, to_im, work);
  for (int64_t j = 0; j < plan.n; ++j) {  // a short signal uses only the first lane
    work[2 * L<T> * j] = re[j];
    work[2 * L<T> * j + L<T>] = im[j];
  }
  side_by_side(plan.whole, work, work + 2 * L<T> * plan.n);
  for (int64_t j = 0; j < plan.n; ++j) to_re[j] = work[2 * L<T> * j], to_im[j] = work[2 * L<T> * j + L<T>];
}

// ---- conversion between interleaved and planar complex numbers

template <class T>
void split(const T* numbers, T* re, T* im, int64_t n) {
  int64_t i = 0;
  for (; i + L<T> <= n; i += L<T>) {
    const Number<T> x = load_complex(numbers + 2 * i);
    store(re + i, x.re);
    store(im + i, x.im);
  }
  for (; i < n; ++i) re[i] = numbers[2 * i], im[i] = numbers[2 * i + 1];
}

template <class T>
void join(const T* re, const T* im, T* numbers, int64_t n, T scale_re, T scale_im) {
  int64_t i = 0;
  for (; i + L<T> <= n; i += L<T>) store_complex<T>(numbers + 2 * i, load(re + i) * scale_re, load(im + i) * scale_im);
  for (; i < n; ++i) numbers[2 * i] = re[i] * scale_re, numbers[2 * i + 1] = im[i] * scale_im;
}

template <class T>
void rows_to_lanes(const T* rows, int64_t pitch, T* data, int64_t n, bool exchanged) {
  constexpr int lanes = L<T>;
  const int first = exchanged ? lanes : 0, second = lanes - first;
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    V<T> re[lanes], im[lanes];
    for (int i = 0; i < lanes; ++i) {
      const Number<T> x = load_complex(rows + 2 * (i * pitch + j));
      re[i] = x.re, im[i] = x.im;
    }
    transpose(re);
    transpose(im);
    for (int i = 0; i < lanes; ++i) {
      store(data + 2 * lanes * (j + i) + first, re[i]);
      store(data + 2 * lanes * (j + i) + second, im[i]);
    }
  }
  for (; j < n; ++j)
    for (int i = 0; i < lanes; ++i) {
      data[2 * lanes * j + first + i] = rows[2 * (i * pitch + j)];
      data[2 * lanes * j + second + i] = rows[2 * (i * pitch + j) + 1];
    }
}

template <class T>
void lanes_to_rows(const T* data, T* rows, int64_t pitch, int64_t n, bool exchanged, T scale_re, T scale_im) {
  constexpr int lanes = L<T>;
  const int first = exchanged ? lanes : 0, second = lanes - first;
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    V<T> re[lanes], im[lanes];
    for (int i = 0; i < lanes; ++i) {
      re[i] = load(data + 2 * lanes * (j + i) + first) * scale_re;
      im[i] = load(data + 2 * lanes * (j + i) + second) * scale_im;
    }
    transpose(re);
    transpose(im);
    for (int i = 0; i < lanes; ++i) store_complex<T>(rows + 2 * (i * pitch + j), re[i], im[i]);
  }
  for (; j < n; ++j)
    for (int i = 0; i < lanes; ++i) {
      rows[2 * (i * pitch + j)] = data[2 * lanes * j + first + i] * scale_re;
      rows[2 * (i * pitch + j) + 1] = data[2 * lanes * j + second + i] * scale_im;
    }
}

// ---- real signals as complex signals of half the length

// Convert points k (ar, ai) and half - k (br, bi) of the half-length transform into the corresponding points of the
// transform of the real signal. Arguments are vectors or scalars.
template <class T, class X>
inline void pair(X& ar, X& ai, X& br, X& bi, X c, X s, T scale_re, T scale_im) {
  const X er = (ar + br) * scale_re, ei = (ai - bi) * scale_im, dr = (ar - br) * scale_re, di = (ai + bi) * scale_im;
  const X tr = c * di + s * dr, ti = s * di - c * dr;
  ar = er + tr, ai = ei + ti, br = er - tr, bi = ti - ei;
}

// Process points in pairs from both ends toward the middle, in whole vectors as long as the remaining points fill two
// of them.
template <class T>
void pairs(const HalfPlan<T>& plan, T* re, T* im, T scale_re, T scale_im) {
  const auto reversed = [](V<T> v) { return shuffle<[](int i) { return L<T> - 1 - i; }>(v, v); };
  int64_t k = 0;
  for (; 2 * (k + L<T>) <= plan.half; k += L<T>) {
    T *far_re = re + plan.half - k - L<T> + 1, *far_im = im + plan.half - k - L<T> + 1;
    V<T> ar = load(re + k), ai = load(im + k), br = reversed(load(far_re)), bi = reversed(load(far_im));
    pair<T>(ar, ai, br, bi, load(plan.re.data() + k), load(plan.im.data() + k), scale_re, scale_im);
    store(re + k, ar);
    store(im + k, ai);
    store(far_re, reversed(br));
    store(far_im, reversed(bi));
  }
  for (; 2 * k <= plan.half; ++k) {
    T ar = re[k], ai = im[k], br = re[plan.half - k], bi = im[plan.half - k];
    pair<T>(ar, ai, br, bi, plan.re[k], plan.im[k], scale_re, scale_im);
    re[plan.half - k] = br, im[plan.half - k] = bi, re[k] = ar, im[k] = ai;
  }
}

template <class T>
void pairs_of_lanes(const HalfPlan<T>& plan, T* data, T scale_re, T scale_im) {
  const Lanes<T> lanes{data};
  for (int64_t k = 0; 2 * k <= plan.half; ++k) {
    const int64_t near = lanes.pitch() * k, far = lanes.pitch() * (plan.half - k);
    Number<T> a = lanes.get(near), b = lanes.get(far);
    pair<T>(a.re, a.im, b.re, b.im, plan.re[k] - V<T>{}, plan.im[k] - V<T>{}, scale_re, scale_im);
    lanes.put(far, b.re, b.im);
    lanes.put(near, a.re, a.im);
  }
}

template <class T>
constexpr FourierFunctions<T> functions{
    .lanes = L<T>,
    .signal = signal<T>,
    .complex_signal = complex_signal<T>,
    .side_by_side = side_by_side<T>,
    .columns = columns<T>,
    .split = split<T>,
    .join = join<T>,
    .rows_to_lanes = rows_to_lanes<T>,
    .lanes_to_rows = lanes_to_rows<T>,
    .pairs = pairs<T>,
    .pairs_of_lanes = pairs_of_lanes<T>,
};

}  // namespace

constinit const FourierFunctions<float> fourier_float = functions<float>;
constinit const FourierFunctions<double> fourier_double = functions<double>;

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
