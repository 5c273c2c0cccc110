// Operations recorded and compiled to vector code: functions compared with the C library's results in a wider type,
// casts between all dtypes, and integer operations. Also the number of instructions that fused chains take per element.
#include <bit>
#include <cmath>
#include <functional>
#include <iomanip>
#include <limits>
#include <random>

#include "backends/cpu/jit/recorder.h"
#include "generated_code.h"
#include "mpsgraph/core/builder.h"

using namespace mpsgraph;
using namespace generated;

namespace {

constexpr int64_t n = 4096;  // a multiple of every vector's lanes

Tensor* placeholder(Graph& graph, DType dtype, Dims dims = {n}) {
  return graph.add("placeholder", {}, {{"type", TensorType{dtype, Shape(std::move(dims))}}});
}

// Record all operations that a tensor depends on. Placeholders are streams, in the order of `inputs`; those of rank 0
// are scalars.
std::optional<int> record(Recorder& recorder, const std::vector<Tensor*>& inputs, Tensor* tensor,
                          std::unordered_map<Tensor*, int>& known, bool shared) {
  if (const auto found = known.find(tensor); found != known.end()) return found->second;
  std::optional<int> value;
  const auto input = std::find(inputs.begin(), inputs.end(), tensor);
  if (input != inputs.end()) {
    const auto stream = static_cast<int>(input - inputs.begin());
    const bool scalar = tensor->type.shape.rank() == 0;
    value = scalar ? recorder.scalar(tensor->type.dtype, stream) : recorder.load(tensor->type.dtype, stream);
  } else {
    std::vector<int> operands;
    for (Tensor* operand : tensor->operation->inputs) {
      const auto recorded = record(recorder, inputs, operand, known, true);
      if (!recorded) return std::nullopt;
      operands.push_back(*recorded);
    }
    value = recorder.apply(*tensor->operation, operands, shared);
  }
  if (value) known[tensor] = *value;
  return value;
}

// Return code that computes `results` into the streams after the inputs, or nothing if an operation is not supported.
std::optional<VectorCode> code_of(VectorSet set, int lane_bytes, const std::vector<Tensor*>& inputs,
                                  const std::vector<Tensor*>& results) {
  Recorder recorder(set, lane_bytes);
  std::unordered_map<Tensor*, int> known;
  std::vector<int> values;
  for (Tensor* result : results) {
    const auto value = record(recorder, inputs, result, known, false);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  for (size_t i = 0; i < results.size(); i++)
    if (!recorder.store(results[i]->type.dtype, values[i], static_cast<int>(inputs.size() + i))) return std::nullopt;
  return recorder.code();
}

template <class Number>
struct Function {
  mpsgraph::Kind name;
  std::function<long double(long double)> exact;
  double low, high, error;  // range of arguments, and the stated error in ulp, rounded
};

template <class Number>
std::vector<Function<Number>> functions() {
  const bool wide = sizeof(Number) == 8;
  const double most = wide ? 708 : 87, all = wide ? 1e300 : 1e37;
  const auto f = [](auto function) { return [function](long double x) { return function(x); }; };
#define EXACT(NAME) f([](long double x) { return std::NAME(x); })
  std::vector<Function<Number>> table{
      {"exponent", EXACT(exp), -most, most, 2},
      {"exponent_base2", EXACT(exp2), wide ? -1021. : -125., wide ? 1023. : 127., 2},
      {"exponent_base10", f([](long double x) { return std::pow(10.L, x); }), wide ? -307. : -37., wide ? 308. : 38.,
       wide ? 2. : 3.},
      {"logarithm", EXACT(log), 1e-30, all, wide ? 1. : 2.},
      {"logarithm_base2", EXACT(log2), 1e-30, all, wide ? 2. : 3.},
      {"logarithm_base10", EXACT(log10), 1e-30, all, wide ? 2. : 3.},
      {"sinh", EXACT(sinh), -most, most, 4},
      {"cosh", EXACT(cosh), -most, most, 4},
      {"tanh", EXACT(tanh), -10, 10, 3},
      {"asin", EXACT(asin), -1, 1, 3},
      {"acos", EXACT(acos), -1, 1, 3},
      {"atan", EXACT(atan), -20, 20, wide ? 2. : 3.},
      {"erf", EXACT(erf), -4, 4, wide ? 2. : 6.},
      {"sigmoid", f([](long double x) { return 1 / (1 + std::exp(-x)); }), -30, 80, 3},
      {"square_root", EXACT(sqrt), 0, all, 0.5},
      {"reciprocal", f([](long double x) { return 1 / x; }), 0.001, 1000, 0.5},
      {"absolute", EXACT(fabs), -9, 9, 0},
      {"negative", f([](long double x) { return -x; }), -9, 9, 0},
      {"relu", f([](long double x) { return x > 0 ? x : 0; }), -9, 9, 0},
      {"sign", f([](long double x) { return x > 0   ? 1
                                            : x < 0 ? -1
                                                    : 0; }), -9, 9, 0},
      {"floor", EXACT(floor), -9, 9, 0},
      {"ceil", EXACT(ceil), -9, 9, 0},
      {"truncate", EXACT(trunc), -9, 9, 0},
      {"round", EXACT(round), -9, 9, 0},
      {"rint", EXACT(rint), -9, 9, 0},
  };
  if (!wide) {
    table.push_back({"asinh", EXACT(asinh), -1e6, 1e6, 5});
    table.push_back({"acosh", EXACT(acosh), 1, 1e6, 5});
    table.push_back({"atanh", EXACT(atanh), -0.999, 0.999, 5});
  }
#undef EXACT
  return table;
}

template <class Number>
void check_functions(DType dtype) {
  std::mt19937 random(11);
  for (const VectorSet set : supported_sets())
    for (const Function<Number>& function : functions<Number>()) {
      Graph graph;
      Tensor* x = placeholder(graph, dtype);
      const auto code = code_of(set, sizeof(Number), {x}, {Builder(graph).unary(function.name, x)});
      if (!code) {
        check::fail(__FILE__, __LINE__, std::string(function.name) + " cannot be recorded");
        continue;
      }
      std::vector<Number> in(n), out(n);
      std::uniform_real_distribution<double> within(function.low, function.high), factor(0, 1);
      for (int64_t i = 0; i < n; i++)  // half of the arguments are near 0 or spread over all magnitudes
        in[i] = static_cast<Number>(
            i % 2 || function.low > 0.5 ? within(random)
            : function.low > 0 ? std::pow(10., std::uniform_real_distribution<double>(
                                                   std::log10(function.low), std::log10(function.high))(random))
                               : within(random) * std::pow(factor(random), 4));
      run(*code, {in.data(), out.data()}, n);
      double worst = 0;
      Number at = 0;
      for (int64_t i = 0; i < n; i++) {
        const long double expected = function.exact(in[i]);
        const auto near = static_cast<Number>(std::fabs(expected));
        const long double ulp =
            std::nextafter(near, std::numeric_limits<Number>::infinity()) - static_cast<long double>(near);
        const auto error = static_cast<double>(std::fabs(out[i] - expected) / ulp);
        if (!(error <= worst)) worst = error, at = in[i];
      }
      if (!(worst <= function.error + 0.2))
        check::fail(__FILE__, __LINE__,
                    std::string(function.name) + ": error of " + check::shown(worst) + " ulp at " + check::shown(at) +
                        ", expected at most " + check::shown(function.error));
    }
}

// Elements of any dtype as float64, which represents all values used here.
struct Elements {
  DType dtype;
  std::vector<std::byte> bytes;
  Elements(DType dtype, size_t count) : dtype(dtype), bytes(count * size_of(dtype)) {}
  template <class T>
  T raw(size_t i) const {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    return value;
  }
  double operator[](size_t i) const {
    switch (dtype) {
      case DType::float64: return raw<double>(i);
      case DType::float32: return raw<float>(i);
      case DType::float16: return half_to_float(raw<uint16_t>(i));
      case DType::bfloat16: return bfloat16_to_float(raw<uint16_t>(i));
      case DType::int64: return static_cast<double>(raw<int64_t>(i));
      case DType::int32: return raw<int32_t>(i);
      case DType::int8: return raw<int8_t>(i);
      default: return raw<uint8_t>(i);
    }
  }
  template <class T>
  void put(size_t i, T value) {
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  template <class T>
  void put_integer(size_t i, double x) {  // rounds toward zero and saturates; NaN is 0
    using Limits = std::numeric_limits<T>;
    const double above = std::ldexp(1., Limits::digits);
    put<T>(i, x != x                                    ? T{0}
              : x >= above                              ? Limits::max()
              : x <= static_cast<double>(Limits::min()) ? Limits::min()
                                                        : static_cast<T>(x));
  }
  void set(size_t i, double x) {
    switch (dtype) {
      case DType::float64: return put(i, x);
      case DType::float32: return put(i, static_cast<float>(x));
      case DType::float16: return put(i, float_to_half(static_cast<float>(x)));
      case DType::bfloat16: return put(i, float_to_bfloat16(static_cast<float>(x)));
      case DType::int64: return put_integer<int64_t>(i, x);
      case DType::int32: return put_integer<int32_t>(i, x);
      case DType::int8: return put_integer<int8_t>(i, x);
      case DType::uint8: return put_integer<uint8_t>(i, x);
      default: return put<uint8_t>(i, x != 0);
    }
  }
};

int check_casts(VectorSet set, int lane_bytes, std::initializer_list<DType> dtypes) {
  const std::vector<double> values{0,
                                   1,
                                   -1,
                                   2.5,
                                   -2.5,
                                   100.75,
                                   -100.75,
                                   127,
                                   128,
                                   -128,
                                   -129,
                                   255,
                                   256,
                                   1000,
                                   -1000,
                                   2147483520,
                                   -2147483648.,
                                   3e9,
                                   -3e9,
                                   65504,
                                   70000,
                                   1e-3,
                                   -1e-3,
                                   3.14159265,
                                   std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::quiet_NaN(),
                                   1e15,
                                   -1e15,
                                   7,
                                   9,
                                   11};
  int casts = 0;
  for (const DType from : dtypes)
    for (const DType to : dtypes) {
      Graph graph;
      Tensor* x = placeholder(graph, from);
      Tensor* y = Builder(graph).cast(x, to);
      if (y == x) y = Builder(graph).unary("identity", x);
      const auto code = code_of(set, lane_bytes, {x}, {y});
      if (!code) continue;
      casts++;
      Elements in(from, values.size()), out(to, values.size()), expected(to, values.size());
      for (size_t i = 0; i < values.size(); i++) {
        in.set(i, values[i]);
        if (from == DType::int64 && to == DType::int32)
          expected.put(i, static_cast<int32_t>(in.raw<int64_t>(i)));  // integers wrap
        else
          expected.set(i, in[i]);
      }
      run(*code, {in.bytes.data(), out.bytes.data()}, static_cast<int64_t>(values.size()));
      for (size_t i = 0; i < values.size(); i++)
        if (!(out[i] == expected[i] || (out[i] != out[i] && expected[i] != expected[i])))
          check::fail(__FILE__, __LINE__,
                      "cast of " + check::shown(in[i]) + " from " + std::string(name(from)) + " to " +
                          std::string(name(to)) + " is " + check::shown(out[i]) + " instead of " +
                          check::shown(expected[i]));
    }
  return casts;
}

template <class T>
void check_integers(VectorSet set, DType dtype) {
  std::mt19937_64 random(13);
  std::vector<T> x(64), y(64), out(64);
  for (size_t i = 0; i < x.size(); i++) {
    x[i] = static_cast<T>(random() >> (i % 32)), y[i] = i % 5 ? static_cast<T>(random() >> (i % 29)) : x[i];
    if (i % 3 == 0) x[i] = static_cast<T>(-x[i]);
  }
  using U = std::make_unsigned_t<T>;
  const std::vector<std::pair<const char*, std::function<T(T, T)>>> operations{
      {"addition", [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }},
      {"subtraction", [](T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); }},
      {"multiplication", [](T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); }},
      {"minimum", [](T a, T b) { return std::min(a, b); }},
      {"maximum", [](T a, T b) { return std::max(a, b); }},
      {"equal", [](T a, T b) { return a == b ? a : T{7}; }},
      {"not_equal", [](T a, T b) { return a != b ? a : T{7}; }},
      {"less_than", [](T a, T b) { return a < b ? a : T{7}; }},
      {"less_than_or_equal_to", [](T a, T b) { return a <= b ? a : T{7}; }},
      {"greater_than", [](T a, T b) { return a > b ? a : T{7}; }}};
  T seven = 7;
  for (const auto& [kind, exact] : operations) {
    Graph graph;
    Builder build(graph);
    Tensor *a = placeholder(graph, dtype), *b = placeholder(graph, dtype), *c = placeholder(graph, dtype, {});
    Tensor* result = build.binary(kind_named(kind), a, b);
    if (result->type.dtype == DType::boolean) result = build.select(result, a, c);
    const auto code = code_of(set, sizeof(T), {a, b, c}, {result});
    if (set == VectorSet::avx2 && sizeof(T) == 8 && std::string_view(kind) == "multiplication") {
      CHECK(!code);
      continue;
    }
    CHECK(code.has_value());
    if (!code) continue;
    run(*code, {x.data(), y.data(), &seven, out.data()}, 63);  // with a tail
    for (size_t i = 0; i < 63; i++)
      if (out[i] != exact(x[i], y[i]))
        check::fail(__FILE__, __LINE__, std::string(kind) + " of " + check::shown(x[i]) + " and " + check::shown(y[i]));
  }
}

struct Chain {
  const char* name;
  std::vector<Tensor*> inputs, results;
  double most_neon;  // NEON instructions per element
};

// Return chains of operations of neural networks, over float32.
std::vector<Chain> chains(Graph& graph) {
  Builder b(graph);
  const auto tensor = [&](DType dtype = DType::float32) { return placeholder(graph, dtype); };
  const auto scalar = [&] { return placeholder(graph, DType::float32, {}); };
  std::vector<Chain> all;
  Tensor *x = tensor(), *y = tensor(), *s = scalar(), *t = scalar(), *u = scalar(), *v = scalar(), *w = scalar();
  all.push_back({"relu(x + y)", {x, y}, {b.unary("relu", b.add(x, y))}, 2});
  Tensor* half = b.mul(x, s);
  Tensor* erf = b.add(b.unary("erf", b.mul(x, t)), u);
  all.push_back({"gelu", {x, s, t, u}, {b.mul(half, erf)}, 10});
  Tensor* cube = b.mul(b.mul(x, x), x);
  Tensor* tanh = b.add(b.unary("tanh", b.mul(b.add(x, b.mul(cube, t)), u)), v);
  all.push_back({"gelu with tanh", {x, s, t, u, v}, {b.mul(half, tanh)}, 12});
  all.push_back({"silu", {x}, {b.mul(x, b.unary("sigmoid", x))}, 10});
  all.push_back({"silu, bfloat16", {}, {}, 14});
  all.back().inputs = {tensor(DType::bfloat16)};
  Tensor* wide = b.cast(all.back().inputs[0], DType::float32);
  all.back().results = {b.cast(b.mul(wide, b.unary("sigmoid", wide)), DType::bfloat16)};
  Tensor *p = tensor(), *m = tensor(), *r = tensor(), *g = tensor();
  Tensor* scaled_g = b.mul(g, t);
  Tensor* next_m = b.add(b.mul(m, s), scaled_g);
  Tensor* square = b.mul(b.mul(g, g), v);
  Tensor* next_r = b.add(b.mul(r, u), square);
  Tensor* divisor = b.add(b.unary("square_root", next_r), y);
  Tensor* next = b.sub(p, b.div(b.mul(next_m, w), divisor));
  all.push_back({"adam", {p, m, r, g, s, t, u, v, w, y}, {next, next_m, next_r}, 6});
  all.push_back({"log(1 + exp(x))", {x, s}, {b.unary("logarithm", b.add(b.unary("exponent", x), s))}, 18});
  return all;
}

}  // namespace

