// Matmuls of floats and complex numbers, batched, with broadcast batch axes.
//
// float and double use packed_product.h, or GEMV for vectors. A complex matmul becomes a real one of twice the size.
// The reference uses plain loops.
#include "backends/cpu/matrix/matrix.h"

#include "backends/cpu/dispatch.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/matrix/packed_product.h"
#include "backends/cpu/matrix/products.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"

namespace mpsgraph::cpu {
namespace {

std::vector<int64_t> offsets_of(const Dims& dims, const Dims& result, int64_t count) {
  std::vector<int64_t> offsets(static_cast<size_t>(count));
  const Dims strides = contiguous_strides(dims);
  const size_t rank = result.size() - 2, missing = result.size() - dims.size();
  for (int64_t which = 0; which < count; ++which) {
    int64_t rest = which, offset = 0;
    for (size_t i = rank; i-- > 0; rest /= result[i])
      if (i >= missing && dims[i - missing] != 1) offset += rest % result[i] * strides[i - missing];
    offsets[static_cast<size_t>(which)] = offset;
  }
  return offsets;
}

}  // namespace

Products::Products(const Dims& x, const Dims& y, const Dims& result, bool transpose_x, bool transpose_y)
    : m(x[x.size() - (transpose_x ? 1 : 2)]),
      n(y[y.size() - (transpose_y ? 2 : 1)]),
      k(x[x.size() - (transpose_x ? 2 : 1)]) {
  const size_t batch_rank = result.size() - 2;
  int64_t count = 1;
  for (size_t i = 0; i < batch_rank; ++i) count *= result[i];
  a = offsets_of(x, result, count), b = offsets_of(y, result, count);
  bool tall = count > 1 && !transpose_x;  // batches with the same right operand become one tall matmul
  for (size_t i = 0; i < a.size(); ++i) tall &= b[i] == 0 && a[i] == static_cast<int64_t>(i) * m * k;
  if (tall) m *= count, a = b = {0};
}

namespace {

float dot(const float* a, const float* b, int64_t n) { return float_functions().dot(a, b, n); }
double dot(const double* a, const double* b, int64_t n) {
  typedef double Vector __attribute__((vector_size(16), aligned(8), may_alias));
  constexpr int64_t lanes = 2, vectors = 8;  // several independent sums hide latency
  Vector sums[vectors]{};
  int64_t i = 0;
  for (; i + vectors * lanes <= n; i += vectors * lanes)
    for (int64_t v = 0; v < vectors; ++v)
      sums[v] +=
          *reinterpret_cast<const Vector*>(a + i + v * lanes) * *reinterpret_cast<const Vector*>(b + i + v * lanes);
  for (int64_t v = 1; v < vectors; ++v) sums[0] += sums[v];
  double sum = sums[0][0] + sums[0][1];
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Multiply rows by a single column. The time is bound by reading the rows, and packing would read them twice.
template <class T>
void multiply_by_column(const Products& p, const T* a, const T* b, T* c) {
  parallel_for(p.count() * p.m, grain_for(p.k * int64_t{sizeof(T)}), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto which = static_cast<size_t>(row / p.m);
      c[row] = dot(a + p.a[which] + row % p.m * p.k, b + p.b[which], p.k);
    }
  });
}

// Multiply a single row by blocks of columns. The matrix is read once, in place.
template <class T>
void multiply_row(const Products& p, const T* a, const T* b, T* c) {
  constexpr int64_t columns = 256;
  const int64_t across = (p.n + columns - 1) / columns;
  parallel_for(p.count() * across, grain_for(p.k * columns * int64_t{sizeof(T)}), [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const auto which = static_cast<size_t>(unit / across);
      const int64_t first = unit % across * columns, width = std::min(columns, p.n - first);
      const T *x = a + p.a[which], *rows = b + p.b[which] + first;
      T sums[columns] = {};
      for (int64_t i = 0; i < p.k; ++i)
        for (int64_t j = 0; j < width; ++j) sums[j] += x[i] * rows[i * p.n + j];
      std::copy_n(sums, width, c + static_cast<int64_t>(which) * p.n + first);
    }
  });
}

