// A fused element-wise kernel as a kernel: element-wise operations, and reductions of their values, walked in
// tiles that stay in the first-level cache.
//
// region.cpp turns a block (or one operation) into a TileProgram: what to load, what to compute, what to store or
// reduce. What to compute is machine code that keeps values in vector registers, made by jit/, or where that cannot
// express the region or the processor is another one, a list of tile-function calls. fused_kernel.cpp runs either over the
// tiles.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/jit/code_memory.h"
#include "backends/cpu/kernel.h"
#include "compiler/reduction_shape.h"

namespace mpsgraph::cpu {

// How an external input reaches the registers of a tile.
enum class Access : uint8_t {
  scalar,  // one element for the whole region
  flat,  // same positions as the region: a pointer into it
  row,  // rows mode: unit stride within a row, any stride between rows
  row_scalar,  // rows mode: one element a row
  periodic,  // flat mode: repeats with a period that divides the tile: loaded once
  strided,  // copied into a register tile by tile
};

struct TileInput {
  Slot slot = -1;
  int reg = -1;
  size_t element_size = 4;
  Access access = Access::flat;
  Dims strides;  // in elements over the region's collapsed dimensions; 0 where broadcast
};

struct TileInstruction {
  TileFunction function;
  int out;
  std::array<int, 3> in;  // unused places repeat the first
  bool once = false;  // on one element: the conversion of a scalar
};

struct TileOutput {  // a result of the region's shape
  size_t result = 0;  // which one
  Slot slot = -1;
  int reg = -1;  // the register that is this memory, or that is copied there by non-temporal stores
  size_t element_size = 4;
  bool streamed = false;
};

struct TileReduction {
  Slot slot = -1;  // result, float32
  int reg = -1;  // reduced value
  Reduction kind = Reduction::sum;
  Slot partials = -1;  // chunk_count x result elements
  int accumulator =
      -1;  // of the generated code, which then sums by itself; else -1, and reg is reduced after each tile
  std::optional<DType> halves = std::nullopt;  // reg is an input of this type, whose rows are summed as they are
};

using compiler::ReductionShape;

struct TileProgram {
  Dims dims;  // collapsed; the last is the inner one
  int64_t total = 1;  // elements of the region
  int64_t inner = 1;  // of a row
  bool rows_mode = false;  // tiles lie within rows; else tiles are runs of the flat range
  int64_t tile = 1024;  // elements of a tile
  ReductionShape reduction_shape = ReductionShape::none;
  int64_t chunks = 1;  // pieces of work with partial results of their own; fixed by sizes alone
  std::vector<TileInput> inputs;
  std::shared_ptr<const jit::CodeMemory> code, aligned_code;  // the latter streams its results; null: instructions
  std::function<void(TileProgram&)> generate_for_blocks;  // both, without prefetches; null: they have none
  std::vector<TileInstruction> instructions;
  int64_t cost = 1;  // operations an element
  std::vector<TileOutput> outputs;
  std::vector<TileReduction> reductions;
  int lane_bytes = 4;  // of the generated code: 8 where it computes in float64 or int64
  bool prefetch = false;  // prefetch the next tile's operands while this one is computed
  int registers = 0;
  std::vector<int> temporaries;  // registers that live in scratch
  size_t temporary_bytes = 0;  // of one register
  Slot scratch = -1;  // thread_count() x temporaries x temporary_bytes

  bool has_narrow_streams() const;  // do elements of less than a lane's bits come or go, one by one?
};

// Throws UnsupportedError for an operation that has no tile function.
TileProgram build_tile_program(Lowering& lowering);

// One or several regions, walked by all threads together: the updates of all variables are one kernel.
class FusedElementwiseKernel final : public Kernel {
 public:
  explicit FusedElementwiseKernel(TileProgram program);
  void run(Frame& frame) const override;
  std::string description() const override;

  // Takes in the regions of another kernel, which must not depend on these; see can_merge.
  void merge(FusedElementwiseKernel& other);
  bool can_merge() const;  // partial results of reductions need a kernel of their own
  // Is it a region of one walk over elements, which may take those of an operand from a block of them? From then on
  // run_block is the way to run it.
  bool take_blocks(Slot operand);
  void run_block(Frame& frame, int64_t begin, int64_t end, Slot operand, std::byte* block) const;
  std::vector<Slot> reads() const;
  std::vector<Slot> writes() const;

 private:
  struct Part {
    TileProgram program;
    int64_t tiles_per_row = 1;
    int64_t units = 0;  // rows, or flat tiles
    int64_t work = 0;  // elements x instructions
  };
  std::vector<Part> parts_;
  int64_t work_ = 0;
};

}  // namespace mpsgraph::cpu
