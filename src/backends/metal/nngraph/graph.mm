// Constructs an MPSNNGraph from nodes, and encodes batches.
#include "backends/metal/nngraph/graph.h"

#include <algorithm>
#include <cstring>

#include "backends/metal/guarded.h"
#include "backends/metal/nngraph/images.h"
#include "backends/metal/nngraph/matrices.h"
#include "backends/metal/nngraph/optimizers.h"
#include "backends/metal/nngraph/padding.h"
#include "backends/metal/signposts.h"
#include "mpsgraph/runtime/command_queue.h"
#include "nngraph/graph.h"

using mpsgraph::nngraph::FilterNode;
using mpsgraph::nngraph::FilterPtr;
using mpsgraph::nngraph::ImageNode;
using mpsgraph::nngraph::ImagePtr;
using mpsgraph::nngraph::Layer;

// Handle that identifies an input, a label, or an exported image. MPSNNGraph reports the order of its arguments and
// results as handles.
@interface MpsgraphHandle : NSObject <MPSHandle> {
 @package
  size_t number;
}
@end

@implementation MpsgraphHandle
- (NSString*)label {
  return [NSString stringWithFormat:@"%zu", number];
}
+ (BOOL)supportsSecureCoding {
  return YES;
}
// This method is empty because graphs are not archived.
- (void)encodeWithCoder:(NSCoder*)coder {
}
- (instancetype)initWithCoder:(NSCoder*)coder {
  return nil;
}
@end

namespace mpsgraph::metal {

using runtime::NDArray;

namespace {

MpsgraphHandle* handle(size_t number) {
  MpsgraphHandle* made = [[MpsgraphHandle alloc] init];
  made->number = number;
  return made;
}

size_t number_of(id<MPSHandle> handle) { return static_cast<MpsgraphHandle*>(handle)->number; }

bool needed_result(const nngraph::NNGraph& graph, const ImageNode* image) {
  const auto& results = graph.result_images();
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].get() == image && graph.results_are_needed(i)) return true;
  return false;
}

}  // namespace

// --- making ----------------------------------------------------------------------------------------------------------

MetalNodes::MetalNodes(MetalDevice& device, const nngraph::NNGraph& graph) : device_(device), graph_(graph) {
  guarded([&] {
    for (Layer* layer : graph.layers())
      parameters_[layer] = std::make_shared<LayerParameters>(device, *layer, failures_);
    make_nodes();
  });
}

MetalNodes::~MetalNodes() {
  @autoreleasepool {
    native_ = nil;
    gradient_nodes_.clear();
    made_.clear();
    images_.clear();
    parameters_.clear();
  }
}

std::shared_ptr<LayerParameters> MetalNodes::parameters_of(const FilterNode& filter) const {
  const Layer* layer = filter.parameters() ? graph_.layer_of(filter) : nullptr;
  return layer ? parameters_.at(layer) : nullptr;
}

void MetalNodes::make_nodes() {
  const auto& inputs = graph_.source_images();
  for (size_t i = 0; i < inputs.size(); ++i) images_[inputs[i].get()] = [MPSNNImageNode nodeWithHandle:handle(i)];
  for (const FilterPtr& filter : graph_.filters()) {
    make_node(filter);
    const ImageNode& image = filter->result();
    images_.at(&image).format = channel_format(image.format);
  }
  const auto& exports = graph_.intermediate_images();
  for (const ImagePtr& image : exports) {
    MPSNNImageNode* node = images_.at(image.get());
    // An exported image is copied on the device, so its memory need not be accessible to the host.
    node.imageAllocator = [MPSImage defaultAllocator];
    node.exportFromGraph = !needed_result(graph_, image.get());
  }
  for (size_t i = 0; i < graph_.losses().size(); ++i) made_.at(graph_.losses()[i].get()).labels.handle = handle(i);
}

