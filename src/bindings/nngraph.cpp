// The older interface: nodes, data sources, optimizers, NNGraph. Data sources may be Python objects.
#include "bindings/bindings.h"
#include "mpsgraph/runtime/command_queue.h"
#include "nngraph/backend.h"
#include "nngraph/definition.h"
#include "nngraph/graph.h"
#include "nngraph/stored_weights.h"
#include "nngraph/transaction.h"

namespace mpsgraph::bindings {

using namespace nngraph;
using runtime::CommandBuffer;
using runtime::NDArray;

namespace {

// An attribute, or what a method of that name gives: data sources may have either.
py::object asked(py::handle object, const char* name) {
  py::object value = object.attr(name);
  return PyCallable_Check(value.ptr()) && !py::isinstance<NDArray>(value) ? value() : value;
}

py::object asked_or_none(py::handle object, const char* name) {
  return py::hasattr(object, name) ? asked(object, name) : py::none();
}

NDArray array_or_none(const py::object& object, const std::string& what) {
  return object.is_none() ? NDArray() : to_ndarray(object, {}, {}, false, what);
}

Neuron to_neuron(const py::object& object) {
  if (object.is_none()) return {};
  if (py::isinstance<py::str>(object)) return {.type = py::cast<std::string>(object)};
  const auto number = [&](const char* name) {
    const py::object value = py::getattr(object, name, py::float_(0.0));
    return value.is_none() ? 0.0 : py::cast<double>(value);
  };
  return {py::cast<std::string>(object.attr("type")), number("a"), number("b"), number("c")};
}

ConvolutionDescriptor to_descriptor(const py::object& object) {
  if (object.is_none()) throw GraphError("a data source's descriptor is None; a ConvolutionDescriptor is expected");
  ConvolutionDescriptor d;
  const auto read = [&](const char* name, int64_t& field) {
    if (py::hasattr(object, name)) field = to_size(object.attr(name), name);
    if (field < 1) throw ShapeError(cat("ConvolutionDescriptor: ", name, " must be 1 or more, came ", field));
  };
  read("kernel_width", d.kernel_width), read("kernel_height", d.kernel_height);
  read("input_feature_channels", d.input_feature_channels), read("output_feature_channels", d.output_feature_channels);
  read("stride_in_pixels_x", d.stride_in_pixels_x), read("stride_in_pixels_y", d.stride_in_pixels_y);
  read("dilation_rate_x", d.dilation_rate_x), read("dilation_rate_y", d.dilation_rate_y);
  read("groups", d.groups);
  d.depthwise = py::cast<bool>(py::getattr(object, "depthwise", py::bool_(false)));
  d.neuron = to_neuron(py::getattr(object, "neuron", py::none()));
  if (d.input_feature_channels % d.groups != 0 || d.output_feature_channels % d.groups != 0)
    throw ShapeError(cat("ConvolutionDescriptor: ", d.input_feature_channels, " and ", d.output_feature_channels,
                         " channels cannot be divided into ", d.groups, " groups"));
  if (d.depthwise && d.output_feature_channels % d.input_feature_channels != 0)
    throw ShapeError(cat("ConvolutionDescriptor: a depthwise convolution has a multiple of its ",
                         d.input_feature_channels, " input channels, came ", d.output_feature_channels));
  return d;
}

// --- data sources in Python ------------------------------------------------------------------------------------------

// What both kinds share: a user's object, asked by the names of Apple's protocols.
class PythonSource {
 public:
  explicit PythonSource(py::handle object) : object_(keep(object)) {}

