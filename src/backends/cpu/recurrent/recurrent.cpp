// recurrent_sequence and its gradient: the time steps of recurrent layers, partitioned among threads.
//
// Rows of the batch are independent, so each thread processes whole sequences for some rows without synchronizing. If
// there are too few rows, threads divide the hidden units instead and synchronize after each phase of each step. Half
// precision is computed in float32 on converted operands. The reference computes everything in float64.
#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"
#include "backends/cpu/recurrent/recurrent_engine.h"
#include "backends/cpu/recurrent/recurrent_scalars.h"
#include "core/ops/recurrent.h"

namespace mpsgraph::cpu {
namespace {

template <class T>
const RecurrentEngine<T>& engine() {
  if constexpr (std::is_same_v<T, float>) {
    return recurrent_engine();
  } else {
    static constexpr RecurrentEngine<T> plain = RecurrentSteps<Scalars<T>>::engine();
    return plain;
  }
}

// ---- distribution of work

constexpr int64_t unpacked_rows = 192;  // minimum rows over all steps for which packing the weights pays off
constexpr int64_t rows_of_piece = 10;  // rows in a piece of work, about as many as are multiplied together
constexpr int64_t pieces_of_units = 4;  // pieces of hidden units per thread
constexpr int64_t pieces_of_rows = 3;  // maximum number of pieces of rows per thread
// maximum number of links (groups of consecutive time steps) per piece of rows. A thread takes one link at a time, so
// with several links per piece, all threads finish at about the same time.
constexpr int64_t links_of_piece = 10;
// Minimum number of multiplications for which the cost of a barrier is negligible. If a step has fewer, threads do not
// divide the hidden units; if all steps together have fewer, one thread runs them.
constexpr int64_t work_between_waits = 1 << 17;

int64_t blocks_of(int64_t hidden, int64_t lanes) { return (hidden + lanes - 1) / lanes; }

// Call step(range, phase, member) for all steps of all directions. Ranges of hidden units are counted in blocks of as
// many units as a vector has lanes. In the later phases of the backward pass, a block consists of `columns` vectors
// instead of one.
template <class T, class Step>
void run_steps(const RecurrentJob<T>& j, int phases, const std::array<int64_t, 3>& blocks, bool from_the_end,
               const Step& step) {
  const auto at = [&](int64_t s) { return from_the_end ? j.steps - 1 - s : s; };
  const int threads = thread_count();
  const int64_t rows = j.batch * j.directions, work = j.batch * j.gates * j.hidden * j.hidden;
  const bool share_rows =
      // if this is false and steps are large, threads divide the hidden units instead of the rows, so that each thread
      // reads only its part of the weights
      rows >= 2 * threads && (j.panels || !j.input_weight);
  if (threads == 1 || share_rows || work < work_between_waits) {
    const bool small = threads == 1 || work * j.directions * j.steps < work_between_waits;
    const int64_t pieces =
        small ? 1 : std::clamp(rows / rows_of_piece, std::min<int64_t>(rows, threads), threads * pieces_of_rows);
    const int64_t pairs = j.steps / 2, links = small ? 1 : std::clamp<int64_t>(pairs, 1, links_of_piece);
    parallel_chains(pieces, links, [&](int64_t piece, int64_t link, int64_t member) {
      const int64_t begin = rows * piece / pieces, end = rows * (piece + 1) / pieces;
      // an even number of steps per link preserves the alternating order of blocks
      const int64_t first_step = 2 * (pairs * link / links),
                    end_step = link + 1 == links ? j.steps : 2 * (pairs * (link + 1) / links);
      for (int64_t d = 0; d < j.directions; ++d) {
        const int64_t first = std::clamp(begin - d * j.batch, int64_t{0}, j.batch),
                      last = std::clamp(end - d * j.batch, int64_t{0}, j.batch);
        if (first == last) continue;
        for (int64_t s = first_step; s < end_step; ++s)
          for (int phase = 0; phase < phases; ++phase)
            step({d, at(s), first, last, 0, blocks[static_cast<size_t>(phase)], piece}, phase, member);
      }
    });
    return;
  }
  const int64_t pieces = threads * pieces_of_units;
  const auto all_phases = [&](int64_t) { return pieces; };
  parallel_phases(threads, j.steps * phases, all_phases, [&](int64_t turn, Items& items) {
    const int64_t s = turn / phases;
    const auto phase = static_cast<int>(turn % phases);
    const bool last_first = j.last_first != (at(s) % 2 != 0);
    const int64_t count = blocks[static_cast<size_t>(phase)];
    for (int64_t piece : items) {
      // reverses the order within a thread's part
      if (last_first) piece += pieces_of_units - 1 - 2 * (piece % pieces_of_units);
      const int64_t first = count * piece / pieces, last = count * (piece + 1) / pieces;
      for (int64_t d = 0; d < j.directions; ++d) step({d, at(s), 0, j.batch, first, last, 0}, phase, items.member());
    }
  });
}

template <class T>
void pack_forward(const RecurrentEngine<T>& e, const RecurrentJob<T>& j) {
  const int64_t blocks = blocks_of(j.hidden, e.lanes);
  parallel_for(j.directions * blocks * j.gates, grain_for(4 * e.lanes * j.depth()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) e.pack_forward(j, i / (blocks * j.gates), i / j.gates % blocks, i % j.gates);
  });
}

template <class T>
void run_forward(const RecurrentEngine<T>& e, const RecurrentJob<T>& j, T* own) {
  const int64_t blocks = blocks_of(j.hidden, e.lanes);
  run_steps(j, j.forward_phases(), {blocks, blocks, blocks}, false,
            [&](const RecurrentRange& range, int phase, int64_t member) {
              e.forward(j, phase, range, own + member * e.own_rows * j.hidden);
            });
}

template <class T>
void run_backward(const RecurrentEngine<T>& e, const RecurrentJob<T>& j, T* bias_gradient) {
  const int64_t blocks = blocks_of(j.hidden, e.lanes), wide = blocks_of(j.hidden, e.columns * e.lanes);
  const int64_t rows = j.gates * j.hidden;
  parallel_for(j.directions * rows, grain_for(4 * j.hidden), [&](int64_t begin, int64_t end) {
    for (int64_t d = begin / rows; d * rows < end; ++d)
      e.pack_backward(j, d, std::max(begin - d * rows, int64_t{0}), std::min(end - d * rows, rows));
  });
  const int64_t width = j.directions * j.gates * j.hidden, sums = thread_count() * pieces_of_rows * width;
  if (j.sums) std::fill_n(j.sums, sums, T(0));
  run_steps(j, j.backward_phases(), {blocks, wide, wide}, true,
            [&](const RecurrentRange& range, int phase, int64_t) { e.backward(j, phase, range); });
  if (!j.sums) return;
  std::copy_n(j.sums, width, bias_gradient);
  for (const T* more = j.sums + width; more < j.sums + sums; more += width)
    for (int64_t i = 0; i < width; ++i) bias_gradient[i] += more[i];
}

// ---- operands

// A tensor in memory with elements of type T: the operand itself, or a converted copy in scratch memory.
struct Buffer {
  Slot slot = -1;
  explicit operator bool() const { return slot >= 0; }
};

using Convert = void (*)(const std::byte* from, std::byte* to, int64_t n);

template <class From, class To>
void convert(const std::byte* from, std::byte* to, int64_t n) {
  parallel_for(n, 32768, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) reinterpret_cast<To*>(to)[i] = To(reinterpret_cast<const From*>(from)[i]);
  });
}

