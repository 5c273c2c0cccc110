// MatrixWork: the matrices that a piece of work reads and writes, mapped over their memory. Their rows may be padded.
//
// The work is encoded in its turn: what it leaves for other work, such as a state object of Apple's, is available to
// whatever follows in the queue.
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

// A matrix, including the padding of its last row, must not end beyond its buffer. If it would, it starts earlier and
// an offset points to the data.
struct MovedMatrices {
  NSMutableArray<MPSMatrix*>* const matrices = [NSMutableArray array];
  std::vector<NSUInteger> offsets;  // in bytes
  void add(const DeviceRows& rows);
};

// Copy rows between two matrices; both have the same number of bytes per row.
void copy_rows(id<MTLBlitCommandEncoder> blit, const DeviceRows& from, const DeviceRows& to);
DeviceRows rows_of(MPSMatrix* matrix);

class MatrixWork {
 public:
  explicit MatrixWork(MetalDevice& device) : device(device) {}
  ~MatrixWork();
  MetalDevice& device;

  // Add an array [rows, columns] whose columns are adjacent in memory, and return its number. The host copies arrays
  // that the device cannot map, and arrays that are used with another dtype (float16 instead of float32 or vice versa).
  size_t add(const runtime::NDArray& array, Access access) { return add(array, access, array.dtype()); }
  size_t add(const runtime::NDArray& array, Access access, DType as);
  // Add images [N, H, W, C] with any strides, as rows [N, H W C].
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
    bool copied;  // by the host
    DeviceRows place;
    std::shared_ptr<PooledMemory> own;  // of a copied matrix
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
