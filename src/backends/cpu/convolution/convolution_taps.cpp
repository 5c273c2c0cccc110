// The kernels of the three operations. Which taps a pixel sees: convolution_tap_plan.h; inner loops: convolution_tiles.h.
//
// Weights are packed into panels of a tile's columns in each run, because training changes them in each. If all panels
// fit into the second-level cache together, every thread packs its share and then takes its rows through all of them;
// otherwise a thread takes all rows through one panel after the other. Where classes have few pixels, as in inference
// of one image, taps are taken one after the other instead, so that weights are read once. In bfloat16 a step is a
// pair: of channels, or, where pixels are summed over, of images.
#include "backends/cpu/convolution/convolution_taps.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"
#include "backends/cpu/stitched/tile_functions.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t cached_panels = 1 << 20;  // bytes that stay in a second-level cache beside the rows
constexpr int64_t block_rows = 192;  // of a weights gradient: a panel's and the pixels' rows in the first-level cache

}  // namespace

template <>
const ConvolutionTiles<float>* convolution_tiles() {
#if defined(__x86_64__)
  if (instruction_set() == "AVX-512") return &avx512::convolution_tiles();
  if (instruction_set() == "AVX2") return &avx2::convolution_tiles();
#endif
  return nullptr;
}

template <>
const ConvolutionTiles<BFloat16>* convolution_tiles() {
#if defined(__x86_64__)
  static const bool there = instruction_set() == "AVX-512" && __builtin_cpu_supports("avx512bf16");
  if (there) return &avx512_bf16::convolution_tiles();
#endif
  return nullptr;
}

bool runs_by_taps(const ConvolutionPlan& p, DType dtype) {
  if (p.groups != 1 || p.x.sc != 1 || p.y.sc != 1 || p.empty()) return false;
  if (dtype == DType::float32) return convolution_tiles<float>();
  return dtype == DType::bfloat16 && convolution_tiles<BFloat16>() && p.inputs % 2 == 0 && p.outputs % 2 == 0;
}

namespace {

// Weights as a matrix [steps, outputs] of a plan, by taps.
struct PackedWeights {
  std::vector<int64_t> tap_offsets;  // by panel order
  int64_t inputs, outputs, input_stride, output_stride;