// Functions that convert between the type in memory and the compute type. They are null if both types are equal.
struct Conversion {
  Convert load = nullptr, save = nullptr;
};

template <class Stored, class T>
constexpr Conversion conversion_of() {
  if constexpr (std::is_same_v<Stored, T>)
    return {};
  else
    return {convert<Stored, T>, convert<T, Stored>};
}

template <class T>
Conversion conversion_to(DType stored) {
  switch (stored) {
    case DType::float16: return conversion_of<Half, T>();
    case DType::bfloat16: return conversion_of<BFloat16, T>();
    case DType::float32: return conversion_of<float, T>();
    default: return {};
  }
}

// The conversions that a kernel performs before and after the computation.
struct Conversions {
  struct One {
    Slot stored, computed;
    int64_t elements;
  };
  std::vector<One> before, after;
  Conversion way;

  void load(Frame& f) const {
    for (const One& c : before) way.load(f.at<std::byte>(c.stored), f.at<std::byte>(c.computed), c.elements);
  }
  void save(Frame& f) const {
    for (const One& c : after) way.save(f.at<std::byte>(c.computed), f.at<std::byte>(c.stored), c.elements);
  }
};

// Provides operands as buffers with elements of the compute type T.
template <class T>
class Binding {
 public:
  Binding(Lowering& lowering, const ops::OperandNames& names)
      : lowering_(lowering), operands_(names, lowering.attributes(), lowering.operation().inputs) {
    conversions_.way = conversion_to<T>(lowering.output().dtype);
  }

