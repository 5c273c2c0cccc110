// Specialization: which parts of a graph it keeps, which feeds it accepts, and which errors it throws.
#include "check.h"
#include "compiler/passes.h"
#include "core/definition.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/core/gradients.h"
#include "mpsgraph/core/text.h"
#include "textual.h"

using namespace mpsgraph;
using namespace mpsgraph::compiler;
using namespace textual;

namespace {

TEST(specialization_keeps_what_targets_need_with_fed_types) {
  Graph g;
  Builder b(g);
  Tensor* x = g.add("placeholder", {}, {{"type", f32({-1, 4})}}, "x");
  Tensor* w = g.add("variable", {}, {{"value", ConstantData::splat(DType::float32, {4, 2}, 1.0)}}, "w");
  g.add("placeholder", {}, {{"type", f32({3})}}, "unused");
  Tensor* y = b.matmul(x, w);
  b.unary("exponent", y);
  Tensor* rows = g.add("slice", {b.shape_of(y)}, {{"starts", Ints{0}}, {"ends", Ints{1}}, {"strides", Ints{1}}});
  Tensor* both =
      g.add("concat", {rows, g.add("constant", {}, {{"value", ConstantData::splat(DType::int32, {1}, 1.0)}}), rows},
            {{"axis", int64_t{0}}});
  Tensor* z = g.add("broadcast_to", {b.reshape(b.sum(y, {1}), {-1, 1, 1}), both}, {}, "z");
  CHECK_EQUAL(z->type, f32({-1, 1, -1}));
  Program program = specialize(g, {{x, f32({8, 4})}}, {z, y}, {});
  verify(*program.graph);
  CHECK_EQUAL(program.targets[0]->type, f32({8, 1, 8}));
  CHECK_EQUAL(program.targets[1]->type, f32({8, 2}));
  CHECK_EQUAL(program.feeds.size(), 1u);
  CHECK_EQUAL(program.feeds[0]->type, f32({8, 4}));
  CHECK_EQUAL(program.variables.size(), 1u);
  CHECK(program.source_variables[0] == w);
  for (const auto& op : program.graph->root().operations) CHECK(!op->is({"exponent", "shape_of", "slice", "concat"}));
  CHECK(program.graph->find("unused") == nullptr);
  CHECK(program.graph->find("z") != nullptr);
}

TEST(specialization_reports_invalid_feeds) {
  Graph g, other;
  Builder b(g);
  Tensor* x = g.add("placeholder", {}, {{"type", f32({-1, 4})}}, "x");
  Tensor* foreign = other.add("placeholder", {}, {{"type", f32({2})}}, "foreign");
  Tensor* y = b.neg(x);
  CHECK_THROWS(GraphError, specialize(g, {}, {y}, {}), "'x'", "not fed");
  CHECK_THROWS(ShapeError, specialize(g, {{x, f32({8, 5})}}, {y}, {}), "must be float32[-1,4]", "got float32[8,5]");
  CHECK_THROWS(ShapeError, specialize(g, {{x, f32({-1, 4})}}, {y}, {}), "'x'");
  CHECK_THROWS(DTypeError, specialize(g, {{x, {DType::int32, Shape{8, 4}}}}, {y}, {}), "must be float32", "got int32");
  CHECK_THROWS(GraphError, specialize(g, {{x, f32({8, 4})}, {x, f32({8, 4})}}, {y}, {}), "fed twice");
  CHECK_THROWS(GraphError, specialize(g, {{y, f32({8, 4})}}, {y}, {}), "only placeholders");
  CHECK_THROWS(GraphError, specialize(g, {{foreign, f32({2})}}, {y}, {}), "another graph");
  CHECK_THROWS(GraphError, specialize(g, {{x, f32({8, 4})}}, {foreign}, {}), "another graph");
}

TEST(specialization_reports_incompatible_and_unknown_shapes) {
  Graph g;
  Builder b(g);
  Tensor* x = g.add("placeholder", {}, {{"type", f32({-1})}}, "x");
  Tensor* y = g.add("placeholder", {}, {{"type", f32({-1})}}, "y");
  Tensor* sum = b.add(x, y);
  CHECK_THROWS(ShapeError, specialize(g, {{x, f32({2})}, {y, f32({3})}}, {sum}, {}), "[addition]", "(2)", "(3)");
  Block* then = g.begin_block();
  Tensor* sizes = b.cast(b.reshape(x, Ints{2}), DType::int32);
  Tensor* in_then = g.add("reshape", {x, sizes}, {}, "late");
  std::unique_ptr<Block> finished = g.finish_block(then, {b.reshape(b.sum(in_then), Ints{1})});
  Block* otherwise = g.begin_block();
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(std::move(finished));
  blocks.push_back(g.finish_block(otherwise, {b.sum(x)}));
  Tensor* yes = g.add("constant", {}, {{"value", ConstantData::splat(DType::boolean, {}, 1.0)}});
  Tensor* branch = g.create("if", {yes}, {}, {}, std::move(blocks))->output();
  CHECK_THROWS(UnsupportedError, specialize(g, {{x, f32({2})}}, {branch}, {}), "[reshape]", "'late'", "within a block");
}

TEST(specialization_splits_at_value_dependent_shapes) {
  Graph g;
  Builder b(g);
  Tensor* x = g.add("placeholder", {}, {{"type", f32({-1})}}, "x");
  Tensor* s = g.add("placeholder", {}, {{"type", TensorType{DType::int32, Shape{2}}}}, "s");
  Tensor* w = g.add("variable", {}, {{"value", ConstantData::splat(DType::float32, {2}, 1.0)}}, "w");
  Tensor* before = g.add("addition", {x, w}, {}, "before");
  Operation* assign = g.create("assign", {w, b.filled(f32({2}), 2.0)});
  Tensor* sizes = b.add(s, b.shape_of(before));
  Tensor* late = g.add("broadcast_to", {b.neg(before), sizes}, {}, "late");
  Tensor* product = g.add("multiplication", {late, w}, {}, "product");
  CHECK_EQUAL(product->type, f32({-1, 2}));
  Program program = specialize(g, {{x, f32({2})}, {s, s->type}}, {product, before, w}, {assign});
  verify(*program.graph);
  CHECK(program.rest != nullptr);
  const Rest& rest = *program.rest;
  verify(*rest.graph);
  CHECK_EQUAL(to_string(Dims(rest.early.begin(), rest.early.end())), "(1)");
  CHECK_EQUAL(to_string(Dims(rest.late.begin(), rest.late.end())), "(0,2)");
  CHECK_EQUAL(program.target_operations.size(), 1u);  // the assign has already run
  CHECK_EQUAL(rest.deciding.size(), 1u);
  const std::vector<TensorType> types = target_types(program);
  CHECK_EQUAL(types[0], f32({-1, 2}));
  CHECK_EQUAL(types[1], f32({2}));
  CHECK_EQUAL(types[2], f32({2}));
  std::vector<TensorType> fed;
  for (const compiler::Rest::Source& source : rest.sources)
    fed.push_back((source.is_feed ? program.feeds : program.targets)[source.index]->type);
  const Ints values{3, 2};
  Program next = specialize(rest, fed, {integer_constant({fed[rest.deciding[0]].dtype, Shape{2}}, values)});
  verify(*next.graph);
  CHECK(next.rest == nullptr);
  CHECK_EQUAL(next.targets[0]->type, f32({3, 2}));
  CHECK_EQUAL(next.source_variables.size(), 1u);
  CHECK(next.source_variables[0] == w);
}

TEST(side_effects_run_only_when_needed) {
  const std::string text = R"(
    %v = variable() {value=float32[2] splat 0x00000000} : float32[2]
    %x = placeholder() {type=float32[2]} : float32[2]
    %a = assign(%v, %x) : ()
    %out = identity(%x) after [%a] : float32[2]
)";
  auto graph = parse("graph {" + text + "}\n");
  Tensor *x = graph->find("x")->output(), *out = graph->find("out")->output();
  Program with = specialize(*graph, {{x, x->type}}, {out}, {});
  simplify(with);
  CHECK(with.graph->find("a") != nullptr);
  CHECK(with.targets[0] == with.feeds[0]);
  Program without = specialize(*graph, {{x, x->type}}, {x}, {});
  CHECK_EQUAL(without.graph->root().operations.size(), 1u);
}

