// Convolution as one matmul per filter tap: the convolution itself and its gradient with respect to the input.
//
// Weights that are not constant are packed into panels on every run. If all panels fit in L2 together and there are
// many rows, the threads first pack all panels and then multiply blocks of rows by all of them. Otherwise, each thread
// multiplies all rows by one panel at a time. If few pixels see the same taps, as in single-image inference, the kernel
// instead processes one tap after another, each for all pixels that see it, so that weights are read only once.
#include <algorithm>

#include "backends/cpu/convolution/convolution_tap_kernels.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t cached_panels = 1 << 20;  // bytes of packed panels that fit in L2 next to source rows
constexpr int64_t cached_pixels = 1 << 18;  // bytes of source and result pixels of a piece, if there are groups
constexpr int64_t products_of_read = 8;  // cost of reading a weight from an outer cache, in multiply-adds
constexpr int64_t least_steps = 1 << 14;  // minimum rows * steps per piece of work, a few microseconds
// With at most this many rows, the speed of a matmul is limited by reading constant weights from an outer cache.
constexpr int64_t waiting_rows = 16;
// Minimum number of input channels for which it pays off to process taps one by one. With fewer channels, storing and
// reloading the sums between taps costs too much.
constexpr int64_t least_inputs = 32;

template <class S, class F>
class TapProduct final : public Kernel {
 public:
  TapProduct(Lowering& lowering, TapPlan plan, TapWeights weights, const ProductEpilogue& extras)
      : plan_(std::move(plan)),
        weights_(std::move(weights)),
        tiles_(tiles_for<S, F>(weights_, true)),
        source_(lowering, lowering.input(0).slot, plan_.images * plan_.from_image),
        weights_slot_(lowering.input(1).slot),
        result_(lowering.output().slot),
        extras_(extras) {
    panels_ = (plan_.outputs + tiles_.columns - 1) / tiles_.columns;
    panel_ = plan_.steps() * tiles_.columns;
    threads_ = threads_for(std::max(plan_.products(), panels_ * panel_ * products_of_read));
    const auto bytes = static_cast<int64_t>(sizeof(F));
    const auto classes = static_cast<int64_t>(plan_.classes.size());
    const bool grouped = plan_.classes.back().first_output > 0;
    const bool few = plan_.rows() < classes * tiles_.rows && plan_.inputs >= least_inputs && !grouped;
    if (classes > 1 && few && panels_ >= threads_) take_tap_by_tap(lowering);
    const ConstantWeights constant = lowering.constant(1);
    // Panels just packed by another core are slow to read. Unless the weights are constant, sharing panels among
    // threads therefore pays off only for many rows.
    const bool cached = panels_ * panel_ * bytes <= cached_panels,
               worth_it = constant.value || plan_.rows() > plan_.outputs * static_cast<int64_t>(plan_.taps.size());
    together_ = by_tap_.empty() && ((cached && worth_it) || panels_ < 2 * threads_);
    if (constant)
      prepack(constant);
    else
      panels_slot_ = lowering.scratch(static_cast<size_t>((together_ ? panels_ : threads_) * panel_ * bytes));
    for (TapPlan::Class& c : plan_.classes)
      for (TileRun& run : c.runs) run.panel /= tiles_.group, run.steps /= tiles_.group;
    cut(threads_);
    int64_t tiles = 0;
    for (const Piece& piece : pieces_) tiles += (piece.end - piece.begin + tiles_.rows - 1) / tiles_.rows;
    // Prefetch the next panel only if all panels are full, because a narrower last panel has fewer cache lines.
    if (plan_.outputs % tiles_.columns == 0) lines_ = weights_.template lines<S>(tiles_.columns);
    lines_per_tile_ = (lines_ + tiles - 1) / std::max<int64_t>(tiles, 1);
  }