  bool converts() const { return conversions_.way.load; }
  std::optional<Operand> find(std::string_view name) const {
    const int i = operands_.index(name);
    return i < 0 ? std::nullopt : std::optional(lowering_.input(static_cast<size_t>(i)));
  }
  Buffer input(std::string_view name) {
    const auto operand = find(name);
    if (!operand) return {};
    return converted(*operand, conversions_.before);
  }
  Buffer output(size_t i) { return converted(lowering_.output(i), conversions_.after); }
  Buffer scratch(int64_t elements) { return {lowering_.scratch(static_cast<size_t>(elements) * sizeof(T))}; }

  Conversions conversions() const { return conversions_; }

 private:
  Buffer converted(const Operand& operand, std::vector<Conversions::One>& list) {
    if (!converts()) return {operand.slot};
    const Buffer copy = scratch(operand.elements());
    list.push_back({operand.slot, copy.slot, operand.elements()});
    return copy;
  }

  Lowering& lowering_;
  const ops::NamedOperands operands_;
  Conversions conversions_;
};

// Dispatch on the type T in which the steps are computed.
template <class F>
decltype(auto) dispatch_computed(const Lowering& lowering, DType dtype, const F& f) {
  if (!is_inexact(dtype) || is_complex(dtype)) unsupported(lowering, dtype);
  return dtype == DType::float64 || lowering.reference_only() ? f(Type<double>{}) : f(Type<float>{});
}

template <class T>
T* pointer(Frame& f, Buffer buffer) {
  return buffer ? f.at<T>(buffer.slot) : nullptr;
}

// Return a job with all fields set except its pointers.
template <class T>
RecurrentJob<T> described(const Lowering& lowering, const Dims& weights, const Dims& state,
                          const std::optional<Operand>& mask) {
  const ops::CellDescription cell(lowering.attributes());
  RecurrentJob<T> j;
  j.cell = cell.cell;
  j.steps = state[0];
  j.batch = state[1];
  j.directions = weights[0];
  j.hidden = weights[2];
  j.gates = cell.gates();
  j.reverse = cell.reverse;
  j.reset_after = cell.reset_after;
  j.flip = cell.flip_z;
  std::copy(cell.activations.begin(), cell.activations.end(), j.activations);
  std::copy(cell.places.begin(), cell.places.end(), j.places);
  if (mask) {
    const Dims strides = contiguous_strides(mask->dims);
    const auto stride = [&](size_t axis) { return mask->dims[axis] == 1 ? 0 : strides[axis]; };
    j.mask_step = stride(0);
    j.mask_row = stride(1);
    j.mask_unit = stride(2);
  }
  return j;
}

// Return the packed panels of constant weights. Return null if the weights are not constant, or if a second copy of the
// weights would take a considerable part of the model's memory.
template <class T>
PackedPtr constant_panels(Lowering& lowering, const RecurrentEngine<T>& e, const RecurrentJob<T>& job,
                          int64_t elements) {
  constexpr int64_t most_elements = 1 << 18;
  if (elements > most_elements) return nullptr;
  const ConstantWeights constant = lowering.constant(1);
  if (!constant) return nullptr;
  std::string layout = cat("panels of recurrent steps: ", job.directions, " ", job.gates, " ", job.hidden, " ",
                           job.forward_phases(), " phases, ", e.lanes, " lanes");
  for (int64_t gate = 0; gate < job.gates; ++gate) layout += cat(" ", job.places[gate]);
  return prepacked(constant, layout, static_cast<size_t>(elements) * sizeof(T),
                   [&](const std::byte* weights, std::byte* panels) {
                     RecurrentJob<T> j = job;
                     j.weights = reinterpret_cast<const T*>(weights);
                     j.panels = reinterpret_cast<T*>(panels);
                     pack_forward(e, j);
                   });
}

