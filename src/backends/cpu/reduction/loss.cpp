// softmax_cross_entropy and its gradient with respect to the input x, each in one pass over the tensor. A group is one
// softmax, and a unit is a block of adjacent groups that a thread processes together (softmax.h).
//
// With z = x - max x and S = Σ labels:
//   loss = S log Σ e^z - Σ labels z
//   gradient = (softmax(x) S - labels) incoming
//
// A label of 0 contributes 0 even if z is infinite. Losses are summed in a fixed order, in double. If the labels are
// one-hot encodings, the pass 'fuse' replaces the labels with class indices. This gives the same result in float32
// without a label tensor.

#include <cmath>

#include "backends/cpu/reduction/softmax.h"
#include "mpsgraph/core/types.h"

namespace mpsgraph::cpu {
namespace {

// Applies the attribute `reduction` to the losses. A group is the logits over which one softmax is computed, so there
// is one loss per group.
struct Losses {
  AxisSplit split;
  bool reduced, mean;
  Losses(const Lowering& lowering, const Dims& source)
      : split(source, lowering.attributes().integer("axis")),
        reduced(lowering.attributes().string("reduction") != "none"),
        mean(lowering.attributes().string("reduction") == "mean") {}
  int64_t count() const { return split.outer * split.inner; }
  // Return the incoming gradient of group g.
  template <class V>
  V incoming(const V* in, int64_t g) const {
    return mean ? *in / static_cast<V>(count()) : in[reduced ? 0 : g];
  }
  template <class V>
  void reduce(const V* losses, V* y) const {
    if (!reduced) return;
    double total = 0;
    for (int64_t i = 0; i < count(); ++i) total += losses[i];
    *y = static_cast<V>(mean ? total / static_cast<double>(count()) : total);
  }
};

// For each group, the sum of its labels, and the dot product of its labels and z.
template <class V>
struct Labelled {
  V sum[SoftmaxUnit::max_groups], dot[SoftmaxUnit::max_groups];
};

template <class V>
void store_losses(const SoftmaxUnit& u, const V* sum, const Labelled<V>& labelled, V* losses) {
  for (int64_t g = 0; g < u.groups; ++g)
    losses[u.first_group + g] = u.n == 0 ? V(0) : labelled.sum[g] * std::log(sum[g]) - labelled.dot[g];
}

// Compute the losses of a unit. label(unit, x, shift, labelled) must store the label sum and the dot product of each
// group in `labelled`; shift[g] is the maximum of x in group g.
template <class V, class Label>
void cross_entropy(const SoftmaxUnit& u, const Exponent<V>& exponent, const V* x, const Label& label, V* losses) {
  V shift[SoftmaxUnit::max_groups], sum[SoftmaxUnit::max_groups];
  Labelled<V> labelled;
  if constexpr (std::is_same_v<V, float>)
    if (in_rows<V>(u)) {
      for (int64_t g = 0; g < u.groups; ++g) {
        const RowExponents row = softmax_rows().exponents(x + u.at(g, 0), u.n, nullptr);
        shift[g] = row.largest, sum[g] = row.sum;
      }
      label(u, x, shift, labelled);
      return store_losses(u, sum, labelled, losses);
    }
  max_groups(u, x, shift);
  label(u, x, shift, labelled);
  // Compute e^z in pieces, because a long row would not fit in the buffer.
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
  store_losses(u, sum, labelled, losses);
}

std::unique_ptr<Kernel> lower_cross_entropy(Lowering& lowering) {
  const Losses l(lowering, lowering.input(0).dims);
  return float_kernel<2>(lowering, l.reduced ? l.count() : 0, [l](auto type) {
    using V = typename decltype(type)::type;
    return [l, exponent = Exponent<V>()](const std::array<const V*, 2>& in, V* y, V* extra) {
      V* losses = l.reduced ? extra : y;
      const auto label = [labels = in[1]](const SoftmaxUnit& u, const V* x, const V* shift, Labelled<V>& labelled) {
        sum_groups(u, labelled.sum, [&](int64_t, int64_t i) { return labels[i]; });
        sum_groups(u, labelled.dot,
                   [&](int64_t g, int64_t i) { return labels[i] == V(0) ? V(0) : labels[i] * (x[i] - shift[g]); });
      };
      for_softmax_units(l.split, [&](const SoftmaxUnit& u) { cross_entropy(u, exponent, in[0], label, losses); });
      l.reduce(losses, y);
    };
  });
}

// Inputs of the operation: incoming gradient, source, labels.
std::unique_ptr<Kernel> lower_cross_entropy_gradient(Lowering& lowering) {
  const Losses l(lowering, lowering.input(1).dims);
  return float_kernel<3>(lowering, 0, [l](auto type) {
    using V = typename decltype(type)::type;
    return [l, exponent = Exponent<V>()](const std::array<const V*, 3>& in, V* y, V*) {
      const V* labels = in[2];
      for_softmax_units(l.split, [&](const SoftmaxUnit& u) {
        V labelled[SoftmaxUnit::max_groups], incoming[SoftmaxUnit::max_groups];
        for (int64_t g = 0; g < u.groups; ++g) incoming[g] = l.incoming(in[0], u.first_group + g);
        softmax_unit(u, exponent, in[1], y);
        sum_groups(u, labelled, [&](int64_t, int64_t i) { return labels[i]; });
        for_elements(u, [&](int64_t g, int64_t i) { y[i] = (y[i] * labelled[g] - labels[i]) * incoming[g]; });
      });
    };
  });
}

// ---- labels as class indices, one per group, in float32 ----

// Return the class index that is the label of group g of the unit (a group is the logits of one softmax), or -1 if the
// index is negative or not below the number of classes.
int64_t class_at(const std::byte* numbers, DType dtype, const SoftmaxUnit& u, int64_t g) {
  const int64_t i = integer_at(numbers, dtype, u.first_group + g);
  return i >= 0 && i < u.n ? i : -1;
}

std::unique_ptr<Kernel> lower_class_cross_entropy(Lowering& lowering) {
  const Operand x = lowering.input(0), classes = lowering.input(1), y = lowering.output();
  const Losses l(lowering, x.dims);
  const Slot scratch = l.reduced ? lowering.scratch(static_cast<size_t>(l.count()) * sizeof(float)) : -1;
  return kernel([=, exponent = Exponent<float>()](Frame& f) {
    float* losses = f.at<float>(l.reduced ? scratch : y.slot);
    const auto label = [&](const SoftmaxUnit& u, const float* x, const float* shift, Labelled<float>& labelled) {
      for (int64_t g = 0; g < u.groups; ++g) {
        const int64_t i = class_at(f.at<std::byte>(classes.slot), classes.dtype, u, g);
        labelled.sum[g] = i < 0 ? 0.f : 1.f;
        labelled.dot[g] = i < 0 ? 0.f : x[u.at(g, i)] - shift[g];
      }
    };
    for_softmax_units(l.split,
                      [&](const SoftmaxUnit& u) { cross_entropy(u, exponent, f.at<float>(x.slot), label, losses); });
    l.reduce(losses, f.at<float>(y.slot));
  });
}

// Inputs of the operation: incoming gradient, source, class indices.
std::unique_ptr<Kernel> lower_class_cross_entropy_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), x = lowering.input(1), classes = lowering.input(2);
  const Losses l(lowering, x.dims);
  lowering.may_share(0, 1);
  return kernel([=, exponent = Exponent<float>(), dx = lowering.output().slot](Frame& f) {
    for_softmax_units(l.split, [&](const SoftmaxUnit& u) {
      const float* in = f.at<float>(x.slot);
      float* y = f.at<float>(dx);
      float shift[SoftmaxUnit::max_groups], sum[SoftmaxUnit::max_groups], factor[SoftmaxUnit::max_groups];
      softmax_exponents(u, exponent, in, y, shift, sum);
      for (int64_t g = 0; g < u.groups; ++g) {
        const float from = l.incoming(f.at<float>(incoming.slot), u.first_group + g);
        const int64_t i = class_at(f.at<std::byte>(classes.slot), classes.dtype, u, g);
        factor[g] = i < 0 ? 0.f : from / sum[g];
        if (i >= 0) y[u.at(g, i)] -= sum[g];
      }
      scale_groups(u, factor, y);
    });
  });
}

}  // namespace

const Kernels loss_kernels("loss", [] {
  define_kernel("softmax_cross_entropy", lower_cross_entropy);
  define_kernel("softmax_cross_entropy_gradient", lower_cross_entropy_gradient);
  define_kernel("class_cross_entropy", lower_class_cross_entropy);
  define_kernel("class_cross_entropy_gradient", lower_class_cross_entropy_gradient);
});

}  // namespace mpsgraph::cpu
