// Custom operations: the process-wide registry of the code to which the name and key of an operation `custom` refer.
//
// A graph contains only names and keys, so that it remains plain data. Shape inference, gradients, and kernels are
// looked up in the registry. runtime/custom_library.h loads libraries of custom operations; backends run the kernels.
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

// One use of a custom operation in a graph: the information available to the operation's code.
struct CustomSite {
  std::string name;  // name of the custom operation
  std::string where;  // "'softshrink_1'; built at model.py:41", for error messages
  Attributes attributes;  // the attributes that the user defined
  std::vector<TensorType> operands, results;
};

// Calls f(begin, end) for parts of [0, items) on several threads. Each part has at least `grain` items.
using CustomLoop =
    std::function<void(int64_t items, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& f)>;
// Runs a kernel. Operands and results are dense and row-major, and results are uninitialized. An exception fails the
// run.
using CustomRun =
    std::function<void(const std::byte* const* operands, std::byte* const* results, const CustomLoop& parallel_for)>;

// The argument of a gradient function, which returns a tensor or null for each operand.
struct CustomGradient {
  Operation& operation;
  std::vector<Tensor*> incoming;  // incoming gradients, one per result; null if no gradient reaches the result
  std::vector<bool> needed;  // whether each operand needs a gradient
};

// The code and the interface of a custom operation.
struct CustomOperation {
  struct AttributeOf {
    std::string name;
    AttributeKind kind;
    std::optional<Attribute> default_value;  // nullopt if the attribute is required
  };
  struct MetalKernel {
    std::string source, function;
    // if empty, there is one thread per element of result 0
    std::function<std::array<int64_t, 3>(const CustomSite&)> threads;
  };

  std::string name, key;
  std::vector<AttributeOf> attributes;
  int operand_count = -1;  // -1 means any number
  // The allowed dtypes of each operand. The last entry also applies to all operands after it.
  std::vector<std::vector<DType>> dtypes;
  bool has_effect = false;
  // If empty, there is one result with the type of the first operand, or, if `infers_elsewhere` is true, the types
  // stated in the graph.
  std::function<std::vector<TensorType>(const CustomSite&)> infer;
  bool infers_elsewhere = false;
  std::function<std::vector<Tensor*>(const CustomGradient&)> gradient;
  // Called when a program is compiled. Returns the function that its runs call.
  std::function<CustomRun(std::shared_ptr<const CustomSite>)> kernel;
  bool runs_on_host = false;  // the kernel also serves devices other than the CPU; these wait for the kernel
  bool guard = false;  // check whether the kernel writes outside its results
  std::optional<MetalKernel> metal;
};
using CustomOperationPtr = std::shared_ptr<const CustomOperation>;

// Registers a custom operation and replaces any operation with the same name and key. Throws GraphError if the
// description is invalid. find_custom_operation() returns null if no operation has this name and key.
MPSGRAPH_API void register_custom_operation(CustomOperation operation);
MPSGRAPH_API CustomOperationPtr find_custom_operation(std::string_view name, std::string_view key);
// Returns the custom operation with this name and key, or, if the key is empty, the operation last registered under the
// name. If there is none, throws a GraphError that lists the registered operations. `where` is appended to the message.
MPSGRAPH_API CustomOperationPtr custom_operation(std::string_view name, std::string_view key,
                                                 std::string_view where = {});
MPSGRAPH_API std::vector<CustomOperationPtr> custom_operations();  // in order of registration
// Return the custom operation and the site of an operation of kind `custom`.
MPSGRAPH_API CustomOperationPtr custom_operation(const Operation& operation);
MPSGRAPH_API std::shared_ptr<const CustomSite> custom_site(const Operation& operation);
// Attributes of an operation `custom` that the library defines; all others belong to the user.
inline constexpr std::array<std::string_view, 4> custom_attributes = {"operation", "key", "effect", "types"};

}  // namespace mpsgraph
