// Building graphs through the C interface: creating operations from a kind and attributes, adding gradients, and
// listing all kinds.
#include "c_api/objects.h"
#include "core/definition.h"
#include "mpsgraph/core/attributes.h"
#include "mpsgraph/core/gradients.h"

using namespace mpsgraph;
using namespace mpsgraph::c_api;

namespace {

struct AttributesObject : Object {
  static constexpr HandleKind its_kind = HandleKind::attributes;
  AttributesObject() : Object(its_kind) {}
  std::mutex mutex;
  Attributes attributes;
};

Operation* create(GraphObject& graph, const char* kind, const mpsgraph_tensor* inputs, size_t input_count,
                  mpsgraph_attributes attributes, const char* name, std::vector<std::unique_ptr<Block>> blocks = {}) {
  Attributes given;
  if (attributes) {
    const auto held = object<AttributesObject>(attributes);
    const std::lock_guard lock(held->mutex);
    given = held->attributes;
  }
  Operation* made = graph.contents.graph->create(kind_named(kind), graph.tensors(inputs, input_count), std::move(given),
                                                 name ? std::string_view(name) : std::string_view(), std::move(blocks));
  if (made->is("variable")) graph.contents.trainable.push_back(made->output());
  return made;
}

template <class Value>
mpsgraph_status set(mpsgraph_attributes attributes, const char* name, Value&& value) {
  return guarded([&] {
    required(name, "name");
    const auto held = object<AttributesObject>(attributes);
    Attribute made = value();
    const std::lock_guard lock(held->mutex);
    held->attributes.set(name, std::move(made));
  });
}

// Throws DTypeError unless a constant of this dtype can have the value, up to rounding.
void require_fits(double value, DType dtype) {
  bool fits = true;
  if (dtype == DType::boolean) {
    fits = value == 0 || value == 1;
  } else if (is_integer(dtype)) {
    const int bits = static_cast<int>(8 * size_of(dtype));
    const double lowest = is_signed(dtype) ? -std::ldexp(1.0, bits - 1) : 0;
    fits = value == std::trunc(value) && value >= lowest && value < lowest + std::ldexp(1.0, bits);
  } else if (std::isfinite(value)) {
    fits = std::isfinite(ConstantData::splat(dtype, {}, value)->scalar());
  }
  if (!fits)
    throw DTypeError(cat("[constant] the number ", value, " cannot be represented in ", dtype,
                         ", the dtype of the constant: cast the other operands first, or change the number"));
}

std::string describe(const OperationDefinition& definition) {
  std::string text = cat("{\"kind\": \"", definition.name, "\", \"family\": \"", definition.family,
                         "\", \"min_inputs\": ", definition.min_inputs, ", \"max_inputs\": ", definition.max_inputs,
                         ", \"attributes\": [");
  bool first = true;
  for (const AttributeSpec& attribute : definition.attributes) {
    text += cat(first ? "" : ", ", "{\"name\": \"", attribute.name, "\", \"kind\": \"", name(attribute.kind),
                "\", \"required\": ", attribute.default_value ? "false" : "true", "}");
    first = false;
  }
  return text + "]}";
}

std::vector<const OperationDefinition*> public_kinds() {
  std::vector<const OperationDefinition*> all = all_definitions();
  std::erase_if(all, [](const OperationDefinition* definition) { return definition->internal; });
  return all;
}

}  // namespace

mpsgraph_status mpsgraph_operation_create(mpsgraph_graph graph, const char* kind, const mpsgraph_tensor* inputs,
                                          size_t input_count, mpsgraph_attributes attributes, const char* name,
                                          mpsgraph_operation* operation) {
  return guarded([&] {
    required(operation, "operation");
    required(kind, "kind");
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    Operation* made = create(*held, kind, inputs, input_count, attributes, name);
    *operation = static_cast<mpsgraph_operation>(held->handle_of(made));
  });
}

mpsgraph_status mpsgraph_graph_add(mpsgraph_graph graph, const char* kind, const mpsgraph_tensor* inputs,
                                   size_t input_count, mpsgraph_attributes attributes, const char* name,
                                   mpsgraph_tensor* tensor) {
  return guarded([&] {
    required(tensor, "tensor");
    required(kind, "kind");
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    if (definition_of(kind_named(kind)).has_effect)
      throw GraphError(cat("[", kind, "] has no result; create it with mpsgraph_operation_create"));
    Operation* made = create(*held, kind, inputs, input_count, attributes, name);
    if (const size_t count = made->outputs.size(); count != 1) {
      held->contents.graph->remove_operations(*made->parent, [&](const Operation& one) { return &one == made; });
      throw GraphError(
          cat("[", kind, "] must have one result, but has ", count, "; create it with mpsgraph_operation_create"));
    }
    *tensor = static_cast<mpsgraph_tensor>(held->handle_of(made->output()));
  });
}

