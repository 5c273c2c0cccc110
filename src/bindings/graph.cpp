// Graph, Block, Operation, Tensor, and the functions on them: gradients, print, parse, verify, definitions.
//
// The Python object of a tensor holds a reference to the Python object of its graph. A graph therefore lives as long as
// any part of it is referenced, and `tensor.graph` is the object that created it. The reference is visible to the
// garbage collector, because graphs hold tensors too.
#include "bindings/bindings.h"
#include "core/definition.h"
#include "core/known_values.h"
#include "mpsgraph/core/autocast.h"
#include "mpsgraph/core/gradients.h"
#include "mpsgraph/core/limits.h"
#include "mpsgraph/core/text.h"
#include "mpsgraph/runtime/package.h"

namespace mpsgraph::bindings {

namespace {

// A deleter that deletes nothing, because the graph owns its tensors and operations. The deleter holds the reference to
// the graph, which is released together with the Python object.
struct GraphReference {
  PyObject* graph;
  void operator()(const void*) const { release_object(graph); }
};

template <class T>
PyObject* graph_of(PyObject* self) {
  auto* instance = reinterpret_cast<py::detail::instance*>(self);
  auto value = instance->get_value_and_holder();
  if (!value.holder_constructed()) return nullptr;
  auto* reference = std::get_deleter<GraphReference>(value.holder<std::shared_ptr<T>>());
  return reference ? reference->graph : nullptr;
}

template <class T>
py::handle graph_of(const Object<T>& self) {
  return graph_of<T>(self.ptr());
}

template <class T>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(graph_of<T>(self));
  return 0;
}

template <class T>
py::custom_type_setup collected() {
  return py::custom_type_setup([](PyHeapTypeObject* heap_type) {
    heap_type->ht_type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    heap_type->ht_type.tp_traverse = traverse<T>;
  });
}

template <class T>
Object<T> wrap(py::handle graph, T* item) {
  static const auto* const type = py::detail::get_type_info(typeid(T), true);
  if (py::handle existing = py::detail::find_registered_python_instance(item, type))
    return py::reinterpret_steal<Object<T>>(existing);
  std::shared_ptr<T> holder(item, GraphReference{graph.inc_ref().ptr()});
  return py::reinterpret_steal<Object<T>>(py::cast(std::move(holder)).release());
}

// A block between begin_block and the operation that will own it, or a block of an operation.
struct BlockHandle {
  py::object graph;
  Block* block;
  std::unique_ptr<Block> finished{};
  bool owned_elsewhere = false;  // true if an operation owns the block, or the graph after the block was abandoned

