// Batch, instance, and group normalization: y = (x - mean) gamma / sqrt(variance + epsilon) + beta, with the statistics
// of a channel over the batch, of a channel of an image, or of a group of channels of an image.
//
// The variance divides by the number of elements, not by one less; Apple does not document which applies. The two
// updates of a data source may come in either order.
#include <cfloat>
#include <cmath>
#include <random>

#include "mps/neural_network/layer.h"

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"
#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

using namespace mock;

#define IMAGE_STATE(name)                                                                      \
  @implementation MPSCNN                                                                       \
  ##name##NormalizationGradientState - (id<MTLBuffer>)gamma { return [self bufferAtIndex:0]; } \
  -(id<MTLBuffer>)beta {                                                                       \
    return [self bufferAtIndex:1];                                                             \
  }                                                                                            \
  -(id<MTLBuffer>)gradientForGamma {                                                           \
    return [self bufferAtIndex:2];                                                             \
  }                                                                                            \
  -(id<MTLBuffer>)gradientForBeta {                                                            \
    return [self bufferAtIndex:3];                                                             \
  }                                                                                            \
  @end
IMAGE_STATE(Instance)
IMAGE_STATE(Group)

namespace {

struct Parameters {
  std::mutex mutex;
  std::vector<double> gamma, beta, mean, variance;
};

// Buffers of one state, for use by commands.
struct StateBuffers {
  id<MTLBuffer> gamma, beta, of_gamma, of_beta, mean, variance;
};

struct Kept {
  std::vector<StateBuffers> states;
  std::vector<double> mean, variance;  // one per group of elements with common statistics
  bool is_of_batch = true;  // whether the statistics depend on the source
  std::vector<double> gamma;
};

template <class L, class Source>
struct Normalization : SameSize<L> {
  Source source = nil;
  size_t channels = 0;
  double epsilon = FLT_MIN;
  std::shared_ptr<Parameters> held;

  NSString* name() const { return NSStringFromClass([(NSObject*)source class]); }

  void read(bool has_statistics) {
    channels = [source numberOfFeatureChannels];
    if (channels == 0) misuse(@"%@: numberOfFeatureChannels must be at least 1, got 0", name());
    epsilon = [source respondsToSelector:@selector(epsilon)] ? [source epsilon] : FLT_MIN;
    const std::lock_guard lock(held->mutex);
    held->gamma = floats([source gamma], channels, 1);
    held->beta = floats([source beta], channels, 0);
    if (!has_statistics) return;
    id<MPSCNNBatchNormalizationDataSource> batch = (id<MPSCNNBatchNormalizationDataSource>)source;
    const float *mean = [batch mean], *variance = [batch variance];
    held->mean = mean ? floats(mean, channels, 0) : std::vector<double>();
    held->variance = variance ? floats(variance, channels, 0) : std::vector<double>();
  }

  void require_channels(const Call& call) const {
    if (call.shapes[0].channels != static_cast<int64_t>(channels))
      misuse(@"%@ expects %lu feature channels, but its source has %ld", call.filter.name, channels,
             call.shapes[0].channels);
  }

  // Call visit(index, group with common statistics, channel, image) for each element.
  template <class Visit>
  void for_each(const Call& call, const Visit& visit) const {
    const auto pixels = static_cast<size_t>(call.shape.height * call.shape.width);
    size_t at = 0;
    for (size_t n = 0; n < static_cast<size_t>(call.batch); ++n)
      for (size_t i = 0; i < pixels; ++i)
        for (size_t c = 0; c < channels; ++c, ++at) visit(at, static_cast<const L*>(this)->group(n, c), c, n);
  }

