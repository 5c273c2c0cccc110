// Constant data and the attribute map: storage, exact comparison, and conversion to numbers.
#include "mpsgraph/core/attributes.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <mutex>

#include "core/weight_memory.h"
#include "mpsgraph/core/errors.h"

namespace mpsgraph {
namespace {

template <class T>
T load(const std::byte* bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

// Calls f with a value of the C++ type that stores `dtype`; 16-bit floats are passed as their bits.
template <class F>
auto with_storage_type(DType dtype, F f) {
  switch (dtype) {
    case DType::float32: return f(float{});
    case DType::float64: return f(double{});
    case DType::int8: return f(int8_t{});
    case DType::int16: return f(int16_t{});
    case DType::int32: return f(int32_t{});
    case DType::int64: return f(int64_t{});
    case DType::uint32: return f(uint32_t{});
    case DType::uint64: return f(uint64_t{});
    case DType::uint8:
    case DType::boolean: return f(uint8_t{});
    case DType::complex64: return f(std::complex<float>{});
    case DType::complex128: return f(std::complex<double>{});
    case DType::float16:
    case DType::bfloat16:
    case DType::uint16: break;
  }
  return f(uint16_t{});
}

// Returns the bytes of one element of type `dtype` that holds `value`, rounded to that dtype. An integer dtype must be
// able to represent the value.
std::vector<std::byte> element_bytes(DType dtype, double value) {
  std::vector<std::byte> bytes(size_of(dtype));
  const auto store = [&](auto element) { std::memcpy(bytes.data(), &element, sizeof(element)); };
  if (dtype == DType::boolean) {
    store(static_cast<uint8_t>(value != 0));
  } else if (dtype == DType::float16) {
    store(float_to_half(static_cast<float>(value)));
  } else if (dtype == DType::bfloat16) {
    store(float_to_bfloat16(static_cast<float>(value)));
  } else {
    with_storage_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T>) {
        const double rounded = std::nearbyint(value);
        // The exclusive upper limit is a power of two, which double represents exactly even for 64-bit integers.
        const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
        if (!(rounded < above && rounded >= (std::is_signed_v<T> ? -above : 0.0))) {
          throw DTypeError(cat(value, " does not fit into ", name(dtype), "; choose another dtype"));
        }
        store(static_cast<T>(rounded));
      } else {
        store(static_cast<T>(value));
      }
    });
  }
  return bytes;
}

std::shared_ptr<std::byte> owned_copy(const void* bytes, size_t size) {
  std::shared_ptr<std::byte> copy = weight_memory(size);
  if (size) std::memcpy(copy.get(), bytes, size);
  return copy;
}

}  // namespace

struct ConstantData::Made {
  explicit Made(Make function) : make(std::move(function)) {}

  const Make make;
  std::mutex mutex;
  std::shared_ptr<std::byte> bytes;  // null once a new owner has taken the bytes
  bool seen = false;  // whether a caller has a pointer to the bytes
  // Checksum of data that lies outside this object, e.g. in a mapped file. If set, the bytes must not be moved to a new
  // owner.
  std::optional<uint64_t> digest;
};

ConstantPtr ConstantData::borrow(DType dtype, Dims dims, const void* bytes, std::shared_ptr<void> owner, Read read) {
  std::shared_ptr<ConstantData> data(new ConstantData);
  data->dtype_ = dtype;
  data->elements_ = element_count(dims);
  data->dims_ = std::move(dims);
  data->bytes_ = static_cast<const std::byte*>(bytes);
  data->owner_ = std::move(owner);
  data->read_ = std::move(read);
  return data;
}

ConstantPtr ConstantData::remade(DType dtype, Dims dims, std::shared_ptr<std::byte> bytes, Make make) {
  std::shared_ptr<ConstantData> data(new ConstantData);
  data->dtype_ = dtype;
  data->elements_ = element_count(dims);
  data->dims_ = std::move(dims);
  data->made_ = std::make_shared<Made>(std::move(make));
  data->made_->bytes = std::move(bytes);
  return data;
}

