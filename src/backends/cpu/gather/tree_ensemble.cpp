// tree_ensemble: evaluates decision trees on the rows of a matrix.
//
// Nodes are sorted so that the two children of a node are adjacent, and descending by one level takes one comparison
// and one addition, without an unpredictable branch. Because every level waits for its loads, several walks from root
// to leaf run at once: for several rows through one tree, or for one row through several trees. A leaf is its own
// child, so walks that reach a leaf early stay there, and all walks end when none of them moves any more. If every leaf
// contributes to a single target and weights are summed, leaf weights are stored separately, as one number per leaf.
//
// If the trees are not constant, or not a valid forest, the kernel walks them in their original form, like the
// reference kernel. Nodes outside the table then read as zeros, as in gather.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/lowering.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"

namespace mpsgraph::cpu {
namespace {

constexpr int walks_at_once = 8;

// The operands of tree_ensemble other than x, as the operation receives them.
template <class T>
struct TreeTables {
  const int32_t *features, *yes, *no, *roots;
  const T* splits;
  const uint8_t* missing;
  int64_t nodes, trees, width;  // `width` is the number of elements per row of x

  bool is_leaf(int64_t i) const { return yes[i] == i && no[i] == i; }
};

enum class TreeReduction : uint8_t { sum, minimum, maximum };

template <class W>
void reduce_into(TreeReduction reduction, double* sums, const W* given, int64_t targets) {
  for (int64_t t = 0; t < targets; ++t) {
    const double w = given[t], s = sums[t];
    if (reduction == TreeReduction::sum)
      sums[t] = s + w;
    else if (std::isnan(w) || (reduction == TreeReduction::minimum ? w < s : w > s))
      sums[t] = std::isnan(s) ? s : w;
  }
}

double start_of(TreeReduction reduction) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return reduction == TreeReduction::sum ? 0 : reduction == TreeReduction::minimum ? infinity : -infinity;
}

// ---- nodes in walking order

template <class T>
struct TreeNode {
  T split;
  int32_t feature, first;  // `first` is the yes child, which is directly followed by the no child
};

template <class T>
struct SortedForest {
  std::vector<TreeNode<T>> nodes;
  std::vector<uint8_t> missing;
  std::vector<int32_t> roots, origin;  // `origin` holds the index of each sorted node in the original table
  // The weight and target of each leaf, if every leaf has a single target.
  std::vector<double> weight;
  std::vector<int32_t> target;
};

// Sort the nodes of each tree breadth first. Return nullopt if node indices are out of range, if nodes form cycles or
// are deeper than `depth`, or if copying shared nodes would give more than 2 * nodes + trees nodes.
template <class T>
std::optional<SortedForest<T>> sorted(const TreeTables<T>& t, int64_t depth, bool or_equal) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  SortedForest<T> result;
  const int64_t most = 2 * t.nodes + t.trees;
  if (most > std::numeric_limits<int32_t>::max()) return {};
  const auto inside = [](int64_t i, int64_t size) { return 0 <= i && i < size; };
  const auto enter = [&](int32_t node) {
    result.origin.push_back(node);
    result.nodes.push_back({});
    result.missing.push_back(0);
  };
  for (int64_t tree = 0; tree < t.trees; ++tree) {
    if (!inside(t.roots[tree], t.nodes)) return {};
    const size_t root = result.nodes.size();
    result.roots.push_back(static_cast<int32_t>(root));
    enter(t.roots[tree]);
    size_t level_end = result.nodes.size();
    int64_t level = 0;
    for (size_t i = root; i < result.nodes.size(); ++i) {
      if (i == level_end) ++level, level_end = result.nodes.size();
      const int32_t from = result.origin[i], self = static_cast<int32_t>(i);
      // A leaf is its own child. If nodes compare with <=, the split value of a leaf is infinity, so that every value
      // takes the yes branch. If nodes compare with <, the split value is -infinity, so that every value takes the no
      // branch.
      if (t.is_leaf(from)) {
        result.nodes[i] = or_equal ? TreeNode<T>{infinity, 0, self} : TreeNode<T>{-infinity, 0, self - 1};
        result.missing[i] = or_equal;
        continue;
      }
      const bool fits = inside(t.features[from], t.width) && inside(t.yes[from], t.nodes) &&
                        inside(t.no[from], t.nodes) && level < depth;
      if (!fits || static_cast<int64_t>(result.nodes.size()) + 2 > most) return {};
      result.nodes[i] = {t.splits[from], t.features[from], static_cast<int32_t>(result.nodes.size())};
      result.missing[i] = t.missing[from];
      enter(t.yes[from]);
      enter(t.no[from]);
    }
  }
  return result;
}

