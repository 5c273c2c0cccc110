// Gradients through graphs: which operations are differentiated, sums over paths, errors, and first and second
// derivatives of `if`.
//
// A small interpreter for rank-0 float64 graphs computes the values, so no backend is needed. Derivatives of individual
// operations are tested elsewhere.
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "check.h"
#include "core/definition.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/core/gradients.h"
#include "mpsgraph/core/text.h"

using namespace mpsgraph;

namespace {

const TensorType number{DType::float64, Shape(Dims{})};

Tensor* input(Graph& g, std::string_view name) { return g.add("placeholder", {}, {{"type", number}}, name); }

class Interpreter {
 public:
  explicit Interpreter(const std::unordered_map<const Tensor*, double>& feeds) : values_(feeds) {}

  double operator()(const Graph& g, const Tensor* wanted) {
    run(g.root());
    return values_.at(wanted);
  }
  int runs(const std::string& kind) const { return runs_.contains(kind) ? runs_.at(kind) : 0; }

 private:
  void run(const Block& block) {
    for (const auto& operation : block.operations) run(*operation);
  }

  void run(const Operation& o) {
    ++runs_[std::string(o.kind())];
    if (o.is("placeholder") || o.is("assign")) return;
    const auto in = [&](size_t i) { return values_.at(o.input(i)); };
    if (o.is("if")) {
      const Block& taken = *o.blocks[in(0) != 0 ? 0 : 1];
      run(taken);
      for (size_t i = 0; i < o.outputs.size(); ++i) values_[o.output(i)] = values_.at(taken.results[i]);
      return;
    }
    const std::map<std::string_view, std::function<double()>> rules = {
        {"constant", [&] { return o.attributes.data("value")->scalar(); }},
        {"variable", [&] { return o.attributes.data("value")->scalar(); }},
        {"undefined", [] { return std::numeric_limits<double>::quiet_NaN(); }},
        {"read", [&] { return in(0); }},
        {"identity", [&] { return in(0); }},
        {"negative", [&] { return -in(0); }},
        {"exponent", [&] { return std::exp(in(0)); }},
        {"logarithm", [&] { return std::log(in(0)); }},
        {"sin", [&] { return std::sin(in(0)); }},
        {"cos", [&] { return std::cos(in(0)); }},
        {"square", [&] { return in(0) * in(0); }},
        {"reciprocal", [&] { return 1 / in(0); }},
        {"sign", [&] { return double((in(0) > 0) - (in(0) < 0)); }},
        {"addition", [&] { return in(0) + in(1); }},
        {"subtraction", [&] { return in(0) - in(1); }},
        {"multiplication", [&] { return in(0) * in(1); }},
        {"division", [&] { return in(0) / in(1); }},
        {"greater_than", [&] { return double(in(0) > in(1)); }},
    };
    const auto rule = rules.find(o.kind());
    if (rule == rules.end()) throw GraphError(cat("the test interpreter does not support operation ", o.kind()));
    values_[o.output()] = rule->second();
  }

  std::unordered_map<const Tensor*, double> values_;
  std::map<std::string, int> runs_;
};

void close(double a, double b, const char* file, int line) {
  if (!(std::fabs(a - b) <= 1e-9 * (1 + std::fabs(b)))) check::fail(file, line, cat("expected ", b, ", got ", a));
}
#define CHECK_CLOSE(a, b) close(a, b, __FILE__, __LINE__)

template <class Then, class Else>
Operation* choose(Graph& g, Tensor* predicate, Then then, Else otherwise) {
  std::vector<std::unique_ptr<Block>> blocks;
  Block* first = g.begin_block();
  blocks.push_back(g.finish_block(first, then()));
  Block* second = g.begin_block();
  blocks.push_back(g.finish_block(second, otherwise()));
  return g.create("if", {predicate}, {}, {}, std::move(blocks));
}

using Tensors = std::vector<Tensor*>;

// Check that a graph with gradients passes the verifier and round-trips through text.
void check_well_formed(const Graph& g) {
  verify(g);
  const std::string text = print(g);
  CHECK_EQUAL(print(*parse(text)), text);
}

}  // namespace

TEST(gradients_of_chains_and_sums) {
  Graph g;
  Builder b(g);
  Tensor *x = input(g, "x"), *y = input(g, "y");
  Tensor* exponent = b.unary("exponent", b.mul(x, y));
  Tensor* z = b.mul(exponent, b.add(x, b.unary("sin", y)));
  const Tensors d = gradients(z, {x, y});
  Interpreter at({{x, 0.3}, {y, 0.7}});
  const double e = std::exp(0.21), s = 0.3 + std::sin(0.7);
  CHECK_CLOSE(at(g, d[0]), 0.7 * e * s + e);
  CHECK_CLOSE(at(g, d[1]), 0.3 * e * s + e * std::cos(0.7));
  check_well_formed(g);
}