  void abandon() {
    if (owned_elsewhere) return;
    owned_elsewhere = true;
    auto& owner = py::cast<Graph&>(graph);
    if (finished)
      owner.abandon_block(std::move(finished));
    else
      owner.abandon_block(block);
  }
  ~BlockHandle() { abandon(); }
};

using BlockObject = Object<BlockHandle>;

BlockObject make_block(const GraphObject& graph, Block* block, bool owned_elsewhere) {
  auto handle = std::make_unique<BlockHandle>();
  handle->graph = graph;
  handle->block = block;
  handle->owned_elsewhere = owned_elsewhere;
  return py::reinterpret_steal<BlockObject>(py::cast(std::move(handle)).release());
}

std::shared_ptr<Graph> parse_text(const std::string& text) {
  count_bytes(text.size(), "the text of the graph");
  return parse(text);
}

BlockObject finish_block(const GraphObject& self, const BlockObject& block, const Sequence<Tensor>& results) {
  if (block->finished || block->owned_elsewhere || block->graph.ptr() != self.ptr())
    throw GraphError("[finish_block] block must be under construction in this graph");
  block->finished = self->finish_block(block->block, to_tensors(results, "a result of a block"));
  return block;
}

// An optional object is used instead of a pointer. For a pointer, pybind11 would convert all arguments twice if the
// argument is None, and search other modules for the type.
using GivenAutocast = std::optional<Object<Autocast>>;

Autocast* autocast_of(const GraphObject& self, const GivenAutocast& given) {
  if (!given) return nullptr;
  Autocast& autocast = **given;
  if (&autocast.graph() != &*self)
    throw GraphError("[create] autocast must belong to this graph, got one of another graph");
  return &autocast;
}

OperationObject create(const GraphObject& self, const std::string& kind_name, const Sequence<Tensor>& inputs,
                       const py::dict& attributes, const std::optional<std::string>& name,
                       const Sequence<BlockHandle>& blocks, const GivenAutocast& given_autocast) {
  count_nodes();
  Autocast* const autocast = autocast_of(self, given_autocast);
  const Kind kind = kind_named(kind_name);
  auto operands = to_tensors(inputs, kind);
  auto converted = to_attributes(kind, attributes);
  std::vector<BlockHandle*> handles;
  for (py::handle item : blocks) {
    if (!py::isinstance<BlockHandle>(item) || !py::cast<BlockHandle*>(item)->finished)
      throw GraphError(cat("[", kind, "] blocks must be returned by finish_block, and each may be used only once"));
    handles.push_back(py::cast<BlockHandle*>(item));
  }
  std::vector<std::unique_ptr<Block>> owned;
  for (auto* handle : handles) {
    if (!handle->finished) throw GraphError(cat("[", kind, "] blocks must be distinct, got the same block twice"));
    owned.push_back(std::move(handle->finished));
    handle->owned_elsewhere = true;  // The graph keeps the block even if create fails.
  }
  const std::string given = name.value_or("");
  return to_object(self,
                   autocast ? autocast->create(kind, std::move(operands), std::move(converted), given, std::move(owned))
                            : self->create(kind, std::move(operands), std::move(converted), given, std::move(owned)));
}

TensorObject create_tensor(const GraphObject& self, const std::string& kind_name, const Sequence<Tensor>& inputs,
                           const py::dict& attributes, const std::optional<std::string>& name,
                           const GivenAutocast& given_autocast) {
  count_nodes();
  Autocast* const autocast = autocast_of(self, given_autocast);
  const Kind kind = kind_named(kind_name);
  auto operands = to_tensors(inputs, kind);
  auto converted = to_attributes(kind, attributes);
  const std::string given = name.value_or("");
  const Operation* operation = autocast ? autocast->create(kind, std::move(operands), std::move(converted), given)
                                        : self->create(kind, std::move(operands), std::move(converted), given);
  if (operation->outputs.empty())
    throw GraphError(cat("[", kind, "] the operation has no result that could be returned; use create()"));
  return to_object(self, operation->output());
}

// Finds the placeholders and block arguments on which operations depend, directly or indirectly. Each operation is
// visited once, and the operations of a long chain share one list, so that analyzing a model of thousands of operations
// takes linear time.
class Origins {
 public:
  explicit Origins(GraphObject graph) : graph_(std::move(graph)) {}

  py::typing::List<Operation> of(const OperationObject& operation) {
    if (graph_of(operation).ptr() != graph_.ptr()) throw GraphError("[origins] the operation belongs to another graph");
    std::vector<Operation*> stack{&*operation};
    while (!stack.empty()) {
      Operation* last = stack.back();
      const size_t waiting = stack.size();
      if (!known_.contains(last)) {
        for_sources(*last, [&](Operation* source) {
          if (!known_.contains(source)) stack.push_back(source);
        });
        if (stack.size() > waiting) continue;
        known_[last] = joined(last);
      }
      stack.pop_back();
    }
    return to_list(graph_, *known_.at(&*operation));
  }

 private:
  using List = std::shared_ptr<const std::vector<Operation*>>;  // operations in the order of the graph

  static void for_sources(const Operation& operation, const std::function<void(Operation*)>& see) {
    for (const Tensor* input : operation.inputs) see(input->operation);
    for (const auto& block : operation.blocks)
      for (const Tensor* result : block->results) see(result->operation);
  }

  List joined(Operation* operation) const {
    if (operation->is("placeholder") || operation->is("argument"))
      return std::make_shared<const std::vector<Operation*>>(1, operation);
    List result = std::make_shared<const std::vector<Operation*>>();
    const auto earlier = [](const Operation* a, const Operation* b) { return a->id < b->id; };
    for_sources(*operation, [&](Operation* source) {
      const List& more = known_.at(source);
      if (std::ranges::includes(*result, *more, earlier)) return;
      if (std::ranges::includes(*more, *result, earlier)) {
        result = more;
        return;
      }
      auto both = std::make_shared<std::vector<Operation*>>();
      std::ranges::set_union(*result, *more, std::back_inserter(*both), earlier);
      result = std::move(both);
    });
    return result;
  }