std::unique_ptr<Kernel> lower_sequence(Lowering& lowering) {
  const Operand first = lowering.output();
  return dispatch_computed(lowering, first.dtype, [&](auto type) -> std::unique_ptr<Kernel> {
    using T = typename decltype(type)::type;
    Binding<T> bind(lowering, ops::sequence_operands);
    const Dims weights_dims = lowering.input(1).dims;
    const int64_t inputs = lowering.input(0).dims[2];
    const RecurrentJob<T> job = described<T>(lowering, weights_dims, first.dims, bind.find("mask"));
    const RecurrentEngine<T>* e = &engine<T>();
    const bool gives_cell = lowering.attributes().boolean("gives_cell"),
               gives_training = lowering.attributes().boolean("gives_training_state");
    const Buffer source = bind.input("source"), weights = bind.input("recurrent_weight"),
                 initial_state = bind.input("initial_state"), initial_cell = bind.input("initial_cell"),
                 mask = bind.input("mask"), extra = bind.input("extra"), input_weight = bind.input("input_weight"),
                 bias = bind.input("bias");
    const Buffer state = bind.output(0), cells = gives_cell ? bind.output(1) : Buffer(),
                 training = gives_training ? bind.output(1 + gives_cell) : Buffer();
    const int64_t last = job.batch * job.directions * job.hidden;
    const bool is_lstm = job.cell == ops::Cell::lstm, two_phases = job.forward_phases() == 2;
    const Buffer running = is_lstm && !gives_cell ? bind.scratch(last) : Buffer(),
                 update = two_phases ? bind.scratch(last) : Buffer(),
                 reset = two_phases ? bind.scratch(last) : Buffer();
    // The order of hidden units alternates between ascending and descending, from step to step and from run to run, so
    // that the weights still in cache are read first.
    const auto runs = std::make_shared<std::atomic<unsigned>>(0);
    const int64_t depth = job.hidden + (input_weight ? inputs : 0),
                  panels = job.directions * job.gates * depth * blocks_of(job.hidden, e->lanes) * e->lanes;
    PackedPtr packed;
    if (!bind.converts() && !input_weight && job.steps > 1) packed = constant_panels(lowering, *e, job, panels);
    const bool packs = !packed && job.batch * job.steps > unpacked_rows;
    const Buffer panel_buffer = packs ? bind.scratch(panels) : Buffer(),
                 own = bind.scratch(thread_count() * e->own_rows * job.hidden);
    const auto run = [=, conversions = bind.conversions()](Frame& f) {
      conversions.load(f);
      RecurrentJob<T> j = job;
      j.source = pointer<T>(f, source);
      j.input_weight = pointer<T>(f, input_weight);
      j.bias = pointer<T>(f, bias);
      j.inputs = inputs;
      j.last_first = runs->fetch_add(1, std::memory_order_relaxed) % 2 != 0;
      j.weights = pointer<T>(f, weights);
      // Packed panels are only read, so the cast is safe.
      j.panels = packed ? reinterpret_cast<T*>(const_cast<std::byte*>(packed.get())) : pointer<T>(f, panel_buffer);
      j.mask = pointer<T>(f, mask);
      j.extra = pointer<T>(f, extra);
      j.initial_state = pointer<T>(f, initial_state);
      j.initial_cell = pointer<T>(f, initial_cell);
      j.state = pointer<T>(f, state);
      j.cells = pointer<T>(f, cells);
      j.training = pointer<T>(f, training);
      j.running_cell = pointer<T>(f, running);
      j.reset_state = pointer<T>(f, reset);
      j.update = pointer<T>(f, update);
      if (packs) pack_forward(*e, j);
      run_forward(*e, j, pointer<T>(f, own));
      conversions.save(f);
    };
    return kernel(run, packed ? "packed weights" : "");
  });
}

