// Random numbers from Philox 4x32-10, bit for bit the same as on the CPU device.
//
// MPSGraph's generator produces TensorFlow's uniform float32 numbers, and thus the low 23 bits of every word. Other
// floating-point numbers are derived from these by exact formulas. Apple documents neither how far MPSGraph advances
// the state, nor how it maps bits to integers, nor how it redraws rejected numbers, and its normal numbers have been
// observed to be NaN. The state, integers, and normal numbers are therefore composed. Where whole words or other blocks
// are needed, they are computed with Philox rounds in integer arithmetic.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/metal/lowering.h"

namespace mpsgraph::metal {
namespace {

using Words = std::array<MPSGraphTensor*, 4>;

// Short names for the operations that the formulas need. Words are uint32, with wraparound arithmetic and logical
// shifts.
class Arithmetic {
 public:
  explicit Arithmetic(Lowering& l) : l(l), graph(l.graph()) {}

  // The word is passed as bytes, because it is unknown whether MPSGraph converts a double above 2^31 to uint32
  // correctly: no other project is known to pass such a double.
  MPSGraphTensor* word(uint32_t value) const {
    const NSData* bytes = [NSData dataWithBytes:&value length:sizeof value];
    return [graph constantWithData:const_cast<NSData*>(bytes) shape:@[ @1 ] dataType:MPSDataTypeUInt32];
  }
  MPSGraphTensor* real(double value) const { return l.scalar(value, DType::float32); }
  MPSGraphTensor* add(MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph additionWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  MPSGraphTensor* sub(MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph subtractionWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  MPSGraphTensor* mul(MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph multiplicationWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  MPSGraphTensor* both(MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph bitwiseANDWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  MPSGraphTensor* either(MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph bitwiseORWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  MPSGraphTensor* differ(MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph bitwiseXORWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  MPSGraphTensor* right(MPSGraphTensor* a, uint32_t bits) const {
    return [graph bitwiseRightShiftWithPrimaryTensor:a secondaryTensor:word(bits) name:nil];
  }
  MPSGraphTensor* left(MPSGraphTensor* a, uint32_t bits) const {
    return [graph bitwiseLeftShiftWithPrimaryTensor:a secondaryTensor:word(bits) name:nil];
  }
  MPSGraphTensor* less(MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph lessThanWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  MPSGraphTensor* all(MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph logicalANDWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  MPSGraphTensor* smaller(MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph minimumWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  MPSGraphTensor* greater(MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph maximumWithPrimaryTensor:a secondaryTensor:b name:nil];
  }
  MPSGraphTensor* choose(MPSGraphTensor* condition, MPSGraphTensor* a, MPSGraphTensor* b) const {
    return [graph selectWithPredicateTensor:condition truePredicateTensor:a falsePredicateTensor:b name:nil];
  }
  MPSGraphTensor* root(MPSGraphTensor* a) const { return [graph squareRootWithTensor:a name:nil]; }
  // Reinterpret the bits as signed or unsigned 32-bit integers.
  MPSGraphTensor* as(MPSGraphTensor* a, DType dtype) const {
    return [graph reinterpretCastTensor:a toType:data_type(dtype) name:nil];
  }
  // Return 0, 1, ... as a column of words.
  MPSGraphTensor* numbers_to(int64_t count) const {
    return l.cast([graph coordinateAlongAxis:0 withShape:numbers({count, 1}) name:nil], DType::uint32);
  }
  // Concatenate columns of words.
  MPSGraphTensor* beside(NSArray<MPSGraphTensor*>* columns) const {
    return [graph concatTensors:columns dimension:1 name:nil];
  }
  MPSGraphTensor* polynomial(MPSGraphTensor* x, std::initializer_list<double> coefficients) const {
    MPSGraphTensor* sum = nil;
    for (auto c = std::rbegin(coefficients); c != std::rend(coefficients); ++c)
      sum = sum ? add(mul(sum, x), real(*c)) : real(*c);
    return sum;
  }

  Lowering& l;
  MPSGraph* const graph;
};

// --- the generator in integer arithmetic -----------------------------------------------------------------------------

// Return a + b modulo 2^32 and the carry. The carry is 1 if the top bit is set in both operands, or if it is set in at
// least one operand but not in the sum.
std::array<MPSGraphTensor*, 2> sum_and_carry(const Arithmetic& m, MPSGraphTensor* a, MPSGraphTensor* b) {
  MPSGraphTensor* sum = m.add(a, b);
  MPSGraphTensor* not_sum = m.differ(sum, m.word(0xFFFFFFFFu));
  return {sum, m.right(m.either(m.both(a, b), m.both(m.either(a, b), not_sum)), 31)};
}

// Advance the four words of the counter by a number of blocks, whose 64 bits consist of the words `low` and `high`.
Words moved(const Arithmetic& m, const Words& counter, MPSGraphTensor* low, MPSGraphTensor* high) {
  const auto [c0, carry0] = sum_and_carry(m, counter[0], low);
  const auto [partly, carry1] = sum_and_carry(m, counter[1], high);
  const auto [c1, carry2] = sum_and_carry(m, partly, carry0);
  const auto [c2, carry3] = sum_and_carry(m, counter[2], m.either(carry1, carry2));
  return {c0, c1, c2, m.add(counter[3], carry3)};
}

// Return the high word of a * b, computed from 16-bit halves so that no product or sum exceeds 32 bits.
MPSGraphTensor* upper_product(const Arithmetic& m, MPSGraphTensor* a, uint32_t b) {
  MPSGraphTensor *half = m.word(0xFFFFu), *low = m.both(a, half), *high = m.right(a, 16);
  MPSGraphTensor *b_low = m.word(b & 0xFFFFu), *b_high = m.word(b >> 16);
  MPSGraphTensor *low_high = m.mul(low, b_high), *high_low = m.mul(high, b_low);
  MPSGraphTensor* middle = m.add(m.add(m.right(m.mul(low, b_low), 16), m.both(low_high, half)), m.both(high_low, half));
  return m.add(m.add(m.mul(high, b_high), m.right(low_high, 16)), m.add(m.right(high_low, 16), m.right(middle, 16)));
}

struct State {
  Words counter;
  std::array<MPSGraphTensor*, 2> key;
};

// Decode an int32[7] state: the constant 1, four counter words from the lowest, and two key words. Each word has shape
// (1).
State state_of(const Arithmetic& m) {
  MPSGraphTensor* words = m.as(m.l.input(1), DType::uint32);
  const auto part = [&](NSInteger i) { return [m.graph sliceTensor:words dimension:0 start:i length:1 name:nil]; };
  return {{part(1), part(2), part(3), part(4)}, {part(5), part(6)}};
}

// Compute one Philox block per counter.
Words blocks_of(const Arithmetic& m, Words c, const State& state) {
  for (uint32_t round = 0; round < 10; ++round) {
    MPSGraphTensor* k0 = m.add(state.key[0], m.word(round * 0x9E3779B9u));
    MPSGraphTensor* k1 = m.add(state.key[1], m.word(round * 0xBB67AE85u));
    MPSGraphTensor *high0 = upper_product(m, c[0], 0xD2511F53u), *high2 = upper_product(m, c[2], 0xCD9E8D57u);
    c = {m.differ(m.differ(high2, c[1]), k0), m.mul(c[2], m.word(0xCD9E8D57u)), m.differ(m.differ(high0, c[3]), k1),
         m.mul(c[0], m.word(0xD2511F53u))};
  }
  return c;
}

MPSGraphTensor* state_after(const Arithmetic& m, const State& state, uint64_t blocks) {
  const Words counter =
      moved(m, state.counter, m.word(static_cast<uint32_t>(blocks)), m.word(static_cast<uint32_t>(blocks >> 32)));
  MPSGraphTensor* words =
      [m.graph concatTensors:@[ m.word(1), counter[0], counter[1], counter[2], counter[3], state.key[0], state.key[1] ]
                   dimension:0
                        name:nil];
  return m.as(words, DType::int32);
}

// Return at least `count` random words, starting at the state, in Philox blocks of four words. Each of the four
// returned columns holds one word of every block.
Words words_for(const Arithmetic& m, const State& state, int64_t count) {
  const int64_t blocks = (count + 3) / 4;
  return blocks_of(m, moved(m, state.counter, m.numbers_to(blocks), m.word(0)), state);
}

// --- distributions ---------------------------------------------------------------------------------------------------

// Return the first `count` elements of a tensor as one row.
MPSGraphTensor* first_of(const Arithmetic& m, MPSGraphTensor* tensor, int64_t count) {
  MPSGraphTensor* row = m.l.reshape(tensor, {element_count(dims_of(tensor.shape))});
  return [m.graph sliceTensor:row dimension:0 start:0 length:count name:nil];
}

// Return uniform numbers in [0, 1) from the low 23 bits of each word. MPSGraph has returned wrong numbers for more than
// four axes, so all numbers are drawn as one row.
MPSGraphTensor* uniform(const Arithmetic& m, int64_t count) {
  MPSGraphRandomOpDescriptor* descriptor =
      [MPSGraphRandomOpDescriptor descriptorWithDistribution:MPSGraphRandomDistributionUniform
                                                    dataType:MPSDataTypeFloat32];
  descriptor.min = 0;
  descriptor.max = 1;
  return [m.graph randomTensorWithShape:numbers({count}) descriptor:descriptor stateTensor:m.l.input(1) name:nil][0];
}

// Return uniform numbers with a mantissa of `bits` bits, taken from the lowest bits of the float32 mantissa.
MPSGraphTensor* uniform_of_bits(const Arithmetic& m, int64_t count, uint32_t bits) {
  MPSGraphTensor* mantissa = m.l.cast(m.mul(uniform(m, count), m.real(0x1p23)), DType::uint32);
  MPSGraphTensor* lowest = m.both(mantissa, m.word((1u << bits) - 1));
  return m.mul(m.l.cast(lowest, DType::float32), m.real(std::ldexp(1.0, -static_cast<int>(bits))));
}

// Transform a pair of uniform numbers to standard normal numbers by the Box-Muller method, sine first.
std::array<MPSGraphTensor*, 2> normal_pair(const Arithmetic& m, MPSGraphTensor* u, MPSGraphTensor* v) {
  MPSGraphTensor* logarithm = [m.graph logarithmWithTensor:m.greater(u, m.real(1e-7f)) name:nil];
  MPSGraphTensor *radius = m.root(m.mul(logarithm, m.real(-2))), *angle = m.mul(v, m.real(2 * M_PI));
  return {m.mul([m.graph sinWithTensor:angle name:nil], radius), m.mul([m.graph cosWithTensor:angle name:nil], radius)};
}

MPSGraphTensor* normal(const Arithmetic& m, int64_t count) {
  const int64_t pairs = (count + 1) / 2;
  MPSGraphTensor* drawn = m.l.reshape(uniform(m, 2 * pairs), {pairs, 2});
  const auto column = [&](NSInteger i) { return [m.graph sliceTensor:drawn dimension:1 start:i length:1 name:nil]; };
  const auto [first, second] = normal_pair(m, column(0), column(1));
  return first_of(m, m.beside(@[ first, second ]), count);
}

// Return normal numbers between bounds, redrawn until they are inside. For each group of four numbers, 256 Philox
// blocks are reserved. A round of the loop computes one block per group and fills in the numbers that the group still
// lacks.
MPSGraphTensor* truncated(const Arithmetic& m, const State& state, int64_t count) {
  const int64_t groups = (count + 3) / 4;
  MPSGraphTensor* number = m.numbers_to(groups);
  const Words begin = moved(m, state.counter, m.left(number, 8), m.right(number, 24));
  MPSGraphTensor* lower = m.real(m.l.attributes().real("lower"));
  MPSGraphTensor* upper = m.real(m.l.attributes().real("upper"));
  MPSGraphTensor *four = m.l.scalar(4, DType::int32), *places = m.l.reshape(m.l.ints({0, 1, 2, 3}), {1, 4});
  const Arithmetic* const arithmetic = &m;
  NSArray<MPSGraphTensor*>* last = [m.graph whileWithInitialInputs:@[
    m.word(0), m.l.filled(0, {DType::int32, Shape(Dims{groups, 1})}),
    m.l.filled(0, {DType::float32, Shape(Dims{groups, 4})})
  ]
      before:^MPSGraphTensor*(NSArray<MPSGraphTensor*>* given, NSMutableArray<MPSGraphTensor*>* found) {
        [found addObjectsFromArray:given];
        const Arithmetic& m = *arithmetic;
        MPSGraphTensor* fewest = [m.graph reductionMinimumWithTensor:given[1] axes:@[ @0, @1 ] name:nil];
        return m.less(m.l.reshape(fewest, {1}), four);
      }
      after:^NSArray<MPSGraphTensor*>*(NSArray<MPSGraphTensor*>* given) {
        const Arithmetic& m = *arithmetic;
        MPSGraphTensor *round = given[0], *made = given[1], *numbers = given[2];
        const Words words = blocks_of(m, moved(m, begin, round, m.word(0)), state);
        MPSGraphTensor* drawn[4];
        for (size_t i = 0; i < 4; ++i)
          drawn[i] = m.mul(m.l.cast(m.both(words[i], m.word(0x7FFFFFu)), DType::float32), m.real(0x1p-23));
        for (size_t pair : {0u, 2u}) {
          for (MPSGraphTensor* z : normal_pair(m, drawn[pair], drawn[pair + 1])) {
            MPSGraphTensor* within = m.all(m.less(lower, z), m.less(z, upper));
            MPSGraphTensor* here = [m.graph equalWithPrimaryTensor:made secondaryTensor:places name:nil];
            numbers = m.choose(m.all(within, here), z, numbers);
            made = m.add(made, m.l.cast(within, DType::int32));
          }
        }
        return @[ m.add(round, m.word(1)), made, numbers ];
      }
      name:nil];
  return first_of(m, last[2], count);
}

double below(double z) { return 0.5 * std::erfc(-z * std::sqrt(0.5)); }

// Return normal numbers z by inverting the distribution function, restricted to a range. A range above the mean is
// mirrored, because float32 represents small probabilities most precisely. With the probabilities p below z and q above
// z, z / (p - q) is a smooth function of w = -log(4 p q). Polynomials in w, and in sqrt(w) for the tails, approximate
// it to 3e-7.
MPSGraphTensor* inverse(const Arithmetic& m, int64_t count, bool is_truncated) {
  const Attributes& a = m.l.attributes();
  double lower = is_truncated ? a.real("lower") : -HUGE_VAL, upper = is_truncated ? a.real("upper") : HUGE_VAL;
  const bool mirrored = lower > 0;
  if (mirrored) std::tie(lower, upper) = std::pair(-upper, -lower);
  const double begin = below(lower), end = below(-upper), length = below(upper) - begin;
  const double least = std::min(begin, end) + length * 0x1p-24;
  if (least < 1e-37)
    m.l.unsupported("lower and upper must be closer to the mean, because their probabilities underflow in float32; use "
                    "device=\"cpu\"");
  // u is the midpoint of one of 2^23 equal intervals of [0, 1], because float32 represents both u and 1 - u exactly for
  // these midpoints.
  MPSGraphTensor *u = m.add(uniform(m, count), m.real(0x1p-24)), *rest = m.sub(m.real(1), u);
  MPSGraphTensor* p = m.add(m.mul(u, m.real(length)), m.real(begin));
  MPSGraphTensor* q = m.add(m.mul(rest, m.real(length)), m.real(end));
  // The product p q may underflow in float32, so the logarithms of p and q are added.
  MPSGraphTensor* product = [m.graph logarithmWithTensor:m.mul(m.smaller(p, q), m.real(4)) name:nil];
  MPSGraphTensor* w = [m.graph negativeWithTensor:m.add(product, [m.graph logarithmWithTensor:m.greater(p, q) name:nil])
                                             name:nil];
  MPSGraphTensor* near = m.polynomial(
      m.sub(w, m.real(2.5)), {2.123313665e+00, 3.488026857e-01, -5.908129737e-03, -1.773041789e-03, 3.091151011e-04,
                              -6.207880233e-06, -4.981194706e-06, 4.851791005e-07, 3.958320960e-08});
  MPSGraphTensor* distance = m.root(m.greater(w, m.real(0)));
  MPSGraphTensor* far =
      m.polynomial(m.sub(distance, m.real(3)), {4.006434441e+00, 1.416582704e+00, 1.334900502e-02, -1.080842409e-02,
                                                8.100260049e-03, -5.065435078e-03, 1.964715775e-03, -8.311284182e-05,
                                                -3.204191453e-04, 1.399166940e-04, -1.948156023e-05});
  MPSGraphTensor* slope = m.choose(m.less(w, m.real(5)), near, far);
  if (least < 0.25 * std::exp(-25.0)) {
    MPSGraphTensor* farther = m.polynomial(
        m.sub(distance, m.real(7)),
        {9.714262009e+00, 1.426369309e+00, -7.310422370e-04, 9.370594853e-06, 1.197938309e-05, -2.684966375e-06});
    slope = m.choose(m.less(w, m.real(25)), slope, farther);
  }
  MPSGraphTensor* z = m.mul(m.sub(p, q), slope);
  if (is_truncated) z = m.smaller(m.greater(z, m.real(lower)), m.real(upper));
  return mirrored ? [m.graph negativeWithTensor:z name:nil] : z;
}

// Return integers in [low, low + range): random bits modulo the range, as in TensorFlow, which is slightly biased. A
// range of 0 means all values of the dtype.
MPSGraphTensor* random_integers(const Arithmetic& m, const State& state, int64_t count, DType dtype) {
  const bool wide = dtype == DType::int64;
  const int64_t low = m.l.attributes().integer("min_integer");
  const uint64_t range = static_cast<uint64_t>(m.l.attributes().integer("max_integer")) - static_cast<uint64_t>(low);
  const Words words = words_for(m, state, wide ? 2 * count : count);
  const DType natural = wide ? DType::uint64 : DType::uint32;
  const auto constant = [&](uint64_t value) { return m.as(m.l.ints({static_cast<int64_t>(value)}, dtype), natural); };
  MPSGraphTensor* bits;
  if (wide) {
    const auto joined = [&](size_t i) {
      MPSGraphTensor* upper = [m.graph bitwiseLeftShiftWithPrimaryTensor:m.l.cast(words[i + 1], natural)
                                                         secondaryTensor:constant(32)
                                                                    name:nil];
      return m.either(m.l.cast(words[i], natural), upper);
    };
    bits = m.beside(@[ joined(0), joined(2) ]);
  } else {
    bits = m.beside(@[ words[0], words[1], words[2], words[3] ]);
  }
  bits = first_of(m, bits, count);
  const bool whole = wide ? range == 0 : static_cast<uint32_t>(range) == 0;
  if (!whole) bits = [m.graph moduloWithPrimaryTensor:bits secondaryTensor:constant(range) name:nil];
  return m.as(m.add(bits, constant(static_cast<uint64_t>(low))), dtype);
}

// --- random ----------------------------------------------------------------------------------------------------------

// Scale and shift in the arithmetic of the dtype, which rounds after each of the two operations.
MPSGraphTensor* scaled(const Arithmetic& m, MPSGraphTensor* numbers, DType dtype) {
  const Attributes& a = m.l.attributes();
  const bool is_uniform = a.string("distribution") == "uniform";
  MPSGraphTensor* values = m.l.cast(numbers, dtype);
  MPSGraphTensor *offset = m.l.scalar(a.real(is_uniform ? "min" : "mean"), dtype), *factor;
  if (is_uniform) {
    if (a.real("min") == 0 && a.real("max") == 1) return values;
    factor = m.sub(m.l.scalar(a.real("max"), dtype), offset);
  } else {
    if (a.real("mean") == 0 && a.real("standard_deviation") == 1) return values;
    factor = m.l.scalar(a.real("standard_deviation"), dtype);
  }
  return m.add(m.mul(values, factor), offset);
}

MPSGraphTensor* floats(const Arithmetic& m, const State& state, int64_t count, DType dtype) {
  const std::string &distribution = m.l.attributes().string("distribution"),
                    &method = m.l.attributes().string("sampling_method");
  if (distribution == "uniform") {
    if (dtype == DType::float16) return uniform_of_bits(m, count, 10);
    if (dtype == DType::bfloat16) return uniform_of_bits(m, count, 7);
    return uniform(m, count);
  }
  const bool is_truncated = distribution == "truncated_normal";
  if (method == "inverse_cdf") return inverse(m, count, is_truncated);
  return is_truncated ? truncated(m, state, count) : normal(m, count);
}

uint64_t blocks_taken(const Attributes& a, int64_t count, DType dtype) {
  if (a.string("advance") == "tensorflow") return 256 * static_cast<uint64_t>(count);
  const bool rejects = a.string("distribution") == "truncated_normal" && a.string("sampling_method") == "box_muller";
  const int64_t per_block = dtype == DType::int64 ? 2 : 4;
  return static_cast<uint64_t>((count + per_block - 1) / per_block * (rejects ? per_block * 64 : 1));
}

GraphTensors lower_random(Lowering& l) {
  const Arithmetic m(l);
  const State state = state_of(m);
  const TensorType& type = l.result_type();
  const int64_t count = type.shape.elements();
  data_type(type.dtype, l.operation.where());  // throws if the device lacks the dtype
  MPSGraphTensor* values = nil;
  if (count > 0) {
    values = is_integer(type.dtype) ? random_integers(m, state, count, type.dtype)
                                    : scaled(m, floats(m, state, count, type.dtype), type.dtype);
    values = l.reshape(values, type.shape.dims());
  }
  return {values, state_after(m, state, blocks_taken(l.attributes(), count, type.dtype))};
}

}  // namespace

const Lowerings random_lowerings("random", [] { define_lowering("random", lower_random); });

}  // namespace mpsgraph::metal
