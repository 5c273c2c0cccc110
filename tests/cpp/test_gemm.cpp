// Packed float and double matmuls: operand orders, sizes around tiles and blocks, the tiles of every instruction set,
// and the matmul kernel with batches, transposes, and epilogues.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/matrix/accelerate_product.h"
#include "backends/cpu/matrix/gemm.h"
#include "backends/cpu/matrix/packed_product.h"
#include "kernel_harness.h"

using namespace mpsgraph;
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

// Count wrong elements, both in the product and between its rows, where memory must not change.
template <class T>
int64_t wrong(int64_t rows, int64_t steps, int64_t columns, int orders, bool accumulate, bool panels = false) {
  const std::vector<T> a = drawn<T>(elements(rows, steps)), b = drawn<T>(elements(steps, columns)),
                       before = drawn<T>(elements(rows, columns));
  std::vector<T> after = before;
  const auto left = view(a.data(), rows, steps, orders & 1), right = view(b.data(), steps, columns, orders & 2);
  const auto result = view(after.data(), rows, columns, orders & 4);
  if (panels) {
    const GemmPanels<T> packer(steps, columns);
    std::vector<T> packed(static_cast<size_t>(packer.elements()));
    for (int64_t i = 0; i < packer.pieces(); ++i) packer.pack(right, i, packed.data());
    packer.multiply(left, packed.data(), result);
  } else {
    gemm<T>(left, right, result, accumulate);
  }
  std::vector<T> expected = before;
  const auto sums = view(expected.data(), rows, columns, orders & 4);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      T& sum = sums.at(row, column);
      if (!accumulate) sum = 0;
      for (int64_t step = 0; step < steps; ++step) sum += left.at(row, step) * right.at(step, column);
    }
  int64_t count = 0;
  for (size_t i = 0; i < after.size(); ++i) count += after[i] != expected[i];
  return count;
}

template <class T>
int64_t wrong_in_tile(const GemmTiles<T>& tiles, int rows, int vectors, bool by_rows, bool accumulate, bool epilogue) {
  constexpr int64_t steps = 5;
  const int64_t row_stride = by_rows ? steps : 1, step_stride = by_rows ? 1 : tiles.rows;
  const std::vector<T> a = drawn<T>(steps * tiles.rows), b = drawn<T>(steps * tiles.columns),
                       bias = drawn<T>(tiles.columns), before = drawn<T>(tiles.rows * tiles.columns),
                       residual = drawn<T>(tiles.rows * tiles.columns);
  std::vector<T> tile = before;
  tiles.multiply(rows, vectors, steps, a.data(), row_stride, step_stride, b.data(), tile.data(), tiles.columns,
                 accumulate, epilogue ? GemmEpilogue<T>{bias.data(), residual.data(), true} : GemmEpilogue<T>{});
  int64_t count = 0;
  for (int64_t row = 0; row < tiles.rows; ++row)
    for (int64_t column = 0; column < tiles.columns; ++column) {
      const auto i = static_cast<size_t>(row * tiles.columns + column);
      T sum = accumulate ? before[i] : 0;
      for (int64_t step = 0; step < steps; ++step)
        sum += a[static_cast<size_t>(step * step_stride + row * row_stride)] *
               b[static_cast<size_t>(step * tiles.columns + column)];
      if (epilogue) sum = std::max<T>(0, sum + bias[static_cast<size_t>(column)] + residual[i]);
      if (row >= rows || column >= vectors * tiles.lanes) sum = before[i];
      count += tile[i] != sum;
    }
  return count;
}

// Count wrong elements of the tiles of all sizes.
template <class T>
int64_t wrong_in_tiles(const GemmTiles<T>& tiles) {
  CHECK(tiles.rows <= most_gemm_rows && tiles.columns <= most_gemm_columns && tiles.steps <= most_gemm_steps);
  CHECK_EQUAL(tiles.columns % tiles.lanes, 0);
  int64_t count = 0;
  for (int rows = 1; rows <= tiles.rows; ++rows)
    for (int vectors = 1; vectors <= tiles.columns / tiles.lanes; ++vectors)
      for (const bool by_rows : {false, true})
        for (const bool accumulate : {false, true})
          for (const bool epilogue : {false, true})
            count += wrong_in_tile(tiles, rows, vectors, by_rows, accumulate, epilogue);
  return count;
}