 protected:
  const void* identity_of() const { return object_.get(); }  // nodes wrap a user's object each
  py::handle object() const { return object_.get(); }
  std::string label_of() const {
    std::string result;
    call_python([&] {
      const py::object label = asked_or_none(object(), "label");
      if (!label.is_none()) result = py::str(label);
    });
    return result;
  }
  bool load_it() const {
    bool loaded = false;
    call_python([&] {
      const py::object answer = object().attr("load")();
      if (!py::isinstance<py::bool_>(answer))
        throw GraphError(cat("load() of a data source says True or False, it gave ", shown(answer)));
      loaded = py::cast<bool>(answer);
    });
    return loaded;
  }
  void purge_it() const {
    call_python([&] { object().attr("purge")(); });
  }
  std::vector<NamedArray> arrays_of(std::initializer_list<std::pair<const char*, const char*>> names) const {
    std::vector<NamedArray> result;
    call_python([&] {
      for (const auto& [name, method] : names) {
        const py::object value = asked_or_none(object(), method);
        if (!value.is_none()) result.push_back({name, array_or_none(value, cat("a data source's ", method))});
      }
    });
    return result;
  }
  bool has(const char* name) const {
    bool result = false;
    call_python([&] { result = py::hasattr(object(), name); });
    return result;
  }
  StatePtr updated(const char* method, CommandBuffer& buffer, const py::object& first, const py::object& second) const {
    const py::object result = second ? object().attr(method)(buffer.shared_from_this(), first, second)
                                     : object().attr(method)(buffer.shared_from_this(), first);
    if (result.is_none()) return nullptr;
    if (!py::isinstance<ParameterState>(result))
      throw GraphError(
          cat(method, "() of a data source gives a state with the new parameters or None, it gave ", shown(result)));
    return py::cast<StatePtr>(result);
  }

