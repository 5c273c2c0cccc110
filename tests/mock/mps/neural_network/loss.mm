// Loss descriptors, labels, and the loss node, whose image is the gradient of its source.
#include "mps/neural_network/loss.h"

#include <algorithm>
#include <cstring>

#pragma clang diagnostic ignored "-Wincomplete-implementation"
#pragma clang diagnostic ignored "-Wprotocol"

using namespace mock;

@implementation MPSCNNLossDescriptor
@synthesize lossType = _lossType, reductionType = _reductionType, reduceAcrossBatch = _reduceAcrossBatch;
@synthesize weight = _weight, labelSmoothing = _labelSmoothing, numberOfClasses = _numberOfClasses;
@synthesize epsilon = _epsilon, delta = _delta;

+ (MPSCNNLossDescriptor*)cnnLossDescriptorWithType:(MPSCNNLossType)type reductionType:(MPSCNNReductionType)reduction {
  MPSCNNLossDescriptor* made = [[self alloc] init];
  made.lossType = type;
  made.reductionType = reduction;
  made.weight = 1;
  made.numberOfClasses = 1;
  made.epsilon = 1e-7f;
  made.delta = 1;
  return made;
}
- (id)copyWithZone:(NSZone*)zone {
  MPSCNNLossDescriptor* copy = [MPSCNNLossDescriptor cnnLossDescriptorWithType:_lossType reductionType:_reductionType];
  copy.reduceAcrossBatch = _reduceAcrossBatch;
  copy.weight = _weight;
  copy.labelSmoothing = _labelSmoothing;
  copy.numberOfClasses = _numberOfClasses;
  copy.epsilon = _epsilon;
  copy.delta = _delta;
  return copy;
}
@end

@interface MPSCNNLossDataDescriptor () {
 @package
  NSData* data;
}
@end

@implementation MPSCNNLossDataDescriptor {
  MPSDataLayout _layout;
  MTLSize _size;
}
@synthesize bytesPerRow = _bytesPerRow, bytesPerImage = _bytesPerImage;

+ (MPSCNNLossDataDescriptor*)cnnLossDataDescriptorWithData:(NSData*)data
                                                    layout:(MPSDataLayout)layout
                                                      size:(MTLSize)size {
  if (!data) misuse(@"cnnLossDataDescriptorWithData: the data must not be nil");
  if (size.width < 1 || size.height < 1 || size.depth < 1)
    misuse(@"cnnLossDataDescriptorWithData: sizes must be at least 1, got %lu x %lu x %lu", size.width, size.height,
           size.depth);
  MPSCNNLossDataDescriptor* made = [[self alloc] init];
  made->data = [data copy];
  made->_layout = layout;
  made->_size = size;
  const bool interleaved = layout == MPSDataLayoutHeightxWidthxFeatureChannels;
  made.bytesPerRow = size.width * (interleaved ? size.depth : 1) * sizeof(float);
  made.bytesPerImage = made.bytesPerRow * size.height;
  if (data.length < (interleaved ? made.bytesPerImage : made.bytesPerImage * size.depth))
    misuse(@"cnnLossDataDescriptorWithData: %lu bytes are too few for %lu x %lu x %lu floats", data.length, size.height,
           size.width, size.depth);
  return made;
}
- (MPSDataLayout)layout {
  return _layout;
}
- (MTLSize)size {
  return _size;
}
- (id)copyWithZone:(NSZone*)zone {
  MPSCNNLossDataDescriptor* copy = [MPSCNNLossDataDescriptor cnnLossDataDescriptorWithData:data
                                                                                    layout:_layout
                                                                                      size:_size];
  copy.bytesPerRow = _bytesPerRow;
  copy.bytesPerImage = _bytesPerImage;
  return copy;
}
// Return a float32 image of the data.
- (MPSImage*)imageOnDevice:(id<MTLDevice>)device {
  MPSImage* made = [[MPSImage alloc]
       initWithDevice:device
      imageDescriptor:[MPSImageDescriptor imageDescriptorWithChannelFormat:MPSImageFeatureChannelFormatFloat32
                                                                     width:_size.width
                                                                    height:_size.height
                                                           featureChannels:_size.depth]];
  const bool interleaved = _layout == MPSDataLayoutHeightxWidthxFeatureChannels;
  std::vector<float> numbers(_size.height * _size.width * _size.depth);
  size_t to = 0;
  for (NSUInteger y = 0; y < _size.height; ++y)
    for (NSUInteger x = 0; x < _size.width; ++x)
      for (NSUInteger c = 0; c < _size.depth; ++c, ++to) {
        const NSUInteger at = interleaved ? y * _bytesPerRow + (x * _size.depth + c) * sizeof(float)
                                          : c * _bytesPerImage + y * _bytesPerRow + x * sizeof(float);
        if (at + sizeof(float) > data.length) misuse(@"the labels extend beyond their data of %lu bytes", data.length);
        std::memcpy(&numbers[to], static_cast<const char*>(data.bytes) + at, sizeof(float));
      }
  [made writeBytes:numbers.data() dataLayout:MPSDataLayoutHeightxWidthxFeatureChannels imageIndex:0];
  return made;
}
@end

