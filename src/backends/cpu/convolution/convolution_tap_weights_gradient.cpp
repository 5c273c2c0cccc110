// Gradient with respect to the weights of a convolution that runs as one matmul per filter tap.
//
// The weight rows of each panel of sums are divided into slices. If there are few slices, the images are also divided
// into parts, whose sums are added in order. Threads process these pieces of work one by one. The incoming gradient is
// packed in blocks into panels whose inner dimension is the pixel index. If bfloat16 is multiplied in pairs, a pair
// consists of the same pixel of two images, and the source is copied so that these pairs are contiguous.
#include <algorithm>
#include <cstring>

#include "backends/cpu/convolution/convolution_tap_kernels.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t block_rows = 128;  // pixels per block, so that the packed panel and the source pixels fit in L1
constexpr int64_t least_slice = 400;  // minimum weight rows per slice, for which the cost of packing is small
constexpr int64_t wanted_pieces = 4;  // pieces of work per thread

template <class S, class F>
class TapWeightsGradient final : public Kernel {
 public:
  TapWeightsGradient(Lowering& lowering, TapPlan plan, TapWeights weights, bool complete)
      : plan_(std::move(plan)),
        weights_(std::move(weights)),
        tiles_(tiles_for<S, F>(weights_, false)),
        incoming_(lowering.input(0).slot),
        source_(lowering, lowering.input(1).slot, plan_.images * plan_.from_image),
        source_slot_(lowering.input(1).slot),
        result_(lowering.output().slot),
        bytes_(lowering.output().bytes()),
        complete_(complete),
        image_steps_((plan_.images + group - 1) / group),
        threads_(threads_for(plan_.products())) {
    const int64_t panels = (plan_.outputs + tiles_.columns - 1) / tiles_.columns;
    const int64_t wanted = threads_ > 1 ? threads_ * wanted_pieces : 1;
    const int64_t slices = std::clamp<int64_t>(plan_.steps() / least_slice, 1, (wanted + panels - 1) / panels);
    parts_ = std::clamp<int64_t>(wanted / (panels * slices), 1, image_steps_);
    for (int64_t panel = 0; panel < panels; ++panel)
      for (int64_t slice = 0; slice < slices; ++slice)
        pieces_.push_back({panel, cut(slice, slices), cut(slice + 1, slices)});
    longest_ = 0;
    for (const Piece& piece : pieces_) longest_ = std::max(longest_, piece.end - piece.begin);
    // If the images form a single part, a thread stores the sums of each piece right away, so one buffer per thread is
    // enough. Otherwise, the sums of all pieces and parts are kept until they are added.
    const int64_t sums = parts_ > 1 ? static_cast<int64_t>(pieces_.size()) * parts_ : threads_;
    sums_ = lowering.scratch(static_cast<size_t>(sums * longest_ * tiles_.columns) * sizeof(float));
    blocks_ = lowering.scratch(static_cast<size_t>(threads_ * block_rows * tiles_.columns * group) * sizeof(F));
    if (group > 1) pairs_ = lowering.scratch(static_cast<size_t>(image_steps_ * plan_.from_image * group) * sizeof(S));
  }

  void run(Frame& frame) const override {
    if (!complete_)
      parallel_for(static_cast<int64_t>(bytes_), 1 << 17, [&](int64_t begin, int64_t end) {
        std::memset(frame.at<std::byte>(result_) + begin, 0, static_cast<size_t>(end - begin));
      });
    const auto pieces = static_cast<int64_t>(pieces_.size());
    const int64_t prepared = source_.pieces() + (group > 1 ? image_steps_ : 0);
    parallel_phases(threads_, {prepared, pieces * parts_, parts_ > 1 ? pieces : 0}, [&](int64_t phase, Items& items) {
      const TilesInUse use(tiles_);
      float* all = frame.at<float>(sums_);
      const int64_t most = longest_ * tiles_.columns;
      if (phase == 0)
        for (int64_t i : items) {
          if (i < source_.pieces())
            source_.copy(frame, tiles_, i);
          else
            pair_images(frame, i - source_.pieces());
        }
      if (phase == 1)
        for (int64_t i : items) {
          float* sums = all + (parts_ > 1 ? i : items.member()) * most;
          const bool done = sum(frame, pieces_[i / parts_], i % parts_, items.member(), sums);
          if (parts_ == 1 && !done) finish(frame, pieces_[i], sums);
        }
      if (phase == 2)
        for (int64_t i : items) {
          float* sums = all + i * parts_ * most;
          const int64_t count = (pieces_[i].end - pieces_[i].begin) * tiles_.columns;
          for (int64_t part = 1; part < parts_; ++part)
            for (int64_t k = 0; k < count; ++k) sums[k] += sums[part * most + k];
          finish(frame, pieces_[i], sums);
        }
    });
  }
  std::string description() const override {
    return text_of(plan_) + (source_.copies ? ", in float32" : "") + (tiles_.begin ? ", with AMX" : "");
  }

 private:
  static constexpr int64_t group = ConvolutionTiles<S, F>::group;

  // The unit of work: a range of the weight rows (input channels of taps) of one panel.
  struct Piece {
    int64_t panel, begin, end;
  };