  PackedWeights(const ConvolutionPlan& p, const TapPlan& plan, bool of_data_gradient)
      : inputs(plan.inputs),
        outputs(plan.outputs),
        input_stride(p.weights.input_stride),
        output_stride(p.weights.output_stride) {
    for (int64_t tap : plan.taps) tap_offsets.push_back(p.tap_offset(tap));
    if (of_data_gradient) std::swap(input_stride, output_stride);
  }
  std::string layout(int columns) const {
    std::string text = cat("panels of ", columns, ": ", inputs, " ", outputs, " ", input_stride, " ", output_stride);
    for (int64_t offset : tap_offsets) text += cat(" ", offset);
    return text;
  }
  template <class S>
  void pack(const ConvolutionTiles<S>& tiles, const S* weights, int64_t panel, S* to) const {
    const int64_t first = panel * tiles.columns;
    const int width = static_cast<int>(std::min<int64_t>(tiles.columns, outputs - first));
    for (int64_t offset : tap_offsets) {
      tiles.pack(weights + offset + first * output_stride, input_stride, output_stride, inputs, width, to);
      to += inputs * tiles.columns;
    }
  }
  template <class S>
  void unpack(const ConvolutionTiles<S>& tiles, const float* from, int64_t panel, S* weights) const {
    const int64_t first = panel * tiles.columns;
    const int width = static_cast<int>(std::min<int64_t>(tiles.columns, outputs - first));
    for (int64_t offset : tap_offsets) {
      tiles.unpack(from, inputs, width, weights + offset + first * output_stride, input_stride, output_stride);
      from += inputs * tiles.columns;
    }
  }
};

constexpr int64_t products_of_read = 8;  // in the time in which one weight comes from a far cache
constexpr int64_t least_inputs = 32;  // for which sums may be put away between taps

int threads_for(int64_t products) {
  return static_cast<int>(std::clamp<int64_t>(products / 200000, 1, thread_count()));
}

std::string text_of(const TapPlan& plan) {
  return cat("a product a tap, ", plan.taps.size(), " taps, ", plan.classes.size(), " classes of pixels");
}

// ---- forward, and the gradient with respect to the source ----

template <class S>
class TapProduct final : public Kernel {
 public:
  TapProduct(Lowering& lowering, TapPlan plan, PackedWeights weights)
      : plan_(std::move(plan)),
        weights_(std::move(weights)),
        tiles_(*convolution_tiles<S>()),
        source_(lowering.input(0).slot),
        weights_slot_(lowering.input(1).slot),
        result_(lowering.output().slot) {
    panels_ = (plan_.outputs + tiles_.columns - 1) / tiles_.columns;
    panel_ = plan_.steps() * tiles_.columns;
    threads_ = threads_for(std::max(plan_.products(), panels_ * panel_ * products_of_read));
    const auto bytes = static_cast<int64_t>(sizeof(S));
    const auto classes = static_cast<int64_t>(plan_.classes.size());
    const bool few = plan_.rows() < classes * tiles_.rows && plan_.inputs >= least_inputs;
    if (classes > 1 && few && panels_ >= threads_) take_tap_by_tap(lowering);
    together_ = by_tap_.empty() && (panels_ * panel_ * bytes <= cached_panels || panels_ < 2 * threads_);
    if (const ConstantPtr constant = constant_operand(lowering.operation(), 1))
      prepack(constant);
    else
      panels_slot_ = lowering.scratch(static_cast<size_t>((together_ ? panels_ : threads_) * panel_ * bytes));
    for (TapPlan::Class& c : plan_.classes)
      for (TileRun& run : c.runs) run.panel /= tiles_.group, run.steps /= tiles_.group;
  }
  void take_in(Slot bias, Slot residual, bool relu) { bias_ = bias, residual_ = residual, relu_ = relu; }

  void run(Frame& frame) const override {
    if (packed_) return run_packed(frame);
    const S* weights = frame.at<const S>(weights_slot_);
    S* panels = frame.at<S>(panels_slot_);
    parallel_team(threads_, [&](int64_t member, int64_t members, const auto& wait) {
      const int64_t begin = panels_ * member / members, end = panels_ * (member + 1) / members;
      if (together_) {
        for (int64_t p = begin; p < end; ++p) weights_.pack(tiles_, weights, p, panels + p * panel_);
        wait();
        multiply(frame, member, members, 0, panels_, panels);
        return;
      }
      for (int64_t p = begin; p < end; ++p) {
        weights_.pack(tiles_, weights, p, panels + member * panel_);
        multiply_all(frame, member, p, p + 1, panels + member * panel_);
      }
    });
  }
  std::string description() const override {
    return text_of(plan_) + (by_tap_.empty() ? "" : ", tap by tap") + (packed_ ? ", packed weights" : "");
  }

