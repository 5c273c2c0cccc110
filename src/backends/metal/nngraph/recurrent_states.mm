// Converts a sequence's steps to Apple's matrices, and its initial and final states to and from Apple's state objects.
#include "backends/metal/guarded.h"
#include "backends/metal/nngraph/recurrent.h"

namespace mpsgraph::metal {

using nngraph::LayerState;

std::vector<size_t> add_steps(MatrixWork& work, const nngraph::Steps& steps, Access access) {
  std::vector<size_t> numbers;
  for (const runtime::NDArray& step : steps) numbers.push_back(work.add(step, access));
  return numbers;
}

MovedMatrices moved_matrices(const MatrixWork& work, const std::vector<size_t>& numbers) {
  MovedMatrices moved;
  for (const size_t number : numbers) moved.add(work[number]);
  return moved;
}

NSMutableArray<MPSMatrix*>* matrices_of(const MatrixWork& work, const std::vector<size_t>& numbers) {
  NSMutableArray<MPSMatrix*>* matrices = numbers.empty() ? nil : [NSMutableArray array];
  for (const size_t number : numbers) [matrices addObject:matrix_of(work[number])];
  return matrices;
}

MPSMatrix* empty_matrix(MetalDevice& device, int64_t rows, NSUInteger columns) {
  MPSMatrixDescriptor* descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:static_cast<NSUInteger>(rows)
                                                                          columns:columns
                                                                         rowBytes:columns * sizeof(float)
                                                                         dataType:MPSDataTypeFloat32];
  return [[MPSMatrix alloc] initWithDevice:device.device descriptor:descriptor];
}

// --- states ----------------------------------------------------------------------------------------------------------

BeginStates::~BeginStates() {
  @autoreleasepool {  // the thread that destroys this object may have no autorelease pool
    free_.clear();
  }
}

id BeginStates::take(int64_t rows, const std::function<id()>& make) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = free_.find(rows); found != free_.end()) {
      id state = found->second;
      free_.erase(found);
      return state;
    }
  }
  return make();
}

void BeginStates::give_back(int64_t rows, id state) {
  constexpr size_t most = 16;
  const std::lock_guard lock(mutex_);
  if (free_.size() < most) free_.emplace(rows, state);
}

id leased_state(const std::shared_ptr<BeginStates>& states, MatrixWork& work, int64_t rows,
                const std::function<id()>& make) {
  id state = states->take(rows, make);
  if (!state) throw DeviceError("[metal] expected a state from a recurrent layer of Apple's, got nil");
  work.keep(std::shared_ptr<const void>(states.get(),
                                        [states, rows, state](const void*) { states->give_back(rows, state); }));
  return state;
}

StatePlaces add_state(MatrixWork& work, const LayerState& state, Access access, DType as) {
  StatePlaces places;
  if (state.output.valid()) places.output = work.add(state.output, access, as);
  if (state.cell.valid()) places.cell = work.add(state.cell, access, as);
  return places;
}

namespace {

// For each layer in order, call the function for the matrix of its output and then for that of its memory cell.
template <class Function>
void each_matrix(MPSRNNRecurrentMatrixState* state, const std::vector<StatePlaces>& layers, const Function& function) {
  for (size_t i = 0; i < layers.size(); ++i) {
    function([state getRecurrentOutputMatrixForLayerIndex:i], layers[i].output);
    function([state getMemoryCellMatrixForLayerIndex:i], layers[i].cell);
  }
}

void require_alike(const DeviceRows& apples, const DeviceRows& ours) {
  if (apples.rows < ours.rows || apples.columns != ours.columns || apples.dtype != ours.dtype)
    throw DeviceError(cat("[metal] expected a recurrent state with a matrix of ", ours.rows, " x ", ours.columns, " ",
                          ours.dtype, ", got ", apples.rows, " x ", apples.columns, " ", apples.dtype));
}

}  // namespace

void fill_state(id<MTLCommandBuffer> commands, MPSRNNRecurrentMatrixState* state, MatrixWork& work,
                const std::vector<StatePlaces>& layers) {
  id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
  each_matrix(state, layers, [&](MPSMatrix* matrix, size_t place) {
    if (!matrix) return;
    const DeviceRows to = rows_of(matrix);
    if (place == StatePlaces::npos) {
      const NSUInteger bytes = static_cast<NSUInteger>(to.rows) * to.row_bytes;
      [blit fillBuffer:to.buffer range:NSMakeRange(to.offset, bytes) value:0];
      return;
    }
    require_alike(to, work[place]);
    copy_rows(blit, work[place], to);
  });
  [blit endEncoding];
}

void read_state(id<MTLCommandBuffer> commands, MPSRNNRecurrentMatrixState* state, MatrixWork& work,
                const std::vector<StatePlaces>& layers) {
  work.keep(state);
  id<MTLBlitCommandEncoder> blit = [commands blitCommandEncoder];
  each_matrix(state, layers, [&](MPSMatrix* matrix, size_t place) {
    if (place == StatePlaces::npos) return;
    if (!matrix) throw DeviceError("[metal] the recurrent state of an LSTM must have a memory cell, but has none");
    DeviceRows from = rows_of(matrix);
    require_alike(from, work[place]);
    from.rows = work[place].rows;
    copy_rows(blit, from, work[place]);
  });
  [blit endEncoding];
}

}  // namespace mpsgraph::metal
