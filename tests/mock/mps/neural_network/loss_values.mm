// The formulas of losses, where y is the source and t the label.
//
// Where the documentation contradicts itself, the mock chooses as follows. The hinge loss is max(1 + (1 - 2 t) y, 0),
// whose derivative is the documented gradient. Huber's gradient has the sign of y - t beyond delta. The gradient of the
// Kullback-Leibler divergence is NaN, because the text and the derivative differ, and so is the gradient of the
// absolute error at 0.
#include <algorithm>
#include <cmath>

#include "mps/neural_network/loss.h"

namespace mock {

namespace {

// Return the log-softmax over the channels of each pixel.
Images log_softmax(Images images) {
  const auto channels = static_cast<ptrdiff_t>(images.shape.channels);
  for (auto from = images.v.begin(); from != images.v.end(); from += channels) {
    const double most = *std::max_element(from, from + channels);
    double sum = 0;
    for (auto at = from; at != from + channels; ++at) sum += std::exp(*at - most);
    for (auto at = from; at != from + channels; ++at) *at -= most + std::log(sum);
  }
  return images;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

Loss Loss::of(MPSCNNLossDescriptor* d) {
  Loss loss{d.lossType, d.reductionType, static_cast<bool>(d.reduceAcrossBatch), d.weight, d.labelSmoothing,
            d.epsilon,  d.delta,         static_cast<int64_t>(d.numberOfClasses)};
  if (loss.type >= MPSCNNLossTypeCount) misuse(@"loss type %u", static_cast<unsigned>(loss.type));
  if (loss.reduction < 0 || loss.reduction >= MPSCNNReductionTypeCount)
    misuse(@"reduction type %d", static_cast<int>(loss.reduction));
  if (loss.type == MPSCNNLossTypeCosineDistance && loss.reduction != MPSCNNReductionTypeSum)
    misuse(@"the cosine distance requires the sum reduction");
  return loss;
}

double Loss::label(double t) const {
  if (smoothing == 0) return t;
  if (type == MPSCNNLossTypeSoftMaxCrossEntropy) return t * (1 - smoothing) + smoothing / static_cast<double>(classes);
  if (type == MPSCNNLossTypeSigmoidCrossEntropy) return t * (1 - smoothing) + 0.5 * smoothing;
  return t;
}

Images Loss::values(const Images& y, const Images& labels, const Images* weights) const {
  Images result = type == MPSCNNLossTypeSoftMaxCrossEntropy ? log_softmax(y) : y;
  for (size_t i = 0; i < result.v.size(); ++i) {
    const double x = result.v[i], t = label(labels.v[i]), d = std::fabs(x - t);
    double& to = result.v[i];
    switch (type) {
      case MPSCNNLossTypeMeanAbsoluteError: to = d; break;
      case MPSCNNLossTypeMeanSquaredError: to = d * d; break;
      case MPSCNNLossTypeSoftMaxCrossEntropy: to = t == 0 ? 0 : -t * x; break;
      case MPSCNNLossTypeSigmoidCrossEntropy: to = std::fmax(x, 0) - x * t + std::log1p(std::exp(-std::fabs(x))); break;
      case MPSCNNLossTypeCategoricalCrossEntropy: to = -t * std::log(x); break;
      case MPSCNNLossTypeHinge: to = std::fmax(1 + (1 - 2 * t) * x, 0); break;
      case MPSCNNLossTypeHuber: to = d <= delta ? 0.5 * d * d : 0.5 * delta * delta + delta * (d - delta); break;
      case MPSCNNLossTypeCosineDistance: to = -x * t; break;
      case MPSCNNLossTypeLog: to = -t * std::log(x + epsilon) - (1 - t) * std::log(1 - x + epsilon); break;
      default: to = t == 0 ? 0 : t * (std::log(t) - x); break;
    }
    to *= factor(weights, i);
  }
  return result;
}

Images Loss::gradients(const Images& y, const Images& labels, const Images* weights) const {
  Images result = type == MPSCNNLossTypeSoftMaxCrossEntropy ? log_softmax(y) : y;
  for (size_t i = 0; i < result.v.size(); ++i) {
    const double x = result.v[i], t = label(labels.v[i]), d = x - t, s = 1 - 2 * t;
    double& to = result.v[i];
    switch (type) {
      case MPSCNNLossTypeMeanAbsoluteError: to = d / std::fabs(d); break;
      case MPSCNNLossTypeMeanSquaredError: to = 2 * d; break;
      case MPSCNNLossTypeSoftMaxCrossEntropy: to = std::exp(x) - t; break;
      case MPSCNNLossTypeSigmoidCrossEntropy: to = sigmoid(x) - t; break;
      case MPSCNNLossTypeCategoricalCrossEntropy: to = -t / x; break;
      case MPSCNNLossTypeHinge: to = 1 + s * x > 0 ? s : 0; break;
      case MPSCNNLossTypeHuber: to = std::fabs(d) > delta ? std::copysign(delta, d) : d; break;
      case MPSCNNLossTypeCosineDistance: to = -t; break;
      case MPSCNNLossTypeLog:
        to = (-2 * epsilon * t - t + x + epsilon) / (x * (1 - x) + epsilon * (epsilon + 1));
        break;
      default: to = NAN; break;
    }
    to *= factor(weights, i);
  }
  return result;
}

// Label gradients are only documented for the following losses.
Images Loss::label_gradients(const Images& y, const Images& labels, const Images* weights) const {
  Images result = labels;
  for (size_t i = 0; i < result.v.size(); ++i) {
    const double d = labels.v[i] - y.v[i];
    switch (type) {
      case MPSCNNLossTypeMeanAbsoluteError: result.v[i] = d / std::fabs(d); break;
      case MPSCNNLossTypeMeanSquaredError: result.v[i] = 2 * d; break;
      case MPSCNNLossTypeHuber: result.v[i] = std::fabs(d) > delta ? std::copysign(delta, d) : d; break;
      default: misuse(@"the label gradient of loss type %u is not documented", static_cast<unsigned>(type));
    }
    result.v[i] *= factor(weights, i);
  }
  return result;
}

std::vector<Images> Loss::reduced(const Images& values, const Images* weights) const {
  const auto size = static_cast<size_t>(values.shape.count()), batch = static_cast<size_t>(values.batch);
  std::vector<Images> result;
  if (reduction == MPSCNNReductionTypeNone) {
    for (size_t n = 0; n < batch; ++n) {
      Images image(1, values.shape);
      std::copy_n(values.v.begin() + static_cast<ptrdiff_t>(n * size), size, image.v.begin());
      result.push_back(std::move(image));
    }
    return result;
  }
  const double images = across_batch ? static_cast<double>(batch) : 1;
  const double elements = static_cast<double>(values.shape.height * values.shape.width) *
                          (type == MPSCNNLossTypeSoftMaxCrossEntropy ? 1 : static_cast<double>(values.shape.channels));
  double total = 0, total_nonzero = 0;
  for (size_t n = 0; n < batch; ++n) {
    double sum = type == MPSCNNLossTypeCosineDistance ? 1 : 0, nonzero = 0;
    for (size_t i = n * size; i < (n + 1) * size; ++i) {
      sum += values.v[i];
      nonzero += factor(weights, i) != 0;
    }
    total += sum;
    total_nonzero += nonzero;
    const bool last = n + 1 == batch;
    if (across_batch) sum = last ? total : 0, nonzero = total_nonzero;
    if (reduction == MPSCNNReductionTypeMean) sum /= elements * images;
    if (reduction == MPSCNNReductionTypeSumByNonZeroWeights && sum != 0) sum /= nonzero;
    result.emplace_back(1, Shape{}, sum);
  }
  if (across_batch) std::swap(result.front(), result.back());  // the first image receives the sum, the others 0
  return result;
}

}  // namespace mock
