// Executes a TileProgram: distributes tiles over threads, maps registers to memory, and combines the partial results of
// reductions.
#include "backends/cpu/elementwise/fused_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/jit/vector_code.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/reduction/short_rows.h"
#include "backends/cpu/streaming_stores.h"
#include "core/definition.h"

namespace mpsgraph::cpu {
namespace {

constexpr int max_registers = 512;

float identity_of(Reduction kind) {
  switch (kind) {
    case Reduction::sum: return 0.f;
    case Reduction::product: return 1.f;
    case Reduction::maximum_propagate_nan: return -INFINITY;
    case Reduction::minimum_propagate_nan: return INFINITY;
    case Reduction::maximum:
    case Reduction::minimum: return NAN;  // any other operand replaces the initial NaN
  }
  return 0.f;
}

// Write one element n times, where n is usually small.
template <class T>
void repeat(T* to, T value, int64_t n) {
  typedef uint8_t V __attribute__((vector_size(16), aligned(1), may_alias));
  constexpr int64_t lanes = sizeof(V) / sizeof(T), many = 64 * lanes;
  alignas(16) T all[lanes];
  std::fill_n(all, lanes, value);
  if (n >= many) return float_functions().repeat(to, all, static_cast<size_t>(n) * sizeof(T));
  if (n < lanes) {
    for (int64_t i = 0; i < n; ++i) to[i] = value;
    return;
  }
  V v;
  std::memcpy(&v, all, sizeof v);
  for (int64_t i = 0; i + lanes <= n; i += lanes) *reinterpret_cast<V*>(to + i) = v;
  *reinterpret_cast<V*>(to + n - lanes) = v;
}

// Gather elements [flat, flat + n), in row-major order, of a tensor with the given `dims` and `strides`.
template <class T>
void gather(T* to, const T* from, const Dims& dims, const Dims& strides, int64_t flat, int64_t n) {
  if (n <= 0) return;
  const int last = static_cast<int>(dims.size()) - 1;
  int64_t at[2 * max_rank], offset = 0;
  for (int axis = last; axis >= 0; --axis, flat /= dims[axis + 1]) {
    at[axis] = flat % dims[axis];
    offset += at[axis] * strides[axis];
  }
  const int64_t step = strides[last];
  while (true) {
    const int64_t run = std::min(n, dims[last] - at[last]);
    const T* p = from + offset;
    if (step == 1)
      std::memcpy(to, p, static_cast<size_t>(run) * sizeof(T));
    else if (step == 0)
      repeat(to, *p, run);
    else
      for (int64_t i = 0; i < run; i++) to[i] = p[i * step];
    to += run, n -= run;
    if (n == 0) return;
    offset -= at[last] * step, at[last] = 0;  // move to the next row
    for (int axis = last - 1; axis >= 0; --axis) {
      offset += strides[axis];
      if (++at[axis] < dims[axis]) break;
      offset -= dims[axis] * strides[axis], at[axis] = 0;
    }
  }
}
void gather(std::byte* to, const std::byte* from, size_t size, const Dims& dims, const Dims& strides, int64_t flat,
            int64_t n) {
  switch (size) {
    case 1:
      return gather(reinterpret_cast<uint8_t*>(to), reinterpret_cast<const uint8_t*>(from), dims, strides, flat, n);
    case 2:
      return gather(reinterpret_cast<uint16_t*>(to), reinterpret_cast<const uint16_t*>(from), dims, strides, flat, n);
    case 4:
      return gather(reinterpret_cast<uint32_t*>(to), reinterpret_cast<const uint32_t*>(from), dims, strides, flat, n);
    case 16:
      return gather(reinterpret_cast<Item16*>(to), reinterpret_cast<const Item16*>(from), dims, strides, flat, n);
    default:
      return gather(reinterpret_cast<uint64_t*>(to), reinterpret_cast<const uint64_t*>(from), dims, strides, flat, n);
  }
}

constexpr int64_t serial_work = 1 << 15;  // minimum work; for less, starting threads costs more than it saves

// Processes all elements of one fused kernel.
struct Walk {
  const TileProgram& p_;
  const int64_t tiles_per_row_;
  Frame& frame;