  GraphObject graph_;
  std::unordered_map<const Operation*, List> known_;
};

std::vector<Operation*> operations_of(const Block& block) {
  std::vector<Operation*> result;
  for (auto& operation : block.operations) result.push_back(operation.get());
  return result;
}

std::vector<Tensor*> outputs_of(const Operation& operation) {
  std::vector<Tensor*> result;
  for (auto& output : operation.outputs) result.push_back(output.get());
  return result;
}

py::typing::List<Tensor> gradients_of(const TensorObject& of, const Sequence<Tensor>& with_respect_to,
                                      const std::optional<TensorObject>& start, const std::string& unconnected) {
  if (unconnected != "zeros" && unconnected != "error")
    throw GraphError(cat("[gradients] unconnected must be \"zeros\" or \"error\", got \"", unconnected, "\""));
  return to_list(graph_of(of), gradients(&*of, to_tensors(with_respect_to, "gradients"), start ? &**start : nullptr,
                                         unconnected == "zeros" ? Unconnected::zeros : Unconnected::error));
}

// Returns what the definition of a kind of operation states.
py::dict describe(const OperationDefinition& definition) {
  py::dict attributes;
  for (auto& spec : definition.attributes)
    attributes[py::str(std::string(spec.name))] =
        py::make_tuple(std::string(name(spec.kind)), spec.default_value ? to_object(*spec.default_value) : py::none());
  py::list tensor_attributes;
  for (std::string_view key : definition.tensor_attributes) tensor_attributes.append(std::string(key));
  py::dict item;
  item["name"] = std::string(definition.name);
  item["family"] = std::string(definition.family);
  item["min_inputs"] = definition.min_inputs;
  item["max_inputs"] = definition.max_inputs;
  item["attributes"] = attributes;
  item["tensor_attributes"] = tensor_attributes;
  item["dtypes"] = std::string(name(definition.dtypes));
  item["predicate"] = definition.predicate;
  item["parameters"] = std::string(definition.parameters);
  item["documentation"] = definition.documentation;
  item["blocks"] = definition.block_count;
  item["elementwise"] = definition.elementwise;
  item["has_effect"] = definition.has_effect;
  item["internal"] = definition.internal;
  item["has_gradient"] = static_cast<bool>(definition.gradient);
  item["gradient_is_zero"] = definition.gradient_is_zero;
  item["autocast"] = std::string(name(autocast_rule(definition)));
  item["is_composite"] = static_cast<bool>(definition.decompose);
  return item;
}

py::typing::List<py::dict> definitions() {
  py::typing::List<py::dict> result;
  for (auto* definition : all_definitions()) result.append(describe(*definition));
  return result;
}

py::typing::List<py::str> documented_kinds() {
  py::typing::List<py::str> result;
  for (auto* definition : all_definitions())
    if (!definition->documentation.empty()) result.append(std::string(definition->name));
  return result;
}

std::string described(const Tensor& tensor) { return cat("<Tensor ", tensor.name(), ": ", tensor.type, ">"); }

std::string described(const Operation& operation) {
  std::string types;
  for (auto& output : operation.outputs) types += (types.empty() ? ": " : ", ") + to_string(output->type);
  return cat("<Operation ", operation.name, " = ", operation.kind(), types, ">");
}

}  // namespace

TensorObject to_object(py::handle graph, Tensor* tensor) { return wrap(graph, tensor); }

OperationObject to_object(py::handle graph, Operation* operation) { return wrap(graph, operation); }

py::object graph_object(const std::shared_ptr<Graph>& graph) { return py::cast(graph); }

py::object existing_object(Graph& graph) {
  static const auto* const type = py::detail::get_type_info(typeid(Graph), true);
  const py::handle existing = py::detail::find_registered_python_instance(&graph, type);
  if (!existing) throw GraphError("a Python function can only be called for a graph that has a Python object");
  return py::reinterpret_steal<py::object>(existing);
}

template <class T>
static std::vector<T*> to_items(py::handle sequence, std::string_view what, std::string_view expected) {
  std::vector<T*> result;
  const auto add = [&](py::handle item) {
    if (!py::isinstance<T>(item)) throw GraphError(cat("[", what, "] expects ", expected, ", got ", shown(item)));
    result.push_back(py::cast<T*>(item));
  };
  if (PyList_CheckExact(sequence.ptr())) {  // A list is the most common case.
    result.reserve(static_cast<size_t>(PyList_GET_SIZE(sequence.ptr())));
    for (py::handle item : py::reinterpret_borrow<py::list>(sequence)) add(item);
    return result;
  }
  if (py::isinstance<T>(sequence)) {
    add(sequence);
    return result;
  }
  if (!py::isinstance<py::iterable>(sequence))
    throw GraphError(cat("[", what, "] must be a sequence of ", expected, ", got ", shown(sequence)));
  for (py::handle item : sequence) add(item);
  return result;
}

