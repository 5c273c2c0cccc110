// Operation family matrix: attention, softmax(scale Q Kᵀ + M) V with mask M, and its gradient.
//
// The decompositions in this file define both operations. A device that computes attention in tiles, without storing
// the scores, does not decompose them. The gradient kernel of such a device needs each query's largest score and sum of
// exponentials, which the attention operation returns as a second result once its gradient is requested.
#include <limits>

#include "core/definition.h"
#include "core/ops/primitive.h"
#include "mpsgraph/core/builder.h"

namespace mpsgraph::ops {
namespace {

using Tensors = std::vector<Tensor*>;

// The dtype in which the scores, the softmax over them, and the sums of the softmax are computed.
DType type_of_scores(DType dtype) { return size_of(dtype) == 2 ? DType::float32 : dtype; }

bool drops_weights(const Attributes& a) { return a.real("dropout") > 0; }

// The number of leading operands: query, key, value, and the mask if present. They are followed by the random state if
// there is dropout and, in a gradient operation, by `behind` more operands.
size_t count_of_sources(const Attributes& a, size_t operands, size_t behind = 0) {
  return operands - behind - (drops_weights(a) ? 1 : 0);
}

void check_operands(const InferContext& c, size_t sources, size_t behind) {
  const double rate = c.attributes.real("dropout");
  if (!(rate >= 0 && rate < 1))
    c.graph_error(cat("dropout (the fraction of attention weights to drop) must be in [0, 1), got ", rate));
  if (sources != 3 && sources != 4)
    c.graph_error(cat("operands must be query, key, value, and optionally a mask", rate > 0 ? ", then a state" : "",
                      behind ? ", then the operands of the gradient" : "", ", got ", c.count(), " operand(s)"));
  c.require_float(0);
  c.require_same_dtype(0, sources);
  if (rate > 0 && (c.dtype(sources) != DType::int32 || !compatible(c.shape(sources), Shape{7})))
    c.graph_error(cat("the random state of the dropout must be int32[7], got ", c.type(sources)));
}

// The result types of attention; unranked if any operand is unranked.
struct AttentionShapes {
  // Statistics hold two numbers per query. They lack the leading axes that only the value operand has.
  Shape result, statistics;
};

AttentionShapes attention_shapes(const InferContext& c, size_t sources) {
  static constexpr const char* names[] = {"query", "key", "value", "mask"};
  bool ranked = true;
  for (size_t i = 0; i < sources; ++i) {
    ranked &= c.shape(i).ranked();
    if (i < 3 && c.shape(i).ranked() && c.shape(i).rank() < 2)
      c.shape_error(cat(names[i], " must have rank 2 or more, got ", c.shape(i)));
  }
  if (!ranked) return {};
  const auto from_end = [&](size_t i, int back) { return c.shape(i)[c.shape(i).rank() - back]; };
  const auto equal = [&](size_t a, int back_a, size_t b, int back_b, const char* what) {
    const int64_t x = from_end(a, back_a), y = from_end(b, back_b);
    if (x >= 0 && y >= 0 && x != y)
      c.shape_error(cat(names[a], " ", c.shape(a), " and ", names[b], " ", c.shape(b), " must have the same ", what));
  };
  equal(0, 1, 1, 1, "last axis");
  equal(1, 2, 2, 2, "number of keys (the second-to-last axis)");
  Shape batch(Dims{}), of_scores;
  for (const size_t i : {0, 1, 3, 2}) {
    if (i == 2) of_scores = batch;
    if (i >= sources) continue;
    const Dims& dims = c.shape(i).dims();
    const auto leading =
        broadcast(batch, Shape(Dims(dims.begin(), dims.end() - std::min<std::ptrdiff_t>(2, c.shape(i).rank()))));
    if (!leading)
      c.shape_error(cat("the leading axes of ", names[i], " ", c.shape(i), " must broadcast with ", batch,
                        ", the leading axes of the preceding operands"));
    batch = *leading;
  }
  if (sources == 4)
    for (int back = 1; back <= std::min(2, c.shape(3).rank()); ++back) {
      const int64_t have = from_end(3, back), wanted = back == 1 ? from_end(1, 2) : from_end(0, 2);
      if (have >= 0 && wanted >= 0 && have != 1 && have != wanted)
        c.shape_error(cat("mask must broadcast to (queries, keys) = ", Shape({from_end(0, 2), from_end(1, 2)}),
                          ", got ", c.shape(3)));
    }
  Dims dims = batch.dims(), rows = of_scores.dims();
  rows.push_back(from_end(0, 2));
  rows.push_back(2);
  dims.push_back(from_end(0, 2));
  dims.push_back(from_end(2, 1));
  return {Shape(dims), Shape(rows)};
}

std::vector<TensorType> infer_attention(const InferContext& c) {
  const size_t sources = count_of_sources(c.attributes, c.count());
  check_operands(c, sources, 0);
  const AttentionShapes shapes = attention_shapes(c, sources);
  std::vector<TensorType> types{{c.dtype(0), shapes.result}};
  if (c.attributes.boolean("training")) types.push_back({type_of_scores(c.dtype(0)), shapes.statistics});
  return types;
}

// Number of operands of a gradient operation after mask and random state: incoming gradient, result, and statistics.
constexpr size_t behind_sources = 3;

std::vector<TensorType> infer_attention_gradient(const InferContext& c) {
  const size_t sources = count_of_sources(c.attributes, c.count(), behind_sources);
  check_operands(c, sources, behind_sources);
  const AttentionShapes shapes = attention_shapes(c, sources);
  for (size_t i = c.count() - behind_sources; i < c.count(); ++i) {
    const bool statistics = i + 1 == c.count();
    const TensorType wanted{statistics ? type_of_scores(c.dtype(0)) : c.dtype(0),
                            statistics ? shapes.statistics : shapes.result};
    if (c.dtype(i) != wanted.dtype) c.dtype_error(cat("operand ", i, " must be ", wanted, ", got ", c.type(i)));
    if (!compatible(c.shape(i), wanted.shape))
      c.shape_error(cat("operand ", i, " must be ", wanted, ", got ", c.type(i)));
  }
  std::vector<TensorType> types{c.type(0), c.type(1), c.type(2)};
  if (c.attributes.boolean("mask_gradient")) {
    if (sources != 4) c.graph_error("mask_gradient requires a mask operand: pass a mask or set mask_gradient to false");
    types.push_back(c.type(3));
  }
  return types;
}

// ---- the composition ----

bool has_no_keys(const Tensor* key) {
  const Shape& shape = key->shape();
  return shape.ranked() && shape[shape.rank() - 2] == 0;
}

// The causal mask: 0, and -infinity where the key comes after the query. Its shape is (queries, keys), or the shape of
// the scores if sizes are unknown.
Tensor* order_of_keys(Builder& b, Tensor* query, Tensor* key) {
  const Shape &q = query->shape(), &k = key->shape();
  const auto known = [](const Shape& s) { return s.ranked() && s[s.rank() - 2] >= 0; };
  const auto places = [&](Tensor* shape, int64_t axis) {
    return b.graph().add("coordinate_along_axis", {shape}, {{"axis", axis}});
  };
  Tensor *row, *column;
  if (known(q) && known(k)) {
    row = places(b.ints({q[q.rank() - 2], 1}), 0);
    column = places(b.ints({1, k[k.rank() - 2]}), 1);
  } else {
    Tensor* shape = b.shape_of(b.matmul(query, b.swap_last_axes(key)));
    row = places(shape, -2);
    column = places(shape, -1);
  }
  Tensor* later = b.binary("less_than", row, column);
  Tensor* zero = b.scalar_like(query, 0);
  return b.select(later, b.scalar_like(query, -std::numeric_limits<double>::infinity()), zero);
}

// The sum of the mask operand and the causal mask; null if there is neither.
Tensor* whole_mask(Builder& b, const Tensors& in, size_t sources, const Attributes& a) {
  Tensor* mask = sources == 4 ? in[3] : nullptr;
  if (!a.boolean("causal") || has_no_keys(in[1])) return mask;
  Tensor* order = order_of_keys(b, in[0], in[1]);
  return mask ? b.add(mask, order) : order;
}

// The decomposition of attention. Half-precision operands are computed in float32 throughout, because rounding the many
// scores and weights would cost more than the casts. A query whose mask excludes all keys gets zeros as its result.
// Such queries are found in the mask, because it is smaller than the scores. They get the attention weights of an
// unmasked query, so that no NaN appears in the gradient, and their results are then replaced with zeros, which have
// zero gradient.
struct Composition {
  Composition(Builder& b, const Tensors& in, size_t sources, const Attributes& a) : b(b) {
    wide = type_of_scores(in[0]->dtype());
    key = b.cast(in[1], wide);
    value = b.cast(in[2], wide);
    query = b.mul(b.cast(in[0], wide), a.real("scale"));
    scores = b.matmul(query, b.swap_last_axes(key));
    if (Tensor* added = whole_mask(b, in, sources, a)) {
      mask = b.cast(added, wide);
      Tensor* largest = mask->shape().rank() == 0 ? mask : b.max(mask, {-1});
      blind = b.binary("equal", largest, b.scalar_like(mask, -std::numeric_limits<double>::infinity()));
      scores = b.add(scores, without_blind(mask));
    }
    weights = b.graph().add("softmax", {scores}, {{"axis", int64_t{-1}}});
    if (!drops_weights(a)) return;
    const Operation* drawn = b.graph().create("random", {b.shape_of(weights), in[sources]});
    Tensor* kept = b.binary("greater_than_or_equal_to", drawn->output(), b.scalar(DType::float32, a.real("dropout")));
    Tensor* share = b.scalar(wide, 1 - a.real("dropout"));
    factor = b.div(b.cast(kept, wide), share);
  }