// Reject a trained layer that is used more than once: each of Apple's nodes has its own copy of the parameters, and a
// gradient node updates only the copy of its forward node.
void MetalNodes::require_single_use(const Layer& layer, const FilterNode& filter) const {
  if (!layer.updates_itself() && !layer.has_optimizer()) return;
  const auto uses = [&](bool gradient) {
    return std::ranges::count_if(graph_.filters(), [&](const FilterPtr& other) {
      return other->is_gradient() == gradient && other->parameters() && graph_.layer_of(*other) == &layer;
    });
  };
  if (uses(false) > 1 || uses(true) > 1)
    unsupported(
        filter,
        "its trainable data source is used by several filters, but on the Metal device each filter would train its own "
        "copy of the parameters; use a separate data source per filter, or device=\"cpu\"");
}

void MetalNodes::make_node(const FilterPtr& filter) {
  if (filter->is_gradient()) {
    const FilterNode& forward = *filter->forward();
    if (const Layer* layer = filter->parameters() ? graph_.layer_of(*filter) : nullptr)
      require_single_use(*layer, *filter);
    if (forward.kind() == "forward_loss" && filter->forward_source() == 2)
      unsupported(*filter, "Apple's nodes have no gradient with respect to a loss's weights; use device=\"cpu\"");
    const auto nodes = made_.at(&forward).gradient(images_.at(filter->sources()[0].get()), filter->forward_source());
    gradient_nodes_.insert(gradient_nodes_.end(), nodes.begin(), nodes.end());
    images_[&filter->result()] = nodes.back().resultImage;
    return;
  }
  NSMutableArray<MPSNNImageNode*>* sources = [NSMutableArray array];
  for (const ImagePtr& source : filter->sources()) [sources addObject:images_.at(source.get())];
  Making making{*filter, graph_.has_gradient(*filter), sources, parameters_of(*filter), {}};
  find_maker(*filter).make(making);
  MadeFilter& made = made_[filter.get()] = std::move(making.made);
  made.node.label = @(filter->title().c_str());
  if (filter->definition().windows && filter->kind() != "fully_connected")
    made.node.paddingPolicy = padding_of(filter->padding);
  images_[&filter->result()] = made.result();
}

void MetalNodes::make_graph() {
  NSMutableArray<MPSNNImageNode*>* results = [NSMutableArray array];
  const auto needed = std::make_unique<BOOL[]>(graph_.result_images().size());
  for (const ImagePtr& image : graph_.result_images()) {
    MPSNNImageNode* node = images_.at(image.get());
    if ([results indexOfObjectIdenticalTo:node] != NSNotFound) continue;
    needed[results.count] = needed_result(graph_, image.get());
    [results addObject:node];
  }
  // Handles identify results and exported images among the images that MPSNNGraph returns. An input that is also a
  // result keeps its handle.
  size_t number = graph_.source_images().size();
  for (const FilterPtr& filter : graph_.filters()) images_.at(&filter->result()).handle = handle(number++);
  native_ = [MPSNNGraph graphWithDevice:device_.device resultImages:results resultsAreNeeded:needed.get()];
  failures_.rethrow();
  if (!native_)
    throw DeviceError("[metal] expected an MPSNNGraph for these nodes, but Apple's initializer returned nil without a "
                      "reason; use device=\"cpu\"");
  for (const auto& [layer, parameters] : parameters_) parameters->forget();
}

// --- encoding --------------------------------------------------------------------------------------------------------

struct MetalNodes::Handed {
  std::map<size_t, MPSImageBatch*> made;  // image batches, keyed by handle
  std::vector<NSArray<MPSCNNLossLabels*>*> labels;
};

void MetalNodes::check(const nngraph::NodeBatch& batch) const {
  for (const ImagePtr& input : graph_.source_images())
    require_texture(batch.shapes.at(input.get()), cat("[NNGraph] source image '", input->handle, "'"));
  for (const FilterPtr& filter : graph_.filters()) {
    std::vector<Dims> sources;
    for (const ImagePtr& source : filter->sources()) sources.push_back(batch.shapes.at(source.get()));
    if (const Maker& maker = find_maker(*filter); maker.fits && !filter->is_gradient()) maker.fits(*filter, sources);
    require_texture(batch.shapes.at(&filter->result()), cat("[", filter->title(), "] the image"));
  }
}

