// quantized_lstm_sequence: the time steps of an LSTM with 8-bit recurrent weights, computed by 8-bit matmuls.
//
// Weights are packed once, by blocks of hidden units. Each of a block's four gates is a panel of columns, so the gates
// are computed while their sums are in registers and L1. Zero points are not subtracted from each element but taken
// into account per row and per column. With a state q and its zero point z, a weight w and its zero point Y, and sums
// over k products:
//   Σ (q - z) (w - Y) = Σ q w' - z Σ w' + y (k z - Σ q)
// Here w' = w and y = Y for signed weights, and w' = w - 128 and y = Y - 128 for unsigned weights. The second term is
// constant for a column, and the third is a row factor times a column factor. Every thread quantizes the states that it
// needs. Several threads may thus repeat the same work, but this costs less than waiting for each other.
#include <cstring>
#include <vector>

#include "backends/cpu/convolution/convolution_integers.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"
#include "backends/cpu/recurrent/recurrent_quantized.h"
#include "backends/cpu/recurrent/recurrent_scalars.h"

namespace mpsgraph::cpu {
namespace {

constexpr int block_units = QuantizedBlock::columns, block_roles = QuantizedBlock::roles,
              byte_group = IntegerTiles::group;
static_assert(block_units == IntegerTiles::columns);

const QuantizedLstmEngine& quantized_engine(bool reference) {
  static constexpr QuantizedLstmEngine plain = QuantizedLstm<Scalars<float>>::engine();
  if (reference) return plain;
  return quantized_lstm_engine();
}

// 8-bit matmul for any processor. This function also serves as the reference.
void multiply_bytes(int count, const uint8_t* const* rows, bool, const TileRun* all, int64_t, const int8_t* panel,
                    std::byte* const* out, int, const IntegerEpilogue&) {
  for (int r = 0; r < count; ++r) {
    int32_t sums[block_units] = {};
    const int8_t* b = panel;
    for (int64_t k = 0; k < all->steps * byte_group; k += byte_group)
      for (int c = 0; c < block_units; ++c, b += byte_group) {
        const uint8_t* a = rows[r] + k;
        sums[c] += a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
      }
    std::memcpy(out[r], sums, sizeof sums);
  }
}

const IntegerTiles& quantized_tiles(int64_t batch, bool reference) {
  constexpr int64_t few_rows = 8;  // too few rows for AMX to pay off
  constexpr int some_rows = 8;
  static const IntegerTiles plain{{some_rows}, multiply_bytes, nullptr, 0, 0};
  const IntegerTiles* tiles = reference ? nullptr : integer_sum_tiles(batch < few_rows);
  return tiles ? *tiles : plain;
}

class QuantizedLstmSequence final : public Kernel {
 public:
  explicit QuantizedLstmSequence(Lowering& lowering)
      : engine_(quantized_engine(lowering.reference_only())),
        source_(lowering.input(0).slot),
        weights_(lowering.input(1).slot),
        scales_(lowering.input(2).slot),
        points_(lowering.input(3).slot),
        initial_state_(lowering.input(4).slot),
        initial_cell_(lowering.input(5).slot),
        state_(lowering.output(0).slot),
        cell_(lowering.output(1).slot),
        flip_(lowering.input(1).dtype == DType::uint8) {
    const Dims weights = lowering.input(1).dims, states = lowering.output(0).dims;
    job_.cell = ops::Cell::lstm;
    job_.steps = states[0];
    job_.batch = states[1];
    job_.directions = weights[0];
    job_.hidden = weights[1];
    job_.gates = block_roles;
    job_.reverse = lowering.attributes().boolean("reverse");
    job_.reset_after = job_.flip = false;
    const Ints places = lowering.attributes().integers("places");
    std::copy(places.begin(), places.end(), job_.places);
    const Ints activations = lowering.attributes().integers("activations");
    for (size_t i = 0; i < activations.size(); ++i)
      job_.activations[i] = static_cast<ops::RecurrentActivation>(activations[i]);
    tiles_ = &quantized_tiles(job_.batch, lowering.reference_only());
    blocks_ = (job_.hidden + block_units - 1) / block_units;
    steps_ = (job_.hidden + byte_group - 1) / byte_group;
    stride_ = (job_.hidden + line - 1) / line * line;

    const size_t bytes = static_cast<size_t>(job_.directions * blocks_ * block_roles * panel_bytes());
    if (const ConstantWeights constant = lowering.constant(1)) {
      const std::string layout =
          cat("panels of 8-bit LSTM weights: ", job_.directions, " ", job_.hidden, " ", flip_, " ", to_string(places));
      packed_ = prepacked(constant, layout, bytes, [&](const std::byte* elements, std::byte* to) {
        pack_all(reinterpret_cast<const uint8_t*>(elements), to);
      });
    } else {
      panels_ = lowering.scratch(bytes);
    }
    for (int64_t i = 0; i < job_.directions * blocks_ * block_roles; ++i) {
      const auto* panel = reinterpret_cast<const int8_t*>(packed_.get()) + i * panel_bytes();
      runs_.push_back(packed_ ? runs_of_panel(*tiles_, panel, steps_) : std::vector<TileRun>{{0, 0, steps_}});
    }
    columns_ = lowering.scratch(static_cast<size_t>(2 * job_.directions * blocks_ * block_columns) * sizeof(float));
    own_ = lowering.scratch(static_cast<size_t>(thread_count() * own_bytes()));
  }

