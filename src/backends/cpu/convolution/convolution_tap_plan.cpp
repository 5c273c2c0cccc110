// Determines which taps of a convolution lie inside the image for each pixel, as all combinations of the taps that are
// inside along each axis.
#include "backends/cpu/convolution/convolution_tap_plan.h"

#include <algorithm>
#include <map>

namespace mpsgraph::cpu {
namespace {

using Taps = std::vector<std::pair<int64_t, int64_t>>;  // (tap index, offset of the pixel that the tap reads)

int64_t rounded_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }  // a / b rounded up, for b > 0

// Identifies the taps that lie inside the image along one axis at one position: taps [low, high) or, with strides, only
// those taps whose position modulo the stride is `rest`. Positions with equal Visible objects see the same taps with
// the same spacing.
struct Visible {
  int64_t low, high, rest;
  auto operator<=>(const Visible&) const = default;
};

// The positions of one axis, grouped into classes that see the same taps and read pixels with the same spacing. Almost
// all positions of a long signal belong to the same class, so tap lists are built once per class.
class Axis {
 public:
  // `visible_from(position)` returns the Visible object of a position. `seen_from(position)` lists the taps of a
  // position in the order in which pixels use them, with increasing offsets. `reads(position, tap)` returns the source
  // offset that the tap reads at this position.
  template <class VisibleFrom, class Seen, class Reads>
  Axis(int64_t size, const VisibleFrom& visible_from, const Seen& seen_from, const Reads& reads) {
    std::map<Visible, size_t> known;
    std::map<Taps, size_t> index;
    for (int64_t position = 0; position < size; ++position) {
      const auto [found, fresh] = known.try_emplace(visible_from(position));
      if (fresh) {
        Taps seen = seen_from(position);
        for (const int64_t first = seen.empty() ? 0 : seen.front().second; auto& [tap, from] : seen) from -= first;
        const auto [same, another] = index.try_emplace(std::move(seen), classes_.size());
        if (another) classes_.push_back(same->first);
        found->second = same->second;
      }
      const Taps& seen = classes_[found->second];
      positions_.push_back({found->second, seen.empty() ? 0 : reads(position, seen.front().first)});
    }
  }
  size_t class_count() const { return classes_.size(); }
  size_t class_of(int64_t position) const { return positions_[position].first; }
  const Taps& taps(int64_t position) const { return classes_[class_of(position)]; }
  // Return the offset of the pixel that the position's first tap reads.
  int64_t first(int64_t position) const { return positions_[position].second; }

 private:
  std::vector<Taps> classes_;
  std::vector<std::pair<size_t, int64_t>> positions_;  // (class, offset that the first tap reads) of each position
};

using Axes = std::array<Axis, 3>;
using Place = std::array<int64_t, 3>;

// Return the taps that a pixel sees: all combinations of the taps along each axis, with the last axis varying fastest.
Taps combined(const Axes& axes, const Place& at, const std::array<int64_t, 3>& kernel) {
  Taps seen;
  for (const auto& [z, from_z] : axes[0].taps(at[0]))
    for (const auto& [y, from_y] : axes[1].taps(at[1]))
      for (const auto& [x, from_x] : axes[2].taps(at[2]))
        seen.push_back({(z * kernel[1] + y) * kernel[2] + x, from_z + from_y + from_x});
  return seen;
}

// Group the pixels of `image` into classes that see the same taps. `order` is the order of the taps in a panel.
void classify(TapPlan& plan, const Axes& axes, const ConvolutionImage& image, const std::array<int64_t, 3>& kernel,
              const std::vector<int64_t>& order) {
  struct Member {
    Taps seen;
    std::vector<TapPlan::Pixel> pixels;
  };
  std::vector<Member> members;
  const size_t count = axes[0].class_count() * axes[1].class_count() * axes[2].class_count();
  std::vector<int64_t> member_of(count, -1);
  int64_t blind = -1;  // class of the pixels that see no tap
  std::vector<bool> sees(order.size(), false);
  Place at{};
  for (at[0] = 0; at[0] < image.size[0]; ++at[0])
    for (at[1] = 0; at[1] < image.size[1]; ++at[1])
      for (at[2] = 0; at[2] < image.size[2]; ++at[2]) {
        size_t which = 0;
        int64_t from = 0, to = 0;
        bool sees_any = true;
        for (int i = 0; i < 3; ++i) {
          which = which * axes[i].class_count() + axes[i].class_of(at[i]);
          from += axes[i].first(at[i]);
          to += at[i] * image.step[i];
          sees_any = sees_any && !axes[i].taps(at[i]).empty();
        }
        int64_t& member = sees_any ? member_of[which] : blind;
        if (member < 0) {
          member = static_cast<int64_t>(members.size());
          members.push_back({combined(axes, at, kernel), {}});
          for (const auto& [tap, offset] : members.back().seen) sees[tap] = true;
        }
        members[member].pixels.push_back({sees_any ? from : 0, to});
      }

  std::vector<int64_t> place(order.size(), -1);
  for (int64_t tap : order)
    if (sees[tap]) {
      place[tap] = static_cast<int64_t>(plan.taps.size());
      plan.taps.push_back(tap);
    }
  for (Member& member : members) {
    TapPlan::Class& made = plan.classes.emplace_back();
    made.pixels = std::move(member.pixels);
    for (const auto& [tap, from] : member.seen) {
      const TileRun run{from, place[tap] * plan.inputs, plan.inputs};
      TileRun* last = made.runs.empty() ? nullptr : &made.runs.back();
      if (last && last->delta + last->steps == run.delta && last->panel + last->steps == run.panel)
        last->steps += run.steps;
      else
        made.runs.push_back(run);
    }
  }
}

}  // namespace