// Store one weight and target per leaf, unless a leaf has more than one nonzero weight.
template <class T, class W>
void take_weights(SortedForest<T>& forest, const TreeTables<T>& t, const W* weights, int64_t targets) {
  forest.weight.assign(forest.nodes.size(), 0);
  forest.target.assign(forest.nodes.size(), 0);
  for (size_t i = 0; i < forest.nodes.size(); ++i) {
    if (!t.is_leaf(forest.origin[i])) continue;
    const W* given = weights + forest.origin[i] * targets;
    for (int64_t k = 0; k < targets; ++k) {
      if (given[k] == 0) continue;
      if (forest.weight[i] != 0) {
        forest.weight.clear();
        return forest.target.clear();
      }
      forest.weight[i] = given[k];
      forest.target[i] = static_cast<int32_t>(k);
    }
  }
}

// Return the elements of an operand if it is a constant, otherwise null.
std::shared_ptr<const std::byte> constant_elements(const Operation& operation, size_t i) {
  const Operation* maker = operation.input(i)->operation;
  while (is_alias(*maker)) maker = maker->input(0)->operation;
  if (!maker->is("constant")) return nullptr;
  const ConstantPtr& value = maker->attributes.data("value");
  if (!value->is_splat()) return {value, value->bytes()};
  const auto all =
      std::make_shared<std::vector<std::byte>>(static_cast<size_t>(value->elements()) * size_of(value->dtype()));
  value->expand_into(all->data());
  return {all, all->data()};
}

// A constant forest, shared by the kernels for all sizes of x.
template <class T>
struct KeptForest {
  std::optional<SortedForest<T>> forest;
  // the tables are kept alive, so that no other tables can reuse their addresses
  std::shared_ptr<const std::byte> tables[8];
};

template <class T, class Make>
std::shared_ptr<const KeptForest<T>> kept_forest(const std::string& key, const Make& make) {
  // the mutex and the map are never destroyed, so that they outlive static destructors
  static std::mutex* const mutex = new std::mutex;
  static auto* const kept = new std::map<std::string, std::weak_ptr<const KeptForest<T>>>;
  const std::lock_guard lock(*mutex);
  if (const auto found = kept->find(key); found != kept->end())
    if (auto forest = found->second.lock()) return forest;
  std::erase_if(*kept, [](const auto& item) { return item.second.expired(); });
  const std::shared_ptr<const KeptForest<T>> forest = make();
  (*kept)[key] = forest;
  return forest;
}

