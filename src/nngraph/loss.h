// Code shared by the loss filters: element-wise losses, their derivatives, and reductions.
#pragma once

#include "nngraph/definition.h"

namespace mpsgraph::nngraph {

// The settings of MPSCNNLossDescriptor.
struct LossTerms {
  std::string type, reduction = "sum";
  bool reduce_across_batch = false;
  double weight = 1, label_smoothing = 0;
  int64_t number_of_classes = 1;
  double epsilon = 1e-7, delta = 1;
};
LossTerms loss_terms(const Attributes& attributes);
std::vector<AttributeSpec> loss_attributes();
void check_loss(const FilterNode& node);

// Element-wise loss and its derivative, without weights.
struct Losses {
  Tensor *loss, *gradient;
};
Losses losses_of(const LossTerms& terms, Builder& b, Tensor* predictions, Tensor* labels);
// Return `loss` reduced to shape [N, 1, 1, 1], or unchanged if `terms` specifies no reduction. If `weights` is null,
// every element has the weight in `terms`.
Tensor* reduced_loss(const LossTerms& terms, Builder& b, Tensor* loss, Tensor* weights);

}  // namespace mpsgraph::nngraph
