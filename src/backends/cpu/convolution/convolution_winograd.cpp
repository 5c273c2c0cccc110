// Winograd convolution: the convolution itself and its gradient with respect to the input.
//
// On every run, the threads first transform the weights, unless these are constant, and then process blocks of tiles.
// For each block, the threads transform the source into points, multiply each point by the corresponding weights in a
// matmul, and transform the sums into results, all within L2.
//
// The transforms round. If all taps of a result read zeros while other pixels of its tile are nonzero, the result would
// be only approximately zero, and the gradient of a ReLU that follows would treat it as active. Such results are set to
// exactly zero.
#include <algorithm>

#include "backends/cpu/convolution/convolution_winograd.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t block_elements = 1 << 18;  // elements per block: transformed source and sums
constexpr int64_t cached_weights = 1 << 18;  // transformed weights that fit in L2 next to a block
constexpr int64_t least_rows = 4;  // minimum GEMM row tiles per block if weights come from an outer cache
constexpr int64_t chunk = 16;  // input channels whose weights are transformed together

class WinogradProduct final : public Kernel {
 public:
  WinogradProduct(Lowering& lowering, WinogradPlan plan, TapWeights weights, const ProductEpilogue& extras)
      : plan_(std::move(plan)),
        weights_(std::move(weights)),
        transforms_(*plan_.transforms),
        tiles_(*convolution_tiles<float, float>()),
        source_(lowering.input(0).slot),
        weights_slot_(lowering.input(1).slot),
        result_(lowering.output().slot),
        extras_(extras),
        outside_(static_cast<size_t>(plan_.source.channels)),
        inputs_(plan_.inputs()),
        phase_panels_((plan_.result.channels + tiles_.columns - 1) / tiles_.columns),
        panels_(plan_.result.all_phases() * phase_panels_),
        outputs_(panels_ * tiles_.columns),
        chunks_((plan_.source.channels + chunk - 1) / chunk),
        threads_(threads_for(plan_.products())) {
    const int64_t points = transforms_.all_points();
    weights_stride_ = panels_ * panel() + line;
    const int64_t least = points * weights_stride_ > cached_weights ? least_rows : 1;
    const int64_t most = std::max(block_elements / (points * (inputs_ + outputs_)) / tiles_.rows, least) * tiles_.rows;
    const int64_t wanted = threads_ > 1 ? threads_ * items_per_thread : 1, tiles = plan_.all_tiles();
    blocks_ = std::max((tiles + most - 1) / most, std::min(wanted, tiles / (tiles_.rows * least)));
    largest_ = (tiles + blocks_ - 1) / blocks_;
    source_stride_ = largest_ * inputs_ + line;
    sums_stride_ = largest_ * outputs_ + line;
    of_block_ = points * (source_stride_ + sums_stride_);
    block_ = floats(lowering, threads_ * of_block_);
    of_zeros_ = lowering.scratch(static_cast<size_t>(threads_ * largest_) * sizeof(uint32_t));
    for (int i = 0; i < transforms_.taps; ++i)
      window_ |= ((uint64_t{1} << transforms_.taps) - 1) << (i * transforms_.points());
    if (const ConstantWeights constant = lowering.constant(1)) {
      prepack(constant);
    } else {
      packed_slot_ = floats(lowering, points * weights_stride_);
      taps_ = floats(lowering, threads_ * of_chunk());
    }
  }

  void run(Frame& frame) const override {
    const float* packed = reinterpret_cast<const float*>(constant_.get());
    parallel_phases(threads_, {constant_ ? 0 : weight_chunks(), blocks_}, [&](int64_t phase, Items& items) {
      if (phase == 0) {
        float* taps = frame.at<float>(taps_) + items.member() * of_chunk();
        for (int64_t i : items) pack(frame.at<const float>(weights_slot_), i, taps, frame.at<float>(packed_slot_));
        return;
      }
      const float* weights = constant_ ? packed : frame.at<const float>(packed_slot_);
      float* points = frame.at<float>(block_) + items.member() * of_block_;
      float* sums = points + transforms_.all_points() * source_stride_;
      uint32_t* of_zeros = frame.at<uint32_t>(of_zeros_) + items.member() * largest_;
      for (int64_t i : items) {
        const int64_t begin = plan_.all_tiles() * i / blocks_, end = plan_.all_tiles() * (i + 1) / blocks_;
        take_source(frame, begin, end, points, of_zeros);
        multiply(points, end - begin, weights, sums);
        give_result(frame, begin, end, sums, of_zeros);
      }
    });
  }
  std::string description() const override { return plan_.text() + (constant_ ? ", packed weights" : ""); }