  void run(Frame& frame) const override {
    RecurrentJob<float> j = job_;
    if (j.batch == 0 || j.hidden == 0) return;
    j.source = frame.at<const float>(source_);
    j.initial_state = frame.at<const float>(initial_state_);
    j.initial_cell = frame.at<const float>(initial_cell_);
    j.state = frame.at<float>(state_);
    j.cells = frame.at<float>(cell_);
    Memory m{packed_.get(), frame.at<float>(columns_), nullptr, frame.at<std::byte>(own_)};
    if (!packed_) {
      pack_all(frame.at<const uint8_t>(weights_), frame.at<std::byte>(panels_));
      m.panels = frame.at<const std::byte>(panels_);
    }
    m.points = prepare_columns(frame, m.scales);
    const int64_t work = j.batch * block_roles * j.hidden * j.hidden;
    const int threads = thread_count();
    if (threads == 1 || work < work_between_waits || (j.directions == 2 && threads == 2))
      return run_directions(j, m, work);
    const int64_t pieces = std::min<int64_t>(blocks_, threads * pieces_of_units);
    parallel_phases(
        threads, j.steps, [&](int64_t) { return j.directions * pieces; },
        [&](int64_t step, Items& items) {
          QuantizedRange ranges[2];
          bool known[2] = {};
          for (int64_t item : items) {
            const int64_t d = item / pieces, piece = item % pieces;
            if (!known[d]) ranges[d] = quantize(j, m, d, step, items.member());
            known[d] = true;
            multiply(j, m, d, step, ranges[d], items.member(), blocks_ * piece / pieces,
                     blocks_ * (piece + 1) / pieces);
          }
        });
  }
  std::string description() const override {
    return cat("LSTM steps with 8-bit weights", packed_ ? ", packed weights" : "");
  }

 private:
  static constexpr int64_t line = 64;
  static constexpr int64_t block_columns = block_roles * block_units;
  // Minimum number of 8-bit multiplications for which the cost of a barrier is negligible. If a step has fewer, threads
  // do not divide the hidden units; if all steps together have fewer, one thread runs them.
  static constexpr int64_t work_between_waits = 1 << 19;
  static constexpr int64_t pieces_of_units = 2;  // pieces of hidden units per thread
  static constexpr int64_t steps_of_piece = 16;

  struct Memory {
    const std::byte* panels;
    float* scales;  // indexed by direction, block, and role
    const int32_t* points;  // indexed by direction, block, and role; null if all zero points are 0
    std::byte* own;  // private memory of all threads
  };

