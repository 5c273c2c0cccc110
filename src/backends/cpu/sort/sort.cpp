// sort and arg_sort along an axis.
//
// Rows are sorted as unsigned keys, with vector instructions or by radix sort. If there are several rows, each is
// sorted by one thread; a single long row is sorted by all threads together. If the axis is not the last one, a
// transpose first moves it to the end, and a second transpose restores the order of axes afterwards.

#include "backends/cpu/instruction_set.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/shape/strided_copy.h"
#include "backends/cpu/sort/sort_buckets.h"
#include "backends/cpu/sort/sort_keys.h"
#include "backends/cpu/sort/sort_row.h"

namespace mpsgraph::cpu {
namespace {

struct SortPlan {
  AxisSplit s;
  bool descending, whole_rows;  // whole_rows: whether one thread sorts each row, instead of all threads together
  int64_t rows, parts;
  StridedCopy gather, scatter;  // copies from [outer, n, inner] to [outer, inner, n], and back

  SortPlan(const Operand& x, const Operand& y, const Attributes& attributes)
      : s(x.dims, attributes.integer("axis")), descending(attributes.boolean("descending")), rows(s.outer * s.inner) {
    whole_rows = rows >= thread_count() || s.n < 1 << 16;
    parts = whole_rows ? std::clamp<int64_t>(rows, 1, thread_count()) : thread_count();
    const Dims dims{s.outer, s.inner, s.n}, together = contiguous_strides(dims), apart{s.n * s.inner, 1, s.inner};
    gather = StridedCopy(size_of(x.dtype), dims, together, apart);
    scatter = StridedCopy(size_of(y.dtype), dims, apart, together);
  }
  bool moves() const { return s.inner > 1 && s.n > 1; }
};

// The type of the elements that are sorted with vectors: plain keys, or keys followed by their index.
template <class Element>
using VectorKey = std::conditional_t<sizeof(Element) == 4, uint32_t, uint64_t>;
template <class Element>
inline constexpr bool in_vectors = sizeof(Element) == sizeof(VectorKey<Element>);

#if defined(__x86_64__)
template <class Element, class Load, class Store>
void sort_in_vectors(std::byte* scratch, int64_t n, int64_t parts, const Load& load, const Store& store) {
  using Buckets = BucketSorter<Element>;
  if (Buckets::takes(n)) return Buckets(scratch, n, parts).run(load, store);
  auto* keys = reinterpret_cast<VectorKey<Element>*>(scratch);
  const auto in_parts = [&](const auto& function) {
    parallel_parts(parts, [&](int64_t part) {
      // This copy of `function` stays in registers. If `function` were accessed by reference, the compiler would reload
      // it after every key stored.
      const auto f = function;
      for_polled_pieces(n * part / parts, n * (part + 1) / parts, elements_per_poll, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) f(i);
      });
    });
  };
  in_parts([keys, load](int64_t i) { keys[i] = std::bit_cast<VectorKey<Element>>(load(i)); });
  avx512::sort_keys(keys, keys + n, n, static_cast<int>(parts));
  in_parts([keys, store](int64_t i) { store(i, std::bit_cast<Element>(keys[i])); });
}
#endif

template <class Element>
size_t scratch_bytes(int64_t n, int64_t threads) {
  const size_t by_radix = RowSorter<Element>::scratch_bytes(n, threads);
#if defined(__x86_64__)
  if constexpr (in_vectors<Element>)
    if (BucketSorter<Element>::takes(n)) return std::max(by_radix, BucketSorter<Element>::scratch_bytes(n, threads));
#endif
  return by_radix;
}

// Sort a row of elements of type T, using scratch_bytes() bytes of `memory`. If Element is Indexed<Key>, write the
// indices of the elements in sorted order; if Element is Key, write the sorted elements.
template <class T, class Element, class Out>
void sort_row(DType dtype, bool descending, std::byte* memory, const std::byte* row, std::byte* result, int64_t n,
              int64_t parts) {
  constexpr bool order = !std::is_same_v<T, Out>;
  const Keys<T> keys(dtype, descending);
  const T* from = reinterpret_cast<const T*>(row);
  Out* to = reinterpret_cast<Out*>(result);
  const auto sort = [&](const auto& load, const auto& store) {
    if (n <= few_elements) return sort_few<Element>(n, load, store);
#if defined(__x86_64__)
    if constexpr (in_vectors<Element>)
      if (sorts_keys_in_vectors()) return sort_in_vectors<Element>(memory, n, parts, load, store);
#endif
    RowSorter<Element>(memory, n, parts).run(load, store);
  };
  if constexpr (order)
    sort([=](int64_t i) { return Element(keys.of(from[i], true), i); },
         [=](int64_t at, const Element& e) { to[at] = e.index(); });
  else
    sort([=](int64_t i) { return keys.of(from[i], false); }, [=](int64_t at, Element e) { to[at] = keys.back(e); });
}

