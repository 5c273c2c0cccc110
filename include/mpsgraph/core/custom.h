// Custom operations: what stands behind the name and the key of an operation `custom`, and their registry.
//
// The graph has only names, so that it stays data; shapes, derivatives and kernels are looked up here, in one registry
// of the process. Nothing here loads libraries (runtime/custom_library.h) or runs kernels, which backends do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpsgraph/core/attributes.h"
#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// One use of a custom operation: what its code may know.
struct CustomSite {
  std::string name;        // the custom operation's
  std::string where;       // "'softshrink_1'; built at model.py:41": for errors
  Attributes attributes;   // the user's own
  std::vector<TensorType> operands, results;
};

// f(begin, end) over [0, items) on several threads, `grain` items or more to a part.
using CustomLoop =
    std::function<void(int64_t items, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& f)>;
// Dense and row-major; results are not initialised. What it throws ends the run.
using CustomRun =
    std::function<void(const std::byte* const* operands, std::byte* const* results, const CustomLoop& parallel_for)>;

// What a derivative function sees and gives: a tensor, or null, for each operand.
struct CustomGradient {
  Operation& operation;
  std::vector<Tensor*> incoming;  // of each result; null where no gradient arrives
  std::vector<bool> needed;       // by operand
};

struct CustomOperation {
  struct AttributeOf {
    std::string name;
    AttributeKind kind;
    std::optional<Attribute> default_value;  // none: required
  };
  struct MetalKernel {
    std::string source, function;
    std::function<std::array<int64_t, 3>(const CustomSite&)> threads;  // empty: one for each element of result 0
  };

  std::string name, key;
  std::vector<AttributeOf> attributes;
  int operand_count = -1;                   // -1: any
  std::vector<std::vector<DType>> dtypes;   // by operand, the last for all behind it
  bool has_effect = false;
  // Empty: one result of the first operand's type, unless it infers elsewhere: then as the graph states them.
  std::function<std::vector<TensorType>(const CustomSite&)> infer;
  bool infers_elsewhere = false;
  std::function<std::vector<Tensor*>(const CustomGradient&)> gradient;
  std::function<CustomRun(std::shared_ptr<const CustomSite>)> kernel;  // prepared when a program is compiled
  bool runs_on_host = false;  // the kernel also serves devices that are no CPU, which wait for it
  bool guard = false;         // look for what it writes beside its results
  std::optional<MetalKernel> metal;
};
using CustomOperationPtr = std::shared_ptr<const CustomOperation>;

// Replaces one of the same name and key. GraphError where the description is not sound.
MPSGRAPH_API void register_custom_operation(CustomOperation operation);
MPSGRAPH_API CustomOperationPtr find_custom_operation(std::string_view name, std::string_view key);
// With an empty key the one that was registered last under the name. GraphError that says what there is instead.
MPSGRAPH_API CustomOperationPtr custom_operation(std::string_view name, std::string_view key,
                                                 std::string_view where = {});
MPSGRAPH_API std::vector<CustomOperationPtr> custom_operations();  // in the order of registration
// Of an operation `custom`.
MPSGRAPH_API CustomOperationPtr custom_operation(const Operation& operation);
MPSGRAPH_API std::shared_ptr<const CustomSite> custom_site(const Operation& operation);
// Those of our attributes beside the user's.
inline constexpr std::array<std::string_view, 4> custom_attributes = {"operation", "key", "effect", "types"};

}  // namespace mpsgraph