  // Return the size of a packed panel: its elements, followed by the sum of each column.
  int64_t panel_bytes() const { return block_units * (steps_ * byte_group + static_cast<int64_t>(sizeof(int32_t))); }
  // Return the size of one thread's private memory: the quantized rows of all directions, and one term per row.
  int64_t own_bytes() const { return job_.directions * job_.batch * (stride_ + line); }
  uint8_t* own_rows(const Memory& m, int64_t member, int64_t d) const {
    return reinterpret_cast<uint8_t*>(m.own + member * own_bytes() + d * job_.batch * stride_);
  }
  int32_t* own_terms(const Memory& m, int64_t member, int64_t d) const {
    std::byte* behind = m.own + member * own_bytes() + job_.directions * job_.batch * stride_;
    return reinterpret_cast<int32_t*>(behind) + d * job_.batch;
  }

  void pack_all(const uint8_t* weights, std::byte* to) const {
    const int64_t panels = job_.directions * blocks_ * block_roles;
    parallel_for(panels, grain_for(panel_bytes()), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t role = i % block_roles, unit = i / block_roles % blocks_ * block_units;
        const uint8_t* matrix = weights + i / block_roles / blocks_ * job_.hidden * block_roles * job_.hidden;
        pack(matrix + job_.places[role] * job_.hidden + unit, std::min<int64_t>(block_units, job_.hidden - unit),
             to + i * panel_bytes());
      }
    });
  }
  void pack(const uint8_t* from, int64_t width, std::byte* to) const {
    const uint8_t flipped = flip_ ? 0x80 : 0;
    auto* bytes = reinterpret_cast<uint8_t*>(to);
    int32_t sums[block_units] = {};
    std::memset(bytes, 0, static_cast<size_t>(block_units * steps_ * byte_group));
    for (int64_t k = 0; k < job_.hidden; ++k, from += block_roles * job_.hidden) {
      uint8_t* at = bytes + k / byte_group * block_units * byte_group + k % byte_group;
      for (int64_t c = 0; c < width; ++c) {
        const auto byte = static_cast<uint8_t>(from[c] ^ flipped);
        at[c * byte_group] = byte;
        sums[c] += static_cast<int8_t>(byte);
      }
    }
    std::memcpy(bytes + block_units * steps_ * byte_group, sums, sizeof sums);
  }

  // Arrange scales and zero points in panel order. Return the zero points, or null if all of them are zero.
  const int32_t* prepare_columns(const Frame& frame, float* scales) const {
    auto* points = reinterpret_cast<int32_t*>(scales + job_.directions * blocks_ * block_columns);
    int32_t any = 0;
    for (int64_t i = 0, d = 0; d < job_.directions; ++d)
      for (int64_t unit = 0; unit < blocks_ * block_units; unit += block_units)
        for (int role = 0; role < block_roles; ++role)
          for (int64_t c = 0; c < block_units; ++c, ++i) {
            const int64_t place = (d * block_roles + job_.places[role]) * job_.hidden + unit + c;
            const bool there = unit + c < job_.hidden;
            scales[i] = there ? frame.at<const float>(scales_)[place] : 0;
            points[i] = !there  ? 0
                        : flip_ ? frame.at<const uint8_t>(points_)[place] - 128
                                : frame.at<const int8_t>(points_)[place];
            any |= points[i];
          }
    return any ? points : nullptr;
  }

  // Process each direction on one thread, so that no thread has to wait for another.
  void run_directions(const RecurrentJob<float>& j, const Memory& m, int64_t work) const {
    const bool small = work * j.directions * j.steps < work_between_waits;
    const int64_t pieces = small ? 1 : j.directions, links = small ? 1 : std::max<int64_t>(1, j.steps / steps_of_piece);
    parallel_chains(pieces, links, [&](int64_t piece, int64_t link, int64_t member) {
      for (int64_t d = piece; d < j.directions; d += pieces)
        for (int64_t step = j.steps * link / links; step < j.steps * (link + 1) / links; ++step)
          multiply(j, m, d, step, quantize(j, m, d, step, member), member, 0, blocks_);
    });
  }