  const std::shared_ptr<PyObject> object_;
};

class PythonConvolution final : public ConvolutionSource, PythonSource {
 public:
  explicit PythonConvolution(py::handle object) : PythonSource(object) {}
  const void* identity() const override { return identity_of(); }
  std::string label() const override { return label_of(); }
  bool load() override { return load_it(); }
  void purge() override { purge_it(); }
  ConvolutionDescriptor descriptor() override {
    ConvolutionDescriptor result;
    call_python([&] { result = to_descriptor(asked(object(), "descriptor")); });
    return result;
  }
  std::vector<NamedArray> arrays() override { return arrays_of({{"weights", "weights"}, {"biases", "bias_terms"}}); }
  bool updates() const override { return has("update"); }
  StatePtr update(CommandBuffer& buffer, const StatePtr& gradients, const StatePtr& source) override {
    StatePtr result;
    call_python([&] { result = updated("update", buffer, py::cast(gradients), py::cast(source)); });
    return result;
  }
};

class PythonNormalization final : public NormalizationSource, PythonSource {
 public:
  PythonNormalization(py::handle object, Kind kind) : NormalizationSource(kind), PythonSource(object) {}
  const void* identity() const override { return identity_of(); }
  std::string label() const override { return label_of(); }
  bool load() override { return !has("load") || load_it(); }
  void purge() override {
    if (has("purge")) purge_it();
  }
  NormalizationDescriptor descriptor() override {
    NormalizationDescriptor result;
    call_python([&] {
      result.number_of_feature_channels = to_size(asked(object(), "number_of_feature_channels"), "channels");
      if (py::hasattr(object(), "number_of_groups"))
        result.number_of_groups = to_size(asked(object(), "number_of_groups"), "groups");
      const py::object epsilon = asked_or_none(object(), "epsilon");
      if (!epsilon.is_none()) result.epsilon = py::cast<double>(epsilon);
    });
    return result;
  }
  std::vector<NamedArray> arrays() override {
    return arrays_of({{"gamma", "gamma"}, {"beta", "beta"}, {"mean", "mean"}, {"variance", "variance"}});
  }
  bool updates() const override { return has("update_gamma_and_beta"); }
  // Batch normalization: the moving statistics first, gamma and beta last, as Apple asks it.
  StatePtr update(CommandBuffer& buffer, const StatePtr& gradients, const StatePtr& source) override {
    StatePtr result;
    call_python([&] {
      std::vector<NamedArray> arrays;
      const auto take = [&](const char* method) {
        const StatePtr state = updated(method, buffer, py::cast(gradients), py::cast(source));
        if (state) arrays.insert(arrays.end(), state->arrays.begin(), state->arrays.end());
      };
      if (py::hasattr(object(), "update_mean_and_variance")) take("update_mean_and_variance");
      take("update_gamma_and_beta");
      if (!arrays.empty()) result = std::make_shared<ParameterState>(std::move(arrays));
    });
    return result;
  }
};

std::shared_ptr<DataSource> to_source(const py::object& object, DataSource::Kind kind) {
  if (object.is_none()) return nullptr;
  if (py::isinstance<DataSource>(object)) return py::cast<std::shared_ptr<DataSource>>(object);
  const bool convolution = kind == DataSource::Kind::convolution;
  for (const char* name : {"load", "purge", "descriptor", "weights"})
    if (convolution && !py::hasattr(object, name))
      throw GraphError(cat("a convolution's data source needs load, purge, descriptor and weights; ", shown(object),
                           " has no ", name));
  for (const char* name : {"number_of_feature_channels", "gamma", "beta"})
    if (!convolution && !py::hasattr(object, name))
      throw GraphError(cat("a normalization's data source needs number_of_feature_channels, gamma and beta; ",
                           shown(object), " has no ", name));
  if (convolution) return std::make_shared<PythonConvolution>(object);
  return std::make_shared<PythonNormalization>(object, kind);
}

// --- states and optimizers -------------------------------------------------------------------------------------------

py::object to_python(const NDArray* array) { return array ? py::cast(*array) : py::object(py::none()); }

void require_written(const ParameterState& state) {
  const auto buffer = state.written_by.lock();
  if (!buffer) return;
  using enum runtime::CommandBufferStatus;  // done() would wait for handlers, too
  if (const auto status = buffer->status(); status != completed && status != error)
    throw DeviceError("this state is written by a command buffer that is not done; wait for it first");
}

StatePtr to_state(const py::dict& arrays) {
  std::vector<NamedArray> named;
  for (const auto& [key, value] : arrays)
    if (!value.is_none())
      named.push_back({py::cast<std::string>(key), to_ndarray(value, false, DType::float32, true, "a state's array")});
  return std::make_shared<ParameterState>(std::move(named));
}

// Encodes one step for each array that `gradients` and `source` both have. Values and moments are written into the
// memory that is there, when the command buffer has run.
void encode_step(const std::shared_ptr<Optimizer>& optimizer, CommandBuffer& buffer,
                 const std::vector<NDArray>& gradients, const std::vector<NDArray>& values,
                 const std::vector<std::vector<NDArray>>& moments, const std::vector<NDArray>& results) {
  if (gradients.size() != values.size() || results.size() != values.size())
    throw GraphError(cat(optimizer->name(), ": ", gradients.size(), " gradients for ", values.size(), " values and ",
                         results.size(), " results"));
  if (moments.size() != optimizer->moments().size())
    throw GraphError(cat(optimizer->name(), " keeps ", optimizer->moments().size(), " moments of each parameter, came ",
                         moments.size()));
  for (const auto& arrays : moments)
    if (arrays.size() != values.size())
      throw GraphError(cat(optimizer->name(), ": ", arrays.size(), " moments for ", values.size(), " parameters"));
  std::vector<std::vector<NDArray>> written;
  for (size_t i = 0; i < values.size(); ++i) {  // all are looked at before any is encoded
    if (gradients[i].dims() != values[i].dims())
      throw ShapeError(
          cat(optimizer->name(), ": the gradient is ", gradients[i].type(), ", the values ", values[i].type()));
    std::vector<NDArray> kept{results[i]};
    for (const auto& arrays : moments) kept.push_back(arrays[i]);
    for (const NDArray& array : kept) {
      if (array.dims() != values[i].dims() || array.dtype() != DType::float32)
        throw ShapeError(cat(optimizer->name(), ": ", array.type(), " cannot take what ", values[i].type(), " gives"));
      if (!array.writable()) throw DeviceError(cat(optimizer->name(), ": results and moments must be writable"));
    }
    written.push_back(std::move(kept));
  }
  const NodeBackend* backend = find_node_backend(buffer.queue().device().name());
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<NDArray> given(written[i].begin() + 1, written[i].end());
    if (backend) {
      backend->encode_step(*optimizer, buffer, {gradients[i], values[i], given, results[i]});
      continue;
    }
    std::vector<NDArray> made = optimizer->encode(buffer, buffer.queue().device(), values[i], gradients[i], given);
    buffer.encode(
        [made = std::move(made), kept = std::move(written[i])]() mutable {
          for (size_t k = 0; k < kept.size(); ++k) kept[k].copy_from(made[k]);
        },
        cat(optimizer->name(), " update"));
  }
  EncodeTransaction::on_failure([optimizer, before = optimizer->time_step()] { optimizer->set_time_step(before); });
  optimizer->advance();
}

OptimizerDescriptor to_optimizer_descriptor(double rate, double rescale, std::optional<std::pair<double, double>> clip,
                                            const std::string& type, double scale) {
  OptimizerDescriptor d;
  d.learning_rate = rate, d.gradient_rescale = rescale, d.regularization_scale = scale;
  if (clip) {
    d.apply_gradient_clipping = true;
    d.gradient_clip_min = clip->first, d.gradient_clip_max = clip->second;
    if (!(clip->first <= clip->second))
      throw GraphError(
          cat("gradients are clipped to [minimum, maximum], came [", clip->first, ", ", clip->second, "]"));
  }
  using Regularization = OptimizerDescriptor::Regularization;
  if (type == "none")
    d.regularization_type = Regularization::none;
  else if (type == "l1")
    d.regularization_type = Regularization::l1;
  else if (type == "l2")
    d.regularization_type = Regularization::l2;
  else
    throw GraphError(cat("regularization_type is none, l1 or l2, came ", type));
  return d;
}

void define_states(py::module_& module) {
  py::class_<ParameterState, StatePtr>(
      module, "NNParameterState", "Parameters, their gradients or statistics, by name; of one batch or a source's.")
      .def(py::init(&to_state), py::arg("arrays"), "Over the given float32 arrays, which are not copied.")
      .def_property_readonly("names",
                             [](const ParameterState& self) {
                               py::typing::List<py::str> names;
                               for (const NamedArray& named : self.arrays) names.append(py::str(named.name));
                               return names;
                             })
      .def(
          "array", [](ParameterState& self, const std::string& name) { return to_python(self.find(name)); },
          py::arg("name"), "The array of that name, perhaps not written yet; None when there is none.")
      .def(
          "read",
          [](ParameterState& self, const std::string& name) {
            require_written(self);
            return to_python(self.find(name));
          },
          py::arg("name"), "The same; DeviceError while the command buffer that writes it is not done.");
}

using Clip = std::optional<std::pair<double, double>>;

void define_optimizers(py::module_& module) {
  py::class_<Optimizer, std::shared_ptr<Optimizer>>(module, "NNOptimizer", "An optimizer of the older path.")
      .def_property(
          "learning_rate", [](const Optimizer& self) { return self.descriptor.learning_rate; },
          [](Optimizer& self, double rate) { self.descriptor.learning_rate = rate; })
      .def_property("time_step", &Optimizer::time_step, &Optimizer::set_time_step)
      .def_property_readonly("moments",
                             [](const Optimizer& self) {
                               py::typing::List<py::str> names;
                               for (std::string_view name : self.moments()) names.append(py::str(std::string(name)));
                               return names;
                             })
      .def(
          "encode_arrays",
          [](const std::shared_ptr<Optimizer>& self, const std::shared_ptr<CommandBuffer>& buffer,
             const std::vector<NDArray>& gradients, const std::vector<NDArray>& values,
             const std::vector<std::vector<NDArray>>& moments,
             const std::vector<NDArray>& results) { encode_step(self, *buffer, gradients, values, moments, results); },
          py::arg("command_buffer"), py::arg("gradients"), py::arg("values"), py::arg("moments"), py::arg("results"));
  py::class_<StochasticGradientDescent, Optimizer, std::shared_ptr<StochasticGradientDescent>>(module, "NNSGD")
      .def(py::init([](double rate, double momentum, bool nesterov, double rescale, Clip clip, const std::string& type,
                       double scale) {
             return std::make_shared<StochasticGradientDescent>(
                 to_optimizer_descriptor(rate, rescale, clip, type, scale), momentum, nesterov);
           }),
           py::arg("learning_rate"), py::arg("momentum_scale"), py::arg("use_nesterov_momentum"),
           py::arg("gradient_rescale"), py::arg("gradient_clip"), py::arg("regularization_type"),
           py::arg("regularization_scale"))
      .def_readonly("momentum_scale", &StochasticGradientDescent::momentum_scale)
      .def_readonly("use_nesterov_momentum", &StochasticGradientDescent::use_nesterov_momentum);
  py::class_<RMSProp, Optimizer, std::shared_ptr<RMSProp>>(module, "NNRMSProp")
      .def(py::init([](double rate, double decay, double epsilon, double rescale, Clip clip, const std::string& type,
                       double scale) {
             return std::make_shared<RMSProp>(to_optimizer_descriptor(rate, rescale, clip, type, scale), decay,
                                              epsilon);
           }),
           py::arg("learning_rate"), py::arg("decay"), py::arg("epsilon"), py::arg("gradient_rescale"),
           py::arg("gradient_clip"), py::arg("regularization_type"), py::arg("regularization_scale"))
      .def_readonly("decay", &RMSProp::decay)
      .def_readonly("epsilon", &RMSProp::epsilon);
  py::class_<Adam, Optimizer, std::shared_ptr<Adam>>(module, "NNAdam")
      .def(py::init([](double rate, double beta1, double beta2, double epsilon, int64_t step, bool amsgrad,
                       double rescale, Clip clip, const std::string& type, double scale) {
             return std::make_shared<Adam>(to_optimizer_descriptor(rate, rescale, clip, type, scale), beta1, beta2,
                                           epsilon, step, amsgrad);
           }),
           py::arg("learning_rate"), py::arg("beta1"), py::arg("beta2"), py::arg("epsilon"), py::arg("time_step"),
           py::arg("amsgrad"), py::arg("gradient_rescale"), py::arg("gradient_clip"), py::arg("regularization_type"),
           py::arg("regularization_scale"))
      .def_readonly("beta1", &Adam::beta1)
      .def_readonly("beta2", &Adam::beta2)
      .def_readonly("epsilon", &Adam::epsilon);
}

// --- ready-made data sources -----------------------------------------------------------------------------------------

using MaybeOptimizer = std::optional<std::shared_ptr<Optimizer>>;

DataSource::Kind to_kind(const std::string& name) {
  if (name == "batch") return DataSource::Kind::batch_normalization;
  if (name == "instance") return DataSource::Kind::instance_normalization;
  if (name == "group") return DataSource::Kind::group_normalization;
  throw GraphError(cat("kind is batch, instance or group, came ", name));
}

py::object held_array(DataSource& self, const std::string& name) {
  for (const NamedArray& named : self.arrays())
    if (named.name == name) return py::cast(named.array);
  return py::none();
}

void define_sources(py::module_& module) {
  py::class_<DataSource, std::shared_ptr<DataSource>>(module, "NNDataSource", "Where a filter's parameters come from.")
      .def("load",
           [](DataSource& self) {
             WithoutGil released;
             return self.load();
           })
      .def("purge", &DataSource::purge)
      .def_property_readonly("label", &DataSource::label)
      .def_property_readonly("optimizer", &DataSource::optimizer)
      .def("array", &held_array, py::arg("name"), "A parameter as it was at the last load; None when there is none.");
  py::class_<TrainableConvolution, DataSource, std::shared_ptr<TrainableConvolution>>(module, "NNTrainableConvolution")
      .def(py::init([](const py::object& descriptor, const py::object& weights, const py::object& biases,
                       const MaybeOptimizer& optimizer, const std::string& label) {
             return std::make_shared<TrainableConvolution>(to_descriptor(descriptor), array_or_none(weights, "weights"),
                                                           array_or_none(biases, "bias_terms"),
                                                           optimizer.value_or(nullptr), label);
           }),
           py::arg("descriptor"), py::arg("weights"), py::arg("bias_terms"), py::arg("optimizer"), py::arg("label"));
  py::class_<StoredWeights, DataSource, std::shared_ptr<StoredWeights>>(module, "NNStoredWeights")
      .def(py::init([](const std::string& path, const py::object& descriptor, const std::string& weights,
                       const std::string& biases, const std::string& layout, const std::string& label) {
             return std::make_shared<StoredWeights>(path, to_descriptor(descriptor), weights, biases, layout, label);
           }),
           py::arg("path"), py::arg("descriptor"), py::arg("weights"), py::arg("bias_terms"), py::arg("layout"),
           py::arg("label"));
  py::class_<TrainableNormalization, DataSource, std::shared_ptr<TrainableNormalization>>(module,
                                                                                          "NNTrainableNormalization")
      .def(
          py::init([](const std::string& kind, int64_t channels, int64_t groups, double epsilon, const py::dict& arrays,
                      double momentum, const MaybeOptimizer& optimizer, const std::string& label) {
            std::vector<NamedArray> named;
            for (const auto& [key, value] : arrays)
              named.push_back({py::cast<std::string>(key),
                               array_or_none(py::reinterpret_borrow<py::object>(value), py::cast<std::string>(key))});
            return std::make_shared<TrainableNormalization>(
                to_kind(kind), NormalizationDescriptor{channels, groups, epsilon}, std::move(named), momentum,
                optimizer.value_or(nullptr), label);
          }),
          py::arg("kind"), py::arg("number_of_feature_channels"), py::arg("number_of_groups"), py::arg("epsilon"),
          py::arg("arrays"), py::arg("momentum"), py::arg("optimizer"), py::arg("label"));
}

// --- nodes -----------------------------------------------------------------------------------------------------------

PaddingPolicy to_policy(const py::object& object) {
  if (py::isinstance<py::str>(object)) return padding_policy(py::cast<std::string>(object));
  PaddingPolicy policy;
  if (py::hasattr(object, "padding") && !object.attr("padding").is_none()) {
    const auto padding = py::cast<std::vector<int64_t>>(object.attr("padding"));
    if (padding.size() != 4 || std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p < 0; }))
      throw ShapeError(cat("padding is [top, bottom, left, right] from 0, came ", to_string(Ints(padding))));
    policy.custom = true;
    std::copy(padding.begin(), padding.end(), policy.padding.begin());
    return policy;
  }
  const auto chosen = [&](const char* attribute, std::initializer_list<const char*> names) {
    const std::string value = py::cast<std::string>(object.attr(attribute));
    int i = 0;
    std::string known;
    for (const char* name : names) {
      if (value == name) return i;
      known += cat(i++ ? ", " : "", name);
    }
    throw GraphError(cat("a padding policy's ", attribute, " is one of ", known, ", came ", value));
  };
  policy.size = static_cast<PaddingSize>(chosen("size", {"valid_only", "same", "full"}));
  policy.alignment = static_cast<PaddingAlignment>(chosen("alignment", {"centered", "top_left", "bottom_right"}));
  policy.remainder =
      static_cast<Remainder>(chosen("remainder", {"top_left", "top_right", "bottom_left", "bottom_right"}));
  return policy;
}