  Images normalize(Call& call, Kept& kept, size_t groups, bool is_of_batch) {
    const std::vector<double>& x = call.sources[0]->v;
    const std::lock_guard lock(held->mutex);
    kept.is_of_batch = is_of_batch;
    kept.gamma = held->gamma;
    if (is_of_batch) {
      std::vector<double> count(groups);
      kept.mean.assign(groups, 0);
      kept.variance.assign(groups, 0);
      for_each(call, [&](size_t at, size_t g, size_t, size_t) { kept.mean[g] += x[at], count[g] += 1; });
      for (size_t g = 0; g < groups; ++g) kept.mean[g] /= count[g];
      for_each(call, [&](size_t at, size_t g, size_t, size_t) {
        kept.variance[g] += (x[at] - kept.mean[g]) * (x[at] - kept.mean[g]);
      });
      for (size_t g = 0; g < groups; ++g) kept.variance[g] /= count[g];
    } else {
      if (held->mean.empty() || held->variance.empty())
        misuse(@"%@: the data source %@ must provide a mean and a variance", call.filter.name, name());
      kept.mean = held->mean;
      kept.variance = held->variance;
    }
    Images result(call.batch, call.shape);
    for_each(call, [&](size_t at, size_t g, size_t c, size_t) {
      result.v[at] = (x[at] - kept.mean[g]) * held->gamma[c] / std::sqrt(kept.variance[g] + epsilon) + held->beta[c];
    });
    for (const StateBuffers& state : kept.states) {
      store_floats(state.gamma, 0, held->gamma);
      store_floats(state.beta, 0, held->beta);
      if (!state.mean) continue;
      store_floats(state.mean, 0, kept.mean);
      store_floats(state.variance, 0, kept.variance);
    }
    return result;
  }

  Images gradient(Call& call, const Images& of_result, size_t) override {
    const Kept& kept = *static_cast<Kept*>(call.kept.get());
    const std::vector<double>&x = call.sources[0]->v, &error = of_result.v;
    const size_t groups = kept.mean.size(), states = kept.states.size();
    std::vector<double> count(groups), sum(groups), product(groups);
    std::vector<std::vector<double>> of_gamma(states, std::vector<double>(channels)), of_beta = of_gamma;
    const auto unit = [&](size_t at, size_t g) {
      return (x[at] - kept.mean[g]) / std::sqrt(kept.variance[g] + epsilon);
    };
    for_each(call, [&](size_t at, size_t g, size_t c, size_t n) {
      const double scaled = error[at] * kept.gamma[c];
      count[g] += 1;
      sum[g] += scaled;
      product[g] += scaled * unit(at, g);
      of_gamma[states == 1 ? 0 : n][c] += error[at] * unit(at, g);
      of_beta[states == 1 ? 0 : n][c] += error[at];
    });
    for (size_t i = 0; i < states; ++i) {
      store_floats(kept.states[i].of_gamma, 0, of_gamma[i]);
      store_floats(kept.states[i].of_beta, 0, of_beta[i]);
    }
    Images result(call.batch, call.shape);
    for_each(call, [&](size_t at, size_t g, size_t c, size_t) {
      double value = error[at] * kept.gamma[c];
      if (kept.is_of_batch) value -= (sum[g] + unit(at, g) * product[g]) / count[g];
      result.v[at] = value / std::sqrt(kept.variance[g] + epsilon);
    });
    return result;
  }

  // Encode the copy of gamma and beta, or of mean and variance, from the state that an update returned.
  void take(Call& call, id<MTLCommandBuffer> buffer, MPSState* changed, bool statistics) {
    if (!changed) return;
    id<MTLBuffer> first, second;
    if (statistics) {
      first = ((MPSCNNNormalizationMeanAndVarianceState*)changed).mean;
      second = ((MPSCNNNormalizationMeanAndVarianceState*)changed).variance;
    } else {
      first = ((MPSCNNNormalizationGammaAndBetaState*)changed).gamma;
      second = ((MPSCNNNormalizationGammaAndBetaState*)changed).beta;
    }
    auto parameters = held;
    const size_t count = channels;
    encode(buffer, call.filter.name, @[ changed ], @[], [=] {
      const std::lock_guard lock(parameters->mutex);
      (statistics ? parameters->mean : parameters->gamma) = load_floats(first, 0, count);
      (statistics ? parameters->variance : parameters->beta) = load_floats(second, 0, count);
    });
  }
};

// --- batch -----------------------------------------------------------------------------------------------------------

struct BatchNormalization : Normalization<BatchNormalization, id<MPSCNNBatchNormalizationDataSource>> {
  MPSCNNBatchNormalizationFlags flags = MPSCNNBatchNormalizationFlagsDefault;

