// Logic and bitwise operations. Each uses one MPSGraph method, except shifts: Apple documents neither amounts outside
// the width nor the bits shifted into negative numbers, so these cases are composed.
#include "backends/metal/formula.h"

namespace mpsgraph::metal {
namespace {

#define UNARY(kind, method) \
  define_lowering(          \
      kind, [](Lowering& l) -> GraphTensors { return {[l.graph() method##WithTensor:l.input() name:l.name()]}; })
#define BINARY(kind, method)                                                                            \
  define_lowering(kind, [](Lowering& l) -> GraphTensors {                                               \
    return {[l.graph() method##WithPrimaryTensor:l.input(0) secondaryTensor:l.input(1) name:l.name()]}; \
  })

struct Shift {
  Term number, amount, valid;  // `amount` is 0 where `valid` is false
  explicit Shift(const Lowering& l) : number(Term::input(l, 0)), amount(Term::input(l, 1)), valid(in_range(l, amount)) {
    amount = select(valid, amount, 0);
  }
  static Term in_range(const Lowering& l, const Term& amount) {
    const Term below = amount < 8.0 * static_cast<double>(size_of(l.dtype()));
    return is_signed(l.dtype()) ? both(amount >= 0, below) : below;
  }
};

// A shift by at least the width of the type gives 0, as in every left shift of this library.
GraphTensors lower_left_shift(Lowering& l) {
  const Shift shift(l);
  const Term shifted = shift.number.with([l.graph() bitwiseLeftShiftWithPrimaryTensor:shift.number.tensor()
                                                                      secondaryTensor:shift.amount.tensor()
                                                                                 name:l.name()]);
  return select(shift.valid, shifted, 0);
}

// Negative numbers are inverted, shifted, and inverted again, so that the vacated high bits are filled with the sign.
GraphTensors lower_right_shift(Lowering& l) {
  const Shift shift(l);
  const auto turned = [&](const Term& x) { return x.with([l.graph() bitwiseNOTWithTensor:x.tensor() name:nil]); };
  const auto shifted = [&](const Term& x) {
    return select(shift.valid,
                  x.with([l.graph() bitwiseRightShiftWithPrimaryTensor:x.tensor()
                                                       secondaryTensor:shift.amount.tensor()
                                                                  name:l.name()]),
                  0);
  };
  if (!is_signed(l.dtype())) return shifted(shift.number);
  const Term negative = shift.number < 0, result = shifted(select(negative, turned(shift.number), shift.number));
  return select(negative, turned(result), result);
}

}  // namespace

const Lowerings bits_lowerings("bits", [] {
  UNARY("not", not);
  BINARY("logical_and", logicalAND);
  BINARY("logical_or", logicalOR);
  BINARY("logical_nand", logicalNAND);
  BINARY("logical_nor", logicalNOR);
  BINARY("logical_xor", logicalXOR);
  BINARY("logical_xnor", logicalXNOR);
  UNARY("bitwise_not", bitwiseNOT);
  UNARY("bitwise_population_count", bitwisePopulationCount);
  BINARY("bitwise_and", bitwiseAND);
  BINARY("bitwise_or", bitwiseOR);
  BINARY("bitwise_xor", bitwiseXOR);
  define_lowering("bitwise_left_shift", lower_left_shift);
  define_lowering("bitwise_right_shift", lower_right_shift);
});

}  // namespace mpsgraph::metal

#undef UNARY
#undef BINARY