TEST(only_operations_between_source_and_target_are_differentiated) {
  Graph g;
  Builder b(g);
  Tensor *x = input(g, "x"), *y = input(g, "y");
  Tensor* side = y;
  for (int i = 0; i < 100; ++i) side = b.unary("exponent", side);
  Tensor* z = b.mul(b.unary("sin", x), side);
  const int64_t before = g.operation_count();
  gradients(z, {x});
  CHECK(g.operation_count() - before < 10);
}

TEST(gradients_of_intermediate_tensors) {
  Graph g;
  Builder b(g);
  Tensor* x = input(g, "x");
  Tensor* middle = b.unary("sin", x);
  Tensor* z = b.mul(middle, middle);
  const Tensors d = gradients(z, {middle, x, z});
  Interpreter at({{x, 0.4}});
  CHECK_CLOSE(at(g, d[0]), 2 * std::sin(0.4));
  CHECK_CLOSE(at(g, d[1]), 2 * std::sin(0.4) * std::cos(0.4));
  CHECK_CLOSE(at(g, d[2]), 1);
}

TEST(variable_gradients_sum_over_reads_and_control_dependencies) {
  Graph g;
  Builder b(g);
  Tensor* v = g.add("variable", {}, {{"value", ConstantData::splat(DType::float64, {}, 3.0)}}, "v");
  Tensor* once = b.mul(v, 2.0);
  Operation* assign = g.create("assign", {v, once});
  g.begin_control_dependencies({assign});
  Tensor* twice = g.add("identity", {b.unary("square", v)});
  g.end_control_dependencies();
  const Tensors d = gradients(b.add(once, twice), {v});
  CHECK_CLOSE(Interpreter({})(g, d[0]), 2 + 2 * 3.0);
}

TEST(start_scales_the_gradient) {
  Graph g;
  Builder b(g);
  Tensor *x = input(g, "x"), *s = input(g, "s");
  const Tensors d = gradients(b.unary("exponent", x), {x}, s);
  CHECK_CLOSE(Interpreter({{x, 0.5}, {s, 3}})(g, d[0]), 3 * std::exp(0.5));
  Tensor* single = g.add("placeholder", {}, {{"type", TensorType{DType::float32, Shape(Dims{})}}}, "single");
  Tensor* row = g.add("placeholder", {}, {{"type", TensorType{DType::float64, Shape({2})}}}, "row");
  CHECK_THROWS(DTypeError, gradients(b.unary("exponent", x), {x}, single), "float32", "cast");
  CHECK_THROWS(ShapeError, gradients(b.unary("exponent", x), {x}, row), "float64[2]");
}

TEST(gradients_of_unconnected_tensors_are_zero_or_throw) {
  Graph g;
  Builder b(g);
  Tensor* x = input(g, "x");
  Tensor* wide = g.add("placeholder", {}, {{"type", TensorType{DType::float64, Shape({2, 3})}}}, "wide");
  Tensor* counts = g.add("placeholder", {}, {{"type", TensorType{DType::int32, Shape({2})}}}, "counts");
  Tensor* doubled = b.mul(b.unary("sign", x), 2.0);
  Tensor* z = b.add(doubled, b.cast(b.cast(x, DType::int32), DType::float64));
  const Tensors d = gradients(z, {wide, counts, x});
  CHECK_EQUAL(d[0]->type, wide->type);
  CHECK_EQUAL(d[1]->type, counts->type);
  CHECK(d[2]->operation->is("constant"));  // sign and the integers in between end the traversal
  CHECK_THROWS(GraphError, gradients(z, {wide}, nullptr, Unconnected::error), "'wide'");
  Tensor* unknown = g.add("placeholder", {}, {{"type", TensorType{DType::float64, Shape({-1, 3})}}}, "unknown");
  CHECK_EQUAL(gradients(z, {unknown})[0]->type, unknown->type);
}

