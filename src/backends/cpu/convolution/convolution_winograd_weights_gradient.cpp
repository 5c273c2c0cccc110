// Winograd gradient with respect to the weights.
//
// The tiles of all images are split into parts. For each part, a thread accumulates the products of the transformed
// operands, one block of tiles after another, and transforms the sums into taps, of which there are fewer. The taps of
// all parts are then added in order.
#include <algorithm>

#include "backends/cpu/convolution/convolution_winograd.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t gradient_block_elements = 1 << 18;  // transformed elements per block, next to the sums
constexpr int64_t cached_sums = 1 << 18;  // sums that fit in L2 next to a block
// Minimum and maximum number of tiles per block. If the sums do not fit in L2, blocks have the maximum size, so that
// the sums are read and written less often.
constexpr int64_t least_block = 12, most_block = 128;
constexpr int64_t parts_per_thread = 4;
constexpr int64_t least_part = 24;  // minimum tiles per part

class WinogradWeightsGradient final : public Kernel {
 public:
  WinogradWeightsGradient(Lowering& lowering, WinogradPlan plan, TapWeights weights)
      : plan_(std::move(plan)),
        weights_(std::move(weights)),
        transforms_(*plan_.transforms),
        tiles_(*convolution_tiles<float, float>()),
        incoming_(lowering.input(0).slot),
        source_(lowering.input(1).slot),
        result_(lowering.output().slot),
        outside_(static_cast<size_t>(std::max(plan_.source.channels, plan_.result.channels))),
        inputs_(plan_.inputs()),
        panels_((plan_.result.channels + tiles_.columns - 1) / tiles_.columns),
        threads_(threads_for(plan_.products())) {
    const int64_t points = transforms_.all_points(), tiles = plan_.all_tiles();
    const int64_t row = points * (inputs_ + panels_ * tiles_.columns);
    sums_stride_ = panels_ * panel() + line;
    const bool far = points * sums_stride_ > cached_sums;
    const int64_t most = far ? most_block : std::clamp(gradient_block_elements / row, least_block, most_block);
    parts_ = std::clamp<int64_t>(tiles / std::min(most, least_part), 1,
                                 threads_ > 1 ? threads_ * (far ? 1 : parts_per_thread) : 1);
    const int64_t part = (tiles + parts_ - 1) / parts_, blocks = (part + most - 1) / most;
    block_ = (part + blocks - 1) / blocks;
    source_stride_ = block_ * inputs_ + line;
    incoming_stride_ = block_ * panels_ * tiles_.columns + line;
    blocks_ = floats(lowering, threads_ * points * (source_stride_ + incoming_stride_));
    sums_ = floats(lowering, threads_ * points * sums_stride_);
    taps_ = floats(lowering, parts_ * panels_ * of_panel());
  }

  void run(Frame& frame) const override {
    parallel_phases(threads_, {parts_, panels_ * all_taps()}, [&](int64_t phase, Items& items) {
      for (int64_t i : items)
        if (phase == 0)
          sum(frame, items.member(), i);
        else
          finish(frame, i / all_taps(), i % all_taps());
    });
  }
  std::string description() const override { return plan_.text(); }

 private:
  static constexpr int64_t line = 16;  // padding, so that points do not map to the same cache sets

  static Slot floats(Lowering& lowering, int64_t count) {
    return lowering.scratch(static_cast<size_t>(count) * sizeof(float));
  }
  int64_t panel() const { return inputs_ * tiles_.columns; }  // elements of a panel of sums
  int64_t all_taps() const { return static_cast<int64_t>(weights_.tap_offsets.size()); }
  int64_t of_tap() const { return plan_.source.channels * tiles_.columns; }
  int64_t of_panel() const { return all_taps() * of_tap(); }