// Count wrong elements of packed rows and columns, of which some are missing.
template <class T>
int64_t wrong_in_packed(const GemmTiles<T>& tiles) {
  constexpr int64_t steps = 37;
  int64_t wrong = 0;
  for (const bool by_rows : {false, true})
    for (const bool contiguous_steps : {false, true}) {
      const int64_t width = by_rows ? tiles.rows : tiles.columns;
      const int64_t stride = contiguous_steps ? steps + 3 : 1, step_stride = contiguous_steps ? 1 : width + 3;
      const std::vector<T> from = drawn<T>((steps + 3) * (width + 3));
      for (int64_t count = 1; count <= width; ++count) {
        std::vector<T> packed(static_cast<size_t>(steps * width + 1), 7);
        (by_rows ? tiles.pack_rows : tiles.pack_columns)(from.data(), count, stride, step_stride, steps, packed.data());
        for (int64_t step = 0; step < steps; ++step)
          for (int64_t i = 0; i < width; ++i) {
            const T expected = i < count ? from[static_cast<size_t>(i * stride + step * step_stride)] : T(0);
            wrong += packed[static_cast<size_t>(step * width + i)] != expected;
          }
        wrong += packed.back() != 7;
      }
    }
  return wrong;
}

constexpr int64_t sizes[][3] = {{1, 1, 1},      {1, 5, 40},    {8, 128, 32},    {7, 127, 31},
                                {9, 129, 33},   {96, 3, 16},   {97, 256, 512},  {5, 300, 200},
                                {13, 130, 513}, {200, 7, 530}, {193, 300, 1030}};

}  // namespace

TEST(products_are_exact_for_every_operand_order) {
  for (const auto& [rows, steps, columns] : sizes)
    for (int orders = 0; orders < 8; ++orders)
      for (const bool accumulate : {false, true}) {
        CHECK_EQUAL(wrong<float>(rows, steps, columns, orders, accumulate), 0);
        CHECK_EQUAL(wrong<double>(rows, steps, columns, orders, accumulate), 0);
      }
}