  void run(Frame& frame) const override {
    if (packed_) return run_packed(frame);
    const S* weights = frame.at<const S>(weights_slot_);
    F* panels = frame.at<F>(panels_slot_);
    // Panels that threads share are packed in the first phase, in which the source is also widened. Otherwise, each
    // panel is packed right before it is used.
    const int64_t widened = source_.pieces(), pieces = static_cast<int64_t>(pieces_.size());
    parallel_phases(threads_, {widened + (together_ ? panels_ : 0), together_ ? pieces : panels_},
                    [&](int64_t phase, Items& items) {
                      const TilesInUse use(tiles_);
                      if (phase == 0) {
                        for (int64_t i : items) {
                          if (i < widened)
                            source_.copy(frame, tiles_, i);
                          else
                            weights_.pack(tiles_, weights, i - widened, panels + (i - widened) * panel_);
                        }
                      } else if (together_) {
                        for (int64_t i : items) multiply(frame, pieces_[i], panels);
                      } else {
                        F* own = panels + items.member() * panel_;
                        for (int64_t p : items) {
                          weights_.pack(tiles_, weights, p, own);
                          Ahead ahead{weights, p + 1, lines_, lines_per_tile_};
                          multiply_all(frame, items.member(), p, p + 1, own, &ahead);
                        }
                      }
                    });
  }
  std::string description() const override {
    return text_of(plan_) + (by_tap_.empty() ? "" : ", tap by tap") + (source_.copies ? ", in float32" : "") +
           (tiles_.begin ? ", with AMX" : "") + (packed_ ? ", packed weights" : "");
  }

 private:
  // A work item: some rows of one class of pixels, to be multiplied by some of the panels.
  struct Piece {
    size_t of_class;
    int64_t begin, end, first_panel, last_panel;
  };

  // State for prefetching the weights of the next panel while the current one is multiplied, so that packing does not
  // wait for memory.
  struct Ahead {
    const S* weights;
    int64_t panel, left, per_tile;
  };
  void ask(Ahead& ahead) const {
    const int64_t first = lines_ - ahead.left, count = std::min(ahead.left, ahead.per_tile);
    if (ahead.panel < panels_) weights_.ask_for(ahead.weights, tiles_.columns, ahead.panel, first, first + count);
    ahead.left -= count;
  }

