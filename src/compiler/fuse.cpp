// Compiler pass fuse: convolution and matmul absorb the following operations as an epilogue.
//
//   %c = convolution2d(%x, %w)
//   %b = addition(%c, %bias)        ->   %r = fused_convolution2d(%x, %w, %bias) {has_bias, activation="relu"}
//   %r = relu(%b)
//
// A bias runs along the channels or columns, and a residual has the result's shape; intermediate values must have no
// other use. A matmul also absorbs transposes of its operands. First, the gradient of relu is rewritten to use relu's
// result instead of relu's source, so that the source need not be kept; both are positive at the same elements. Only
// float32 and half precision are fused, because fused kernels support no other dtypes. For backends whose kernels have
// no epilogue, the pass only rewrites the relu gradient, products with sparse tensors, softmax, and cross-entropy
// losses.
//
// A matmul whose right operand is dequantized from packed words, possibly transposed, reads the words instead:
//
//   %w = dequantize_packed(%q, %s, %b)
//   %t = transpose(%w)                ->   %y = quantized_matrix_multiplication(%x, %q, %s, %b) {transpose_b=true}
//   %y = matrix_multiplication(%x, %t)
#include <unordered_map>
#include <unordered_set>

#include "compiler/passes.h"
#include "compiler/users.h"
#include "core/definition.h"
#include "core/wide.h"

namespace mpsgraph::compiler {
namespace {

// A convolution or matmul, and the last operation of the epilogue that it absorbs.
struct Fusion {
  const Operation* root = nullptr;
  const Tensor* bias = nullptr;
  const Tensor* residual = nullptr;
  bool relu = false;
  const Operation* tail = nullptr;
};

bool is_transpose_of_matrices(const Operation& operation) {
  if (!operation.is("transpose")) return false;
  const Ints& p = operation.attributes.integers("permutation");
  const int64_t rank = static_cast<int64_t>(p.size());
  if (rank < 2 || p[rank - 1] != rank - 2 || p[rank - 2] != rank - 1) return false;
  for (int64_t i = 0; i < rank - 2; i++)
    if (p[i] != i) return false;
  return true;
}

// Whether `bias` holds one value per channel of the result, where the channel axis is `from_end` axes from the end.
bool is_bias(const Tensor& bias, const Shape& result, int from_end) {
  const Shape& shape = bias.type.shape;
  const int64_t channels = result[result.rank() - from_end];
  if (shape.elements() != channels || shape.rank() < from_end || shape.rank() > result.rank()) return false;
  return shape[shape.rank() - from_end] == channels;
}

// The dequantization of packed words that results in this right operand of a matmul, and whether it is transposed.
struct PackedOperand {
  const Operation* dequantization = nullptr;
  bool transposed = false;
};
PackedOperand packed_operand(const Operation& root) {
  if (!root.is("matrix_multiplication") || root.output()->dtype() == DType::float64) return {};
  PackedOperand found;
  const Operation* operation = root.input(1)->operation;
  // A kernel computes with the unrounded elements, which are at least as exact as those that a cast rounds.
  for (;; operation = operation->input(0)->operation) {
    if (!found.transposed && is_transpose_of_matrices(*operation))
      found.transposed = true;
    else if (!operation->is("cast") || !is_float(operation->input(0)->dtype()))
      break;
  }
  const Shape& rows = root.input(0)->shape();
  if (!operation->is("dequantize_packed") || operation->output()->shape().rank() != 2 || rows.rank() < 1) return {};
  found.dequantization = operation;
  return found;
}

// Whether bias, residual, and activation can be fused into the operation.
bool starts(const Operation& operation) { return operation.is({"convolution2d", "matrix_multiplication"}); }

class Fuser {
 public:
  explicit Fuser(const Program& program) : users_(program) { find(program.graph->root()); }

  Rewriter::Replacement visit(Rewriter& rewriter, const Operation& operation) const {
    const auto found = by_tail_.find(&operation);
    if (found == by_tail_.end()) return std::nullopt;
    const Fusion& fusion = found->second;
    const Operation& root = *fusion.root;
    Attributes attributes = root.attributes;
    attributes.set("has_bias", fusion.bias != nullptr);
    attributes.set("has_residual", fusion.residual != nullptr);
    attributes.set("activation", std::string(fusion.relu ? "relu" : "none"));
    std::vector<Tensor*> inputs;
    const bool product = root.is("matrix_multiplication");
    if (const auto [packed, transposed] = packed_operand(root); packed) {
      attributes.set("bits", packed->attributes.integer("bits"));
      attributes.set("transpose_b", transposed);
      inputs = {rewriter.now(root.input(0))};
      for (const Tensor* operand : packed->inputs) inputs.push_back(rewriter.now(operand));
      if (fusion.bias) inputs.push_back(flat(rewriter, fusion.bias));
      if (fusion.residual) inputs.push_back(rewriter.now(fusion.residual));
      return std::vector<Tensor*>{
          rewriter.create(operation, "quantized_matrix_multiplication", inputs, attributes)->output()};
    }
    for (int i : {0, 1}) {
      const bool transposed = product && is_transpose_of_matrices(*root.input(i)->operation);
      if (product) attributes.set(i == 0 ? "transpose_a" : "transpose_b", transposed);
      inputs.push_back(rewriter.now(transposed ? root.input(i)->operation->input(0) : root.input(i)));
    }
    if (fusion.bias) inputs.push_back(flat(rewriter, fusion.bias));
    if (fusion.residual) inputs.push_back(rewriter.now(fusion.residual));
    Operation* fused = rewriter.create(operation, product ? Kind("fused_matrix_multiplication") : "fused_convolution2d",
                                       inputs, attributes);
    return std::vector<Tensor*>{fused->output()};
  }

