// The registry of custom operations.
#include "mpsgraph/core/custom.h"

#include <algorithm>
#include <mutex>

#include "mpsgraph/core/errors.h"

namespace mpsgraph {
namespace {

struct CustomRegistry {
  std::mutex mutex;
  std::vector<CustomOperationPtr> operations;  // in the order of registration
};

CustomRegistry& custom_registry() {
  static CustomRegistry& one = *new CustomRegistry;  // kernels may be dropped after static objects
  return one;
}

bool is_word(std::string_view text, std::string_view others) {
  return !text.empty() && std::ranges::all_of(text, [&](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           others.find(static_cast<char>(c)) != others.npos;
  });
}

void check(const CustomOperation& operation) {
  const auto refuse = [&](const auto&... words) {
    throw GraphError(cat("[custom] '", operation.name, "': ", words...));
  };
  if (!is_word(operation.name, ".")) refuse("a name has letters, digits, underscores and dots");
  if (!is_word(operation.key, ".-+")) refuse("its key '", operation.key, "' must be a word");
  if (operation.dtypes.empty()) refuse("it takes no element types");
  for (const auto& taken : operation.dtypes)
    if (taken.empty()) refuse("an operand has no element type that it may be");
  for (const auto& attribute : operation.attributes) {
    if (!is_word(attribute.name, "") || (attribute.name[0] >= '0' && attribute.name[0] <= '9'))
      refuse("'", attribute.name, "' is no name of an attribute");
    if (std::ranges::find(custom_attributes, attribute.name) != custom_attributes.end())
      refuse("'", attribute.name, "' is taken: every custom operation has it");
    if (attribute.kind > AttributeKind::integers) refuse("attribute '", attribute.name, "' is ", name(attribute.kind));
    if (std::ranges::count(operation.attributes, attribute.name, &CustomOperation::AttributeOf::name) != 1)
      refuse("it has attribute '", attribute.name, "' twice");
    if (attribute.default_value && static_cast<AttributeKind>(attribute.default_value->index()) != attribute.kind)
      refuse("the default of attribute '", attribute.name, "' is not ", name(attribute.kind));
  }
}

}  // namespace

void register_custom_operation(CustomOperation operation) {
  check(operation);
  auto made = std::make_shared<const CustomOperation>(std::move(operation));
  CustomOperationPtr replaced;  // dropped without the lock: it may hold code of others
  CustomRegistry& registry = custom_registry();
  const std::lock_guard lock(registry.mutex);
  const auto found = std::ranges::find_if(registry.operations, [&](const CustomOperationPtr& one) {
    return one->name == made->name && one->key == made->key;
  });
  if (found != registry.operations.end()) {
    replaced = *found;
    registry.operations.erase(found);
  }
  registry.operations.push_back(std::move(made));
}

CustomOperationPtr find_custom_operation(std::string_view name, std::string_view key) {
  CustomRegistry& registry = custom_registry();
  const std::lock_guard lock(registry.mutex);
  for (auto one = registry.operations.rbegin(); one != registry.operations.rend(); ++one)
    if ((*one)->name == name && (key.empty() || (*one)->key == key)) return *one;
  return nullptr;
}

CustomOperationPtr custom_operation(std::string_view name, std::string_view key, std::string_view where) {
  if (CustomOperationPtr found = find_custom_operation(name, key)) return found;
  std::string others;
  for (const CustomOperationPtr& one : custom_operations())
    if (one->name == name) others += cat(others.empty() ? "'" : ", '", one->key, "'");
  const std::string code = key.empty() ? "" : cat(" with the code '", key, "'");
  throw GraphError(cat("there is no custom operation '", name, "'", code, " in this process",
                       others.empty() ? "" : cat(": that name has the code ", others), "; define it from the same ",
                       "source, or load its library, before its graph", where));
}

std::vector<CustomOperationPtr> custom_operations() {
  CustomRegistry& registry = custom_registry();
  const std::lock_guard lock(registry.mutex);
  return registry.operations;
}

CustomOperationPtr custom_operation(const Operation& operation) {
  return custom_operation(operation.attributes.string("operation"), operation.attributes.string("key"),
                          operation.where());
}

std::shared_ptr<const CustomSite> custom_site(const Operation& operation) {
  const CustomOperationPtr custom = custom_operation(operation);
  auto site = std::make_shared<CustomSite>();
  site->name = custom->name;
  site->where = cat("'", operation.name, "'", operation.where());
  for (const auto& spec : custom->attributes) site->attributes.set(spec.name, *operation.attributes.find(spec.name));
  for (const Tensor* input : operation.inputs) site->operands.push_back(input->type);
  for (const auto& output : operation.outputs) site->results.push_back(output->type);
  return site;
}

}  // namespace mpsgraph