TEST(packed_panels_are_exact_for_every_operand_order) {
  for (const auto& [rows, steps, columns] : sizes)
    for (int orders = 0; orders < 8; ++orders) {
      CHECK_EQUAL(wrong<float>(rows, steps, columns, orders, false, true), 0);
      CHECK_EQUAL(wrong<double>(rows, steps, columns, orders, false, true), 0);
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

template <class T>
void check_equal_blocks() {
  constexpr int64_t rows = 50, steps = 600, columns = 130;
  std::mt19937 generator(2);
  std::normal_distribution<T> number;
  std::vector<T> a(rows * steps), b(steps * columns), bias(columns), residual(rows * columns), whole(rows * columns);
  for (auto* values : {&a, &b, &bias, &residual})
    for (T& x : *values) x = number(generator);
  const Matrix<const T> left{a.data(), rows, steps, steps, 1}, right{b.data(), steps, columns, columns, 1};
  gemm<T>(left, right, {whole.data(), rows, columns, columns, 1}, false, {bias.data(), residual.data(), true});
  // blocks with many rows and columns, few rows, few columns, and few of both
  for (const auto& [height, width] : {std::pair{40, 120}, {3, 120}, {11, 23}, {3, 5}}) {
    std::vector<T> part(static_cast<size_t>(rows * columns));  // has the row stride of the residual
    const int64_t row = 7, column = 4;
    gemm<T>(left.block(row, 0, height, steps), right.block(0, column, steps, width),
            {part.data(), height, width, columns, 1}, false,
            {bias.data() + column, residual.data() + row * columns + column, true});
    int64_t different = 0;
    for (int64_t r = 0; r < height; ++r)
      for (int64_t i = 0; i < width; ++i)
        different +=
            part[static_cast<size_t>(r * columns + i)] != whole[static_cast<size_t>((row + r) * columns + column + i)];
    CHECK_EQUAL(different, 0);
  }
}

TEST(elements_are_bitwise_equal_in_any_block) {
  check_equal_blocks<float>();
  check_equal_blocks<double>();
}

template <class T>
int64_t wrong_in_all(const GemmTiles<T>& tiles) {
  return wrong_in_tiles(tiles) + wrong_in_packed(tiles);
}

TEST(tiles_of_every_instruction_set_are_exact) {
#if defined(__x86_64__)
  CHECK_EQUAL(wrong_in_all(baseline::gemm_tiles_float) + wrong_in_all(baseline::gemm_tiles_double), 0);
  if (instruction_set() != "baseline")
    CHECK_EQUAL(wrong_in_all(avx2::gemm_tiles_float) + wrong_in_all(avx2::gemm_tiles_double), 0);
  if (instruction_set() == "AVX-512")
    CHECK_EQUAL(wrong_in_all(avx512::gemm_tiles_float) + wrong_in_all(avx512::gemm_tiles_double), 0);
#else
  CHECK_EQUAL(wrong_in_all(gemm_tiles_float()) + wrong_in_all(gemm_tiles_double()), 0);
#endif
}

// --- matmul kernels --------------------------------------------------------------------------------------------------

struct Sizes {
  Dims batch_of_left, batch_of_right;
  int64_t rows, steps, columns;
};

Dims matrix_dims(Dims batch, int64_t rows, int64_t columns, bool transposed) {
  batch.push_back(transposed ? columns : rows), batch.push_back(transposed ? rows : columns);
  return batch;
}

using MakeProduct = std::unique_ptr<Kernel>(Lowering&, const ProductEpilogue&);

// Run a product on random integers, and compare every element. Return the kernel's description.
template <class T>
std::string check_product(const Sizes& sizes, bool transpose_a, bool transpose_b, bool constant, bool epilogue,
                          MakeProduct make) {
  constexpr DType dtype = sizeof(T) == 4 ? DType::float32 : DType::float64;
  const auto [of_left, of_right, rows, steps, columns] = sizes;
  const Dims left = matrix_dims(of_left, rows, steps, transpose_a),
             right = matrix_dims(of_right, steps, columns, transpose_b);
  const std::vector<T> a = drawn<T>(element_count(left)), b = drawn<T>(element_count(right)), bias = drawn<T>(columns);
  Graph graph;
  std::vector<kernels::Array> arrays;
  const auto add = [&](const Dims& dims, const std::vector<T>& values) {
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    arrays.push_back({dtype, dims, std::vector(bytes, bytes + values.size() * sizeof(T))});
    return graph.add("constant", {}, {{"value", ConstantData::copy(dtype, dims, values.data())}});
  };
  Attributes attributes;
  attributes.set("transpose_a", transpose_a), attributes.set("transpose_b", transpose_b);
  attributes.set("has_bias", epilogue), attributes.set("has_residual", epilogue);
  attributes.set("activation", std::string(epilogue ? "relu" : "none"));
  Dims result = of_left.size() > of_right.size() ? of_left : of_right;
  for (size_t i = 1; i <= std::min(of_left.size(), of_right.size()); ++i)
    result[result.size() - i] = std::max(of_left[of_left.size() - i], of_right[of_right.size() - i]);
  const Dims batch = result;
  result.push_back(rows), result.push_back(columns);
  const std::vector<T> residual = drawn<T>(element_count(result));
  std::vector<Tensor*> inputs{add(left, a), add(right, b)};
  if (epilogue) inputs.push_back(add({columns}, bias)), inputs.push_back(add(result, residual));
  const Operation* operation = graph.create("fused_matrix_multiplication", inputs, std::move(attributes));
  kernels::HarnessLowering lowering(*operation, false, constant);
  const auto kernel = make(lowering, epilogue ? ProductEpilogue{2, 3, true} : ProductEpilogue{});
  const std::vector<kernels::Array> results = kernels::run_kernel(*kernel, lowering, arrays);
  CHECK(results[0].dims == result);
  const auto* c = reinterpret_cast<const T*>(results[0].bytes.data());
  int64_t wrong = 0;
  // Return the index of an operand's matrix for one product.
  const auto index_of = [&](const Dims& dims, int64_t which) {
    int64_t index = 0, scale = 1;
    for (size_t i = batch.size(); i-- > 0; which /= batch[i]) {
      const size_t missing = batch.size() - dims.size();
      if (i < missing) continue;
      index += dims[i - missing] == 1 ? 0 : which % batch[i] * scale;
      scale *= dims[i - missing];
    }
    return index;
  };
  for (int64_t which = 0; which < element_count(batch); ++which) {
    const T *of_x = a.data() + index_of(of_left, which) * rows * steps,
            *of_y = b.data() + index_of(of_right, which) * steps * columns;
    const Matrix<const T> x{of_x, rows, steps, transpose_a ? 1 : steps, transpose_a ? rows : 1},
        y{of_y, steps, columns, transpose_b ? 1 : columns, transpose_b ? steps : 1};
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        const auto i = static_cast<size_t>((which * rows + row) * columns + column);
        T sum = epilogue ? bias[static_cast<size_t>(column)] + residual[i] : T(0);
        for (int64_t step = 0; step < steps; ++step) sum += x.at(row, step) * y.at(step, column);
        wrong += c[i] != (epilogue ? std::max<T>(0, sum) : sum);
      }
  }
  CHECK_EQUAL(wrong, 0);
  return kernel->description();
}

template <class T>
void check_products(const Sizes& sizes, const std::string& expected, bool constant = false, bool epilogue = false,
                    MakeProduct make = packed_product) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true}) {
      const std::string description = check_product<T>(sizes, transpose_a, transpose_b, constant, epilogue, make);
      if (description.find(expected) == std::string::npos) CHECK_EQUAL(description, expected);
    }
}

