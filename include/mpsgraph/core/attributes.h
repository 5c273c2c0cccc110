// Attributes: the constant parameters of an operation, such as strides, axes, layouts, seeds, and constant data.
//
// The OperationDefinition defines which attributes an operation takes, with their kinds and defaults. Graph::create
// checks the attributes and fills in defaults, so code that reads them can rely on their presence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// A constant's data in a form that a device has derived for its kernels ahead of time. The device chooses the names of
// its forms.
struct ConstantForm {
  std::shared_ptr<const std::byte> bytes;
  size_t count = 0;
};
using ConstantForms = std::map<std::string, ConstantForm, std::less<>>;

// The value of a constant, or the initial value of a variable: row-major bytes, immutable and shared. A splat stores a
// single element, which is the value of all elements.
class MPSGRAPH_API ConstantData {
 public:
  static std::shared_ptr<const ConstantData> copy(DType, Dims, const void* bytes);
  static std::shared_ptr<const ConstantData> splat(DType, Dims, const void* element);
  static std::shared_ptr<const ConstantData> splat(DType, Dims, double value);  // `value` is rounded to the dtype
  // Borrows memory that `owner` keeps alive, such as a numpy array or a mapped file. `read`, if given, writes the bytes
  // to a destination without accessing the borrowed memory, for cases where this is cheaper.
  using Read = std::function<void(void* destination)>;
  static std::shared_ptr<const ConstantData> borrow(DType, Dims, const void* bytes, std::shared_ptr<void> owner,
                                                    Read read = {});
  // Data whose memory may be reused because `make` can produce the same bytes again; see take(). `make` may be called
  // on any thread.
  using Make = std::function<std::shared_ptr<std::byte>()>;
  static std::shared_ptr<const ConstantData> remade(DType, Dims, std::shared_ptr<std::byte> bytes, Make make);
  // Refers to external data that `open` returns when the bytes are first accessed; `open` may throw then. `digest` is a
  // checksum of the bytes, by which constants can be compared without accessing their bytes.
  static std::shared_ptr<const ConstantData> deferred(DType, Dims, uint64_t digest, Make open);
  static std::shared_ptr<const ConstantData> of_ints(const std::vector<int64_t>& values);  // int64[n]

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int64_t elements() const { return elements_; }
  bool is_splat() const { return splat_; }
  const std::byte* bytes() const { return made_ ? remade_bytes() : bytes_; }  // a single element for a splat
  // Returns the data's memory for writing, if the data can be produced again and no caller has received its address;
  // otherwise returns null. If the bytes are accessed later, they are produced again and kept.
  std::shared_ptr<std::byte> take() const;
  size_t stored_bytes() const { return (splat_ ? 1 : static_cast<size_t>(elements_)) * size_of(dtype_); }
  void expand_into(void* destination) const;  // writes all elements in row-major order
  // returns an element of any dtype as a double; for a complex number, its real part
  double scalar(int64_t index = 0) const;
  double imaginary(int64_t index = 0) const;  // returns the imaginary part of an element; 0 unless the dtype is complex
  int64_t integer(int64_t index = 0) const;  // returns an element of any integer dtype exactly
  std::vector<int64_t> integers() const;
  bool operator==(const ConstantData& other) const;  // whether both have the same type and the same bits
  std::optional<uint64_t> digest() const;  // returns the checksum of the bytes if it is known without accessing them
  // with() returns the same data with forms attached. form() returns the form with the given name, or null if the data
  // has no such form.
  std::shared_ptr<const ConstantData> with(ConstantForms forms) const;
  const ConstantForm* form(std::string_view name) const;

 private:
  ConstantData() = default;
  DType dtype_ = DType::float32;
  Dims dims_;
  int64_t elements_ = 0;
  bool splat_ = false;
  const std::byte* bytes_ = nullptr;
  std::shared_ptr<void> owner_;
  Read read_;
  struct Made;
  std::shared_ptr<Made> made_;  // null if the memory is kept
  const std::byte* remade_bytes() const;
  std::shared_ptr<const ConstantForms> forms_;
};
using ConstantPtr = std::shared_ptr<const ConstantData>;

using Ints = std::vector<int64_t>;
using Types = std::vector<TensorType>;
using Attribute = std::variant<bool, int64_t, double, std::string, Ints, DType, ConstantPtr, TensorType, Types>;
enum class AttributeKind : uint8_t {
  boolean,
  integer,
  real,
  string,
  integers,
  dtype,
  data,
  type,
  types
};  // Each value equals the index of its type in the variant Attribute.
MPSGRAPH_API std::string_view name(AttributeKind kind);
MPSGRAPH_API bool same(const Attribute& a, const Attribute& b);  // compares data by content

// A small map sorted by key, so that printing and hashing do not depend on the order of insertion.
class MPSGRAPH_API Attributes {
 public:
  using Items = std::vector<std::pair<std::string, Attribute>>;

  // None of these functions is inline, because copying a variant of nine types compiles to about a page of code at each
  // use.
  Attributes();
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> items);
  Attributes(const Attributes&);
  Attributes(Attributes&&) noexcept;
  Attributes& operator=(const Attributes&);
  Attributes& operator=(Attributes&&) noexcept;
  ~Attributes();
  const Attribute* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  void set(std::string_view key, Attribute value);
  void erase(std::string_view key);
  const Items& items() const;

  template <class T>
  const T& get(std::string_view key) const {  // throws GraphError if the attribute is missing or of a different kind
    const Attribute* value = find(key);
    const T* held = value ? std::get_if<T>(value) : nullptr;
    if (!held) refuse(key, kind_of<T>(static_cast<const Attribute*>(nullptr)));
    return *held;
  }
  bool boolean(std::string_view key) const { return get<bool>(key); }
  int64_t integer(std::string_view key) const { return get<int64_t>(key); }
  double real(std::string_view key) const { return get<double>(key); }
  const std::string& string(std::string_view key) const { return get<std::string>(key); }
  const Ints& integers(std::string_view key) const { return get<Ints>(key); }
  DType dtype(std::string_view key) const { return get<DType>(key); }
  const ConstantPtr& data(std::string_view key) const { return get<ConstantPtr>(key); }
  const TensorType& type(std::string_view key) const { return get<TensorType>(key); }
  const Types& types(std::string_view key) const { return get<Types>(key); }

 private:
  template <class T, class... Held>
  static constexpr AttributeKind kind_of(const std::variant<Held...>*) {
    size_t index = 0;
    bool found = false;
    ((found = found || std::is_same_v<T, Held>, index += !found), ...);
    return static_cast<AttributeKind>(index);
  }
  [[noreturn]] void refuse(std::string_view key, AttributeKind expected) const;
  Items& own_items();  // returns the items for modification
  // Null if there are no items. Copies share the items until one copy is modified, because compiler passes copy whole
  // graphs.
  std::shared_ptr<Items> items_;
};
MPSGRAPH_API bool operator==(const Attributes& a, const Attributes& b);

}  // namespace mpsgraph
