// DLPack: the C structures by which array libraries pass memory to each other, and NDArray in and out of them.
//
// The layout of the structures is the standard's (versions 0.8 and 1.0) and must not change. Only CPU memory passes.
#pragma once

#include <cstdint>
#include <optional>

#include "mpsgraph/export.h"
#include "mpsgraph/runtime/ndarray.h"

extern "C" {

struct DLDevice {
  int32_t device_type;  // 1: CPU
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
  int64_t* strides;     // in elements; null: row-major
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

// None where no element type of ours is meant.
MPSGRAPH_API std::optional<DType> dtype_of_dlpack(DLDataType type);

// The receiver calls the deleter. DeviceError for a read-only array in the old structure, which cannot say so.
MPSGRAPH_API DLManagedTensor* to_dlpack(const NDArray& array);
MPSGRAPH_API DLManagedTensorVersioned* to_dlpack_versioned(const NDArray& array, bool copied = false);

// Takes the structure over: its deleter is called when the last view is gone, or here if this throws.
MPSGRAPH_API NDArray from_dlpack(DLManagedTensor* managed);
MPSGRAPH_API NDArray from_dlpack(DLManagedTensorVersioned* managed);

}  // namespace mpsgraph::runtime