  // Return the first weight row of a slice, rounded down to entire tiles and to the granularity of transposes.
  int64_t cut(int64_t slice, int64_t slices) const {
    constexpr int64_t whole = 48;
    return slice == slices ? plan_.steps() : plan_.steps() * slice / slices / whole * whole;
  }

  void pair_images(Frame& frame, int64_t step) const {
    const int64_t size = plan_.from_image;
    const S* from = frame.at<const S>(source_slot_) + step * group * size;
    S* to = frame.at<S>(pairs_) + step * group * size;
    const bool both = (step + 1) * group <= plan_.images;
    for (int64_t i = 0; i < size; ++i) {
      to[2 * i] = from[i];
      to[2 * i + 1] = both ? from[size + i] : S(0.f);
    }
  }

  // Compute the sums of a piece (a slice of the weight rows of one panel) over one part of the images. Return true if
  // the sums are already stored in the result; otherwise they are in `sums`.
  bool sum(Frame& frame, const Piece& piece, int64_t part, int64_t member, float* sums) const {
    const F* source = group > 1 ? frame.at<const F>(pairs_) : source_.factors(frame);
    const S* incoming = frame.at<const S>(incoming_);
    F* block = frame.at<F>(blocks_) + member * block_rows * tiles_.columns * group;
    // If all pixels see the same taps, each block of pixels contributes to all weight rows: the first block initializes
    // the sums, and the last one stores directly into the result.
    const bool at_once = plan_.classes.size() == 1;
    if (!at_once) std::fill(sums, sums + (piece.end - piece.begin) * tiles_.columns, 0.f);
    const int64_t column = piece.panel * tiles_.columns;
    const int width = weights_.width(tiles_.columns, piece.panel);
    const bool straight = at_once && parts_ == 1 && weights_.output_stride == 1 && width == tiles_.columns &&
                          weights_.inputs >= tiles_.rows;  // a tile must not span two taps
    const int64_t first_image = image_steps_ * part / parts_, last_image = image_steps_ * (part + 1) / parts_;
    const F* rows[block_rows];
    const S* gradients[block_rows];
    int valid[block_rows];
    for (const TapPlan::Class& c : plan_.classes) {
      if (std::none_of(c.runs.begin(), c.runs.end(), [&](const TileRun& run) {
            return run.panel < piece.end && piece.begin < run.panel + run.steps;
          }))
        continue;
      const auto pixels = static_cast<int64_t>(c.pixels.size());
      for (int64_t row = first_image * pixels, end = last_image * pixels; row < end; row += block_rows) {
        poll_run();
        const int64_t count = std::min(block_rows, end - row);
        for_each_row(plan_, c, row, row + count, group, [&](int64_t i, int64_t image, int64_t a, int64_t b) {
          // Offset of the image in the source. If the source is a copy that interleaves the pixels of pairs of images,
          // each pair begins at the offset of its first image.
          const int64_t images = image * plan_.from_image;
          rows[i] = source + images + (a - images) * group;
          gradients[i] = incoming + b + column;
          valid[i] = static_cast<int>(std::min(group, plan_.images - image));
        });
        tiles_.gather(gradients, valid, plan_.to_image, count, width, block);
        const bool fresh = at_once && row == first_image * pixels;
        S* result = straight && row + count == end ? frame.at<S>(result_) + column : nullptr;
        for (const TileRun& run : c.runs) {
          const int64_t last = std::min(run.steps, piece.end - run.panel);
          for (int64_t i = std::max<int64_t>(0, piece.begin - run.panel); i < last;) {
            const int64_t step = run.panel + i, tap = step / weights_.inputs, input = step % weights_.inputs;
            const int64_t left = std::min(last - i, result ? weights_.inputs - input : last - i);
            const int tile = tiles_.next_rows(left);
            S* out = result ? result + weights_.tap_offsets[tap] + input * weights_.input_stride : nullptr;
            tiles_.multiply_transposed(tile, rows, run.delta + i, count, block,
                                       sums + (step - piece.begin) * tiles_.columns, fresh, out, weights_.input_stride);
            i += tile;
          }
        }
      }
    }
    return straight;
  }

  void finish(Frame& frame, const Piece& piece, const float* sums) const {
    weights_.unpack(tiles_, sums, piece.panel, piece.begin, piece.end, frame.at<S>(result_));
  }

  TapPlan plan_;
  TapWeights weights_;
  const ConvolutionTiles<S, F>& tiles_;
  Slot incoming_;
  TapSource<S, F> source_;
  Slot source_slot_, result_, sums_ = -1, blocks_ = -1, pairs_ = -1;
  size_t bytes_;
  bool complete_;
  int64_t image_steps_, parts_, longest_;
  int threads_;
  std::vector<Piece> pieces_;
};

}  // namespace

std::unique_ptr<Kernel> tap_weights_gradient(Lowering& lowering, DType dtype, TapPlan plan, TapWeights weights,
                                             bool complete) {
  return with_factors(dtype, false, [&](auto element, auto factor) -> std::unique_ptr<Kernel> {
    using Made = TapWeightsGradient<typename decltype(element)::type, typename decltype(factor)::type>;
    return std::make_unique<Made>(lowering, std::move(plan), std::move(weights), complete);
  });
}

}  // namespace mpsgraph::cpu
