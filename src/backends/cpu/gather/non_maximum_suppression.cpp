// Greedy non-maximum suppression: candidates are compared, in order of decreasing score, with those already selected.
// Each image is processed by one thread.

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/sort/sort_polled.h"

namespace mpsgraph::cpu {
namespace {

struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

// Return a box with its corners in ascending order, for input that specifies any two opposite corners or a center and a
// size.
Box box_of(const float* c, bool centers, bool width_first) {
  const float a = c[width_first], b = c[!width_first], d = c[2 + width_first], e = c[2 + !width_first];
  if (centers) return {a - d / 2, b - e / 2, a + d / 2, b + e / 2};
  return {std::min(a, d), std::min(b, e), std::max(a, d), std::max(b, e)};
}

float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0 && width > 0)) return 0;
  const float both = height * width, either = a.area() + b.area() - both;
  return either > 0 ? both / either : 0;
}

struct Plan {
  int64_t images = 0, boxes = 0, classes = 0;
  float iou = 0, least = 0;
  bool per_class = false, centers = false, width_first = false, indexed = false;
};

// A candidate of one image: a box and class above the score threshold. Candidates are sorted by decreasing score, with
// ties in their original order.
struct Candidate {
  float score;
  int32_t place;  // number of the box and class: box * classes + class
};

// Greedily select candidates of one image, and return the number of selected candidates. A candidate's `place`
// identifies its box and class. `taken` receives the places of the selected candidates in the order of their selection,
// and order[place] receives the index at which that place is stored in `taken`.
int64_t suppress(const Plan& p, const Box* boxes, const int64_t* class_of, Candidate* candidates, int64_t count,
                 int32_t* taken, int32_t* order) {
  const auto box = [&](int32_t place) { return place / p.classes; };
  const auto kind = [&](int32_t place) { return p.indexed ? class_of[box(place)] : place % p.classes; };
  sort_polled(candidates, candidates + count, [&](const Candidate& a, const Candidate& b) {
    if (p.per_class && !p.indexed && kind(a.place) != kind(b.place)) return kind(a.place) < kind(b.place);
    return a.score > b.score || (a.score == b.score && a.place < b.place);
  });
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    poll_run();
    const int32_t place = candidates[i].place;
    const auto covers = [&](int32_t other) {
      return (!p.per_class || kind(other) == kind(place)) && overlap(boxes[box(other)], boxes[box(place)]) > p.iou;
    };
    if (std::any_of(taken, taken + kept, covers)) continue;
    order[place] = static_cast<int32_t>(kept);
    taken[kept++] = place;
  }
  return kept;
}

std::unique_ptr<Kernel> lower_order(Lowering& lowering) {
  const Operand boxes = lowering.input(0), scores = lowering.input(1), y = lowering.output();
  const Attributes& a = lowering.attributes();
  const std::string& mode = a.string("coordinate_mode");
  Plan p;
  p.images = y.dims[0], p.boxes = y.dims[1], p.classes = y.dims[2];
  p.iou = static_cast<float>(a.real("iou_threshold"));
  p.least = static_cast<float>(a.real("score_threshold"));
  p.per_class = a.boolean("per_class_suppression");
  p.centers = mode.starts_with("centers");
  p.width_first = mode.ends_with("width_first");
  p.indexed = lowering.input_count() == 3;
  const Operand class_of = p.indexed ? lowering.input(2) : boxes;
  const int64_t pairs = p.boxes * p.classes;
  const auto room = [&](int64_t elements, size_t bytes) {
    return lowering.scratch(static_cast<size_t>(p.images * elements) * bytes);
  };
  const Slot corners = room(p.boxes, sizeof(Box)), classes = room(p.indexed ? p.boxes : 0, sizeof(int64_t));
  const Slot candidates = room(pairs, sizeof(Candidate)), taken = room(pairs, sizeof(int32_t));
  const Slot counts = room(1, sizeof(int64_t));
  return dispatch_float(lowering, boxes.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return kernel([=](Frame& f) {
      const auto number = [](T x) { return static_cast<float>(x); };
      int32_t* order = f.at<int32_t>(y.slot);
      std::fill_n(order, y.elements(), -1);
      parallel_parts(p.images, [&](int64_t image) {
        Box* own = f.at<Box>(corners) + image * p.boxes;
        int64_t* kinds = f.at<int64_t>(classes) + image * p.boxes;
        for (int64_t i = 0; i < p.boxes; ++i) {
          float c[4];
          std::transform(f.at<const T>(boxes.slot) + (image * p.boxes + i) * 4,
                         f.at<const T>(boxes.slot) + (image * p.boxes + i + 1) * 4, c, number);
          own[i] = box_of(c, p.centers, p.width_first);
          if (p.indexed) kinds[i] = integer_at(f.at<std::byte>(class_of.slot), class_of.dtype, image * p.boxes + i);
        }
        Candidate* list = f.at<Candidate>(candidates) + image * pairs;
        int64_t count = 0;
        for (int64_t i = 0; i < pairs; ++i) {
          const float score = number(f.at<const T>(scores.slot)[image * pairs + i]);
          if (score > p.least) list[count++] = {score, static_cast<int32_t>(i)};
        }
        f.at<int64_t>(counts)[image] =
            suppress(p, own, kinds, list, count, f.at<int32_t>(taken) + image * pairs, order + image * pairs);
      });
      int64_t before = 0;  // number of selections in the preceding images
      for (int64_t image = 0; image < p.images; before += f.at<int64_t>(counts)[image++])
        for (int64_t i = 0; i < pairs; ++i)
          if (int32_t& place = order[image * pairs + i]; place >= 0) place += static_cast<int32_t>(before);
    });
  });
}

}  // namespace

const Kernels non_maximum_suppression_kernels("non_maximum_suppression",
                                              [] { define_kernel("non_maximum_suppression", lower_order); });

}  // namespace mpsgraph::cpu