std::vector<Tensor*> to_tensors(py::handle sequence, std::string_view what) {
  return to_items<Tensor>(sequence, what, "tensors");
}

std::vector<Operation*> to_operations(py::handle sequence, std::string_view what) {
  return to_items<Operation>(sequence, what, "operations");
}

void define_graph(Module& module) {
  Class<Graph, std::shared_ptr<Graph>> graph(module, "Graph",
                                             "A symbolic graph: operations in the order of their creation.");
  Class<Autocast>(module, "Autocast",
                  "Casts the operands of the operations that are created with it. There is one Autocast for each "
                  "graph and dtype.")
      .def(py::init([](Graph& graph, const DTypeObject& low) { return Autocast(graph, to_dtype(low)); }),
           py::arg("graph"), py::arg("low"));
  Class<BlockHandle> block(module, "Block",
                           "A sequence of operations with arguments and results, which a control-flow operation runs.");
  Class<Operation, std::shared_ptr<Operation>> operation(module, "Operation", "An operation of a graph.",
                                                         collected<Operation>());
  Class<Tensor, std::shared_ptr<Tensor>> tensor(
      module, "Tensor", "A symbolic result of an operation, which has a value only during a run.", collected<Tensor>());

  tensor
      .def_property_readonly(
          "shape",
          [](const Tensor& self) -> py::typing::Optional<py::typing::Tuple<int, py::ellipsis>> {
            return to_object(self.shape());
          },
          "The sizes of the axes, with -1 for dynamic dimensions; None if the rank is unknown.")
      .def_property_readonly("dtype", [](const Tensor& self) -> DTypeObject { return to_object(self.dtype()); })
      .def_property_readonly(
          "type", [](const Tensor& self) { return to_object(self.type); }, "(dtype, shape)")
      .def_property_readonly("name", &Tensor::name)
      .def_property_readonly(
          "index", [](const Tensor& self) { return self.index; }, "The index among the results of its operation.")
      .def_property_readonly("operation",
                             [](const TensorObject& self) { return to_object(graph_of(self), self->operation); })
      .def_property_readonly(
          "graph", [](const TensorObject& self) { return py::reinterpret_borrow<GraphObject>(graph_of(self)); })
      .def("__repr__", [](const Tensor& self) { return described(self); });

  operation.def_property_readonly("name", [](const Operation& self) { return self.name; })
      .def_property_readonly("kind", [](const Operation& self) { return self.kind().name(); })
      .def_property_readonly("family", [](const Operation& self) { return std::string(self.definition->family); })
      .def_property_readonly(
          "id", [](const Operation& self) { return self.id; },
          "The number of the operation in its graph, in order of creation.")
      .def_property_readonly("inputs",
                             [](const OperationObject& self) { return to_list(graph_of(self), self->inputs); })
      .def_property_readonly("outputs",
                             [](const OperationObject& self) { return to_list(graph_of(self), outputs_of(*self)); })
      .def_property_readonly("attributes",
                             [](const Operation& self) {
                               py::dict result;
                               for (auto& [key, value] : self.attributes.items())
                                 result[py::str(key)] = to_object(value);
                               return result;
                             })
      .def_property_readonly(
          "control_dependencies",
          [](const OperationObject& self) { return to_list(graph_of(self), self->control_dependencies); },
          "The operations that must run before this one.")
      .def_property_readonly(
          "blocks",
          [](const OperationObject& self) {
            py::typing::List<BlockHandle> result;
            for (auto& inner : self->blocks)
              result.append(make_block(py::reinterpret_borrow<GraphObject>(graph_of(self)), inner.get(), true));
            return result;
          })
      .def_property_readonly(
          "location", [](const Operation& self) { return self.location.text(); },
          "The source location where it was built, for example \"model.py:41\".")
      .def_property_readonly(
          "graph", [](const OperationObject& self) { return py::reinterpret_borrow<GraphObject>(graph_of(self)); })
      .def("__repr__", [](const Operation& self) { return described(self); });

  block
      .def_property_readonly("arguments",
                             [](const BlockHandle& self) { return to_list(self.graph, self.block->arguments); })
      .def_property_readonly("results",
                             [](const BlockHandle& self) { return to_list(self.graph, self.block->results); })
      .def_property_readonly("operations",
                             [](const BlockHandle& self) { return to_list(self.graph, operations_of(*self.block)); });

  Class<Origins>(module, "Origins",
                 "Finds the placeholders and block arguments that the operations of a graph depend on.")
      .def(py::init<GraphObject>(), py::arg("graph"))
      .def("of", &Origins::of, py::arg("operation"),
           "Return the placeholders and block arguments that an operation depends on, in the order of the "
           "graph.");

  graph.def(py::init<>())
      .def(py::init([](const runtime::PackageContents& contents) { return contents.graph; }), py::arg("contents"),
           "Create the graph of a package; the contents can be used only once.")
      .def(py::init(&parse_text), py::arg("text"),
           "Create a graph from its textual form. Raises GraphError with the line and column of an error.")
      .def("create", &create, py::arg("kind"), py::arg("inputs"), py::arg("attributes") = py::dict(),
           py::arg("name") = py::none(), py::arg("blocks") = py::tuple(), py::arg("autocast") = py::none(),
           "Append an operation, with operands cast by `autocast` if given. The graph does not change if "
           "this raises.")
      .def("create_tensor", &create_tensor, py::arg("kind"), py::arg("inputs"), py::arg("attributes") = py::dict(),
           py::arg("name") = py::none(), py::arg("autocast") = py::none(),
           "Append an operation without blocks, as create() does, and return its first result.")
      .def(
          "begin_block",
          [](const GraphObject& self, const Sequence<py::tuple>& argument_types) {
            std::vector<TensorType> types;
            for (py::handle type : argument_types) types.push_back(to_tensor_type(type));
            int64_t depth = 1;
            for (const Block* block = &self->current_block(); block->parent; block = block->parent) ++depth;
            check_depth(depth);
            return make_block(self, self->begin_block(types), false);
          },
          py::arg("argument_types") = py::tuple(),
          "Begin a new block, to which subsequent operations are added. Argument types are (dtype, shape).")
      .def("finish_block", &finish_block, py::arg("block"), py::arg("results"),
           "Finish a block and return it, ready to be passed to create().")
      .def(
          "abandon_block", [](const GraphObject&, BlockHandle& block) { block.abandon(); }, py::arg("block"),
          "Discard a block after an error.")
      .def(
          "begin_control_dependencies",
          [](Graph& self, const Sequence<Operation>& operations) {
            self.begin_control_dependencies(to_operations(operations, "control_dependency"));
          },
          py::arg("operations"), "Make operations that are created from now on run after the given operations.")
      .def("end_control_dependencies", &Graph::end_control_dependencies)
      .def(
          "set_location", [](Graph& self, std::string location) { self.set_location(std::move(location)); },
          py::arg("location"), "Set the source location that is recorded in subsequent operations.")
      .def_property_readonly("operations",
                             [](const GraphObject& self) { return to_list(self, operations_of(self->root())); })
      .def_property_readonly("operation_count", &Graph::operation_count,
                             "The number of operations created so far, including those in blocks.")
      .def_property_readonly("placeholders",
                             [](const GraphObject& self) { return to_list(self, self->placeholders()); })
      .def_property_readonly("variables", [](const GraphObject& self) { return to_list(self, self->variables()); })
      .def(
          "find",
          [](const GraphObject& self, const std::string& name) -> std::optional<OperationObject> {
            Operation* found = self->find(name);
            if (!found) return {};
            return to_object(self, found);
          },
          py::arg("name"), R"(Return the operation with the given name, or None.

Args:
    name: Name of the operation.)");

  module.def("gradients", &gradients_of, py::arg("of"), py::arg("with_respect_to"), py::arg("start") = py::none(),
             py::arg("unconnected") = "zeros", "Add the gradients of `of` with respect to each tensor to the graph.");
  module.def(
      "print_graph",
      [](const Graph& graph, bool locations, int64_t max_constant_elements) {
        return print(graph, {.locations = locations, .max_constant_elements = max_constant_elements});
      },
      py::arg("graph"), py::arg("locations") = false, py::arg("max_constant_elements") = -1,
      "Return the textual form of a graph.");
  module.def("parse", &parse_text, py::arg("text"));
  module.def(
      "verify", [](const Graph& graph) { verify(graph); }, py::arg("graph"),
      "Raise GraphError if the graph is not well formed.");
  module.def(
      "known_values", [](const Tensor& tensor) { return known_values(&tensor); }, py::arg("tensor"),
      "Return the elements of a small integer tensor that are known before a run, with None for each "
      "unknown element.");
  module.def("definitions", &definitions, "Return the definition of every kind of operation.");
  module.def(
      "definition", [](const std::string& kind) { return describe(definition_of(kind_named(kind))); }, py::arg("kind"),
      "Return the definition of a kind of operation.");
  module.def("documented_kinds", &documented_kinds, "Return the kinds of operations that have a documentation text.");
}

}  // namespace mpsgraph::bindings