  size_t group(size_t, size_t c) const { return c; }
  bool load(id<MTLDevice>) override {
    if (!held) held = std::make_shared<Parameters>();
    if (![source load]) return false;
    read(true);
    [source purge];
    return true;
  }
  Shape prepare(Call& call) override {
    require_channels(call);
    return call.shapes[0];
  }
  bool responds(SEL selector) const {
    return style != MPSNNTrainingStyleUpdateDeviceNone && [source respondsToSelector:selector];
  }
  SEL parameter_update() const {
    return by_cpu() ? @selector(updateGammaAndBetaWithBatchNormalizationState:)
                    : @selector(updateGammaAndBetaWithCommandBuffer:batchNormalizationState:);
  }
  SEL statistics_update() const {
    return by_cpu() ? @selector(updateMeanAndVarianceWithBatchNormalizationState:)
                    : @selector(updateMeanAndVarianceWithCommandBuffer:batchNormalizationState:);
  }
  bool trains() const override { return responds(parameter_update()) || responds(statistics_update()); }

  void remember(Call& call, bool is_temporary) override {
    MPSCNNBatchNormalizationState* state =
        is_temporary ? [[MPSCNNBatchNormalizationState alloc] initForChannels:channels commandBuffer:call.buffer]
                     : [[MPSCNNBatchNormalizationState alloc] initForChannels:channels device:call.device];
    call.states = @[ state ];
    auto kept = std::make_shared<Kept>();
    kept->states = {
        {state.gamma, state.beta, state.gradientForGamma, state.gradientForBeta, state.mean, state.variance}};
    call.kept = kept;
  }
  Images run(Call& call) override {
    const bool has_gradient = call.kept != nullptr;
    if (!has_gradient) call.kept = std::make_shared<Kept>();
    const auto which = flags & MPSCNNBatchNormalizationFlagsCalculateStatisticsMask;
    const bool is_of_batch = which == MPSCNNBatchNormalizationFlagsCalculateStatisticsAutomatic
                                 ? has_gradient
                                 : which == MPSCNNBatchNormalizationFlagsCalculateStatisticsAlways;
    return normalize(call, *static_cast<Kept*>(call.kept.get()), channels, is_of_batch);
  }

  void update(Call& call, id<MTLCommandBuffer> buffer) override {
    auto* state = (MPSCNNBatchNormalizationState*)call.states[0];
    const bool parameters = responds(parameter_update()), statistics = responds(statistics_update());
    if (by_cpu()) return update_by_cpu(buffer, call.device, state, parameters, statistics);
    const NSUInteger updates = (parameters ? 1 : 0) + (statistics ? 1 : 0);
    if (state.isTemporary) state.readCount = state.readCount - 1 + updates;
    static thread_local std::minstd_rand random(std::random_device{}());
    const bool statistics_first = random() % 2;
    if (statistics && statistics_first) update_statistics(call, buffer, state);
    if (parameters) {
      const NSUInteger before = state.readCount;
      MPSState* changed = [source updateGammaAndBetaWithCommandBuffer:buffer batchNormalizationState:state];
      require_lowered([name() stringByAppendingString:@" updateGammaAndBetaWithCommandBuffer:batchNormalizationState:"],
                      state, before);
      take(call, buffer, changed, false);
    }
    if (statistics && !statistics_first) update_statistics(call, buffer, state);
  }
  void update_statistics(Call& call, id<MTLCommandBuffer> buffer, MPSCNNBatchNormalizationState* state) {
    const NSUInteger before = state.readCount;
    MPSState* changed = [source updateMeanAndVarianceWithCommandBuffer:buffer batchNormalizationState:state];
    require_lowered(
        [name() stringByAppendingString:@" updateMeanAndVarianceWithCommandBuffer:batchNormalizationState:"], state,
        before);
    take(call, buffer, changed, true);
  }
  void update_by_cpu(id<MTLCommandBuffer> buffer, id<MTLDevice> device, MPSCNNBatchNormalizationState* state,
                     bool parameters, bool statistics) {
    if (!parameters && !statistics) return;
    [state synchronizeOnCommandBuffer:buffer];
    auto self = std::make_shared<BatchNormalization>(*this);
    [buffer addCompletedHandler:^(id<MTLCommandBuffer> done) {
      if (done.error) return;
      bool changed = false;
      if (statistics && [self->source updateMeanAndVarianceWithBatchNormalizationState:state]) changed = true;
      if (parameters && [self->source updateGammaAndBetaWithBatchNormalizationState:state]) changed = true;
      if (changed) self->load(device);
    }];
  }
};

// --- instance and group ----------------------------------------------------------------------------------------------

// Instance and group normalization make one state per image, and an update receives all of them.
template <class L, class Source>
struct ImageNormalization : Normalization<L, Source> {
  using Base = Normalization<L, Source>;
  L& own() { return static_cast<L&>(*this); }