mpsgraph_status mpsgraph_operation_output_count(mpsgraph_operation operation, size_t* count) {
  return guarded([&] {
    required(count, "count");
    const auto held = object<OperationObject>(operation);
    const auto graph = graph_of(*held);
    const std::lock_guard lock(graph->mutex);
    *count = held->operation->outputs.size();
  });
}

mpsgraph_status mpsgraph_operation_output(mpsgraph_operation operation, size_t index, mpsgraph_tensor* tensor) {
  return guarded([&] {
    required(tensor, "tensor");
    const auto held = object<OperationObject>(operation);
    const auto graph = graph_of(*held);
    const std::lock_guard lock(graph->mutex);
    const size_t count = held->operation->outputs.size();
    if (index >= count)
      throw OutOfRangeError(cat("result index ", index, " is out of range: operation '", held->operation->name,
                                "' has ", count, " result(s)"));
    *tensor = static_cast<mpsgraph_tensor>(graph->handle_of(held->operation->output(index)));
  });
}

mpsgraph_status mpsgraph_graph_constant(mpsgraph_graph graph, double value, const mpsgraph_type* type,
                                        mpsgraph_tensor* tensor) {
  return guarded([&] {
    required(tensor, "tensor");
    const auto held = object<GraphObject>(graph);
    const TensorType wanted = to_type(required(type, "type"));
    if (!wanted.shape.known())
      throw ShapeError(cat("[constant] the shape must be static (no negative sizes), got ", wanted.shape));
    require_fits(value, wanted.dtype);
    const std::lock_guard lock(held->mutex);
    Attributes attributes;
    attributes.set("value", Attribute(ConstantData::splat(wanted.dtype, wanted.shape.dims(), value)));
    Operation* made = held->contents.graph->create("constant", {}, std::move(attributes), {});
    *tensor = static_cast<mpsgraph_tensor>(held->handle_of(made->output()));
  });
}

mpsgraph_status mpsgraph_graph_begin_control_dependencies(mpsgraph_graph graph, const mpsgraph_operation* operations,
                                                          size_t count) {
  return guarded([&] {
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    held->contents.graph->begin_control_dependencies(held->operations(operations, count));
    ++held->control_scopes;
  });
}

mpsgraph_status mpsgraph_graph_end_control_dependencies(mpsgraph_graph graph) {
  return guarded([&] {
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    if (held->control_scopes == 0)
      throw GraphError("no control dependencies are active; call mpsgraph_graph_begin_control_dependencies first");
    held->contents.graph->end_control_dependencies();
    --held->control_scopes;
  });
}

mpsgraph_status mpsgraph_graph_begin_block(mpsgraph_graph graph, const mpsgraph_type* argument_types,
                                           size_t argument_count, mpsgraph_tensor* arguments) {
  return guarded([&] {
    const auto held = object<GraphObject>(graph);
    require_items(argument_types, argument_count, "argument_types");
    require_items(arguments, argument_count, "arguments");
    std::vector<TensorType> types;
    for (size_t i = 0; i < argument_count; ++i) types.push_back(to_type(argument_types + i));
    const std::lock_guard lock(held->mutex);
    Block* block = held->contents.graph->begin_block(types);
    held->begun.emplace_back(block, held->ended.size());
    for (size_t i = 0; i < argument_count; ++i)
      arguments[i] = static_cast<mpsgraph_tensor>(held->handle_of(block->arguments[i]));
  });
}

mpsgraph_status mpsgraph_graph_end_block(mpsgraph_graph graph, const mpsgraph_tensor* results, size_t result_count) {
  return guarded([&] {
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    if (held->begun.empty()) throw GraphError("no block is being built; call mpsgraph_graph_begin_block first");
    const auto [block, before] = held->begun.back();
    if (held->ended.size() > before)
      throw GraphError(cat("all blocks that ended inside this block must be used by an operation, but ",
                           held->ended.size() - before, " were not"));
    held->ended.push_back(held->contents.graph->finish_block(block, held->tensors(results, result_count)));
    held->begun.pop_back();
  });
}

mpsgraph_status mpsgraph_graph_abandon_block(mpsgraph_graph graph) {
  return guarded([&] {
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    if (held->begun.empty() && held->ended.empty())
      throw GraphError("there is no block to abandon; call mpsgraph_graph_begin_block first");
    for (const size_t kept = held->first_ended(); held->ended.size() > kept; held->ended.pop_back())
      held->contents.graph->abandon_block(std::move(held->ended.back()));
    if (held->begun.empty()) return;
    held->contents.graph->abandon_block(held->begun.back().first);
    held->begun.pop_back();
  });
}