 private:
  static constexpr int64_t line = 16;  // padding, so that points do not map to the same cache sets

  static Slot floats(Lowering& lowering, int64_t count) {
    return lowering.scratch(static_cast<size_t>(count) * sizeof(float));
  }
  int64_t panel() const { return inputs_ * tiles_.columns; }
  int64_t of_chunk() const { return static_cast<int64_t>(weights_.tap_offsets.size()) * chunk * tiles_.columns; }
  int64_t weight_chunks() const { return phase_panels_ * chunks_; }

  // Pack the weights between a range of inputs and one panel of outputs, for all phases: pack the taps into panels, and
  // then transform them into points in the order [point][panel][input][column].
  void pack(const float* weights, int64_t which, float* taps, float* to) const {
    const int64_t p = which / chunks_, first = which % chunks_ * chunk,
                  count = std::min(chunk, plan_.source.channels - first), column = p * tiles_.columns;
    const int width = weights_.width(tiles_.columns, p);
    const auto all = static_cast<int64_t>(weights_.tap_offsets.size());
    for (int64_t tap = 0; tap < all; ++tap)
      tiles_.pack(weights + weights_.tap_offsets[tap] + first * weights_.input_stride + column * weights_.output_stride,
                  weights_.input_stride, weights_.output_stride, count, width, taps + tap * chunk * tiles_.columns);
    const int64_t of_result = plan_.result.all_phases();
    for (int64_t i = 0; i < plan_.source.all_phases() * of_result; ++i) {
      const float* from[most_winograd_points * most_winograd_points];
      const int64_t source_phase = i / of_result, result_phase = i % of_result;
      for (int y = 0; y < transforms_.taps; ++y)
        for (int x = 0; x < transforms_.taps; ++x)
          from[y * transforms_.taps + x] = taps + plan_.tap(source_phase, result_phase, y, x) * chunk * tiles_.columns;
      const int64_t of_panel = result_phase * phase_panels_ + p;
      const int64_t input = source_phase * plan_.source.channels + first;
      transforms_.weights(from, count * tiles_.columns, to + of_panel * panel() + input * tiles_.columns,
                          weights_stride_, tiles_.columns);
    }
  }
  void prepack(const ConstantWeights& constant) {
    const auto bytes = static_cast<size_t>(transforms_.all_points() * weights_stride_) * sizeof(float);
    const std::string layout = cat(weights_.layout(tiles_.columns), ", ", plan_.text(), ", ", plan_.source.phases);
    constant_ = prepacked(constant, layout, bytes, [&](const std::byte* elements, std::byte* to) {
      parallel_for(weight_chunks(), 1, [&](int64_t begin, int64_t end) {
        std::vector<float> taps(static_cast<size_t>(of_chunk()));
        for (int64_t i = begin; i < end; ++i)
          pack(reinterpret_cast<const float*>(elements), i, taps.data(), reinterpret_cast<float*>(to));
      });
    });
  }

