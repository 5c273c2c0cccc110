// Convolutions of 8-bit integers with a fused epilogue, as created by the compiler pass `quantize`.
//
// The weights must be constant and are packed once. The int32 sums are exact; each is scaled in float32 and rounded
// once.
#include "backends/cpu/convolution/convolution_integers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/amx.h"
#include "backends/cpu/convolution/convolution_taps.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t cached_bytes = 1 << 19;  // bytes of weights that fit in L2 next to source rows
constexpr int columns = IntegerTiles::columns, group = IntegerTiles::group;

}  // namespace

const IntegerTiles* integer_tiles() {
#if defined(__x86_64__)
  static const bool there = instruction_set() == "AVX-512" && __builtin_cpu_supports("avx512vnni");
  if (there)
    return wanted("amx").value_or(true) && has_amx() ? &amx_int8::integer_tiles() : &avx512_vnni::integer_tiles();
#elif defined(__aarch64__)
  if (instruction_set() == "NEON-bf16") return &neon_bf16::integer_tiles();
  if (instruction_set() == "NEON-dotprod") return &neon_dotprod::integer_tiles();
#endif
  return nullptr;
}

const IntegerTiles* integer_sum_tiles([[maybe_unused]] bool few_rows) {
#if defined(__x86_64__)
  if (const IntegerTiles* tiles = integer_tiles()) return few_rows ? &avx512_vnni::integer_tiles() : tiles;
  if (instruction_set() != "baseline") return &avx2::integer_tiles();
#endif
  return integer_tiles();
}

namespace {

// Return whether the weights of one step are narrow, that is, so small that 16-bit sums of two products do not overflow
// (see TileRun). Checking all weights without branches is faster than returning early.
bool is_narrow(const int8_t* step) {
  constexpr int most = 128;
  int wide = 0;
  for (int i = 0; i < columns * group; i += 2) wide |= most - std::abs(int{step[i]}) - std::abs(int{step[i + 1]});
  return wide >= 0;
}

}  // namespace

std::vector<TileRun> runs_of_panel(const IntegerTiles& tiles, const int8_t* panel, int64_t steps) {
  if (!tiles.wants_narrow) return {{0, 0, steps}};
  std::vector<TileRun> runs;
  int64_t wide = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const bool narrow = is_narrow(panel + step * columns * group);
    if (runs.empty() || runs.back().narrow != narrow) runs.push_back({step * group, step, 0, narrow});
    ++runs.back().steps;
    wide += !narrow;
  }
  // If more than this fraction of the steps is wide (not narrow), one run that treats all steps as wide is faster than
  // alternating between short narrow and wide runs.
  constexpr double most_wide = 0.35;
  if (static_cast<double>(wide) > most_wide * static_cast<double>(steps)) return {{0, 0, steps}};
  return runs;
}

namespace {

// Pack the weights of one panel in the order [step][columns][group], where a step consists of `group` input channels of
// one tap. Columns after the last output channel are zero.
void pack(const ConvolutionPlan& p, const TapPlan& plan, const int8_t* weights, int64_t panel, int8_t* to) {
  const int64_t first = panel * columns, width = std::min<int64_t>(columns, plan.outputs - first);
  for (int64_t tap : plan.taps) {
    const int8_t* from = weights + p.tap_offset(tap) + first * p.weights.output_stride;
    for (int64_t i = 0; i < plan.inputs; i += group, to += columns * group)
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t k = 0; k < group; ++k)
          to[c * group + k] =
              c < width ? from[(i + k) * p.weights.input_stride + c * p.weights.output_stride] : int8_t{0};
  }
}

class IntegerProduct final : public Kernel {
 public:
  IntegerProduct(Lowering& lowering, const ConvolutionPlan& p)
      : plan_(TapPlan::forward(p)),
        tiles_(*integer_tiles()),
        source_(lowering.input(0).slot),
        result_(lowering.output().slot),
        element_(size_of(lowering.output().dtype)),
        is_signed_(lowering.input(0).dtype == DType::int8) {
    panels_ = (plan_.outputs + columns - 1) / columns;
    panel_ = plan_.steps() * columns;
    threads_ = static_cast<int>(std::clamp<int64_t>(plan_.products() / 500000, 1, thread_count()));
    prepack(lowering, p);
    for (TapPlan::Class& c : plan_.classes)
      for (TileRun& run : c.runs) run.panel /= group, run.steps /= group;
    prepare_epilogue(lowering);
    // With fewer panels than threads, or with weights that fit in cache and enough rows, the threads divide the rows,
    // and each thread reads all weights. Otherwise, the threads divide the weights.
    together_ = panels_ < threads_ || (panels_ * panel_ <= cached_bytes && plan_.rows() >= 2 * threads_ * tiles_.rows);
  }

