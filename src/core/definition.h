// OperationDefinition: everything the core knows of one kind of operation, and their registry.
//
// Each family states its operations in src/core/ops/<family>.cpp: signature, attributes, type
// inference and derivative side by side. Backends keep their own tables, keyed by the same name.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/registration.h"
#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// What inference may look at. `constant(i)` is the value of an integer operand when it is known
// (an operation on constants, or a shape_of whose shape is known), so that shape operands work.
class InferContext {
 public:
  InferContext(const OperationDefinition& definition, const std::vector<Tensor*>& inputs, const Attributes& attributes,
               const std::vector<std::unique_ptr<Block>>& blocks, std::string where)
      : definition(definition), inputs(inputs), attributes(attributes), blocks(blocks), where(std::move(where)) {}

  const OperationDefinition& definition;
  const std::vector<Tensor*>& inputs;
  const Attributes& attributes;
  const std::vector<std::unique_ptr<Block>>& blocks;
  std::string where;  // "; built at model.py:41", or ""

  size_t count() const { return inputs.size(); }
  const TensorType& type(size_t i) const { return inputs[i]->type; }
  const Shape& shape(size_t i) const { return inputs[i]->type.shape; }
  DType dtype(size_t i) const { return inputs[i]->type.dtype; }
  std::optional<Ints> constant(size_t i) const;
  // Input i read as a shape: -1 where an element is not known yet, unranked when not even their number is.
  Shape shape_operand(size_t i) const;

  // Throw with the operation's name in front and the place it was built behind.
  [[noreturn]] void shape_error(const std::string& message) const;
  [[noreturn]] void dtype_error(const std::string& message) const;
  [[noreturn]] void graph_error(const std::string& message) const;

  // Of the operands from `first` on, up to `end`; names the cast that is missing.
  void require_same_dtype(size_t first = 0, size_t end = SIZE_MAX) const;
  void require_float(size_t i) const;
  void require_inexact(size_t i) const;             // float or complex
  void require_rank(size_t i, int rank) const;      // passes when unranked
  int axis(int64_t axis, int rank) const;           // negative counts from the end; ShapeError outside
};

// What a derivative rule sees. Rules add operations to graph() after everything that exists.
class GradientContext {
 public:
  GradientContext(Operation& operation, std::vector<Tensor*> incoming, std::vector<bool> needed,
                  std::vector<Tensor*> captures = {})
      : operation(operation),
        captures(std::move(captures)),
        incoming_(std::move(incoming)),
        needed_(std::move(needed)),
        result(operation.inputs.size()),
        capture_result(this->captures.size()) {}

  Operation& operation;
  const std::vector<Tensor*> captures;  // tensors from outside that its blocks use and whose gradients matter
  Graph& graph() const { return operation.graph(); }
  Tensor* input(size_t i) const { return operation.inputs[i]; }
  Tensor* output(size_t i = 0) const { return operation.output(i); }
  const Attributes& attributes() const { return operation.attributes; }
  Tensor* incoming(size_t i = 0) const { return incoming_[i]; }   // null when no gradient reaches that result
  size_t incoming_count() const { return incoming_.size(); }      // the results that there were when the walk came
  bool needs(size_t i) const { return needed_[i]; }               // does the gradient for input i matter?
  void set(size_t i, Tensor* gradient) { result[i] = gradient; }  // leave null for zero

 private:
  std::vector<Tensor*> incoming_;
  std::vector<bool> needed_;

 public:
  std::vector<Tensor*> result;
  std::vector<Tensor*> capture_result;  // one per capture; null for zero

  // A new operation whose tensor attributes are among this one's: where they came as operands, these are passed on
  // behind `inputs`.
  Tensor* add_alike(std::string_view kind, std::vector<Tensor*> inputs, Attributes attributes) const;
};

struct AttributeSpec {
  std::string_view name;
  AttributeKind kind;
  std::optional<Attribute> default_value;  // none: required

  AttributeSpec(std::string_view name, AttributeKind kind, std::optional<Attribute> default_value);
  AttributeSpec(const AttributeSpec&);
  AttributeSpec(AttributeSpec&&) noexcept;
  AttributeSpec& operator=(const AttributeSpec&);
  AttributeSpec& operator=(AttributeSpec&&) noexcept;
  ~AttributeSpec();
};
AttributeSpec required(std::string_view name, AttributeKind kind);
AttributeSpec optional(std::string_view name, Attribute default_value);

using Complete = std::function<Attributes(Attributes given, std::string_view where)>;
using Infer = std::function<std::vector<TensorType>(const InferContext&)>;
using Gradient = std::function<void(GradientContext&)>;
// The same result from simpler operations: the specification of a composite, which the compiler
// expands where the backend has no kernel for it, and which is differentiated when there is no rule.
using Decompose =
    std::function<std::vector<Tensor*>(class Builder&, const std::vector<Tensor*>& inputs, const Attributes&)>;

struct OperationDefinition {
  std::string_view name;
  std::string_view family = {};  // "arithmetic", "pooling", ...: the file it is stated in; set by define()
  int min_inputs = 0;
  int max_inputs = 0;  // -1: any number
  std::vector<AttributeSpec> attributes = {};
  Complete complete = {};  // for a kind whose attributes are not only these: instead of the check against them
  // Attributes that integer tensors may give instead, all or none: one operand for each behind the min_inputs others.
  // They become attributes as soon as their values are known, so inference, passes and kernels only see attributes.
  std::vector<std::string_view> tensor_attributes = {};
  Infer infer = {};
  Infer infer_unvalued = {};  // while the tensor attributes have no value yet; default: nothing is known
  Gradient gradient = {};  // empty: decomposed if it can be, else not differentiable
  Decompose decompose = {};  // empty: a primitive operation
  bool gradient_is_zero = false;  // e.g. sign, floor, comparisons: differentiable with gradient zero
  int block_count = 0;  // control flow and fused
  bool has_effect = false;  // assign: never pruned when named a target, never merged
  std::string_view effect_attribute = {};  // a boolean that says so of one operation; see is_effect()
  bool takes_variables = false;  // read, assign: the first operand is a variable; all others are read implicitly
  bool root_only = false;  // placeholder, variable: stand in the root block, without control dependencies
  bool elementwise = false;  // result[i] depends on input[i] only, with numpy broadcasting
  bool internal = false;  // made by passes or derivatives; not in the Python face
};

// The attributes as an operation holds them: defaults filled in, integers given for reals converted.
// GraphError that names what is allowed when one is unknown, of the wrong kind or missing.
Attributes complete_attributes(const OperationDefinition& definition, Attributes given, std::string_view where = {});

// Turns operands that give attributes into attributes. False when some of them have no known value; then nothing
// changes.
bool settle_tensor_attributes(const OperationDefinition& definition, std::vector<Tensor*>& inputs,
                              Attributes& attributes, const std::string& where);

// Does the operation do something beside its results? Its blocks may, besides.
bool is_effect(const Operation& operation);

// Lookups are read-only; the first asks every file of src/core/ops/ what it states.
MPSGRAPH_API const OperationDefinition& definition_of(
    std::string_view name);  // GraphError with the nearest names when unknown
const OperationDefinition* find_definition(std::string_view name);
MPSGRAPH_API std::vector<const OperationDefinition*> all_definitions();  // family by family

// What a file of src/core/ops/ states: a family, or a part of one. It stands at the file's end:
//   const Family pooling_family("pooling", [] { define(...); });
using Family = Registration<OperationDefinition>;
void define(OperationDefinition definition);  // within such a block, which gives it its family; the name must be new

}  // namespace mpsgraph
