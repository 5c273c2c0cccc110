// Kernels for the three operations of a convolution that run as one matmul per filter tap.
#pragma once

#include <algorithm>
#include <memory>
#include <type_traits>

#include "backends/cpu/convolution/convolution_tap_plan.h"
#include "backends/cpu/dispatch.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/product_epilogue.h"

namespace mpsgraph::cpu {

// Weights of a tap plan, viewed as a matrix [steps, outputs]. Each row (step) belongs to one input channel of one tap,
// and the rows of a tap are adjacent.
//
// If the channels are divided into groups, several groups may be computed as one matmul, so that they fill a vector.
// The matrix of a tap then consists of `diagonal` blocks along its diagonal, each the weights of a group, and zeros.
struct TapWeights {
  std::vector<int64_t> tap_offsets;  // element offsets of the taps, in the order in which panels store them
  int64_t inputs, outputs, input_stride, output_stride;
  int64_t diagonal = 1, group_stride = 0;  // number of blocks, and elements between the weights of two groups

  TapWeights(const ConvolutionPlan& p, const TapPlan& plan, bool of_data_gradient)
      : inputs(plan.inputs),
        outputs(plan.outputs),
        input_stride(p.weights.input_stride),
        output_stride(p.weights.output_stride) {
    for (int64_t tap : plan.taps) tap_offsets.push_back(p.tap_offset(tap));
    if (of_data_gradient) std::swap(input_stride, output_stride);
  }
  // The weights of a convolution with groups, of which `merged` at a time are computed as one matmul. `plan` is the
  // plan of all groups (TapPlan::repeated).
  TapWeights(const ConvolutionPlan& p, const TapPlan& plan, bool of_data_gradient, int64_t merged)
      : TapWeights(p, plan, of_data_gradient) {
    diagonal = merged, group_stride = p.weights.group_stride;
    for (size_t i = 0; i < plan.taps.size(); ++i)
      tap_offsets[i] = p.tap_offset(plan.taps[i] % p.taps()) + plan.taps[i] / p.taps() * merged * group_stride;
  }
  // The weights of a single tap.
  TapWeights(int64_t inputs, int64_t outputs, int64_t input_stride, int64_t output_stride)
      : tap_offsets{0}, inputs(inputs), outputs(outputs), input_stride(input_stride), output_stride(output_stride) {}
  std::string layout(int columns) const;
  int width(int columns, int64_t panel) const {
    return static_cast<int>(std::min<int64_t>(columns, outputs - panel * columns));
  }
  template <class S, class F>
  void pack(const ConvolutionTiles<S, F>& tiles, const S* weights, int64_t panel, F* to) const {
    const int64_t first = panel * tiles.columns;
    for (int64_t offset : tap_offsets) {
      if (diagonal > 1) {
        pack_diagonal(tiles.columns, weights + offset, first, to);
        to += inputs * tiles.columns;
        continue;
      }
      tiles.pack(weights + offset + first * output_stride, input_stride, output_stride, inputs,
                 width(tiles.columns, panel), to);
      to += inputs * tiles.columns;
    }
  }
  // Return how many cache lines of weights are read to pack one panel, or 0 if these weights are not contiguous.
  // ask_for() prefetches a range of these cache lines.
  template <class S>
  int64_t lines(int columns) const {
    constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(S));
    const auto taps = static_cast<int64_t>(tap_offsets.size());
    if (diagonal > 1) return 0;
    if (output_stride == 1) return taps * inputs * (columns / line);
    return input_stride == 1 ? taps * columns * ((inputs + line - 1) / line) : 0;
  }
  template <class S>
  void ask_for(const S* weights, int columns, int64_t panel, int64_t first, int64_t last) const {
    constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(S));
    const int64_t in_row = output_stride == 1 ? columns / line : (inputs + line - 1) / line,
                  rows = output_stride == 1 ? inputs : columns,
                  row_stride = output_stride == 1 ? input_stride : output_stride;
    const S* from = weights + panel * columns * output_stride;
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = i / in_row;
      __builtin_prefetch(from + tap_offsets[row / rows] + row % rows * row_stride + i % in_row * line);
    }
  }
  // Store rows [begin, end) of a panel of sums in the weight matrix.
  template <class S, class F>
  void unpack(const ConvolutionTiles<S, F>& tiles, const float* from, int64_t panel, int64_t begin, int64_t end,
              S* weights) const {
    const int64_t first = panel * tiles.columns;
    for (int64_t step = begin; step < end;) {
      const int64_t tap = step / inputs, input = step % inputs, count = std::min(end - step, inputs - input);
      if (diagonal > 1) {
        for (int64_t i = 0; i < count; ++i, from += tiles.columns)
          unpack_diagonal(tiles.columns, from, first, input + i, weights + tap_offsets[tap]);
        step += count;
        continue;
      }
      tiles.unpack(from, count, width(tiles.columns, panel),
                   weights + tap_offsets[tap] + input * input_stride + first * output_stride, input_stride,
                   output_stride);
      from += count * tiles.columns;
      step += count;
    }
  }

 private:
  // Write the rows of one tap to a panel whose first column is `first`.
  template <class S, class F>
  void pack_diagonal(int64_t columns, const S* weights, int64_t first, F* to) const {
    std::fill_n(to, inputs * columns, F(0.f));
    const int64_t in = inputs / diagonal, out = outputs / diagonal;
    for (int64_t input = 0; input < inputs; ++input) {
      const S* from = weights + input / in * group_stride + input % in * input_stride;
      const int64_t column = input / in * out - first;
      for (int64_t o = std::max<int64_t>(0, -column); o < out && column + o < columns; ++o)
        to[input * columns + column + o] = F(static_cast<float>(from[o * output_stride]));
    }
  }
  // Store one row of a panel, the sums of an input channel, in the weights of a tap.
  template <class S>
  void unpack_diagonal(int64_t columns, const float* from, int64_t first, int64_t input, S* weights) const {
    const int64_t in = inputs / diagonal, out = outputs / diagonal, column = input / in * out - first;
    S* to = weights + input / in * group_stride + input % in * input_stride;
    for (int64_t o = std::max<int64_t>(0, -column); o < out && column + o < columns; ++o)
      to[o * output_stride] = S(from[column + o]);
  }
};