TapPlan TapPlan::forward(const ConvolutionPlan& p) {
  TapPlan plan{p.x.n, p.inputs, p.outputs, p.x.sn, p.y.sn, {}, {}};
  const auto axis = [&](int i) {
    const ops::Window& w = p.windows[i];
    const int64_t size = p.x.size[i], kernel = p.kernel[i];
    const auto reads = [&p, &w, i](int64_t position, int64_t tap) { return w.at(position, tap) * p.x.step[i]; };
    const auto visible_from = [&](int64_t position) {
      const int64_t first = w.at(position, 0);
      return Visible{std::clamp<int64_t>(rounded_up(-first, w.dilation), 0, kernel),
                     std::clamp<int64_t>(rounded_up(size - first, w.dilation), 0, kernel), 0};
    };
    return Axis(
        p.y.size[i], visible_from,
        [&](int64_t position) {
          Taps seen;
          for (int64_t tap = 0; tap < kernel; ++tap)
            if (const int64_t x = w.at(position, tap); x >= 0 && x < size) seen.push_back({tap, reads(position, tap)});
          return seen;
        },
        reads);
  };
  std::vector<int64_t> order(static_cast<size_t>(p.taps()));
  for (int64_t tap = 0; tap < p.taps(); ++tap) order[tap] = tap;
  classify(plan, {axis(0), axis(1), axis(2)}, p.y, p.kernel, order);
  return plan;
}

// Along each axis, source pixel x receives the gradient of result pixel y through tap k if x = y * stride + k *
// dilation - begin, so later taps read earlier pixels.
TapPlan TapPlan::data_gradient(const ConvolutionPlan& p) {
  TapPlan plan{p.x.n, p.outputs, p.inputs, p.y.sn, p.x.sn, {}, {}};
  const auto axis = [&](int i) {
    const ops::Window& w = p.windows[i];
    const int64_t size = p.y.size[i], kernel = p.kernel[i];
    const auto reads = [&p, &w, i](int64_t position, int64_t tap) {
      return (position + w.begin - tap * w.dilation) / w.stride * p.y.step[i];
    };
    const auto visible_from = [&](int64_t position) {
      const int64_t distance = position + w.begin;  // for tap 0: index of the result pixel times the stride
      return Visible{std::clamp<int64_t>(rounded_up(distance - size * w.stride + 1, w.dilation), 0, kernel),
                     std::clamp<int64_t>(rounded_up(distance + 1, w.dilation), 0, kernel),
                     (distance % w.stride + w.stride) % w.stride};
    };
    return Axis(
        p.x.size[i], visible_from,
        [&](int64_t position) {
          Taps seen;
          for (int64_t tap = kernel; tap-- > 0;) {
            const int64_t distance = position + w.begin - tap * w.dilation;
            if (distance >= 0 && distance % w.stride == 0 && distance / w.stride < size)
              seen.push_back({tap, reads(position, tap)});
          }
          return seen;
        },
        reads);
  };
  std::vector<int64_t> order(static_cast<size_t>(p.taps()));
  for (int64_t tap = 0; tap < p.taps(); ++tap) order[tap] = p.taps() - 1 - tap;
  classify(plan, {axis(0), axis(1), axis(2)}, p.x, p.kernel, order);
  return plan;
}

TapPlan TapPlan::repeated(int64_t groups, int64_t taps_of_group) const {
  TapPlan plan{images, inputs, outputs, from_image, to_image, {}, {}};
  for (int64_t group = 0; group < groups; ++group) {
    for (const int64_t tap : taps) plan.taps.push_back(group * taps_of_group + tap);
    for (Class c : classes) {
      c.first_output = group * outputs;
      for (TileRun& run : c.runs) run.panel += group * steps();
      for (Pixel& pixel : c.pixels) pixel.from += group * inputs, pixel.to += group * outputs;
      plan.classes.push_back(std::move(c));
    }
  }
  return plan;
}

int64_t TapPlan::rows() const {
  int64_t sum = 0;
  for (const Class& c : classes) sum += static_cast<int64_t>(c.pixels.size());
  return sum * images;
}

int64_t TapPlan::products() const {
  int64_t sum = 0;
  for (const Class& c : classes)
    for (const TileRun& run : c.runs) sum += static_cast<int64_t>(c.pixels.size()) * run.steps;
  return sum * images * outputs;
}

std::vector<TapPlan::Tap> TapPlan::by_tap() const {
  std::vector<Tap> found;
  for (size_t i = 0; i < taps.size(); ++i) found.push_back({static_cast<int64_t>(i) * inputs, {}, {}});
  int64_t first = 0;
  for (const Class& c : classes) {
    const auto count = static_cast<int64_t>(c.pixels.size()) * images;
    for (const TileRun& run : c.runs)
      for (int64_t step = 0; step < run.steps; step += inputs) {
        Tap& tap = found[(run.panel + step) / inputs];
        for_each_row(*this, c, 0, count, 1, [&](int64_t row, int64_t, int64_t from, int64_t) {
          tap.rows.push_back(first + row);
          tap.from.push_back(from + run.delta + step);
        });
      }
    first += count;
  }
  return found;
}

}  // namespace mpsgraph::cpu
