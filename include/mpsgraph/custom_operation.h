// Custom operations: the description of an operation in C, and C++ classes for writing short kernels.
//
// A shared library of custom operations exports one function, mpsgraph_custom_operations(), which returns their
// descriptions. The library need not link with mpsgraph, because each call of a kernel passes everything that the
// kernel needs. Programs in C and C++ can instead register descriptions with mpsgraph_custom_register() of mpsgraph.h.
// Tensors are dense and row-major. For an operation whose source text is given in Python, this header is included
// before the source, and the description is appended after it (docs/custom_operations.md).
#ifndef MPSGRAPH_CUSTOM_OPERATION_H
#define MPSGRAPH_CUSTOM_OPERATION_H

#include "mpsgraph/mpsgraph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. mpsgraph accepts libraries built for its own version and for all earlier
 * versions. */
#define MPSGRAPH_CUSTOM_INTERFACE_VERSION 1
#define MPSGRAPH_CUSTOM_MAX_RESULTS 16

typedef int32_t mpsgraph_custom_kind;
enum {
  MPSGRAPH_CUSTOM_BOOLEAN = 0, /* stored in `integer` as 0 or 1 */
  MPSGRAPH_CUSTOM_INTEGER = 1,
  MPSGRAPH_CUSTOM_REAL = 2,
  MPSGRAPH_CUSTOM_STRING = 3,
  MPSGRAPH_CUSTOM_INTEGERS = 4
};

/* An attribute: its value in a call, or its default in a description. `kind` specifies which member holds the
 * value. */
typedef struct mpsgraph_custom_attribute {
  const char* name;
  mpsgraph_custom_kind kind;
  int32_t required; /* in a description: the attribute has no default */
  int64_t integer;
  double real;
  const char* string;
  const int64_t* integers;
  int64_t integer_count;
} mpsgraph_custom_attribute;

/* One use of the operation: its types and attributes. Unknown dimensions are -1; in a run, all dimensions are known. */
typedef struct mpsgraph_custom_site {
  uint32_t interface_version; /* version of the calling mpsgraph library */
  int32_t operand_count, result_count;
  const mpsgraph_type* operand_types;
  const mpsgraph_type* result_types;
  const mpsgraph_custom_attribute* attributes;
  size_t attribute_count;
} mpsgraph_custom_site;

typedef struct mpsgraph_custom_call mpsgraph_custom_call;
typedef void (*mpsgraph_custom_body)(void* context, int64_t begin, int64_t end);

/* One run of the kernel. Operands and results are dense and row-major. Operands must not be written, and results are
 * uninitialized. The structure is valid only during the call. */
struct mpsgraph_custom_call {
  const mpsgraph_custom_site* site;
  const void* const* operands;
  void* const* results;
  /* Calls body(context, begin, end) for parts of [0, items), of at least `grain` items each, on several threads. */
  void (*parallel_for)(const mpsgraph_custom_call* call, int64_t items, int64_t grain, mpsgraph_custom_body body,
                       void* context);
  /* Sets the message of a failure; the text is copied. The kernel must then return a value other than 0. */
  void (*fail)(const mpsgraph_custom_call* call, const char* message);
  void* engine; /* used by mpsgraph */
};
/* Computes the results. Returns 0 on success. */
typedef int32_t (*mpsgraph_custom_kernel)(const mpsgraph_custom_call* call);

/* The argument of an inference function, which stores `result_count` types in `results`. There is room for
 * MPSGRAPH_CUSTOM_MAX_RESULTS types. */
typedef struct mpsgraph_custom_inference {
  const mpsgraph_custom_site* site; /* without results */
  mpsgraph_type* results; /* the first is initially the type of the first operand */
  int32_t result_count; /* initially 1 */
  /* Sets the message of a failure; the text is copied. The function must then return a value other than 0. */
  void (*fail)(const struct mpsgraph_custom_inference* inference, const char* message);
  void* engine; /* used by mpsgraph */
} mpsgraph_custom_inference;
/* Infers the types of the results. Returns 0 on success. */
typedef int32_t (*mpsgraph_custom_infer)(mpsgraph_custom_inference* inference);

/* Stores the number of GPU threads in each of three dimensions, which are initially 1. Returns 0 on success. */
typedef int32_t (*mpsgraph_custom_threads)(const mpsgraph_custom_site* site, int64_t threads[3]);

/* A set with one dtype, for mpsgraph_custom_operation::dtypes. Combine sets with |. */
#define MPSGRAPH_CUSTOM_TAKES(dtype) (UINT32_C(1) << (dtype))