// Follow each of several walks from its node in `leaves` down to a leaf, with one row per walk. The function is not
// inlined, so that it is compiled only once.
template <bool OrEqual, bool Numbers, class T>
[[gnu::noinline]] void walk(const TreeNode<T>* nodes, const uint8_t* missing, const T* const (&of)[walks_at_once],
                            int32_t (&leaves)[walks_at_once]) {
  const T* rows[walks_at_once];
  int32_t at[walks_at_once], moved;
  std::copy_n(of, walks_at_once, rows);
  std::copy_n(leaves, walks_at_once, at);
  const auto step = [&](bool look) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int i = 0; i < walks_at_once; ++i) {
      const TreeNode<T> node = nodes[at[i]];
      const T value = rows[i][node.feature];
      bool no = OrEqual ? !(value <= node.split) : !(value < node.split);
      if constexpr (!Numbers) no = no && !(std::isnan(value) && missing[at[i]]);
      const int32_t next = node.first + static_cast<int32_t>(no);
      if (look) moved |= next ^ at[i];
      at[i] = next;
    }
  };
  do {
    moved = 0;
    step(false);
    step(true);
  } while (moved);
  std::copy_n(at, walks_at_once, leaves);
}

// ---- kernels

// T is the type of x and of the split values. Leaf weights are float32 or float64, independent of T.
template <class T>
class TreeEnsemble final : public Kernel {
 public:
  explicit TreeEnsemble(Lowering& lowering)
      : x_(lowering.input(0)),
        result_(lowering.output()),
        targets_(lowering.input(7).dims[1]),
        depth_(lowering.attributes().integer("depth")),
        or_equal_(lowering.attributes().string("comparison") == "less_than_or_equal_to"),
        gives_doubles_(result_.dtype == DType::float64) {
    const std::string& reduction = lowering.attributes().string("reduction");
    reduction_ = reduction == "sum"       ? TreeReduction::sum
                 : reduction == "minimum" ? TreeReduction::minimum
                                          : TreeReduction::maximum;
    take_constants(lowering);
    if (!forest_)
      for (size_t i = 0; i < 7; ++i) tables_[i] = lowering.input(i + 1).slot;
    tables_shape_ = {lowering.input(1).dims[0], lowering.input(6).dims[0], x_.dims[1]};
    cut();
    sums_ = lowering.scratch(static_cast<size_t>(tree_parts_ * x_.dims[0] * targets_) * sizeof(double));
  }

  void run(Frame& frame) const override {
    const int64_t rows = x_.dims[0], trees = tables_shape_[1];
    auto* sums = frame.at<double>(sums_);
    parallel_items(row_parts_ * tree_parts_, [&](int64_t item, int64_t) {
      const int64_t part = item % row_parts_, of_trees = item / row_parts_;
      const Range range{rows * part / row_parts_, rows * (part + 1) / row_parts_, trees * of_trees / tree_parts_,
                        trees * (of_trees + 1) / tree_parts_, sums + of_trees * rows * targets_};
      std::fill(range.sums + range.row * targets_, range.sums + range.end * targets_, start_of(reduction_));
      if (forest_)
        walk_sorted(frame, range);
      else
        walk_plain(frame, range);
    });
    const int64_t results = rows * targets_;
    for (int64_t part = 1; part < tree_parts_; ++part) reduce_into(reduction_, sums, sums + part * results, results);
    if (gives_doubles_)
      std::copy_n(sums, results, frame.at<double>(result_.slot));
    else
      std::transform(sums, sums + results, frame.at<float>(result_.slot),
                     [](double x) { return static_cast<float>(x); });
  }
  std::string description() const override {
    if (!forest_) return "unsorted trees";
    return cat("sorted trees, ", walks_at_once, " concurrent walks, ",
               forest_->weight.empty() ? "several weights" : "one weight", " per leaf");
  }

 private:
  struct Range {
    int64_t row, end, tree, last;
    double* sums;  // sums of all rows
  };