  // Replaces x with zeros for queries that attend to no key.
  Tensor* without_blind(Tensor* x) const { return blind ? b.select(blind, b.scalar_like(x, 0), x) : x; }
  Tensor* dropped(Tensor* x) const { return factor ? b.mul(x, factor) : x; }
  Tensor* found() const { return without_blind(b.matmul(dropped(weights), value)); }

  Builder& b;
  DType wide;
  Tensor *query, *key, *value, *scores, *weights;  // query is scaled; scores include the mask
  Tensor *mask = nullptr, *blind = nullptr;
  Tensor* factor = nullptr;  // dropout factor of each weight: 0 where it is dropped
};

// Statistics of each query's scores: the largest score and the sum of exp(score - largest), with shape (..., n, 2).
// They are (infinity, 1) for a query that attends to no key, so that exp(score - largest) / sum is 0.
Tensor* statistics_of(const Composition& c) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Builder& b = c.b;
  Tensor *largest, *sum;
  if (has_no_keys(c.key)) {
    largest = b.add(b.sum(c.scores, {-1}), infinity);
    sum = b.add(b.sum(c.scores, {-1}), 1);
  } else {
    largest = b.max(c.scores, {-1});
    sum = b.sum(b.unary("exponent", b.sub(c.scores, largest)), {-1});
    if (c.blind) {
      largest = b.select(c.blind, b.scalar_like(largest, infinity), largest);
      sum = b.select(c.blind, b.scalar_like(sum, 1), sum);
    }
  }
  return b.graph().add("concat", {largest, sum}, {{"axis", int64_t{-1}}});
}

// Decomposes attention that is causal or returns statistics into plain attention where possible, for devices that
// support only plain attention.
Tensors attention_parts(Builder& b, const Tensors& in, const Attributes& a) {
  const size_t sources = count_of_sources(a, in.size());
  const bool training = a.boolean("training");
  Tensors results;
  if (!drops_weights(a) && (a.boolean("causal") || training)) {
    Tensors operands(in.begin(), in.begin() + 3);
    if (Tensor* mask = whole_mask(b, in, sources, a)) operands.push_back(mask);
    results.push_back(b.graph().add("scaled_dot_product_attention", std::move(operands), {{"scale", a.real("scale")}}));
    if (training) results.push_back(statistics_of(Composition(b, in, sources, a)));
    return results;
  }
  const Composition c(b, in, sources, a);
  results.push_back(b.cast(c.found(), in[0]->dtype()));
  if (training) results.push_back(statistics_of(c));
  return results;
}

// ---- the gradient ----

// Decomposition of the attention gradient. It ignores the operands result and statistics, which only fused kernels use.
Tensors attention_gradient_parts(Builder& b, const Tensors& in, const Attributes& a) {
  const size_t sources = count_of_sources(a, in.size(), behind_sources);
  const Composition c(b, in, sources, a);
  Tensor* incoming = c.without_blind(b.cast(in[in.size() - behind_sources], c.wide));
  const auto narrow = [&](Tensor* x, size_t like) { return b.cast(b.sum_to_like(x, in[like]), in[like]->dtype()); };
  Tensor* d_weights = c.dropped(b.matmul(incoming, b.swap_last_axes(c.value)));
  Tensor* d_scores = b.graph().add("softmax_gradient", {d_weights, c.scores}, {{"axis", int64_t{-1}}});
  Tensors results = {
      narrow(b.mul(b.matmul(d_scores, c.key), a.real("scale")), 0),
      narrow(b.matmul(b.swap_last_axes(d_scores), c.query), 1),
      narrow(b.matmul(b.swap_last_axes(c.dropped(c.weights)), incoming), 2),
  };
  if (a.boolean("mask_gradient")) results.push_back(narrow(c.without_blind(b.sum_to_like(d_scores, c.mask)), 3));
  return results;
}

// Makes an existing attention operation return the statistics that its gradient needs.
void give_statistics(Operation& attention) {
  if (attention.attributes.boolean("training")) return;
  attention.attributes.set("training", true);
  const auto types = attention.definition->infer(
      InferContext(*attention.definition, attention.inputs, attention.attributes, attention.blocks, attention.where()));
  attention.graph().append_output(&attention, types[1]);
}

void d_attention(GradientContext& c) {
  if (!c.incoming()) return;
  give_statistics(c.operation);
  const Attributes& a = c.attributes();
  const bool masked = count_of_sources(a, c.operation.inputs.size()) == 4;
  Tensors operands = c.operation.inputs;
  for (Tensor* behind : {c.incoming(), c.output(0), c.output(1)}) operands.push_back(behind);
  const Operation* gradient = c.graph().create("scaled_dot_product_attention_gradient", std::move(operands),
                                               {{"scale", a.real("scale")},
                                                {"causal", a.boolean("causal")},
                                                {"dropout", a.real("dropout")},
                                                {"mask_gradient", masked && c.needs(3)}});
  for (size_t i = 0; i < gradient->outputs.size(); ++i) c.set(i, gradient->output(i));
}

}  // namespace

const Family matrix_attention_family("matrix", [] {
  const auto both = [](Kind name, Arity arity, std::vector<AttributeSpec> own, Infer infer) {
    own.insert(own.begin(),
               {required("scale", AttributeKind::real), optional("causal", false), optional("dropout", 0.0)});
    return primitive(name, arity, std::move(own), std::move(infer), nullptr);
  };
  OperationDefinition d = both("scaled_dot_product_attention", {3, 5}, {optional("training", false)}, infer_attention);
  d.gradient = d_attention;
  d.decompose = attention_parts;
  define(std::move(d));

  OperationDefinition gradient = both("scaled_dot_product_attention_gradient", {6, 8},
                                      {optional("mask_gradient", false)}, infer_attention_gradient);
  gradient.decompose = attention_gradient_parts;
  gradient.internal = true;
  define(std::move(gradient));
});

}  // namespace mpsgraph::ops
