// The registry of custom operations.
#include "mpsgraph/core/custom.h"

#include <algorithm>
#include <mutex>

#include "mpsgraph/core/errors.h"

namespace mpsgraph {
namespace {

struct CustomRegistry {
  std::mutex mutex;
  std::vector<CustomOperationPtr> operations;  // operations in order of registration
};

CustomRegistry& custom_registry() {
  // The registry is never destroyed, because kernels may be destroyed after static objects.
  static CustomRegistry& one = *new CustomRegistry;
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
  if (!is_word(operation.name, "."))
    refuse("the name of an operation must consist of letters, digits, underscores and dots");
  if (!is_word(operation.key, ".-+"))
    refuse("the key must consist of letters, digits and the characters _.-+, got '", operation.key, "'");
  if (operation.dtypes.empty()) refuse("dtypes must not be empty");
  for (const auto& taken : operation.dtypes)
    if (taken.empty()) refuse("dtypes must list at least one dtype for each operand");
  for (const auto& attribute : operation.attributes) {
    if (!is_word(attribute.name, "") || (attribute.name[0] >= '0' && attribute.name[0] <= '9'))
      refuse("the name of an attribute must be an identifier, got '", attribute.name, "'");
    if (std::ranges::find(custom_attributes, attribute.name) != custom_attributes.end())
      refuse("attribute '", attribute.name, "' is reserved: every custom operation has it; choose another name");
    if (attribute.kind > AttributeKind::integers)
      refuse("attribute '", attribute.name, "' must be a boolean, an integer, a real number, a string or a list of ",
             "integers, got ", name(attribute.kind));
    if (std::ranges::count(operation.attributes, attribute.name, &CustomOperation::AttributeOf::name) != 1)
      refuse("attribute '", attribute.name, "' is declared twice");
    if (attribute.default_value && static_cast<AttributeKind>(attribute.default_value->index()) != attribute.kind)
      refuse("the default of attribute '", attribute.name, "' must be ", name(attribute.kind));
  }
}

}  // namespace

void register_custom_operation(CustomOperation operation) {
  check(operation);
  auto made = std::make_shared<const CustomOperation>(std::move(operation));
  CustomOperationPtr replaced;  // destroyed after the lock is released, because its destructor may run user code
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
  const std::string code = key.empty() ? "" : cat(" with the key '", key, "'");
  throw GraphError(cat("custom operation '", name, "'", code, " is not defined in this process",
                       others.empty() ? "" : cat(" (it is defined with the key ", others, ")"),
                       "; define it from the same source, or load its library, before you build or load its graph",
                       where));
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