 private:
  // The bias reshaped to a vector.
  static Tensor* flat(Rewriter& rewriter, const Tensor* bias) {
    Tensor* value = rewriter.now(bias);
    if (value->type.shape.rank() == 1) return value;
    Tensor* shape =
        rewriter.graph().add("constant", {}, {{"value", ConstantData::of_ints({value->type.shape.elements()})}});
    return rewriter.graph().add("reshape", {value, shape});
  }

  void find(const Block& block) {
    for (const auto& operation : block.operations) {
      for (const auto& inner : operation->blocks) find(*inner);
      if (starts(*operation)) match(*operation);
    }
  }

  void match(const Operation& root) {
    const TensorType& type = root.output()->type;
    if ((type.dtype != DType::float32 && !is_half(type.dtype)) || type.shape.elements() == 0 ||
        root.input(0)->type.shape.elements() == 0)
      return;
    Fusion fusion{&root};
    fusion.tail = &root;
    const bool product = root.is("matrix_multiplication");
    const int channels_from_end = product || root.attributes.string("data_layout") == "NHWC" ? 1 : 3;
    while (const Operation* user = users_.only(fusion.tail->output())) {
      // The epilogue ends before a user in a different block, which may run a different number of times. It also ends
      // before an operation that already belongs to the epilogue of another matmul or convolution, such as an addition
      // of two convolution results.
      if (user->parent != root.parent || taken_.count(user)) break;
      if (user->is("relu")) {
        fusion.relu = true;
        taken_.insert(fusion.tail = user);
        break;
      }
      if (!user->is("addition") || user->output()->type != type) break;
      const Tensor* other = user->input(0) == fusion.tail->output() ? user->input(1) : user->input(0);
      if (other == fusion.tail->output()) break;
      if (!fusion.bias && !fusion.residual && is_bias(*other, type.shape, channels_from_end))
        fusion.bias = other;
      else if (!fusion.residual && other->type == type)
        fusion.residual = other;
      else
        break;
      taken_.insert(fusion.tail = user);
    }
    const bool transposed = product && (is_transpose_of_matrices(*root.input(0)->operation) ||
                                        is_transpose_of_matrices(*root.input(1)->operation));
    if (fusion.tail != &root || transposed || packed_operand(root).dequantization) by_tail_[fusion.tail] = fusion;
  }

  Users users_;
  std::unordered_set<const Operation*> taken_;
  std::unordered_map<const Operation*, Fusion> by_tail_;
};

// Rewrites relu_gradient(g, s) to relu_gradient(g, relu(s)) if relu(s) is computed before the gradient.
void look_at_results(Program& program) {
  if (!any_operation(program, [](const Operation& operation) { return operation.is("relu_gradient"); })) return;
  std::unordered_map<const Tensor*, const Operation*> relu_of;
  rewrite(program, [&](Rewriter& rewriter, const Operation& operation) -> Rewriter::Replacement {
    if (operation.is("relu")) relu_of.try_emplace(operation.input(0), &operation);
    if (!operation.is("relu_gradient")) return std::nullopt;
    const auto found = relu_of.find(operation.input(1));
    if (found == relu_of.end() || !found->second->parent->encloses(operation.parent)) return std::nullopt;
    Operation* gradient = rewriter.create(operation, "relu_gradient",
                                          {rewriter.now(operation.input(0)), rewriter.now(found->second->output())});
    return std::vector<Tensor*>{gradient->output()};
  });
}

}  // namespace

void fuse(Program& program) {
  look_at_results(program);
  fuse_sparse(program);
  fuse_softmax(program);
  fuse_rotary(program);
  if (!program.target.fuses_epilogues || !any_operation(program, starts)) return;
  fuse_rows(program);
  const Fuser fuser(program);
  rewrite(program, [&](Rewriter& rewriter, const Operation& operation) { return fuser.visit(rewriter, operation); });
}

}  // namespace mpsgraph::compiler
