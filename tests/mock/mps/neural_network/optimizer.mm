// MPSNNOptimizer: encoding for vectors, matrices, and states of layers, with any update rule.
//
// The gradient is clipped, then scaled, and then the regularization term is added. For L1 regularization, the
// documentation says that the scale is added regardless of the sign of the value.
#include <algorithm>

#include "mps/neural_network/optimizer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

// --- descriptor and base ---------------------------------------------------------------------------------------------

@implementation MPSNNOptimizerDescriptor
@synthesize learningRate = _learningRate, gradientRescale = _gradientRescale;
@synthesize applyGradientClipping = _applyGradientClipping;
@synthesize gradientClipMax = _gradientClipMax, gradientClipMin = _gradientClipMin;
@synthesize regularizationType = _regularizationType, regularizationScale = _regularizationScale;

- (instancetype)init {
  if (!(self = [super init])) return nil;
  _learningRate = 1e-3f;
  _gradientRescale = 1;
  return self;
}
- (instancetype)initWithLearningRate:(float)learningRate
                     gradientRescale:(float)gradientRescale
               applyGradientClipping:(BOOL)applyGradientClipping
                     gradientClipMax:(float)gradientClipMax
                     gradientClipMin:(float)gradientClipMin
                  regularizationType:(MPSNNRegularizationType)regularizationType
                 regularizationScale:(float)regularizationScale {
  if (!(self = [super init])) return nil;
  _learningRate = learningRate;
  _gradientRescale = gradientRescale;
  _applyGradientClipping = applyGradientClipping;
  _gradientClipMax = gradientClipMax;
  _gradientClipMin = gradientClipMin;
  _regularizationType = regularizationType;
  _regularizationScale = regularizationScale;
  return self;
}
- (instancetype)initWithLearningRate:(float)learningRate
                     gradientRescale:(float)gradientRescale
                  regularizationType:(MPSNNRegularizationType)regularizationType
                 regularizationScale:(float)regularizationScale {
  return [self initWithLearningRate:learningRate
                    gradientRescale:gradientRescale
              applyGradientClipping:NO
                    gradientClipMax:0
                    gradientClipMin:0
                 regularizationType:regularizationType
                regularizationScale:regularizationScale];
}
+ (instancetype)optimizerDescriptorWithLearningRate:(float)learningRate
                                    gradientRescale:(float)gradientRescale
                              applyGradientClipping:(BOOL)applyGradientClipping
                                    gradientClipMax:(float)gradientClipMax
                                    gradientClipMin:(float)gradientClipMin
                                 regularizationType:(MPSNNRegularizationType)regularizationType
                                regularizationScale:(float)regularizationScale {
  return [[self alloc] initWithLearningRate:learningRate
                            gradientRescale:gradientRescale
                      applyGradientClipping:applyGradientClipping
                            gradientClipMax:gradientClipMax
                            gradientClipMin:gradientClipMin
                         regularizationType:regularizationType
                        regularizationScale:regularizationScale];
}
+ (instancetype)optimizerDescriptorWithLearningRate:(float)learningRate
                                    gradientRescale:(float)gradientRescale
                                 regularizationType:(MPSNNRegularizationType)regularizationType
                                regularizationScale:(float)regularizationScale {
  return [[self alloc] initWithLearningRate:learningRate
                            gradientRescale:gradientRescale
                         regularizationType:regularizationType
                        regularizationScale:regularizationScale];
}
@end