 private:
  void take_tap_by_tap(Lowering& lowering) {
    by_tap_ = plan_.by_tap();
    for (TapPlan::Tap& tap : by_tap_) tap.panel /= tiles_.group;
    for (const TapPlan::Class& c : plan_.classes)
      for_each_row(plan_, c, 0, static_cast<int64_t>(c.pixels.size()) * plan_.images, 1,
                   [&](int64_t, int64_t, int64_t, int64_t to) { to_.push_back(to); });
    sums_ = lowering.scratch(static_cast<size_t>(threads_ * plan_.rows() * tiles_.columns) * sizeof(float));
  }
  void prepack(const ConstantPtr& constant) {
    const auto bytes = static_cast<size_t>(panels_ * panel_) * sizeof(S);
    packed_ = prepacked(constant, weights_.layout(tiles_.columns), bytes, [&](std::byte* to) {
      const S* from = reinterpret_cast<const S*>(constant->bytes());
      parallel_for(panels_, grain_for(panel_ * 8), [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) weights_.pack(tiles_, from, p, reinterpret_cast<S*>(to) + p * panel_);
      });
    });
    // Few rows are not worth sharing: a thread reads its own weights only.
    if (panels_ >= threads_ && plan_.rows() < 2 * threads_ * tiles_.rows) together_ = false;
  }
  void run_packed(Frame& frame) const {
    const S* panels = reinterpret_cast<const S*>(packed_.get());
    parallel_team(threads_, [&](int64_t member, int64_t members, const auto&) {
      if (together_) return multiply(frame, member, members, 0, panels_, panels);
      // As many panels at a time as stay in a cache while all rows pass by.
      const auto bytes = panel_ * static_cast<int64_t>(sizeof(S));
      const int64_t end = panels_ * (member + 1) / members, most = std::max<int64_t>(1, cached_panels / 2 / bytes);
      for (int64_t p = panels_ * member / members, next = 0; p < end; p = next) {
        next = std::min(end, p + most);
        multiply_all(frame, member, p, next, panels + p * panel_);
      }
    });
  }

  void multiply_all(Frame& frame, int64_t member, int64_t first, int64_t last, const S* panels) const {
    if (by_tap_.empty()) return multiply(frame, 0, 1, first, last, panels);
    multiply_tap_by_tap(frame, member, first, last, panels);
  }

  // All rows times panels [first, last), tap after tap, with sums of a member's own.
  void multiply_tap_by_tap(Frame& frame, int64_t member, int64_t first, int64_t last, const S* panels) const {
    const S* source = frame.at<const S>(source_);
    S* result = frame.at<S>(result_);
    const auto rows = static_cast<int64_t>(to_.size());
    float* sums = frame.at<float>(sums_) + member * rows * tiles_.columns;
    TileEpilogue<S> epilogue = epilogue_of(frame);
    const S* bias = epilogue.bias;
    for (int64_t p = first; p < last; ++p, panels += panel_) {
      std::fill(sums, sums + rows * tiles_.columns, 0.f);
      for (const TapPlan::Tap& tap : by_tap_) {
        const auto end = static_cast<int64_t>(tap.rows.size());
        for (int64_t row = 0; row < end;) {
          const int count = next_tile(end - row);
          const S* from[ConvolutionTiles<S>::most_rows];
          float* to[ConvolutionTiles<S>::most_rows];
          for (int i = 0; i < count; ++i)
            from[i] = source + tap.from[row + i], to[i] = sums + tap.rows[row + i] * tiles_.columns;
          tiles_.add(count, from, plan_.inputs / tiles_.group, panels + tap.panel * tiles_.columns * tiles_.group, to);
          row += count;
        }
      }
      const int64_t column = p * tiles_.columns;
      const int width = static_cast<int>(std::min<int64_t>(tiles_.columns, plan_.outputs - column));
      if (bias) epilogue.bias = bias + column;
      for (int64_t row = 0; row < rows; ++row)
        tiles_.finish(sums + row * tiles_.columns, result + to_[row] + column, width, epilogue);
    }
  }

  TileEpilogue<S> epilogue_of(Frame& frame) const {
    TileEpilogue<S> epilogue;
    epilogue.relu = relu_;
    if (residual_ >= 0) epilogue.residual = frame.at<std::byte>(residual_) - frame.at<std::byte>(result_);
    if (bias_ >= 0) epilogue.bias = frame.at<const S>(bias_);
    return epilogue;
  }

  // Rows that are left are shared evenly by tiles.
  int next_tile(int64_t left) const {
    const int64_t tiles = (left + tiles_.rows - 1) / tiles_.rows;
    return static_cast<int>((left + tiles - 1) / tiles);
  }

