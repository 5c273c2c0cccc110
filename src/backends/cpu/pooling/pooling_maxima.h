// Loops that find maxima and their first positions, for the kernels of maximum pooling.
//
// NaN counts as larger than everything, and the first NaN is the first maximum. float32 uses pooling_float.h; other
// types use the generic loops here, half precision in float.
#pragma once

#include "backends/cpu/pooling/pooling.h"
#include "backends/cpu/pooling/pooling_float.h"

namespace mpsgraph::cpu {

// For each i below n, set m[i] to x[i * stride] if this element is NaN or larger than m[i].
template <class T>
void take_larger(const T* x, int64_t stride, int64_t n, Value<T>* m) {
  if constexpr (std::is_same_v<T, float>) {
    float_pooling().take_larger(x, stride, n, m);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const Value<T> v = x[i * stride];
      m[i] = ((v > m[i]) | (v != v)) ? v : m[i];
    }
  }
}

// Like take_larger, and also set at[i] to index + i * step if m[i] changes. If at[i] is negative, the element is taken
// in any case.
template <class T>
void take_first_larger(const T* x, int64_t stride, int64_t n, int64_t index, int64_t step, Value<T>* m, int32_t* at) {
  const auto first = static_cast<int32_t>(index), by = static_cast<int32_t>(step);
  if constexpr (std::is_same_v<T, float>) {
    float_pooling().take_first_larger(x, stride, n, first, by, m, at);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const Value<T> v = x[i * stride];
      const bool better = (v > m[i]) | ((v != v) & (m[i] == m[i])) | (at[i] < 0);
      m[i] = better ? v : m[i];
      at[i] = better ? first + static_cast<int32_t>(i) * by : at[i];
    }
  }
}

// How the position of a maximum is stored: as an element number within the plane, or as a tap index within the window.
enum class Place { element, tap };

// The maxima of up to pooling_tile windows, and the positions of the maxima. If all taps of a window are outside the
// source, the maximum is the lowest value and the position is -1.
template <class T>
struct MaximaTile {
  Value<T> m[pooling_tile];
  int32_t at[pooling_tile];

  void clear(int64_t n) {
    std::fill(m, m + n, -std::numeric_limits<Value<T>>::infinity());
    std::fill(at, at + n, -1);
  }
  // Compute the maxima for positions [begin, begin + n) of a row of the result, for plans with a single lane.
  template <Place place>
  void row(const PoolingPlan& p, const T* plane, const RowPosition& row, int64_t begin, int64_t n) {
    clear(n);
    if (p.few_long_windows()) return long_windows<place>(p, plane, row, begin, n);
    const int64_t stride = p.windows[3].stride;
    for_row_taps(p, row, begin, begin + n, [&](int64_t tap, int64_t first, int64_t last, int64_t element) {
      const int64_t i = first - begin;
      if constexpr (place == Place::element)
        take_first_larger(plane + element, stride, last - first, element, stride, m + i, at + i);
      else
        take_first_larger(plane + element, stride, last - first, tap, 0, m + i, at + i);
    });
  }
  // Compute the maxima for lanes [lane, lane + n) of one position of the result. Elements are numbered relative to lane
  // 0.
  template <Place place>
  void lanes(const PoolingPlan& p, const T* plane, const RowPosition& row, int64_t position, int64_t lane, int64_t n) {
    if constexpr (std::is_same_v<T, float>) {
      if (first_of_few<place>(p, plane, row, position, lane, n)) return;
    }
    clear(n);
    for_taps(p, row, position, [&](int64_t tap, int64_t element) {
      take_first_larger(plane + element + lane, 1, n, place == Place::element ? element : tap, 0, m, at);
    });
  }

 private:
  template <Place place>
  void long_windows(const PoolingPlan& p, const T* plane, const RowPosition& row, int64_t begin, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const ops::PoolingTaps& in = p.inside[3][static_cast<size_t>(begin + i)];
      for_outer_taps(p, row, [&](int64_t tap, int64_t element) {
        element += p.windows[3].at(begin + i, in.first);
        for (int64_t k = 0; k < in.count; ++k) {
          const Value<T> v = plane[element + k];
          if (!((v > m[i]) | ((v != v) & (m[i] == m[i])) | (at[i] < 0))) continue;
          m[i] = v;
          at[i] = static_cast<int32_t>(place == Place::element ? element + k : tap + in.first + k);
        }
      });
    }
  }
  // Compute the maxima with the vector loops of pooling_float.h. Return false if the window has no taps inside the
  // source, or more than fit in registers.
  template <Place place>
  bool first_of_few(const PoolingPlan& p, const float* plane, const RowPosition& row, int64_t position, int64_t lane,
                    int64_t n) {
    if (p.taps() > FloatPooling::max_taps) return false;
    int64_t offsets[FloatPooling::max_taps], taps = 0;
    int32_t places[FloatPooling::max_taps];
    for_taps(p, row, position, [&](int64_t tap, int64_t element) {
      places[taps] = static_cast<int32_t>(place == Place::element ? element : tap);
      offsets[taps++] = element;
    });
    if (taps == 0) return false;
    float_pooling().first_maxima(plane + lane, offsets, taps, n, m, at);
    for (int64_t i = 0; i < n; ++i) at[i] = places[at[i]];
    return true;
  }
};

// Call f(first, n, lane, tile) for tiles of maxima that cover the positions of one row, or lanes [begin, end) of each
// position. `first` is the element of the result's plane at which the tile begins, and `lane` is its first lane.
template <Place place, class T, class F>
void for_maxima(const PoolingPlan& p, const T* plane, int64_t row, int64_t begin, int64_t end, const F& f) {
  const RowPosition at = row_position(p, row);
  MaximaTile<T> tile;
  if (p.lanes == 1) {
    for (int64_t i = 0; i < p.row(); i += pooling_tile) {
      const int64_t n = std::min(pooling_tile, p.row() - i);
      tile.template row<place>(p, plane, at, i, n);
      f(row * p.row() + i, n, 0, tile);
    }
    return;
  }
  for (int64_t position = 0; position < p.row(); ++position)
    for (int64_t lane = begin; lane < end; lane += pooling_tile) {
      const int64_t n = std::min(pooling_tile, end - lane);
      tile.template lanes<place>(p, plane, at, position, lane, n);
      f((row * p.row() + position) * p.lanes + lane, n, lane, tile);
    }
}

}  // namespace mpsgraph::cpu