nngraph::EncodeResults MetalNodes::encode_batch(const nngraph::NodeBatch& batch, std::vector<NDArray>& losses) {
  check(batch);
  return guarded([&] {
    const Signpost encoding(Phase::encode, "NNGraph");
    if (!native_) make_graph();
    auto* queue = dynamic_cast<MetalQueue*>(batch.buffer->queue().device_queue());
    if (!queue) throw DeviceError("[NNGraph] the command queue is closed; create a new one");
    id<MTLCommandBuffer> const commands = queue->open_command_buffer();
    auto uses = std::make_shared<ArrayUses>(device_);
    BatchEncoding now{device_, commands, *batch.buffer, *uses, failures_};
    Handed handed;
    nngraph::EncodeResults results;
    try {
      batch.buffer->mark();  // throws DeviceError if the buffer has been committed
      encode(now, batch, handed);
      const size_t first = graph_.source_images().size();
      std::map<const ImageNode*, NDArray> arrays;
      for (size_t i = 0; i < graph_.filters().size(); ++i)
        if (const auto found = handed.made.find(first + i); found != handed.made.end())
          arrays[&graph_.filters()[i]->result()] = download(now, found->second);
      results.images.resize(graph_.result_images().size());
      for (size_t i = 0; i < results.images.size(); ++i)
        if (graph_.results_are_needed(i)) results.images[i].array = arrays.at(graph_.result_images()[i].get());
      for (const ImagePtr& image : graph_.intermediate_images())
        results.intermediates.push_back({arrays.at(image.get())});
      for (NSArray<MPSCNNLossLabels*>* labels : handed.labels) {
        NSMutableArray<MPSImage*>* images = [NSMutableArray array];
        for (MPSCNNLossLabels* each in labels) [images addObject:each.lossImage];
        losses.push_back(download(now, images));
      }
    } catch (...) {
      for (const auto& [layer, parameters] : parameters_) parameters->discard();
      throw;
    }
    batch.buffer->encode_device_work(
        [uses, commands](runtime::DeviceCommands* given) {
          guarded([&] {
            auto& metal = static_cast<MetalCommands&>(*given);
            uses->begin(metal);
            metal.take_over(commands);
          });
        },
        "NNGraph");
    std::vector<nngraph::Optimizer*> stepped;
    for (const auto& [layer, parameters] : parameters_) {
      parameters->keep();
      if (!layer->has_optimizer()) continue;
      nngraph::Optimizer* optimizer = layer->source->optimizer().get();
      if (std::ranges::find(stepped, optimizer) == stepped.end()) stepped.push_back(optimizer);
    }
    for (nngraph::Optimizer* optimizer : stepped) optimizer->advance();
    return results;
  });
}

