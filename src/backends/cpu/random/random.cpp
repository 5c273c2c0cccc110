// random: computes random values and the advanced state with Philox 4x32-10, bitwise identical to TensorFlow.
//
// Block i of the stream produces outputs 4i to 4i + 3 (for 64-bit types, outputs 2i and 2i + 1), so threads can divide
// the blocks. Truncated normals reject samples, so 256 blocks of the stream (128 for 64-bit types) are reserved for
// each group of four (or two) outputs. Sampling "inverse_cdf" maps one uniform number to one normal, at the midpoints
// of the uniform grid. Scaling rounds twice to the element type: value * (max - min) + min for uniform numbers, and
// value * standard_deviation + mean for normals. The bounds of truncated normals apply before scaling.

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/random/box_muller.h"
#include "backends/cpu/random/philox.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t chunk_blocks = 64;  // few enough that the words of a chunk fit on the stack

// The final scaling of all float distributions, rounded to T after each operation.
template <class T>
struct Scale {
  T factor = T(1), offset = T(0);
  T operator()(Value<T> x) const { return T(Value<T>(T(x * Value<T>(factor))) + Value<T>(offset)); }
};

template <class T>
inline constexpr int64_t per_block = sizeof(T) == 8 ? 2 : 4;

// Call convert(words, values, count) in parallel for chunks of [0, n). `words` holds whole Philox blocks of random
// words.
template <class T, class Convert>
void fill_blocks(const Philox& philox, T* out, int64_t n, int64_t cost, const Convert& convert) {
  constexpr int64_t chunk = chunk_blocks * per_block<T>;
  parallel_for((n + chunk - 1) / chunk, grain_for(chunk * cost), [&](int64_t begin, int64_t end) {
    uint32_t words[4 * chunk_blocks];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t count = std::min(chunk, n - i * chunk), blocks = (count + per_block<T> - 1) / per_block<T>;
      philox.skipped(static_cast<uint64_t>(i * chunk_blocks)).generate(words, blocks);
      convert(words, out + i * chunk, count);
    }
  });
}

template <class T>
Value<T> uniform(const uint32_t* words, int64_t i) {
  if constexpr (std::is_same_v<T, double>)
    return uniform_double(words[2 * i], words[2 * i + 1]);
  else if constexpr (std::is_same_v<T, Half>)
    return uniform_half(words[i]);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return uniform_bfloat16(words[i]);
  else
    return uniform_float(words[i]);
}

template <class T>
void fill_uniform(const Philox& philox, T* out, int64_t n, const Scale<T>& scale) {
  fill_blocks(philox, out, n, 8, [&](const uint32_t* words, T* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) values[i] = scale(uniform<T>(words, i));
  });
}

// Fill `out` with integers in [low, low + range) by modulo, which is slightly biased, as the operation specifies. A
// range of 0 means all values of the type.
template <class T>
void fill_integers(const Philox& philox, T* out, int64_t n, T low, std::make_unsigned_t<T> range) {
  using U = std::make_unsigned_t<T>;
  fill_blocks(philox, out, n, 16, [&](const uint32_t* words, T* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      U bits;
      if constexpr (sizeof(T) == 8)
        bits = words[2 * i] | uint64_t{words[2 * i + 1]} << 32;
      else
        bits = words[i];
      values[i] = static_cast<T>(static_cast<U>(low) + (range ? bits % range : bits));
    }
  });
}

template <class T>
void fill_normal(const Philox& philox, T* out, int64_t n, const Scale<T>& scale) {
  fill_blocks(philox, out, n, 64, [&](const uint32_t* words, T* values, int64_t count) {
    Value<T> z[chunk_blocks * per_block<T>];
    const int64_t pairs = (count + 1) / 2;  // the words of the last pair exist even if only one of its values is needed
    if constexpr (std::is_same_v<T, double>)
      for (int64_t i = 0; i < pairs; ++i) box_muller(words + 4 * i, z + 2 * i);
    else
      normals()(words, pairs, z);
    for (int64_t i = 0; i < count; ++i) values[i] = scale(z[i]);
  });
}

struct Bounds {
  double lower, upper;
};

// Fill `out` with standard normals within the bounds. The first blocks of all groups of outputs are generated together.
// A group with rejected values continues with the next of its reserved blocks.
template <class T>
void fill_truncated(const Philox& philox, T* out, int64_t n, const Scale<T>& scale, const Bounds& bounds) {
  constexpr int64_t group = per_block<T>, blocks = group * 64;  // reserves 256 words per output
  constexpr int64_t chunk = chunk_blocks * group;
  const auto lower = static_cast<Value<T>>(bounds.lower), upper = static_cast<Value<T>>(bounds.upper);
  const auto of_blocks = [](const uint32_t* words, int64_t count, Value<T>* z) {
    if constexpr (std::is_same_v<T, double>)
      for (int64_t i = 0; i < count; ++i) box_muller(words + 4 * i, z + 2 * i);
    else
      normals()(words, 2 * count, z);
  };
  parallel_for((n + chunk - 1) / chunk, grain_for(chunk * 128), [&](int64_t begin, int64_t end) {
    uint32_t words[4 * chunk_blocks];
    Value<T> first[chunk], more[group];
    for (int64_t i = begin * chunk; i < std::min(end * chunk, n); i += chunk) {
      const int64_t groups = (std::min(chunk, n - i) + group - 1) / group;
      Philox here = philox.skipped(static_cast<uint64_t>(i / group * blocks));
      here.generate(words, groups, blocks);
      of_blocks(words, groups, first);
      for (int64_t g = 0; g < groups; ++g, here.skip(blocks)) {
        T* to = out + i + g * group;
        const int64_t count = std::min(group, n - i - g * group);
        int64_t made = 0;
        const auto take = [&](const Value<T>* z) {
          for (int64_t j = 0; j < group && made < count; ++j)
            if (z[j] > lower && z[j] < upper) to[made++] = scale(z[j]);
        };
        take(first + g * group);
        for (uint64_t block = 1; made < count; ++block) {
          here.skipped(block).generate(words, 1);
          of_blocks(words, 1, more);
          take(more);
        }
      }
    }
  });
}