void define_nodes(py::module_& module) {
  py::class_<ImageNode, ImagePtr>(module, "ImageNode",
                                  "A place for a batch of images: an input, or what a filter makes. Source: "
                                  "MPSNNImageNode.")
      .def(py::init([](std::optional<std::string> handle) { return ImageNode::input(handle.value_or("")); }),
           py::arg("handle") = py::none(), "handle: its name among the graph's inputs.")
      .def_readwrite("handle", &ImageNode::handle)
      .def_property(
          "format", [](const ImageNode& self) { return std::string(name(self.format)); },
          [](ImageNode& self, const std::string& format) { self.format = channel_format(format); },
          "How its numbers are stored: \"none\" (as the graph says), \"float16\" or \"float32\".")
      .def_readwrite("export_from_graph", &ImageNode::export_from_graph)
      .def_readwrite("synchronize_resource", &ImageNode::synchronize_resource)
      .def_readwrite("stop_gradient", &ImageNode::stop_gradient)
      .def("__repr__", [](const ImageNode& self) {
        return cat("ImageNode(", self.handle.empty() ? "" : cat("'", self.handle, "', "),
                   self.producer ? cat("made by ", self.producer->title()) : std::string("input"), ")");
      });
  py::class_<FilterNode, FilterPtr>(module, "FilterNode",
                                    "A filter over images, or the gradient filter of one. Source: MPSNNFilterNode.")
      .def(py::init([](const std::string& kind, std::vector<ImagePtr> sources, const py::dict& attributes,
                       const py::object& source, const std::string& label, const std::string& location) {
             const NodeDefinition& definition = node_definition(kind);
             const auto& parameters = definition.parameters;
             const FilterPtr node =
                 FilterNode::create(kind, std::move(sources), to_attributes(kind, definition.attributes, attributes),
                                    parameters ? to_source(source, *parameters) : nullptr, location);
             node->label = label;
             return node;
           }),
           py::arg("kind"), py::arg("sources"), py::arg("attributes"), py::arg("data_source").none(true),
           py::arg("label"), py::arg("location"))
      .def_property_readonly("kind", [](const FilterNode& self) { return std::string(self.kind()); })
      .def_readwrite("label", &FilterNode::label)
      .def_property_readonly("location", &FilterNode::location)
      .def_property_readonly("sources", &FilterNode::sources)
      .def_property_readonly("is_gradient", &FilterNode::is_gradient)
      .def_property_readonly("forward", &FilterNode::forward, "Of a gradient filter: what it derives.")
      .def_property_readonly("result_image", &FilterNode::result_image)
      .def_property(
          "padding_policy", [](const FilterNode& self) { return to_string(self.padding); },
          [](FilterNode& self, const py::object& policy) {
            if (!self.definition().windows)
              throw GraphError(cat("[", self.title(), "] has no windows, so that no padding policy applies"));
            self.padding = to_policy(policy);
          })
      .def("gradient_filter", &FilterNode::gradient_filter, py::arg("source").none(false))
      .def("gradient_filters", &FilterNode::gradient_filters, py::arg("source").none(false))
      .def(
          "training_graph",
          [](FilterNode& self, const ImagePtr& gradient,
             const std::optional<py::typing::Callable<void(FilterNode, py::object, ImageNode, ImageNode)>>& handler) {
            FilterNode::Handler called;
            if (handler)
              called = [&](const FilterPtr& g, const FilterPtr& f, const ImagePtr& image, const ImagePtr& from) {
                (*handler)(g, f, image, from);
              };
            return self.training_graph(gradient, called);
          },
          py::arg("source_gradient") = py::none(), py::arg("node_handler") = py::none())
      .def("__repr__", [](const FilterNode& self) { return cat("<", self.title(), ">"); });
  module.def(
      "nn_node_definitions",
      [] {
        py::typing::List<py::dict> rows;
        for (const NodeDefinition* d : all_node_definitions()) {
          py::dict row;
          const auto set = [&](const char* key, std::string_view value) { row[key] = std::string(value); };
          set("name", d->name), set("family", d->family), set("apple", d->apple), set("first_macos", d->first_macos);
          set("apple_gradient", d->apple_gradient), set("without", d->without);
          rows.append(row);
        }
        return rows;
      },
      "The table of filters, family by family.");
  module.def("nn_count_copy", &runtime::count_copy);
}

