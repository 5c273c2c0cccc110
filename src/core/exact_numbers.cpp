// Real attributes that can hold exact integers: which attributes these are, how the integers are represented, and how
// they are converted to elements.
#include "core/exact_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mpsgraph/core/errors.h"

namespace mpsgraph {
namespace {

template <class T>
Attribute exact_real_of(DType dtype, T value) {
  const auto rounded = static_cast<double>(value);
  // Rounding to double may reach the power of two just above the range of T. Converting that double back to T would be
  // undefined behavior, so check it first.
  const bool inside = rounded < std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (inside && static_cast<T>(rounded) == value) return rounded;
  return ConstantData::copy(dtype, {}, &value);
}

ConstantPtr integer_element(const ConstantData& exact, DType dtype) {
  const int64_t bits = exact.integer();
  const bool negative = exact.dtype() != DType::uint64 && bits < 0;
  const int digits = static_cast<int>(8 * size_of(dtype)) - (is_signed(dtype) ? 1 : 0);
  const bool fits = negative ? is_signed(dtype) && bits >> (digits - 1) >> 1 == -1
                             : static_cast<uint64_t>(bits) >> (digits - 1) >> 1 == 0;
  if (!fits)
    throw DTypeError(cat(negative ? cat(bits) : cat(static_cast<uint64_t>(bits)), " does not fit into ", name(dtype),
                         "; choose another dtype"));
  return ConstantData::copy(dtype, {}, &bits);  // little-endian: the low bytes come first
}

}  // namespace

bool keeps_integers(std::string_view attribute) {
  static constexpr std::string_view elements[] = {"value", "on_value", "off_value", "padding_constant"};
  return std::ranges::find(elements, attribute) != std::end(elements);
}

Attribute exact_real(int64_t value) { return exact_real_of(DType::int64, value); }
Attribute exact_real(uint64_t value) { return exact_real_of(DType::uint64, value); }

ConstantPtr element_of(const Attributes& attributes, std::string_view key, DType dtype) {
  const Attribute* value = attributes.find(key);
  const ConstantPtr* exact = value ? std::get_if<ConstantPtr>(value) : nullptr;
  if (exact && *exact)
    return is_integer(dtype) ? integer_element(**exact, dtype) : ConstantData::splat(dtype, {}, (*exact)->scalar());
  const double number = attributes.real(key);
  if (is_integer(dtype) && number != std::nearbyint(number))
    throw DTypeError(cat(number, " is not an integer, as ", name(dtype), " requires; choose another dtype"));
  return ConstantData::splat(dtype, {}, number);
}

void require_element(const InferContext& context, std::string_view key, DType dtype) {
  try {
    element_of(context.attributes, key, dtype);
  } catch (const DTypeError& error) {
    context.dtype_error(cat(key, ": ", error.what()));
  }
}

}  // namespace mpsgraph