@implementation MPSNNOptimizer
- (instancetype)initForDevice:(id<MTLDevice>)device settings:(MPSNNOptimizerDescriptor*)given {
  if (!given) misuse(@"%@: the descriptor must not be nil", [self class]);
  if (!(self = [super initWithDevice:device])) return nil;
  settings = [[MPSNNOptimizerDescriptor alloc] initWithLearningRate:given.learningRate
                                                    gradientRescale:given.gradientRescale
                                              applyGradientClipping:given.applyGradientClipping
                                                    gradientClipMax:given.gradientClipMax
                                                    gradientClipMin:given.gradientClipMin
                                                 regularizationType:given.regularizationType
                                                regularizationScale:given.regularizationScale];
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  misuse(@"initWithDevice: of a %@", [self class]);
}
- (float)learningRate {
  return settings.learningRate;
}
- (void)setLearningRate:(float)rate {
  settings.learningRate = rate;
}
- (BOOL)applyGradientClipping {
  return settings.applyGradientClipping;
}
- (void)setApplyGradientClipping:(BOOL)apply {
  settings.applyGradientClipping = apply;
}
- (float)gradientRescale {
  return settings.gradientRescale;
}
- (float)gradientClipMax {
  return settings.gradientClipMax;
}
- (float)gradientClipMin {
  return settings.gradientClipMin;
}
- (MPSNNRegularizationType)regularizationType {
  return settings.regularizationType;
}
- (float)regularizationScale {
  return settings.regularizationScale;
}
@end

// --- encoding --------------------------------------------------------------------------------------------------------