  // A share of all rows times panels [first, last).
  void multiply(Frame& frame, int64_t share, int64_t shares, int64_t first, int64_t last, const S* panels) const {
    const S* source = frame.at<const S>(source_);
    S* result = frame.at<S>(result_);
    TileEpilogue<S> epilogue = epilogue_of(frame);
    const S* bias = epilogue.bias;
    for (const TapPlan::Class& c : plan_.classes) {
      const int64_t rows = static_cast<int64_t>(c.pixels.size()) * plan_.images;
      const int64_t end = rows * (share + 1) / shares;
      for (int64_t row = rows * share / shares; row < end;) {
        const int count = next_tile(end - row);
        const S* from[ConvolutionTiles<S>::most_rows];
        S* to[ConvolutionTiles<S>::most_rows];
        for_each_row(plan_, c, row, row + count, 1, [&](int64_t i, int64_t, int64_t a, int64_t b) {
          from[i] = source + a;
          to[i] = result + b + first * tiles_.columns;
        });
        for (int64_t p = first; p < last; ++p) {
          const int64_t column = p * tiles_.columns;
          const int width = static_cast<int>(std::min<int64_t>(tiles_.columns, plan_.outputs - column));
          if (bias) epilogue.bias = bias + column;
          tiles_.multiply(count, from, c.runs.data(), static_cast<int64_t>(c.runs.size()),
                          panels + (p - first) * panel_, to, width, epilogue);
          for (int i = 0; i < count; ++i) to[i] += tiles_.columns;
        }
        row += count;
      }
    }
  }

  TapPlan plan_;
  PackedWeights weights_;
  const ConvolutionTiles<S>& tiles_;
  Slot source_, weights_slot_, result_, panels_slot_ = -1, bias_ = -1, residual_ = -1;
  PackedPtr packed_;  // of weights that are a constant
  std::vector<TapPlan::Tap> by_tap_;  // empty: class by class
  std::vector<int64_t> to_;  // where each row's sum belongs
  Slot sums_ = -1;
  bool relu_ = false, together_;
  int64_t panels_, panel_;
  int threads_;
};

// ---- the gradient with respect to the weights ----

// Threads share the panels of the weights; if these are fewer, several sum the images of one, and their sums are added
// in order. The incoming gradient is brought into panels, whose steps are its pixels, in blocks. For bfloat16 pixels of
// two images make a step, and the source is copied so that such pairs lie beside one another.
template <class S>
class TapWeightsGradient final : public Kernel {
 public:
  TapWeightsGradient(Lowering& lowering, const ConvolutionPlan& p, TapPlan plan)
      : plan_(std::move(plan)),
        weights_(p, plan_, false),
        tiles_(*convolution_tiles<S>()),
        incoming_(lowering.input(0).slot),
        source_(lowering.input(1).slot),
        result_(lowering.output().slot),
        bytes_(lowering.output().bytes()) {
    complete_ = static_cast<int64_t>(plan_.taps.size()) == p.taps();
    steps_ = (plan_.images + group - 1) / group;
    panels_ = (plan_.outputs + tiles_.columns - 1) / tiles_.columns;
    panel_ = plan_.steps() * tiles_.columns;
    const int threads = threads_for(plan_.products());
    groups_ = std::min<int64_t>(panels_, threads);
    parts_ = std::clamp<int64_t>(threads / groups_, 1, steps_);
    const auto floats = static_cast<size_t>(groups_ * parts_ * panel_);
    const auto blocks = static_cast<size_t>(groups_ * parts_ * block_rows * tiles_.columns * group);
    sums_ = lowering.scratch(floats * sizeof(float));
    blocks_ = lowering.scratch(blocks * sizeof(S));
    if (group > 1) pairs_ = lowering.scratch(static_cast<size_t>(steps_ * plan_.from_image * group) * sizeof(S));
  }