// Return the tiles for weights. Groups with few channels use tiles with few columns, because most of the products of
// wide tiles would be products with zeros. `of_product` means that the weights are an operand, not a gradient.
template <class S, class F>
const ConvolutionTiles<S, F>& tiles_for(const TapWeights& weights, bool of_product) {
  if constexpr (std::is_same_v<S, float>)
    if (weights.group_stride > 0 && weights.outputs <= narrow_convolution_tiles()->columns)
      return of_product && weights.outputs <= narrow_convolution_tiles()->columns / 2 ? one_vector_tiles()
                                                                                      : *narrow_convolution_tiles();
  return *convolution_tiles<S, F>();
}

// Return how many threads to use for a matmul with this many multiply-adds.
int threads_for(int64_t products);

// Return a description of the plan for listings, such as "one matmul per tap, 9 taps, 9 classes of pixels".
std::string text_of(const TapPlan& plan);

// The source operand of the micro-kernels: the source itself if elements (S) are multiplied in their own type, or a
// copy that the threads widen to float (F).
template <class S, class F>
class TapSource {
 public:
  TapSource(Lowering& lowering, Slot slot, int64_t elements) : slot_(slot), elements_(elements) {
    if (copies) copy_ = lowering.scratch(static_cast<size_t>(elements) * sizeof(F));
  }
  static constexpr bool copies = !std::is_same_v<S, F>;
  static constexpr int64_t piece = 16384;

  int64_t pieces() const { return copies ? (elements_ + piece - 1) / piece : 0; }
  void copy(Frame& frame, const ConvolutionTiles<S, F>& tiles, int64_t which) const {
    const int64_t begin = which * piece;
    if constexpr (copies)
      tiles.widen(frame.at<const S>(slot_) + begin, std::min(piece, elements_ - begin), frame.at<F>(copy_) + begin);
  }
  const F* factors(const Frame& frame) const { return frame.at<const F>(copies ? copy_ : slot_); }

 private:
  Slot slot_, copy_ = -1;
  int64_t elements_;
};

// Call f(element, factor), whose arguments are tags of the element type and of the type in which elements are
// multiplied. For bfloat16, the type of the factors depends on the processor and on `waits_for_weights`, which means
// that the matmul has so few rows that it is bound by reading the weights.
bool multiplies_pairs(bool waits_for_weights);
template <class F>
std::unique_ptr<Kernel> with_factors(DType dtype, bool waits_for_weights, const F& f) {
  if (dtype == DType::float32) return f(Type<float>{}, Type<float>{});
  return multiplies_pairs(waits_for_weights) ? f(Type<BFloat16>{}, Type<BFloat16>{})
                                             : f(Type<BFloat16>{}, Type<float>{});
}

// Build the forward kernel: result = source (operand 0) x weights (operand 1), in float32 or bfloat16.
std::unique_ptr<Kernel> tap_product(Lowering& lowering, DType dtype, TapPlan plan, TapWeights weights,
                                    const ProductEpilogue& extras);

// Build the float32 input gradient for a source with few channels: incoming gradient (operand 0) x weights (operand 1),
// accumulated tap by tap.
std::unique_ptr<Kernel> tap_scatter(Lowering& lowering, const ConvolutionPlan& plan, int threads);
// Return whether windows do not overlap, so that each source pixel belongs to one window and nothing is accumulated, as
// in a decoder layer that doubles the image size.
bool windows_lie_apart(const ConvolutionPlan& plan);

// Build the weight gradient: source (operand 1) transposed x incoming gradient (operand 0). `complete` means that every
// tap reads at least one source pixel. If not, the gradient of the taps that read no source pixel is set to zero.
std::unique_ptr<Kernel> tap_weights_gradient(Lowering& lowering, DType dtype, TapPlan plan, TapWeights weights,
                                             bool complete);

}  // namespace mpsgraph::cpu
