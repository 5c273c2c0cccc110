// Maps matrices to device memory. Memory that several matrices share is mapped only once. Copies by the host wait for
// preceding work.
#include "backends/metal/nngraph/matrices.h"

#include <algorithm>
#include <numeric>

#include "backends/metal/guarded.h"
#include "backends/metal/signposts.h"
#include "backends/metal/types.h"

namespace mpsgraph::metal {

using runtime::NDArray;

namespace {

// View a matrix, including the padding between its rows, as an array of bytes.
NDArray bytes_of(const NDArray& array) {
  int64_t last = 0;
  for (size_t axis = 0; axis < array.dims().size(); ++axis)
    last += (array.dims()[axis] - 1) * std::max<int64_t>(array.strides()[axis], 0);
  const int64_t bytes = (last + 1) * static_cast<int64_t>(size_of(array.dtype()));
  return NDArray(array.buffer(), DType::uint8, {bytes}, {1},
                 static_cast<size_t>(array.data() - array.buffer()->data()));
}

void copy(const NDArray& from, NDArray to) {
  if (from.dtype() == to.dtype()) return to.copy_from(from);
  const NDArray dense = from.contiguous() ? from : from.copy_contiguous();
  NDArray converted = NDArray::allocate(to.dtype(), to.dims());
  for (int64_t i = 0; i < dense.elements(); ++i) {
    if (to.dtype() == DType::float32)
      reinterpret_cast<float*>(converted.data())[i] = half_to_float(reinterpret_cast<const uint16_t*>(dense.data())[i]);
    else
      reinterpret_cast<uint16_t*>(converted.data())[i] = float_to_half(reinterpret_cast<const float*>(dense.data())[i]);
  }
  to.copy_from(converted);
}

size_t bytes_of_row(const DeviceRows& rows) { return static_cast<size_t>(rows.columns) * size_of(rows.dtype); }

MPSMatrix* matrix_at(const DeviceRows& rows, size_t offset) {
  MPSMatrixDescriptor* descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:static_cast<NSUInteger>(rows.rows)
                                                                          columns:static_cast<NSUInteger>(rows.columns)
                                                                         rowBytes:rows.row_bytes
                                                                         dataType:data_type(rows.dtype)];
  return [[MPSMatrix alloc] initWithBuffer:rows.buffer offset:offset descriptor:descriptor];
}

}  // namespace

MatrixWork::~MatrixWork() {
  @autoreleasepool {  // the thread that destroys this object may have no autorelease pool
    [kept_ removeAllObjects];
    shared_.clear();
    entries_.clear();
  }
}

MPSMatrix* matrix_of(const DeviceRows& rows) { return matrix_at(rows, rows.offset); }

void MovedMatrices::add(const DeviceRows& rows) {
  const size_t all = static_cast<size_t>(rows.rows) * rows.row_bytes, length = rows.buffer.length;
  const bool fits = rows.offset + all <= length || all > length;
  const size_t begin = fits ? rows.offset : length - all;
  [matrices addObject:matrix_at(rows, begin)];
  offsets.push_back(rows.offset - begin);
}

void copy_rows(id<MTLBlitCommandEncoder> blit, const DeviceRows& from, const DeviceRows& to) {
  const size_t bytes = bytes_of_row(from);
  const bool dense = from.row_bytes == bytes && to.row_bytes == bytes;
  const auto times = dense ? 1 : static_cast<size_t>(from.rows);
  for (size_t row = 0; row < times; ++row)
    [blit copyFromBuffer:from.buffer
             sourceOffset:from.offset + row * from.row_bytes
                 toBuffer:to.buffer
        destinationOffset:to.offset + row * to.row_bytes
                     size:dense ? bytes * static_cast<size_t>(from.rows) : bytes];
}

DeviceRows rows_of(MPSMatrix* matrix) {
  const DType dtype = matrix.dataType == MPSDataTypeFloat16 ? DType::float16 : DType::float32;
  if (matrix.dataType != data_type(dtype))
    throw DeviceError(
        cat("[metal] expected a float32 or float16 matrix from Apple's layer, got ", to_string(matrix.dataType)));
  return {matrix.data,
          matrix.offset,
          matrix.rowBytes,
          static_cast<int64_t>(matrix.rows),
          static_cast<int64_t>(matrix.columns),
          dtype};
}

// --- adding matrices -------------------------------------------------------------------------------------------------

size_t MatrixWork::add(const NDArray& array, Access access, DType as) {
  DeviceRows place;
  place.rows = array.dims()[0];
  place.columns = array.dims()[1];
  place.dtype = as;
  entries_.push_back({array, access, as, as != array.dtype(), place, nullptr});
  return entries_.size() - 1;
}

size_t MatrixWork::add_images(const NDArray& images, Access access) {
  const Dims &d = images.dims(), &strides = images.strides();
  const int64_t columns = d[1] * d[2] * d[3];
  const auto is_dense = [&](size_t axis, int64_t stride) { return d[axis] == 1 || strides[axis] == stride; };
  if (is_dense(3, 1) && is_dense(2, d[3]) && is_dense(1, d[2] * d[3]) && (d[0] == 1 || strides[0] >= columns))
    return add(NDArray(images.buffer(), images.dtype(), {d[0], columns}, {d[0] == 1 ? columns : strides[0], 1},
                       static_cast<size_t>(images.data() - images.buffer()->data())),
               access);
  runtime::count_copy();
  DeviceRows place;
  place.rows = d[0];
  place.columns = columns;
  place.dtype = images.dtype();
  entries_.push_back({images, access, images.dtype(), true, place, nullptr});
  return entries_.size() - 1;
}