TEST(invalid_gradient_requests_throw) {
  Graph g, other;
  Builder b(g);
  Tensor* x = input(g, "x");
  Tensor* z = b.unary("exponent", x);
  Tensor* foreign = input(other, "foreign");
  Tensor* counts = b.cast(x, DType::int32);
  CHECK_THROWS(GraphError, gradients(z, {foreign}), "'foreign'", "another graph");
  CHECK_THROWS(GraphError, gradients(z, {nullptr}), "missing");
  CHECK_THROWS(GraphError, gradients(nullptr, {x}), "missing");
  CHECK_THROWS(DTypeError, gradients(counts, {x}), "int32", "cast");
  Block* block = g.begin_block();
  Tensor* inner = b.unary("exponent", x);
  CHECK_EQUAL(gradients(inner, {x})[0]->type, number);  // allowed within its own block
  auto finished = g.finish_block(block, {inner});
  CHECK_THROWS(GraphError, gradients(inner, {x}), "exists only there");
}

TEST(operation_without_gradient_is_named_in_error) {
  Graph g;
  Builder b(g);
  Tensor* x = input(g, "x");
  g.set_location(std::string("model.py:7"));
  Tensor* y = g.add("softmax_gradient_of_result", {x, x}, {{"axis", int64_t{0}}}, "mine");
  CHECK_THROWS(GraphError, gradients(y, {x}), "[softmax_gradient_of_result]", "'mine'", "no gradient", "model.py:7");
  Tensor* other = input(g, "other");
  CHECK_EQUAL(gradients(b.mul(y, other), {other}).size(), 1u);  // no path leads through it
}

TEST(composites_without_gradient_rule_are_decomposed) {
  Graph g;
  Builder b(g);
  Tensor* rows = g.add("placeholder", {}, {{"type", TensorType{DType::float64, Shape({4, 3})}}}, "rows");
  Tensor* v = g.add("variance", {rows}, {{"axes", Ints{0}}});
  const Tensors d = gradients(v, {rows});
  CHECK_EQUAL(d[0]->type, rows->type);
  CHECK(!d[0]->operation->is("constant"));
}

TEST(if_gradient_flows_through_taken_branch) {
  Graph g;
  Builder b(g);
  Tensor *x = input(g, "x"), *y = input(g, "y");
  Tensor* c = b.binary("greater_than", x, b.scalar_like(x, 0));
  Operation* choice = choose(
      g, c, [&] { return Tensors{b.mul(b.unary("exponent", b.mul(x, y)), 2.0), x}; },
      [&] { return Tensors{b.unary("sin", b.unary("square", x)), b.scalar_like(x, 5)}; });
  const size_t user_results = choice->outputs.size();
  Tensor* z = b.mul(choice->output(0), choice->output(1));
  const Tensors d = gradients(z, {x, y});
  CHECK(choice->outputs.size() > user_results);  // values for the backward blocks are saved, not recomputed
  CHECK_EQUAL(choice->outputs.size(), choice->blocks[0]->results.size());
  CHECK_EQUAL(choice->outputs.size(), choice->blocks[1]->results.size());

  Interpreter then({{x, 0.3}, {y, 0.7}});
  const double e = 2 * std::exp(0.21);
  CHECK_CLOSE(then(g, d[0]), 0.7 * e * 0.3 + e);
  CHECK_CLOSE(Interpreter({{x, 0.3}, {y, 0.7}})(g, d[1]), 0.3 * e * 0.3);
  CHECK_EQUAL(then.runs("exponent"), 1);
  Interpreter otherwise({{x, -0.3}, {y, 0.7}});
  CHECK_CLOSE(otherwise(g, d[0]), std::cos(0.09) * 2 * -0.3 * 5);
  CHECK_CLOSE(Interpreter({{x, -0.3}, {y, 0.7}})(g, d[1]), 0);
  check_well_formed(g);
}

TEST(if_has_second_derivatives) {
  Graph g;
  Builder b(g);
  Tensor* x = input(g, "x");
  Tensor* c = b.binary("greater_than", x, b.scalar_like(x, 0));
  Operation* choice = choose(
      g, c, [&] { return Tensors{b.unary("exponent", b.unary("square", x))}; },
      [&] { return Tensors{b.unary("sin", b.mul(x, b.unary("square", x)))}; });
  Tensor* d = gradients(b.unary("square", choice->output()), {x})[0];
  Tensor* dd = gradients(d, {x})[0];
  const auto positive = [](double t) { return std::exp(2 * t * t); };  // (exp(t^2))^2
  CHECK_CLOSE(Interpreter({{x, 0.4}})(g, d), 4 * 0.4 * positive(0.4));
  CHECK_CLOSE(Interpreter({{x, 0.4}})(g, dd), (4 + 16 * 0.4 * 0.4) * positive(0.4));
  const double t = -0.9, u = t * t * t;  // sin(t^3)^2
  CHECK_CLOSE(Interpreter({{x, t}})(g, d), std::sin(2 * u) * 3 * t * t);
  CHECK_CLOSE(Interpreter({{x, t}})(g, dd), std::cos(2 * u) * 18 * t * t * t * t + std::sin(2 * u) * 6 * t);
  check_well_formed(g);
}