std::unique_ptr<Kernel> lower_sequence_gradient(Lowering& lowering) {
  const Operand first = lowering.output();
  return dispatch_computed(lowering, first.dtype, [&](auto type) -> std::unique_ptr<Kernel> {
    using T = typename decltype(type)::type;
    Binding<T> bind(lowering, ops::sequence_gradient_operands);
    const Operand d_state_operand = *bind.find("state_gradient");
    const RecurrentJob<T> job = described<T>(lowering, lowering.input(0).dims, d_state_operand.dims, bind.find("mask"));
    const RecurrentEngine<T>* e = &engine<T>();
    const Buffer weights = bind.input("recurrent_weight"), training = bind.input("training_state"),
                 initial_state = bind.input("initial_state"), state = bind.input("state"),
                 candidate = bind.input("candidate"), initial_cell = bind.input("initial_cell"),
                 cell = bind.input("cell"), mask = bind.input("mask"), peephole = bind.input("peephole"),
                 d_state = bind.input("state_gradient"), d_cell = bind.input("cell_gradient"),
                 d_training = bind.input("training_state_gradient"), d_last_state = bind.input("last_state_gradient"),
                 d_last_cell = bind.input("last_cell_gradient");
    // The gradient of each gate overwrites the value of the gate, which halves the memory traffic of a step.
    if (job.cell == ops::Cell::lstm && !bind.converts()) lowering.may_share(0, 1);
    const Buffer d_source = bind.output(0), d_initial_state = bind.output(1),
                 d_initial_cell = job.cell == ops::Cell::lstm ? bind.output(2) : Buffer();
    size_t outputs = d_initial_cell ? 3 : 2;
    const auto given = [&](std::string_view flag) {
      return lowering.attributes().boolean(flag) ? bind.output(outputs++) : Buffer();
    };
    const Buffer state_before = given("gives_state_before"), bias_gradient = given("gives_bias_gradient");
    const int64_t last = job.batch * job.directions * job.hidden;
    const Buffer sums = bias_gradient
                            ? bind.scratch(thread_count() * pieces_of_rows * job.directions * job.gates * job.hidden)
                            : Buffer();
    const Buffer inner = job.cell == ops::Cell::gru && job.reset_after ? bind.scratch(last) : Buffer();
    const int64_t wide = e->columns * e->lanes;
    const Buffer panels = bind.scratch(job.directions * job.gates * job.hidden * blocks_of(job.hidden, wide) * wide);
    return kernel([=, conversions = bind.conversions()](Frame& f) {
      conversions.load(f);
      RecurrentJob<T> j = job;
      j.weights = pointer<T>(f, weights);
      j.panels = pointer<T>(f, panels);
      j.mask = pointer<T>(f, mask);
      j.extra = pointer<T>(f, peephole);
      j.initial_state = pointer<T>(f, initial_state);
      j.initial_cell = pointer<T>(f, initial_cell);
      j.state = pointer<T>(f, state);
      j.cells = pointer<T>(f, cell);
      j.training = pointer<T>(f, training);
      j.candidate = pointer<T>(f, candidate);
      j.d_state = pointer<T>(f, d_state);
      j.d_cell = pointer<T>(f, d_cell);
      j.d_training = pointer<T>(f, d_training);
      j.d_source = pointer<T>(f, d_source);
      j.carried_state = pointer<T>(f, d_initial_state);
      j.carried_cell = pointer<T>(f, d_initial_cell);
      j.inner = pointer<T>(f, inner);
      j.state_before = pointer<T>(f, state_before);
      j.sums = pointer<T>(f, sums);
      const auto begin = [&](T* carried, Buffer from) {
        if (!carried) return;
        const T* given = pointer<T>(f, from);
        for (int64_t i = 0; i < last; ++i) carried[i] = given ? given[i] : T(0);
      };
      begin(j.carried_state, d_last_state);
      begin(j.carried_cell, d_last_cell);
      run_backward(*e, j, pointer<T>(f, bias_gradient));
      conversions.save(f);
    });
  });
}

}  // namespace

const Kernels recurrent_kernels("recurrent", [] {
  define_kernel("recurrent_sequence", lower_sequence);
  define_kernel("recurrent_sequence_gradient", lower_sequence_gradient);
});

}  // namespace mpsgraph::cpu