  bool load(id<MTLDevice>) override {
    if (!Base::held) Base::held = std::make_shared<Parameters>();
    id source = Base::source;  // its methods load and purge are optional
    if ([source respondsToSelector:@selector(load)] && ![(id<MPSCNNInstanceNormalizationDataSource>)source load])
      return false;
    Base::read(false);
    own().read_more();
    if ([source respondsToSelector:@selector(purge)]) [(id<MPSCNNInstanceNormalizationDataSource>)source purge];
    return true;
  }
  Shape prepare(Call& call) override {
    Base::require_channels(call);
    return call.shapes[0];
  }
  void remember(Call& call, bool is_temporary) override {
    NSMutableArray<MPSState*>* states = [NSMutableArray array];
    auto kept = std::make_shared<Kept>();
    NSNumber* bytes = @(Base::channels * sizeof(float));
    NSArray* recipes = @[ bytes, bytes, bytes, bytes ];
    for (int64_t n = 0; n < call.batch; ++n) {
      const Class kind = L::state_class();
      MPSState* state = is_temporary ? [[kind alloc] initForBuffer:call.buffer recipes:recipes]
                                     : [[kind alloc] initForDevice:call.device recipes:recipes];
      [states addObject:state];
      kept->states.push_back({[state bufferAtIndex:0], [state bufferAtIndex:1], [state bufferAtIndex:2],
                              [state bufferAtIndex:3], nil, nil});
    }
    call.states = states;
    call.kept = kept;
  }
  Images run(Call& call) override {
    if (!call.kept) call.kept = std::make_shared<Kept>();
    const size_t groups = own().group(static_cast<size_t>(call.batch - 1), Base::channels - 1) + 1;
    return Base::normalize(call, *static_cast<Kept*>(call.kept.get()), groups, true);
  }
  bool trains() const override {
    return Base::style != MPSNNTrainingStyleUpdateDeviceNone &&
           [Base::source respondsToSelector:Base::by_cpu() ? L::cpu_update() : L::gpu_update()];
  }
  void update(Call& call, id<MTLCommandBuffer> buffer) override {
    NSArray* states = call.states;
    if (!trains()) {
      for (MPSState* state in states)
        if (state.isTemporary) state.readCount = state.readCount - 1;
      return;
    }
    if (Base::by_cpu()) {
      for (MPSState* state in states) [state synchronizeOnCommandBuffer:buffer];
      auto self = std::make_shared<L>(own());
      id<MTLDevice> device = call.device;
      [buffer addCompletedHandler:^(id<MTLCommandBuffer> done) {
        if (!done.error && self->changed_by_cpu(states)) self->load(device);
      }];
      return;
    }
    std::vector<NSUInteger> before;
    for (MPSState* state in states) before.push_back(state.readCount);
    MPSState* changed = own().changed_by_gpu(buffer, states);
    NSString* who = [NSString stringWithFormat:@"%@ %@", Base::name(), NSStringFromSelector(L::gpu_update())];
    for (size_t i = 0; i < before.size(); ++i) require_lowered(who, states[i], before[i]);
    Base::take(call, buffer, changed, false);
  }
};

struct InstanceNormalization : ImageNormalization<InstanceNormalization, id<MPSCNNInstanceNormalizationDataSource>> {
  static Class state_class() { return [MPSCNNInstanceNormalizationGradientState class]; }
  static SEL gpu_update() { return @selector(updateGammaAndBetaWithCommandBuffer:instanceNormalizationStateBatch:); }
  static SEL cpu_update() { return @selector(updateGammaAndBetaWithInstanceNormalizationStateBatch:); }
  size_t group(size_t n, size_t c) const { return n * channels + c; }
  void read_more() {}
  MPSState* changed_by_gpu(id<MTLCommandBuffer> buffer, NSArray* states) {
    return [source updateGammaAndBetaWithCommandBuffer:buffer instanceNormalizationStateBatch:states];
  }
  bool changed_by_cpu(NSArray* states) { return [source updateGammaAndBetaWithInstanceNormalizationStateBatch:states]; }
};

struct GroupNormalization : ImageNormalization<GroupNormalization, id<MPSCNNGroupNormalizationDataSource>> {
  size_t groups = 1;
  static Class state_class() { return [MPSCNNGroupNormalizationGradientState class]; }
  static SEL gpu_update() { return @selector(updateGammaAndBetaWithCommandBuffer:groupNormalizationStateBatch:); }
  static SEL cpu_update() { return @selector(updateGammaAndBetaWithGroupNormalizationStateBatch:); }
  size_t group(size_t n, size_t c) const { return n * groups + c / (channels / groups); }
  void read_more() {
    groups = source.numberOfGroups;
    if (groups == 0 || channels % groups != 0)
      misuse(@"%@: numberOfGroups must divide %lu channels, got %lu", name(), channels, groups);
  }
  MPSState* changed_by_gpu(id<MTLCommandBuffer> buffer, NSArray* states) {
    return [source updateGammaAndBetaWithCommandBuffer:buffer groupNormalizationStateBatch:states];
  }
  bool changed_by_cpu(NSArray* states) { return [source updateGammaAndBetaWithGroupNormalizationStateBatch:states]; }
};

template <class L, class Source>
std::shared_ptr<L> normalization(Source source) {
  if (!source) misuse(@"a normalization node requires a data source");
  auto layer = std::make_shared<L>();
  layer->source = source;
  return layer;
}

}  // namespace

