// The losses of MPSCNNLossType: values and gradients of elements, reductions, and the images that store labels.
#pragma once

#include "mps/neural_network/layer.h"

namespace mock {

struct Loss {
  MPSCNNLossType type = MPSCNNLossTypeMeanSquaredError;
  MPSCNNReductionType reduction = MPSCNNReductionTypeNone;
  bool across_batch = false;
  double weight = 1, smoothing = 0, epsilon = 1e-7, delta = 1;
  int64_t classes = 1;

  static Loss of(MPSCNNLossDescriptor* descriptor);

  double label(double t) const;  // applies label smoothing
  // Return the loss of each element, times its weight. If `weights` is null, the weight of the descriptor applies.
  Images values(const Images& y, const Images& labels, const Images* weights) const;
  Images gradients(const Images& y, const Images& labels, const Images* weights) const;
  // Return the reduced loss of each image: all elements or a single number.
  std::vector<Images> reduced(const Images& values, const Images* weights) const;
  Images label_gradients(const Images& y, const Images& labels, const Images* weights) const;

 private:
  double factor(const Images* weights, size_t i) const { return weights ? weights->v[i] : weight; }
};

// Memory of the labels passed to an encode, for use by commands.
struct LabelMemory {
  std::vector<Pixels> labels, weights, losses;

  static LabelMemory of(Call& call, bool needs_all_losses);  // raises if the labels do not match the source
  Images load_labels(const Call& call) const;
  std::unique_ptr<Images> load_weights(const Call& call) const;  // null if there are no weights
  void store_losses(const std::vector<Images>& values) const;
};

}  // namespace mock
