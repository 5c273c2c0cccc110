// Loops of row_tiles.h.
//
// Rows of a large matrix are far apart, so a walk down a column touches a new page per row. weighted_sum() therefore
// takes a few rows at a time, and walks along them while their pages stay in the translation buffer; the sums, which
// are as long as a row, stay in the nearest cache. dots() takes a few rows at a time, too: the hardware prefetcher
// stops at the end of a page, so a walk along a single row would wait at each page. Software prefetches instead took
// longer on all processors measured.
#include "backends/cpu/matrix/row_tiles.h"

#include "backends/cpu/simd.h"

namespace mpsgraph::cpu::MPSGRAPH_ISA {
namespace {

constexpr int64_t width = lanes<float>;
constexpr int columns = 4;  // vectors of a row that are summed together
constexpr int64_t rows_at_once = 8;  // in weighted_sum()
constexpr int streams = 4, chains = 2;  // in dots()

template <class T>
constexpr bool is_byte = sizeof(T) == 1;

// The elements from `from` on as floats: a whole vector, or the first n.
template <class T>
[[gnu::always_inline]] inline Floats floats_at(const T* from) {
  if constexpr (!is_byte<T>) {
    return load(from);
  } else {
#if MPSGRAPH_VECTOR_BYTES == 64  // g++ 12 converts vectors of bytes in many instructions
    const auto bytes = load_as<__m128i>(from);
    return to_float((Ints)(std::is_signed_v<T> ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes)));
#elif MPSGRAPH_VECTOR_BYTES == 32
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return to_float((Ints)(std::is_signed_v<T> ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes)));
#else
    return __builtin_convertvector(load_as<Vector<T, width>>(from), Floats);
#endif
  }
}
template <class T>
inline Floats floats_at(const T* from, int64_t n) {
  if constexpr (!is_byte<T>) {
    return load(from, n);
  } else {
    T there[width] = {};
    std::memcpy(there, from, static_cast<size_t>(n));
    return floats_at(there);
  }
}

// Which parameters elements have.
enum class Form : uint8_t { plain, scaled, shifted };

// What the elements stand for. The parameters of `plain` elements, and the zero of `scaled` ones, are not used.
template <Form form>
[[gnu::always_inline]] inline Floats decoded(Floats elements, Floats zero, Floats scale) {
  if constexpr (form == Form::shifted) elements = elements - zero;
  if constexpr (form != Form::plain) elements = elements * scale;
  return elements;
}

// Calls `run` with the form as a constant.
template <class T, class Run>
void by_form(const RowParameters& parameters, Run run) {
  if constexpr (is_byte<T>) {
    if (parameters.zeros) return run(std::integral_constant<Form, Form::shifted>{});
  }
  if constexpr (!std::is_same_v<T, float>) {
    if (parameters.scales) return run(std::integral_constant<Form, Form::scaled>{});
  }
  run(std::integral_constant<Form, Form::plain>{});
}

// One number per element of the result, or `otherwise` for all of them.
template <class... N>
[[gnu::always_inline]] inline Floats load_or(const float* from, int64_t i, float otherwise, N... n) {
  return from ? load(from + i, n...) : splat(otherwise);
}

