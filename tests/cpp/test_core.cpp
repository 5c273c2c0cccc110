// Types, attributes, and graph construction: valid and invalid arguments, and errors, which leave the graph unchanged.
// Derivatives are tested in test_gradients.cpp.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <unordered_set>

#include "check.h"
#include "core/definition.h"
#include "core/known_values.h"
#include "mpsgraph/core/autocast.h"
#include "mpsgraph/core/builder.h"

using namespace mpsgraph;

namespace {

TensorType f32(Dims dims) { return {DType::float32, Shape(std::move(dims))}; }
TensorType i32(Dims dims) { return {DType::int32, Shape(std::move(dims))}; }

Tensor* placeholder(Graph& g, TensorType type, std::string_view name = {}) {
  return g.add("placeholder", {}, {{"type", std::move(type)}}, name);
}
Tensor* variable(Graph& g, Dims dims, std::string_view name = {}) {
  return g.add("variable", {}, {{"value", ConstantData::splat(DType::float32, std::move(dims), 0.5)}}, name);
}
Tensor* boolean(Graph& g) { return placeholder(g, {DType::boolean, Shape(Dims{})}, "condition"); }

struct State {  // Everything in a graph that a failing create() could have modified.
  explicit State(const Graph& g)
      : operations(g.root().operations.size()), count(g.operation_count()), read(g.find("read")) {}
  size_t operations;
  int64_t count;
  Operation* read;
  bool operator==(const State&) const = default;
};

}  // namespace

// --- types -----------------------------------------------------------------------------------------------------------

TEST(dtypes_have_names_and_sizes) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(dtype_from_name(name(dtype)) == dtype);
    CHECK_EQUAL(int{is_float(dtype)} + int{is_integer(dtype)} + int{dtype == DType::boolean} + int{is_complex(dtype)},
                1);
  }
  CHECK_EQUAL(size_of(DType::bfloat16), 2u);
  CHECK(is_signed(DType::int8) && is_signed(DType::float16) && !is_signed(DType::uint64) && !is_signed(DType::boolean));
  CHECK(real_type(DType::complex64) == DType::float32 && complex_type(DType::float64) == DType::complex128);
  CHECK(real_type(DType::int8) == DType::int8 && !complex_type(DType::float16));
  CHECK(!dtype_from_name("float"));
}

TEST(float16_round_trips_every_value) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<uint16_t>(bits));
    const uint16_t back = float_to_half(value);
    if (std::isnan(value)) {
      CHECK_EQUAL(back, bits | 0x200u);
    } else {
      CHECK_EQUAL(back, bits);
    }
  }
}