  void run(Frame& frame) const override {
    // Divide the work into one part per thread, so that each thread reads the same weights in every run.
    parallel_phases(threads_, {threads_}, [&](int64_t, Items& parts) {
      const TilesInUse use(tiles_);
      for (int64_t part : parts) {
        if (together_) {
          multiply(frame, part, threads_, 0, panels_);
          continue;
        }
        const int64_t end = panels_ * (part + 1) / threads_, most = std::max<int64_t>(1, cached_bytes / panel_);
        for (int64_t p = panels_ * part / threads_, next = 0; p < end; p = next) {
          next = std::min(end, p + most);
          multiply(frame, 0, 1, p, next);
        }
      }
    });
  }
  std::string description() const override {
    return cat("8-bit integers, one matmul per tap, ", plan_.taps.size(), " taps, ", plan_.classes.size(),
               " classes of pixels", tiles_.begin ? ", with AMX" : "", ", packed weights");
  }

 private:
  void prepack(Lowering& lowering, const ConvolutionPlan& p) {
    const ConstantWeights constant = lowering.constant(1);
    std::string layout = cat("integer panels: ", plan_.inputs, " ", plan_.outputs, " ", p.weights.input_stride, " ",
                             p.weights.output_stride);
    for (int64_t tap : plan_.taps) layout += cat(" ", p.tap_offset(tap));
    const TapPlan& plan = plan_;
    packed_ = prepacked(constant, layout, static_cast<size_t>(panels_ * panel_),
                        [&](const std::byte* elements, std::byte* to) {
                          const auto* from = reinterpret_cast<const int8_t*>(elements);
                          parallel_for(panels_, 1, [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i)
                              pack(p, plan, from, i, reinterpret_cast<int8_t*>(to) + i * panel_);
                          });
                        });
  }

  // Compute the scale factors and the bias of the epilogue in units of the result's scale, and the initial values of
  // the sums, which compensate for zero points. These initial values differ between the classes of pixels (pixels of a
  // class see the same taps).
  void prepare_epilogue(Lowering& lowering) {
    const Attributes& a = lowering.attributes();
    const DType dtype = a.dtype("dtype");
    const double unit = dtype == DType::float32 ? 1 : a.real("result_scale");
    const bool has_residual = a.boolean("has_residual");
    const ConstantPtr& weights_scale = a.data("weights_scale");
    const double residual_scale = has_residual ? a.real("residual_scale") / unit : 0;
    const double residual_zero = has_residual ? static_cast<double>(a.integer("residual_zero_point")) : 0;
    scale_.assign(static_cast<size_t>(panels_ * columns), 0);
    bias_ = scale_;
    for (int64_t c = 0; c < plan_.outputs; ++c) {
      scale_[c] = static_cast<float>(a.real("source_scale") *
                                     weights_scale->scalar(weights_scale->elements() == 1 ? 0 : c) / unit);
      bias_[c] = static_cast<float>(a.data("bias")->scalar(c) / unit - residual_zero * residual_scale);
    }
    epilogue_.relu = a.string("activation") == "relu";
    epilogue_.zero_point = static_cast<int32_t>(a.integer("result_zero_point"));
    epilogue_.residual_scale = static_cast<float>(residual_scale);
    epilogue_.result = dtype == DType::float32 ? IntegerResult::float32
                       : dtype == DType::int8  ? IntegerResult::int8
                                               : IntegerResult::uint8;
    if (has_residual) {
      residual_ = lowering.input(2).slot;
      epilogue_.has_residual = true;
      epilogue_.residual_is_signed = lowering.input(2).dtype == DType::int8;
      lowering.may_share(0, 2);
    }
    const auto shift = static_cast<int32_t>(a.integer("source_zero_point")) + tiles_.offset(is_signed_);
    if (shift == 0) return;
    for (const TapPlan::Class& c : plan_.classes) {
      std::vector<int32_t>& start = starts_.emplace_back(static_cast<size_t>(panels_ * columns), 0);
      for (int64_t i = 0; i < panels_; ++i) add_weights(c, i, start.data() + i * columns);
      for (int32_t& sum : start) sum *= -shift;
    }
  }
  void add_weights(const TapPlan::Class& c, int64_t panel, int32_t* sums) const {
    const auto* weights = reinterpret_cast<const int8_t*>(packed_.get()) + panel * panel_;
    for (const TileRun& run : c.runs) {
      const int8_t* from = weights + run.panel * columns * group;
      for (int64_t s = 0; s < run.steps; ++s, from += columns * group)
        for (int64_t i = 0; i < columns * group; ++i) sums[i / group] += from[i];
    }
  }

  // Divide the rows into `shares` equal parts, and multiply part number `share` by panels [first, last).
  void multiply(Frame& frame, int64_t share, int64_t shares, int64_t first, int64_t last) const {
    const auto* source = frame.at<const uint8_t>(source_);
    auto* result = frame.at<std::byte>(result_);
    const auto* panels = reinterpret_cast<const int8_t*>(packed_.get());
    IntegerEpilogue epilogue = epilogue_;
    if (epilogue.has_residual) epilogue.residual = frame.at<std::byte>(residual_) - result;
    for (size_t k = 0; k < plan_.classes.size(); ++k) {
      const TapPlan::Class& c = plan_.classes[k];
      const int64_t rows = static_cast<int64_t>(c.pixels.size()) * plan_.images, end = rows * (share + 1) / shares;
      for (int64_t row = rows * share / shares; row < end;) {
        const int count = tiles_.next_rows(end - row);
        const uint8_t* from[IntegerTiles::most_rows];
        std::byte* to[IntegerTiles::most_rows];
        for_each_row(plan_, c, row, row + count, 1, [&](int64_t i, int64_t, int64_t a, int64_t b) {
          from[i] = source + a;
          to[i] = result + (b + first * columns) * static_cast<int64_t>(element_);
        });
        for (int64_t p = first; p < last; ++p) {
          const int64_t column = p * columns;
          epilogue.scale = scale_.data() + column;
          epilogue.bias = bias_.data() + column;
          epilogue.start = starts_.empty() ? nullptr : starts_[k].data() + column;
          tiles_.multiply(count, from, is_signed_, c.runs.data(), static_cast<int64_t>(c.runs.size()),
                          panels + p * panel_, to, static_cast<int>(std::min<int64_t>(columns, plan_.outputs - column)),
                          epilogue);
          for (int i = 0; i < count; ++i) to[i] += columns * element_;
        }
        row += count;
      }
    }
  }

  TapPlan plan_;
  const IntegerTiles& tiles_;
  Slot source_, result_, residual_ = -1;
  size_t element_;  // bytes per result element
  bool is_signed_, together_ = false;
  int64_t panels_, panel_;
  int threads_;
  PackedPtr packed_;
  std::vector<float> scale_, bias_;
  std::vector<std::vector<int32_t>> starts_;  // initial sums of each class of pixels; empty if all sums start at zero
  IntegerEpilogue epilogue_;
};

std::unique_ptr<Kernel> lower_integers(Lowering& lowering) {
  const ConvolutionPlan p(ops::Convolution(lowering.attributes()), lowering.input(0).dims, lowering.input(1).dims,
                          lowering.output().dims);
  if (!integer_tiles() || !lowering.constant(1))
    throw UnsupportedError(cat("[quantized_convolution2d] '", lowering.operation().name, "' requires ",
                               integer_tiles() ? "constant weights, got weights that are computed at run time"
                                               : "8-bit dot products (AVX-512 VNNI), which are not available",
                               "; disable the compiler pass 'quantize'", lowering.operation().where()));
  return std::make_unique<IntegerProduct>(lowering, p);
}

}  // namespace

bool multiplies_integers() { return integer_tiles(); }

const Kernels convolution_integers_kernels("convolution_integers",
                                           [] { define_kernel("quantized_convolution2d", lower_integers); });

}  // namespace mpsgraph::cpu
