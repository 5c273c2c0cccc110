// MPSRNNImageInferenceLayer. Apple does not document its behavior for images with more than one pixel, so each pixel
// becomes a separate image, and the sequence of each pixel is encoded separately.
#include "backends/metal/guarded.h"
#include "backends/metal/nngraph/images.h"
#include "backends/metal/nngraph/recurrent.h"

namespace mpsgraph::metal {
namespace {

using nngraph::LayerState;
using nngraph::RecurrentDescriptor;
using nngraph::RecurrentState;
using nngraph::Steps;
using runtime::NDArray;

using Images = NSMutableArray<MPSImage*>;
using States = NSMutableArray<MPSRNNRecurrentImageState*>;
constexpr auto layout = nngraph::DataLayout::height_x_width_x_feature_channels;

// The images of a time step, one per pixel.
struct Step {
  size_t number;  // index of the step's matrix in the work
  int64_t pixels, channels;
  DType dtype;

  Images* make(MetalDevice& device) const { return make_images(device, pixels, {1, 1, 1, channels}, dtype); }
};

std::vector<Step> add_images(MatrixWork& work, const Steps& steps, Access access) {
  std::vector<Step> result;
  for (const NDArray& step : steps)
    result.push_back({work.add(step, access), step.dims()[0], step.dims()[1], step.dtype()});
  return result;
}

NSMutableArray<Images*>* upload(id<MTLCommandBuffer> commands, const MatrixWork& work, const std::vector<Step>& steps) {
  NSMutableArray<Images*>* all = [NSMutableArray array];
  for (const Step& step : steps) {
    [all addObject:step.make(work.device)];
    rows_to_images(commands, work.device, work[step.number], all.lastObject, layout);
  }
  return all;
}

NSMutableArray<Images*>* results(const MatrixWork& work, const std::vector<Step>& steps) {
  NSMutableArray<Images*>* all = [NSMutableArray array];
  for (const Step& step : steps) [all addObject:step.make(work.device)];
  return all;
}

void download(id<MTLCommandBuffer> commands, const MatrixWork& work, NSArray<Images*>* images,
              const std::vector<Step>& steps) {
  for (size_t t = 0; t < steps.size(); ++t)
    images_to_rows(commands, work.device, images[t], work[steps[t].number], layout);
}

// Return the images of one pixel, one per time step that contains the pixel.
Images* of_pixel(NSArray<Images*>* steps, int64_t pixel) {
  Images* images = [NSMutableArray array];
  for (Images* step in steps)
    if (static_cast<int64_t>(step.count) > pixel) [images addObject:step[static_cast<NSUInteger>(pixel)]];
  return images;
}

struct Native {
  ~Native() {
    @autoreleasepool {
      layer = nil;
    }
  }
  MPSRNNImageInferenceLayer* layer = nil;
  std::mutex encoding;
  const std::shared_ptr<BeginStates> states = std::make_shared<BeginStates>();

  // The caller must hold `encoding`.
  MPSRNNRecurrentImageState* make_state(MetalDevice& device) {
    const auto image = [&](NSUInteger channels) {
      return make_images(device, 1, {1, 1, 1, static_cast<int64_t>(channels)}, DType::float16);
    };
    States* made = [NSMutableArray array];
    [layer encodeSequenceToCommandBuffer:[device.queue commandBuffer]
                            sourceImages:image(layer.inputFeatureChannels)
                       destinationImages:image(layer.outputFeatureChannels)
                     recurrentInputState:nil
                   recurrentOutputStates:made];
    return made.lastObject;
  }
};

// --- states ----------------------------------------------------------------------------------------------------------

// Return one layer's images in the states of all pixels: the memory cells if `cells` is set, otherwise the outputs.
Images* of_layer(States* states, NSUInteger layer, bool cells) {
  Images* images = [NSMutableArray array];
  for (MPSRNNRecurrentImageState* state in states) {
    MPSImage* image =
        cells ? [state getMemoryCellImageForLayerIndex:layer] : [state getRecurrentOutputImageForLayerIndex:layer];
    if (!image) throw DeviceError("[metal] a recurrent state of MPSRNNImageInferenceLayer lacks an expected image");
    [images addObject:image];
  }
  return images;
}

// The indices of a layer's state arrays in the work, in the dtype of the images.
struct LayerPlaces {
  size_t output, cell;  // indices of the arrays; npos if an array does not exist
};

std::vector<LayerPlaces> add_states(MatrixWork& work, const RecurrentState& state, Access access, DType as) {
  std::vector<LayerPlaces> places;
  for (const LayerState& layer : state) {
    const StatePlaces place = add_state(work, layer, access, as);
    places.push_back({place.output, place.cell});
  }
  return places;
}

template <class Function>
void each_place(const std::vector<LayerPlaces>& layers, const Function& function) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].output != StatePlaces::npos) function(i, false, layers[i].output);
    if (layers[i].cell != StatePlaces::npos) function(i, true, layers[i].cell);
  }
}

