// Sparse matrices: conversion to dense, gathering of entries, and matmul with a dense matrix that skips zeros.
//
// For every storage format, the row and column of each entry are computed first. Threads then divide the result by rows
// or columns. Each thread reads all entries in order, so duplicate entries are added in a fixed order.
#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

struct Places {
  std::string storage;
  int64_t rows, columns, count;
  Operand index0, index1;
  Slot row, column;  // row and column of each entry, as int64; the row of an unused entry is -1

  // The indices are operands `first` and `first` + 1.
  Places(Lowering& lowering, size_t first)
      : storage(lowering.attributes().string("storage")),
        rows(lowering.attributes().integers("shape")[0]),
        columns(lowering.attributes().integers("shape")[1]),
        index0(lowering.input(first)),
        index1(lowering.input(first + 1)) {
    count = index0.elements();
    row = lowering.scratch(static_cast<size_t>(count) * sizeof(int64_t));
    column = lowering.scratch(static_cast<size_t>(count) * sizeof(int64_t));
  }

  void find(Frame& f) const {
    const std::byte *a = f.at<std::byte>(index0.slot), *b = f.at<std::byte>(index1.slot);
    int64_t *to_row = f.at<int64_t>(row), *to_column = f.at<int64_t>(column);
    std::fill_n(to_row, count, int64_t{-1});
    const auto put = [&](int64_t e, int64_t r, int64_t c) {
      const bool inside = r >= 0 && r < rows && c >= 0 && c < columns;
      to_row[e] = inside ? r : -1, to_column[e] = c;
    };
    if (storage == "COO") {
      for (int64_t e = 0; e < count; ++e) put(e, integer_at(b, index1.dtype, e), integer_at(a, index0.dtype, e));
      return;
    }
    const bool by_row = storage == "CSR";
    for (int64_t line = 0; line < (by_row ? rows : columns); ++line) {
      const int64_t begin = std::max<int64_t>(integer_at(b, index1.dtype, line), 0);
      const int64_t end = std::min(integer_at(b, index1.dtype, line + 1), count);
      for (int64_t e = begin; e < end; ++e) {
        const int64_t other = integer_at(a, index0.dtype, e);
        by_row ? put(e, line, other) : put(e, other, line);
      }
    }
  }
};

// Call f(begin, end) for ranges that cover [0, n), using a number of threads appropriate for `work` elementary
// operations.
template <class F>
void share(int64_t n, int64_t work, const F& f) {
  const int64_t parts = std::clamp<int64_t>(work / 32768, 1, std::clamp<int64_t>(n, 1, thread_count()));
  parallel_parts(parts, [&](int64_t part) { f(n * part / parts, n * (part + 1) / parts); });
}

std::unique_ptr<Kernel> lower_sparse_tensor(Lowering& lowering) {
  const Operand values = lowering.input(0), y = lowering.output();
  const Places places(lowering, 1);
  return dispatch_algebraic(lowering, y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return kernel([=](Frame& f) {
      places.find(f);
      const int64_t *row = f.at<int64_t>(places.row), *column = f.at<int64_t>(places.column);
      const T* v = f.at<T>(values.slot);
      T* to = f.at<T>(y.slot);
      share(places.rows, places.rows * places.columns + places.count, [&](int64_t begin, int64_t end) {
        std::fill(to + begin * places.columns, to + end * places.columns, T(0));
        for (int64_t e = 0; e < places.count; ++e) {
          if (e % elements_per_poll == 0) poll_run();
          if (row[e] < begin || row[e] >= end) continue;
          T& sum = to[row[e] * places.columns + column[e]];
          sum = static_cast<T>(static_cast<Accumulate<T>>(sum) + static_cast<Accumulate<T>>(v[e]));
        }
      });
    });
  });
}

std::unique_ptr<Kernel> lower_sparse_tensor_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), y = lowering.output();
  const Places places(lowering, 1);
  return dispatch_size(size_of(y.dtype), [&](auto type) {
    using T = typename decltype(type)::type;
    return kernel([=](Frame& f) {
      places.find(f);
      const int64_t *row = f.at<int64_t>(places.row), *column = f.at<int64_t>(places.column);
      share(places.count, places.count, [&](int64_t begin, int64_t end) {
        for (int64_t e = begin; e < end; ++e)
          f.at<T>(y.slot)[e] = row[e] < 0 ? T(0) : f.at<T>(incoming.slot)[row[e] * places.columns + column[e]];
      });
    });
  });
}