mpsgraph_status mpsgraph_operation_create_with_blocks(mpsgraph_graph graph, const char* kind,
                                                      const mpsgraph_tensor* inputs, size_t input_count,
                                                      mpsgraph_attributes attributes, const char* name,
                                                      size_t block_count, mpsgraph_operation* operation) {
  return guarded([&] {
    required(operation, "operation");
    required(kind, "kind");
    const auto held = object<GraphObject>(graph);
    const std::lock_guard lock(held->mutex);
    if (const size_t there = held->ended.size() - held->first_ended(); block_count > there)
      throw GraphError(cat("[", kind, "] the number of blocks that have ended and are unused must be at least ",
                           block_count, ", got ", there));
    std::vector<std::unique_ptr<Block>> blocks(std::make_move_iterator(held->ended.end() - block_count),
                                               std::make_move_iterator(held->ended.end()));
    held->ended.resize(held->ended.size() - block_count);
    Operation* made = create(*held, kind, inputs, input_count, attributes, name, std::move(blocks));
    *operation = static_cast<mpsgraph_operation>(held->handle_of(made));
  });
}

mpsgraph_status mpsgraph_graph_gradients(mpsgraph_tensor of, const mpsgraph_tensor* with_respect_to, size_t count,
                                         mpsgraph_tensor* gradients) {
  return guarded([&] {
    const auto held = object<TensorObject>(of);
    const auto graph = graph_of(*held);
    require_items(gradients, count, "gradients");
    const std::lock_guard lock(graph->mutex);
    const auto made = mpsgraph::gradients(held->tensor, graph->tensors(with_respect_to, count));
    std::vector<void*> handles;
    for (Tensor* gradient : made) handles.push_back(graph->handle_of(gradient));
    for (size_t i = 0; i < count; ++i) gradients[i] = static_cast<mpsgraph_tensor>(handles[i]);
  });
}

mpsgraph_status mpsgraph_operation_kind_count(size_t* count) {
  return guarded([&] { *required(count, "count") = public_kinds().size(); });
}

mpsgraph_status mpsgraph_operation_kind_at(size_t index, char* buffer, size_t capacity, size_t* length) {
  return guarded([&] {
    const auto kinds = public_kinds();
    if (index >= kinds.size())
      throw OutOfRangeError(cat("kind index ", index, " is out of range: the number of kinds is ", kinds.size()));
    write_text(kinds[index]->name, buffer, capacity, length);
  });
}

mpsgraph_status mpsgraph_operation_description(const char* kind, char* buffer, size_t capacity, size_t* length) {
  return guarded(
      [&] { write_text(describe(definition_of(kind_named(required(kind, "kind")))), buffer, capacity, length); });
}

mpsgraph_status mpsgraph_attributes_create(mpsgraph_attributes* attributes) {
  return guarded([&] {
    required(attributes, "attributes");
    *attributes = static_cast<mpsgraph_attributes>(give(std::make_shared<AttributesObject>()));
  });
}

mpsgraph_status mpsgraph_attributes_set_bool(mpsgraph_attributes attributes, const char* name, int32_t value) {
  return set(attributes, name, [&] { return Attribute(value != 0); });
}

mpsgraph_status mpsgraph_attributes_set_integer(mpsgraph_attributes attributes, const char* name, int64_t value) {
  return set(attributes, name, [&] { return Attribute(value); });
}

mpsgraph_status mpsgraph_attributes_set_real(mpsgraph_attributes attributes, const char* name, double value) {
  return set(attributes, name, [&] { return Attribute(value); });
}

mpsgraph_status mpsgraph_attributes_set_string(mpsgraph_attributes attributes, const char* name, const char* value) {
  return set(attributes, name, [&] { return Attribute(std::string(required(value, "value"))); });
}

mpsgraph_status mpsgraph_attributes_set_integers(mpsgraph_attributes attributes, const char* name,
                                                 const int64_t* values, size_t count) {
  return set(attributes, name, [&] {
    require_items(values, count, "values");
    return Attribute(count ? Ints(values, values + count) : Ints());
  });
}

mpsgraph_status mpsgraph_attributes_set_dtype(mpsgraph_attributes attributes, const char* name, mpsgraph_dtype value) {
  return set(attributes, name, [&] { return Attribute(to_dtype(value)); });
}

mpsgraph_status mpsgraph_attributes_set_data(mpsgraph_attributes attributes, const char* name, mpsgraph_array value) {
  return set(attributes, name, [&] {
    const auto held = object<ArrayObject>(value);
    const runtime::NDArray dense = held->array.contiguous() ? held->array : held->array.copy_contiguous();
    return Attribute(ConstantData::copy(dense.dtype(), dense.dims(), dense.data()));
  });
}

mpsgraph_status mpsgraph_attributes_set_type(mpsgraph_attributes attributes, const char* name,
                                             const mpsgraph_type* value) {
  return set(attributes, name, [&] { return Attribute(to_type(value)); });
}

mpsgraph_status mpsgraph_attributes_set_types(mpsgraph_attributes attributes, const char* name,
                                              const mpsgraph_type* values, size_t count) {
  return set(attributes, name, [&] {
    require_items(values, count, "values");
    Types types;
    for (size_t i = 0; i < count; ++i) types.push_back(to_type(values + i));
    return Attribute(std::move(types));
  });
}