// --- mapping memory --------------------------------------------------------------------------------------------------

// A group of matrices whose bytes overlap.
struct MatrixWork::Span {
  std::byte *begin, *end;
  bool reads, writes, writable;
  std::vector<size_t> entries;

  // Return the span's bytes as an array. If the buffer of one of the matrices covers the whole span, the array is a
  // view of that buffer; device buffers are preferred. Otherwise, the array borrows the memory of the span.
  NDArray array(const std::vector<Entry>& all) const {
    const std::shared_ptr<runtime::Buffer>* found = nullptr;
    std::vector<std::shared_ptr<runtime::Buffer>> held;
    for (const size_t i : entries) {
      const auto& buffer = all[i].array.buffer();
      if (held.empty() || held.back() != buffer) held.push_back(buffer);
      const bool contains = buffer->data() <= begin && end <= buffer->data() + buffer->bytes();
      if (contains && (!found || buffer->device_memory())) found = &buffer;
    }
    const int64_t bytes = end - begin;
    if (found) return NDArray(*found, DType::uint8, {bytes}, {1}, static_cast<size_t>(begin - (*found)->data()));
    return NDArray::borrow(begin, DType::uint8, {bytes}, {1}, [held = std::move(held)] {}, writable);
  }
};

void MatrixWork::map(ArrayUses& uses) {
  std::vector<std::pair<NDArray, size_t>> order;
  for (size_t i = 0; i < entries_.size(); ++i)
    if (!entries_[i].copied) order.emplace_back(bytes_of(entries_[i].array), i);
  std::ranges::sort(order, {}, [](const auto& one) { return one.first.data(); });
  std::vector<Span> spans;
  for (const auto& [bytes, i] : order) {
    std::byte *const begin = bytes.data(), *const end = begin + bytes.bytes();
    if (spans.empty() || spans.back().end <= begin) spans.push_back({begin, end, false, false, true, {}});
    Span& span = spans.back();
    span.end = std::max(span.end, end);
    span.reads |= entries_[i].access != Access::writes;
    span.writes |= entries_[i].access != Access::reads;
    span.writable &= bytes.writable();
    span.entries.push_back(i);
  }
  for (const Span& span : spans) {
    const NDArray array = span.array(entries_);
    const BufferView view = device.view_of(array);
    if (!view.staged) uses.add(array, !span.writes ? Access::reads : span.reads ? Access::both : Access::writes, view);
    for (const size_t i : span.entries) {
      Entry& entry = entries_[i];
      if (view.staged) {  // copying whole spans back would overwrite the padding between rows
        entry.copied = true;
        continue;
      }
      DeviceRows& place = entry.place;
      place.buffer = view.buffer;
      place.offset = view.offset + static_cast<size_t>(entry.array.data() - span.begin);
      place.row_bytes =
          place.rows > 1 ? static_cast<size_t>(entry.array.strides()[0]) * size_of(entry.as) : bytes_of_row(place);
    }
  }
}

NDArray MatrixWork::own(const Entry& entry) const {
  const Dims& dims = entry.array.dims();
  Dims strides = contiguous_strides(dims);
  if (entry.place.rows > 1) strides[0] = static_cast<int64_t>(entry.place.row_bytes / size_of(entry.as));
  void* data = entry.own->buffer.contents;
  return NDArray(runtime::Buffer::borrow(data, entry.own->buffer.length, [own = entry.own] {}), entry.as, dims,
                 strides);
}

void MatrixWork::make_room(ArrayUses& uses) {
  for (Entry& entry : entries_) {
    if (!entry.copied) continue;
    DeviceRows& place = entry.place;
    const size_t dense = bytes_of_row(place);
    // Keep the padding between rows if the stride is below twice the row's length plus 64 bytes, because this may be
    // the layout that a layer requires. Otherwise, copy the rows without padding.
    const auto stride = static_cast<size_t>(entry.array.strides()[0]) * size_of(entry.as);
    place.row_bytes = place.rows > 1 && entry.array.dims().size() == 2 && stride < 2 * dense + 64 ? stride : dense;
    const size_t bytes = static_cast<size_t>(place.rows) * place.row_bytes;
    entry.own = std::make_shared<PooledMemory>(device.pool, device.pool->take(bytes));
    place.buffer = entry.own->buffer;
    place.offset = 0;
    if (entry.access != Access::writes) uses.read_by_host(bytes_of(entry.array));
    if (entry.access != Access::reads) uses.written_by_host(bytes_of(entry.array));
  }
}

void MatrixWork::begin(MetalCommands& commands) {
  ArrayUses uses(device);
  map(uses);
  make_room(uses);
  uses.begin(commands);  // begin() may submit preceding work, wait for it, and copy its results back
  for (const Entry& entry : entries_) {
    if (!entry.copied) continue;
    if (entry.access != Access::writes) {
      const Signpost copying(Phase::copy, "feed");
      copy(entry.array, own(entry));
    }
    if (entry.access != Access::reads)
      commands.copy_back([result = entry.array, made = own(entry)] {
        const Signpost copying(Phase::copy, "result");
        copy(made, result);
      });
  }
}

void MatrixWork::encode(const std::shared_ptr<MatrixWork>& work, runtime::CommandBuffer& buffer, std::string label,
                        Encode function) {
  buffer.encode_device_work(
      [work, function = std::move(function)](runtime::DeviceCommands* given) {
        guarded([&] {
          auto& commands = static_cast<MetalCommands&>(*given);
          work->begin(commands);
          commands.keep(work);
          function(commands.next_program(), *work);
        });
      },
      std::move(label));
}

}  // namespace mpsgraph::metal