ConstantPtr ConstantData::deferred(DType dtype, Dims dims, uint64_t digest, Make open) {
  ConstantPtr data = remade(dtype, std::move(dims), nullptr, std::move(open));
  data->made_->digest = digest;
  return data;
}

std::optional<uint64_t> ConstantData::digest() const { return made_ ? made_->digest : std::nullopt; }

// Returns the bytes, created by `make` if necessary. The mutex is not held while `make` runs, because `make` may wait
// for another thread that also needs the bytes.
const std::byte* ConstantData::remade_bytes() const {
  {
    std::lock_guard lock(made_->mutex);
    made_->seen = true;
    if (made_->bytes) return made_->bytes.get();
  }
  std::shared_ptr<std::byte> again = made_->make();
  std::lock_guard lock(made_->mutex);
  if (!made_->bytes) made_->bytes = std::move(again);
  return made_->bytes.get();
}

std::shared_ptr<std::byte> ConstantData::take() const {
  if (!made_ || made_->digest) return nullptr;
  {
    std::lock_guard lock(made_->mutex);
    if (made_->seen) return nullptr;
    if (made_->bytes) return std::exchange(made_->bytes, nullptr);
  }
  return made_->make();
}

ConstantPtr ConstantData::copy(DType dtype, Dims dims, const void* bytes) {
  auto storage = owned_copy(bytes, static_cast<size_t>(element_count(dims)) * size_of(dtype));
  const std::byte* first = storage.get();
  return borrow(dtype, std::move(dims), first, std::move(storage));
}

ConstantPtr ConstantData::splat(DType dtype, Dims dims, const void* element) {
  auto storage = owned_copy(element, size_of(dtype));
  std::shared_ptr<ConstantData> data(new ConstantData);
  data->dtype_ = dtype;
  data->elements_ = element_count(dims);
  data->dims_ = std::move(dims);
  data->splat_ = true;
  data->bytes_ = storage.get();
  data->owner_ = std::move(storage);
  return data;
}

ConstantPtr ConstantData::splat(DType dtype, Dims dims, double value) {
  return splat(dtype, std::move(dims), static_cast<const void*>(element_bytes(dtype, value).data()));
}

ConstantPtr ConstantData::of_ints(const std::vector<int64_t>& values) {
  return copy(DType::int64, {static_cast<int64_t>(values.size())}, values.data());
}

void ConstantData::expand_into(void* destination) const {
  if (read_) return read_(destination);
  if (!splat_) {
    if (elements_) std::memcpy(destination, bytes(), stored_bytes());
    return;
  }
  with_storage_type(dtype_, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(static_cast<T*>(destination), elements_, load<T>(bytes(), 0));
  });
}

double ConstantData::scalar(int64_t index) const {
  const int64_t i = splat_ ? 0 : index;
  if (dtype_ == DType::float16) return half_to_float(load<uint16_t>(bytes(), i));
  if (dtype_ == DType::bfloat16) return bfloat16_to_float(load<uint16_t>(bytes(), i));
  return with_storage_type(dtype_,
                           [&](auto zero) { return static_cast<double>(std::real(load<decltype(zero)>(bytes(), i))); });
}

double ConstantData::imaginary(int64_t index) const {
  return with_storage_type(dtype_, [&](auto zero) {
    return static_cast<double>(std::imag(load<decltype(zero)>(bytes(), splat_ ? 0 : index)));
  });
}

int64_t ConstantData::integer(int64_t index) const {
  if (is_inexact(dtype_)) throw DTypeError(cat("the constant must be an integer, got ", name(dtype_)));
  const int64_t i = splat_ ? 0 : index;
  return with_storage_type(dtype_, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      return static_cast<int64_t>(load<T>(bytes(), i));
    else
      return int64_t{0};  // unreachable, because other dtypes are rejected above
  });
}

std::vector<int64_t> ConstantData::integers() const {
  std::vector<int64_t> values(static_cast<size_t>(elements_));
  for (int64_t i = 0; i < elements_; ++i) values[static_cast<size_t>(i)] = integer(i);
  return values;
}

