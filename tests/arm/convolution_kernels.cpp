// Compares the micro-kernels of convolutions by taps with plain loops, for every number of rows and columns of a tile.
// tests/arm/test_kernels.py compiles this file with the kernels, and runs it under qemu. The argument is the
// instruction set: neon or bf16. All numbers are small integers, so that results are exact.
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

#include "backends/cpu/convolution/convolution_tiles.h"

using namespace mpsgraph::cpu;

namespace {

std::mt19937 generator(1);
int failures = 0;

void expect(bool holds, const char* what, int64_t a, int64_t b) {
  if (!holds && ++failures < 20) std::printf("%s: wrong at %d, %d\n", what, static_cast<int>(a), static_cast<int>(b));
}
int drawn(int low, int high) { return std::uniform_int_distribution<int>(low, high)(generator); }
template <class T>
std::vector<T> drawn_numbers(int64_t count) {
  std::vector<T> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(T(static_cast<float>(drawn(-2, 2))));
  return numbers;
}
template <class T>
float at(const std::vector<T>& numbers, int64_t i) {
  return static_cast<float>(numbers[static_cast<size_t>(i)]);
}
template <class T>
std::vector<T*> rows_of(std::vector<T>& numbers, int64_t count, int64_t stride) {
  std::vector<T*> rows;
  for (int64_t r = 0; r < count; ++r) rows.push_back(numbers.data() + r * stride);
  return rows;
}

// Sum of the products of one step.
template <class F>
float product(const std::vector<F>& row, int64_t i, const std::vector<F>& panel, int64_t j, int64_t group) {
  float sum = 0;
  for (int64_t g = 0; g < group; ++g) sum += at(row, i + g) * at(panel, j + g);
  return sum;
}

template <class S, class F>
void check_multiply(const ConvolutionTiles<S, F>& tiles, int count, int width) {
  const int64_t group = tiles.group, columns = tiles.columns, first = drawn(1, 9), last = drawn(0, 9);
  const int64_t gap = drawn(0, 3), length = (first + last) * group + gap;
  auto a = drawn_numbers<F>(count * length), panel = drawn_numbers<F>((first + last) * columns * group);
  auto bias = drawn_numbers<S>(columns), residual = drawn_numbers<S>(count * columns);
  std::vector<S> out(static_cast<size_t>(count * columns), S(99.f));
  const TileRun runs[] = {{0, 0, first}, {first * group + gap, first, last}};
  TileEpilogue<S> epilogue;
  if (drawn(0, 1)) epilogue.bias = bias.data();
  if (drawn(0, 1))
    epilogue.residual = reinterpret_cast<const char*>(residual.data()) - reinterpret_cast<const char*>(out.data());
  epilogue.relu = drawn(0, 1) == 1;
  const auto rows = rows_of(a, count, length);
  tiles.multiply(count, rows.data(), runs, 2, panel.data(), rows_of(out, count, columns).data(), width, epilogue);
  for (int64_t r = 0; r < count; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      float sum = 0;
      for (int64_t s = 0; s < first + last; ++s)
        sum += product(a, r * length + s * group + (s < first ? 0 : gap), panel, (s * columns + c) * group, group);
      if (epilogue.bias) sum += at(bias, c);
      if (epilogue.residual) sum += at(residual, r * columns + c);
      if (epilogue.relu && sum < 0) sum = 0;
      expect(at(out, r * columns + c) == (c < width ? sum : 99.f), "multiply", r, c);
    }
}

template <class S, class F>
void check_add(const ConvolutionTiles<S, F>& tiles, int count, int width) {
  const int64_t group = tiles.group, columns = tiles.columns, steps = drawn(0, 11), length = steps * group;
  auto a = drawn_numbers<F>(count * length), panel = drawn_numbers<F>(steps * columns * group);
  auto sums = drawn_numbers<float>(count * columns), before = sums;
  const auto rows = rows_of(a, count, length);
  tiles.add(count, rows.data(), steps, panel.data(), rows_of(sums, count, columns).data());
  for (int64_t r = 0; r < count; ++r) {
    std::vector<S> out(static_cast<size_t>(columns), S(99.f));
    tiles.finish(sums.data() + r * columns, out.data(), width, {});
    for (int64_t c = 0; c < columns; ++c) {
      float sum = at(before, r * columns + c);
      for (int64_t s = 0; s < steps; ++s)
        sum += product(a, r * length + s * group, panel, (s * columns + c) * group, group);
      expect(at(sums, r * columns + c) == sum, "add", r, c);
      expect(at(out, c) == (c < width ? sum : 99.f), "finish", r, c);
    }
  }
}

template <class S, class F>
void check_multiply_plain(const ConvolutionTiles<S, F>& tiles, int count) {
  const int64_t columns = tiles.columns, steps = drawn(1, 11), stride = columns + drawn(0, 5);
  const auto a = drawn_numbers<F>(count * steps), matrix = drawn_numbers<F>(steps * stride);
  std::vector<float> sums(static_cast<size_t>(count * columns));
  tiles.multiply_plain(count, a.data(), steps, steps, matrix.data(), stride, true, sums.data());
  for (int64_t r = 0; r < count; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      float sum = 0;
      for (int64_t s = 0; s < steps; ++s) sum += at(a, r * steps + s) * at(matrix, s * stride + c);
      expect(at(sums, r * columns + c) == sum, "multiply_plain", r, c);
    }
}

// The rows end where the last step ends, so that a kernel that reads too much reads another row's numbers.
template <class S, class F>
void check_multiply_transposed(const ConvolutionTiles<S, F>& tiles, int count, bool fresh, bool with_sums,
                               bool with_out) {
  const int64_t group = tiles.group, columns = tiles.columns, row_count = drawn(0, 11), first = drawn(0, 5);
  const int64_t length = (first + count) * group, out_stride = columns + drawn(0, 3);
  auto a = drawn_numbers<F>(row_count * length);
  const auto panel = drawn_numbers<F>(row_count * columns * group);
  auto sums = drawn_numbers<float>(count * columns);
  auto out = drawn_numbers<S>(count * out_stride);
  const auto sums_before = sums;
  const auto out_before = out;
  const auto rows = rows_of(a, row_count, length);
  tiles.multiply_transposed(count, rows.data(), first, row_count, panel.data(), with_sums ? sums.data() : nullptr,
                            fresh, with_out ? out.data() : nullptr, out_stride);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < columns; ++c) {
      float sum = fresh ? 0 : with_sums ? at(sums_before, i * columns + c) : at(out_before, i * out_stride + c);
      for (int64_t r = 0; r < row_count; ++r)
        sum += product(a, r * length + (first + i) * group, panel, (r * columns + c) * group, group);
      expect((with_out ? at(out, i * out_stride + c) : at(sums, i * columns + c)) == sum, "multiply_transposed", i, c);
    }
}

