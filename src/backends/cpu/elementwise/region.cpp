// Compiles a block of element-wise operations into a TileProgram: assigns registers, selects how each input is
// accessed, and generates machine code or a list of tile function calls.
#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "backends/cpu/elementwise/fused_kernel.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/jit/code_cache.h"
#include "backends/cpu/jit/recorder.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/streaming_stores.h"
#include "core/definition.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t row_threshold = 512;       // shorter rows are processed flat, several per tile
constexpr int64_t repeated_threshold = 2048; // row_threshold if inputs only repeat their rows
constexpr size_t prefetched_bytes = 1 << 18; // smaller operands are in L2 anyway and are not prefetched
constexpr size_t temporaries_budget = 16384; // bytes of scratch registers per thread, a third of a small L1
// Maximum number of sums that generated code accumulates in registers. Further sums are computed by separate loops
// after each tile.
constexpr int max_accumulators = 8;

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
DType computed_in(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

std::optional<Reduction> reduction_kind(const Operation& operation) {
  const Kind k = operation.kind();
  if (k == "reduction_sum") return Reduction::sum;
  if (k == "reduction_product") return Reduction::product;
  if (k == "reduction_maximum") return Reduction::maximum;
  if (k == "reduction_minimum") return Reduction::minimum;
  if (k == "reduction_maximum_propagate_nan") return Reduction::maximum_propagate_nan;
  if (k == "reduction_minimum_propagate_nan") return Reduction::minimum_propagate_nan;
  return std::nullopt;
}

struct RegionBuilder {
  Lowering& lowering;
  TileProgram program;
  Dims space;                                   // shape of the iteration space
  std::vector<const Operation*> operations;     // in execution order, with reductions after their operands
  // maps block arguments (or operands) to indices of program.inputs
  std::unordered_map<const Tensor*, size_t> input_of;
  std::unordered_map<const Tensor*, int> register_of;
  std::unordered_map<const Tensor*, int> uses;
  // maps reductions to indices of program.reductions
  std::unordered_map<const Operation*, size_t> reduction_of;
  std::unordered_map<const Tensor*, std::vector<int>> stores;         // maps values to output registers
  std::unordered_map<const Tensor*, bool> deferred;  // values computed by the same instruction as their only use
  std::vector<int> free_temporaries;
  std::vector<int> pinned;  // temporaries that are never reused

  explicit RegionBuilder(Lowering& l) : lowering(l) {}

  int new_register() { return program.registers++; }
  int take_temporary() {
    if (!free_temporaries.empty()) {
      const int reg = free_temporaries.back();
      free_temporaries.pop_back();
      return reg;
    }
    const int reg = new_register();
    program.temporaries.push_back(reg);
    return reg;
  }
  bool is_temporary(int reg) const {
    return std::find(program.temporaries.begin(), program.temporaries.end(), reg) != program.temporaries.end();
  }

  TileProgram build() {
    const Operation& operation = lowering.operation();
    std::vector<const Tensor*> results;
    if (operation.is("fused_elementwise")) {
      const Block& body = *operation.blocks[0];
      for (size_t i = 0; i < body.arguments.size(); i++) input_of[body.arguments[i]] = i;
      for (const auto& inner : body.operations)
        if (!inner->is("argument")) operations.push_back(inner.get());
      for (const Tensor* result : body.results) results.push_back(result);
    } else {
      operations.push_back(&operation);
      for (size_t i = 0; i < operation.inputs.size(); i++) input_of.try_emplace(operation.inputs[i], i);
      results.push_back(operation.output());
    }
    find_space();
    collapse();
    for (const Operation* op : operations)
      for (const Tensor* in : op->inputs) uses[in]++;
    program.cost = static_cast<int64_t>(operations.size()) + 1;
    if (!generate(results)) {
      add_outputs(results);
      for (size_t i = 0; i < operations.size(); i++) emit(i);
    }
    finish();
    return std::move(program);
  }

  void find_space() {
    for (const Operation* op : operations)
      if (reduction_kind(*op)) {
        space = op->input(0)->type.shape.dims();
        return;
      }
    space = operations.back()->output()->type.shape.dims();
  }

  // Merge adjacent dimensions that all inputs can traverse as a single dimension. Then select flat tiles, which may
  // span rows, or tiles within rows.
  void collapse() {
    const int rank = static_cast<int>(space.size());
    std::vector<bool> reduced(rank, false);
    for (const Operation* op : operations)
      if (reduction_kind(*op)) {
        reduced = compiler::reduced_axes(*op);
        program.reduction_shape = *compiler::reduction_shape(space, reduced);
      }
    const size_t count = lowering.input_count();
    std::vector<Dims> strides(count);
    for (size_t i = 0; i < count; i++) {
      const Operand operand = lowering.input(i);
      const Dims own = contiguous_strides(operand.dims);
      strides[i].assign(rank, 0);
      const int offset = rank - static_cast<int>(operand.dims.size());
      for (int axis = std::max(offset, 0); axis < rank; axis++)
        if (operand.dims[axis - offset] != 1) strides[i][axis] = own[axis - offset];
    }
    std::vector<Dims> collapsed(count);
    Dims dims;
    std::vector<bool> flags;
    for (int axis = 0; axis < rank; axis++) {
      if (space[axis] == 1) continue;
      bool merge = !dims.empty() && flags.back() == reduced[axis];
      for (size_t i = 0; i < count && merge; i++) merge = collapsed[i].back() == strides[i][axis] * space[axis];
      if (merge)
        dims.back() *= space[axis];
      else
        dims.push_back(space[axis]), flags.push_back(reduced[axis]);
      for (size_t i = 0; i < count; i++) {
        if (merge)
          collapsed[i].back() = strides[i][axis];
        else
          collapsed[i].push_back(strides[i][axis]);
      }
    }
    if (dims.empty()) {
      dims.push_back(1);
      for (auto& s : collapsed) s.push_back(0);
    }
    // For reductions of rows, a row consists of all trailing reduced axes; for reductions of columns, it consists of
    // all trailing axes that are not reduced. How the dimensions of the inputs were merged does not matter.
    program.dims = dims;
    program.total = element_count(space);
    program.inner = dims.back();
    if (program.reduction_shape == ReductionShape::rows || program.reduction_shape == ReductionShape::columns) {
      program.inner = 1;
      const bool last = reduced_of_last(reduced);
      for (int axis = rank - 1; axis >= 0; axis--) {
        if (space[axis] != 1 && reduced[axis] != last) break;
        program.inner *= space[axis];
      }
      program.rows_mode = program.inner >= row_threshold && program.inner == dims.back();
    } else {
      const bool repeats = std::all_of(collapsed.begin(), collapsed.end(), [&](const Dims& strides) {
        return is_scalar(strides) || strides == contiguous_strides(dims) || is_repeated_row(strides);
      });
      program.rows_mode = dims.size() > 1 && dims.back() >= (repeats ? repeated_threshold : row_threshold);
    }
    for (size_t i = 0; i < count; i++) {
      const Operand operand = lowering.input(i);
      TileInput input;
      input.slot = operand.slot;
      input.element_size = size_of(operand.dtype);
      input.strides = collapsed[i];
      input.access = access_of(collapsed[i]);
      program.inputs.push_back(input);
    }
  }

  bool reduced_of_last(const std::vector<bool>& reduced) const {
    for (int axis = static_cast<int>(space.size()) - 1; axis >= 0; axis--)
      if (space[axis] != 1) return reduced[axis];
    return true;
  }

  static bool is_zero(int64_t stride) { return stride == 0; }
  static bool is_scalar(const Dims& strides) { return std::all_of(strides.begin(), strides.end(), is_zero); }
  static bool is_repeated_row(const Dims& strides) {
    return strides.back() == 1 && std::all_of(strides.begin(), strides.end() - 1, is_zero);
  }

  Access access_of(const Dims& strides) const {
    if (program.total == 1) return Access::flat;
    if (is_scalar(strides)) return Access::scalar;
    if (strides == contiguous_strides(program.dims)) return Access::flat;
    if (program.rows_mode)
      return strides.back() == 1 ? Access::row : strides.back() == 0 ? Access::row_scalar : Access::strided;
    return is_repeated_row(strides) ? Access::periodic : Access::strided;
  }

  // Return the instruction set for which to generate code. Return nullopt if no supported instruction set is available
  // or the reference kernel is requested.
  std::optional<jit::VectorSet> vector_set() const {
    if (lowering.reference_only()) return std::nullopt;
    if (instruction_set() == "AVX-512") return jit::VectorSet::avx512;
    if (instruction_set() == "AVX2") return jit::VectorSet::avx2;
    if (instruction_set().starts_with("NEON")) return jit::VectorSet::neon;
    return std::nullopt;
  }

  bool has_wide_numbers() const {
    const auto is_wide = [](const Tensor* tensor) {
      return tensor->type.dtype == DType::float64 || tensor->type.dtype == DType::int64;
    };
    return std::ranges::any_of(operations, [&](const Operation* op) {
      return is_wide(op->output()) || std::ranges::any_of(op->inputs, is_wide);
    });
  }

  // Generate machine code for all operations, with each value in a vector register from its first use to its last.
  // Return false if an operation or type is not supported; in this case, only registers of inputs have been assigned.
  bool generate(const std::vector<const Tensor*>& results) {
    const auto set = vector_set();
    if (!set) return false;
    program.lane_bytes = has_wide_numbers() ? 8 : 4;
    const auto shared_recorder = std::make_shared<jit::Recorder>(*set, program.lane_bytes);
    jit::Recorder& recorder = *shared_recorder;
    std::unordered_map<const Tensor*, int> values;
    const auto value_of = [&](const Tensor* tensor) -> std::optional<int> {
      if (const auto known = values.find(tensor); known != values.end()) return known->second;
      TileInput& in = program.inputs[input_of.at(tensor)];
      const DType dtype = tensor->type.dtype;
      assign_register(in);
      const bool scalar = in.access == Access::scalar || in.access == Access::row_scalar;
      const auto value = scalar ? recorder.scalar(dtype, in.reg) : recorder.load(dtype, in.reg);
      if (value) values[tensor] = *value;
      return value;
    };
    std::unordered_map<const Tensor*, int> times_used = uses;
    for (const Tensor* result : results) times_used[result]++;
    std::unordered_set<const Tensor*> computed_with;  // operands of operations other than casts to float32
    for (const Operation* op : operations)
      if (!op->is("cast") || op->output()->type.dtype != DType::float32)
        computed_with.insert(op->inputs.begin(), op->inputs.end());
    for (const Operation* op : operations) {
      std::vector<int> operands;
      for (const Tensor* in : op->inputs) {
        const auto value = value_of(in);
        if (!value) return false;
        operands.push_back(*value);
      }
      if (reduction_kind(*op)) {
        if (program.lane_bytes == 8) return false;
        continue;
      }
      const auto value =
          recorder.apply(*op, operands, times_used[op->output()] > 1 || computed_with.contains(op->output()));
      if (!value) return false;
      values[op->output()] = *value;
    }
    // Generated code stores the results of a vector after all loads, so a result may share the memory of any input that
    // is traversed in the same order.
    std::vector<TileOutput> outputs;
    std::vector<TileReduction> reductions;
    std::vector<int> streamed, reduced_temporaries;
    for (size_t i = 0; i < results.size(); i++) {
      const Operand operand = lowering.output(i);
      const auto kind = reduction_kind(*results[i]->operation);
      if (!kind) {
        const bool streaming =
            operand.bytes() >= streaming_threshold && size_of(operand.dtype) == static_cast<size_t>(program.lane_bytes);
        outputs.push_back({i, operand.slot, new_register(), size_of(operand.dtype), streaming});
        if (!recorder.store(operand.dtype, values.at(results[i]), outputs.back().reg)) return false;
        if (streaming) streamed.push_back(outputs.back().reg);
        continue;
      }
      TileReduction reduction{.slot = operand.slot, .kind = *kind};
      const int value = values.at(results[i]->operation->input(0));
      if (*kind == Reduction::sum && program.reduction_shape == ReductionShape::all &&
          reductions.size() < max_accumulators) {
        reduction.accumulator = recorder.sum(value);
      } else if (const TileInput* halves = summed_halves(*results[i]->operation)) {
        reduction.reg = halves->reg;
        reduction.halves = results[i]->operation->input(0)->operation->input(0)->type.dtype;
      } else {
        reduction.reg = new_register();
        reduced_temporaries.push_back(reduction.reg);
        recorder.store(DType::float32, value, reduction.reg);
      }
      reductions.push_back(reduction);
    }
    for (const TileInput& in : program.inputs)
      if (in.reg >= 0 && in.access == Access::flat && in.element_size == static_cast<size_t>(program.lane_bytes))
        recorder.prefetch(in.reg);
    const bool nothing_left =
        outputs.empty() && std::ranges::all_of(reductions, [](const TileReduction& r) { return r.halves.has_value(); });
    const bool prefetches = large_inputs();
    const auto generate = [recorder = shared_recorder, streamed](TileProgram& of, bool ahead) {
      constexpr size_t long_from = 24;  // nodes
      const jit::VectorCode plain = recorder->code({}, ahead);
      of.long_code = plain.nodes.size() >= long_from;
      const auto code = jit::compiled(plain);
      const auto aligned = streamed.empty() ? nullptr : jit::compiled(recorder->code(streamed, ahead));
      // make() returns null if the operating system does not allow executable memory
      if (!code || (!streamed.empty() && !aligned)) return false;
      of.code = code;
      of.aligned_code = aligned;
      return true;
    };
    if (!nothing_left) {
      if (!generate(program, prefetches)) return false;
      if (prefetches) program.generate_for_blocks = [generate](TileProgram& of) { generate(of, false); };
    }
    program.outputs = std::move(outputs);
    program.reductions = std::move(reductions);
    program.temporaries.insert(program.temporaries.end(), reduced_temporaries.begin(), reduced_temporaries.end());
    return true;
  }

  // If a sum reduces the rows of a half-precision input whose only operation is a cast, return that input, whose
  // elements can be summed directly from memory. Otherwise, return null.
  const TileInput* summed_halves(const Operation& reduction) const {
    const Operation& cast = *reduction.input(0)->operation;
    if (*reduction_kind(reduction) != Reduction::sum || program.reduction_shape != ReductionShape::rows ||
        !program.rows_mode || !cast.is("cast") || !is_half(cast.input(0)->type.dtype))
      return nullptr;
    const auto known = input_of.find(cast.input(0));
    if (known == input_of.end()) return nullptr;
    const TileInput& in = program.inputs[known->second];
    return in.access == Access::flat || in.access == Access::row ? &in : nullptr;
  }

  void add_outputs(const std::vector<const Tensor*>& results) {
    for (size_t i = 0; i < results.size(); i++) {
      const Operand operand = lowering.output(i);
      const Operation* producer = results[i]->operation;
      uses[results[i]]++;
      if (reduction_kind(*producer)) {
        TileReduction reduction;
        reduction.slot = operand.slot;
        reduction.kind = *reduction_kind(*producer);
        program.reductions.push_back(reduction);
        reduction_of[producer] = program.reductions.size() - 1;
      } else {
        const bool streamed = operand.bytes() >= streaming_threshold;
        const TileOutput output{i, operand.slot, streamed ? pinned_temporary() : new_register(), size_of(operand.dtype),
                                streamed};
        program.outputs.push_back(output);
        stores[results[i]].push_back(output.reg);
      }
    }
  }

  // Return the register that holds a value, converted to its compute type, and whether the value is a single element.
  std::pair<int, bool> operand(const Tensor* value) {
    const auto input = input_of.find(value);
    if (input == input_of.end()) return {register_of.at(value), false};
    TileInput& in = program.inputs[input->second];
    const bool scalar = in.access == Access::scalar || in.access == Access::row_scalar;
    assign_register(in);
    if (!is_half(value->type.dtype)) return {in.reg, scalar};
    const auto [converted, first_use] = register_of.try_emplace(value, -1);
    if (first_use) {  // the input is converted to float32 once per tile, for all uses
      converted->second = pinned_temporary();
      program.instructions.push_back(
          {cast_function(value->type.dtype, DType::float32), converted->second, repeat(in.reg), scalar});
    }
    return {converted->second, scalar};
  }
  void assign_register(TileInput& in) {
    if (in.reg >= 0) return;
    in.reg = in.access == Access::periodic || in.access == Access::strided ? pinned_temporary() : new_register();
  }
  static std::array<int, 3> repeat(int reg) { return {reg, reg, reg}; }

  int pinned_temporary() {
    const int reg = new_register();
    program.temporaries.push_back(reg);
    pinned.push_back(reg);
    return reg;
  }

  void release(const Tensor* value) {
    if (--uses[value] > 0 || input_of.count(value)) return;
    const auto found = register_of.find(value);
    if (found == register_of.end()) return;
    const int reg = found->second;
    if (is_temporary(reg) && std::find(pinned.begin(), pinned.end(), reg) == pinned.end())
      free_temporaries.push_back(reg);
  }

  [[noreturn]] void unsupported(const Operation& op, DType dtype) const {
    throw UnsupportedError(
        cat("[", op.kind(), "] does not support dtype ", dtype, "; cast the inputs to a supported dtype", op.where()));
  }

  // Return the single instruction that combines an operation with the producer of its operand number `side`, or null if
  // there is no such instruction. The intermediate value must have no other use. a * b + c is rounded once instead of
  // twice, which is more accurate; (a + b) * c gives the same result as two instructions.
  static const char* paired(const Operation& user, size_t side, const Operation& maker) {
    if (user.is("addition") && maker.is("multiplication")) return "multiply_add";
    if (user.is("subtraction") && maker.is("multiplication") && side == 1) return "subtract_product";
    if (user.is("multiplication") && maker.is("addition")) return "multiply_sum";
    if (user.is("exponent") && maker.is("multiplication")) return "exponent_of_product";
    if (user.is("erf") && maker.is("multiplication")) return "erf_of_product";
    if (user.is("tanh") && maker.is("multiplication")) return "tanh_of_product";
    return nullptr;
  }

  bool emit_pair(size_t i) {
    const Operation& op = *operations[i];
    for (size_t side = 0; side < op.inputs.size() && side < 2; side++) {
      const Tensor* inner = op.input(side);
      if (!deferred.count(inner)) continue;
      const Operation& maker = *inner->operation;
      std::array<int, 3> in{};
      ScalarMask mask = 0;
      const Tensor* const operands[] = {maker.input(0), maker.input(1),
                                        op.inputs.size() == 2 ? op.input(1 - side) : nullptr};
      for (int k = 0; k < 3; k++) {
        const auto [reg, scalar] = operands[k] ? operand(operands[k]) : std::pair(in[0], false);
        in[k] = reg;
        if (scalar) mask |= 1u << k;
      }
      finish_value(op, tile_function(paired(op, side, maker), DType::float32, mask), in);
      for (const Tensor* value : operands)
        if (value) release(value);
      return true;
    }
    return false;
  }

  // Return whether the output of operation i has a single use, by an operation of this block that can be combined with
  // operation i into one instruction.
  bool can_defer(size_t i) const {
    const Operation& op = *operations[i];
    const Tensor* value = op.output();
    if (value->type.dtype != DType::float32 || op.inputs.size() != 2 || stores.count(value) || uses.at(value) != 1)
      return false;
    for (const Tensor* in : op.inputs)
      if (deferred.count(in)) return false;  // op is already combined with the producer of this input
    for (size_t j = i + 1; j < operations.size(); j++)
      for (size_t k = 0; k < operations[j]->inputs.size(); k++)
        if (operations[j]->inputs[k] == value) {
          const Operation& user = *operations[j];
          return paired(user, k, op) && (user.inputs.size() == 1 || !deferred.count(user.input(1 - k)));
        }
    return false;
  }

  // Emit one instruction for a cast from or to half precision in memory, unless another operation uses the
  // half-precision value.
  bool emit_half_cast(const Operation& op) {
    if (!op.is("cast")) return false;
    const Tensor *source = op.input(0), *value = op.output();
    const DType from = source->type.dtype, to = value->type.dtype;
    if (const auto input = input_of.find(source); input != input_of.end() && is_half(from) && to == DType::float32) {
      TileInput& in = program.inputs[input->second];
      if (in.access == Access::scalar || in.access == Access::row_scalar || uses.at(source) != 1) return false;
      assign_register(in);
      finish_value(op, cast_function(from, to), repeat(in.reg));
      return true;
    }
    const auto stored = stores.find(value);
    if (!is_half(to) || computed_in(from) != DType::float32 || stored == stores.end() || uses.at(value) != 1)
      return false;
    const auto [reg, scalar] = operand(source);
    if (scalar) return false;
    for (const int place : stored->second)
      program.instructions.push_back({cast_function(DType::float32, to), place, repeat(reg)});
    release(source);
    return true;
  }

  void emit(size_t i) {
    const Operation& op = *operations[i];
    if (const auto found = reduction_of.find(&op); found != reduction_of.end()) {
      program.reductions[found->second].reg = operand(op.input(0)).first;
      // keep this register until the end, because the reduction reads it after the last instruction
      pinned.push_back(program.reductions[found->second].reg);
      return;
    }
    if (can_defer(i)) {
      deferred[op.output()] = true;
      return;
    }
    if (emit_pair(i) || emit_half_cast(op)) return;
    std::array<int, 3> in{};
    ScalarMask mask = 0;
    for (size_t k = 0; k < op.inputs.size(); k++) {
      const auto [reg, scalar] = operand(op.inputs[k]);
      if (k == 0) in = repeat(reg);
      in[k] = reg;
      if (scalar) mask |= 1u << k;
    }
    TileFunction function = nullptr;
    const DType from = op.inputs.back()->type.dtype, to = op.output()->type.dtype;
    if (op.is("cast")) {
      function = computed_in(from) == computed_in(to)
                     ? (is_half(to) ? round_function(to) : tile_function("identity", computed_in(from), mask))
                     : cast_function(computed_in(from), computed_in(to));
      if (is_half(to) && computed_in(from) != DType::float32) {  // convert to float32 first, then round in place
        const int reg = take_temporary();
        program.instructions.push_back({function, reg, in});
        in = repeat(reg);
        function = round_function(to);
        free_temporaries.push_back(reg);
      }
    } else {
      function = tile_function(op.kind(), computed_in(from), mask);
    }
    if (!function) unsupported(op, from);
    finish_value(op, function, in);
    for (const Tensor* value : op.inputs) release(value);
  }

  // Append the instruction that computes a value. The instruction writes directly to the memory of an output if
  // possible, otherwise to scratch memory.
  void finish_value(const Operation& op, TileFunction function, std::array<int, 3> in) {
    const Tensor* value = op.output();
    const auto stored = stores.find(value);
    const bool half = is_half(value->type.dtype);
    int target;
    if (stored != stores.end() && !half)
      target = stored->second.front();
    else
      target = take_temporary();
    register_of[value] = target;
    program.instructions.push_back({function, target, in});
    if (stored == stores.end()) return;
    for (const int reg : stored->second) {
      if (half)
        program.instructions.push_back({cast_function(DType::float32, value->type.dtype), reg, repeat(target)});
      else if (reg != target)
        program.instructions.push_back({tile_function("identity", value->type.dtype, 0), reg, repeat(target)});
    }
  }

  void finish() {
    size_t widest = 1;
    for (const Operation* op : operations) {
      widest = std::max(widest, size_of(computed_in(op->output()->type.dtype)));
      for (const Tensor* in : op->inputs) widest = std::max(widest, size_of(computed_in(in->type.dtype)));
    }
    const size_t count = std::max<size_t>(program.temporaries.size(), 1);
    int64_t tile = static_cast<int64_t>(temporaries_budget / (count * widest)) / 64 * 64;
    tile = std::clamp<int64_t>(tile, 128, 2048);
    // Generated code without temporaries needs no scratch memory, so the tile length is limited only by load balancing
    // and by the accuracy of sums.
    if (program.code && program.temporaries.empty())
      tile = std::clamp<int64_t>(program.total / 16 / 64 * 64, 2048, program.reductions.empty() ? 1 << 16 : 1 << 14);
    const bool periodic = std::any_of(program.inputs.begin(), program.inputs.end(),
                                      [](const TileInput& in) { return in.access == Access::periodic; });
    const bool whole_rows = program.total > 0 && !program.rows_mode &&
                            (periodic || program.reduction_shape == ReductionShape::rows ||
                             program.reduction_shape == ReductionShape::columns);
    if (whole_rows) tile = std::max<int64_t>(1, tile / program.inner) * program.inner;
    program.tile = tile;
    program.temporary_bytes = (static_cast<size_t>(tile) * widest + 63) / 64 * 64;
    program.scratch = lowering.scratch(program.temporary_bytes * program.temporaries.size() * thread_count());

    const int64_t tiles = tile_count();
    if (program.reduction_shape == ReductionShape::all)
      program.chunks = std::clamp<int64_t>(tiles / 4, 1, 64);
    else if (program.reduction_shape == ReductionShape::columns)
      program.chunks = std::clamp<int64_t>(program.total / program.inner / 64, 1, 32);
    else
      program.chunks = 0;  // 0 means no partial results, so each run may divide the work differently
    for (TileReduction& reduction : program.reductions) {
      const int64_t results = program.reduction_shape == ReductionShape::columns ? program.inner : 1;
      if (program.chunks)
        reduction.partials = lowering.scratch(static_cast<size_t>(program.chunks * results) * sizeof(float));
    }
    program.prefetch = !program.code && large_inputs();
    offer_sharing();
  }

  bool large_inputs() const {
    size_t bytes = 0;
    for (const TileInput& in : program.inputs) bytes += in.access == Access::flat ? program.total * in.element_size : 0;
    return bytes >= prefetched_bytes;
  }

  int64_t tile_count() const {
    if (!program.rows_mode) return (program.total + program.tile - 1) / program.tile;
    return program.inner ? program.total / program.inner * ((program.inner + program.tile - 1) / program.tile) : 0;
  }

  // Let an output share the memory of an input that is traversed in the same order, unless an instruction that follows
  // the write of the output reads that input.
  void offer_sharing() {
    for (size_t o = 0; o < program.outputs.size(); o++) {
      size_t written = 0;
      for (size_t i = 0; i < program.instructions.size(); i++)
        if (program.instructions[i].out == program.outputs[o].reg) {
          written = i;
          break;
        }
      for (size_t i = 0; i < program.inputs.size(); i++) {
        const TileInput& in = program.inputs[i];
        if (in.access != Access::flat || in.element_size != program.outputs[o].element_size || in.reg < 0) continue;
        bool read_later = false;
        for (size_t k = written + 1; k < program.instructions.size(); k++)
          for (int reg : program.instructions[k].in) read_later |= reg == in.reg;
        for (const TileReduction& reduction : program.reductions) read_later |= reduction.reg == in.reg;
        if (!read_later) lowering.may_share(program.outputs[o].result, i);
      }
    }
  }
};

}  // namespace

TileProgram build_tile_program(Lowering& lowering) { return RegionBuilder(lowering).build(); }

}  // namespace mpsgraph::cpu
