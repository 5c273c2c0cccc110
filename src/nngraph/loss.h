// What loss filters share: a loss element by element, its derivative, and reductions.
#pragma once

#include "nngraph/definition.h"

namespace mpsgraph::nngraph {

// MPSCNNLossDescriptor.
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

// Of each element, without weight.
struct Losses {
  Tensor *loss, *gradient;
};
Losses losses_of(const LossTerms& terms, Builder& b, Tensor* predictions, Tensor* labels);
// [N, 1, 1, 1], or `loss` itself when nothing is reduced. `weights`: null for the terms' weight everywhere.
Tensor* reduced_loss(const LossTerms& terms, Builder& b, Tensor* loss, Tensor* weights);

}  // namespace mpsgraph::nngraph
