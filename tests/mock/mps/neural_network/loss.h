// Losses of MPSCNNLossType: values and gradients of elements, reductions, and the images that labels lie in.
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

  double label(double t) const;  // smoothed
  // Of every element, times its weight: `weights` are null for the descriptor's own.
  Images values(const Images& y, const Images& labels, const Images* weights) const;
  Images gradients(const Images& y, const Images& labels, const Images* weights) const;
  // What remains of each image after the reduction: all elements, or one number.
  std::vector<Images> reduced(const Images& values, const Images* weights) const;
  Images label_gradients(const Images& y, const Images& labels, const Images* weights) const;

 private:
  double factor(const Images* weights, size_t i) const { return weights ? weights->v[i] : weight; }
};

// The memory of labels that an encode was given, for commands.
struct LabelMemory {
  std::vector<Pixels> labels, weights, losses;

  static LabelMemory of(Call& call, bool needs_all_losses);  // raises where they do not fit the source
  Images load_labels(const Call& call) const;
  std::unique_ptr<Images> load_weights(const Call& call) const;  // null: there are none
  void store_losses(const std::vector<Images>& values) const;
};

}  // namespace mock