// Return the initial states of all layers, with zeros for outputs and memory cells that `start` does not contain.
RecurrentState completed(MetalDevice& device, const RecurrentState& start,
                         const std::vector<RecurrentDescriptor>& descriptors, int64_t pixels) {
  RecurrentState full = start;
  for (size_t i = 0; i < full.size(); ++i) {
    const auto fill = [&](NDArray& array) {
      if (array.valid()) return;
      array = device.allocate(DType::float32, {pixels, descriptors[i].outputs});
      std::fill_n(array.data(), array.bytes(), std::byte{0});
    };
    fill(full[i].output);
    if (descriptors[i].cell == nngraph::RecurrentCell::lstm) fill(full[i].cell);
  }
  return full;
}

// --- the layer -------------------------------------------------------------------------------------------------------

class MetalImageLayer final : public nngraph::DeviceInferenceLayer {
 public:
  MetalImageLayer(MetalDevice& device, const std::vector<RecurrentDescriptor>& descriptors)
      : device_(device), descriptors_(descriptors) {
    guarded([&] {
      NSMutableArray<const MPSRNNDescriptor*>* all = [NSMutableArray array];
      for (const RecurrentDescriptor& descriptor : descriptors) [all addObject:rnn_descriptor(descriptor, true)];
      native_->layer = [[MPSRNNImageInferenceLayer alloc] initWithDevice:device.device rnnDescriptors:all];
      if (!native_->layer)
        throw DeviceError(
            "[metal] expected an MPSRNNImageInferenceLayer, but Apple's initializer returned nil for these "
            "descriptors; use device=\"cpu\"");
    });
  }

  void encode_sequence(runtime::CommandBuffer& buffer, const nngraph::DeviceStack& s) override {
    const int64_t pixels = check(s.sources, s.destinations);
    const auto work = std::make_shared<MatrixWork>(device_);
    const auto sources = add_images(*work, s.sources, Access::reads);
    const auto destinations = add_images(*work, s.destinations, Access::writes);
    bool begins = false;
    for (const LayerState& layer : s.start) begins |= layer.output.valid() || layer.cell.valid();
    const DType as = begins || !s.ends.empty() ? state_dtype() : DType::float16;
    std::vector<LayerPlaces> start;
    if (begins) {
      const auto full = guarded([&] { return completed(device_, s.start, descriptors_, pixels); });
      start = add_states(*work, full, Access::reads, as);
    }
    std::vector<std::vector<LayerPlaces>> ends;
    for (const RecurrentState& end : s.ends) ends.push_back(add_states(*work, end, Access::writes, as));
    MatrixWork::encode(
        work, buffer, "RNNImageInferenceLayer", [=, native = native_](id<MTLCommandBuffer> commands, MatrixWork& work) {
          const std::lock_guard lock(native->encoding);
          NSMutableArray<Images*>*from = upload(commands, work, sources), *to = results(work, destinations);
          States* begin = [NSMutableArray array];
          for (int64_t pixel = 0; begins && pixel < pixels; ++pixel)
            [begin addObject:leased_state(native->states, work, 0, [&] { return native->make_state(work.device); })];
          each_place(start, [&](size_t layer, bool cells, size_t place) {
            rows_to_images(commands, work.device, work[place], of_layer(begin, layer, cells), layout);
          });
          native->layer.storeAllIntermediateStates = ends.size() > 1;
          // One entry per state that the caller requested, each with the states of all pixels.
          NSMutableArray<States*>* given = [NSMutableArray array];
          for (size_t i = 0; i < ends.size(); ++i) [given addObject:[NSMutableArray array]];
          for (int64_t pixel = 0; pixel < pixels; ++pixel) {
            Images* images = of_pixel(from, pixel);
            States* states = ends.empty() ? nil : [NSMutableArray array];
            [native->layer encodeSequenceToCommandBuffer:commands
                                            sourceImages:images
                                       destinationImages:of_pixel(to, pixel)
                                     recurrentInputState:begins ? begin[static_cast<NSUInteger>(pixel)] : nil
                                   recurrentOutputStates:states];
            // A sequence that ends early contributes no last state.
            for (size_t i = 0; i < ends.size() && (ends.size() > 1 || images.count == from.count); ++i)
              if (i < states.count) [given[i] addObject:states[i]];
          }
          download(commands, work, to, destinations);
          for (size_t i = 0; i < ends.size(); ++i) {
            each_place(ends[i], [&](size_t layer, bool cells, size_t place) {
              Images* images = of_layer(given[i], layer, cells);
              if (static_cast<int64_t>(images.count) != work[place].rows)
                throw DeviceError(cat("[metal] the number of states from a sequence must be ", work[place].rows,
                                      ", got ", images.count));
              images_to_rows(commands, work.device, images, work[place], layout);
            });
            work.keep(given[i]);
          }
        });
  }