  // Process units [begin, end), which are rows or, in flat mode, tiles. Reductions use the accumulators of chunk
  // `chunk`.
  void walk(int64_t begin, int64_t end, int64_t chunk) const {
    std::byte* registers[max_registers];
    std::byte* scratch = frame.at<std::byte>(p_.scratch) + p_.temporary_bytes * p_.temporaries.size() * thread_number();
    for (size_t i = 0; i < p_.temporaries.size(); i++) registers[p_.temporaries[i]] = scratch + i * p_.temporary_bytes;
    for (const TileInput& in : p_.inputs) {
      if (in.reg < 0) continue;
      if (in.access == Access::scalar) registers[in.reg] = frame.at<std::byte>(in.slot);
      if (in.access == Access::periodic)
        gather(registers[in.reg], frame.at<std::byte>(in.slot), in.element_size, p_.dims, in.strides, 0,
               std::min(p_.tile, p_.total));
    }
    const bool whole = p_.reduction_shape == ReductionShape::all || p_.reduction_shape == ReductionShape::columns;
    if (whole)
      for (const TileReduction& r : p_.reductions)
        std::fill_n(accumulators(r, chunk), result_count(), identity_of(r.kind));
    const struct Fence {
      ~Fence() { streaming_fence(); }
    } fence;
    for (int64_t unit = begin; unit < end; unit++) {
      if (unit % 16 == 0) poll_run();
      if (p_.rows_mode) {
        for (int64_t t = 0; t < tiles_per_row_; t++) {
          if (t % 16 == 15) poll_run();
          const int64_t column = t * p_.tile;
          tile(registers, unit, unit * p_.inner + column, std::min(p_.tile, p_.inner - column), column, chunk);
        }
      } else {
        const int64_t flat = unit * p_.tile;
        tile(registers, 0, flat, std::min(p_.tile, p_.total - flat), 0, chunk);
      }
    }
  }

  void tile(std::byte** registers, int64_t row, int64_t flat, int64_t n, int64_t column, int64_t chunk) const {
    for (const TileInput& in : p_.inputs) {
      if (in.reg < 0) continue;
      std::byte* base = frame.at<std::byte>(in.slot);
      const int64_t size = static_cast<int64_t>(in.element_size);
      switch (in.access) {
        case Access::flat: registers[in.reg] = base + flat * size; break;
        case Access::row: registers[in.reg] = base + (row_offset(in, row) + column) * size; break;
        case Access::row_scalar: registers[in.reg] = base + row_offset(in, row) * size; break;
        case Access::strided: gather(registers[in.reg], base, in.element_size, p_.dims, in.strides, flat, n); break;
        case Access::scalar:
        case Access::periodic: break;
      }
    }
    const auto destination = [&](const TileOutput& out) {
      return frame.at<std::byte>(out.slot) + flat * static_cast<int64_t>(out.element_size);
    };
    for (const TileOutput& out : p_.outputs)
      if (!out.streamed || p_.code) registers[out.reg] = destination(out);
    if (p_.code) {
      generated(registers, n, chunk);
    } else {
      if (p_.prefetch) prefetch(flat + n);
      for (const TileInstruction& i : p_.instructions) {
        const void* in[3] = {registers[i.in[0]], registers[i.in[1]], registers[i.in[2]]};
        i.function(registers[i.out], in, i.once ? 1 : n);
      }
      for (const TileOutput& out : p_.outputs)
        if (out.streamed) float_functions().stream(destination(out), registers[out.reg], n * out.element_size);
    }
    for (const TileReduction& r : p_.reductions)
      if (r.accumulator < 0) reduce(r, reinterpret_cast<const float*>(registers[r.reg]), row, flat, n, column, chunk);
  }