  QuantizedRange quantize(const RecurrentJob<float>& j, const Memory& m, int64_t d, int64_t step,
                          int64_t member) const {
    uint8_t* rows = own_rows(m, member, d);
    const QuantizedRange range = engine_.quantize(j.before(j.state, j.initial_state, d, step, 0), j.batch,
                                                  j.directions * j.hidden, j.hidden, rows, stride_);
    for (int64_t n = 0; m.points && n < j.batch; ++n) {
      int32_t sum = 0;
      for (int64_t i = 0; i < j.hidden; ++i) sum += rows[n * stride_ + i];
      own_terms(m, member, d)[n] = static_cast<int32_t>(j.hidden) * range.zero_point - sum;
    }
    return range;
  }

  // Multiply all rows of states by the weights of blocks [first, last) of hidden units.
  void multiply(const RecurrentJob<float>& j, const Memory& m, int64_t d, int64_t step, const QuantizedRange& range,
                int64_t member, int64_t first, int64_t last) const {
    const TilesInUse use(*tiles_);
    IntegerEpilogue whole;
    whole.result = IntegerResult::int32;
    alignas(line) int32_t sums[IntegerTiles::most_rows * block_columns];
    for (int64_t block = first; block < last; ++block) {
      const int64_t at = d * blocks_ + block;
      const std::byte* panels = m.panels + at * block_roles * panel_bytes();
      QuantizedBlock b{d, step, 0, block * block_units, range, m.scales + at * block_columns, {}, nullptr, nullptr};
      b.range.zero_point += tiles_->offset(false);
      for (int role = 0; role < block_roles; ++role)
        b.column_sums[role] = reinterpret_cast<const int32_t*>(panels + (role + 1) * panel_bytes()) - block_units;
      if (m.points) b.zero_points = m.points + at * block_columns;
      while (b.row < j.batch) {
        const int count = tiles_->next_rows(j.batch - b.row);
        const uint8_t* from[IntegerTiles::most_rows];
        std::byte* to[IntegerTiles::most_rows];
        for (int role = 0; role < block_roles; ++role) {
          const std::vector<TileRun>& runs = runs_[static_cast<size_t>(at * block_roles + role)];
          for (int r = 0; r < count; ++r) {
            from[r] = own_rows(m, member, d) + (b.row + r) * stride_;
            to[r] = reinterpret_cast<std::byte*>(sums + (r * block_roles + role) * block_units);
          }
          tiles_->multiply(count, from, false, runs.data(), static_cast<int64_t>(runs.size()),
                           reinterpret_cast<const int8_t*>(panels + role * panel_bytes()), to, block_units, whole);
        }
        b.row_terms = own_terms(m, member, d) + b.row;
        engine_.gates(j, b, count, sums);
        b.row += count;
      }
    }
  }

  RecurrentJob<float> job_{};
  const QuantizedLstmEngine& engine_;
  const IntegerTiles* tiles_ = nullptr;
  Slot source_, weights_, scales_, points_, initial_state_, initial_cell_, state_, cell_, panels_ = -1, columns_, own_;
  bool flip_;
  int64_t blocks_ = 0, steps_ = 0, stride_ = 0;
  PackedPtr packed_;
  std::vector<std::vector<TileRun>> runs_;  // tile runs, indexed by panel
};

std::unique_ptr<Kernel> lower_quantized_lstm(Lowering& lowering) {
  return std::make_unique<QuantizedLstmSequence>(lowering);
}

}  // namespace

const Kernels recurrent_integers_kernels("recurrent_integers",
                                         [] { define_kernel("quantized_lstm_sequence", lower_quantized_lstm); });

}  // namespace mpsgraph::cpu