template <class F>
std::unique_ptr<Kernel> for_products(const Lowering& lowering, DType dtype, const F& f) {
  switch (dtype) {
    case DType::float32: return f(Type<float>{});
    case DType::float64: return f(Type<double>{});
    case DType::complex64: return f(Type<std::complex<float>>{});
    case DType::complex128: return f(Type<std::complex<double>>{});
    default: unsupported(lowering, dtype);
  }
}

template <class T>
T times(T a, T b) {
  if constexpr (is_complex_type<T>)
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  else
    return a * b;
}

std::unique_ptr<Kernel> lower_sparse_product(Lowering& lowering) {
  const Operand values = lowering.input(0), dense = lowering.input(3), y = lowering.output();
  const Places places(lowering, 1);
  const bool transposed = lowering.attributes().boolean("transposed");
  const bool dense_first = lowering.attributes().boolean("dense_first");
  const int64_t m = y.dims[0], n = y.dims[1], k = dense.dims[dense_first ? 1 : 0],
                work = places.count * (dense_first ? m : n);
  return for_products(lowering, y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return kernel([=](Frame& f) {
      places.find(f);
      // entry e of the left operand (the matrix, transposed if requested) has row i[e] and column j[e]
      const int64_t *row = f.at<int64_t>(places.row), *i = row, *j = f.at<int64_t>(places.column);
      if (transposed) std::swap(i, j);
      const T *v = f.at<T>(values.slot), *d = f.at<T>(dense.slot);
      T* to = f.at<T>(y.slot);
      if (dense_first) {
        return share(m, work, [&](int64_t begin, int64_t end) {
          std::fill(to + begin * n, to + end * n, T(0));
          for (int64_t r = begin; r < end; ++r)
            for (int64_t e = 0; e < places.count; ++e)
              if (row[e] >= 0) to[r * n + j[e]] += times(d[r * k + i[e]], v[e]);
        });
      }
      share(n, work, [&](int64_t begin, int64_t end) {
        for (int64_t r = 0; r < m; ++r) std::fill(to + r * n + begin, to + r * n + end, T(0));
        for (int64_t e = 0; e < places.count; ++e) {
          if (row[e] < 0) continue;
          const T* from = d + j[e] * n;
          T* sums = to + i[e] * n;
          for (int64_t c = begin; c < end; ++c) sums[c] += times(v[e], from[c]);
        }
      });
    });
  });
}

std::unique_ptr<Kernel> lower_sampled_product(Lowering& lowering) {
  const Operand a = lowering.input(0), b = lowering.input(1), y = lowering.output();
  const Places places(lowering, 2);
  const int64_t k = a.dims[1];
  return for_products(lowering, y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return kernel([=](Frame& f) {
      places.find(f);
      const int64_t *row = f.at<int64_t>(places.row), *column = f.at<int64_t>(places.column);
      share(places.count, places.count * k, [&](int64_t begin, int64_t end) {
        for (int64_t e = begin; e < end; ++e) {
          T sum = 0;
          if (row[e] >= 0) {
            const T *x = f.at<T>(a.slot) + row[e] * k, *z = f.at<T>(b.slot) + column[e] * k;
            for (int64_t i = 0; i < k; ++i) sum += times(x[i], z[i]);
          }
          f.at<T>(y.slot)[e] = sum;
        }
      });
    });
  });
}

}  // namespace

const Kernels sparse_kernels("sparse", [] {
  define_kernel("sparse_tensor", lower_sparse_tensor);
  define_kernel("sparse_tensor_gradient", lower_sparse_tensor_gradient);
  define_kernel("sparse_matrix_multiplication", lower_sparse_product);
  define_kernel("sampled_matrix_multiplication", lower_sampled_product);
});

}  // namespace mpsgraph::cpu