  // Run the generated code on one tile.
  void generated(std::byte** registers, int64_t n, int64_t chunk) const {
    static const int64_t vector_bytes = instruction_set() == "AVX2"             ? 32
                                        : instruction_set().starts_with("NEON") ? 16
                                                                                : 64;
    const int64_t lanes = vector_bytes / p_.lane_bytes;
    alignas(64) float sums[8][16] = {};  // one vector per accumulator
    bool aligned = p_.aligned_code != nullptr;
    for (const TileOutput& out : p_.outputs)
      if (out.streamed) aligned = aligned && reinterpret_cast<uintptr_t>(registers[out.reg]) % 64 == 0;
    if (aligned && vector_bytes == 32 && stores_interfere(registers))
      staged(registers, n, lanes, sums[0]);
    else
      stretch((aligned ? p_.aligned_code : p_.code)->entry<jit::Function>(), registers, n, lanes, sums[0]);
    for (const TileReduction& r : p_.reductions)
      if (r.accumulator >= 0) float_functions().reduce(r.kind)(accumulators(r, chunk), sums[r.accumulator], lanes);
  }

  // Run `code` on n elements.
  void stretch(jit::Function code, std::byte** registers, int64_t n, int64_t lanes, float* sums) const {
    alignas(64) static constexpr int32_t signs[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    const int64_t vector_bytes = lanes * p_.lane_bytes, rest = n % lanes;
    const uint64_t tail = rest == 0            ? 0
                          : vector_bytes == 32 ? reinterpret_cast<uint64_t>(signs + 8 - rest * p_.lane_bytes / 4)
                          : vector_bytes == 16 ? static_cast<uint64_t>(rest)
                                               : (uint64_t{1} << rest) - 1;
    if (vector_bytes == 32 && rest > 0 && p_.has_narrow_streams()) {
      if (n > rest) code(registers, n - rest, 0, sums);
      narrow_tail(code, registers, n - rest, rest, tail, sums);
    } else {
      code(registers, n - rest, tail, sums);
    }
  }

  // Return whether streaming stores of half cache lines would be slow. The processor collects the two halves of a line
  // in a buffer. Some accesses to other memory force it to write half a line, if the address agrees with the line's in
  // the lowest 12 bits: loads from lines that have just been stored and, if much arithmetic separates the halves,
  // stores to the same line of another result. On Zen 3, a loop was up to 70 times slower because of this.
  bool stores_interfere(std::byte* const* registers) const {
    constexpr uintptr_t page = 4096, lag = 1024, line = 64;
    const auto distance = [&](int to, int from) {
      return (reinterpret_cast<uintptr_t>(registers[to]) - reinterpret_cast<uintptr_t>(registers[from])) % page;
    };
    if (staged_elements() == 0) return false;
    for (const TileOutput& out : p_.outputs) {
      if (!out.streamed) continue;
      for (const TileInput& in : p_.inputs)
        if (in.reg >= 0 && in.access != Access::scalar && in.access != Access::row_scalar)
          if (const uintptr_t behind = distance(out.reg, in.reg); behind != 0 && behind < lag) return true;
      for (const TileOutput& other : p_.outputs)
        if (&other != &out && other.streamed && p_.long_code && distance(out.reg, other.reg) < 2 * line) return true;
    }
    return false;
  }

  // The most elements that staged() can compute at once, a multiple of 64; 0 for too many results.
  static constexpr int64_t staging_bytes = 16384;
  int64_t staged_elements() const {
    const auto count = std::ranges::count_if(p_.outputs, [](const TileOutput& out) { return out.streamed; });
    return staging_bytes / (count * p_.lane_bytes) / 64 * 64;
  }

  // Compute results in the first-level cache, block by block, and copy each to memory with streaming stores.
  void staged(std::byte* const* registers, int64_t n, int64_t lanes, float* sums) const {
    alignas(64) std::byte results[staging_bytes];
    const int64_t lane = p_.lane_bytes, longest = staged_elements();
    std::byte* streams[max_registers];
    for (int64_t begin = 0; begin < n; begin += longest) {
      const int64_t elements = std::min(longest, n - begin);
      const auto at = [&](int reg, int64_t size) { return registers[reg] + begin * size; };
      for (const TileInput& in : p_.inputs) {
        if (in.reg < 0) continue;
        const bool single = in.access == Access::scalar || in.access == Access::row_scalar;
        streams[in.reg] = single ? registers[in.reg] : at(in.reg, static_cast<int64_t>(in.element_size));
      }
      for (const TileReduction& r : p_.reductions)
        if (r.reg >= 0 && !r.halves) streams[r.reg] = at(r.reg, sizeof(float));
      std::byte* next = results;
      for (const TileOutput& out : p_.outputs) {
        streams[out.reg] = out.streamed ? next : at(out.reg, static_cast<int64_t>(out.element_size));
        if (out.streamed) next += longest * lane;
      }
      stretch(p_.code->entry<jit::Function>(), streams, elements, lanes, sums);
      for (const TileOutput& out : p_.outputs)
        if (out.streamed)
          float_functions().stream(at(out.reg, lane), streams[out.reg], static_cast<size_t>(elements * lane));
    }
  }

  // Process the last elements of a tile on copies. AVX2 code cannot access part of a vector if elements are narrower
  // than a lane, and would read and write memory past the end of the tile.
  void narrow_tail(jit::Function code, std::byte** registers, int64_t begin, int64_t rest, uint64_t tail,
                   float* sums) const {
    constexpr size_t narrow_vector = 16;  // bytes; elements are half as wide as a lane
    const auto lane = static_cast<size_t>(p_.lane_bytes);
    std::byte* streams[max_registers];
    std::byte copies[max_registers][narrow_vector];
    const auto at = [&](int reg, size_t size) { return registers[reg] + begin * static_cast<int64_t>(size); };
    for (const TileInput& in : p_.inputs) {
      if (in.reg < 0) continue;
      const bool single = in.access == Access::scalar || in.access == Access::row_scalar;
      streams[in.reg] = single ? registers[in.reg] : at(in.reg, in.element_size);
      if (single || in.element_size == lane) continue;
      std::memset(copies[in.reg], 0, narrow_vector);
      std::memcpy(copies[in.reg], std::exchange(streams[in.reg], copies[in.reg]), rest * in.element_size);
    }
    for (const TileReduction& r : p_.reductions)
      if (r.reg >= 0 && !r.halves) streams[r.reg] = at(r.reg, sizeof(float));
    for (const TileOutput& out : p_.outputs)
      streams[out.reg] = out.element_size == lane ? at(out.reg, lane) : copies[out.reg];
    code(streams, 0, tail, sums);
    for (const TileOutput& out : p_.outputs)
      if (out.element_size < lane) std::memcpy(at(out.reg, out.element_size), copies[out.reg], rest * out.element_size);
  }

  void reduce(const TileReduction& r, const float* values, int64_t row, int64_t flat, int64_t n, int64_t column,
              int64_t chunk) const {
    const ReduceFunction function = float_functions().reduce(r.kind);
    switch (p_.reduction_shape) {
      case ReductionShape::all: return function(accumulators(r, chunk), values, n);
      case ReductionShape::rows: {
        float* result = frame.at<float>(r.slot);
        if (p_.rows_mode) {
          if (column == 0) result[row] = identity_of(r.kind);
          if (r.halves) return float_functions().sum_halves(result + row, values, *r.halves, n);
          return function(result + row, values, n);
        }
        if (is_short_row(p_.inner, sizeof(float)))
          return reduce_short_rows(r, values, n / p_.inner, result + flat / p_.inner);
        for (int64_t i = 0; i < n; i += p_.inner) {
          float& one = result[(flat + i) / p_.inner];
          one = identity_of(r.kind);
          function(&one, values + i, p_.inner);
        }
        return;
      }
      case ReductionShape::columns: {
        const CombineFunction combine = float_functions().combine(r.kind);
        float* accumulator = accumulators(r, chunk);
        if (p_.rows_mode) return combine(accumulator + column, values, 0, 1, n);
        combine(accumulator, values, p_.inner, n / p_.inner, p_.inner);
        return;
      }
      case ReductionShape::none: return;
    }
  }

  void reduce_short_rows(const TileReduction& r, const float* values, int64_t rows, float* result) const {
    const CombineFunction combine = float_functions().combine(r.kind);
    const int64_t n = p_.inner, most = turned_rows(n);
    float turned[turned_elements];
    std::fill_n(result, rows, identity_of(r.kind));
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t count = std::min(most, rows - first);
      turn_rows(values + first * n, n, count, n, turned, most);
      combine(result + first, turned, most, n, count);
    }
  }