  void run(Frame& frame) const override {
    if (!complete_) std::memset(frame.at<std::byte>(result_), 0, bytes_);
    parallel_team(static_cast<int>(groups_ * parts_), [&](int64_t member, int64_t members, const auto& wait) {
      if (group > 1) {
        pair_images(frame, steps_ * member / members, steps_ * (member + 1) / members);
        wait();
      }
      // With one member for each share, shares run at the same time; with fewer, one after the other.
      const int64_t most = (panels_ + groups_ - 1) / groups_;
      for (int64_t turn = 0; turn < most; ++turn) {
        for (int64_t share = member; share < groups_ * parts_; share += members)
          if (const int64_t panel = panel_of(share / parts_, turn); panel >= 0) sum(frame, panel, share);
        if (parts_ > 1) wait();
        for (int64_t share = member; share < groups_ * parts_; share += members)
          if (const int64_t panel = panel_of(share / parts_, turn); panel >= 0 && share % parts_ == 0)
            finish(frame, panel, share);
        if (parts_ > 1) wait();
      }
    });
  }
  std::string description() const override { return text_of(plan_); }

 private:
  static constexpr int64_t group = ConvolutionTiles<S>::group;

  int64_t panel_of(int64_t share, int64_t turn) const {
    const int64_t panel = panels_ * share / groups_ + turn;
    return panel < panels_ * (share + 1) / groups_ ? panel : -1;
  }

  void pair_images(Frame& frame, int64_t begin, int64_t end) const {
    const int64_t size = plan_.from_image;
    for (int64_t step = begin; step < end; ++step) {
      const S* from = frame.at<const S>(source_) + step * group * size;
      S* to = frame.at<S>(pairs_) + step * group * size;
      const bool both = (step + 1) * group <= plan_.images;
      for (int64_t i = 0; i < size; ++i) {
        to[2 * i] = from[i];
        to[2 * i + 1] = both ? from[size + i] : S(0.f);
      }
    }
  }

  void sum(Frame& frame, int64_t panel, int64_t share) const {
    const S *source = frame.at<const S>(group > 1 ? pairs_ : source_), *incoming = frame.at<const S>(incoming_);
    float* sums = frame.at<float>(sums_) + share * panel_;
    S* block = frame.at<S>(blocks_) + share * block_rows * tiles_.columns * group;
    std::fill(sums, sums + panel_, 0.f);
    const int64_t column = panel * tiles_.columns, part = share % parts_;
    const int width = static_cast<int>(std::min<int64_t>(tiles_.columns, plan_.outputs - column));
    const S* rows[block_rows];
    for (const TapPlan::Class& c : plan_.classes) {
      const auto pixels = static_cast<int64_t>(c.pixels.size());
      const int64_t end = steps_ * (part + 1) / parts_ * pixels;
      for (int64_t row = steps_ * part / parts_ * pixels; row < end; row += block_rows) {
        const int64_t count = std::min(block_rows, end - row);
        for_each_row(plan_, c, row, row + count, group, [&](int64_t i, int64_t image, int64_t a, int64_t b) {
          const int64_t images = image * plan_.from_image;  // the same place where images are paired
          rows[i] = source + images + (a - images) * group;
          tiles_.pack(incoming + b + column, plan_.to_image, 1, std::min(group, plan_.images - image), width,
                      block + i * tiles_.columns * group);
        });
        for (const TileRun& run : c.runs)
          for (int64_t i = 0; i < run.steps;) {
            const int64_t left = run.steps - i, tiles = (left + tiles_.rows - 1) / tiles_.rows;
            const int tile = static_cast<int>((left + tiles - 1) / tiles);
            tiles_.multiply_transposed(tile, rows, run.delta + i, count, block,
                                       sums + (run.panel + i) * tiles_.columns);
            i += tile;
          }
      }
    }
  }

  void finish(Frame& frame, int64_t panel, int64_t share) const {
    float* sums = frame.at<float>(sums_) + share * panel_;
    for (int64_t part = 1; part < parts_; ++part)
      for (int64_t i = 0; i < panel_; ++i) sums[i] += sums[part * panel_ + i];
    weights_.unpack(tiles_, sums, panel, frame.at<S>(result_));
  }