TEST(float16_rounds_to_nearest_even) {
  CHECK_EQUAL(float_to_half(65519.996f), 0x7bff);
  CHECK_EQUAL(float_to_half(65520.0f), 0x7c00);
  CHECK_EQUAL(float_to_half(1e30f), 0x7c00);
  CHECK_EQUAL(float_to_half(-std::numeric_limits<float>::infinity()), 0xfc00);
  CHECK_EQUAL(float_to_half(1.0f + 0x1p-11f), 0x3c00);  // tie, down to even
  CHECK_EQUAL(float_to_half(1.0f + 3 * 0x1p-11f), 0x3c02);  // tie, up to even
  CHECK_EQUAL(float_to_half(0x1p-25f), 0x0000);  // half of the smallest subnormal
  CHECK_EQUAL(float_to_half(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
  CHECK_EQUAL(float_to_half(3 * 0x1p-25f), 0x0002);  // tie between two subnormals
  CHECK_EQUAL(float_to_half(std::nextafter(0x1p-14f, 0.0f)),
              0x0400);  // the largest subnormal rounds to the smallest normal
  CHECK_EQUAL(float_to_half(-0.0f), 0x8000);
  CHECK_EQUAL(float_to_half(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(float16_rounding_is_never_worse_than_its_neighbors) {
  for (uint32_t bits = 0; bits < 0x47800000u; bits += 977) {
    const float value = std::bit_cast<float>(bits);
    const uint16_t half = float_to_half(value);
    if (half >= 0x7c00) continue;
    const double error = std::fabs(double{half_to_float(half)} - value);
    const double above = std::fabs(double{half_to_float(static_cast<uint16_t>(half + 1))} - value);
    const double below = half ? std::fabs(double{half_to_float(static_cast<uint16_t>(half - 1))} - value) : error;
    CHECK(error <= above && error <= below);
  }
}

TEST(bfloat16_rounds_to_nearest_even_and_keeps_nan) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bfloat16_to_float(static_cast<uint16_t>(bits));
    CHECK_EQUAL(float_to_bfloat16(value), std::isnan(value) ? bits | 0x40u : bits);
  }
  CHECK_EQUAL(float_to_bfloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie to even
  CHECK_EQUAL(float_to_bfloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  CHECK_EQUAL(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  CHECK(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(shapes_print_and_count_elements) {
  CHECK_EQUAL(to_string(TensorType{DType::float32, Shape({-1, 28})}), "float32[-1,28]");
  CHECK_EQUAL(to_string(TensorType{DType::boolean, Shape()}), "bool[*]");
  CHECK_EQUAL(to_string(f32({})), "float32[]");
  CHECK_EQUAL(to_string(Shape()), "(*)");
  CHECK_EQUAL(element_count({3, 0, int64_t{1} << 62}), 0);
  CHECK_EQUAL(contiguous_strides({3, 0, int64_t{1} << 62}).size(), size_t{3});  // undefined behavior if it overflowed
  CHECK_EQUAL(element_count({}), 1);
  CHECK_EQUAL(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  CHECK_THROWS(ShapeError, element_count({2, -1}), "(2,-1)");
  CHECK_THROWS(ShapeError, element_count({int64_t{1} << 40, int64_t{1} << 40}), "2^62");
}

TEST(shapes_broadcast_merge_and_compare) {
  CHECK_EQUAL(*broadcast({2, 1}, {3}), Shape({2, 3}));
  CHECK_EQUAL(*broadcast({-1, 4}, {5, 1}), Shape({5, 4}));
  CHECK_EQUAL(*broadcast({-1}, {1}), Shape({-1}));
  CHECK_EQUAL(*broadcast({0}, {1}), Shape({0}));
  CHECK_EQUAL(*broadcast(Shape(), {3}), Shape());
  CHECK(!broadcast({2}, {3}));
  CHECK(!broadcast({0}, {3}));
  CHECK(compatible({-1, 3}, {2, -1}) && compatible(Shape(), {1}) && !compatible({2}, {2, 2}) && !compatible({2}, {3}));
  CHECK_EQUAL(merge({-1, 3}, {2, -1}), Shape({2, 3}));
  CHECK_EQUAL(merge(Shape(), {2, -1}), Shape({2, -1}));
}

// --- attributes ------------------------------------------------------------------------------------------------------

TEST(constants_compare_by_content) {
  const float ones[] = {1, 1, 1};
  const auto full = ConstantData::copy(DType::float32, {3}, ones);
  const auto splat = ConstantData::splat(DType::float32, {3}, 1.0);
  CHECK(*full == *splat && *splat == *full);
  CHECK(!(*full == *ConstantData::splat(DType::float32, {3}, 2.0)));
  CHECK(!(*full == *ConstantData::splat(DType::float32, {1, 3}, 1.0)));
  float expanded[3] = {};
  splat->expand_into(expanded);
  CHECK_EQUAL(std::memcmp(expanded, ones, sizeof(ones)), 0);
  CHECK_EQUAL(splat->stored_bytes(), 4u);
  CHECK_EQUAL(ConstantData::of_ints({4, -1})->integers(), (Ints{4, -1}));
}

TEST(regenerable_bytes_can_be_taken_until_first_access) {
  int made = 0;
  const auto make = [&] {
    ++made;
    std::shared_ptr<std::byte> bytes(new std::byte[8], std::default_delete<std::byte[]>());
    const float values[] = {1, 2};
    std::memcpy(bytes.get(), values, sizeof(values));
    return bytes;
  };
  const auto data = ConstantData::remade(DType::float32, {2}, make(), make);
  const std::shared_ptr<std::byte> mine = data->take(), more = data->take();
  CHECK(mine && more && mine != more);
  CHECK_EQUAL(made, 2);
  const float changed = 5;
  std::memcpy(mine.get(), &changed, sizeof(changed));
  CHECK_EQUAL(data->scalar(0), 1.0);
  CHECK_EQUAL(made, 3);
  CHECK(!data->take());  // a caller may hold a pointer to the bytes
  CHECK_EQUAL(data->scalar(1), 2.0);
  CHECK(*data == *ConstantData::remade(DType::float32, {2}, make(), make));
  CHECK_EQUAL(made, 4);
  CHECK(!ConstantData::of_ints({1})->take());
}

TEST(constants_of_every_dtype_hold_a_scalar) {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK_EQUAL(ConstantData::splat(dtype, {}, 1.0)->scalar(), 1.0);
    CHECK_EQUAL(ConstantData::splat(dtype, {}, 1.0)->imaginary(), 0.0);
    if (!is_inexact(dtype)) CHECK_EQUAL(ConstantData::splat(dtype, {2}, 1.0)->integer(1), 1);
  }
  CHECK_EQUAL(ConstantData::splat(DType::int64, {}, -0x1p63)->integer(), std::numeric_limits<int64_t>::min());
  CHECK_THROWS(DTypeError, ConstantData::splat(DType::int64, {}, 0x1p63), "int64");
  CHECK_THROWS(DTypeError, ConstantData::splat(DType::uint8, {}, -1.0), "uint8");
  CHECK_THROWS(DTypeError, ConstantData::splat(DType::int32, {}, std::nan("")), "int32");
  CHECK_THROWS(ShapeError, ConstantData::splat(DType::int32, {-3}, 1.0), "-3");
  CHECK_THROWS(DTypeError, ConstantData::splat(DType::float32, {}, 1.0)->integer(), "float32");
}

TEST(attributes_are_sorted_and_typed) {
  Attributes a{{"b", 1}, {"a", 2.5}};
  const Attributes same_items{{"a", 2.5}, {"b", 1}};
  CHECK(a == same_items);
  CHECK_EQUAL(a.items()[0].first, "a");
  CHECK_EQUAL(a.integer("b"), 1);
  CHECK_THROWS(GraphError, a.integer("c"), "'c'");
  CHECK_THROWS(GraphError, a.integer("a"), "'a'", "a real number", "an integer");
  a.set("b", std::string("x"));
  CHECK(!(a == same_items));
  a.erase("b");
  CHECK(!a.has("b") && a.has("a"));
  CHECK(same(Attribute(std::nan("")), Attribute(std::nan(""))) && !same(Attribute(0.0), Attribute(-0.0)));
}

TEST(create_fills_in_and_checks_attributes) {
  Graph g;
  Tensor* x = placeholder(g, f32({1, 4, 4, 1}), "x");
  Operation* pool = g.create("max_pooling2d", {x}, {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  CHECK_EQUAL(pool->attributes.integers("dilations"), (Ints{1, 1}));
  CHECK_EQUAL(g.create("pad", {x}, {{"left", Ints{0, 0, 0, 0}}, {"right", Ints{0, 0, 0, 0}}, {"value", 1}})
                  ->attributes.real("value"),
              1.0);
  const State before(g);
  CHECK_THROWS(GraphError, g.add("softmax", {x}, {{"axes", Ints{1}}}), "[softmax]", "'axes'", "axis (an integer");
  CHECK_THROWS(GraphError, g.add("softmax", {x}, {{"axis", 1.5}}), "must be an integer", "a real number");
  CHECK_THROWS(GraphError, g.add("transpose", {x}), "requires attribute 'permutation'");
  CHECK_THROWS(GraphError, g.add("relu", {x}, {{"alpha", 1.0}}), "takes no attributes");
  CHECK_THROWS(GraphError, g.add("constant", {}, {{"value", ConstantPtr()}}), "must have data");
  CHECK(before == State(g));
}

// --- operations and graphs -------------------------------------------------------------------------------------------

TEST(every_definition_is_found_by_name) {
  CHECK(all_definitions().size() > 100);
  for (const OperationDefinition* definition : all_definitions()) {
    CHECK(&definition_of(definition->name) == definition);
    CHECK(definition->infer != nullptr);
    CHECK(!definition->family.empty());
  }
  CHECK_EQUAL(all_definitions().size(), Kind::count);  // each kind in kind_names has a definition
  CHECK(!Kind::find("no such thing"));
  CHECK_THROWS(GraphError, kind_named("aditon"), "'aditon'", "addition");
}

TEST(operation_names_are_unique_and_predictable) {
  Graph g;
  Tensor* x = placeholder(g, f32({2}), "x");
  CHECK_EQUAL(g.add("addition", {x, x})->name(), "addition");
  CHECK_EQUAL(g.add("addition", {x, x})->name(), "addition_1");
  CHECK_EQUAL(g.add("addition", {x, x}, {}, "x")->name(), "x_1");
  CHECK_EQUAL(g.add("addition", {x, x}, {}, "addition_2")->name(), "addition_2");
  CHECK_EQUAL(g.add("addition", {x, x})->name(), "addition_3");
  CHECK_EQUAL(g.create("split", {x}, {{"sizes", Ints{1, 1}}, {"axis", 0}})->output(1)->name(), "split:1");
  CHECK(g.find("x_1")->is("addition"));
  CHECK(!g.find("y"));
}

TEST(locations_are_stored_and_reported_in_errors) {
  Graph g;
  Tensor* x = placeholder(g, f32({2}));
  g.set_location(std::string("model.py:41"));
  CHECK_EQUAL(g.add("relu", {x})->operation->location.text(), "model.py:41");
  CHECK_THROWS(GraphError, g.add("relu", {x, x}), "[relu] the number of operands must be 1, got 2",
               "built at model.py:41");
}

TEST(invalid_operands_throw_and_leave_graph_unchanged) {
  Graph g, other;
  Tensor* x = placeholder(g, f32({2, 3}), "x");
  Tensor* v = variable(g, {4}, "v");
  Tensor* foreign = placeholder(other, f32({2, 3}), "foreign");
  Tensor* halves = placeholder(g, {DType::float16, Shape({2, 3})}, "halves");
  const State before(g);
  CHECK_THROWS(GraphError, g.add("addition", {x}), "[addition]", "must be 2, got 1", "got 1");
  CHECK_THROWS(GraphError, g.add("addition", {x, nullptr}), "missing");
  CHECK_THROWS(GraphError, g.add("addition", {x, foreign}), "'foreign'", "another graph");
  CHECK_THROWS(DTypeError, g.add("addition", {x, halves}), "'halves'", "cast", "float32");
  CHECK_THROWS(ShapeError, g.add("addition", {v, x}), "[addition]");  // no implicit read of v may remain
  CHECK_THROWS(GraphError, g.add("read", {x}), "must be a variable", "placeholder");
  CHECK_THROWS(GraphError, g.create("assign", {x, x}), "must be a variable");
  CHECK_THROWS(ShapeError, g.create("assign", {v, x}), "(4)", "(2,3)");
  CHECK_THROWS(DTypeError, g.create("assign", {v, halves}), "float16", "cast");
  CHECK_THROWS(ShapeError, placeholder(g, f32({-2})), "-2");
  CHECK_THROWS(ShapeError, placeholder(g, f32({int64_t{1} << 40, int64_t{1} << 40})), "2^62");
  CHECK_THROWS(ShapeError, placeholder(g, f32(Dims(17, 1))), "16");
  CHECK_THROWS(GraphError, g.create("if", {x}), "the number of blocks must be 2");
  CHECK(before == State(g));
  CHECK_EQUAL(g.add("relu", {x})->name(), "relu");
}

TEST(variables_are_read_implicitly) {
  Graph g;
  Tensor* v = variable(g, {4}, "v");
  Operation* square = g.create("multiplication", {v, v});
  CHECK(square->input(0)->operation->is("read") && square->input(0) == square->input(1));
  CHECK(square->input(0)->operation->input(0) == v);
  Tensor* w = variable(g, {4}, "w");
  Operation* assign = g.create("assign", {v, w});
  CHECK(assign->input(0) == v && assign->input(1)->operation->is("read") && assign->outputs.empty());
  CHECK_EQUAL(g.variables(), (std::vector<Tensor*>{v, w}));
  CHECK_EQUAL(g.root().operations.size(), 6u);
}

TEST(removed_operations_release_their_names) {
  Graph g;
  Tensor* x = placeholder(g, f32({2}));
  g.add("relu", {x});
  g.add("exponent", {x});
  g.remove_operations(g.root(), [](const Operation& o) { return o.is("relu"); });
  CHECK(!g.find("relu") && g.find("exponent"));
  CHECK_EQUAL(g.root().operations.size(), 2u);
  CHECK_EQUAL(g.add("relu", {x})->name(), "relu");
}

// --- blocks ----------------------------------------------------------------------------------------------------------

TEST(operations_are_found_by_name_after_random_additions_and_removals) {
  Graph g;
  std::map<std::string, Operation*> expected;
  uint32_t seed = 1;
  const auto random = [&](uint32_t n) { return ((seed = seed * 1664525u + 1013904223u) >> 8) % n; };
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 40; ++i) {
      const std::string name = cat("operation ", random(3000));
      if (expected.contains(name)) continue;
      expected[name] = g.create("constant", {}, {{"value", ConstantData::of_ints({1})}}, name);
    }
    std::unordered_set<const Operation*> removed;
    for (auto at = expected.begin(); at != expected.end();) {
      const bool goes = random(3) == 0;
      if (goes) removed.insert(at->second);
      at = goes ? expected.erase(at) : std::next(at);
    }
    g.remove_operations(g.root(), [&](const Operation& operation) { return removed.contains(&operation); });
    for (int i = 0; i < 3000; ++i) {
      const std::string name = cat("operation ", i);
      const auto found = expected.find(name);
      CHECK(g.find(name) == (found == expected.end() ? nullptr : found->second));
    }
  }
  CHECK(expected.size() > 20);
}

TEST(tensors_of_a_block_are_unusable_outside_it) {
  Graph g;
  Tensor* x = placeholder(g, f32({2}), "x");
  Tensor* c = boolean(g);
  Block* then = g.begin_block();
  Tensor* inner = g.add("relu", {x});
  CHECK(inner->operation->parent == then);
  CHECK_THROWS(GraphError, g.finish_block(&g.root(), {}), "innermost");
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(g.finish_block(then, {inner}));
  CHECK_THROWS(GraphError, g.add("relu", {inner}), "exists only ");
  Block* otherwise = g.begin_block();
  CHECK_THROWS(GraphError, g.add("relu", {inner}), "exists only ");
  blocks.push_back(g.finish_block(otherwise, {x}));
  Operation* choice = g.create("if", {c}, {}, {}, std::move(blocks));
  CHECK_EQUAL(choice->output()->type, f32({2}));
  CHECK(choice->blocks[0]->owner == choice && choice->blocks[0]->parent == &g.root());
  CHECK_EQUAL(choice->captures(), (std::vector<Tensor*>{x}));
  CHECK_THROWS(GraphError, g.add("relu", {inner}), "exists only ");
}

TEST(failed_if_keeps_handles_alive_and_releases_names) {
  Graph g;
  Tensor* x = placeholder(g, f32({2}), "x");
  Tensor* c = boolean(g);
  std::vector<std::unique_ptr<Block>> blocks;
  Block* then = g.begin_block();
  Tensor* inner = g.add("relu", {x}, {}, "inner");
  blocks.push_back(g.finish_block(then, {inner}));
  Block* otherwise = g.begin_block();
  blocks.push_back(g.finish_block(otherwise, {g.add("cast", {x}, {{"dtype", DType::float16}})}));
  const State before(g);
  CHECK_THROWS(DTypeError, g.create("if", {c}, {}, {}, std::move(blocks)), "[if]", "float32[2]", "float16[2]", "then",
               "else");
  CHECK(before == State(g));
  CHECK_EQUAL(inner->operation->name, "inner");  // the handle is still valid
  CHECK(!g.find("inner"));
  CHECK_THROWS(GraphError, g.add("relu", {inner}), "failed to build");
}

TEST(abandoning_a_block_drops_nested_blocks) {
  Graph g;
  Tensor* x = placeholder(g, f32({2}), "x");
  Block* outer = g.begin_block();
  Tensor* a = g.add("relu", {x});
  g.begin_control_dependencies({a->operation});
  g.begin_block();
  Tensor* b = g.add("relu", {a});
  g.abandon_block(outer);
  CHECK(&g.current_block() == &g.root());
  CHECK_THROWS(GraphError, g.add("relu", {a}), "failed to build");
  CHECK_THROWS(GraphError, g.add("relu", {b}), "failed to build");
  Tensor* y = g.add("relu", {x});
  CHECK_EQUAL(y->name(), "relu");
  CHECK(y->operation->control_dependencies.empty());
}

TEST(variables_created_in_a_block_belong_to_the_root) {
  Graph g;
  Tensor* x = placeholder(g, f32({2}), "x");
  Block* block = g.begin_block();
  Tensor* v = variable(g, {2}, "v");
  CHECK(v->operation->parent == &g.root());
  auto finished = g.finish_block(block, {v});
  CHECK(finished->results[0]->operation->is("read") && finished->results[0]->operation->parent == finished.get());
  CHECK_THROWS(GraphError, g.add("addition", {x, finished->results[0]}), "exists only ");
  g.abandon_block(std::move(finished));
  CHECK_EQUAL(g.add("addition", {x, v})->type, f32({2}));
}

TEST(loops_check_types_of_loop_variables) {
  Graph g;
  Builder b(g);
  Tensor* x = placeholder(g, f32({2}), "x");
  Tensor* zero = g.add("constant", {}, {{"value", ConstantData::splat(DType::int32, {}, 0.0)}});
  Tensor* one = g.add("constant", {}, {{"value", ConstantData::splat(DType::int32, {}, 1.0)}});
  const auto loop = [&](Tensor* step, auto body) {
    std::vector<std::unique_ptr<Block>> blocks;
    Block* block = g.begin_block({i32({}), f32({2})});
    blocks.push_back(g.finish_block(block, body(block)));
    return g.create("for", {zero, one, step, x}, {}, {}, std::move(blocks));
  };
  Operation* good = loop(one, [&](Block* block) { return std::vector<Tensor*>{b.mul(block->arguments[1], 2)}; });
  CHECK_EQUAL(good->output()->type, f32({2}));
  CHECK_THROWS(GraphError, loop(one, [&](Block*) { return std::vector<Tensor*>{}; }), "in number", "got 1 and 2");
  CHECK_THROWS(ShapeError, loop(one, [&](Block* block) { return std::vector<Tensor*>{b.sum(block->arguments[1])}; }),
               "float32[1]");
  CHECK_THROWS(ShapeError, loop(zero, [&](Block* block) { return std::vector<Tensor*>{block->arguments[1]}; }), "step");

  const auto repeat = [&](bool condition_is_bool) {
    std::vector<std::unique_ptr<Block>> blocks;
    Block* before = g.begin_block({f32({2})});
    Tensor* total = b.sum(before->arguments[0]);
    Tensor* condition = condition_is_bool ? b.binary("less_than", total, b.scalar_like(total, 10)) : total;
    blocks.push_back(g.finish_block(before, {condition, before->arguments[0]}));
    Block* after = g.begin_block({f32({2})});
    blocks.push_back(g.finish_block(after, {b.mul(after->arguments[0], 2)}));
    return g.create("while", {x}, {}, {}, std::move(blocks));
  };
  CHECK_EQUAL(repeat(true)->output()->type, f32({2}));
  CHECK_THROWS(DTypeError, repeat(false), "condition", "bool");
}

// --- control dependencies --------------------------------------------------------------------------------------------

TEST(control_dependency_scopes_nest_without_duplicates) {
  Graph g;
  Tensor* x = placeholder(g, f32({2}), "x");
  Tensor* v = variable(g, {2}, "v");
  Operation* a = g.create("assign", {v, x});
  Operation* b = g.create("assign", {v, x});
  g.begin_control_dependencies({a, a});
  Operation* one = g.create("relu", {x});
  g.begin_control_dependencies({b, a});
  Operation* two = g.create("relu", {v});
  Block* block = g.begin_block();
  Operation* nested = g.create("relu", {x});
  auto finished = g.finish_block(block, {nested->output()});
  g.end_control_dependencies();
  Operation* three = g.create("relu", {x});
  g.end_control_dependencies();
  Operation* four = g.create("relu", {x});
  g.end_control_dependencies();  // an unmatched end is harmless
  CHECK_EQUAL(one->control_dependencies, (std::vector<Operation*>{a}));
  CHECK_EQUAL(two->control_dependencies, (std::vector<Operation*>{a, b}));
  // the read has the dependency as well
  CHECK_EQUAL(two->input(0)->operation->control_dependencies, (std::vector<Operation*>{a, b}));
  CHECK_EQUAL(nested->control_dependencies, (std::vector<Operation*>{a, b}));
  CHECK_EQUAL(three->control_dependencies, (std::vector<Operation*>{a}));
  CHECK(four->control_dependencies.empty());
}

TEST(control_dependencies_on_inner_blocks_or_other_graphs_throw) {
  Graph g, other;
  Tensor* x = placeholder(g, f32({2}), "x");
  Operation* foreign = placeholder(other, f32({2}), "foreign")->operation;
  Block* block = g.begin_block();
  Operation* inner = g.create("relu", {x});
  auto finished = g.finish_block(block, {inner->output()});
  CHECK_THROWS(GraphError, (g.begin_control_dependencies({inner}), 0), "inside a block");
  CHECK_THROWS(GraphError, (g.begin_control_dependencies({foreign}), 0), "another graph");
  CHECK_THROWS(GraphError, (g.begin_control_dependencies({nullptr}), 0), "missing");
  CHECK(g.create("relu", {x})->control_dependencies.empty());
  Block* open = g.begin_block();
  g.begin_control_dependencies({});
  CHECK_THROWS(GraphError, g.finish_block(open, {}), "still open");
  g.end_control_dependencies();
  g.abandon_block(g.finish_block(open, {}));
}

// --- computed shapes -------------------------------------------------------------------------------------------------

TEST(shape_arithmetic_resolves_known_dimensions) {
  Graph g;
  Builder b(g);
  const auto flattened = [&](Tensor* x) {  // (n, the rest), as users write it
    Tensor* shape = g.add("shape_of", {x});
    const auto part = [&](int64_t from, int64_t to) {
      return g.add("slice", {shape}, {{"starts", Ints{from}}, {"ends", Ints{to}}, {"strides", Ints{1}}});
    };
    Tensor* rest = g.add("reduction_product", {part(1, 4)}, {{"axes", Ints{}}});
    return b.reshape(x, g.add("concat", {part(0, 1), rest}, {{"axis", 0}}));
  };
  CHECK_EQUAL(flattened(placeholder(g, f32({8, 4, 5, 3})))->shape(), Shape({8, 60}));
  CHECK_EQUAL(flattened(placeholder(g, f32({-1, 4, 5, 3})))->shape(), Shape({-1, 60}));
  CHECK_EQUAL(flattened(placeholder(g, f32({8, 4, -1, 3})))->shape(), Shape({8, -1}));
}

TEST(constant_values_propagate_through_integer_operations) {
  Graph g;
  Builder b(g);
  const auto known = [](Tensor* t) { return constant_value(t).value_or(Ints{-77}); };
  Tensor* shape = g.add("shape_of", {placeholder(g, f32({7, 2, 5}))});
  Tensor* two = b.scalar(DType::int32, 2);
  CHECK_EQUAL(known(b.mul(shape, two)), (Ints{14, 4, 10}));
  CHECK_EQUAL(known(b.div(shape, two)), (Ints{3, 1, 2}));
  CHECK_EQUAL(known(b.binary("floor_modulo", b.neg(shape), two)), (Ints{1, 0, 1}));
  CHECK_EQUAL(known(b.div(shape, b.scalar(DType::int32, 0))), (Ints{-77}));
  CHECK_EQUAL(known(b.max(shape)), (Ints{7}));
  CHECK_EQUAL(known(b.cast(b.mul(shape, b.scalar(DType::int32, 100)), DType::int8)), (Ints{-68, -56, -12}));
  CHECK_EQUAL(known(g.add("gather", {shape, b.ints({2, 0})}, {{"axis", 0}})), (Ints{5, 7}));
  CHECK_EQUAL(
      known(g.add("slice", {shape}, {{"starts", Ints{-1}}, {"ends", Ints{0}}, {"strides", Ints{-1}}, {"end_mask", 1}})),
      (Ints{5, 2, 7}));
  CHECK_EQUAL(known(g.create("split", {shape}, {{"sizes", Ints{1, 2}}, {"axis", 0}})->output(1)), (Ints{2, 5}));
  // Padding pairs with the last axis first, as exporters reverse them: [[7, 2], [5, 7], [2, 5]].
  Tensor* pairs = b.reshape(g.add("concat", {shape, shape}, {{"axis", 0}}), {3, 2});
  Tensor* turned = g.add("slice", {pairs},
                         {{"starts", Ints{-1, 0}}, {"ends", Ints{0, 0}}, {"strides", Ints{-1, 1}}, {"end_mask", 3}});
  CHECK_EQUAL(known(turned), (Ints{2, 5, 5, 7, 7, 2}));
  CHECK_EQUAL(known(g.add("transpose", {turned}, {{"permutation", Ints{1, 0}}})), (Ints{2, 5, 7, 5, 7, 2}));
  CHECK_EQUAL(
      known(g.add("slice", {pairs},
                  {{"starts", Ints{1, 0}}, {"ends", Ints{2, 1}}, {"strides", Ints{1, 1}}, {"squeeze_mask", 1}})),
      (Ints{5}));
  Tensor* open = b.reshape(g.add("shape_of", {placeholder(g, f32({7, -1, 5, 3}))}), {2, 2});
  const auto half = *known_values(g.add("transpose", {open}, {{"permutation", Ints{1, 0}}}));
  CHECK(half == (KnownValues{7, 5, std::nullopt, 3}));
  Tensor* scalar =
      g.add("slice", {shape}, {{"starts", Ints{1}}, {"ends", Ints{2}}, {"strides", Ints{1}}, {"squeeze_mask", 1}});
  CHECK_EQUAL(scalar->shape(), Shape(Dims{}));
  CHECK_EQUAL(known(g.add("stack", {scalar, two}, {{"axis", 0}})), (Ints{2, 2}));
  CHECK_EQUAL(known(g.add("expand_dims", {scalar}, {{"axes", Ints{0}}})), (Ints{2}));
  CHECK_EQUAL(known(b.select(b.binary("greater_than", shape, two), shape, two)), (Ints{7, 2, 5}));
  CHECK_EQUAL(known(b.cast(placeholder(g, f32({3})), DType::int32)), (Ints{-77}));
}

TEST(builder_computes_reduced_element_count) {
  Graph g;
  Builder b(g);
  Tensor* x = placeholder(g, f32({-1, 4, 5}));
  CHECK_EQUAL(b.reduced_count(x, {1, -1})->operation->attributes.data("value")->scalar(), 20.0);
  Tensor* count = b.reduced_count(x, {0, -1});
  CHECK_EQUAL(count->type, f32({}));
  CHECK(count->operation->is("cast"));
  CHECK_EQUAL(b.reduced_count(placeholder(g, {DType::float32, Shape()}), {-2})->type, f32({}));
  CHECK_EQUAL(b.reduced_count(x, {})->type, f32({}));
  CHECK_THROWS(ShapeError, b.reduced_count(placeholder(g, {DType::float32, Shape()}), {INT64_MAX}), "for any rank");
}

// --- autocast --------------------------------------------------------------------------------------------------------

TEST(autocast_casts_operands_by_operation_table) {
  Graph g;
  Autocast low(g, DType::bfloat16);
  Tensor *x = placeholder(g, f32({3, 4})), *w = variable(g, {4, 4}), *bias = variable(g, {4});
  Tensor* product = low.add("matrix_multiplication", {x, w});
  CHECK_EQUAL(product->dtype(), DType::bfloat16);
  CHECK_EQUAL(w->dtype(), DType::float32);
  CHECK_EQUAL(low.add("addition", {product, bias})->dtype(), DType::bfloat16);  // the variable is cast as well
  CHECK_EQUAL(low.add("addition", {product, x})->dtype(), DType::float32);
  CHECK_EQUAL(low.add("exponent", {product})->dtype(), DType::float32);
  CHECK_EQUAL(low.add("relu", {product})->dtype(), DType::bfloat16);
  Operation* stored = low.create("assign", {variable(g, {3, 4}), product});
  CHECK_EQUAL(stored->input(1)->dtype(), DType::float32);
}

TEST(autocast_casts_a_tensor_once_and_a_variable_per_read) {
  Graph g;
  Autocast low(g, DType::float16);
  Tensor *x = placeholder(g, f32({4, 4})), *w = variable(g, {4, 4});
  Tensor *first = low.add("matrix_multiplication", {x, w}), *second = low.add("matrix_multiplication", {x, w});
  CHECK(first->operation->input(0) == second->operation->input(0));
  CHECK(first->operation->input(1) != second->operation->input(1));  // it might have been assigned in between
  Block* block = g.begin_block();
  Tensor* inside = low.add("exponent", {first});
  auto finished = g.finish_block(block, {inside});
  Tensor* outside = low.add("exponent", {first});
  CHECK(inside->operation->input(0) != outside->operation->input(0));  // the cast in the block is not visible here
  CHECK_EQUAL(finished->results.size(), 1u);
  g.abandon_block(std::move(finished));
}

TEST(autocast_errors_leave_graph_unchanged) {
  Graph g;
  Autocast low(g, DType::bfloat16);
  Tensor *x = placeholder(g, f32({3, 4})), *w = variable(g, {5, 4});
  const State before(g);
  CHECK_THROWS(ShapeError, low.add("matrix_multiplication", {x, w}), "matrix_multiplication");
  CHECK_THROWS(GraphError, low.add("matrix_multiplication", {x}), "operands");
  CHECK_THROWS(GraphError, low.add("matrix_multiplication", {x, nullptr}), "missing");
  CHECK(State(g) == before);
}
