// The legacy MPSNNGraph API: nodes and NNGraph.
#include "bindings/nngraph.h"
#include "mpsgraph/runtime/command_queue.h"
#include "nngraph/definition.h"
#include "nngraph/graph.h"

namespace mpsgraph::bindings {

using namespace nngraph;
using runtime::CommandBuffer;
using runtime::NDArray;

namespace {

// --- nodes -----------------------------------------------------------------------------------------------------------

PaddingPolicy to_policy(const py::object& object) {
  if (py::isinstance<py::str>(object)) return padding_policy(py::cast<std::string>(object));
  PaddingPolicy policy;
  if (py::hasattr(object, "padding") && !object.attr("padding").is_none()) {
    const auto padding = py::cast<std::vector<int64_t>>(object.attr("padding"));
    if (padding.size() != 4 || std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p < 0; }))
      throw ShapeError(
          cat("padding must be [top, bottom, left, right], each at least 0, got ", to_string(Ints(padding))));
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
    throw GraphError(cat("a padding policy's ", attribute, " must be one of ", known, ", got ", value));
  };
  policy.size = static_cast<PaddingSize>(chosen("size", {"valid_only", "same", "full"}));
  policy.alignment = static_cast<PaddingAlignment>(chosen("alignment", {"centered", "top_left", "bottom_right"}));
  policy.remainder =
      static_cast<Remainder>(chosen("remainder", {"top_left", "top_right", "bottom_left", "bottom_right"}));
  return policy;
}

void define_nodes(Module& module) {
  Class<ImageNode, ImagePtr>(module, "ImageNode",
                             "A node for a batch of images: an input of the graph, or the result of a filter. Source: "
                             "MPSNNImageNode.")
      .def(py::init([](std::optional<std::string> handle) { return ImageNode::input(handle.value_or("")); }),
           py::arg("handle") = py::none(), "Create an input node. `handle` is its name among the inputs of the graph.")
      .def_readwrite("handle", &ImageNode::handle)
      .def_property(
          "format", [](const ImageNode& self) { return std::string(name(self.format)); },
          [](ImageNode& self, const std::string& format) { self.format = channel_format(format); },
          "Storage format of the image: \"none\" (the graph's format), \"float16\", or \"float32\".")
      .def_readwrite("export_from_graph", &ImageNode::export_from_graph)
      .def_readwrite("synchronize_resource", &ImageNode::synchronize_resource)
      .def_readwrite("stop_gradient", &ImageNode::stop_gradient)
      .def("__repr__", [](const ImageNode& self) {
        return cat("ImageNode(", self.handle.empty() ? "" : cat("'", self.handle, "', "),
                   self.producer ? cat("made by ", self.producer->title()) : std::string("input"), ")");
      });
  Class<StateNode, StateNodePtr>(
      module, "StateNode",
      "A node for state that a filter passes to its gradient filter (its result_state), or that is fed "
      "with each batch. Source: MPSNNStateNode.")
      .def(py::init([](std::optional<std::string> handle) {
             auto node = std::make_shared<StateNode>();
             node->handle = handle.value_or("");
             return node;
           }),
           py::arg("handle") = py::none(),
           "Create a state that is fed. `handle` is its name among the source states of the graph.")
      .def_readwrite("handle", &StateNode::handle)
      .def_readwrite("export_from_graph", &StateNode::export_from_graph)
      .def_readwrite("synchronize_resource", &StateNode::synchronize_resource)
      .def("__repr__", [](const StateNode& self) {
        return cat("StateNode(", self.handle.empty() ? "" : cat("'", self.handle, "', "),
                   self.producer ? cat("left by ", self.producer->title()) : std::string("given"), ")");
      });
  Class<FilterNode, FilterPtr>(module, "FilterNode",
                               "A filter of images, or the gradient filter of one. Source: MPSNNFilterNode.")
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
      .def_property_readonly("forward", &FilterNode::forward,
                             "For a gradient filter, the filter that it differentiates.")
      .def_property_readonly("result_image", &FilterNode::result_image)
      .def_property_readonly(
          "result_state", &FilterNode::result_state,
          "The state with the gradients of the filter's parameters, or the mask of a dropout; None for "
          "other filters.")
      .def_property(
          "source_state", [](const FilterNode& self) { return self.source_state(); }, &FilterNode::set_source_state,
          "The state that the filter reads; None if it reads no state.")
      .def_property(
          "padding_policy", [](const FilterNode& self) { return to_string(self.padding); },
          [](FilterNode& self, const py::object& policy) {
            if (!self.definition().windows)
              throw GraphError(
                  cat("[", self.title(), "] padding_policy must not be set, because the filter has no windows"));
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
      "Return the table of filters, grouped by family.");
  module.def("nn_count_copy", &runtime::count_copy);
}

// --- the graph -------------------------------------------------------------------------------------------------------

py::object array_or_none(const ImageBatch& batch) {
  return batch.array.valid() ? py::cast(batch.array) : py::object(py::none());
}

void define_graph_of_nodes(Module& module) {
  Class<NNGraph, std::shared_ptr<NNGraph>>(module, "NNGraphCore", "A runnable graph of filter nodes.")
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
      .def_property_readonly("result_state_handles", &NNGraph::result_state_handles)
      .def_property_readonly("filters", &NNGraph::filters)
      .def_property(
          "format", [](const NNGraph& self) { return std::string(name(self.format())); },
          [](NNGraph& self, const std::string& format) { self.set_format(channel_format(format)); })
      .def(
          "model",
          [](NNGraph& self, const Sequence<py::tuple>& types) {
            std::vector<TensorType> images;
            for (py::handle type : types) images.push_back(to_tensor_type(type));
            WithoutGil released;
            return self.model(images);
          },
          py::arg("types"),
          "Return the computation for images of these types (dtype, shape) as a graph, with the parameters "
          "as constants.")
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
            for (const LabelsBatch& batch : states) losses.append(array_or_none({batch.losses}));
            py::typing::List<ParameterState> left;
            for (const StatePtr& state : results.states) left.append(py::cast(state));
            return py::typing::Tuple<Arrays, Arrays, Arrays, py::typing::List<ParameterState>>(
                py::make_tuple(made, exported, losses, left));
          },
          py::arg("command_buffer").none(false), py::arg("source_images"), py::arg("labels"),
          "Encode a run and return (result images, intermediate images, losses) as arrays, and the result "
          "states. The command buffer has written all of them when it has completed.")
      .def("reload_from_data_sources", &NNGraph::reload_from_data_sources, Released());
}

}  // namespace

void define_nngraph(Module& module) {
  define_nngraph_states(module);
  define_nngraph_sources(module);
  define_nodes(module);
  define_graph_of_nodes(module);
}

}  // namespace mpsgraph::bindings