TEST(products_are_exact_with_every_division) {
  for (const bool epilogue : {false, true}) {
    check_products<float>({{}, {}, 5, 3, 7}, "packed matmul, 1 blocks", false, epilogue);
    check_products<float>({{}, {}, 65, 131, 37}, "packed matmul, ", false, epilogue);
    check_products<double>({{}, {}, 61, 300, 67}, "packed matmul, ", false, epilogue);
    check_products<float>({{}, {}, 7, 300, 203}, "packed matmul, ", false, epilogue);
    check_products<float>({{}, {}, 203, 300, 7}, "packed matmul, ", false, epilogue);
    check_products<float>({{}, {}, 129, 300, 65}, "packed once", true, epilogue);
    check_products<double>({{2}, {3, 1}, 33, 70, 21}, "packed once", true, epilogue);
    check_products<float>({{3, 2}, {2}, 33, 70, 21}, "packed matmul, ", false, epilogue);
    check_products<float>({{1, 4}, {3, 1}, 7, 9, 50}, "packed matmul, ", false, epilogue);
  }
  check_products<float>({{}, {}, 700, 300, 290}, "packed matmul, ");
  check_products<double>({{}, {}, 301, 270, 101}, "packed matmul, ");
}

// What a CBLAS library computes, for the kernel that calls one.
void plain_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a, int lda,
                 const float* b, int ldb, float beta, float* c, int ldc) {
  CHECK(order == 101 && alpha == 1 && beta == 0);
  for (int row = 0; row < m; ++row)
    for (int column = 0; column < n; ++column) {
      float sum = 0;
      for (int step = 0; step < k; ++step)
        sum += (transpose_a == 112 ? a[step * lda + row] : a[row * lda + step]) *
               (transpose_b == 112 ? b[column * ldb + step] : b[step * ldb + column]);
      c[row * ldc + column] = sum;
    }
}
std::unique_ptr<Kernel> product_of_library(Lowering& lowering, const ProductEpilogue& extras) {
  return library_product(lowering, extras, plain_sgemm);
}

TEST(products_of_a_library_are_exact) {
  for (const bool epilogue : {false, true}) {
    check_products<float>({{}, {}, 5, 3, 7}, "sgemm", false, epilogue, product_of_library);
    check_products<float>({{3, 2}, {2}, 33, 70, 21}, "sgemm", false, epilogue, product_of_library);
  }
}