std::shared_ptr<const ConstantData> ConstantData::with(ConstantForms forms) const {
  auto result = std::shared_ptr<ConstantData>(new ConstantData(*this));
  result->forms_ = std::make_shared<const ConstantForms>(std::move(forms));
  return result;
}

const ConstantForm* ConstantData::form(std::string_view name) const {
  if (!forms_) return nullptr;
  const auto found = forms_->find(name);
  return found == forms_->end() ? nullptr : &found->second;
}

bool ConstantData::operator==(const ConstantData& other) const {
  if (dtype_ != other.dtype_ || dims_ != other.dims_) return false;
  if (this == &other || elements_ == 0 || (made_ && made_ == other.made_)) return true;
  if (digest() && other.digest() && digest() != other.digest()) return false;
  if (bytes() == other.bytes() && splat_ == other.splat_) return true;
  const size_t size = size_of(dtype_);
  if (splat_ == other.splat_) return std::memcmp(bytes(), other.bytes(), stored_bytes()) == 0;
  const std::byte* element = splat_ ? bytes() : other.bytes();
  const std::byte* all = splat_ ? other.bytes() : bytes();
  for (int64_t i = 0; i < elements_; ++i) {
    if (std::memcmp(element, all + static_cast<size_t>(i) * size, size) != 0) return false;
  }
  return true;
}

std::string_view name(AttributeKind kind) {
  constexpr std::string_view names[] = {"a boolean",     "an integer",         "a real number",
                                        "a string",      "a list of integers", "a dtype",
                                        "constant data", "a tensor type",      "a list of tensor types"};
  return names[static_cast<size_t>(kind)];
}

bool same(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const double* x = std::get_if<double>(&a)) {  // compared bit by bit, so NaN equals itself and 0 does not equal -0
    return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(std::get<double>(b));
  }
  if (const ConstantPtr* x = std::get_if<ConstantPtr>(&a)) {
    const ConstantPtr& y = std::get<ConstantPtr>(b);
    return *x == y || (*x && y && **x == *y);
  }
  return a == b;
}

Attributes::Attributes() = default;
Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> items) {
  for (const auto& [key, value] : items) set(key, value);
}
Attributes::Attributes(const Attributes&) = default;
Attributes::Attributes(Attributes&&) noexcept = default;
Attributes& Attributes::operator=(const Attributes&) = default;
Attributes& Attributes::operator=(Attributes&&) noexcept = default;
Attributes::~Attributes() = default;

const Attributes::Items& Attributes::items() const {
  static const Items none;
  return items_ ? *items_ : none;
}

Attributes::Items& Attributes::own_items() {
  if (!items_)
    items_ = std::make_shared<Items>();
  else if (items_.use_count() > 1)
    items_ = std::make_shared<Items>(*items_);
  // Synchronizes with former owners, which may be other threads. Their accesses, which ended when they released their
  // references, must happen before the items are changed.
  std::atomic_thread_fence(std::memory_order_acquire);
  return *items_;
}

const Attribute* Attributes::find(std::string_view key) const {
  for (const auto& [item, value] : items()) {
    if (item == key) return &value;
  }
  return nullptr;
}

void Attributes::set(std::string_view key, Attribute value) {
  Items& items = own_items();
  const auto position = std::lower_bound(items.begin(), items.end(), key,
                                         [](const auto& item, std::string_view k) { return item.first < k; });
  if (position != items.end() && position->first == key) {
    position->second = std::move(value);
  } else {
    items.emplace(position, std::string(key), std::move(value));
  }
}

void Attributes::erase(std::string_view key) {
  if (!find(key)) return;
  std::erase_if(own_items(), [&](const auto& item) { return item.first == key; });
}

void Attributes::refuse(std::string_view key, AttributeKind expected) const {
  const Attribute* value = find(key);
  if (!value) throw GraphError(cat("missing attribute '", key, "'"));
  throw GraphError(cat("attribute '", key, "' must be ", name(expected), ", got ",
                       name(static_cast<AttributeKind>(value->index()))));
}

bool operator==(const Attributes& a, const Attributes& b) {
  return &a.items() == &b.items() ||
         std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); });
}

}  // namespace mpsgraph
