// Decides which convolutions use Winograd and with which tile size, and computes the offsets of the pixels of each
// tile.
#include <algorithm>

#include "backends/cpu/convolution/convolution_taps.h"
#include "backends/cpu/convolution/convolution_winograd.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {

const WinogradTransforms* winograd_transforms(int results, int taps) {
  const FindWinogradTransforms* find = find_winograd_transforms();
  return find ? (*find)(results, taps) : nullptr;
}

namespace {

constexpr int largest_tile = 4;
constexpr int64_t most_scratch = 1 << 26;  // maximum scratch elements of all threads together, 256 MB
constexpr int64_t cached_points = 1 << 18;  // transformed weights that fit in L2
constexpr double worth_it = 0.9;  // maximum time relative to per-tap matmuls; below 1 because Winograd is less accurate

// Computes, for one spatial axis, which pixels a tile reads and writes.
struct Axis {
  const ops::Window& window;
  bool of_data_gradient;

  int64_t phases() const { return window.stride; }
  int64_t taps() const { return window.kernel / window.stride; }
  // Index of the first result or, in the input gradient, of the first pixel u of a phase. Pixel u of phase q of the
  // source is source pixel u * stride + q - begin, and result o reads it through tap u - o of that phase. Tiles of the
  // input gradient run over u, so all phases have the same number of pixels.
  int64_t first() const { return of_data_gradient ? window.begin / window.stride : 0; }
  int64_t last() const {
    return of_data_gradient ? (window.input - 1 + window.begin) / window.stride : window.output - 1;
  }
  int64_t tiles(int64_t size) const { return (last() - first() + size) / size; }