  void combine_chunks() const {
    for (const TileReduction& r : p_.reductions) {
      float* result = frame.at<float>(r.slot);
      const float* partials = frame.at<float>(r.partials);
      std::fill_n(result, result_count(), identity_of(r.kind));
      if (p_.reduction_shape == ReductionShape::all)
        float_functions().reduce(r.kind)(result, partials, p_.chunks);
      else
        float_functions().combine(r.kind)(result, partials, result_count(), p_.chunks, result_count());
    }
  }

  // Prefetch the operands of the next tile. Tile functions load data and compute in separate loops, so without
  // prefetching, memory would be idle during the arithmetic.
  void prefetch(int64_t flat) const {
    const int64_t n = std::min(p_.tile, p_.total - flat);
    for (const TileInput& in : p_.inputs) {
      if (in.access != Access::flat || in.reg < 0) continue;
      const std::byte* begin = frame.at<std::byte>(in.slot) + flat * static_cast<int64_t>(in.element_size);
      const int64_t bytes = n * static_cast<int64_t>(in.element_size);
      for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(begin + i, 0, 2);
    }
  }

  int64_t result_count() const { return p_.reduction_shape == ReductionShape::columns ? p_.inner : 1; }
  float* accumulators(const TileReduction& r, int64_t chunk) const {
    return frame.at<float>(r.partials) + chunk * result_count();
  }
  int64_t row_offset(const TileInput& in, int64_t row) const {
    int64_t offset = 0;
    for (int axis = static_cast<int>(p_.dims.size()) - 2; axis >= 0; axis--) {
      offset += row % p_.dims[axis] * in.strides[axis];
      row /= p_.dims[axis];
    }
    return offset;
  }
};

std::unique_ptr<Kernel> lower_fused_elementwise(Lowering& lowering) {
  return std::make_unique<FusedElementwiseKernel>(build_tile_program(lowering));
}

}  // namespace

bool TileProgram::has_narrow_streams() const {
  const auto narrow = [&](const auto& stream) { return stream.element_size < static_cast<size_t>(lane_bytes); };
  return std::any_of(inputs.begin(), inputs.end(), narrow) || std::any_of(outputs.begin(), outputs.end(), narrow);
}

FusedElementwiseKernel::FusedElementwiseKernel(TileProgram program) {
  if (program.registers > max_registers)
    throw UnsupportedError(cat("a fused element-wise kernel needs ", program.registers, " registers, but at most ",
                               max_registers, " are supported; disable the compiler pass 'fuse_elementwise'"));
  Part part{std::move(program)};
  const TileProgram& p = part.program;
  part.tiles_per_row = p.rows_mode && p.inner ? (p.inner + p.tile - 1) / p.tile : 1;
  part.units = p.total == 0 ? 0 : p.rows_mode ? p.total / p.inner : (p.total + p.tile - 1) / p.tile;
  part.work = work_ = p.total * p.cost;
  parts_.push_back(std::move(part));
}

bool FusedElementwiseKernel::can_merge() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.program.chunks == 0; });
}