/* The description of a custom operation. Everything that it points to must remain valid until the process ends. */
typedef struct mpsgraph_custom_operation {
  const char* name;
  const char* key; /* not empty; distinguishes this code from other code of this name, such as a different version */
  const mpsgraph_custom_attribute* attributes;
  size_t attribute_count;
  int32_t operand_count; /* -1 for any number */
  int32_t has_effect; /* operations with effects are never merged with equal operations */
  /* The allowed dtypes of each operand; the last entry also applies to all operands after it. NULL for float32 only. */
  const uint32_t* dtypes;
  size_t dtype_count;
  mpsgraph_custom_infer infer; /* if NULL, there is one result with the type of the first operand */
  mpsgraph_custom_kernel kernel; /* if NULL, the device "cpu" does not support the operation */
  const char* metal_source; /* if NULL, the device "metal" does not support the operation */
  const char* metal_function;
  mpsgraph_custom_threads threads; /* if NULL, there is one thread per element of the first result */
  /* The name of the custom operation that computes the gradient, or NULL. That operation takes the incoming
   * gradients followed by the operands, and has one result per operand. It has some or all of the attributes of
   * this operation. */
  const char* gradient;
  /* Whether only the program that built the graph can infer the result types, so that the graph states them. */
  int32_t infers_elsewhere;
} mpsgraph_custom_operation;

/* The custom operations of a shared library. */
typedef struct mpsgraph_custom_library {
  uint32_t interface_version;
  size_t operation_size; /* sizeof(mpsgraph_custom_operation) */
  const mpsgraph_custom_operation* operations;
  size_t operation_count;
} mpsgraph_custom_library;

#if defined(_WIN32)
#define MPSGRAPH_CUSTOM_EXPORT __declspec(dllexport)
#else
#define MPSGRAPH_CUSTOM_EXPORT __attribute__((visibility("default")))
#endif

/* The function that a shared library of custom operations must export. Its result must remain valid as long as the
 * library is loaded. */
MPSGRAPH_CUSTOM_EXPORT const mpsgraph_custom_library* mpsgraph_custom_operations(void);

/* Defines mpsgraph_custom_operations() from an array of descriptions. */
#define MPSGRAPH_CUSTOM_OPERATIONS(array)                                                               \
  const mpsgraph_custom_library* mpsgraph_custom_operations(void) {                                     \
    static const mpsgraph_custom_library library = {MPSGRAPH_CUSTOM_INTERFACE_VERSION,                  \
                                                    sizeof(mpsgraph_custom_operation), (array),         \
                                                    sizeof(array) / sizeof(mpsgraph_custom_operation)}; \
    return &library;                                                                                    \
  }

#ifdef __cplusplus
}

#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace mpsgraph::custom {

// ---- half-precision element types, which C++ lacks ------------------------------------------------------------------

// The types bfloat16 and float16 compute in float: each use converts to float, and each result is rounded to nearest
// even.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  bfloat16(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, 4);
    const bool is_nan = (wide & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(is_nan ? (wide >> 16) | 0x40u : (wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
  }
  operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
};

struct float16 {
  uint16_t bits = 0;
  float16() = default;
  float16(float value) {
    uint32_t wide;
    std::memcpy(&wide, &value, 4);
    const uint32_t sign = wide >> 16 & 0x8000u, magnitude = wide & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
      bits = static_cast<uint16_t>(sign | 0x7e00u);
    } else if (magnitude >= 0x477ff000u) {  // values that would round to more than 65504, the largest finite float16
      bits = static_cast<uint16_t>(sign | 0x7c00u);
    } else if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 aligns the last bit of the subnormal
      float shifted;
      std::memcpy(&shifted, &magnitude, 4);
      shifted += 0.5f;
      uint32_t rounded;
      std::memcpy(&rounded, &shifted, 4);
      bits = static_cast<uint16_t>(sign | (rounded - 0x3f000000u));
    } else {
      bits = static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13));
    }
  }
  operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = bits >> 10 & 31u, mantissa = bits & 1023u;
    uint32_t wide = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | mantissa << 13;
    float value;
    if (exponent == 0) {
      value = static_cast<float>(mantissa) * 0x1p-24f;
      return sign ? -value : value;
    }
    std::memcpy(&value, &wide, 4);
    return value;
  }
};

