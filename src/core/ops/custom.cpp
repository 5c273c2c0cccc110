// Operation family custom: a user-defined operation, looked up by name and key in the registry
// (mpsgraph/core/custom.h).
//
// MPSGraph has no such operation; docs/decisions/0041 explains the exception. The graph stores the name, the key, and
// the user's attributes. The registry stores the declarations of the attributes, the inference function, and the
// gradient function.
#include "mpsgraph/core/custom.h"
#include "core/definition.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

Attributes complete_custom(Attributes given, std::string_view where) {
  const auto own = [&](std::string_view name, Attribute fallback) {
    if (!given.has(name)) given.set(name, fallback);
    if (given.find(name)->index() != fallback.index())
      throw GraphError(cat("[custom] attribute '", name, "' must be ",
                           mpsgraph::name(static_cast<AttributeKind>(fallback.index())), where));
  };
  own("operation", std::string());
  own("key", std::string());
  own("effect", false);
  own("types", Types{});
  const CustomOperationPtr found = custom_operation(given.string("operation"), given.string("key"), where);
  given.set("key", found->key);
  given.set("effect", found->has_effect);
  std::vector<AttributeSpec> theirs;
  Attributes attributes;
  for (const auto& [name, value] : given.items())
    if (std::ranges::find(custom_attributes, name) == custom_attributes.end()) attributes.set(name, value);
  for (const auto& spec : found->attributes) theirs.push_back({spec.name, spec.kind, spec.default_value});
  attributes = complete_attributes(found->name, theirs, std::move(attributes), where);
  for (const auto& [name, value] : attributes.items()) given.set(name, value);
  return given;
}

std::vector<TensorType> stated_types(const InferContext& c, const std::string& front) {
  const Types& types = c.attributes.types("types");
  const auto known = [](const TensorType& type) { return type.shape.known(); };
  bool operands_known = true;
  for (size_t i = 0; i < c.count(); ++i) operands_known &= known(c.type(i));
  if (types.empty() || (operands_known && !std::ranges::all_of(types, known)))
    throw ShapeError(cat(front, "the result shapes depend on the operand shapes and cannot be inferred, because this ",
                         "process has no shape inference function for the operation; register the operation with one",
                         c.where));
  return types;
}

std::vector<TensorType> infer_custom(const InferContext& c) {
  const CustomOperationPtr custom =
      custom_operation(c.attributes.string("operation"), c.attributes.string("key"), c.where);
  const std::string front = cat("[", custom->name, "] ");
  if (custom->operand_count >= 0 && c.count() != static_cast<size_t>(custom->operand_count))
    throw GraphError(
        cat(front, "the number of operands must be ", custom->operand_count, ", got ", c.count(), c.where));
  CustomSite site{custom->name, c.where, {}, {}, {}};
  for (const auto& spec : custom->attributes) site.attributes.set(spec.name, *c.attributes.find(spec.name));
  for (size_t i = 0; i < c.count(); ++i) {
    const std::vector<DType>& taken = custom->dtypes[std::min(i, custom->dtypes.size() - 1)];
    if (std::ranges::find(taken, c.dtype(i)) == taken.end()) {
      std::string words;
      for (DType dtype : taken) words += cat(words.empty() ? "" : ", ", dtype);
      throw DTypeError(cat(front, "operand ", i, " ('", c.inputs[i]->name(), "') must be ", words, ", got ", c.type(i),
                           ": cast it first, or add its dtype to the operation's dtypes if its kernels support it",
                           c.where));
    }
    site.operands.push_back(c.type(i));
  }
  if (!custom->infer && custom->infers_elsewhere) return stated_types(c, front);
  std::vector<TensorType> types;
  if (custom->infer) {
    types = custom->infer(site);
  } else {
    if (c.count() == 0)
      throw GraphError(cat(front, "an operation without operands needs a shape inference function, because by default ",
                           "the result has the type of operand 0; register the operation with one", c.where));
    types.push_back(c.type(0));
  }
  const Types& stated = c.attributes.types("types");
  bool as_stated = stated.empty() || stated.size() == types.size();
  for (size_t i = 0; as_stated && i < stated.size(); ++i)
    as_stated = stated[i].dtype == types[i].dtype && compatible(stated[i].shape, types[i].shape);
  if (!as_stated)
    throw ShapeError(cat(front,
                         "now that more sizes are known, the shape inference function contradicts the result types ",
                         "that it returned when the operation was built; it must return the same dtypes and ",
                         "compatible shapes", c.where));
  for (size_t i = 0; i < types.size(); ++i) {
    bool sound = !types[i].history && (!types[i].shape.ranked() || types[i].shape.rank() <= max_rank);
    if (types[i].shape.ranked())
      for (int64_t size : types[i].shape.dims()) sound &= size >= -1;
    if (!sound)
      throw ShapeError(cat(front, "the shape inference function must return sizes of at least 0, or -1 for unknown ",
                           "sizes, and a rank of at most ", max_rank, ", got ", types[i], " for result ", i, c.where));
  }
  return types;
}

void d_custom(GradientContext& g) {
  const CustomOperationPtr custom = custom_operation(g.operation);
  const std::string front = cat("[", custom->name, "] ");
  if (!custom->gradient)
    throw GraphError(cat(front, "'", g.operation.name, "' has no gradient, but a gradient through it was requested: ",
                         "register the operation with a gradient function", g.operation.where()));
  CustomGradient seen{g.operation, {}, {}};
  for (size_t i = 0; i < g.operation.outputs.size(); ++i)
    seen.incoming.push_back(i < g.incoming_count() ? g.incoming(i) : nullptr);
  for (size_t i = 0; i < g.operation.inputs.size(); ++i) seen.needed.push_back(g.needs(i));
  const std::vector<Tensor*> gradients = custom->gradient(seen);
  if (gradients.size() != g.operation.inputs.size())
    throw GraphError(cat(front, "the gradient function must return one tensor per operand (null for a zero gradient), ",
                         "got ", gradients.size(), " tensor(s) for ", g.operation.inputs.size(), " operand(s)",
                         g.operation.where()));
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    if (&gradients[i]->graph() != &g.graph())
      throw GraphError(cat(front, "the gradient function returned a tensor of another graph for operand ", i,
                           ": build it in the graph of the operation", g.operation.where()));
    const TensorType &given = gradients[i]->type, &wanted = g.input(i)->type;
    if (given.dtype != wanted.dtype || !compatible(given.shape, wanted.shape))
      throw ShapeError(cat(front, "the gradient for operand ", i, " must have the operand's type ", wanted, ", got ",
                           given, g.operation.where()));
    if (g.needs(i)) g.set(i, gradients[i]);
  }
}

}  // namespace

const Family custom_family("custom", [] {
  define({.name = "custom",
          .max_inputs = -1,
          .attributes = {required("operation", AttributeKind::string), optional("key", std::string()),
                         optional("effect", false), optional("types", Types{})},
          .complete = complete_custom,
          .infer = infer_custom,
          .gradient = d_custom,
          .effect_attribute = "effect"});
});

}  // namespace mpsgraph::ops