  // Split the rows into pieces of similar work, several per thread. If there are few rows, split the panels as well.
  void cut(int64_t threads) {
    const int64_t wanted = threads > 1 ? threads * items_per_thread : 1;
    const int64_t most = std::max(plan_.products() / plan_.outputs / wanted, least_steps);
    const bool grouped = plan_.classes.back().first_output > 0;
    const int64_t bytes = plan_.images * (plan_.from_image + plan_.to_image) * static_cast<int64_t>(sizeof(S)),
                  least_pieces = grouped ? bytes / cached_pixels : 0;
    const auto rows_of = [&](size_t i) { return static_cast<int64_t>(plan_.classes[i].pixels.size()) * plan_.images; };
    std::vector<Piece> all;
    for (size_t i = 0; i < plan_.classes.size(); ++i) {
      int64_t steps = 0;
      for (const TileRun& run : plan_.classes[i].runs) steps += run.steps * tiles_.group;
      const int64_t rows = rows_of(i), pieces = std::max(rows * steps / most, least_pieces);
      const int64_t count = std::max<int64_t>(std::min(pieces, rows / tiles_.rows), 1);
      for (int64_t n = 0; n < count; ++n) all.push_back({i, rows * n / count, rows * (n + 1) / count, 0, panels_});
    }
    // Each group reads and writes only some channels of a pixel, which share cache lines with those of other groups.
    // The pieces are therefore small, and the same pixels are processed for all groups, one after another.
    if (grouped)
      std::ranges::stable_sort(all, {}, [&](const Piece& piece) {
        return static_cast<double>(piece.begin) / static_cast<double>(rows_of(piece.of_class));
      });
    const int64_t columns = std::clamp<int64_t>(wanted / static_cast<int64_t>(all.size()), 1, together_ ? panels_ : 1);
    for (int64_t n = 0; n < columns; ++n)
      for (Piece piece : all) {
        piece.first_panel = panels_ * n / columns, piece.last_panel = panels_ * (n + 1) / columns;
        pieces_.push_back(piece);
      }
  }
  void take_tap_by_tap(Lowering& lowering) {
    by_tap_ = plan_.by_tap();
    for (TapPlan::Tap& tap : by_tap_) tap.panel /= tiles_.group;
    for (const TapPlan::Class& c : plan_.classes)
      for_each_row(plan_, c, 0, static_cast<int64_t>(c.pixels.size()) * plan_.images, 1,
                   [&](int64_t, int64_t, int64_t, int64_t to) { to_.push_back(to); });
    sums_ = lowering.scratch(static_cast<size_t>(threads_ * plan_.rows() * tiles_.columns) * sizeof(float));
  }
  void prepack(const ConstantWeights& constant) {
    const auto bytes = static_cast<size_t>(panels_ * panel_) * sizeof(F);
    packed_ = prepacked(constant, weights_.layout(tiles_.columns) + (source_.copies ? " widened" : ""), bytes,
                        [&](const std::byte* elements, std::byte* to) {
                          const S* from = reinterpret_cast<const S*>(elements);
                          parallel_for(panels_, grain_for(panel_ * 8), [&](int64_t begin, int64_t end) {
                            for (int64_t p = begin; p < end; ++p)
                              weights_.pack(tiles_, from, p, reinterpret_cast<F*>(to) + p * panel_);
                          });
                        });
    // With few rows, sharing panels among threads does not pay off. Each thread then reads only its own panels, the
    // same ones on every run.
    if (panels_ >= threads_ && plan_.rows() < 2 * threads_ * tiles_.rows) together_ = false;
  }
  void run_packed(Frame& frame) const {
    const F* panels = reinterpret_cast<const F*>(packed_.get());
    const int64_t parts = together_ ? static_cast<int64_t>(pieces_.size()) : threads_;
    parallel_phases(threads_, {source_.pieces(), parts}, [&](int64_t phase, Items& items) {
      const TilesInUse use(tiles_);
      if (phase == 0) {
        for (int64_t i : items) source_.copy(frame, tiles_, i);
      } else if (together_) {
        for (int64_t i : items) multiply(frame, pieces_[i], panels);
      } else {
        // Process as many panels at a time as stay in cache while all rows are multiplied by them.
        const int64_t most = std::max<int64_t>(1, cached_panels / 2 / (panel_ * static_cast<int64_t>(sizeof(F))));
        for (int64_t part : items) {
          const int64_t end = panels_ * (part + 1) / threads_;
          for (int64_t p = panels_ * part / threads_, next = 0; p < end; p = next) {
            next = std::min(end, p + most);
            multiply_all(frame, items.member(), p, next, panels + p * panel_);
          }
        }
      }
    });
  }

  void multiply_all(Frame& frame, int64_t member, int64_t first, int64_t last, const F* panels,
                    Ahead* ahead = nullptr) const {
    if (by_tap_.empty())
      for (Piece piece : pieces_) {
        piece.first_panel = first, piece.last_panel = last;
        multiply(frame, piece, panels - first * panel_, ahead);
      }
    else
      multiply_tap_by_tap(frame, member, first, last, panels);
  }

  // Multiply all rows by panels [first, last), tap by tap. The sums are accumulated in the scratch memory of the thread
  // with number `member`.
  void multiply_tap_by_tap(Frame& frame, int64_t member, int64_t first, int64_t last, const F* panels) const {
    const F* source = source_.factors(frame);
    S* result = frame.at<S>(result_);
    const auto rows = static_cast<int64_t>(to_.size());
    float* sums = frame.at<float>(sums_) + member * rows * tiles_.columns;
    TileEpilogue<S> epilogue = epilogue_of(frame);
    const S* bias = epilogue.bias;
    for (int64_t p = first; p < last; ++p, panels += panel_) {
      std::fill(sums, sums + rows * tiles_.columns, 0.f);
      for (const TapPlan::Tap& tap : by_tap_) {
        poll_run();
        const auto end = static_cast<int64_t>(tap.rows.size());
        for (int64_t row = 0; row < end;) {
          const int count = tiles_.next_rows(end - row);
          const F* from[ConvolutionTiles<S, F>::most_rows];
          float* to[ConvolutionTiles<S, F>::most_rows];
          for (int i = 0; i < count; ++i)
            from[i] = source + tap.from[row + i], to[i] = sums + tap.rows[row + i] * tiles_.columns;
          tiles_.add(count, from, plan_.inputs / tiles_.group, panels + tap.panel * tiles_.columns * tiles_.group, to);
          row += count;
        }
      }
      const int64_t column = p * tiles_.columns;
      const int width = weights_.width(tiles_.columns, p);
      if (bias) epilogue.bias = bias + column;
      for (int64_t row = 0; row < rows; ++row)
        tiles_.finish(sums + row * tiles_.columns, result + to_[row] + column, width, epilogue);
    }
  }

