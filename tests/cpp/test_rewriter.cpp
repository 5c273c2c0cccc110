// The Rewriter: programs without replacements are not copied, and operations before a replacement are copied unchanged.
#include "check.h"
#include "compiler/rewrite.h"
#include "mpsgraph/core/builder.h"
#include "textual.h"

using namespace mpsgraph;
using namespace mpsgraph::compiler;
using namespace textual;

namespace {

const std::string chain = R"(
    %x = placeholder() {type=float32[2,3]} : float32[2,3]
    %a = exponent(%x) : float32[2,3]
    %b = negative(%a) after [%a] : float32[2,3]
    %c = sin(%b) : float32[2,3]
    %out = square(%c) : float32[2,3]
)";

const std::string branches = R"(
    %x = placeholder() {type=float32[2]} : float32[2]
    %p = placeholder() {type=bool[]} : bool[]
    %i = if(%p) : float32[2] {
      %a = exponent(%x) : float32[2]
      yield %a
    } {
      %b = negative(%x) : float32[2]
      yield %b
    }
    %out = square(%i) : float32[2]
)";

std::vector<const Operation*> operations_of(const Program& program) {
  std::vector<const Operation*> result;
  for (const auto& operation : program.graph->root().operations) result.push_back(operation.get());
  return result;
}

Program parsed(const std::string& text) {
  const std::unique_ptr<Graph> graph = parse("graph {\n" + text + "}\n");
  return program_of(*graph);
}

TEST(program_without_replacements_is_not_copied) {
  Program program = parsed(chain);
  const Graph* const graph = program.graph.get();
  const std::vector<const Operation*> before = operations_of(program);
  int64_t seen = 0;
  rewrite(program, [&](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
    for (const Tensor* input : operation.inputs) CHECK(r.seen(input) == input);
    CHECK(r.is_untouched());
    ++seen;
    return {};
  });
  CHECK_EQUAL(seen, 5);
  CHECK(program.graph.get() == graph);
  CHECK(operations_of(program) == before);
}

TEST(program_without_replacements_is_still_pruned) {
  Program program = parsed(chain);
  Builder(*program.graph).unary("exponent", program.feeds[0]);
  CHECK_EQUAL(operations_of(program).size(), size_t{6});
  rewrite(program, [](Rewriter&, const Operation&) { return std::nullopt; });
  CHECK_EQUAL(operations_of(program).size(), size_t{5});
  CHECK(program.graph->find("exponent") == nullptr);
}

TEST(operations_before_a_replacement_are_copied_unchanged) {
  Program program = parsed(chain);
  const Graph* const graph = program.graph.get();
  program.graph->find("b")->location = "model.py:7";
  program.graph->find("c")->location = "model.py:9";
  rewrite(program, [&](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
    if (!operation.is("sin")) return {};
    CHECK(r.is_untouched());
    Tensor* before = r.now(operation.input(0));
    CHECK(!r.is_untouched());
    CHECK(before != operation.input(0));
    CHECK(r.seen(operation.input(0)) == before);
    CHECK_EQUAL(before->operation->location.text(), "model.py:7");
    CHECK_EQUAL(before->operation->control_dependencies.size(), size_t{1});
    return std::vector<Tensor*>{r.create(operation, "cos", {before})->output()};
  });
  CHECK(program.graph.get() != graph);
  CHECK_EQUAL(program.graph->find("c")->location.text(), "model.py:9");
  verify(*program.graph);
  CHECK_EQUAL(body(print(*program.graph)), body("graph {" + [] {
                std::string text = chain;
                text.replace(text.find("sin"), 3, "cos");
                return text;
              }() + "}\n"));
}

TEST(replacement_by_existing_tensor_keeps_the_rest) {
  Program program = parsed(chain);
  rewrite(program, [&](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
    if (!operation.is("sin")) return {};
    return std::vector<Tensor*>{r.now(operation.input(0))};
  });
  verify(*program.graph);
  CHECK(program.graph->find("c") == nullptr);
  CHECK_EQUAL(program.targets.at(0)->operation->input(0)->name(), "b");
}

TEST(operations_inside_branches_are_visited_and_replaced) {
  Program program = parsed(branches);
  int64_t seen = 0;
  rewrite(program, [&](Rewriter& r, const Operation& operation) -> Rewriter::Replacement {
    ++seen;
    if (!operation.is("negative")) return {};
    return std::vector<Tensor*>{r.create(operation, "absolute", r.now(operation.inputs))->output()};
  });
  CHECK_EQUAL(seen, 6);
  verify(*program.graph);
  CHECK(program.graph->find("b")->is("absolute"));
  CHECK(program.graph->find("a")->is("exponent"));
}

TEST(copied_attributes_are_independent) {
  const Attributes first{{"axis", int64_t{1}}, {"mode", std::string("clip")}};
  Attributes second = first, third = second;
  CHECK(&second.items() == &first.items());
  second.set("axis", int64_t{2});
  third.erase("mode");
  third.erase("absent");
  CHECK_EQUAL(first.integer("axis"), 1);
  CHECK_EQUAL(first.string("mode"), "clip");
  CHECK_EQUAL(second.integer("axis"), 2);
  CHECK_EQUAL(second.string("mode"), "clip");
  CHECK_EQUAL(third.items().size(), size_t{1});
  Attributes empty;
  CHECK(empty.items().empty());
  empty.erase("axis");
  empty.set("axis", int64_t{3});
  CHECK_EQUAL(empty.integer("axis"), 3);
}

}  // namespace