void FusedElementwiseKernel::merge(FusedElementwiseKernel& other) {
  for (Part& part : other.parts_) {
    work_ += part.work;
    parts_.push_back(std::move(part));
  }
}

bool FusedElementwiseKernel::take_blocks(Slot operand) {
  TileProgram& p = parts_.front().program;
  const auto plain = [](const TileInput& in) { return in.access == Access::flat || in.access == Access::scalar; };
  const auto is_operand = [&](const TileInput& in) { return in.slot == operand && in.access == Access::flat; };
  if (parts_.size() != 1 || !p.code || !p.temporaries.empty() || !p.reductions.empty() || p.rows_mode || p.total <= 1 ||
      !std::all_of(p.inputs.begin(), p.inputs.end(), plain) ||
      std::count_if(p.inputs.begin(), p.inputs.end(), is_operand) != 1)
    return false;
  // Regenerate the code without prefetches. Each call of run_block() processes few elements, so prefetches would mostly
  // fetch the operands of another block and evict data that the hardware prefetcher has loaded.
  if (const auto generate = std::exchange(p.generate_for_blocks, nullptr)) generate(p);
  return true;
}

void FusedElementwiseKernel::run_block(Frame& frame, int64_t begin, int64_t end, Slot operand, std::byte* block) const {
  const TileProgram& p = parts_.front().program;
  std::byte* registers[max_registers];
  for (const TileInput& in : p.inputs) {
    if (in.reg < 0) continue;
    std::byte* const base = frame.at<std::byte>(in.slot);
    const bool scalar = in.access == Access::scalar;
    registers[in.reg] = in.slot == operand ? block
                        : scalar           ? base
                                           : base + begin * static_cast<int64_t>(in.element_size);
  }
  for (const TileOutput& out : p.outputs)
    registers[out.reg] = frame.at<std::byte>(out.slot) + begin * static_cast<int64_t>(out.element_size);
  Walk{p, 1, frame}.generated(registers, end - begin, 0);
  streaming_fence();
}

