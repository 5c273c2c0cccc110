// Sequences of matrices, and MPSRNNRecurrentMatrixState.
#include "mps/neural_network/rnn_sequence.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"

using namespace mock;

@implementation MPSRNNRecurrentMatrixState
- (MPSMatrix*)getRecurrentOutputMatrixForLayerIndex:(NSUInteger)layer {
  return outputs[layer];
}
- (MPSMatrix*)getMemoryCellMatrixForLayerIndex:(NSUInteger)layer {
  id memory = memories[layer];
  return memory == [NSNull null] ? nil : memory;
}
- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)buffer {
  for (MPSMatrix* output in outputs) [output synchronizeOnCommandBuffer:buffer];
  for (id memory in memories)
    if (memory != [NSNull null]) [(MPSMatrix*)memory synchronizeOnCommandBuffer:buffer];
}
@end

namespace mock {

Table load_table(const Rows& rows) {
  const Value value = rows.load();
  Table table(static_cast<size_t>(rows.rows), Vector(static_cast<size_t>(rows.columns)));
  int64_t next = 0;
  for (Vector& row : table)
    for (double& number : row) number = value.real(next++);
  return table;
}

void store_table(const Rows& rows, const Table& table) {
  Value value(rows.type, {rows.rows, rows.columns});
  int64_t next = 0;
  for (int64_t row = 0; row < rows.rows; ++row)
    for (int64_t i = 0; i < rows.columns; ++i) value.set(next++, table.at(row).at(i));
  rows.store(value);
}

std::vector<Rows> sequence_of(NSString* who, NSArray<MPSMatrix*>* matrices, const NSUInteger* offsets,
                              int64_t columns) {
  if (matrices.count == 0) misuse(@"%@: a sequence must have at least one matrix", who);
  std::vector<Rows> result;
  for (MPSMatrix* matrix in matrices) {
    Rows rows = rows_of(matrix);
    if (offsets) rows.start += offsets[result.size()];
    if (rows.columns != columns || !is_real(rows.type))
      misuse(@"%@: each matrix of a sequence must have %ld floating-point columns, got %ld of %s", who, columns,
             rows.columns, type_name(rows.type));
    const size_t element = element_bytes(rows.type);
    const size_t end = rows.start + static_cast<size_t>(rows.rows - 1) * rows.row_bytes + rows.columns * element;
    if (rows.start % element != 0 || end > rows.buffer.length)
      misuse(@"%@: bytes %lu to %lu are misaligned or out of range for a buffer of %lu bytes", who, rows.start, end,
             rows.buffer.length);
    if (!result.empty() && rows.rows > result.back().rows)
      misuse(@"%@: a step of %ld rows must not follow one of %ld; place the longest sequences first", who, rows.rows,
             result.back().rows);
    result.push_back(rows);
  }
  return result;
}

void require_apart(NSString* who, const std::vector<Rows>& sources, const std::vector<Rows>& results) {
  for (const Rows& source : sources)
    for (const Rows& result : results)
      if (source.buffer == result.buffer && source.start == result.start)
        misuse(@"%@: a result must not share memory with a source", who);
}

Tables load_recurrent(const Recurrent& recurrent, const Cell& cell, size_t rows) {
  const Table zeros(rows, Vector(static_cast<size_t>(cell.outputs)));
  Tables tables{recurrent.output.buffer ? load_table(recurrent.output) : zeros, !cell.has_memory() ? Table(rows)
                                                                                : recurrent.memory.buffer
                                                                                    ? load_table(recurrent.memory)
                                                                                    : zeros};
  if (tables.output.size() < rows || tables.memory.size() < rows)
    misuse(@"a recurrent state must have at least %lu rows, got %lu", rows, tables.output.size());
  return tables;
}

void store_recurrent(const Recurrent& recurrent, const Tables& tables) {
  store_table(recurrent.output, tables.output);
  if (recurrent.memory.buffer) store_table(recurrent.memory, tables.memory);
}

MPSRNNRecurrentMatrixState* recurrent_state(id<MTLCommandBuffer> buffer, bool is_temporary,
                                            const std::vector<const Cell*>& cells, NSUInteger rows) {
  id<MTLDevice> device = commands_of(buffer).device;
  const auto made = [&](int64_t columns) -> MPSMatrix* {
    const auto count = static_cast<NSUInteger>(columns);
    const size_t row_bytes = [MPSMatrixDescriptor rowBytesForColumns:count dataType:MPSDataTypeFloat32];
    MPSMatrixDescriptor* descriptor = [MPSMatrixDescriptor matrixDescriptorWithRows:rows
                                                                            columns:count
                                                                           rowBytes:row_bytes
                                                                           dataType:MPSDataTypeFloat32];
    if (!is_temporary) return [[MPSMatrix alloc] initWithDevice:device descriptor:descriptor];
    id<MTLBuffer> memory = [device newBufferWithLength:rows * row_bytes options:MTLResourceStorageModePrivate];
    return [[MPSMatrix alloc] initWithBuffer:memory descriptor:descriptor];
  };
  MPSRNNRecurrentMatrixState* state = [MPSRNNRecurrentMatrixState alloc];
  state = is_temporary ? [state initForBuffer:buffer recipes:@[]] : [state initForDevice:device recipes:@[]];
  NSMutableArray *outputs = [NSMutableArray array], *memories = [NSMutableArray array];
  for (const Cell* cell : cells) {
    [outputs addObject:made(cell->outputs)];
    [memories addObject:cell->has_memory() ? (id)made(cell->outputs) : [NSNull null]];
  }
  state->outputs = outputs;
  state->memories = memories;
  return state;
}

Recurrent recurrent_of(MPSRNNRecurrentMatrixState* state, NSUInteger layer) {
  if (!state) return {};
  Recurrent recurrent{rows_of([state getRecurrentOutputMatrixForLayerIndex:layer]), {}};
  if (MPSMatrix* memory = [state getMemoryCellMatrixForLayerIndex:layer]) recurrent.memory = rows_of(memory);
  return recurrent;
}

}  // namespace mock