// --- nodes -----------------------------------------------------------------------------------------------------------

#define NODES(name)                                                                                                \
  @implementation MPSCNN                                                                                           \
  ##name##NormalizationNode + (instancetype)nodeWithSource : (MPSNNImageNode*)source dataSource                    \
      : (id<MPSCNN##name##NormalizationDataSource>)data {                                                          \
    return [[self alloc] initWithSource:source dataSource:data];                                                   \
  }                                                                                                                \
  -(instancetype)initWithSource : (MPSNNImageNode*)source dataSource                                               \
      : (id<MPSCNN##name##NormalizationDataSource>)data {                                                          \
    self = [super initWithLayer:normalization<name##Normalization>(data)                                           \
                        sources:@[ source ]                                                                        \
                     stateClass:[MPSNNGradientStateNode class]];                                                   \
    if (self) filter->label = [data label];                                                                        \
    return self;                                                                                                   \
  }                                                                                                                \
  +(Class)gradientNodeClass {                                                                                      \
    return [MPSCNN##name##NormalizationGradientNode class];                                                        \
  }                                                                                                                \
  -(MPSNNTrainingStyle)trainingStyle {                                                                             \
    return filter->layer->style;                                                                                   \
  }                                                                                                                \
  -(void)setTrainingStyle : (MPSNNTrainingStyle)style {                                                            \
    filter->layer->style = style;                                                                                  \
  }                                                                                                                \
  EXTRA_##name @end                                                                                                \
  @implementation MPSCNN                                                                                           \
  ##name##NormalizationGradientNode + (instancetype)nodeWithSourceGradient : (MPSNNImageNode*)gradient sourceImage \
      : (MPSNNImageNode*)source gradientState : (MPSNNGradientStateNode*)state {                                   \
    return [[self alloc] initWithGradient:gradient sourceImage:source state:state];                                \
  }                                                                                                                \
  -(instancetype)initWithSourceGradient : (MPSNNImageNode*)gradient sourceImage                                    \
      : (MPSNNImageNode*)source gradientState : (MPSNNGradientStateNode*)state {                                   \
    return [self initWithGradient:gradient sourceImage:source state:state];                                        \
  }                                                                                                                \
  -(MPSNNTrainingStyle)trainingStyle {                                                                             \
    return filter->forward->layer->style;                                                                          \
  }                                                                                                                \
  -(void)setTrainingStyle : (MPSNNTrainingStyle)style {                                                            \
    filter->forward->layer->style = style;                                                                         \
  }                                                                                                                \
  @end
#define EXTRA_Batch                                        \
  -(MPSCNNBatchNormalizationFlags)flags {                  \
    return layer_of<BatchNormalization>(self).flags;       \
  }                                                        \
  -(void)setFlags : (MPSCNNBatchNormalizationFlags)flags { \
    layer_of<BatchNormalization>(self).flags = flags;      \
  }
#define EXTRA_Instance
#define EXTRA_Group
NODES(Batch)
NODES(Instance)
NODES(Group)

#undef IMAGE_STATE
#undef NODES
#undef EXTRA_Batch
#undef EXTRA_Instance
#undef EXTRA_Group