void MetalNodes::encode(BatchEncoding& encoding, const nngraph::NodeBatch& batch, Handed& handed) {
  native_.format = channel_format(graph_.format());
  NSMutableArray<MPSImageBatch*>* images = [NSMutableArray array];
  for (id<MPSHandle> each in native_.sourceImageHandles)
    [images addObject:upload(encoding, batch.sources[number_of(each)].array)];
  handed.labels.resize(graph_.losses().size());
  NSMutableArray<MPSStateBatch*>* states = [NSMutableArray array];
  for (id<MPSHandle> each in native_.sourceStateHandles) {
    NSArray<MPSCNNLossLabels*>* labels = labels_of(encoding, batch, number_of(each));
    handed.labels[number_of(each)] = labels;
    [states addObject:labels];
  }
  NSMutableArray<MPSImageBatch*>* exported = [NSMutableArray array];
  MPSImageBatch* first;
  {
    const BatchEncoding::Scope scope(encoding);
    first = [native_ encodeBatchToCommandBuffer:encoding.commands
                                   sourceImages:images
                                   sourceStates:states
                             intermediateImages:exported
                              destinationStates:nil];
  }
  failures_.rethrow();
  // MPSNNGraph returns only the first result directly. Other results are returned among the intermediate images, if
  // they are needed.
  std::vector<size_t> handles;
  for (id<MPSHandle> each in native_.intermediateImageHandles) {
    const ImageNode* image = &graph_.filters()[number_of(each) - graph_.source_images().size()]->result();
    if (images_.at(image).exportFromGraph || needed_result(graph_, image)) handles.push_back(number_of(each));
  }
  if (handles.size() != exported.count)
    throw DeviceError(cat("[metal] the number of intermediate images from MPSNNGraph must be ", handles.size(),
                          ", got ", exported.count));
  for (size_t i = 0; i < handles.size(); ++i) handed.made[handles[i]] = exported[i];
  if (first) handed.made[number_of(native_.resultHandle)] = first;
}

NSArray<MPSCNNLossLabels*>* MetalNodes::labels_of(BatchEncoding& encoding, const nngraph::NodeBatch& batch,
                                                  size_t loss) const {
  const nngraph::LabelsBatch& given = batch.labels[loss];
  const FilterNode& filter = *graph_.losses()[loss];
  const Dims& dims = batch.shapes.at(filter.sources()[0].get());
  NDArray weights = given.weights;
  if (weights.valid() && weights.dims() != given.labels.dims()) {  // The weights hold one number per image.
    weights = device_.allocate(DType::float32, dims);
    const int64_t each = weights.elements() / dims[0];
    for (int64_t i = 0; i < weights.elements(); ++i)
      reinterpret_cast<float*>(weights.data())[i] = reinterpret_cast<const float*>(given.weights.data())[i / each];
  }
  MPSImageBatch* label_images = upload(encoding, given.labels);
  MPSImageBatch* weight_images = weights.valid() ? upload(encoding, weights) : nil;
  const bool each = filter.attributes().has("reduction_type") && filter.attributes().string("reduction_type") == "none";
  const auto size = [&](size_t axis) { return each ? static_cast<NSUInteger>(dims[axis]) : 1; };
  NSMutableArray<MPSCNNLossLabels*>* labels = [NSMutableArray array];
  for (NSUInteger i = 0; i < label_images.count; ++i)
    [labels addObject:[[MPSCNNLossLabels alloc] initWithDevice:device_.device
                                                 lossImageSize:MTLSize{size(2), size(1), size(3)}
                                                   labelsImage:label_images[i]
                                                  weightsImage:weight_images[i]]];
  return labels;
}

// --- values ----------------------------------------------------------------------------------------------------------

void MetalNodes::reload(const std::vector<std::vector<nngraph::NamedArray>>& arrays) {
  guarded([&] {
    wait_for_values();
    const std::vector<Layer*> layers = graph_.layers();
    for (size_t i = 0; i < layers.size(); ++i) parameters_.at(layers[i])->give(arrays[i]);
    if (native_) {
      [native_ reloadFromDataSources];
      failures_.rethrow();
      for (size_t i = 0; i < layers.size(); ++i) parameters_.at(layers[i])->forget();
    }
    for (size_t i = 0; i < layers.size(); ++i) parameters_.at(layers[i])->take(arrays[i]);
  });
}

void MetalNodes::wait_for_values() {
  for (const auto& [layer, parameters] : parameters_)
    for (const nngraph::Slot& slot : layer->slots)
      if (slot.value.valid()) device_.uses.wait_for({slot.value, false, false});
}

// --- optimizers ------------------------------------------------------------------------------------------------------

