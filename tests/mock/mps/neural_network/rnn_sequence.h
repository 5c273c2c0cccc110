// Sequences of rows through recurrent cells, and the states between sequences.
#pragma once

#include "mps/core/matrix.h"
#include "mps/core/state.h"
#include "mps/neural_network/rnn.h"

namespace mock {

using Table = std::vector<Vector>;  // rows

Table load_table(const Rows& rows);
void store_table(const Rows& rows, const Table& table);

// One matrix a time step, with as many columns; the number of rows may fall with time. Offsets are bytes, null for 0.
std::vector<Rows> sequence_of(NSString* who, NSArray<MPSMatrix*>* matrices, const NSUInteger* offsets, int64_t columns);
// Raises if results would lie where sources do.
void require_apart(NSString* who, const std::vector<Rows>& sources, const std::vector<Rows>& results);

// The recurrent output and memory of one layer, as commands see them; a buffer of nil is a state of zeros.
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
Recurrent recurrent_of(MPSRNNRecurrentMatrixState* state, NSUInteger layer);  // nil: zeros

}  // namespace mock

@interface MPSRNNRecurrentMatrixState () {
 @package
  NSArray<MPSMatrix*>* outputs;
  NSArray* memories;  // NSNull for a layer that has none
}
@end