TEST(variable_target_is_read_last) {
  auto graph = parse(R"(graph {
    %v = variable() {value=float32[2] splat 0x00000000} : float32[2]
    %x = placeholder() {type=float32[2]} : float32[2]
    %a = assign(%v, %x) : ()
  })");
  Tensor *x = graph->find("x")->output(), *v = graph->find("v")->output();
  Program program = specialize(*graph, {{x, x->type}}, {v}, {graph->find("a")});
  CHECK(program.targets[0]->operation->is("read"));
  simplify(program);
  CHECK(program.targets[0] == program.feeds[0]);
  CHECK_EQUAL(program.target_operations[0]->name, "a");
}

TEST(loop_variables_take_types_of_initial_values) {
  Graph g;
  Builder b(g);
  Tensor* x = g.add("placeholder", {}, {{"type", f32({-1})}}, "x");
  Tensor *zero = b.scalar(DType::int32, 0), *three = b.scalar(DType::int32, 3), *one = b.scalar(DType::int32, 1);
  Block* body = g.begin_block({{DType::int32, Shape(Dims{})}, f32({-1})});
  Tensor* doubled = b.add(body->arguments[1], body->arguments[1]);
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(g.finish_block(body, {doubled}));
  Operation* loop = g.create("for", {zero, three, one, x}, {}, "loop", std::move(blocks));
  Program program = specialize(g, {{x, f32({5})}}, {loop->output()}, {});
  verify(*program.graph);
  CHECK_EQUAL(program.targets[0]->type, f32({5}));

  body = g.begin_block({{DType::int32, Shape(Dims{})}, f32({-1})});
  Tensor* longer = g.add("concat", {body->arguments[1], body->arguments[1]}, {{"axis", int64_t{0}}});
  std::vector<std::unique_ptr<Block>> growing;
  growing.push_back(g.finish_block(body, {longer}));
  loop = g.create("for", {zero, three, one, x}, {}, "growing", std::move(growing));
  CHECK_THROWS(UnsupportedError, specialize(g, {{x, f32({5})}}, {loop->output()}, {}), "'growing'", "float32[5]",
               "float32[10]");
}

TEST(branch_with_gradients_is_specialized) {
  Graph g;
  Builder b(g);
  Tensor* x = g.add("placeholder", {}, {{"type", f32({-1})}}, "x");
  Tensor* p = g.add("placeholder", {}, {{"type", TensorType{DType::boolean, Shape(Dims{})}}}, "p");
  std::vector<std::unique_ptr<Block>> blocks;
  Block* then = g.begin_block();
  Tensor* curved = b.unary("exponent", b.unary("sin", x));
  blocks.push_back(g.finish_block(then, {curved}));
  Block* otherwise = g.begin_block();
  Tensor* straight = b.mul(x, 3.0);
  blocks.push_back(g.finish_block(otherwise, {straight}));
  Tensor* y = g.create("if", {p}, {}, {}, std::move(blocks))->output();
  Tensor* dx = gradients(b.sum(y), {x})[0];
  Program program = specialize(g, {{x, f32({5})}, {p, p->type}}, {dx}, {});
  for (Run pass : {prune, expand, fold, simplify}) {
    pass(program);
    verify(*program.graph);
  }
  CHECK_EQUAL(program.targets[0]->type, f32({5}));
}

}  // namespace
