// DLPack: the C structures through which array libraries exchange memory, and conversion between them and NDArray.
//
// The layout of the structures is defined by the standard (versions 0.8 and 1.0) and must not change. Only CPU memory
// is supported.
#pragma once

#include <cstdint>
#include <optional>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/ndarray.h"

extern "C" {

struct DLDevice {
  int32_t device_type;  // 1 means the CPU
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;         // 0: int, 1: uint, 2: float, 4: bfloat, 6: bool
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;     // counted in elements; null means row-major
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;       // bit 0: read-only, bit 1: is a copy
  DLTensor dl_tensor;
};

}  // extern "C"

namespace mpsgraph::runtime {

inline constexpr int32_t dlpack_cpu = 1;
inline constexpr uint64_t dlpack_read_only = 1, dlpack_is_copied = 2;

// Converts a DLPack type; nullopt if mpsgraph does not support it.
MPSGRAPH_API std::optional<DType> dtype_of_dlpack(DLDataType type);

// Exports an array. The receiver must call the deleter. to_dlpack() throws DeviceError for a read-only array, because
// DLPack 0.8 cannot mark an array as read-only.
MPSGRAPH_API DLManagedTensor* to_dlpack(const NDArray& array);
MPSGRAPH_API DLManagedTensorVersioned* to_dlpack_versioned(const NDArray& array, bool copied = false);

// Imports an array and takes ownership of the structure: its deleter is called when the last view is destroyed, or
// immediately if this function throws.
MPSGRAPH_API NDArray from_dlpack(DLManagedTensor* managed);
MPSGRAPH_API NDArray from_dlpack(DLManagedTensorVersioned* managed);

}  // namespace mpsgraph::runtime