  TapPlan plan_;
  PackedWeights weights_;
  const ConvolutionTiles<S>& tiles_;
  Slot incoming_, source_, result_, sums_ = -1, blocks_ = -1, pairs_ = -1;
  size_t bytes_;
  bool complete_;
  int64_t steps_, panels_, panel_, groups_, parts_;  // steps: of images
};

// ---- lowering ----

// Those of the others: oneDNN's, or the patches.
std::map<std::string_view, Lower> others;

bool usable(const Lowering& lowering, const ConvolutionPlan& p, const Operand& weights) {
  return !lowering.reference_only() && !weights.layout && runs_by_taps(p, weights.dtype);
}

template <class F>
std::unique_ptr<Kernel> for_element(DType dtype, const F& f) {
  return dtype == DType::float32 ? f(Type<float>{}) : f(Type<BFloat16>{});
}

template <class S>
std::unique_ptr<Kernel> product(Lowering& lowering, const ConvolutionPlan& p, TapPlan plan, bool of_data_gradient) {
  PackedWeights weights(p, plan, of_data_gradient);
  auto kernel = std::make_unique<TapProduct<S>>(lowering, std::move(plan), std::move(weights));
  if (lowering.operation().is("fused_convolution2d")) {
    const Attributes& a = lowering.attributes();
    const bool bias = a.boolean("has_bias"), residual = a.boolean("has_residual");
    kernel->take_in(bias ? lowering.input(2).slot : -1, residual ? lowering.input(bias ? 3 : 2).slot : -1,
                    a.string("activation") == "relu");
  }
  return kernel;
}

std::unique_ptr<Kernel> lower_forward(Lowering& lowering) {
  const Operand source = lowering.input(0), weights = lowering.input(1), result = lowering.output();
  const ConvolutionPlan p(ops::Convolution(lowering.attributes()), source.dims, weights.dims, result.dims);
  if (!usable(lowering, p, weights)) return others.at(lowering.operation().kind())(lowering);
  return for_element(weights.dtype, [&](auto type) {
    return product<typename decltype(type)::type>(lowering, p, TapPlan::forward(p), false);
  });
}

std::unique_ptr<Kernel> lower_data_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), weights = lowering.input(1), result = lowering.output();
  const ConvolutionPlan p(ops::Convolution(lowering.attributes()), result.dims, weights.dims, incoming.dims);
  // A panel of a gradient with few channels would be mostly empty.
  if (!usable(lowering, p, weights) || p.inputs < 8) return others.at(lowering.operation().kind())(lowering);
  return for_element(weights.dtype, [&](auto type) {
    return product<typename decltype(type)::type>(lowering, p, TapPlan::data_gradient(p), true);
  });
}

std::unique_ptr<Kernel> lower_weights_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), source = lowering.input(1), result = lowering.output();
  const ConvolutionPlan p(ops::Convolution(lowering.attributes()), source.dims, result.dims, incoming.dims);
  if (!usable(lowering, p, result)) return others.at(lowering.operation().kind())(lowering);
  return for_element(result.dtype, [&](auto type) -> std::unique_ptr<Kernel> {
    return std::make_unique<TapWeightsGradient<typename decltype(type)::type>>(lowering, p, TapPlan::forward(p));
  });
}

}  // namespace

void register_convolution_taps() {
  const auto put_in_front = [](std::string_view kind, Lower lower) {
    others[kind] = find_kernel(kind);
    define_kernel(kind, lower);
  };
  for (const ConvolutionKinds& kinds : convolution_kinds) {
    put_in_front(kinds.forward, lower_forward);
    put_in_front(kinds.data_gradient, lower_data_gradient);
    put_in_front(kinds.weights_gradient, lower_weights_gradient);
  }
  put_in_front("fused_convolution2d", lower_forward);
}

}  // namespace mpsgraph::cpu