namespace mock {
namespace {

// One array to update, with its running statistics.
struct Part {
  Rows gradient, values, result;
  std::vector<Rows> moments;
};

void apply(const Part& part, const std::function<double(double, double)>& prepare, const Rule& rule) {
  const Value gradient = part.gradient.load();
  Value values = part.values.load();
  Values moments;
  for (const Rows& rows : part.moments) moments.push_back(rows.load());
  for (int64_t i = 0; i < values.count(); ++i) {
    double value = values.real(i);
    std::vector<double> running;
    for (const Value& moment : moments) running.push_back(moment.real(i));
    rule(prepare(gradient.real(i), value), value, running);
    values.set(i, value);
    for (size_t k = 0; k < moments.size(); ++k) moments[k].set(i, running[k]);
  }
  part.result.store(values);
  for (size_t k = 0; k < moments.size(); ++k) part.moments[k].store(moments[k]);
}

void encode_rule(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer, const std::vector<Part>& parts, NSArray* reads,
                 NSArray* writes, const Rule& rule) {
  NSString* who = NSStringFromClass([optimizer class]);
  for (const Part& part : parts) {
    std::vector<Rows> all = part.moments;
    all.insert(all.end(), {part.values, part.result});
    for (const Rows& rows : all)
      if (rows.rows != part.gradient.rows || rows.columns != part.gradient.columns || rows.type != part.values.type)
        misuse(@"%@: expected arrays of %ld x %ld like the gradient and of type %s, got %ld x %ld of %s", who,
               part.gradient.rows, part.gradient.columns, type_name(part.values.type), rows.rows, rows.columns,
               type_name(rows.type));
  }
  const bool clips = optimizer.applyGradientClipping;
  const double most = optimizer.gradientClipMax, least = optimizer.gradientClipMin;
  const double rescale = optimizer.gradientRescale, scale = optimizer.regularizationScale;
  const MPSNNRegularizationType type = optimizer.regularizationType;
  const auto prepare = [=](double gradient, double value) {
    if (clips) gradient = std::min(std::max(gradient, least), most);
    gradient *= rescale;
    if (type == MPSNNRegularizationTypeL1) gradient += scale;
    if (type == MPSNNRegularizationTypeL2) gradient += scale * value;
    return gradient;
  };
  encode(buffer, who, reads, writes, [=] {
    for (const Part& part : parts) apply(part, prepare, rule);
  });
}

Rows single(MPSVector* vector) {
  if (vector.vectors != 1)
    misuse(@"an optimizer requires MPSVector objects with a single vector, got %lu", vector.vectors);
  return rows_of(vector);
}
Rows single(MPSMatrix* matrix) {
  if (matrix.matrices != 1)
    misuse(@"an optimizer requires MPSMatrix objects with a single matrix, got %lu", matrix.matrices);
  return rows_of(matrix);
}

template <class Array>
void encode_array(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer, Array* gradient, Array* values,
                  const std::vector<Array*>& moments, Array* result, const Rule& rule) {
  if (!gradient || !values || !result)
    misuse(@"%@: the gradient, the values, and the result must not be nil", [optimizer class]);
  Part part{single(gradient), single(values), single(result), {}};
  NSMutableArray* writes = [NSMutableArray array];
  for (Array* moment : moments) {
    part.moments.push_back(single(moment));
    [writes addObject:moment];
  }
  [writes addObject:result];
  encode_rule(optimizer, buffer, {part}, @[ gradient, values ], writes, rule);
}

// Append the running statistics of the part with this index. Return false if the caller passed none, so that the part
// is not updated.
bool moments_at(size_t number, const Moments& moments, std::vector<Rows>& rows) {
  for (NSArray<MPSVector*>* vectors : moments) {
    if (vectors.count <= number) return false;
    rows.push_back(single(vectors[number]));
  }
  return true;
}

void encode_state(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer, std::vector<Part> parts,
                  const Moments& moments, NSArray* reads, MPSState* result, const Rule& rule) {
  std::vector<Part> wanted;
  NSMutableArray* writes = [NSMutableArray array];
  for (NSArray* vectors : moments) [writes addObjectsFromArray:vectors];
  for (size_t i = 0; i < parts.size(); ++i)
    if (moments_at(i, moments, parts[i].moments)) wanted.push_back(parts[i]);
  if (wanted.empty()) misuse(@"%@: the arrays of running statistics must not be empty", [optimizer class]);
  [writes addObject:result];
  encode_rule(optimizer, buffer, wanted, reads, writes, rule);
}

}  // namespace

void encode_vector(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer, MPSVector* gradient, MPSVector* values,
                   const std::vector<MPSVector*>& moments, MPSVector* result, const Rule& rule) {
  encode_array(optimizer, buffer, gradient, values, moments, result, rule);
}
void encode_matrix(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer, MPSMatrix* gradient, MPSMatrix* values,
                   const std::vector<MPSMatrix*>& moments, MPSMatrix* result, const Rule& rule) {
  encode_array(optimizer, buffer, gradient, values, moments, result, rule);
}

void encode_convolution(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer,
                        MPSCNNConvolutionGradientState* gradient, MPSCNNConvolutionWeightsAndBiasesState* source,
                        const Moments& moments, MPSCNNConvolutionWeightsAndBiasesState* result, const Rule& rule) {
  if (!gradient || !source || !result)
    misuse(@"%@: the gradient, source, and result states must not be nil", [optimizer class]);
  const NSUInteger weights = gradient.gradientForWeights.length / sizeof(float);
  const NSUInteger biases = gradient.gradientForBiases.length / sizeof(float);
  std::vector<Part> parts = {{floats_of(gradient.gradientForWeights, 0, weights),
                              floats_of(source.weights, source.weightsOffset, weights),
                              floats_of(result.weights, result.weightsOffset, weights),
                              {}}};
  if (source.biases && result.biases)
    parts.push_back({floats_of(gradient.gradientForBiases, 0, biases),
                     floats_of(source.biases, source.biasesOffset, biases),
                     floats_of(result.biases, result.biasesOffset, biases),
                     {}});
  encode_state(optimizer, buffer, parts, moments, @[ gradient, source ], result, rule);
}

void encode_normalization(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer,
                          MPSCNNBatchNormalizationState* gradient, MPSCNNBatchNormalizationState* source,
                          const Moments& moments, MPSCNNNormalizationGammaAndBetaState* result, const Rule& rule) {
  if (!gradient || !source || !result)
    misuse(@"%@: the gradient, source, and result states must not be nil", [optimizer class]);
  const NSUInteger count = gradient->channels;
  const std::vector<Part> parts = {{floats_of(gradient.gradientForGamma, 0, count),
                                    floats_of(source.gamma, 0, count),
                                    floats_of(result.gamma, 0, count),
                                    {}},
                                   {floats_of(gradient.gradientForBeta, 0, count),
                                    floats_of(source.beta, 0, count),
                                    floats_of(result.beta, 0, count),
                                    {}}};
  encode_state(optimizer, buffer, parts, moments, @[ gradient, source ], result, rule);
}

}  // namespace mock