template <Form form, class T>
void add_rows(float* sums, const float* factors, const T* rows, const RowParameters& parameters, int64_t step,
              int64_t stride, int64_t count, int64_t n, bool onto) {
  int64_t j = 0;
  for (; j + columns * width <= n; j += columns * width) {
    Floats even[columns], odd[columns] = {}, zeros[columns] = {}, scales[columns] = {};
    for (int c = 0; c < columns; ++c) {
      even[c] = onto ? load(sums + j + c * width) : Floats{};
      if (form == Form::shifted) zeros[c] = load(parameters.zeros + j + c * width);
      if (form != Form::plain) scales[c] = load_or(parameters.scales, j + c * width, 1.0f);
    }
    const auto add = [&](Floats& sum, int64_t i, int c) {
      const Floats elements = floats_at(rows + i * step * stride + j + c * width);
      sum = multiply_add(decoded<form>(elements, zeros[c], scales[c]), splat(factors[i * step]), sum);
    };
    int64_t i = 0;
    for (; i + 2 <= count; i += 2)
      for (int c = 0; c < columns; ++c) add(even[c], i, c), add(odd[c], i + 1, c);
    if (i < count)
      for (int c = 0; c < columns; ++c) add(even[c], i, c);
    for (int c = 0; c < columns; ++c) store(sums + j + c * width, even[c] + odd[c]);
  }
  const auto rest = [&](int64_t at, auto... left) {
    const Floats zero = load_or(parameters.zeros, at, 0.0f, left...);
    const Floats scale = load_or(parameters.scales, at, 1.0f, left...);
    Floats sum = onto ? load(sums + at, left...) : Floats{};
    for (int64_t i = 0; i < count; ++i) {
      const Floats elements = floats_at(rows + i * step * stride + at, left...);
      sum = multiply_add(decoded<form>(elements, zero, scale), splat(factors[i * step]), sum);
    }
    store(sums + at, sum, left...);
  };
  for (; j + width <= n; j += width) rest(j);
  if (j < n) rest(j, n - j);
}

template <class T>
void weighted_sum(float* sums, const float* factors, const void* from, RowParameters parameters, int64_t stride,
                  int64_t count, int64_t n) {
  const T* const rows = static_cast<const T*>(from);
  const int64_t step = count / rows_at_once, done = step * rows_at_once;
  by_form<T>(parameters, [&](auto form) {
    for (int64_t i = 0; i < step; ++i)
      add_rows<form()>(sums, factors + i, rows + i * stride, parameters, step, stride, rows_at_once, n, i > 0);
    if (done < count || count == 0)
      add_rows<form()>(sums, factors + done, rows + done * stride, parameters, 1, stride, count - done, n, done > 0);
  });
}

template <Form form, int rows, class T>
void dots_of(float* sums, const T* from, const RowParameters& parameters, const float* x, int64_t step, int64_t n) {
  Floats totals[rows][chains] = {}, zeros[rows] = {}, scales[rows] = {};
  for (int r = 0; r < rows; ++r) {
    if (form == Form::shifted) zeros[r] = splat(parameters.zeros[r * step]);
    if (form != Form::plain) scales[r] = splat(parameters.scales ? parameters.scales[r * step] : 1.0f);
  }
  const auto add = [&](int chain, int64_t i, auto... left) {
    const Floats factor = load(x + i, left...);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      Floats elements = decoded<form>(floats_at(from + r * step * n + i, left...), zeros[r], scales[r]);
      if constexpr (form != Form::plain && sizeof...(left) > 0) {  // other lanes may have become NaN
        float there[width];
        store(there, elements);
        elements = load(there, left...);
      }
      totals[r][chain] = multiply_add(elements, factor, totals[r][chain]);
    }
  };
  int64_t i = 0;
  for (; i + chains * width <= n; i += chains * width) {
#pragma GCC unroll 2
    for (int c = 0; c < chains; ++c) add(c, i + c * width);
  }
  if (i + width <= n) add(0, i), i += width;
  if (i < n) add(1, i, n - i);
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) sums[r * step] = sum_of(totals[r][0] + totals[r][1]);
}

template <class T>
void dots(float* sums, const void* from, RowParameters parameters, const float* x, int64_t count, int64_t n) {
  const T* const rows = static_cast<const T*>(from);
  const int64_t step = count / streams;
  by_form<T>(parameters, [&](auto form) {
    for (int64_t r = 0; r < step; ++r) dots_of<form(), streams>(sums + r, rows + r * n, parameters.from(r), x, step, n);
    for (int64_t r = step * streams; r < count; ++r)
      dots_of<form(), 1>(sums + r, rows + r * n, parameters.from(r), x, 1, n);
  });
}

template <class T>
constexpr RowLoops loops{weighted_sum<T>, dots<T>};

}  // namespace

constinit const RowTiles row_tiles{loops<float>, loops<Half>, loops<BFloat16>, loops<int8_t>, loops<uint8_t>};

}  // namespace mpsgraph::cpu::MPSGRAPH_ISA