  void take_constants(Lowering& lowering) {
    if (lowering.reference_only() || x_.dims[1] == 0) return;  // every walk reads the first feature, even at a leaf
    KeptForest<T> made;
    std::string key = cat(depth_, " ", or_equal_, " ", x_.dims[1], " ", static_cast<int>(reduction_));
    for (size_t i = 1; i < 8; ++i) {
      made.tables[i] = constant_elements(lowering.operation(), i);
      if (!made.tables[i]) return;
      key += cat(" ", reinterpret_cast<uintptr_t>(made.tables[i].get()));
    }
    const auto kept = kept_forest<T>(key, [&] {
      const auto at = [&]<class E>(size_t i, const E*) { return reinterpret_cast<const E*>(made.tables[i].get()); };
      constexpr const int32_t* whole = nullptr;
      const TreeTables<T> tables{at(1, whole),
                                 at(2, whole),
                                 at(3, whole),
                                 at(6, whole),
                                 at(4, static_cast<const T*>(nullptr)),
                                 at(5, static_cast<const uint8_t*>(nullptr)),
                                 lowering.input(1).dims[0],
                                 lowering.input(6).dims[0],
                                 x_.dims[1]};
      made.forest = sorted(tables, depth_, or_equal_);
      if (made.forest && reduction_ == TreeReduction::sum && gives_doubles_)
        take_weights(*made.forest, tables, at(7, static_cast<const double*>(nullptr)), targets_);
      else if (made.forest && reduction_ == TreeReduction::sum)
        take_weights(*made.forest, tables, at(7, static_cast<const float*>(nullptr)), targets_);
      return std::make_shared<const KeptForest<T>>(std::move(made));
    });
    if (!kept->forest) return;
    forest_ = {kept, &*kept->forest};
    if (forest_->weight.empty()) weights_ = kept->tables[7];
    for (size_t i = 1; i < 8; ++i)  // report the tables as packed, because no kernel reads these slots
      if (const ConstantWeights taken = lowering.constant(i); taken && taken.packed) taken.packed();
  }

  // Divide the rows into parts. If the rows alone give too few parts for all threads, divide the trees as well.
  void cut() {
    constexpr int64_t least_walks = 2048;  // minimum walks per work item
    const int64_t rows = x_.dims[0], trees = tables_shape_[1];
    const int64_t wanted =
        std::clamp<int64_t>(rows * trees / least_walks, 1, int64_t{thread_count()} * items_per_thread);
    row_parts_ = std::clamp<int64_t>(rows / walks_at_once, 1, wanted);
    tree_parts_ = std::clamp<int64_t>(wanted / row_parts_, 1, std::max<int64_t>(trees / walks_at_once, 1));
  }

  void add(double* sums, int32_t leaf) const {
    const auto i = static_cast<size_t>(leaf);
    if (!forest_->weight.empty()) {
      sums[forest_->target[i]] += forest_->weight[i];
      return;
    }
    add_weights(sums, weights_.get(), forest_->origin[i]);
  }
  void add_weights(double* sums, const std::byte* weights, int64_t leaf) const {
    if (gives_doubles_)
      reduce_into(reduction_, sums, reinterpret_cast<const double*>(weights) + leaf * targets_, targets_);
    else
      reduce_into(reduction_, sums, reinterpret_cast<const float*>(weights) + leaf * targets_, targets_);
  }

  void walk_sorted(Frame& frame, const Range& range) const {
    const int64_t width = x_.dims[1];
    const T* x = frame.at<const T>(x_.slot);
    bool numbers = true;
    for (int64_t i = range.row * width; i < range.end * width; ++i) numbers &= !std::isnan(x[i]);
    if (or_equal_)
      numbers ? walk_some<true, true>(x, range) : walk_some<true, false>(x, range);
    else
      numbers ? walk_some<false, true>(x, range) : walk_some<false, false>(x, range);
  }

