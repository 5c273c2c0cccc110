// Conversion between NDArray and DLPack: dtype codes, ownership, and strides.
#include "mpsgraph/runtime/dlpack.h"

#include <algorithm>
#include <memory>

namespace mpsgraph::runtime {

namespace {

enum : uint8_t { code_int = 0, code_uint = 1, code_float = 2, code_bfloat = 4, code_complex = 5, code_bool = 6 };

DLDataType to_code(DType dtype) {
  const auto bits = static_cast<uint8_t>(size_of(dtype) * 8);
  if (dtype == DType::boolean) return {code_bool, bits, 1};
  if (dtype == DType::bfloat16) return {code_bfloat, bits, 1};
  if (is_complex(dtype)) return {code_complex, bits, 1};
  if (is_float(dtype)) return {code_float, bits, 1};
  return {is_signed(dtype) ? code_int : code_uint, bits, 1};
}

DType from_code(DLDataType type) {
  if (const auto dtype = dtype_of_dlpack(type)) return *dtype;
  throw DTypeError(cat("[from_dlpack] DLPack element type with code ", int{type.code}, ", ", int{type.bits},
                       " bits and ", type.lanes, " lane(s) is not supported; convert the array first"));
}

// Keeps the array alive, and stores its dimensions where the DLPack structure can point to them.
template <class Managed>
struct Exported {
  Managed managed{};
  NDArray array;
  Dims dims, strides;

  static Managed* make(const NDArray& array) {
    auto* self = new Exported{.managed = {}, .array = array, .dims = array.dims(), .strides = array.strides()};
    self->managed.manager_ctx = self;
    self->managed.deleter = [](Managed* managed) { delete static_cast<Exported*>(managed->manager_ctx); };
    self->managed.dl_tensor = {.data = array.data(),
                               .device = {dlpack_cpu, 0},
                               .ndim = static_cast<int32_t>(self->dims.size()),
                               .dtype = to_code(array.dtype()),
                               .shape = self->dims.data(),
                               .strides = self->strides.data(),
                               .byte_offset = 0};
    return &self->managed;
  }
};

template <class Managed>
NDArray import(Managed* managed, bool writable) {
  std::shared_ptr<Managed> owner(managed, [](Managed* m) {
    if (m->deleter) m->deleter(m);
  });
  const DLTensor& tensor = managed->dl_tensor;
  if (tensor.device.device_type != dlpack_cpu)
    throw DeviceError(cat("[from_dlpack] only CPU memory can be shared, got an array on DLPack device type ",
                          tensor.device.device_type, "; copy it to the CPU first"));
  const DType dtype = from_code(tensor.dtype);
  Dims dims(tensor.shape, tensor.shape + tensor.ndim);
  element_count(dims);  // throws if the number of elements overflows
  Dims strides = tensor.strides ? Dims(tensor.strides, tensor.strides + tensor.ndim) : contiguous_strides(dims);
  auto* first = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  const size_t alignment = std::min<size_t>(size_of(dtype), 8);  // complex128 only needs the alignment of its parts
  if (reinterpret_cast<uintptr_t>(first) % alignment != 0)
    throw DeviceError(cat("[from_dlpack] the data of a ", name(dtype), " array must be aligned to ", alignment,
                          " bytes; copy the array first"));
  return NDArray::borrow(first, dtype, std::move(dims), std::move(strides), [owner] {}, writable);
}

}  // namespace

std::optional<DType> dtype_of_dlpack(DLDataType type) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    const auto code = to_code(dtype);
    if (code.code == type.code && code.bits == type.bits && type.lanes == 1) return dtype;
  }
  return {};
}

DLManagedTensor* to_dlpack(const NDArray& array) {
  if (!array.writable())
    throw DeviceError(
        "[dlpack] the array is read-only, which this version of DLPack cannot express; request version 1");
  return Exported<DLManagedTensor>::make(array);
}

DLManagedTensorVersioned* to_dlpack_versioned(const NDArray& array, bool copied) {
  auto* managed = Exported<DLManagedTensorVersioned>::make(array);
  managed->version = {1, 0};
  managed->flags = (array.writable() ? 0 : dlpack_read_only) | (copied ? dlpack_is_copied : 0);
  return managed;
}

NDArray from_dlpack(DLManagedTensor* managed) { return import(managed, true); }

NDArray from_dlpack(DLManagedTensorVersioned* managed) {
  if (managed->version.major != 1) {
    const auto major = managed->version.major;
    if (managed->deleter) managed->deleter(managed);
    throw DeviceError(cat("[from_dlpack] DLPack version ", major, " is not supported; request version 1"));
  }
  return import(managed, !(managed->flags & dlpack_read_only));
}

}  // namespace mpsgraph::runtime