  void encode_bidirectional_sequence(runtime::CommandBuffer& buffer, const nngraph::DeviceDirections& s) override {
    const int64_t pixels = check(s.sources, s.forward);
    const auto work = std::make_shared<MatrixWork>(device_);
    const auto sources = add_images(*work, s.sources, Access::reads);
    const auto forward = add_images(*work, s.forward, Access::writes);
    const auto backward = add_images(*work, s.backward, Access::writes);
    MatrixWork::encode(
        work, buffer, "RNNImageInferenceLayer",
        [=, native = native_, mode = s.mode](id<MTLCommandBuffer> commands, MatrixWork& work) {
          const std::lock_guard lock(native->encoding);
          native->layer.bidirectionalCombineMode = static_cast<MPSRNNBidirectionalCombineMode>(mode);
          NSMutableArray<Images*>*from = upload(commands, work, sources), *first = results(work, forward),
          *second = results(work, backward);
          for (int64_t pixel = 0; pixel < pixels; ++pixel)
            [native->layer encodeBidirectionalSequenceToCommandBuffer:commands
                                                       sourceSequence:of_pixel(from, pixel)
                                             destinationForwardImages:of_pixel(first, pixel)
                                            destinationBackwardImages:backward.empty() ? nil : of_pixel(second, pixel)];
          download(commands, work, first, forward);
          download(commands, work, second, backward);
        });
  }

 private:
  // Validate the sizes and return the number of pixels per step.
  int64_t check(const Steps& sources, const Steps& destinations) const {
    constexpr int64_t most = 4096;
    const int64_t pixels = sources.front().dims()[0];
    if (pixels > most)
      throw UnsupportedError(cat("[RNNImageInferenceLayer] on the Metal device, a step must have at most ", most,
                                 " pixels, because each pixel is encoded separately, got ", pixels,
                                 "; use RNNMatrixInferenceLayer with one row per pixel, or device=\"cpu\""));
    for (const Steps* steps : {&sources, &destinations})
      require_texture({1, 1, 1, steps->front().dims()[1]}, "[RNNImageInferenceLayer] an image");
    return pixels;
  }

  // Return the dtype of a state's images, which is found by creating a state.
  DType state_dtype() {
    return guarded([&] {
      const std::lock_guard lock(native_->encoding);
      id state = native_->states->take(0, [&] { return native_->make_state(device_); });
      if (!state) throw DeviceError("[metal] MPSRNNImageInferenceLayer returned no state");
      native_->states->give_back(0, state);
      return dtype_of([static_cast<MPSRNNRecurrentImageState*>(state) getRecurrentOutputImageForLayerIndex:0]);
    });
  }

  MetalDevice& device_;
  const std::vector<RecurrentDescriptor> descriptors_;
  const std::shared_ptr<Native> native_ = std::make_shared<Native>();
};

}  // namespace

std::unique_ptr<nngraph::DeviceInferenceLayer> make_image_layer(MetalDevice& device,
                                                                const std::vector<RecurrentDescriptor>& descriptors) {
  return std::make_unique<MetalImageLayer>(device, descriptors);
}

}  // namespace mpsgraph::metal