  void take_source(Frame& frame, int64_t begin, int64_t end, float* points, uint32_t* of_zeros) const {
    const WinogradSide& side = plan_.source;
    const float* images = frame.at<const float>(source_);
    const uint64_t all = (uint64_t{1} << transforms_.all_points()) - 1;
    plan_.for_each_tile(begin, end, [&](int64_t i, const WinogradTile& tile) {
      const float* at[most_winograd_points * most_winograd_points];
      uint64_t found = 0;  // bit mask of the nonzero pixels
      for (int64_t phase = 0; phase < side.all_phases(); ++phase) {
        side.find(tile, phase, images, outside_.data(), at);
        if (found != all) found |= transforms_.not_zero(at, outside_.data(), side.channels);
        transforms_.source(at, side.channels, points + i * inputs_ + phase * side.channels, source_stride_,
                           tiles_.columns);
      }
      of_zeros[i] = found == all ? 0 : results_of_zeros(found);
    });
  }
  // Return a bit mask of the tile's results, where a bit is set if all taps of that result read zeros; `found` is the
  // bit mask of nonzero pixels.
  uint32_t results_of_zeros(uint64_t found) const {
    uint32_t of_zeros = 0;
    const int size = transforms_.results, points = transforms_.points();
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < size; ++j)
        if (!(found & window_ << (i * points + j))) of_zeros |= uint32_t{1} << (i * size + j);
    return of_zeros;
  }

  void multiply(const float* points, int64_t tiles, const float* weights, float* sums) const {
    const TileRun run{0, 0, inputs_};
    for (int point = 0; point < transforms_.all_points(); ++point)
      for (int64_t p = 0; p < panels_; ++p)
        for (int64_t tile = 0; tile < tiles;) {
          const int count = tiles_.next_rows(tiles - tile);
          const float* from[ConvolutionTiles<float, float>::most_rows];
          float* to[ConvolutionTiles<float, float>::most_rows];
          for (int i = 0; i < count; ++i) {
            from[i] = points + point * source_stride_ + (tile + i) * inputs_;
            to[i] = sums + point * sums_stride_ + (tile + i) * outputs_ + p * tiles_.columns;
          }
          tiles_.multiply(count, from, &run, 1, weights + point * weights_stride_ + p * panel(), to, tiles_.columns,
                          {});
          tile += count;
        }
  }

  void give_result(Frame& frame, int64_t begin, int64_t end, const float* sums, const uint32_t* of_zeros) const {
    const WinogradSide& side = plan_.result;
    float* images = frame.at<float>(result_);
    TileEpilogue<float> epilogue;
    epilogue.relu = extras_.relu;
    if (extras_.residual >= 0) epilogue.residual = frame.at<std::byte>(extras_.residual) - frame.at<std::byte>(result_);
    if (extras_.bias >= 0) epilogue.bias = frame.at<const float>(extras_.bias);
    plan_.for_each_tile(begin, end, [&](int64_t i, const WinogradTile& tile) {
      float* at[most_winograd_points * most_winograd_points];
      for (int64_t phase = 0; phase < side.all_phases(); ++phase) {
        side.find(tile, phase, images, static_cast<float*>(nullptr), at);
        transforms_.result(sums + i * outputs_ + phase * phase_panels_ * tiles_.columns, sums_stride_, side.channels,
                           at, of_zeros[i], epilogue);
      }
    });
  }

  WinogradPlan plan_;
  TapWeights weights_;
  const WinogradTransforms& transforms_;
  const ConvolutionTiles<float, float>& tiles_;
  Slot source_, weights_slot_, result_, block_ = -1, of_zeros_ = -1, packed_slot_ = -1, taps_ = -1;
  ProductEpilogue extras_;
  std::vector<float> outside_;  // zeros, read in place of pixels outside the image
  // inputs_ and outputs_ count the input and output channels of all phases, and panels_ counts the panels of all
  // phases. phase_panels_ is the number of panels of one phase.
  int64_t inputs_, phase_panels_, panels_, outputs_;
  uint64_t window_ = 0;  // bit mask of the tile's pixels that the first result reads
  int64_t chunks_, blocks_ = 1, largest_ = 1, weights_stride_ = 0, source_stride_ = 0, sums_stride_ = 0, of_block_ = 0;
  PackedPtr constant_;  // transformed constant weights
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> winograd_product(Lowering& lowering, WinogradPlan plan, TapWeights weights,
                                         const ProductEpilogue& extras) {
  return std::make_unique<WinogradProduct>(lowering, std::move(plan), std::move(weights), extras);
}

}  // namespace mpsgraph::cpu