  template <bool OrEqual, bool Numbers>
  void walk_some(const T* x, const Range& range) const {
    const int64_t width = x_.dims[1];
    const SortedForest<T>& f = *forest_;
    const T* rows[walks_at_once];
    int32_t at[walks_at_once];
    if (range.end - range.row < walks_at_once / 2) {  // with few rows, walk several trees at once
      for (int64_t row = range.row; row < range.end; ++row) {
        std::fill(rows, rows + walks_at_once, x + row * width);
        for (int64_t tree = range.tree; tree < range.last; tree += walks_at_once) {
          const int64_t count = std::min<int64_t>(walks_at_once, range.last - tree);
          for (int64_t i = 0; i < walks_at_once; ++i)
            at[i] = f.roots[static_cast<size_t>(tree + std::min(i, count - 1))];
          walk<OrEqual, Numbers>(f.nodes.data(), f.missing.data(), rows, at);
          for (int64_t i = 0; i < count; ++i) add(range.sums + row * targets_, at[i]);
        }
      }
      return;
    }
    for (int64_t tree = range.tree; tree < range.last; ++tree)
      for (int64_t row = range.row; row < range.end; row += walks_at_once) {
        const int64_t count = std::min<int64_t>(walks_at_once, range.end - row);
        for (int64_t i = 0; i < walks_at_once; ++i) {
          rows[i] = x + (row + std::min(i, count - 1)) * width;
          at[i] = f.roots[static_cast<size_t>(tree)];
        }
        walk<OrEqual, Numbers>(f.nodes.data(), f.missing.data(), rows, at);
        for (int64_t i = 0; i < count; ++i) add(range.sums + (row + i) * targets_, at[i]);
      }
  }

  void walk_plain(Frame& frame, const Range& range) const {
    const auto whole = [&](size_t i) { return frame.at<const int32_t>(tables_[i - 1]); };
    const TreeTables<T> t{whole(1),
                          whole(2),
                          whole(3),
                          whole(6),
                          frame.at<const T>(tables_[3]),
                          frame.at<const uint8_t>(tables_[4]),
                          tables_shape_[0],
                          tables_shape_[1],
                          tables_shape_[2]};
    const std::byte* weights = frame.at<const std::byte>(tables_[6]);
    const auto inside = [](int64_t i, int64_t size) { return 0 <= i && i < size; };
    for (int64_t row = range.row; row < range.end; ++row) {
      const T* x = frame.at<const T>(x_.slot) + row * t.width;
      for (int64_t tree = range.tree; tree < range.last; ++tree) {
        int64_t at = t.roots[tree];
        for (int64_t step = 0; step < depth_; ++step) {
          const bool known = inside(at, t.nodes);
          const int64_t feature = known ? t.features[at] : 0;
          const T value = inside(feature, t.width) ? x[feature] : T(0), split = known ? t.splits[at] : T(0);
          const bool taken =
              (or_equal_ ? value <= split : value < split) || (std::isnan(value) && known && t.missing[at]);
          at = !known ? 0 : taken ? t.yes[at] : t.no[at];
        }
        if (inside(at, t.nodes)) add_weights(range.sums + row * targets_, weights, at);
        constexpr double nothing = 0;
        for (int64_t k = 0; !inside(at, t.nodes) && k < targets_; ++k)
          reduce_into(reduction_, range.sums + row * targets_ + k, &nothing, 1);
      }
    }
  }

  Operand x_, result_;
  int64_t targets_, depth_;
  bool or_equal_, gives_doubles_;
  TreeReduction reduction_;
  std::shared_ptr<const SortedForest<T>> forest_;
  std::shared_ptr<const std::byte> weights_;  // leaf weights; set only if leaves have several targets
  Slot tables_[7] = {}, sums_ = -1;
  std::array<int64_t, 3> tables_shape_{};  // numbers of nodes, trees, and features
  int64_t row_parts_ = 1, tree_parts_ = 1;
};

std::unique_ptr<Kernel> lower_trees(Lowering& lowering) {
  if (lowering.input(0).dtype == DType::float64) return std::make_unique<TreeEnsemble<double>>(lowering);
  return std::make_unique<TreeEnsemble<float>>(lowering);
}

}  // namespace

const Kernels tree_ensemble_kernels("tree_ensemble", [] { define_kernel("tree_ensemble", lower_trees); });

}  // namespace mpsgraph::cpu