  // Return the element offsets of pixels of the source or its gradient, indexed by [tile][phase][pixel]. The offset of
  // a pixel outside the image is -1.
  std::vector<int64_t> phased(int64_t size, int64_t count, int64_t step) const {
    std::vector<int64_t> found;
    for (int64_t tile = 0; tile < tiles(size); ++tile)
      for (int64_t phase = 0; phase < phases(); ++phase)
        for (int64_t i = 0; i < count; ++i) {
          // The input gradient uses the taps, and therefore the phases, in reverse order.
          const int64_t q = of_data_gradient ? phases() - 1 - phase : phase;
          const int64_t pixel = (first() + tile * size + i) * window.stride + q - window.begin;
          found.push_back(pixel >= 0 && pixel < window.input ? pixel * step : -1);
        }
    return found;
  }
  // Return the element offsets of pixels of the result or the incoming gradient, indexed by [tile][pixel]. The offset
  // of a pixel outside the image is -1.
  std::vector<int64_t> plain(int64_t size, int64_t count, int64_t step) const {
    std::vector<int64_t> found;
    for (int64_t tile = 0; tile < tiles(size); ++tile)
      for (int64_t i = 0; i < count; ++i) {
        const int64_t pixel = first() + tile * size + i - (of_data_gradient ? taps() - 1 : 0);
        found.push_back(pixel >= 0 && pixel < window.output ? pixel * step : -1);
      }
    return found;
  }
};

// Return the number of channels per vector. The transforms require multiples of this number of channels.
int64_t whole_channels() { return instruction_set() == "AVX-512" ? 16 : 8; }

bool in_tiles(const ConvolutionPlan& p) {
  const auto& [depth, rows, columns] = p.windows;
  return depth.stride == 1 && rows.kernel == columns.kernel && rows.stride == columns.stride && rows.dilation == 1 &&
         columns.dilation == 1 && rows.kernel % rows.stride == 0 && p.inputs % whole_channels() == 0 &&
         p.outputs % whole_channels() == 0;
}

// Return the offsets of the source slices that each result slice reads, in TapPlan order. The offset of a slice outside
// the image is -1. For the input gradient, the source is the incoming gradient, and the taps are in reverse order.
std::vector<int64_t> depth_slices(const ConvolutionPlan& p, bool of_data_gradient) {
  const ops::Window& depth = p.windows[0];
  const ConvolutionImage &from = of_data_gradient ? p.y : p.x, &to = of_data_gradient ? p.x : p.y;
  std::vector<int64_t> found;
  for (int64_t slice = 0; slice < to.size[0]; ++slice)
    for (int64_t i = 0; i < depth.kernel; ++i) {
      const int64_t z = of_data_gradient ? slice + depth.begin - (depth.kernel - 1 - i) * depth.dilation
                                         : slice - depth.begin + i * depth.dilation;
      found.push_back(z >= 0 && z < from.size[0] ? z * from.step[0] : -1);
    }
  return found;
}
std::vector<int64_t> all_slices(const ConvolutionImage& image) {
  std::vector<int64_t> found;
  for (int64_t slice = 0; slice < image.size[0]; ++slice) found.push_back(slice * image.step[0]);
  return found;
}

WinogradPlan make_plan(const ConvolutionPlan& p, const WinogradTransforms& transforms, bool of_data_gradient) {
  const std::array<Axis, 2> axes{Axis{p.windows[1], of_data_gradient}, Axis{p.windows[2], of_data_gradient}};
  const int64_t size = transforms.results, points = transforms.points(), phases = axes[0].phases();
  const int64_t slices = of_data_gradient ? p.x.size[0] : p.y.size[0];
  WinogradPlan plan{&transforms, p.x.n, slices,      {axes[0].tiles(size), axes[1].tiles(size)},
                    {},          {},    p.kernel[1], p.kernel[2]};
  WinogradSide phased{of_data_gradient ? size : points, phases, p.inputs, p.x.sn, 1, all_slices(p.x), {}};
  WinogradSide plain{of_data_gradient ? points : size, 1, p.outputs, p.y.sn, 1, all_slices(p.y), {}};
  for (int i = 0; i < 2; ++i) {
    phased.offsets[i] = axes[i].phased(size, phased.size, p.x.step[i + 1]);
    plain.offsets[i] = axes[i].plain(size, plain.size, p.y.step[i + 1]);
  }
  plan.source = of_data_gradient ? plain : phased;
  plan.result = of_data_gradient ? phased : plain;
  plan.source.depth_taps = p.kernel[0];
  plan.source.slices = depth_slices(p, of_data_gradient);
  return plan;
}

// Estimate the run time in units of a per-tap multiply-add. The constants were fitted to layers with 3 x 3 to 8 x 8
// taps and 16 to 512 channels. The transforms cost more per operation than a matmul because they do not use register
// blocking. If there are many transformed weights, writing and reading them through an outer cache adds to the cost.
double time_in_tiles(const WinogradPlan& plan) {
  const double t = plan.transforms->points(), m = plan.transforms->results;
  const auto inputs = static_cast<double>(plan.inputs()), outputs = static_cast<double>(plan.outputs()),
             tiles = static_cast<double>(plan.all_tiles());
  const double of_source = t * t * (1.5 * t + 4), of_result = 0.8 * (t * t + t * m) * m + 4 * t * t;
  const double of_point = plan.points_of_weights() > cached_points ? 50 : 12;
  const double rows = std::max(tiles, 12.);  // rows per GEMM tile; fewer rows leave registers unused
  return 1.1 * rows / tiles * static_cast<double>(plan.products()) +
         1.2 * tiles * (inputs * of_source + outputs * of_result) +
         of_point * static_cast<double>(plan.points_of_weights());
}
double time_by_taps(const TapPlan& taps, ConvolutionPart part) {
  return static_cast<double>(taps.products()) * (part == ConvolutionPart::weights_gradient ? 1.2 : 1);
}

// Return the maximum number of scratch elements that all threads together need for transformed weights, for blocks of
// tiles, and, in the weight gradient, for sums.
int64_t scratch(const WinogradPlan& plan, ConvolutionPart part) {
  // Maximum size of a block of tiles: cached_block elements if the transformed weights stay in cache, otherwise
  // far_block tiles.
  constexpr int64_t cached_block = 1 << 18, far_block = 128;
  const int64_t points = plan.points_of_weights();
  const int64_t block = points > cached_points
                            ? far_block * plan.transforms->all_points() * (plan.inputs() + plan.outputs())
                            : cached_block;
  return points + thread_count() * (block + (part == ConvolutionPart::weights_gradient ? points : 0));
}

}  // namespace

std::string WinogradPlan::text() const {
  const std::string depth = source.depth_taps > 1 ? cat(source.depth_taps, " x ") : "";
  return cat("tiles of ", transforms->results, " x ", transforms->results, " by Winograd, ", transforms->all_points(),
             " products for ", transforms->results * transforms->results, " of ", depth, transforms->taps, " x ",
             transforms->taps, " taps");
}

std::optional<WinogradPlan> winograd_plan(const ConvolutionPlan& p, const TapPlan& taps, ConvolutionPart part) {
  if (!in_tiles(p) || static_cast<int64_t>(taps.taps.size()) != p.taps()) return std::nullopt;
  std::optional<WinogradPlan> best;
  double least = worth_it * time_by_taps(taps, part);
  for (int size = 2; size <= largest_tile; ++size) {
    const auto* transforms = winograd_transforms(size, static_cast<int>(p.kernel[1] / p.windows[1].stride));
    if (!transforms) continue;
    WinogradPlan plan = make_plan(p, *transforms, part == ConvolutionPart::data_gradient);
    const double time = time_in_tiles(plan);
    if (time >= least || scratch(plan, part) > most_scratch) continue;
    least = time;
    best = std::move(plan);
  }
  return best;
}

}  // namespace mpsgraph::cpu
