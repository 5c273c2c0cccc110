// Packed float and double matmuls: operand orders, sizes around tiles and blocks, and the tiles of every instruction
// set.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/matrix/gemm.h"
#include "backends/cpu/matrix/gemm_tiles.h"
#include "check.h"

using namespace mpsgraph::cpu;

namespace {

// Return random integers, for which sums are exact in any order.
template <class T>
std::vector<T> drawn(int64_t n) {
  static std::mt19937 generator(1);
  std::uniform_int_distribution<int> number(-8, 8);
  std::vector<T> result(static_cast<size_t>(n));
  for (T& x : result) x = static_cast<T>(number(generator));
  return result;
}

// View memory as a matrix whose row or column stride is three elements longer than a row or column.
template <class T>
Matrix<T> view(T* data, int64_t rows, int64_t columns, bool by_columns) {
  if (by_columns) return {data, rows, columns, 1, rows + 3};
  return {data, rows, columns, columns + 3, 1};
}
int64_t elements(int64_t rows, int64_t columns) { return (rows + 3) * (columns + 3); }

template <class T>
T at(const Matrix<T>& m, int64_t row, int64_t column) {
  return m.data[row * m.row_stride + column * m.column_stride];
}

// Count wrong elements, both in the product and between its rows, where memory must not change.
template <class T>
int64_t wrong(int64_t rows, int64_t steps, int64_t columns, int orders, bool accumulate) {
  const std::vector<T> a = drawn<T>(elements(rows, steps)), b = drawn<T>(elements(steps, columns)),
                       before = drawn<T>(elements(rows, columns));
  std::vector<T> after = before;
  const auto left = view(a.data(), rows, steps, orders & 1), right = view(b.data(), steps, columns, orders & 2);
  const auto result = view(after.data(), rows, columns, orders & 4);
  gemm<T>(left, right, result, accumulate);
  std::vector<T> expected = before;
  const auto sums = view(expected.data(), rows, columns, orders & 4);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      T& sum = sums.data[row * sums.row_stride + column * sums.column_stride];
      if (!accumulate) sum = 0;
      for (int64_t step = 0; step < steps; ++step) sum += at(left, row, step) * at(right, step, column);
    }
  int64_t count = 0;
  for (size_t i = 0; i < after.size(); ++i) count += after[i] != expected[i];
  return count;
}

template <class T>
int64_t wrong_in_tile(const GemmTiles<T>& tiles) {
  constexpr int64_t steps = 5;
  const std::vector<T> a = drawn<T>(steps * tiles.rows), b = drawn<T>(steps * tiles.columns);
  int64_t count = 0;
  for (const bool accumulate : {false, true}) {
    std::vector<T> tile(static_cast<size_t>(tiles.rows * tiles.columns), 7);
    tiles.multiply(steps, a.data(), b.data(), tile.data(), tiles.columns, accumulate);
    for (int64_t row = 0; row < tiles.rows; ++row)
      for (int64_t column = 0; column < tiles.columns; ++column) {
        T sum = accumulate ? 7 : 0;
        for (int64_t step = 0; step < steps; ++step)
          sum +=
              a[static_cast<size_t>(step * tiles.rows + row)] * b[static_cast<size_t>(step * tiles.columns + column)];
        count += tile[static_cast<size_t>(row * tiles.columns + column)] != sum;
      }
  }
  return count;
}

constexpr int64_t sizes[][3] = {{1, 1, 1},   {1, 5, 40},     {8, 128, 32},   {7, 127, 31},  {9, 129, 33},
                                {96, 3, 16}, {97, 256, 512}, {13, 130, 513}, {200, 7, 530}, {193, 300, 1030}};

}  // namespace

TEST(products_are_exact_for_every_operand_order) {
  for (const auto& [rows, steps, columns] : sizes)
    for (int orders = 0; orders < 8; ++orders)
      for (const bool accumulate : {false, true}) {
        CHECK_EQUAL(wrong<float>(rows, steps, columns, orders, accumulate), 0);
        CHECK_EQUAL(wrong<double>(rows, steps, columns, orders, accumulate), 0);
      }
}

TEST(empty_inner_dimension_gives_zero_or_adds_nothing) {
  for (int orders = 0; orders < 8; ++orders) {
    CHECK_EQUAL(wrong<double>(5, 0, 9, orders, false), 0);
    CHECK_EQUAL(wrong<double>(5, 0, 9, orders, true), 0);
    CHECK_EQUAL(wrong<double>(0, 4, 9, orders, false), 0);
    CHECK_EQUAL(wrong<double>(5, 4, 0, orders, false), 0);
  }
}

TEST(nan_and_inf_affect_only_their_row_and_column) {
  std::vector<double> a(20 * 11, 1), b(11 * 21, 1), c(20 * 21);
  a[3 * 11 + 5] = std::numeric_limits<double>::quiet_NaN(), b[10 * 21 + 20] = std::numeric_limits<double>::infinity();
  gemm<double>({a.data(), 20, 11, 11, 1}, {b.data(), 11, 21, 21, 1}, {c.data(), 20, 21, 21, 1});
  for (int64_t row = 0; row < 20; ++row)
    for (int64_t column = 0; column < 21; ++column) {
      const double x = c[static_cast<size_t>(row * 21 + column)];
      CHECK(row == 3 ? std::isnan(x) : column == 20 ? std::isinf(x) : x == 11);
    }
}

TEST(elements_are_bitwise_equal_in_any_block) {
  std::mt19937 generator(2);
  std::normal_distribution<double> number;
  std::vector<double> a(50 * 300), b(300 * 70), whole(50 * 70), part(11 * 23);
  for (double& x : a) x = number(generator);
  for (double& x : b) x = number(generator);
  const Matrix<const double> left{a.data(), 50, 300, 300, 1}, right{b.data(), 300, 70, 70, 1};
  gemm<double>(left, right, {whole.data(), 50, 70, 70, 1});
  gemm<double>(left.block(30, 0, 11, 300), right.block(0, 41, 300, 23), {part.data(), 11, 23, 23, 1});
  for (size_t row = 0; row < 11; ++row)
    for (size_t column = 0; column < 23; ++column)
      CHECK(part[row * 23 + column] == whole[(30 + row) * 70 + 41 + column]);
}

TEST(tiles_of_every_instruction_set_are_exact) {
  CHECK_EQUAL(wrong_in_tile(baseline::gemm_tiles_float) + wrong_in_tile(baseline::gemm_tiles_double), 0);
#if defined(__x86_64__)
  if (instruction_set() != "baseline")
    CHECK_EQUAL(wrong_in_tile(avx2::gemm_tiles_float) + wrong_in_tile(avx2::gemm_tiles_double), 0);
  if (instruction_set() == "AVX-512")
    CHECK_EQUAL(wrong_in_tile(avx512::gemm_tiles_float) + wrong_in_tile(avx512::gemm_tiles_double), 0);
#endif
}