template <class S, class F>
void check_panels(const ConvolutionTiles<S, F>& tiles, int width, bool transposed) {
  const int64_t group = tiles.group, columns = tiles.columns, rows = drawn(1, 19), steps = (rows + group - 1) / group;
  const int64_t row_stride = transposed ? 1 : columns, column_stride = transposed ? rows : 1;
  const auto matrix = drawn_numbers<S>((rows + group) * columns);
  std::vector<F> panel(static_cast<size_t>(steps * columns * group));
  tiles.pack(matrix.data(), row_stride, column_stride, rows, width, panel.data());
  const auto sums = drawn_numbers<float>(rows * columns);
  std::vector<S> stored(static_cast<size_t>(rows * columns), S(99.f));
  tiles.unpack(sums.data(), rows, width, stored.data(), row_stride, column_stride);
  for (int64_t k = 0; k < steps * group; ++k)
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t i = k * row_stride + c * column_stride;
      const bool there = k < rows && c < width;
      expect(at(panel, (k / group * columns + c) * group + k % group) == (there ? at(matrix, i) : 0.f), "pack", k, c);
      if (k < rows) expect(at(stored, i) == (there ? at(sums, k * columns + c) : 99.f), "unpack", k, c);
    }
}

template <class S, class F>
void check(const ConvolutionTiles<S, F>& tiles) {
  for (int count = 1; count <= tiles.rows; ++count) {
    for (int width = 1; width <= tiles.columns; ++width)
      for (int i = 0; i < 4; ++i) check_multiply(tiles, count, width), check_add(tiles, count, width);
    for (int i = 0; i < 30; ++i) {
      if (tiles.multiply_plain) check_multiply_plain(tiles, count);
      check_multiply_transposed(tiles, count, true, true, false);
      check_multiply_transposed(tiles, count, false, true, false);
      check_multiply_transposed(tiles, count, true, true, true);
      check_multiply_transposed(tiles, count, false, true, true);
      check_multiply_transposed(tiles, count, false, false, true);
    }
  }
  for (int width = 1; width <= tiles.columns; ++width)
    for (int i = 0; i < 20; ++i) check_panels(tiles, width, false), check_panels(tiles, width, true);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::string_view(arguments[1]) == "bf16") {
    check(neon_bf16::convolution_tiles());
  } else {
    check(neon::convolution_tiles());
    check(neon::two_vector_tiles());
    check(neon_widened::convolution_tiles());
  }
  std::printf("%d wrong\n", failures);
  return failures != 0;
}
