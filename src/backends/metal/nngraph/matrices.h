// Matrices that a piece of work reads and writes, over the memory that they lie in. Their rows may stand apart.
//
// The work is encoded when its turn has come: what it leaves for other work, such as a state of Apple's, is there for
// whatever follows it in its queue.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/metal/array_uses.h"
#include "mpsgraph/runtime/command_buffer.h"

namespace mpsgraph::metal {

// Where a matrix is on the device.
struct DeviceRows {
  id<MTLBuffer> buffer = nil;
  size_t offset = 0, row_bytes = 0;
  int64_t rows = 0, columns = 0;
  DType dtype = DType::float32;
};

MPSMatrix* matrix_of(const DeviceRows& rows);

// A matrix must not end behind its buffer, with the last row's padding: where it would, it begins earlier, and is moved
// on by an offset.
struct MovedMatrices {
  NSMutableArray<MPSMatrix*>* const matrices = [NSMutableArray array];
  std::vector<NSUInteger> offsets;  // bytes
  void add(const DeviceRows& rows);
};

// From the rows of one to those of the other, as many bytes of each.
void copy_rows(id<MTLBlitCommandEncoder> blit, const DeviceRows& from, const DeviceRows& to);
DeviceRows rows_of(MPSMatrix* matrix);

class MatrixWork {
 public:
  explicit MatrixWork(MetalDevice& device) : device(device) {}
  ~MatrixWork();
  MetalDevice& device;

  // [rows, columns], columns dense; gives the number of it. An array that the device cannot map is copied there and
  // back by the host, as is one that it takes as another type: float16 for float32, or the reverse.
  size_t add(const runtime::NDArray& array, Access access) { return add(array, access, array.dtype()); }
  size_t add(const runtime::NDArray& array, Access access, DType as);
  // Images [N, H, W, C] of any strides, as rows [N, H W C].
  size_t add_images(const runtime::NDArray& images, Access access);
  DeviceRows operator[](size_t number) const { return entries_[number].place; }

  // What lives until the work is done.
  void keep(id object) { [kept_ addObject:object]; }
  void keep(std::shared_ptr<const void> object) { shared_.push_back(std::move(object)); }

  // Appends the work to the command buffer. `function` encodes it, once.
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
    std::shared_ptr<PooledMemory> own;  // of a copy
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
