// non_zero_indices: each thread counts the nonzeros in its part of the elements, and then writes their indices after
// the indices of all preceding parts.

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

template <class T>
bool is_non_zero(const T& x) {
  if constexpr (is_half_type<T>)
    return static_cast<float>(x) != 0;
  else
    return x != T(0);
}

// Functions that depend on the element type: count() counts the nonzeros among n elements, and find() lists their
// indices in order. The array `found`, to which find() writes the indices, needs room for one more index than there are
// nonzeros.
struct NonZeros {
  int64_t (*count)(const std::byte* from, int64_t n);
  int64_t (*find)(const std::byte* from, int64_t n, int32_t* found);
};
template <class T>
constexpr NonZeros non_zeros = {[](const std::byte* from, int64_t n) {
                                  const T* x = reinterpret_cast<const T*>(from);
                                  int64_t count = 0;
                                  for (int64_t i = 0; i < n; ++i) count += is_non_zero(x[i]);
                                  return count;
                                },
                                [](const std::byte* from, int64_t n, int32_t* found) {  // branch-free
                                  const T* x = reinterpret_cast<const T*>(from);
                                  int64_t count = 0;
                                  for (int64_t i = 0; i < n; ++i) {
                                    found[count] = static_cast<int32_t>(i);
                                    count += is_non_zero(x[i]);
                                  }
                                  return count;
                                }};

NonZeros non_zeros_of(DType dtype) {
  if (is_integer(dtype) || dtype == DType::boolean)
    return dispatch_size(size_of(dtype), [](auto type) {
      using T = typename decltype(type)::type;
      return non_zeros<std::conditional_t<std::is_same_v<T, Item16>, uint64_t, T>>;
    });
  return dispatch(dtype, [](auto type) {
    using T = typename decltype(type)::type;
    return non_zeros<std::conditional_t<std::is_integral_v<T>, uint64_t, T>>;
  });
}

std::unique_ptr<Kernel> lower_non_zero_indices(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const int64_t n = x.elements(), rows = y.dims[0], rank = y.dims[1];
  const auto item = static_cast<int64_t>(size_of(x.dtype));
  const int64_t parts = std::clamp<int64_t>(n / 4096, 1, thread_count());
  const Slot counts = lowering.scratch(static_cast<size_t>(parts) * sizeof(int64_t));
  return kernel([=, of = non_zeros_of(x.dtype)](Frame& f) {
    const std::byte* from = f.pointers[x.slot];
    int32_t* to = f.at<int32_t>(y.slot);
    int64_t* before = f.at<int64_t>(counts);
    const auto begin = [&](int64_t part) { return n * part / parts; };
    parallel_parts(parts, [&](int64_t part) {
      before[part] = 0;
      for_polled_pieces(begin(part), begin(part + 1), elements_per_poll, [&](int64_t first, int64_t end) {
        before[part] += of.count(from + first * item, end - first);
      });
    });
    int64_t total = 0;
    for (int64_t part = 0; part < parts; ++part) total += std::exchange(before[part], total);
    parallel_parts(parts, [&](int64_t part) {
      int64_t index[max_rank + 1] = {}, row = before[part], i = begin(part);
      for (int64_t axis = rank, at = i; axis-- > 0; at /= std::max<int64_t>(x.dims[static_cast<size_t>(axis)], 1))
        index[axis] = at % std::max<int64_t>(x.dims[static_cast<size_t>(axis)], 1);
      const int64_t last = rank > 0 ? x.dims.back() : 1;
      int64_t& column = index[std::max<int64_t>(rank - 1, 0)];
      // Process pieces of rows: first find the nonzero elements of a piece, then write their indices.
      constexpr int64_t room = 512;
      int32_t found[room + 1];
      for (int64_t n; i < begin(part + 1) && row < rows; i += n) {
        if (row % 1024 == 0) poll_run();
        n = std::min({begin(part + 1) - i, last - column, room});
        const int64_t count = std::min(of.find(from + i * item, n, found), rows - row);
        for (int64_t k = 0; k < count && rank > 0; ++k) {
          int32_t* entry = to + (row + k) * rank;
          for (int64_t axis = 0; axis < rank - 1; ++axis) entry[axis] = static_cast<int32_t>(index[axis]);
          entry[rank - 1] = static_cast<int32_t>(column) + found[k];
        }
        row += count;
        column += n;
        for (int64_t axis = rank - 1; axis > 0 && index[axis] == x.dims[static_cast<size_t>(axis)]; --axis)
          index[axis] = 0, ++index[axis - 1];
      }
    });
    if (total < rows) std::fill(to + total * rank, to + rows * rank, -1);
  });
}

}  // namespace

const Kernels non_zero_kernels("non_zero", [] { define_kernel("non_zero_indices", lower_non_zero_indices); });

}  // namespace mpsgraph::cpu