@implementation MPSCNNLossLabels {
  MPSImage *_labels, *_weights, *_loss;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device labelsDescriptor:(MPSCNNLossDataDescriptor*)labels {
  return [self initWithDevice:device lossImageSize:{1, 1, 1} labelsDescriptor:labels weightsDescriptor:nil];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 lossImageSize:(MTLSize)size
              labelsDescriptor:(MPSCNNLossDataDescriptor*)labels
             weightsDescriptor:(MPSCNNLossDataDescriptor*)weights {
  if (!labels) misuse(@"MPSCNNLossLabels: the labels must not be nil");
  return [self initWithDevice:device
                lossImageSize:size
                  labelsImage:[labels imageOnDevice:device]
                 weightsImage:[weights imageOnDevice:device]];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 lossImageSize:(MTLSize)size
                   labelsImage:(MPSImage*)labels
                  weightsImage:(MPSImage*)weights {
  if (!device || !labels) misuse(@"MPSCNNLossLabels: the device and the labels must not be nil");
  if (!(self = [self initForDevice:device recipes:@[]])) return nil;
  _labels = labels;
  _weights = weights;
  _loss = [[MPSImage alloc]
       initWithDevice:device
      imageDescriptor:[MPSImageDescriptor imageDescriptorWithChannelFormat:MPSImageFeatureChannelFormatFloat32
                                                                     width:size.width
                                                                    height:size.height
                                                           featureChannels:size.depth]];
  return self;
}
- (MPSImage*)labelsImage {
  return _labels;
}
- (MPSImage*)weightsImage {
  return _weights;
}
- (MPSImage*)lossImage {
  return _loss;
}
- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)buffer {
  [_loss synchronizeOnCommandBuffer:buffer];
}
@end

namespace mock {

// Labels may have extra channels, up to the next multiple of four, if these are 0.
static Images load_for(NSString* who, const std::vector<Pixels>& images, Shape shape) {
  Images result(static_cast<int64_t>(images.size()), shape);
  for (size_t n = 0; n < images.size(); ++n) {
    const Value value = images[n].load();
    const int64_t channels = images[n].channels;
    for (int64_t i = 0; i < value.count(); ++i) {
      const int64_t c = i % channels, pixel = i / channels;
      if (c < shape.channels)
        result.v[static_cast<size_t>((static_cast<int64_t>(n) * shape.height * shape.width + pixel) * shape.channels +
                                     c)] = value.real(i);
      else if (value.real(i) != 0)
        misuse(@"%@: labels beyond the %ld feature channels must be 0", who, shape.channels);
    }
  }
  return result;
}

LabelMemory LabelMemory::of(Call& call, bool needs_all_losses) {
  LabelMemory memory;
  const Shape shape = call.shapes[0];
  if (!call.given) misuse(@"%@: labels are required", call.filter.name);
  for (MPSState* state in call.given) {
    if (![state isKindOfClass:[MPSCNNLossLabels class]])
      misuse(@"%@: the source state must be an MPSCNNLossLabels, got %@", call.filter.name, [state class]);
    auto* labels = (MPSCNNLossLabels*)state;
    const auto take = [&](std::vector<Pixels>& to, MPSImage* image, NSString* what) {
      const Pixels pixels = pixels_of(image);
      if (pixels.height != shape.height || pixels.width != shape.width ||
          (pixels.channels != shape.channels && pixels.channels != (shape.channels + 3) / 4 * 4))
        misuse(@"%@: the %@ must have the size %@ of the source, got %ld x %ld x %ld", call.filter.name, what,
               text_of(shape), pixels.height, pixels.width, pixels.channels);
      to.push_back(pixels);
    };
    take(memory.labels, labels.labelsImage, @"labels");
    if (labels.weightsImage) take(memory.weights, labels.weightsImage, @"weights");
    const Pixels loss = pixels_of(labels.lossImage);
    const Shape wanted = needs_all_losses ? shape : Shape{};
    if (loss.height != wanted.height || loss.width != wanted.width || loss.channels != wanted.channels)
      misuse(@"%@: the loss image must have the size %@, got %ld x %ld x %ld", call.filter.name, text_of(wanted),
             loss.height, loss.width, loss.channels);
    memory.losses.push_back(loss);
  }
  if (!memory.weights.empty() && memory.weights.size() != memory.labels.size())
    misuse(@"%@: either all or none of the labels must have weights", call.filter.name);
  return memory;
}

Images LabelMemory::load_labels(const Call& call) const { return load_for(call.filter.name, labels, call.shapes[0]); }
std::unique_ptr<Images> LabelMemory::load_weights(const Call& call) const {
  if (weights.empty()) return nullptr;
  return std::make_unique<Images>(load_for(call.filter.name, weights, call.shapes[0]));
}

void LabelMemory::store_losses(const std::vector<Images>& values) const {
  for (size_t n = 0; n < losses.size(); ++n) {
    Value value = losses[n].blank();
    for (int64_t i = 0; i < value.count(); ++i) value.set(i, values[n].v[static_cast<size_t>(i)]);
    losses[n].store(value);
  }
}

namespace {

struct LossLayer : SameSize<LossLayer> {
  Loss loss;

  bool reports() const override { return true; }
  Shape prepare(Call& call) override {
    call.kept = std::make_shared<LabelMemory>(LabelMemory::of(call, loss.reduction == MPSCNNReductionTypeNone));
    if (!static_cast<LabelMemory*>(call.kept.get())->weights.empty() && loss.weight != 1)
      misuse(@"%@: combining weights of elements with a weight of the descriptor is not documented", call.filter.name);
    return call.shapes[0];
  }
  Images run(Call& call) override {
    const auto& memory = *static_cast<LabelMemory*>(call.kept.get());
    const Images &y = *call.sources[0], labels = memory.load_labels(call);
    const auto weights = memory.load_weights(call);
    memory.store_losses(loss.reduced(loss.values(y, labels, weights.get()), weights.get()));
    return loss.gradients(y, labels, weights.get());
  }
};

}  // namespace
}  // namespace mock

@implementation MPSCNNLossNode
+ (instancetype)nodeWithSource:(MPSNNImageNode*)source lossDescriptor:(MPSCNNLossDescriptor*)descriptor {
  return [[self alloc] initWithSource:source lossDescriptor:descriptor];
}
- (instancetype)initWithSource:(MPSNNImageNode*)source lossDescriptor:(MPSCNNLossDescriptor*)descriptor {
  if (!descriptor) misuse(@"initWithSource:lossDescriptor: the descriptor must not be nil");
  auto layer = std::make_shared<LossLayer>();
  layer->loss = Loss::of(descriptor);
  if ((self = [super initWithLayer:layer sources:@[ source ] stateClass:Nil]))
    filter->labels = @[ [[MPSNNLabelsNode alloc] init] ];
  return self;
}
- (MPSNNLabelsNode*)inputLabels {
  return (MPSNNLabelsNode*)filter->labels[0];
}
@end