TEST(float32_functions_are_accurate) { check_functions<float>(DType::float32); }
TEST(float64_functions_are_accurate) { check_functions<double>(DType::float64); }

TEST(exponents_of_special_values) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const VectorSet set : supported_sets())
    for (mpsgraph::Kind kind : Kinds{"exponent", "exponent_base2", "exponent_base10"}) {
      Graph graph;
      Tensor* x = placeholder(graph, DType::float32);
      const auto code = code_of(set, 4, {x}, {Builder(graph).unary(kind, x)});
      const float denormal = kind == "exponent" ? -100.f : kind == "exponent_base2" ? -145.f : -44.f;
      float in[16] = {std::nanf(""), infinity, -infinity, 0, 500, -500, denormal}, out[16];
      run(*code, {in, out}, 16);
      const double base = kind == "exponent" ? std::exp(1.) : kind == "exponent_base2" ? 2 : 10;
      CHECK(std::isnan(out[0]));
      CHECK(out[1] == infinity && out[2] == 0 && out[3] == 1 && out[4] == infinity && out[5] == 0);
      CHECK(std::fabs(out[6] - std::pow(base, denormal)) <= 1.5 * std::numeric_limits<float>::denorm_min());
    }
}

TEST(casts_between_all_dtypes) {
  for (const VectorSet set : supported_sets()) {
    CHECK(check_casts(set, 4,
                      {DType::float32, DType::float16, DType::bfloat16, DType::int32, DType::int8, DType::uint8,
                       DType::boolean}) >= 30);
    CHECK(check_casts(set, 8,
                      {DType::float64, DType::int64, DType::float32, DType::int32, DType::int8, DType::uint8,
                       DType::boolean}) >= 25);
  }
}

TEST(integer_operations_wrap_and_compare) {
  for (const VectorSet set : supported_sets()) {
    check_integers<int32_t>(set, DType::int32);
    check_integers<int64_t>(set, DType::int64);
  }
}

// The counts do not depend on the processor that runs the test.
TEST(fused_chains_take_few_instructions) {
  Graph graph;
  std::cout << "instructions per element:  NEON   AVX2  ratio  NEON bytes\n";
  for (const Chain& chain : chains(graph)) {
    const auto neon = code_of(VectorSet::neon, 4, chain.inputs, chain.results);
    const auto avx2 = code_of(VectorSet::avx2, 4, chain.inputs, chain.results);
    CHECK(neon && avx2);
    if (!neon || !avx2) continue;
    const double of_neon = loop_instructions(*neon) / 4., of_avx2 = loop_instructions(*avx2) / 8.;
    std::cout << std::left << std::setw(25) << chain.name << std::right << std::fixed << std::setprecision(2)
              << std::setw(7) << of_neon << std::setw(7) << of_avx2 << std::setw(7) << of_neon / of_avx2
              << std::setw(10) << generate(*neon).size() << "\n";
    CHECK(of_neon <= chain.most_neon);
  }
}