template <class T>
void multiply_plainly(const Products& p, const std::byte* left, const std::byte* right, std::byte* result) {
  const T *a = reinterpret_cast<const T*>(left), *b = reinterpret_cast<const T*>(right);
  T* c = reinterpret_cast<T*>(result);
  using Real = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;  // integers wrap in an unsigned type
  using Sum = std::conditional_t<is_complex_type<T>, std::complex<double>, Real>;
  constexpr int64_t tile = 256;
  parallel_for(p.count() * p.m, grain_for(p.n * p.k), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto which = static_cast<size_t>(row / p.m);
      const T *x = a + p.a[which] + row % p.m * p.k, *y = b + p.b[which];
      for (int64_t j0 = 0; j0 < p.n; j0 += tile) {
        const int64_t width = std::min(tile, p.n - j0);
        Sum sums[tile] = {};
        for (int64_t i = 0; i < p.k; ++i) {
          const auto factor = static_cast<Sum>(Value<T>(x[i]));
          for (int64_t j = 0; j < width; ++j) sums[j] += factor * Sum(Value<T>(y[i * p.n + j0 + j]));
        }
        for (int64_t j = 0; j < width; ++j) c[row * p.n + j0 + j] = T(static_cast<Value<T>>(sums[j]));
      }
    }
  });
}

// Reference kernel with plain loops. Signed integers are passed as unsigned integers, because sums and products are
// bitwise the same.
std::unique_ptr<Kernel> plain_kernel(const Products& products, const Operand& a, const Operand& b, const Operand& c) {
  const auto multiply = dispatch(c.dtype, [](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, bool>)
      return multiply_plainly<T>;
    else
      return multiply_plainly<typename UnsignedOf<T>::type>;
  });
  return kernel([products, multiply, a = a.slot, b = b.slot, c = c.slot](Frame& f) {
    multiply(products, f.at<std::byte>(a), f.at<std::byte>(b), f.at<std::byte>(c));
  });
}

// A complex matmul computed as a real one. In memory, a and c are real matrices [m, 2k] and [m, 2n] with alternating
// real and imaginary parts. The real right operand contains each row of b twice, once unchanged and once multiplied by
// i. The real matmul then takes the same number of operations as the complex one and can use the fastest real kernel.
class ComplexProduct final : public Kernel {
 public:
  explicit ComplexProduct(Lowering& lowering)
      : b_(lowering.input(1)),
        twice_(lowering.scratch(2 * b_.bytes())),
        rows_(b_.elements() / std::max<int64_t>(n(), 1)) {
    Reals reals(lowering, twice_);
    product_ = make_kernel("matrix_multiplication", reals);
  }

  void run(Frame& frame) const override {
    if (b_.dtype == DType::complex64)
      expand(frame.at<float>(b_.slot), frame.at<float>(twice_));
    else
      expand(frame.at<double>(b_.slot), frame.at<double>(twice_));
    product_->run(frame);
  }
  std::unique_ptr<KernelState> make_state() const override {
    product_->index = index;  // the real matmul uses the state of this kernel
    return product_->make_state();
  }
  std::string description() const override {
    return cat("complex matmul as a real one of twice the size; ", product_->description());
  }

 private:
  // The lowering that builds the real matmul. It presents the complex operands as real matrices.
  struct Reals final : LoweringView {
    Reals(Lowering& complex, Slot twice) : LoweringView(complex), twice(twice) {}
    static Operand real(Operand x) {
      x.dtype = real_type(x.dtype);
      x.dims.back() *= 2;
      return x;
    }
    Operand input(size_t i) const override {
      Operand x = real(given.input(i));
      if (i == 1) x.slot = twice, x.dims[x.dims.size() - 2] *= 2;
      return x;
    }
    Operand output(size_t i) const override { return real(given.output(i)); }
    const Slot twice;
  };