template <class T>
constexpr mpsgraph_dtype dtype_of() {
  using E = std::remove_const_t<T>;
  if constexpr (std::is_same_v<E, float>) return MPSGRAPH_FLOAT32;
  if constexpr (std::is_same_v<E, float16>) return MPSGRAPH_FLOAT16;
  if constexpr (std::is_same_v<E, bfloat16>) return MPSGRAPH_BFLOAT16;
  if constexpr (std::is_same_v<E, double>) return MPSGRAPH_FLOAT64;
  if constexpr (std::is_same_v<E, bool>) return MPSGRAPH_BOOL;
  if constexpr (std::is_integral_v<E> && !std::is_same_v<E, bool>) {
    constexpr mpsgraph_dtype first = std::is_signed_v<E> ? MPSGRAPH_INT8 : MPSGRAPH_UINT8;
    return first + (sizeof(E) == 1 ? 0 : sizeof(E) == 2 ? 1 : sizeof(E) == 4 ? 2 : 3);
  }
  static_assert(std::is_arithmetic_v<E> || std::is_same_v<E, float16> || std::is_same_v<E, bfloat16>,
                "the element type must be float, double, float16, bfloat16, bool or an integer type");
}

inline const char* name_of(mpsgraph_dtype dtype) {
  static const char* const names[] = {"float32", "float16", "bfloat16", "float64",   "int8",
                                      "int16",   "int32",   "int64",    "uint8",     "uint16",
                                      "uint32",  "uint64",  "bool",     "complex64", "complex128"};
  return dtype >= 0 && dtype < 15 ? names[dtype] : "unknown";
}

// ---- the arguments of a kernel --------------------------------------------------------------------------------------

// A view of a tensor's elements in row-major order.
template <class T>
class View {
 public:
  View(T* data, const int64_t* dims, int32_t rank) : data_(data), dims_(dims), rank_(rank) {
    for (int32_t axis = 0; axis < rank; ++axis) size_ *= dims[axis];
  }
  T* data() const { return data_; }
  int64_t size() const { return size_; }
  int32_t rank() const { return rank_; }
  int64_t dim(int32_t axis) const {  // returns the size of an axis; negative axes count from the end
    const int32_t at = axis < 0 ? axis + rank_ : axis;
    if (at < 0 || at >= rank_)
      throw std::out_of_range("axis " + std::to_string(axis) + " is out of range for a tensor of rank " +
                              std::to_string(rank_));
    return dims_[at];
  }
  T& operator[](int64_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }

 private:
  T* data_;
  const int64_t* dims_;
  int32_t rank_;
  int64_t size_ = 1;
};

// Access to the types and, by name, the attributes of one use of the operation. Base class of Inference and Call.
// Throws std::out_of_range for an invalid index and std::invalid_argument for an attribute that does not exist or has a
// different kind.
class Site {
 public:
  explicit Site(const mpsgraph_custom_site& site) : site_(site) {}
  int32_t operands() const { return site_.operand_count; }
  int32_t results() const { return site_.result_count; }
  const mpsgraph_type& operand_type(int32_t i) const {
    if (i < 0 || i >= site_.operand_count)
      throw std::out_of_range("operand " + std::to_string(i) + " is out of range: the operation has " +
                              std::to_string(site_.operand_count) + " operand(s)");
    return site_.operand_types[i];
  }
  const mpsgraph_type& result_type(int32_t i) const {
    if (i < 0 || i >= site_.result_count)
      throw std::out_of_range("result " + std::to_string(i) + " is out of range: the operation has " +
                              std::to_string(site_.result_count) + " result(s)");
    return site_.result_types[i];
  }
  bool boolean(const char* name) const { return attribute(name, MPSGRAPH_CUSTOM_BOOLEAN).integer != 0; }
  int64_t integer(const char* name) const { return attribute(name, MPSGRAPH_CUSTOM_INTEGER).integer; }
  double real(const char* name) const { return attribute(name, MPSGRAPH_CUSTOM_REAL).real; }
  const char* string(const char* name) const { return attribute(name, MPSGRAPH_CUSTOM_STRING).string; }
  View<const int64_t> integers(const char* name) const {
    const mpsgraph_custom_attribute& found = attribute(name, MPSGRAPH_CUSTOM_INTEGERS);
    return {found.integers, &found.integer_count, 1};
  }

 private:
  const mpsgraph_custom_attribute& attribute(const char* name, mpsgraph_custom_kind kind) const {
    static const char* const kinds[] = {"boolean", "integer", "real", "string", "integers"};
    for (size_t i = 0; i < site_.attribute_count; ++i) {
      const mpsgraph_custom_attribute& one = site_.attributes[i];
      if (std::strcmp(one.name, name) != 0) continue;
      if (one.kind == kind) return one;
      throw std::invalid_argument(std::string("attribute '") + name + "' must have kind " + kinds[kind] + ", got " +
                                  kinds[one.kind]);
    }
    throw std::invalid_argument(std::string("the operation has no attribute '") + name + "'");
  }
  const mpsgraph_custom_site& site_;
};