// The functions that depend on the type. The kernel calls them through pointers, so that it need not depend on the
// type.
struct RowSort {
  decltype(&sort_row<uint8_t, uint8_t, uint8_t>) row;
  size_t (*scratch_bytes)(int64_t n, int64_t threads);
};
template <class T, class Element, class Out>
constexpr RowSort row_sort = {sort_row<T, Element, Out>, scratch_bytes<Element>};

std::unique_ptr<Kernel> sort_kernel(Lowering& lowering, const RowSort& sort) {
  const Operand x = lowering.input(0), y = lowering.output();
  const SortPlan plan(x, y, lowering.attributes());
  const int64_t n = plan.s.n;
  const int64_t threads = plan.whole_rows ? 1 : plan.parts;  // number of threads that sort one row
  const size_t bytes = sort.scratch_bytes(n, threads);
  const Slot scratch = lowering.scratch(bytes * static_cast<size_t>(plan.whole_rows ? plan.parts : 1));
  const Slot rows_in = plan.moves() ? lowering.scratch(x.bytes()) : x.slot;
  // Sorted rows are never written to the buffer from which rows are read.
  const Slot rows_out = plan.moves() ? lowering.scratch(y.bytes()) : y.slot;
  return kernel([=](Frame& f) {
    if (n == 0) return;
    if (plan.moves()) plan.gather.run(f.at<std::byte>(rows_in), f.at<std::byte>(x.slot));
    const int64_t from_bytes = n * static_cast<int64_t>(size_of(x.dtype));
    const int64_t to_bytes = n * static_cast<int64_t>(size_of(y.dtype));
    const auto sort_one = [&](std::byte* memory, int64_t row, int64_t parts) {
      sort.row(x.dtype, plan.descending, memory, f.at<std::byte>(rows_in) + row * from_bytes,
               f.at<std::byte>(rows_out) + row * to_bytes, n, parts);
    };
    if (plan.whole_rows)
      parallel_parts(plan.parts, [&](int64_t part) {
        for_polled_pieces(plan.rows * part / plan.parts, plan.rows * (part + 1) / plan.parts,
                          std::max<int64_t>(elements_per_poll / n, 1), [&](int64_t begin, int64_t end) {
                            for (int64_t row = begin; row < end; ++row)
                              sort_one(f.at<std::byte>(scratch) + static_cast<size_t>(part) * bytes, row, 1);
                          });
      });
    else
      for (int64_t row = 0; row < plan.rows; ++row) sort_one(f.at<std::byte>(scratch), row, plan.parts);
    if (plan.moves()) plan.scatter.run(f.at<std::byte>(y.slot), f.at<std::byte>(rows_out));
  });
}

std::unique_ptr<Kernel> lower_sort(Lowering& lowering) {
  return sort_kernel(lowering, dispatch_ordered_bits(lowering, lowering.input(0).dtype, [](auto type) {
                       using T = typename decltype(type)::type;
                       return row_sort<T, typename Keys<T>::Key, T>;
                     }));
}

struct Index {  // a type that differs from all element types, which include int32
  int32_t value;
  Index& operator=(int32_t v) { return value = v, *this; }
};

std::unique_ptr<Kernel> lower_arg_sort(Lowering& lowering) {
  return sort_kernel(lowering, dispatch_ordered_bits(lowering, lowering.input(0).dtype, [](auto type) {
                       using T = typename decltype(type)::type;
                       return row_sort<T, Indexed<typename Keys<T>::Key>, Index>;
                     }));
}

}  // namespace

bool sorts_keys_in_vectors() { return instruction_set() == "AVX-512"; }

bool sorts_words_by_buckets() {
  static const bool buckets = [] {
#if defined(__x86_64__)
    return wanted("buckets").value_or(!__builtin_cpu_is("intel"));
#else
    return true;
#endif
  }();
  return buckets;
}

const Kernels sort_kernels("sort", [] {
  define_kernel("sort", lower_sort);
  define_kernel("arg_sort", lower_arg_sort);
});

}  // namespace mpsgraph::cpu