namespace {

VectorStep vectors_of(ArrayUses& uses, const nngraph::OptimizerStep& step) {
  const int64_t length = step.values.elements();
  const auto vector = [&](const NDArray& array, Access access) {
    if (!array.contiguous())
      throw UnsupportedError("on the Metal device, arrays updated while a batch is encoded must be contiguous; make "
                             "contiguous copies");
    return vector_of(uses.view(array, access), length);
  };
  VectorStep vectors;
  vectors.gradient = vector(step.gradient, Access::reads);
  const bool in_place = step.result.data() == step.values.data();
  vectors.values = vector(step.values, in_place ? Access::both : Access::reads);
  vectors.result = in_place ? vectors.values : vector(step.result, Access::writes);
  for (const NDArray& moment : step.moments) vectors.moments.push_back(vector(moment, Access::both));
  return vectors;
}

// Encode the step on vectors if all arrays are dense, and otherwise on matrices, whose rows may be padded.
void encode_step(MetalDevice& device, MPSNNOptimizer* kernel, runtime::CommandBuffer& buffer,
                 const nngraph::OptimizerStep& step, std::string label) {
  const auto work = std::make_shared<MatrixWork>(device);
  std::vector<NDArray> all{step.gradient, step.values, step.result};
  all.insert(all.end(), step.moments.begin(), step.moments.end());
  const bool dense = std::ranges::all_of(all, &NDArray::contiguous);
  if (!dense && step.values.dims().size() != 2)
    throw UnsupportedError(cat(label, ": on the Metal device, non-contiguous arrays must be matrices, got ",
                               step.values.dims().size(), " dimensions; make contiguous copies"));
  const auto add = [&](const NDArray& array, Access access) {
    if (!dense && (array.strides()[1] == 1 || array.dims()[1] == 1)) return work->add(array, access);
    if (!dense)
      throw UnsupportedError(cat(
          label, ": on the Metal device, the elements of a row must be adjacent in memory; make contiguous copies"));
    const int64_t length = array.elements();
    return work->add(NDArray(array.buffer(), array.dtype(), {1, length}, {length, 1},
                             static_cast<size_t>(array.data() - array.buffer()->data())),
                     access);
  };
  const bool in_place = step.result.data() == step.values.data();
  const size_t gradient = add(step.gradient, Access::reads),
               values = add(step.values, in_place ? Access::both : Access::reads),
               result = in_place ? values : add(step.result, Access::writes);
  std::vector<size_t> moments;
  for (const NDArray& moment : step.moments) moments.push_back(add(moment, Access::both));
  MatrixWork::encode(work, buffer, std::move(label), [=](id<MTLCommandBuffer> commands, MatrixWork& work) {
    const auto fill = [&](auto made, const auto& at) {
      made.gradient = at(gradient);
      made.values = at(values);
      made.result = in_place ? made.values : at(result);
      for (const size_t moment : moments) made.moments.push_back(at(moment));
      encode_step(commands, kernel, made);
    };
    const auto vector = [&](size_t i) {
      const DeviceRows rows = work[i];
      BufferView view;
      view.buffer = rows.buffer;
      view.offset = rows.offset;
      return vector_of(view, rows.columns);
    };
    if (dense)
      fill(VectorStep(), vector);
    else
      fill(MatrixStep(), [&](size_t i) { return matrix_of(work[i]); });
  });
}

}  // namespace

void encode_step(MetalDevice& device, const nngraph::Optimizer& optimizer, runtime::CommandBuffer& buffer,
                 const nngraph::OptimizerStep& step) {
  guarded([&] {
    // the kernel is created when the step is encoded, so that it uses the optimizer's time step at that moment
    MPSNNOptimizer* kernel = optimizer_kernel(device.device, optimizer);
    if (BatchEncoding* batch = BatchEncoding::current(); batch && &batch->buffer == &buffer)
      return encode_step(batch->commands, kernel, vectors_of(batch->uses, step));
    encode_step(device, kernel, buffer, step, std::string(optimizer.name()));
  });
}

}  // namespace mpsgraph::metal