// --- the graph -------------------------------------------------------------------------------------------------------

py::object array_or_none(const ImageBatch& batch) {
  return batch.array.valid() ? py::cast(batch.array) : py::object(py::none());
}

void define_graph_of_nodes(py::module_& module) {
  py::class_<NNGraph, std::shared_ptr<NNGraph>>(module, "NNGraphCore", "Nodes as something that runs.")
      .def(py::init([](const py::object& device, std::vector<ImagePtr> results, std::vector<bool> needed) {
             runtime::Device& on = to_device(device);
             WithoutGil released;
             return std::make_shared<NNGraph>(on, std::move(results), std::move(needed));
           }),
           py::arg("device").none(true), py::arg("result_images"), py::arg("results_are_needed"))
      .def_property_readonly("device", &NNGraph::device, py::return_value_policy::reference)
      .def_property_readonly("result_images", &NNGraph::result_images)
      .def_property_readonly("source_images", &NNGraph::source_images)
      .def_property_readonly("source_image_handles", &NNGraph::source_image_handles)
      .def_property_readonly("source_state_handles", &NNGraph::source_state_handles)
      .def_property_readonly("intermediate_image_handles", &NNGraph::intermediate_image_handles)
      .def_property_readonly("filters", &NNGraph::filters)
      .def_property(
          "format", [](const NNGraph& self) { return std::string(name(self.format())); },
          [](NNGraph& self, const std::string& format) { self.set_format(channel_format(format)); })
      .def(
          "encode_batch",
          [](NNGraph& self, const std::shared_ptr<CommandBuffer>& buffer, const std::vector<NDArray>& sources,
             const std::vector<std::pair<NDArray, std::optional<NDArray>>>& labels) {
            std::vector<ImageBatch> images;
            for (const NDArray& array : sources) images.push_back({array});
            std::vector<LabelsBatch> states;
            for (const auto& [t, w] : labels) states.push_back({t, w.value_or(NDArray()), {}});
            EncodeResults results;
            {
              WithoutGil released;
              results = self.encode_batch(buffer, std::move(images), states);
            }
            using Arrays = py::typing::List<py::object>;
            Arrays made, exported, losses;
            for (const ImageBatch& batch : results.images) made.append(array_or_none(batch));
            for (const ImageBatch& batch : results.intermediates) exported.append(array_or_none(batch));
            for (const LabelsBatch& batch : states) losses.append(py::cast(batch.losses));
            return py::typing::Tuple<Arrays, Arrays, Arrays>(py::make_tuple(made, exported, losses));
          },
          py::arg("command_buffer").none(false), py::arg("source_images"), py::arg("labels"),
          "(result images, intermediate images, losses) as arrays, written when the command buffer has run.")
      .def("reload_from_data_sources", &NNGraph::reload_from_data_sources, py::call_guard<WithoutGil>());
}

}  // namespace

void define_nngraph(py::module_& module) {
  define_states(module);
  define_optimizers(module);
  define_sources(module);
  define_nodes(module);
  define_graph_of_nodes(module);
}

}  // namespace mpsgraph::bindings