  void sum(Frame& frame, int64_t member, int64_t part) const {
    const int64_t begin = plan_.all_tiles() * part / parts_, end = plan_.all_tiles() * (part + 1) / parts_;
    const int64_t points = transforms_.all_points();
    float* source = frame.at<float>(blocks_) + member * points * (source_stride_ + incoming_stride_);
    float* incoming = source + points * source_stride_;
    float* sums = frame.at<float>(sums_) + member * points * sums_stride_;
    if (plan_.result.channels % tiles_.columns) std::fill_n(incoming, points * incoming_stride_, 0.f);
    for (int64_t first = begin; first < end; first += block_) {
      const int64_t last = std::min(end, first + block_);
      take(frame, first, last, source, incoming);
      add(source, incoming, last - first, first == begin, sums);
    }
    transform(sums, frame.at<float>(taps_) + part * panels_ * of_panel());
  }

  void take(Frame& frame, int64_t begin, int64_t end, float* source, float* incoming) const {
    const WinogradSide &from = plan_.source, &to = plan_.result;
    const float* images = frame.at<const float>(source_);
    const float* gradients = frame.at<const float>(incoming_);
    plan_.for_each_tile(begin, end, [&](int64_t i, const WinogradTile& tile) {
      const float* at[most_winograd_points * most_winograd_points];
      for (int64_t phase = 0; phase < from.all_phases(); ++phase) {
        from.find(tile, phase, images, outside_.data(), at);
        transforms_.source(at, from.channels, source + i * inputs_ + phase * from.channels, source_stride_,
                           tiles_.columns);
      }
      to.find(tile, 0, gradients, outside_.data(), at);
      transforms_.incoming(at, to.channels, incoming + i * tiles_.columns, incoming_stride_, block_ * tiles_.columns);
    });
  }

  void add(const float* source, const float* incoming, int64_t tiles, bool fresh, float* sums) const {
    const float* rows[most_block];
    for (int point = 0; point < transforms_.all_points();
         ++point, source += source_stride_, incoming += incoming_stride_) {
      for (int64_t tile = 0; tile < tiles; ++tile) rows[tile] = source + tile * inputs_;
      for (int64_t p = 0; p < panels_; ++p)
        for (int64_t input = 0; input < inputs_;) {
          const int count = tiles_.next_rows(inputs_ - input);
          tiles_.multiply_transposed(count, rows, input, tiles, incoming + p * block_ * tiles_.columns,
                                     sums + point * sums_stride_ + p * panel() + input * tiles_.columns, fresh, nullptr,
                                     0);
          input += count;
        }
    }
  }

  // Transform sums, in the order [point][panel][input][column], into gradients of filter taps, in the order
  // [panel][tap][channel][column].
  void transform(const float* sums, float* taps) const {
    for (int64_t p = 0; p < panels_; ++p, taps += of_panel())
      for (int64_t phase = 0; phase < plan_.source.all_phases(); ++phase) {
        float* to[most_winograd_points * most_winograd_points];
        for (int i = 0; i < transforms_.taps; ++i)
          for (int j = 0; j < transforms_.taps; ++j)
            to[i * transforms_.taps + j] = taps + plan_.tap(phase, 0, i, j) * of_tap();
        transforms_.weights_gradient(sums + p * panel() + phase * of_tap(), sums_stride_, of_tap(), to, 0, {});
      }
  }

  void finish(Frame& frame, int64_t p, int64_t tap) const {
    float* taps = frame.at<float>(taps_) + p * of_panel() + tap * of_tap();
    for (int64_t part = 1; part < parts_; ++part)
      for (int64_t i = 0; i < of_tap(); ++i) taps[i] += taps[part * panels_ * of_panel() + i];
    const int64_t first = tap * weights_.inputs;
    weights_.unpack(tiles_, taps, p, first, first + weights_.inputs, frame.at<float>(result_));
  }

  WinogradPlan plan_;
  TapWeights weights_;
  const WinogradTransforms& transforms_;
  const ConvolutionTiles<float, float>& tiles_;
  Slot incoming_, source_, result_, blocks_ = -1, sums_ = -1, taps_ = -1;
  std::vector<float> outside_;  // zeros, read in place of pixels outside the image
  int64_t inputs_, panels_, block_ = 0, parts_ = 1, source_stride_ = 0, incoming_stride_ = 0, sums_stride_ = 0;
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> winograd_weights_gradient(Lowering& lowering, WinogradPlan plan, TapWeights weights) {
  return std::make_unique<WinogradWeightsGradient>(lowering, std::move(plan), std::move(weights));
}

}  // namespace mpsgraph::cpu
