// Which taps a pixel sees.
#include "backends/cpu/convolution/convolution_tap_plan.h"

#include <algorithm>
#include <map>

namespace mpsgraph::cpu {
namespace {

using Taps = std::vector<std::pair<int64_t, int64_t>>;  // tap, offset of the pixel that it reads

// Sorts pixels into classes. `taps_of(position)` calls back with each tap that lies inside, in rising order of what it
// reads where that can be had, so that runs become long.
class Classes {
 public:
  explicit Classes(TapPlan& plan) : plan_(plan) {}
  void add(int64_t to, const Taps& seen) {
    std::vector<int64_t> key;
    for (const auto& [tap, from] : seen) key.insert(key.end(), {tap, from - seen.front().second});
    const auto [found, fresh] = index_.try_emplace(std::move(key), members_.size());
    if (fresh) members_.push_back({seen, {}});
    members_[found->second].pixels.push_back({seen.empty() ? 0 : seen.front().second, to});
  }
  // `order`: in which taps lie in panels.
  void finish(const std::vector<int64_t>& order) {
    std::map<int64_t, int64_t> place;
    for (int64_t tap : order)
      if (std::any_of(members_.begin(), members_.end(), [&](const Member& m) {
            return std::any_of(m.seen.begin(), m.seen.end(), [&](const auto& s) { return s.first == tap; });
          })) {
        place[tap] = static_cast<int64_t>(plan_.taps.size());
        plan_.taps.push_back(tap);
      }
    for (Member& member : members_) {
      TapPlan::Class& made = plan_.classes.emplace_back();
      made.pixels = std::move(member.pixels);
      for (const auto& [tap, from] : member.seen) {
        const TileRun run{from - member.seen.front().second, place[tap] * plan_.inputs, plan_.inputs};
        TileRun* last = made.runs.empty() ? nullptr : &made.runs.back();
        if (last && last->delta + last->steps == run.delta && last->panel + last->steps == run.panel)
          last->steps += run.steps;
        else
          made.runs.push_back(run);
      }
    }
  }

 private:
  struct Member {
    Taps seen;
    std::vector<TapPlan::Pixel> pixels;
  };
  TapPlan& plan_;
  std::map<std::vector<int64_t>, size_t> index_;
  std::vector<Member> members_;
};

template <class F>
void for_each_pixel(const ConvolutionImage& image, const F& f) {
  std::array<int64_t, 3> at{};
  for (at[0] = 0; at[0] < image.size[0]; ++at[0])
    for (at[1] = 0; at[1] < image.size[1]; ++at[1])
      for (at[2] = 0; at[2] < image.size[2]; ++at[2])
        f(at, at[0] * image.step[0] + at[1] * image.step[1] + at[2] * image.step[2]);
}

std::array<int64_t, 3> position_of(const ConvolutionPlan& p, int64_t tap) {
  return {tap / (p.kernel[1] * p.kernel[2]), tap / p.kernel[2] % p.kernel[1], tap % p.kernel[2]};
}

}  // namespace

TapPlan TapPlan::forward(const ConvolutionPlan& p) {
  TapPlan plan{p.x.n, p.inputs, p.outputs, p.x.sn, p.y.sn, {}, {}};
  Classes classes(plan);
  Taps seen;
  for_each_pixel(p.y, [&](const std::array<int64_t, 3>& at, int64_t to) {
    seen.clear();
    for (int64_t tap = 0; tap < p.taps(); ++tap) {
      const auto k = position_of(p, tap);
      int64_t from = 0;
      bool inside = true;
      for (int i = 0; i < 3; ++i) {
        const int64_t x = p.windows[i].at(at[i], k[i]);
        inside = inside && x >= 0 && x < p.x.size[i];
        from += x * p.x.step[i];
      }
      if (inside) seen.push_back({tap, from});
    }
    classes.add(to, seen);
  });
  std::vector<int64_t> order(static_cast<size_t>(p.taps()));
  for (int64_t tap = 0; tap < p.taps(); ++tap) order[tap] = tap;
  classes.finish(order);
  return plan;
}

// A source pixel x takes result pixel y through tap k where x = y * stride + k * dilation - begin: a later tap reads an
// earlier pixel.
TapPlan TapPlan::data_gradient(const ConvolutionPlan& p) {
  TapPlan plan{p.x.n, p.outputs, p.inputs, p.y.sn, p.x.sn, {}, {}};
  Classes classes(plan);
  Taps seen;
  for_each_pixel(p.x, [&](const std::array<int64_t, 3>& at, int64_t to) {
    seen.clear();
    for (int64_t tap = p.taps(); tap-- > 0;) {
      const auto k = position_of(p, tap);
      int64_t from = 0;
      bool inside = true;
      for (int i = 0; i < 3; ++i) {
        const ops::Window& w = p.windows[i];
        const int64_t distance = at[i] + w.begin - k[i] * w.dilation, y = distance / w.stride;
        inside = inside && distance >= 0 && distance % w.stride == 0 && y < p.y.size[i];
        from += y * p.y.step[i];
      }
      if (inside) seen.push_back({tap, from});
    }
    classes.add(to, seen);
  });
  std::vector<int64_t> order(static_cast<size_t>(p.taps()));
  for (int64_t tap = 0; tap < p.taps(); ++tap) order[tap] = p.taps() - 1 - tap;
  classes.finish(order);
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
