// The Winograd matrices of F(m, r), computed at compile time from the points at which polynomials are evaluated (Toom
// and Cook).
//
// Source and weights are treated as polynomials, which are evaluated at these points and multiplied point by point. The
// last point is infinity; the other points are short binary fractions, ordered by their cost in accuracy (Barabasz,
// Anderson, Soodhalter and Gregg, arXiv:1803.10986).
#pragma once

#include <array>

namespace mpsgraph::cpu {

template <int Rows, int Columns>
struct WinogradMatrix {
  std::array<std::array<float, Columns>, Rows> at{};

  constexpr WinogradMatrix<Columns, Rows> transposed() const {
    WinogradMatrix<Columns, Rows> made;
    for (int i = 0; i < Rows; ++i)
      for (int j = 0; j < Columns; ++j) made.at[j][i] = at[i][j];
    return made;
  }
};

inline constexpr double winograd_points[] = {0, -1, 1, 0.5, -2, 2};

// Return the evaluation matrix: one row [1, p, p², ...] for each finite point p, and a row that selects the highest
// power for the point at infinity. If `divided`, each row is divided by the product of the distances from its point to
// the other points.
template <int Points, int Powers>
constexpr WinogradMatrix<Points, Powers> winograd_evaluation(bool divided) {
  WinogradMatrix<Points, Powers> made;
  for (int i = 0; i + 1 < Points; ++i) {
    double power = 1;
    for (int j = 0; divided && j + 1 < Points; ++j)
      if (j != i) power /= winograd_points[i] - winograd_points[j];
    for (int k = 0; k < Powers; ++k, power *= winograd_points[i]) made.at[i][k] = static_cast<float>(power);
  }
  made.at[Points - 1][Powers - 1] = 1;
  return made;
}

// Return the interpolation matrix, whose rows are the coefficients of the product of (x - q) over all finite points q
// except the row's own point.
template <int Points>
constexpr WinogradMatrix<Points, Points> winograd_interpolation() {
  WinogradMatrix<Points, Points> made;
  for (int i = 0; i < Points; ++i) {
    std::array<double, Points> product{1};
    for (int j = 0; j + 1 < Points; ++j) {
      if (j == i) continue;
      for (int k = Points - 1; k >= 0; --k) product[k] = (k > 0 ? product[k - 1] : 0) - winograd_points[j] * product[k];
    }
    for (int k = 0; k < Points; ++k) made.at[i][k] = static_cast<float>(product[k]);
  }
  return made;
}

// The matrices of F(m, r), named as in arXiv:1509.09308.
template <int Results, int Taps>
struct WinogradMatrices {
  static constexpr int points = Results + Taps - 1;
  static_assert(points - 1 <= static_cast<int>(std::size(winograd_points)));
  static constexpr auto source = winograd_interpolation<points>();  // Bᵀ
  static constexpr auto weights = winograd_evaluation<points, Taps>(true);  // G
  static constexpr auto weights_gradient = weights.transposed();  // Gᵀ
  static constexpr auto incoming = winograd_evaluation<points, Results>(false);  // A
  static constexpr auto result = incoming.transposed();  // Aᵀ
};

}  // namespace mpsgraph::cpu
