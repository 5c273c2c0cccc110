// Sequences of rows for recurrent cells, and the states that link sequences.
#pragma once

#include "mps/core/matrix.h"
#include "mps/core/state.h"
#include "mps/neural_network/rnn.h"

namespace mock {

using Table = std::vector<Vector>;  // one vector per row

Table load_table(const Rows& rows);
void store_table(const Rows& rows, const Table& table);

// Return the rows of each time step, one matrix per step with the given number of columns. The number of rows must not
// increase from step to step. Offsets are in bytes; null means 0.
std::vector<Rows> sequence_of(NSString* who, NSArray<MPSMatrix*>* matrices, const NSUInteger* offsets, int64_t columns);
// Raise if a result and a source start at the same address.
void require_apart(NSString* who, const std::vector<Rows>& sources, const std::vector<Rows>& results);

// The recurrent output and memory of one layer, for use by commands. A nil buffer means a state of zeros.
struct Recurrent {
  Rows output, memory;
};
struct Tables {
  Table output, memory;
};

Tables load_recurrent(const Recurrent& recurrent, const Cell& cell, size_t rows);
void store_recurrent(const Recurrent& recurrent, const Tables& tables);

MPSRNNRecurrentMatrixState* recurrent_state(id<MTLCommandBuffer> buffer, bool is_temporary,
                                            const std::vector<const Cell*>& cells, NSUInteger rows);
Recurrent recurrent_of(MPSRNNRecurrentMatrixState* state, NSUInteger layer);  // nil means a state of zeros

}  // namespace mock

@interface MPSRNNRecurrentMatrixState () {
 @package
  NSArray<MPSMatrix*>* outputs;
  NSArray* memories;  // NSNull for layers without a memory
}
@end
