// Probes of Apple's nodes that no other project is known to use on Macs. Each probe runs small nodes on this device and
// on the CPU and reports which results agree. tests/apple/witnesses.txt lists the selectors that depend on these
// probes.
#include "backends/metal/probes_nodes.h"

#include "backends/metal/probes.h"
#include "nngraph/graph.h"

namespace mpsgraph::metal {

using namespace nngraph;
using runtime::CommandQueue;
using runtime::Device;
using runtime::NDArray;
using runtime::Probe;

namespace {

using Make = std::function<ImagePtr(const ImagePtr&)>;

Values run_image(Device& device, const NDArray& x, const Make& make) {
  NNGraph graph(device, {make(ImageNode::input("x"))});
  const auto buffer = CommandQueue::create(device)->command_buffer();
  std::vector<LabelsBatch> none;
  const EncodeResults results = graph.encode_batch(buffer, {{x}}, none);
  finish(buffer);
  return values_of(results.images[0].array);
}

Ask one(const std::string& kind, const Attributes& attributes, const NDArray& x) {
  return [=](Device& device) {
    return run_image(device, x,
                     [&](const ImagePtr& in) { return FilterNode::create(kind, {in}, attributes)->result_image(); });
  };
}

std::string neurons(MetalDevice&) {
  Beside beside;
  const NDArray x = images_of({1, 1, 9, 4});
  for (const char* type : {"relu", "linear", "sigmoid", "hard_sigmoid", "tanh", "absolute", "softplus", "softsign",
                           "elu", "relun", "exponential", "gelu"}) {
    const Attributes numbers{{"a", 0.5}, {"b", 1.5}, {"c", -1.0}};
    beside.ask(type, one(cat("neuron_", type), std::string_view(type) == "gelu" ? Attributes{} : numbers, x));
  }
  const NDArray positive = images_of({1, 1, 9, 4}, 0.5f);
  beside.ask("power", one("neuron_power", {{"a", 0.5}, {"b", 1.5}, {"c", 2.0}}, positive));
  beside.ask("logarithm", one("neuron_logarithm", {{"a", 0.5}, {"b", 1.5}, {"c", -1.0}}, positive));
  const Values slopes{0.1f, 0.2f, 0.3f, 0.4f};
  beside.ask("prelu", one("neuron_prelu", {{"slopes", ConstantData::copy(DType::float32, {4}, slopes.data())}}, x));
  return beside.answer();
}

std::string local_normalizations(MetalDevice&) {
  Beside beside;
  const NDArray x = images_of({1, 4, 5, 8});
  const Attributes shape{{"alpha", 0.5}, {"beta", 0.75}, {"delta", 2.0}};
  const auto with = [&](std::initializer_list<std::pair<const char*, Attribute>> more) {
    Attributes attributes = shape;
    for (const auto& [key, value] : more) attributes.set(key, value);
    return attributes;
  };
  beside.ask("cross channel", one("cross_channel_normalization", with({{"kernel_size", int64_t{3}}}), x));
  beside.ask("spatial",
             one("spatial_normalization", with({{"kernel_width", int64_t{3}}, {"kernel_height", int64_t{3}}}), x));
  beside.ask(
      "local contrast",
      one("local_contrast_normalization",
          with({{"kernel_width", int64_t{3}}, {"kernel_height", int64_t{3}}, {"p0", 0.5}, {"pm", 0.25}, {"ps", 2.0}}),
          x));
  return beside.answer();
}

std::string reductions(MetalDevice&) {
  Beside beside;
  const NDArray x = images_of({1, 3, 4, 8});
  for (const char* along : {"row", "column", "feature_channels"})
    for (const char* what : {"min", "max", "mean", "sum"})
      beside.ask(cat(along, " ", what), one(cat("reduction_", along, "_", what), {}, x));
  for (const char* which : {"argument_min", "argument_max"})
    beside.ask(cat("feature_channels ", which), one(cat("reduction_feature_channels_", which), {}, x));
  beside.ask("spatial mean", one("reduction_spatial_mean", {}, x));
  return beside.answer();
}

std::string pairs_of_images(MetalDevice&) {
  Beside beside;
  const auto pair = [](const std::string& kind, const Attributes& attributes, const Dims& second) {
    return [=](Device& device) {
      NNGraph graph(
          device,
          {FilterNode::create(kind, {ImageNode::input("x"), ImageNode::input("y")}, attributes)->result_image()});
      const auto buffer = CommandQueue::create(device)->command_buffer();
      std::vector<LabelsBatch> none;
      const NDArray x = images_of({1, 4, 4, 8}), y = images_of(second, 0.5f);
      std::vector<ImageBatch> fed;
      for (const std::string& handle : graph.source_image_handles()) fed.push_back({handle == "x" ? x : y});
      const EncodeResults results = graph.encode_batch(buffer, fed, none);
      finish(buffer);
      return values_of(results.images[0].array);
    };
  };
  for (const char* kind : {"addition", "subtraction", "multiplication", "division"})
    beside.ask(kind, pair(kind, {}, {1, 4, 4, 8}));
  for (const char* type : {"equal", "not_equal", "less", "less_or_equal", "greater", "greater_or_equal"})
    beside.ask(type, pair("comparison", {{"comparison_type", std::string(type)}}, {1, 4, 4, 8}));
  // Strides are ordered x, y, channels. A stride of 0 reuses the only element along that axis.
  beside.ask("a column repeated", pair("addition", {{"secondary_stride", Ints{0, 1, 1}}}, {1, 4, 1, 8}));
  beside.ask("a row repeated", pair("addition", {{"secondary_stride", Ints{1, 0, 1}}}, {1, 1, 4, 8}));
  beside.ask("a channel repeated", pair("addition", {{"secondary_stride", Ints{1, 1, 0}}}, {1, 4, 4, 1}));
  return beside.answer();
}

std::string loss_nodes(MetalDevice&) {
  Beside beside;
  const auto loss = [](const Attributes& attributes, bool weighed) {
    return [=](Device& device) {
      const FilterPtr node = FilterNode::create("loss", {ImageNode::input("x")}, attributes);
      NNGraph graph(device, {node->result_image()});
      const auto buffer = CommandQueue::create(device)->command_buffer();
      std::vector<LabelsBatch> labels(1);
      labels[0].labels = array_of({0, 1, 0, 0, 1, 0, 0, 0}, {2, 1, 1, 4});
      if (weighed) labels[0].weights = array_of({1, 0, 2, 1, 0, 1, 1, 0.5f}, {2, 1, 1, 4});
      const NDArray x = array_of({0.2f, 0.6f, 0.1f, 0.1f, 0.3f, 0.3f, 0.2f, 0.2f}, {2, 1, 1, 4});
      const EncodeResults results = graph.encode_batch(buffer, {{x}}, labels);
      finish(buffer);
      Values all = values_of(labels[0].losses);
      for (float value : values_of(results.images[0].array)) all.push_back(value);
      return all;
    };
  };
  const auto of = [](const std::string& type, const std::string& reduction, Attribute across = false) {
    return Attributes{{"loss_type", type}, {"reduction_type", reduction}, {"reduce_across_batch", across}};
  };
  for (const char* type :
       {"mean_absolute_error", "mean_squared_error", "softmax_cross_entropy", "sigmoid_cross_entropy",
        "categorical_cross_entropy", "hinge", "huber", "cosine_distance", "log"})
    beside.ask(type, loss(of(type, "sum"), false));
  for (const char* reduction : {"none", "mean", "sum_by_nonzero_weights"})
    beside.ask(reduction, loss(of("mean_squared_error", reduction), true));
  beside.ask("reduced across the batch", loss(of("mean_squared_error", "mean", true), true));
  Attributes smoothed = of("softmax_cross_entropy", "sum");
  smoothed.set("label_smoothing", 0.25);
  smoothed.set("number_of_classes", int64_t{4});
  smoothed.set("weight", 2.0);
  beside.ask("label smoothing and a weight", loss(smoothed, false));
  Attributes wide = of("huber", "sum");
  wide.set("delta", 0.25);
  beside.ask("huber of 0.25", loss(wide, false));
  return beside.answer();
}

std::string forward_losses(MetalDevice&) {
  Beside beside;
  const auto loss = [](size_t of) {
    return [=](Device& device) {
      const Attributes attributes{{"loss_type", std::string("mean_squared_error")},
                                  {"reduction_type", std::string("sum")}};
      const ImagePtr x = ImageNode::input("x"), y = ImageNode::input("y"), w = ImageNode::input("w");
      const FilterPtr node = FilterNode::create("forward_loss", {x, y, w}, attributes);
      const FilterPtr first = FilterNode::create("initial_gradient", {node->result_image()}, {});
      NNGraph graph(device, {node->gradient_filters(first->result_image())[of]->result_image()});
      const auto buffer = CommandQueue::create(device)->command_buffer();
      std::vector<LabelsBatch> none;
      std::vector<ImageBatch> fed;
      for (const std::string& handle : graph.source_image_handles())
        fed.push_back({images_of({2, 1, 2, 4}, handle == "x" ? -2.0f : handle == "y" ? 0.0f : 0.5f)});
      const EncodeResults results = graph.encode_batch(buffer, fed, none);
      finish(buffer);
      return values_of(results.images[0].array);
    };
  };
  beside.ask("gradient of the source", loss(0));
  beside.ask("gradient of the labels", loss(1));
  return beside.answer();
}

// --- trainable layers ------------------------------------------------------------------------------------------------

// Return the parameters after three training steps.
Values trained(Device& device, const char* kind, const std::shared_ptr<DataSource>& source) {
  {
    const FilterPtr layer = FilterNode::create(kind, {ImageNode::input("x")}, {}, source);
    const FilterPtr loss =
        FilterNode::create("loss", {layer->result_image()},
                           {{"loss_type", std::string("mean_squared_error")}, {"reduction_type", std::string("mean")}});
    NNGraph graph(device, {loss->training_graph(nullptr, nullptr).back()->result_image()}, {false});
    const auto queue = CommandQueue::create(device);
    for (int step = 0; step < 3; ++step) {
      const auto buffer = queue->command_buffer();
      std::vector<LabelsBatch> labels(1);
      labels[0].labels = images_of({2, 3, 3, 4}, 0);
      graph.encode_batch(buffer, {{images_of({2, 3, 3, 4})}}, labels);
      finish(buffer);
    }
  }
  const Loaded loaded(*source, "probe");
  Values all;
  for (const NamedArray& named : source->arrays())
    for (float value : values_of(named.array)) all.push_back(value);
  return all;
}

std::string trained_layers(MetalDevice&) {
  Beside beside;
  const OptimizerDescriptor how{.learning_rate = 0.05};
  using MakeOptimizer = std::function<std::shared_ptr<Optimizer>()>;
  const auto convolution = [](const MakeOptimizer& make) {
    return [=](Device& device) {
      ConvolutionDescriptor d;
      d.input_feature_channels = d.output_feature_channels = 4;
      d.kernel_width = d.kernel_height = 3;
      return trained(
          device, "convolution",
          std::make_shared<TrainableConvolution>(d, images_of({4, 3, 3, 4}), images_of({4}), make(), "probe"));
    };
  };
  beside.ask("momentum", convolution([=] { return std::make_shared<StochasticGradientDescent>(how, 0.5, false); }));
  beside.ask("Nesterov's", convolution([=] { return std::make_shared<StochasticGradientDescent>(how, 0.5, true); }));
  beside.ask("RMSProp", convolution([=] { return std::make_shared<RMSProp>(how, 0.9, 1e-3); }));
  beside.ask("Adam", convolution([=] { return std::make_shared<Adam>(how, 0.9, 0.99, 1e-3, 0, false); }));
  beside.ask("Adam with maximum velocities",
             convolution([=] { return std::make_shared<Adam>(how, 0.9, 0.99, 1e-3, 0, true); }));
  const OptimizerDescriptor clipped{.learning_rate = 0.05,
                                    .gradient_rescale = 2,
                                    .apply_gradient_clipping = true,
                                    .gradient_clip_min = -0.1,
                                    .gradient_clip_max = 0.1,
                                    .regularization_type = OptimizerDescriptor::Regularization::l2,
                                    .regularization_scale = 0.5};
  beside.ask("a clipped descent",
             convolution([=] { return std::make_shared<StochasticGradientDescent>(clipped, 0, false); }));
  using Kind = DataSource::Kind;
  for (const auto& [kind, of] : {std::pair{"batch_normalization", Kind::batch_normalization},
                                 {"instance_normalization", Kind::instance_normalization},
                                 {"group_normalization", Kind::group_normalization}})
    beside.ask(kind, [&, kind = kind, of = of](Device& device) {
      NormalizationDescriptor d{.number_of_feature_channels = 4};
      if (of == Kind::group_normalization) d.number_of_groups = 2;
      return trained(device, kind,
                     std::make_shared<TrainableNormalization>(
                         of, d, std::vector<NamedArray>{}, 0.9,
                         std::make_shared<StochasticGradientDescent>(how, 0, false), "probe"));
    });
  return beside.answer();
}

std::string convolutions(MetalDevice&) {
  Beside beside;
  const auto convolution = [](const char* kind, const ConvolutionDescriptor& d, const PaddingPolicy& padding,
                              const Attributes& attributes, const Dims& size) {
    return [=](Device& device) {
      const auto source =
          std::make_shared<TrainableConvolution>(d, images_of(d.weights_dims()), NDArray(), nullptr, "probe");
      return run_image(device, images_of(size), [&](const ImagePtr& x) {
        const FilterPtr node = FilterNode::create(kind, {x}, attributes, source);
        node->padding = padding;
        return node->result_image();
      });
    };
  };
  ConvolutionDescriptor d;
  d.input_feature_channels = d.output_feature_channels = 4;
  d.kernel_width = d.kernel_height = 2;
  d.stride_in_pixels_x = d.stride_in_pixels_y = 2;
  const Dims size{1, 5, 6, 4};
  for (const auto& [name, remainder] : {std::pair{"top left", Remainder::top_left},
                                        {"top right", Remainder::top_right},
                                        {"bottom left", Remainder::bottom_left},
                                        {"bottom right", Remainder::bottom_right}})
    beside.ask(cat("padding same, remainder ", name),
               convolution("convolution", d, {.size = PaddingSize::same, .remainder = remainder}, {}, size));
  beside.ask("full", convolution("convolution", d, {.size = PaddingSize::full}, {}, size));
  beside.ask("valid", convolution("convolution", d, {.size = PaddingSize::valid_only}, {}, size));
  beside.ask("float16 accumulation",
             convolution("convolution", d, {}, {{"accumulator_precision", std::string("float16")}}, size));
  ConvolutionDescriptor odd = d;
  odd.kernel_width = odd.kernel_height = 3;
  beside.ask("transposed", convolution("convolution_transpose", odd, {}, {}, size));
  ConvolutionDescriptor spread = d;
  spread.dilation_rate_x = spread.dilation_rate_y = 2;
  spread.stride_in_pixels_x = spread.stride_in_pixels_y = 1;
  beside.ask("dilated", convolution("convolution", spread, {}, {}, size));
  ConvolutionDescriptor grouped = d;
  grouped.groups = 2;
  grouped.input_feature_channels = grouped.output_feature_channels = 8;
  beside.ask("with two groups", convolution("convolution", grouped, {}, {}, {1, 5, 6, 8}));
  ConvolutionDescriptor fused = d;
  fused.neuron = {"relu", 0.25, 0, 0};
  beside.ask("with a neuron", convolution("convolution", fused, {}, {}, size));
  return beside.answer();
}

std::string edges_of_images(MetalDevice&) {
  Beside beside;
  for (const char* mode : {"zero", "constant", "clamp", "mirror", "mirror_with_edge"})
    beside.ask(mode, one("pad",
                         {{"before", Ints{1, 2, 0}},
                          {"after", Ints{2, 1, 0}},
                          {"edge_mode", std::string(mode)},
                          {"fill_value", 3.0}},
                         images_of({1, 4, 4, 4})));
  beside.ask("log-softmax", one("log_softmax", {}, images_of({1, 2, 2, 4})));
  beside.ask("Gram matrix", one("gram_matrix_calculation", {{"alpha", 0.5}}, images_of({1, 3, 3, 4})));
  return beside.answer();
}

std::string sizes_of_images(MetalDevice&) {
  Beside beside;
  const NDArray x = images_of({1, 6, 6, 4});
  const Attributes window{{"kernel_width", int64_t{3}},
                          {"kernel_height", int64_t{2}},
                          {"stride_in_pixels_x", int64_t{2}},
                          {"stride_in_pixels_y", int64_t{1}}};
  for (const char* kind : {"pooling_max", "pooling_average", "pooling_l2_norm"}) beside.ask(kind, one(kind, window, x));
  Attributes spread = window;
  spread.set("dilation_rate_x", int64_t{2});
  spread.set("dilation_rate_y", int64_t{2});
  beside.ask("dilated_pooling_max", one("dilated_pooling_max", spread, x));
  Attributes twice{{"integer_scale_factor_x", int64_t{2}}, {"integer_scale_factor_y", int64_t{3}}};
  beside.ask("upsampling_nearest", one("upsampling_nearest", twice, x));
  for (const bool aligned : {false, true}) {
    twice.set("align_corners", aligned);
    beside.ask(aligned ? "upsampling_bilinear with aligned corners" : "upsampling_bilinear",
               one("upsampling_bilinear", twice, x));
  }
  for (const char* kind : {"bilinear_scale", "lanczos_scale"})
    beside.ask(kind, one(kind, {{"width", int64_t{9}}, {"height", int64_t{12}}}, x));
  beside.ask(
      "reshape",
      one("reshape",
          {{"result_width", int64_t{12}}, {"result_height", int64_t{3}}, {"result_feature_channels", int64_t{4}}}, x));
  for (const char* flags : {"default", "calculate_statistics_always", "calculate_statistics_never"})
    beside.ask(cat("batch normalization, ", flags), [&, flags](Device& device) {
      const auto source = std::make_shared<TrainableNormalization>(
          DataSource::Kind::batch_normalization, NormalizationDescriptor{.number_of_feature_channels = 4},
          std::vector<NamedArray>{{"mean", images_of({4})}, {"variance", images_of({4}, 0.5f)}}, 0.9, nullptr, "probe");
      return run_image(device, x, [&](const ImagePtr& in) {
        return FilterNode::create("batch_normalization", {in}, {{"flags", std::string(flags)}}, source)->result_image();
      });
    });
  return beside.answer();
}

// Feed four inputs and export two of three filters, to check that all of these are in the order of their handles.
std::string images_of_handles(MetalDevice&) {
  Beside beside;
  beside.ask("exports and inputs", [](Device& device) {
    std::vector<ImagePtr> in;
    for (const char* name : {"d", "b", "c", "a"}) in.push_back(ImageNode::input(name));
    const ImagePtr one = FilterNode::create("subtraction", {in[0], in[1]}, {})->result_image();
    const ImagePtr two = FilterNode::create("subtraction", {one, in[2]}, {})->result_image();
    one->export_from_graph = two->export_from_graph = true;
    one->handle = "one", two->handle = "two";
    NNGraph graph(device, {FilterNode::create("subtraction", {two, in[3]}, {})->result_image()});
    const auto buffer = CommandQueue::create(device)->command_buffer();
    std::vector<LabelsBatch> none;
    std::vector<ImageBatch> fed;
    for (const std::string& handle : graph.source_image_handles())
      fed.push_back({images_of({1, 2, 2, 4}, static_cast<float>(handle[0] - 'a'))});
    const EncodeResults results = graph.encode_batch(buffer, fed, none);
    finish(buffer);
    Values all = values_of(results.images[0].array);
    for (const ImageBatch& batch : results.intermediates)
      for (float value : values_of(batch.array)) all.push_back(value);
    return all;
  });
  return beside.answer();
}

std::string boxes(MetalDevice&) {
  Beside beside;
  beside.ask("yolo", [](Device& device) {
    const Values anchors{1, 1, 2, 2};
    const FilterPtr node =
        FilterNode::create("yolo_loss", {ImageNode::input("x")},
                           {{"anchor_boxes", ConstantData::copy(DType::float32, {4}, anchors.data())},
                            {"number_of_anchor_boxes", int64_t{2}}});
    NNGraph graph(device, {node->result_image()});
    const auto buffer = CommandQueue::create(device)->command_buffer();
    std::vector<LabelsBatch> labels(1);
    Values box(2 * 2 * 14, 0);  // the labels contain one box, of the second class, in the second cell
    const Values there{0.5f, 0.25f, 1, 1.5f, 1, 0, 1};
    std::copy(there.begin(), there.end(), box.begin() + 14);
    labels[0].labels = array_of(box, {1, 2, 2, 14});
    const EncodeResults results = graph.encode_batch(buffer, {{images_of({1, 2, 2, 14})}}, labels);
    finish(buffer);
    Values all = values_of(labels[0].losses);
    for (float value : values_of(results.images[0].array)) all.push_back(value);
    return all;
  });
  return beside.answer();
}

}  // namespace

std::vector<Probe> node_probes(MetalDevice& device) {
  const char* method = "small images are processed by the nodes on this device and on the CPU";
  return {
      probe(device, "nodes_neurons", "Do Apple's neurons follow nngraph's formulas?", method,
            "Results that differ from the CPU: src/backends/metal/nngraph/neurons.mm must refuse or adapt that neuron.",
            neurons),
      probe(device, "nodes_local_normalizations", "Do Apple's local normalizations follow nngraph's formulas?", method,
            "Results that differ from the CPU: nngraph/nodes/local_normalization.mm must refuse the node.",
            local_normalizations),
      probe(device, "nodes_reductions", "Do Apple's reduction nodes reduce the axes that they name?", method,
            "Results that differ from the CPU: nngraph/nodes/reduction.mm must refuse the node, or swap rows and "
            "columns.",
            reductions),
      probe(device, "nodes_of_two_images",
            "Do Apple's nodes with two images follow nngraph's formulas, including strides?", method,
            "Results that differ from the CPU: nngraph/nodes/arithmetic.mm must refuse the node.", pairs_of_images),
      probe(device, "nodes_losses", "Do Apple's losses and their gradients follow nngraph's formulas?", method,
            "Results that differ from the CPU: loss_type() in nngraph/nodes/loss.mm must refuse the loss.", loss_nodes),
      probe(device, "nodes_forward_losses", "Do the gradients of Apple's forward losses follow nngraph's formulas?",
            method, "Results that differ from the CPU: make_forward_loss in nngraph/nodes/loss.mm must refuse them.",
            forward_losses),
      probe(device, "nodes_boxes", "Does Apple's YOLO loss follow nngraph's formulas?", method,
            "Results that differ from the CPU: make_yolo in nngraph/nodes/loss.mm must refuse it.", boxes),
      probe(device, "nodes_trained_layers", "Do layers train as on the CPU, with each optimizer?", method,
            "Results that differ from the CPU: nngraph/optimizers.mm must refuse the optimizer, or data_sources.mm the "
            "layer.",
            trained_layers),
      probe(
          device, "nodes_convolutions",
          "Do padding methods, precisions and forms of convolutions follow nngraph's definitions?", method,
          "Results that differ from the CPU: nngraph/padding.mm or nngraph/nodes/convolution.mm must refuse the form.",
          convolutions),
      probe(device, "nodes_edges", "Do edge modes, log-softmax and the Gram matrix follow nngraph's definitions?",
            method,
            "Results that differ from the CPU: nngraph/nodes/shape.mm, softmax.mm or gram_matrix.mm must refuse the "
            "node.",
            edges_of_images),
      probe(device, "nodes_sizes",
            "Do poolings, scales, reshapes and flags of batch normalization follow nngraph's definitions?", method,
            "Results that differ from the CPU: nngraph/nodes/pooling.mm, resize.mm, shape.mm or normalization.mm must "
            "refuse the node.",
            sizes_of_images),
      probe(device, "nodes_handles", "Are inputs and exported images in the order of their handles?", method,
            "Results that differ from the CPU: MetalNodes::encode in nngraph/graph.mm must sort them differently.",
            images_of_handles),
  };
}

}  // namespace mpsgraph::metal
