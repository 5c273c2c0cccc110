// MPSNNOptimizer and its three rules: what is encoded for vectors, matrices and the states of layers.
//
// The gradient is clipped, then scaled, then the regularization is added. Of L1 the documentation says that its scale is
// added as it is, whatever the value's sign. An epsilon stands outside its root, and Adam's is not corrected for time.
#include <algorithm>
#include <cmath>

#include "mps/core/matrix.h"
#include "mps/neural_network/states.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace standin;

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

@interface MPSNNOptimizer () {
 @package
  MPSNNOptimizerDescriptor* settings;
}
- (instancetype)initForDevice:(id<MTLDevice>)device settings:(MPSNNOptimizerDescriptor*)given;
@end

@implementation MPSNNOptimizer
- (instancetype)initForDevice:(id<MTLDevice>)device settings:(MPSNNOptimizerDescriptor*)given {
  if (!given) misuse(@"%@ without a descriptor", [self class]);
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

namespace {

// One array that is updated, with its running quantities.
struct Part {
  Rows gradient, values, result;
  std::vector<Rows> moments;
};

// Sets the value and the running quantities of one element; the gradient is prepared.
using Rule = std::function<void(double gradient, double& value, std::vector<double>& moments)>;

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
        misuse(@"%@: a gradient of %ld x %ld and %ld x %ld of %s", who, part.gradient.rows, part.gradient.columns,
               rows.rows, rows.columns, type_name(rows.type));
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

using Moments = std::vector<NSArray<MPSVector*>*>;

Rows single(MPSVector* vector) {
  if (vector.vectors != 1) misuse(@"an optimizer of several vectors in one");
  return rows_of(vector);
}
Rows single(MPSMatrix* matrix) {
  if (matrix.matrices != 1) misuse(@"an optimizer of several matrices in one");
  return rows_of(matrix);
}

template <class Array>
void encode_array(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer, Array* gradient, Array* values,
                  const std::vector<Array*>& moments, Array* result, const Rule& rule) {
  if (!gradient || !values || !result) misuse(@"%@ without a gradient, values or result", [optimizer class]);
  Part part{single(gradient), single(values), single(result), {}};
  NSMutableArray* writes = [NSMutableArray array];
  for (Array* moment : moments) {
    part.moments.push_back(single(moment));
    [writes addObject:moment];
  }
  [writes addObject:result];
  encode_rule(optimizer, buffer, {part}, @[ gradient, values ], writes, rule);
}

// The running quantities of the part with this number; false where the caller wants that part left alone.
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
  if (wanted.empty()) misuse(@"%@: arrays of no vectors", [optimizer class]);
  [writes addObject:result];
  encode_rule(optimizer, buffer, wanted, reads, writes, rule);
}

void encode_convolution(MPSNNOptimizer* optimizer, id<MTLCommandBuffer> buffer,
                        MPSCNNConvolutionGradientState* gradient, MPSCNNConvolutionWeightsAndBiasesState* source,
                        const Moments& moments, MPSCNNConvolutionWeightsAndBiasesState* result, const Rule& rule) {
  if (!gradient || !source || !result) misuse(@"%@ without a state", [optimizer class]);
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
  if (!gradient || !source || !result) misuse(@"%@ without a state", [optimizer class]);
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

template <class Array>
std::vector<Array*> present(std::initializer_list<Array*> arrays) {
  std::vector<Array*> result;
  for (Array* array : arrays)
    if (array) result.push_back(array);
  return result;
}

// What a rule cannot do without.
void require_all(MPSNNOptimizer* optimizer, std::initializer_list<id> arrays) {
  for (id array : arrays)
    if (!array) misuse(@"%@ without what it keeps between steps", [optimizer class]);
}

MPSNNOptimizerDescriptor* with_rate(float rate) {
  return [MPSNNOptimizerDescriptor optimizerDescriptorWithLearningRate:rate
                                                       gradientRescale:1
                                                    regularizationType:MPSNNRegularizationTypeNone
                                                   regularizationScale:0];
}

}  // namespace

// --- stochastic gradient descent -------------------------------------------------------------------------------------

@implementation MPSNNOptimizerStochasticGradientDescent {
  float _momentumScale;
  BOOL _isNesterov;
}

- (instancetype)initWithDevice:(id<MTLDevice>)device learningRate:(float)rate {
  return [self initForDevice:device settings:with_rate(rate)];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 momentumScale:(float)scale
           useNesterovMomentum:(BOOL)nesterov
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)given {
  if (!(self = [self initForDevice:device settings:given])) return nil;
  _momentumScale = scale;
  _isNesterov = nesterov;
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 momentumScale:(float)scale
            useNestrovMomentum:(BOOL)nesterov
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)given {
  return [self initWithDevice:device momentumScale:scale useNesterovMomentum:nesterov optimizerDescriptor:given];
}
- (float)momentumScale {
  return _momentumScale;
}
- (BOOL)useNesterovMomentum {
  return _isNesterov;
}
- (BOOL)useNestrovMomentum {
  return _isNesterov;
}

- (Rule)rule {
  const double rate = self.learningRate, scale = _momentumScale;
  const bool nesterov = _isNesterov;
  return [=](double g, double& v, std::vector<double>& moments) {
    if (moments.empty()) {
      v -= rate * g;
    } else if (nesterov) {
      moments[0] = scale * moments[0] + g;
      v -= rate * (g + scale * moments[0]);
    } else {
      moments[0] = scale * moments[0] + rate * g;
      v -= moments[0];
    }
  };
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientVector:(MPSVector*)gradient
            inputValuesVector:(MPSVector*)values
          inputMomentumVector:(MPSVector*)momentum
           resultValuesVector:(MPSVector*)result {
  encode_array<MPSVector>(self, buffer, gradient, values, present<MPSVector>({momentum}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientMatrix:(MPSMatrix*)gradient
            inputValuesMatrix:(MPSMatrix*)values
          inputMomentumMatrix:(MPSMatrix*)momentum
           resultValuesMatrix:(MPSMatrix*)result {
  encode_array<MPSMatrix>(self, buffer, gradient, values, present<MPSMatrix>({momentum}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradient
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)result {
  encode_convolution(self, buffer, gradient, source, present<NSArray<MPSVector*>>({momentum}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  encode_normalization(self, buffer, state, state, present<NSArray<MPSVector*>>({momentum}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradient
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)source
               inputMomentumVectors:(NSArray<MPSVector*>*)momentum
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  encode_normalization(self, buffer, gradient, source, present<NSArray<MPSVector*>>({momentum}), result, [self rule]);
}
@end

// --- RMSProp ---------------------------------------------------------------------------------------------------------

@implementation MPSNNOptimizerRMSProp {
  double _decay;
  float _epsilon;
}

- (instancetype)initWithDevice:(id<MTLDevice>)device learningRate:(float)rate {
  return [self initWithDevice:device decay:0.9 epsilon:1e-8f optimizerDescriptor:with_rate(rate)];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                         decay:(double)decay
                       epsilon:(float)epsilon
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)given {
  if (!(self = [self initForDevice:device settings:given])) return nil;
  _decay = decay;
  _epsilon = epsilon;
  return self;
}
- (double)decay {
  return _decay;
}
- (float)epsilon {
  return _epsilon;
}

- (Rule)rule {
  const double rate = self.learningRate, decay = _decay, epsilon = _epsilon;
  return [=](double g, double& v, std::vector<double>& moments) {
    moments[0] = decay * moments[0] + (1 - decay) * g * g;
    v -= rate * g / (std::sqrt(moments[0]) + epsilon);
  };
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientVector:(MPSVector*)gradient
            inputValuesVector:(MPSVector*)values
      inputSumOfSquaresVector:(MPSVector*)squares
           resultValuesVector:(MPSVector*)result {
  require_all(self, {squares});
  encode_array<MPSVector>(self, buffer, gradient, values, present<MPSVector>({squares}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientMatrix:(MPSMatrix*)gradient
            inputValuesMatrix:(MPSMatrix*)values
      inputSumOfSquaresMatrix:(MPSMatrix*)squares
           resultValuesMatrix:(MPSMatrix*)result {
  require_all(self, {squares});
  encode_array<MPSMatrix>(self, buffer, gradient, values, present<MPSMatrix>({squares}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradient
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source
     inputSumOfSquaresVectors:(NSArray<MPSVector*>*)squares
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)result {
  require_all(self, {squares});
  encode_convolution(self, buffer, gradient, source, present<NSArray<MPSVector*>>({squares}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
     inputSumOfSquaresVectors:(NSArray<MPSVector*>*)squares
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {squares});
  encode_normalization(self, buffer, state, state, present<NSArray<MPSVector*>>({squares}), result, [self rule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradient
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)source
           inputSumOfSquaresVectors:(NSArray<MPSVector*>*)squares
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {squares});
  encode_normalization(self, buffer, gradient, source, present<NSArray<MPSVector*>>({squares}), result, [self rule]);
}
@end

// --- Adam ------------------------------------------------------------------------------------------------------------

@implementation MPSNNOptimizerAdam {
  double _beta1, _beta2;
  float _epsilon;
}
@synthesize timeStep = _timeStep;

- (instancetype)initWithDevice:(id<MTLDevice>)device learningRate:(float)rate {
  return [self initWithDevice:device
                        beta1:0.9
                        beta2:0.999
                      epsilon:1e-8f
                     timeStep:0
          optimizerDescriptor:with_rate(rate)];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                         beta1:(double)beta1
                         beta2:(double)beta2
                       epsilon:(float)epsilon
                      timeStep:(NSUInteger)timeStep
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)given {
  if (!(self = [self initForDevice:device settings:given])) return nil;
  _beta1 = beta1;
  _beta2 = beta2;
  _epsilon = epsilon;
  _timeStep = timeStep;
  return self;
}
- (double)beta1 {
  return _beta1;
}
- (double)beta2 {
  return _beta2;
}
- (float)epsilon {
  return _epsilon;
}

// Of the next step: each encode is one.
- (Rule)nextRule {
  ++_timeStep;
  const double t = static_cast<double>(_timeStep), beta1 = _beta1, beta2 = _beta2, epsilon = _epsilon;
  const double rate = self.learningRate * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
  return [=](double g, double& v, std::vector<double>& moments) {
    moments[0] = beta1 * moments[0] + (1 - beta1) * g;
    moments[1] = beta2 * moments[1] + (1 - beta2) * g * g;
    double square = moments[1];
    if (moments.size() > 2) square = moments[2] = std::max(moments[2], moments[1]);
    v -= rate * moments[0] / (std::sqrt(square) + epsilon);
  };
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientVector:(MPSVector*)gradient
            inputValuesVector:(MPSVector*)values
          inputMomentumVector:(MPSVector*)momentum
          inputVelocityVector:(MPSVector*)velocity
        maximumVelocityVector:(MPSVector*)maximum
           resultValuesVector:(MPSVector*)result {
  require_all(self, {momentum, velocity});
  encode_array<MPSVector>(self, buffer, gradient, values, present<MPSVector>({momentum, velocity, maximum}), result,
                          [self nextRule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientMatrix:(MPSMatrix*)gradient
            inputValuesMatrix:(MPSMatrix*)values
          inputMomentumMatrix:(MPSMatrix*)momentum
          inputVelocityMatrix:(MPSMatrix*)velocity
        maximumVelocityMatrix:(MPSMatrix*)maximum
           resultValuesMatrix:(MPSMatrix*)result {
  require_all(self, {momentum, velocity});
  encode_array<MPSMatrix>(self, buffer, gradient, values, present<MPSMatrix>({momentum, velocity, maximum}), result,
                          [self nextRule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradient
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
         inputVelocityVectors:(NSArray<MPSVector*>*)velocity
       maximumVelocityVectors:(NSArray<MPSVector*>*)maximum
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)result {
  require_all(self, {momentum, velocity});
  encode_convolution(self, buffer, gradient, source, present<NSArray<MPSVector*>>({momentum, velocity, maximum}),
                     result, [self nextRule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
         inputVelocityVectors:(NSArray<MPSVector*>*)velocity
       maximumVelocityVectors:(NSArray<MPSVector*>*)maximum
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {momentum, velocity});
  encode_normalization(self, buffer, state, state, present<NSArray<MPSVector*>>({momentum, velocity, maximum}), result,
                       [self nextRule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradient
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)source
               inputMomentumVectors:(NSArray<MPSVector*>*)momentum
               inputVelocityVectors:(NSArray<MPSVector*>*)velocity
             maximumVelocityVectors:(NSArray<MPSVector*>*)maximum
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {momentum, velocity});
  encode_normalization(self, buffer, gradient, source, present<NSArray<MPSVector*>>({momentum, velocity, maximum}),
                       result, [self nextRule]);
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientVector:(MPSVector*)gradient
            inputValuesVector:(MPSVector*)values
          inputMomentumVector:(MPSVector*)momentum
          inputVelocityVector:(MPSVector*)velocity
           resultValuesVector:(MPSVector*)result {
  [self encodeToCommandBuffer:buffer
          inputGradientVector:gradient
            inputValuesVector:values
          inputMomentumVector:momentum
          inputVelocityVector:velocity
        maximumVelocityVector:nil
           resultValuesVector:result];
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
          inputGradientMatrix:(MPSMatrix*)gradient
            inputValuesMatrix:(MPSMatrix*)values
          inputMomentumMatrix:(MPSMatrix*)momentum
          inputVelocityMatrix:(MPSMatrix*)velocity
           resultValuesMatrix:(MPSMatrix*)result {
  [self encodeToCommandBuffer:buffer
          inputGradientMatrix:gradient
            inputValuesMatrix:values
          inputMomentumMatrix:momentum
          inputVelocityMatrix:velocity
        maximumVelocityMatrix:nil
           resultValuesMatrix:result];
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradient
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)source
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
         inputVelocityVectors:(NSArray<MPSVector*>*)velocity
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)result {
  require_all(self, {momentum, velocity});
  [self encodeToCommandBuffer:buffer
      convolutionGradientState:gradient
        convolutionSourceState:source
          inputMomentumVectors:momentum
          inputVelocityVectors:velocity
        maximumVelocityVectors:nil
                   resultState:result];
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
         inputMomentumVectors:(NSArray<MPSVector*>*)momentum
         inputVelocityVectors:(NSArray<MPSVector*>*)velocity
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {momentum, velocity});
  [self encodeToCommandBuffer:buffer
      batchNormalizationState:state
         inputMomentumVectors:momentum
         inputVelocityVectors:velocity
       maximumVelocityVectors:nil
                  resultState:result];
}

- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)buffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradient
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)source
               inputMomentumVectors:(NSArray<MPSVector*>*)momentum
               inputVelocityVectors:(NSArray<MPSVector*>*)velocity
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)result {
  require_all(self, {momentum, velocity});
  [self encodeToCommandBuffer:buffer
      batchNormalizationGradientState:gradient
        batchNormalizationSourceState:source
                 inputMomentumVectors:momentum
                 inputVelocityVectors:velocity
               maximumVelocityVectors:nil
                          resultState:result];
}
@end
