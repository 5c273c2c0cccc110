// MatrixWork: the matrices that a piece of work reads and writes, mapped to device memory. Their rows may be padded.
//
// The work is encoded when its turn in the queue comes. Objects that it creates for other work, such as Apple's state
// objects, are therefore available to all work after it in the queue.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/metal/array_uses.h"
#include "mpsgraph/runtime/command_buffer.h"

namespace mpsgraph::metal {

// Location of a matrix in device memory.
struct DeviceRows {
  id<MTLBuffer> buffer = nil;
  size_t offset = 0, row_bytes = 0;
  int64_t rows = 0, columns = 0;
  DType dtype = DType::float32;
};

MPSMatrix* matrix_of(const DeviceRows& rows);

// Matrices that do not extend beyond their buffers. The padding of the last row counts as part of a matrix. If this
// padding would end beyond the buffer, the MPSMatrix starts earlier, and its offset points to the data.
struct MovedMatrices {
  NSMutableArray<MPSMatrix*>* const matrices = [NSMutableArray array];
  std::vector<NSUInteger> offsets;  // offset of the data in each matrix, in bytes
  void add(const DeviceRows& rows);
};

// Copy rows between two matrices that have the same number of bytes per row.
void copy_rows(id<MTLBlitCommandEncoder> blit, const DeviceRows& from, const DeviceRows& to);
DeviceRows rows_of(MPSMatrix* matrix);

class MatrixWork {
 public:
  explicit MatrixWork(MetalDevice& device) : device(device) {}
  ~MatrixWork();
  MetalDevice& device;

  // Add an array [rows, columns] whose columns are adjacent in memory, and return its index in this work. The host
  // copies arrays that the device cannot map, and arrays that are used with a different dtype (float16 instead of
  // float32 or vice versa).
  size_t add(const runtime::NDArray& array, Access access) { return add(array, access, array.dtype()); }
  size_t add(const runtime::NDArray& array, Access access, DType as);
  // Add images [N, H, W, C] with any strides. Each image becomes one row of a matrix [N, H W C].
  size_t add_images(const runtime::NDArray& images, Access access);
  DeviceRows operator[](size_t number) const { return entries_[number].place; }

  // Keep an object alive until the work completes.
  void keep(id object) { [kept_ addObject:object]; }
  void keep(std::shared_ptr<const void> object) { shared_.push_back(std::move(object)); }

  // Append the work to the command buffer. `function` encodes it and is called once.
  using Encode = std::function<void(id<MTLCommandBuffer>, MatrixWork&)>;
  static void encode(const std::shared_ptr<MatrixWork>& work, runtime::CommandBuffer& buffer, std::string label,
                     Encode function);

 private:
  struct Entry {
    runtime::NDArray array;
    Access access;
    DType as;
    bool copied;  // whether the host copies the array
    DeviceRows place;
    std::shared_ptr<PooledMemory> own;  // device memory of a copied array
  };
  struct Span;
  void begin(MetalCommands& commands);
  void map(ArrayUses& uses);
  void make_room(ArrayUses& uses);
  runtime::NDArray own(const Entry& entry) const;

  std::vector<Entry> entries_;
  NSMutableArray* const kept_ = [[NSMutableArray alloc] init];
  std::vector<std::shared_ptr<const void>> shared_;
};

}  // namespace mpsgraph::metal
