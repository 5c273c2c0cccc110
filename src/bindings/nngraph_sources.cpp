// The legacy MPSNNGraph API: built-in data sources, and data sources that are Python objects.
#include "bindings/nngraph.h"
#include "nngraph/optimizer.h"
#include "nngraph/stored_weights.h"

namespace mpsgraph::bindings {

using namespace nngraph;
using runtime::CommandBuffer;
using runtime::NDArray;

namespace {

// Returns the attribute `name` of an object, or calls it if it is a method. Data sources may define either.
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
  if (object.is_none()) throw GraphError("the descriptor of a data source must be a ConvolutionDescriptor, got None");
  ConvolutionDescriptor d;
  const auto read = [&](const char* name, int64_t& field) {
    if (py::hasattr(object, name)) field = to_size(object.attr(name), name);
    if (field < 1) throw ShapeError(cat("ConvolutionDescriptor: ", name, " must be at least 1, got ", field));
  };
  read("kernel_width", d.kernel_width), read("kernel_height", d.kernel_height);
  read("input_feature_channels", d.input_feature_channels), read("output_feature_channels", d.output_feature_channels);
  read("stride_in_pixels_x", d.stride_in_pixels_x), read("stride_in_pixels_y", d.stride_in_pixels_y);
  read("dilation_rate_x", d.dilation_rate_x), read("dilation_rate_y", d.dilation_rate_y);
  read("groups", d.groups);
  d.depthwise = py::cast<bool>(py::getattr(object, "depthwise", py::bool_(false)));
  d.neuron = to_neuron(py::getattr(object, "neuron", py::none()));
  if (d.input_feature_channels % d.groups != 0 || d.output_feature_channels % d.groups != 0)
    throw ShapeError(
        cat("ConvolutionDescriptor: the numbers of input and output channels must be divisible by the "
            "number of groups, got ",
            d.input_feature_channels, " input channel(s), ", d.output_feature_channels, " output channel(s), and ",
            d.groups, " groups"));
  if (d.depthwise && d.output_feature_channels % d.input_feature_channels != 0)
    throw ShapeError(cat("ConvolutionDescriptor: the number of output channels of a depthwise convolution must be a ",
                         "multiple of its number of input channels (", d.input_feature_channels, "), got ",
                         d.output_feature_channels));
  return d;
}

ConvolutionDescriptor to_descriptor(const py::object& object, const py::object& kernel_weights) {
  ConvolutionDescriptor d = to_descriptor(object);
  if (!kernel_weights.is_none()) d.kernel_weights = to_dtype(kernel_weights);
  if (d.kernel_weights != DType::float32 && d.kernel_weights != DType::float16)
    throw DTypeError(
        cat("kernel_weights_data_type of a data source must be float32 or float16, got ", d.kernel_weights));
  return d;
}

// --- data sources in Python ------------------------------------------------------------------------------------------

// Base of both kinds of Python data sources: wraps a user's object and calls its methods, which are named as in Apple's
// protocols.
class PythonSource {
 public:
  explicit PythonSource(py::handle object) : object_(keep(object)) {}

 protected:
  // Identifies the user's object, which several nodes may wrap.
  const void* identity_of() const { return object_.get(); }
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
        throw GraphError(cat("load() of a data source must return True or False, got ", shown(answer)));
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
          cat(method, "() of a data source must return a state with the new parameters or None, got ", shown(result)));
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
    call_python([&] {
      result = to_descriptor(asked(object(), "descriptor"), asked_or_none(object(), "kernel_weights_data_type"));
    });
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
  // Updates the moving statistics first and gamma and beta last, in the same order as Apple's batch normalization.
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

}  // namespace

std::shared_ptr<DataSource> to_source(const py::object& object, DataSource::Kind kind) {
  if (object.is_none()) return nullptr;
  if (py::isinstance<DataSource>(object)) return py::cast<std::shared_ptr<DataSource>>(object);
  const bool convolution = kind == DataSource::Kind::convolution;
  for (const char* name : {"load", "purge", "descriptor", "weights"})
    if (convolution && !py::hasattr(object, name))
      throw GraphError(cat("the data source of a convolution must have load, purge, descriptor and weights, but ",
                           shown(object), " has no ", name));
  for (const char* name : {"number_of_feature_channels", "gamma", "beta"})
    if (!convolution && !py::hasattr(object, name))
      throw GraphError(cat("the data source of a normalization must have number_of_feature_channels, gamma and beta, ",
                           "but ", shown(object), " has no ", name));
  if (convolution) return std::make_shared<PythonConvolution>(object);
  return std::make_shared<PythonNormalization>(object, kind);
}

// --- built-in data sources -------------------------------------------------------------------------------------------

namespace {

using MaybeOptimizer = std::optional<std::shared_ptr<Optimizer>>;

DataSource::Kind to_kind(const std::string& name) {
  if (name == "batch") return DataSource::Kind::batch_normalization;
  if (name == "instance") return DataSource::Kind::instance_normalization;
  if (name == "group") return DataSource::Kind::group_normalization;
  throw GraphError(cat("kind must be batch, instance or group, got ", name));
}

py::object held_array(DataSource& self, const std::string& name) {
  for (const NamedArray& named : self.arrays())
    if (named.name == name) return py::cast(named.array);
  return py::none();
}

}  // namespace

void define_nngraph_sources(Module& module) {
  Class<DataSource, std::shared_ptr<DataSource>>(module, "NNDataSource", "The source of a filter's parameters.")
      .def("load",
           [](DataSource& self) {
             WithoutGil released;
             return self.load();
           })
      .def("purge", &DataSource::purge)
      .def_property_readonly("label", &DataSource::label)
      .def_property_readonly("optimizer", &DataSource::optimizer)
      .def("array", &held_array, py::arg("name"),
           "Return a parameter as of the last load, or None if there is none with this name.");
  Class<TrainableConvolution, DataSource, std::shared_ptr<TrainableConvolution>>(module, "NNTrainableConvolution")
      .def(py::init([](const py::object& descriptor, const py::object& weights, const py::object& biases,
                       const MaybeOptimizer& optimizer, const std::string& label, const py::object& kernel_weights) {
             return std::make_shared<TrainableConvolution>(
                 to_descriptor(descriptor, kernel_weights), array_or_none(weights, "weights"),
                 array_or_none(biases, "bias_terms"), optimizer.value_or(nullptr), label);
           }),
           py::arg("descriptor"), py::arg("weights"), py::arg("bias_terms"), py::arg("optimizer"), py::arg("label"),
           py::arg("kernel_weights_data_type"));
  Class<StoredWeights, DataSource, std::shared_ptr<StoredWeights>>(module, "NNStoredWeights")
      .def(py::init([](const std::string& path, const py::object& descriptor, const std::string& weights,
                       const std::string& biases, const std::string& layout, const std::string& label,
                       const py::object& kernel_weights) {
             return std::make_shared<StoredWeights>(path, to_descriptor(descriptor, kernel_weights), weights, biases,
                                                    layout, label);
           }),
           py::arg("path"), py::arg("descriptor"), py::arg("weights"), py::arg("bias_terms"), py::arg("layout"),
           py::arg("label"), py::arg("kernel_weights_data_type"));
  Class<TrainableNormalization, DataSource, std::shared_ptr<TrainableNormalization>>(module, "NNTrainableNormalization")
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

}  // namespace mpsgraph::bindings