TEST(nested_ifs_save_values_through_both_levels) {
  Graph g;
  Builder b(g);
  Tensor *x = input(g, "x"), *p = input(g, "p"), *q = input(g, "q");
  const auto positive = [&](Tensor* t) { return b.binary("greater_than", t, b.scalar_like(t, 0)); };
  Tensor* outer = positive(p);
  Operation* choice = choose(
      g, outer,
      [&] {
        Tensor* middle = b.unary("exponent", x);
        Tensor* inner = positive(b.mul(q, middle));  // the predicate is computed in the branch as well
        return Tensors{choose(
                           g, inner, [&] { return Tensors{b.mul(b.unary("sin", middle), middle)}; },
                           [&] { return Tensors{b.unary("square", middle)}; })
                           ->output()};
      },
      [&] { return Tensors{x}; });
  Tensor* d = gradients(choice->output(), {x})[0];
  Tensor* dd = gradients(d, {x})[0];
  const double t = 0.2, m = std::exp(t);
  const auto at = [&](Tensor* wanted, double pv, double qv) {
    return Interpreter({{x, t}, {p, pv}, {q, qv}})(g, wanted);
  };
  const double d1 = m * std::cos(m) + std::sin(m);
  CHECK_CLOSE(at(d, 1, 1), d1 * m);
  CHECK_CLOSE(at(dd, 1, 1), (2 * std::cos(m) - m * std::sin(m)) * m * m + d1 * m);
  CHECK_CLOSE(at(d, 1, -1), 2 * m * m);
  CHECK_CLOSE(at(dd, 1, -1), 4 * m * m);
  CHECK_CLOSE(at(d, -1, 1), 1);
  CHECK_CLOSE(at(dd, -1, 1), 0);
  check_well_formed(g);
}

TEST(gradients_of_variables_read_in_a_branch) {
  Graph g;
  Builder b(g);
  Tensor* v = g.add("variable", {}, {{"value", ConstantData::splat(DType::float64, {}, 3.0)}}, "v");
  Tensor* x = input(g, "x");
  Operation* choice = choose(
      g, b.binary("greater_than", x, b.scalar_like(x, 0)), [&] { return Tensors{b.mul(v, x)}; },
      [&] { return Tensors{v}; });
  Tensor* d = gradients(b.add(choice->output(), b.unary("square", v)), {v})[0];
  CHECK_CLOSE(Interpreter({{x, 2}})(g, d), 2 + 6);
  CHECK_CLOSE(Interpreter({{x, -2}})(g, d), 1 + 6);
  check_well_formed(g);
}

TEST(inference_knows_shapes_inside_branches) {
  Graph g;
  Builder b(g);
  Tensor* x = g.add("placeholder", {}, {{"type", TensorType{DType::float32, Shape({-1, 6})}}}, "x");
  Tensor* c = g.add("placeholder", {}, {{"type", TensorType{DType::boolean, Shape(Dims{})}}}, "c");
  Operation* choice = choose(
      g, c,
      [&] {
        Tensor* hidden = b.unary("exponent", x);
        Tensor* square = b.mul(hidden, hidden);
        return Tensors{b.sum(b.reshape(square, b.ints({-1, 3, 2})))};
      },
      [&] { return Tensors{b.sum(b.reshape(x, b.ints({-1, 3, 2})))}; });
  CHECK_EQUAL(gradients(choice->output(), {x})[0]->type, x->type);
}

TEST(undefined_branch_result_takes_type_of_other_branch) {
  Graph g;
  Builder b(g);
  Tensor* x = input(g, "x");
  Tensor* c = b.binary("greater_than", x, b.scalar_like(x, 0));
  Operation* choice = choose(
      g, c, [&] { return Tensors{b.unary("exponent", x)}; },
      [&] { return Tensors{g.add("undefined", {}, {{"type", TensorType{DType::float64, Shape({-1})}}})}; });
  CHECK_EQUAL(choice->output()->type, number);
  CHECK_THROWS(GraphError, choose(g, c, [&] { return Tensors{x}; }, [&] { return Tensors{}; }), "got 1 from", "0 from");
}

TEST(long_chains_do_not_overflow_the_stack) {
  Graph g;
  Builder b(g);
  Tensor* x = input(g, "x");
  Tensor* y = x;
  for (int i = 0; i < 20000; ++i) y = b.unary("negative", y);
  CHECK_CLOSE(Interpreter({{x, 1}})(g, gradients(y, {x})[0]), 1);
}
