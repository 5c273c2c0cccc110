// softmax_cross_entropy and its gradient with respect to the source, each in one pass over a unit.
//
// With z = x - max x, S = Σ labels:  loss = S log Σ e^z - Σ labels z,  gradient = (softmax(x) S - labels) incoming.
// A label of 0 counts as 0 also where z is infinite. Sums of losses run in a fixed order, in double.

#include <cmath>

#include "backends/cpu/reduction/softmax.h"

namespace mpsgraph::cpu {
namespace {

// What `reduction` does with the losses of all groups.
struct Losses {
  AxisSplit split;
  bool reduced, mean;
  Losses(const Lowering& lowering, const Dims& source)
      : split(source, lowering.attributes().integer("axis")),
        reduced(lowering.attributes().string("reduction") != "none"),
        mean(lowering.attributes().string("reduction") == "mean") {}
  int64_t count() const { return split.outer * split.inner; }
};

template <class V>
void cross_entropy(const SoftmaxUnit& u, const Exponent<V>& exponent, const V* x, const V* labels, V* losses) {
  V shift[SoftmaxUnit::max_groups], sum[SoftmaxUnit::max_groups], labelled[SoftmaxUnit::max_groups],
      dot[SoftmaxUnit::max_groups];
  max_groups(u, x, shift);
  sum_groups(u, labelled, [&](int64_t, int64_t i) { return labels[i]; });
  sum_groups(u, dot, [&](int64_t g, int64_t i) { return labels[i] == V(0) ? V(0) : labels[i] * (x[i] - shift[g]); });
  // e^z in pieces, since there is no room for all of a long row.
  constexpr int64_t room = 2048;
  V z[room];
  std::fill(sum, sum + u.groups, V(0));
  const auto add_piece = [&](int64_t groups, int64_t g0, int64_t items, int64_t i0) {
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t i = 0; i < items; ++i) z[g * items + i] = x[u.at(g0 + g, i0 + i)] - shift[g0 + g];
    exponent(z, z, groups * items);
    const SoftmaxUnit piece{0, groups, items, items, 1, 0};
    V part[SoftmaxUnit::max_groups];
    sum_groups(piece, part, [&](int64_t, int64_t i) { return z[i]; });
    for (int64_t g = 0; g < groups; ++g) sum[g0 + g] += part[g];
  };
  if (u.groups * u.n <= room)
    add_piece(u.groups, 0, u.n, 0);
  else
    for (int64_t g = 0; g < u.groups; ++g)
      for (int64_t i = 0; i < u.n; i += room) add_piece(1, g, std::min(room, u.n - i), i);
  for (int64_t g = 0; g < u.groups; ++g)
    losses[u.first_group + g] = u.n == 0 ? V(0) : labelled[g] * std::log(sum[g]) - dot[g];
}

std::unique_ptr<Kernel> lower_cross_entropy(Lowering& lowering) {
  const Losses l(lowering, lowering.input(0).dims);
  return float_kernel<2>(lowering, l.reduced ? l.count() : 0, [l](auto type) {
    using V = typename decltype(type)::type;
    return [l, exponent = Exponent<V>()](const std::array<const V*, 2>& in, V* y, V* extra) {
      V* losses = l.reduced ? extra : y;
      for_softmax_units(l.split, [&](const SoftmaxUnit& u) { cross_entropy(u, exponent, in[0], in[1], losses); });
      if (!l.reduced) return;
      double total = 0;
      for (int64_t i = 0; i < l.count(); ++i) total += losses[i];
      *y = static_cast<V>(l.mean ? total / static_cast<double>(l.count()) : total);
    };
  });
}

// Inputs: incoming, source, labels.
std::unique_ptr<Kernel> lower_cross_entropy_gradient(Lowering& lowering) {
  const Losses l(lowering, lowering.input(1).dims);
  return float_kernel<3>(lowering, 0, [l](auto type) {
    using V = typename decltype(type)::type;
    return [l, exponent = Exponent<V>()](const std::array<const V*, 3>& in, V* y, V*) {
      const V* labels = in[2];
      for_softmax_units(l.split, [&](const SoftmaxUnit& u) {
        V labelled[SoftmaxUnit::max_groups], incoming[SoftmaxUnit::max_groups];
        for (int64_t g = 0; g < u.groups; ++g)
          incoming[g] = l.mean ? *in[0] / static_cast<V>(l.count()) : in[0][l.reduced ? 0 : u.first_group + g];
        softmax_unit(u, exponent, in[1], y);
        sum_groups(u, labelled, [&](int64_t, int64_t i) { return labels[i]; });
        for_elements(u, [&](int64_t g, int64_t i) { y[i] = (y[i] * labelled[g] - labels[i]) * incoming[g]; });
      });
    };
  });
}

}  // namespace

const Kernels loss_kernels("loss", [] {
  define_kernel("softmax_cross_entropy", lower_cross_entropy);
  define_kernel("softmax_cross_entropy_gradient", lower_cross_entropy_gradient);
});

}  // namespace mpsgraph::cpu