  int64_t n() const { return b_.dims.back(); }

  template <class T>
  void expand(const T* b, T* twice) const {
    const int64_t width = 2 * n();
    parallel_for(rows_, grain_for(width * 3 * int64_t{sizeof(T)}), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = b + row * width;
        T *to = twice + 2 * row * width, *rotated = to + width;
        std::copy_n(from, width, to);
        for (int64_t j = 0; j < width; j += 2) rotated[j] = -from[j + 1], rotated[j + 1] = from[j];
      }
    });
  }

  Operand b_;
  Slot twice_;
  int64_t rows_;
  std::unique_ptr<Kernel> product_;
};

}  // namespace

std::unique_ptr<Kernel> complex_product(Lowering& lowering) { return std::make_unique<ComplexProduct>(lowering); }

std::unique_ptr<Kernel> blocked_product(Lowering& lowering) {
  const Operand a = lowering.input(0), b = lowering.input(1), c = lowering.output();
  const Products products(a.dims, b.dims, c.dims);
  if (lowering.reference_only()) return plain_kernel(products, a, b, c);
  const auto build = [&]<class T>(Type<T>) {
    return kernel([products, a = a.slot, b = b.slot, c = c.slot](Frame& f) {
      (products.n == 1 ? multiply_by_column<T> : multiply_row<T>)(products, f.at<T>(a), f.at<T>(b), f.at<T>(c));
    });
  };
  if (products.n != 1 && products.m != 1) return packed_product(lowering);
  if (c.dtype == DType::float32) return build(Type<float>{});
  if (c.dtype == DType::float64) return build(Type<double>{});
  unsupported(lowering, c.dtype);
}

namespace {

// Compute the Hamming distances between rows of a and rows of b, that is, the numbers of differing bits, as elements of
// type R.
template <class T, class R>
void count_differences(const Products& p, const std::byte* a, const std::byte* b, std::byte* c) {
  const auto rows = static_cast<int64_t>(p.a.size()) * p.m;
  parallel_for(rows, grain_for(p.n * p.k * 2), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto batch = static_cast<size_t>(row / std::max<int64_t>(p.m, 1));
      const T* left = reinterpret_cast<const T*>(a) + p.a[batch] + row % p.m * p.k;
      const T* right = reinterpret_cast<const T*>(b) + p.b[batch];
      for (int64_t j = 0; j < p.n; ++j) {
        uint32_t bits = 0;
        for (int64_t k = 0; k < p.k; ++k)
          bits += static_cast<uint32_t>(std::popcount(static_cast<T>(left[k] ^ right[j * p.k + k])));
        reinterpret_cast<R*>(c)[row * p.n + j] = static_cast<R>(bits);
      }
    }
  });
}

std::unique_ptr<Kernel> lower_hamming_distance(Lowering& lowering) {
  const Operand a = lowering.input(0), b = lowering.input(1), c = lowering.output();
  Dims turned = b.dims;
  std::swap(turned[turned.size() - 2], turned[turned.size() - 1]);
  const Products p(a.dims, turned, c.dims);
  // operands are integers of at most 8 bytes; for larger elements, which never occur, T must only compile, so it is
  // uint64_t
  const auto count = dispatch_size(size_of(a.dtype), [&](auto type) {
    using T =
        std::conditional_t<std::is_integral_v<typename decltype(type)::type>, typename decltype(type)::type, uint64_t>;
    return c.dtype == DType::uint16 ? count_differences<T, uint16_t> : count_differences<T, uint32_t>;
  });
  return kernel([p, count, a = a.slot, b = b.slot, c = c.slot](Frame& f) {
    count(p, f.at<std::byte>(a), f.at<std::byte>(b), f.at<std::byte>(c));
  });
}

}  // namespace

const Kernels matrix_kernels("matrix", [] { define_kernel("hamming_distance", lower_hamming_distance); });

}  // namespace mpsgraph::cpu