  TileEpilogue<S> epilogue_of(Frame& frame) const {
    TileEpilogue<S> epilogue;
    epilogue.relu = extras_.relu;
    if (extras_.residual >= 0) epilogue.residual = frame.at<std::byte>(extras_.residual) - frame.at<std::byte>(result_);
    if (extras_.bias >= 0) epilogue.bias = frame.at<const S>(extras_.bias);
    return epilogue;
  }

  void multiply(Frame& frame, const Piece& piece, const F* panels, Ahead* ahead = nullptr) const {
    const F* source = source_.factors(frame);
    S* result = frame.at<S>(result_);
    TileEpilogue<S> epilogue = epilogue_of(frame);
    const S* bias = epilogue.bias;
    const TapPlan::Class& c = plan_.classes[piece.of_class];
    for (int64_t row = piece.begin; row < piece.end;) {
      poll_run();
      const int count = tiles_.next_rows(piece.end - row);
      const F* from[ConvolutionTiles<S, F>::most_rows];
      S* to[ConvolutionTiles<S, F>::most_rows];
      for_each_row(plan_, c, row, row + count, 1, [&](int64_t i, int64_t, int64_t a, int64_t b) {
        from[i] = source + a;
        to[i] = result + b + piece.first_panel * tiles_.columns;
      });
      if (ahead) ask(*ahead);
      for (int64_t p = piece.first_panel; p < piece.last_panel; ++p) {
        if (bias) epilogue.bias = bias + c.first_output + p * tiles_.columns;
        tiles_.multiply(count, from, c.runs.data(), static_cast<int64_t>(c.runs.size()), panels + p * panel_, to,
                        weights_.width(tiles_.columns, p), epilogue);
        for (int i = 0; i < count; ++i) to[i] += tiles_.columns;
      }
      row += count;
    }
  }

  TapPlan plan_;
  TapWeights weights_;
  const ConvolutionTiles<S, F>& tiles_;
  TapSource<S, F> source_;
  Slot weights_slot_, result_, panels_slot_ = -1;
  ProductEpilogue extras_;
  std::vector<Piece> pieces_;
  PackedPtr packed_;  // packed constant weights
  std::vector<TapPlan::Tap> by_tap_;  // empty if the product is computed class by class
  std::vector<int64_t> to_;  // result offset of each row
  Slot sums_ = -1;
  bool together_;
  int64_t panels_, panel_, lines_ = 0, lines_per_tile_ = 0;
  int threads_;
};

}  // namespace

std::string TapWeights::layout(int columns) const {
  std::string text = cat("panels of ", columns, ": ", inputs, " ", outputs, " ", input_stride, " ", output_stride);
  for (int64_t offset : tap_offsets) text += cat(" ", offset);
  if (diagonal > 1) text += cat(", ", diagonal, " groups ", group_stride, " apart");
  return text;
}

int threads_for(int64_t products) {
  return static_cast<int>(std::clamp<int64_t>(products / 200000, 1, thread_count()));
}

std::string text_of(const TapPlan& plan) {
  return cat("one matmul per tap, ", plan.taps.size(), " taps, ", plan.classes.size(), " classes of pixels");
}

std::unique_ptr<Kernel> tap_product(Lowering& lowering, DType dtype, TapPlan plan, TapWeights weights,
                                    const ProductEpilogue& extras) {
  const bool waits_for_weights = plan.rows() <= waiting_rows && lowering.constant(1);
  return with_factors(dtype, waits_for_weights, [&](auto element, auto factor) -> std::unique_ptr<Kernel> {
    using Made = TapProduct<typename decltype(element)::type, typename decltype(factor)::type>;
    return std::make_unique<Made>(lowering, std::move(plan), std::move(weights), extras);
  });
}

}  // namespace mpsgraph::cpu