// An interval of the normal distribution, given by the probabilities at its ends. An interval above the mean is sampled
// from its mirror image below the mean, because small probabilities are more precise than those near 1.
struct Stretch {
  double lower = -HUGE_VAL, upper = HUGE_VAL, begin = 0, length = 1;
  bool mirrored = false;

  Stretch() = default;
  explicit Stretch(const Bounds& bounds) : lower(bounds.lower), upper(bounds.upper), mirrored(lower > 0) {
    if (mirrored) lower = -bounds.upper, upper = -bounds.lower;
    const auto below = [](double z) { return 0.5 * std::erfc(-z * std::sqrt(0.5)); };
    begin = below(lower), length = below(upper) - begin;
  }
  double at(double u) const {
    const double z = std::clamp(inverse_normal(begin + u * length), lower, upper);
    return mirrored ? -z : z;
  }
};

// Fill `out` with normals by inversion of the distribution function.
template <class T>
void fill_inverse(const Philox& philox, T* out, int64_t n, const Scale<T>& scale, const Stretch& stretch) {
  fill_blocks(philox, out, n, 512, [&](const uint32_t* words, T* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      double u;
      if constexpr (std::is_same_v<T, double>)
        u = uniform_double(words[2 * i], words[2 * i + 1]) + 0x1p-53;
      else
        u = static_cast<double>(uniform_float(words[i])) + 0x1p-24;
      values[i] = scale(static_cast<Value<T>>(stretch.at(u)));
    }
  });
}

// Return a kernel that reads the state, calls `fill`, and writes the advanced state; all distributions share this.
template <class T, class Fill>
std::unique_ptr<Kernel> random_kernel(Lowering& lowering, const Fill& fill) {
  const Operand state = lowering.input(1), values = lowering.output(0), next = lowering.output(1);
  const int64_t n = values.elements();
  int64_t blocks = 256 * n;
  if (lowering.attributes().string("advance") == "blocks") {
    const bool rejects = lowering.attributes().string("distribution") == "truncated_normal" &&
                         lowering.attributes().string("sampling_method") == "box_muller";
    blocks = (n + per_block<T> - 1) / per_block<T> * (rejects ? per_block<T> * 64 : 1);
  }
  return kernel([=](Frame& f) {
    const Philox philox(f.at<int32_t>(state.slot));
    fill(philox, f.at<T>(values.slot), n);
    philox.skipped(static_cast<uint64_t>(blocks)).write_state(f.at<int32_t>(next.slot));
  });
}

template <class T>
std::unique_ptr<Kernel> lower_floats(Lowering& lowering) {
  const Attributes& a = lowering.attributes();
  const bool uniform_ = a.string("distribution") == "uniform",
             truncated = a.string("distribution") == "truncated_normal";
  using V = Value<T>;
  const auto rounded = [&](std::string_view key) { return T(static_cast<V>(a.real(key))); };
  if (uniform_) {
    const Scale<T> scale{T(V(rounded("max")) - V(rounded("min"))), rounded("min")};
    return random_kernel<T>(lowering, [=](const Philox& p, T* out, int64_t n) { fill_uniform(p, out, n, scale); });
  }
  const Scale<T> scale{rounded("standard_deviation"), rounded("mean")};
  const Bounds bounds{a.real("lower"), a.real("upper")};
  if (a.string("sampling_method") == "inverse_cdf") {
    const Stretch stretch = truncated ? Stretch(bounds) : Stretch();
    return random_kernel<T>(lowering,
                            [=](const Philox& p, T* out, int64_t n) { fill_inverse(p, out, n, scale, stretch); });
  }
  if (truncated)
    return random_kernel<T>(lowering,
                            [=](const Philox& p, T* out, int64_t n) { fill_truncated(p, out, n, scale, bounds); });
  return random_kernel<T>(lowering, [=](const Philox& p, T* out, int64_t n) { fill_normal(p, out, n, scale); });
}

template <class T>
std::unique_ptr<Kernel> lower_integers(Lowering& lowering) {
  using U = std::make_unsigned_t<T>;
  const auto low = static_cast<T>(lowering.attributes().integer("min_integer"));
  const auto range = static_cast<U>(static_cast<U>(lowering.attributes().integer("max_integer")) - static_cast<U>(low));
  return random_kernel<T>(lowering, [=](const Philox& p, T* out, int64_t n) { fill_integers(p, out, n, low, range); });
}

std::unique_ptr<Kernel> lower_random(Lowering& lowering) {
  const DType dtype = lowering.output().dtype;
  if (dtype == DType::int32) return lower_integers<int32_t>(lowering);
  if (dtype == DType::int64) return lower_integers<int64_t>(lowering);
  return dispatch_float(lowering, dtype,
                        [&](auto type) { return lower_floats<typename decltype(type)::type>(lowering); });
}

}  // namespace

const Kernels random_kernels("random", [] { define_kernel("random", lower_random); });

}  // namespace mpsgraph::cpu