// The argument of a kernel: access to its operands, results and attributes.
class Call : public Site {
 public:
  explicit Call(const mpsgraph_custom_call& call) : Site(*call.site), call_(call) {}

  // Views of an operand and of a result. Throw std::invalid_argument if the tensor's elements are not of type T.
  template <class T>
  View<const T> operand(int32_t i) const {
    const mpsgraph_type& type = operand_type(i);
    require<T>(type, "operand", i);
    return {static_cast<const T*>(call_.operands[i]), type.dims, type.rank};
  }
  template <class T>
  View<T> result(int32_t i) const {
    const mpsgraph_type& type = result_type(i);
    require<T>(type, "result", i);
    return {static_cast<T*>(call_.results[i]), type.dims, type.rank};
  }

  // Calls f(begin, end) for parts of [0, items) on several threads. Each part has at least `grain` items. If f throws,
  // this function rethrows the first exception after all parts have ended.
  template <class F>
  void parallel_for(int64_t items, int64_t grain, const F& f) const {
    struct Shared {
      const F& f;
      std::mutex mutex;
      std::exception_ptr failure;
    } shared{f, {}, nullptr};
    call_.parallel_for(
        &call_, items, grain,
        [](void* context, int64_t begin, int64_t end) {
          Shared& held = *static_cast<Shared*>(context);
          try {
            held.f(begin, end);
          } catch (...) {
            const std::lock_guard<std::mutex> lock(held.mutex);
            if (!held.failure) held.failure = std::current_exception();
          }
        },
        &shared);
    if (shared.failure) std::rethrow_exception(shared.failure);
  }

 private:
  template <class T>
  static void require(const mpsgraph_type& type, const char* what, int32_t i) {
    if (type.dtype == dtype_of<T>()) return;
    throw std::invalid_argument(std::string(what) + " " + std::to_string(i) + " has dtype " + name_of(type.dtype) +
                                ", but the kernel accesses it as " + name_of(dtype_of<T>()));
  }
  const mpsgraph_custom_call& call_;
};

// The argument of an inference function, which writes the types of the results. There is initially one result with the
// type of the first operand; results() sets a different number.
class Inference : public Site {
 public:
  explicit Inference(mpsgraph_custom_inference& inference) : Site(*inference.site), inference_(inference) {}
  void results(int32_t count) {
    if (count < 0 || count > MPSGRAPH_CUSTOM_MAX_RESULTS)
      throw std::out_of_range("an operation must have between 0 and " + std::to_string(MPSGRAPH_CUSTOM_MAX_RESULTS) +
                              " results, got " + std::to_string(count));
    inference_.result_count = count;
  }
  mpsgraph_type& result(int32_t i) const {
    if (i < 0 || i >= inference_.result_count)
      throw std::out_of_range("result " + std::to_string(i) + " is out of range: the operation has " +
                              std::to_string(inference_.result_count) + " result(s); call results() first");
    return inference_.results[i];
  }

 private:
  mpsgraph_custom_inference& inference_;
};

// ---- C++ functions in the form that a description takes -------------------------------------------------------------

namespace inside {

// Converts exceptions to failures. No exception may cross the C interface, so the message is passed to `fail` instead.
template <class Function, class Fail>
int32_t guarded(const Function& function, const Fail& fail) noexcept {
  try {
    function();
    return 0;
  } catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("expected an exception derived from std::exception, but the custom operation threw a different type");
  }
  return 1;
}

}  // namespace inside

// Turns a function void(Call&) into the kernel of a description. If the function throws, the run fails with the message
// of the exception.
template <void (*function)(Call&)>
int32_t kernel(const mpsgraph_custom_call* call) {
  return inside::guarded(
      [&] {
        Call made(*call);
        function(made);
      },
      [&](const char* message) { call->fail(call, message); });
}

// Turns a function void(Inference&) into the inference function of a description. If the function throws, mpsgraph
// reports a ShapeError with the message of the exception.
template <void (*function)(Inference&)>
int32_t infer(mpsgraph_custom_inference* inference) {
  return inside::guarded(
      [&] {
        Inference made(*inference);
        function(made);
      },
      [&](const char* message) { inference->fail(inference, message); });
}

}  // namespace mpsgraph::custom
#endif

#endif