std::vector<Slot> FusedElementwiseKernel::reads() const {
  std::vector<Slot> slots;
  for (const Part& part : parts_)
    for (const TileInput& in : part.program.inputs) slots.push_back(in.slot);
  return slots;
}

std::vector<Slot> FusedElementwiseKernel::writes() const {
  std::vector<Slot> slots;
  for (const Part& part : parts_) {
    for (const TileOutput& out : part.program.outputs) slots.push_back(out.slot);
    for (const TileReduction& reduction : part.program.reductions) slots.push_back(reduction.slot);
  }
  return slots;
}

void FusedElementwiseKernel::run(Frame& frame) const {
  const int64_t threads = work_ < serial_work ? 1 : thread_count();
  if (!can_merge()) {
    const Part& part = parts_.front();
    const TileProgram& p = part.program;
    const Walk walk{p, part.tiles_per_row, frame};
    const auto chunk = [&](int64_t c) { walk.walk(part.units * c / p.chunks, part.units * (c + 1) / p.chunks, c); };
    if (threads == 1)
      for (int64_t c = 0; c < p.chunks; c++) chunk(c);
    else
      parallel_parts(p.chunks, chunk);
    walk.combine_chunks();
    return;
  }
  // Divide the work, in order, into nearly equal shares, without splitting units (rows or tiles).
  const int64_t shares =
      threads == 1 ? 1 : std::clamp(work_ / serial_work * threads, threads, threads * items_per_thread);
  const auto share = [&](int64_t which) {
    int64_t before = 0;
    for (const Part& part : parts_) {
      const auto unit_at = [&](int64_t t) {
        const int64_t cut = static_cast<int64_t>(static_cast<double>(work_) * t / shares) - before;
        return part.work == 0
                   ? 0
                   : std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(part.units) * cut / part.work), 0,
                                         part.units);
      };
      const int64_t begin = unit_at(which), end = which + 1 == shares ? part.units : unit_at(which + 1);
      if (begin < end) Walk{part.program, part.tiles_per_row, frame}.walk(begin, end, 0);
      before += part.work;
    }
  };
  parallel_parts(shares, share);
}

std::string FusedElementwiseKernel::description() const {
  std::string text;
  for (const Part& part : parts_) {
    const TileProgram& p = part.program;
    text += cat(text.empty() ? "fused " : " | ", p.cost - 1, " operations, ",
                p.code ? "generated code" : cat(p.instructions.size(), " tile functions"), ", ", p.inputs.size(),
                " inputs, ", p.outputs.size(), " outputs, ", p.reductions.size(), " reductions, ",
                p.rows_mode ? "rows" : "flat", " tiles of ", p.tile);
  }
  return text;
}

const Kernels fused_kernel_kernels("fused_kernel", [] {
  define_kernel("fused_elementwise", lower_fused_elementwise);
  for (const OperationDefinition* definition : all_definitions())
    if (definition->elementwise) define_kernel(definition->name, lower_fused_elementwise);
});

}  // namespace mpsgraph::cpu
