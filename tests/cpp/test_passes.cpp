// Compiler passes on graphs in textual form, before and after.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "compiler/dependencies.h"
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

const Target wants_all{
    .passes = {OptionalPass::prune, OptionalPass::channels_last, OptionalPass::quantize, OptionalPass::normalize,
               OptionalPass::fold, OptionalPass::simplify, OptionalPass::absorb, OptionalPass::fuse,
               OptionalPass::fuse_elementwise, OptionalPass::schedule},
    .keeps = [](const Operation& operation) { return operation.is("softmax"); },
    .fuses_epilogues = true};

std::string after(Run pass, const std::string& text) {
  std::unique_ptr<Graph> graph = parse("graph {\n" + text + "}\n");
  verify(*graph);
  Program program = program_of(*graph);
  program.target = wants_all;
  pass(program);
  verify(*program.graph);
  const std::string printed = print(*program.graph);
  CHECK_EQUAL(print(*parse(printed)), printed);
  return body(printed);
}

void nothing(Program&) {}

// Evaluate the operations that the folding tests need: float32, with equal shapes or scalars.
std::vector<ConstantPtr> evaluate(const Operation& op) {
  if (op.output()->dtype() != DType::float32) return {};
  std::vector<float> values(static_cast<size_t>(op.output()->shape().elements()));
  auto at = [&](size_t i, size_t e) {
    const ConstantPtr& data = op.input(i)->operation->attributes.data("value");
    return static_cast<float>(data->scalar(data->elements() == 1 ? 0 : static_cast<int64_t>(e)));
  };
  for (size_t e = 0; e < values.size(); ++e) {
    if (op.is("addition"))
      values[e] = at(0, e) + at(1, e);
    else if (op.is("multiplication"))
      values[e] = at(0, e) * at(1, e);
    else if (op.is("square_root"))
      values[e] = std::sqrt(at(0, e));
    else
      return {};
  }
  return {ConstantData::copy(DType::float32, op.output()->shape().dims(), values.data())};
}

// ---- passes ----

const std::string x_line = "%x = placeholder() {type=float32[2,3]} : float32[2,3]\n";

TEST(without_epilogues_fuse_keeps_additions_and_sparse_matmuls) {
  const std::string text =
      "%v = placeholder() {type=float32[3]} : float32[3]\n%i = placeholder() {type=int32[3]} : int32[3]\n"
      "%j = placeholder() {type=int32[3]} : int32[3]\n%d = placeholder() {type=float32[4,5]} : float32[4,5]\n"
      "%s = sparse_tensor(%v, %i, %j) {shape=[2,4], storage=\"COO\"} : float32[2,4]\n"
      "%p = matrix_multiplication(%s, %d) : float32[2,5]\n%w = placeholder() {type=float32[5,3]} : float32[5,3]\n"
      "%q = matrix_multiplication(%p, %w) : float32[2,3]\n%b = placeholder() {type=float32[3]} : float32[3]\n"
      "%out = addition(%q, %b) : float32[2,3]\n";
  const std::string with = after(fuse, text);
  const std::string without = after(
      [](Program& program) {
        program.target.fuses_epilogues = false;
        fuse(program);
      },
      text);
  for (const std::string& found : {with, without})
    CHECK(found.find("sparse_matrix_multiplication") != std::string::npos);
  CHECK(with.find("fused_matrix_multiplication") != std::string::npos);
  CHECK(without.find("fused_matrix_multiplication") == std::string::npos);
}

TEST(prune_removes_unused_operations) {
  auto graph =
      parse("graph {\n" + x_line + "%a = exponent(%x) : float32[2,3]\n%out = negative(%x) : float32[2,3]\n}\n");
  Program program = program_of(*graph);
  Builder(*program.graph).unary("exponent", program.feeds[0]);
  prune(program);
  CHECK_EQUAL(body(print(*program.graph)), x_line + "%out = negative(%x) : float32[2,3]\n");
}

TEST(prune_resolves_constant_branch) {
  CHECK_EQUAL(after(prune, R"(
    %x = placeholder() {type=float32[2]} : float32[2]
    %p = constant() {value=bool[] splat 0x00} : bool[]
    %q = placeholder() {type=bool[]} : bool[]
    %i = if(%p) : float32[2] {
      %a = exponent(%x) : float32[2]
      yield %a
    } {
      %j = if(%q) : float32[2] {
        %b = sin(%x) : float32[2]
        yield %b
      } {
        yield %x
      }
      yield %j
    }
    %out = negative(%i) : float32[2]
  )"),
              R"(%x = placeholder() {type=float32[2]} : float32[2]
%q = placeholder() {type=bool[]} : bool[]
%j = if(%q) : float32[2] {
%b = sin(%x) : float32[2]
yield %b
} {
yield %x
}
%out = negative(%j) : float32[2]
)");
}

TEST(prune_removes_unused_control_flow_results) {
  // The loop variable %b only feeds itself, and %h is a history that only a gradient would use.
  CHECK_EQUAL(after(prune, R"(
    %n = constant() {value=int32[] splat 0x00000003} : int32[]
    %p = placeholder() {type=bool[]} : bool[]
    %x = placeholder() {type=float32[2]} : float32[2]
    %other = exponent(%x) : float32[2]
    %loop = for(%n, %n, %n, %x, %other) {from_zero=1} : float32[2], float32[2], history(float32[2])
        (%i: int32[], %a: float32[2], %b: float32[2], %h: history(float32[2])) {
      %c = sin(%a) : float32[2]
      %d = multiplication(%b, %c) : float32[2]
      %longer = history_push(%h, %a) : history(float32[2])
      yield %c, %d, %longer
    }
    %again = while(%loop:0, %x) : float32[2], float32[2] (%e: float32[2], %f: float32[2]) {
      yield %p, %f, %e
    } (%first: float32[2], %second: float32[2]) {
      %more = cos(%second) : float32[2]
      yield %more, %first
    }
    %out = if(%p) : float32[2], float32[2] {
      %g = tanh(%again:1) : float32[2]
      yield %g, %x
    } {
      %k = square(%x) : float32[2]
      yield %x, %k
    }
  )"),
              R"(%p = placeholder() {type=bool[]} : bool[]
%x = placeholder() {type=float32[2]} : float32[2]
%n = constant() {value=int32[] splat 0x00000003} : int32[]
%loop = for(%n, %n, %n, %x) : float32[2] (%argument: int32[], %argument_1: float32[2]) {
%c = sin(%argument_1) : float32[2]
yield %c
}
%again = while(%loop) : float32[2] (%argument_4: float32[2]) {
yield %p, %argument_4
} (%argument_7: float32[2]) {
%more = cos(%argument_7) : float32[2]
yield %more
}
%out = if(%p) : float32[2] {
%g = tanh(%again) : float32[2]
yield %g
} {
yield %x
}
)");
}

TEST(expand_decomposes_composites_except_native_ones) {
  const std::string text =
      x_line + "%m = mean(%x) {axes=[1]} : float32[2,1]\n%out = softmax(%m) {axis=0} : float32[2,1]\n";
  CHECK_EQUAL(after(expand, text), x_line +
                                       "%constant = constant() {value=float32[] splat 0x40400000} : float32[]\n"
                                       "%reduction_sum = reduction_sum(%x) {axes=[1]} : float32[2,1]\n"
                                       "%division = division(%reduction_sum, %constant) : float32[2,1]\n"
                                       "%out = softmax(%division) {axis=0} : float32[2,1]\n");
}

TEST(expand_replaces_stack_and_flatten_by_reshapes) {
  const std::string text =
      x_line + "%s = stack(%x, %x) {axis=1} : float32[2,2,3]\n%out = flatten2d(%s) {axis=1} : float32[2,6]\n";
  const std::string after_both = after(
      [](Program& program) {
        expand(program);
        simplify(program);
      },
      text);
  CHECK_EQUAL(after_both,
              x_line +
                  "%constant = constant() {value=int64[3] [0x0000000000000002,0x0000000000000001,0x0000000000000003]} "
                  ": int64[3]\n"
                  "%reshape = reshape(%x, %constant) : float32[2,1,3]\n"
                  "%s = concat(%reshape, %reshape) {axis=1} : float32[2,2,3]\n"
                  "%constant_2 = constant() {value=int64[2] [0x0000000000000002,0x0000000000000006]} : int64[2]\n"
                  "%out = reshape(%s, %constant_2) : float32[2,6]\n");
}

TEST(decompositions_match_inferred_types) {
  Graph g;
  Builder b(g);
  auto input = [&](Dims dims) { return g.add("placeholder", {}, {{"type", f32(std::move(dims))}}); };
  Tensor *x = input({4, 5, 6}), *g1 = input({4, 5, 6}), *row = input({1, 1, 6}), *s = input({});
  struct Case {
    Kind kind;
    std::vector<Tensor*> inputs;
    Attributes attributes;
  };
  const Ints axes = {0, 1};
  const std::vector<Case> cases = {
      {"mean", {x}, {{"axes", axes}}},
      {"variance", {x}, {{"axes", axes}}},
      {"variance", {x, row}, {{"axes", axes}}},
      {"normalization", {x, row, row}, {}},
      {"normalization", {x, row, row, row, row}, {{"has_gamma", true}, {"has_beta", true}}},
      {"normalization", {x, row, row, row}, {{"has_beta", true}}},
      {"normalization_gradient", {g1, x, row, row}, {{"axes", axes}}},
      {"normalization_gradient", {g1, x, row, row, row}, {{"axes", axes}, {"has_gamma", true}}},
      {"normalization_gradient", {g1, x, row, row, row, row, row}, {{"axes", axes}, {"has_gamma", true}}},
      {"normalization_gamma_gradient", {g1, x, row, row}, {{"axes", axes}}},
      {"normalization_beta_gradient", {g1, x}, {{"axes", axes}}},
      {"softmax", {x}, {{"axis", int64_t{1}}}},
      {"softmax_gradient", {g1, x}, {}},
      {"log_softmax", {x}, {}},
      {"log_softmax_gradient", {g1, x}, {}},
      {"softmax_cross_entropy", {x, g1}, {{"axis", int64_t{1}}}},
      {"softmax_cross_entropy", {x, g1}, {{"reduction", std::string("mean")}}},
      {"softmax_cross_entropy_gradient", {s, x, g1}, {{"reduction", std::string("mean")}}},
      {"stochastic_gradient_descent", {s, x, g1}, {}},
      {"adam", {s, s, s, s, s, s, x, x, x, g1}, {}},
      {"adam", {s, s, s, s, s, s, x, x, x, x, g1}, {{"amsgrad", true}}},
      {"adam_with_current_learning_rate", {s, s, s, s, x, x, x, g1}, {}},
      {"space_to_batch",
       {x},
       {{"spatial_axes", Ints{0, 2}}, {"batch_axis", int64_t{1}}, {"block_dimensions", Ints{2, 3}}}},
      {"batch_to_space", {x}, {{"spatial_axes", Ints{0}}, {"batch_axis", int64_t{2}}, {"block_dimensions", Ints{3}}}},
      {"reverse", {x}, {{"axes", axes}}},
  };
  for (const Case& c : cases) {
    Operation* op = g.create(c.kind, c.inputs, c.attributes);
    const std::vector<Tensor*> parts = op->definition->decompose(b, op->inputs, op->attributes);
    CHECK_EQUAL(parts.size(), op->outputs.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i]->type != op->output(i)->type)
        check::fail(__FILE__, __LINE__, cat(c.kind, ": ", parts[i]->type, " for ", op->output(i)->type));
    }
  }
}

TEST(fold_evaluates_constants) {
  const std::string two = "%a = constant() {value=float32[] splat 0x40000000} : float32[]\n";
  const std::string text = two + x_line +
                           "%b = square_root(%a) : float32[]\n%c = multiplication(%b, %b) : float32[]\n"
                           "%out = addition(%x, %c) : float32[2,3]\n";
  register_evaluator(nullptr);
  CHECK_EQUAL(after(fold, text), after(nothing, text));
  register_evaluator(evaluate);
  CHECK_EQUAL(after(fold, text), x_line +
                                     "%c = constant() {value=float32[] splat 0x3fffffff} : float32[]\n"
                                     "%out = addition(%x, %c) : float32[2,3]\n");
}

TEST(fold_keeps_large_results_but_not_large_splats) {
  const std::string text =
      "%s = constant() {value=int64[1] [0x0000000000100000]} : int64[1]\n"
      "%a = constant() {value=float32[] splat 0x40800000} : float32[]\n"
      "%b = broadcast_to(%a, %s) : float32[1048576]\n"
      "%out = square_root(%b) : float32[1048576]\n";
  register_evaluator(evaluate);
  CHECK_EQUAL(after(fold, text), "%out = constant() {value=float32[1048576] splat 0x40000000} : float32[1048576]\n");
}

std::string simplified_to(const std::string& lines) { return after(simplify, x_line + lines); }

const std::string zero_line = "%zero = constant() {value=float32[] splat 0x00000000} : float32[]\n";
const std::string one_line = "%one = constant() {value=float32[] splat 0x3f800000} : float32[]\n";
const std::string two_line = "%two = constant() {value=float32[] splat 0x40000000} : float32[]\n";
const std::string three_line = "%three = constant() {value=float32[] splat 0x40400000} : float32[]\n";

TEST(simplify_removes_neutral_elements) {
  CHECK_EQUAL(simplified_to(zero_line + one_line +
                            "%a = addition(%x, %zero) : float32[2,3]\n%b = subtraction(%a, %zero) : float32[2,3]\n"
                            "%c = multiplication(%one, %b) : float32[2,3]\n%d = division(%c, %one) : float32[2,3]\n"
                            "%e = power(%d, %one) : float32[2,3]\n%out = exponent(%e) : float32[2,3]\n"),
              x_line + "%out = exponent(%x) : float32[2,3]\n");
}

TEST(simplify_keeps_operations_sensitive_to_nan_and_inf) {
  for (std::string line :
       {"%out = multiplication(%x, %zero) : float32[2,3]\n", "%out = division(%zero, %x) : float32[2,3]\n"}) {
    CHECK_EQUAL(simplified_to(zero_line + line), x_line + zero_line + line);
  }
  for (std::string line : {"%out = subtraction(%x, %x) : float32[2,3]\n", "%out = division(%x, %x) : float32[2,3]\n"}) {
    CHECK_EQUAL(simplified_to(line), x_line + line);
  }
}

TEST(simplify_chooses_cheaper_arithmetic) {
  CHECK_EQUAL(simplified_to(two_line + "%out = power(%x, %two) : float32[2,3]\n"),
              x_line + "%out = square(%x) : float32[2,3]\n");
  CHECK_EQUAL(simplified_to(three_line + "%out = power(%x, %three) : float32[2,3]\n"),
              x_line + "%square = square(%x) : float32[2,3]\n%out = multiplication(%x, %square) : float32[2,3]\n");
  CHECK_EQUAL(simplified_to(two_line + "%out = division(%x, %two) : float32[2,3]\n"),
              x_line +
                  "%constant = constant() {value=float32[] splat 0x3f000000} : float32[]\n%out = multiplication(%x, "
                  "%constant) : float32[2,3]\n");
  CHECK_EQUAL(simplified_to(three_line + "%out = division(%x, %three) : float32[2,3]\n"),
              x_line + three_line + "%out = division(%x, %three) : float32[2,3]\n");
  CHECK_EQUAL(simplified_to(one_line + "%out = division(%one, %x) : float32[2,3]\n"),
              x_line + "%out = reciprocal(%x) : float32[2,3]\n");
  CHECK_EQUAL(simplified_to("%out = multiplication(%x, %x) : float32[2,3]\n"),
              x_line + "%out = square(%x) : float32[2,3]\n");
  CHECK_EQUAL(simplified_to("%a = negative(%x) : float32[2,3]\n%b = negative(%a) : float32[2,3]\n%out = addition(%b, "
                            "%a) : float32[2,3]\n"),
              x_line + "%out = subtraction(%x, %x) : float32[2,3]\n");
}

TEST(simplify_merges_equal_operations) {
  CHECK_EQUAL(
      simplified_to(
          "%a = exponent(%x) : float32[2,3]\n%b = exponent(%x) : float32[2,3]\n%c = addition(%x, %a) : float32[2,3]\n"
          "%d = addition(%b, %x) : float32[2,3]\n%out = division(%c, %d) : float32[2,3]\n"),
      x_line +
          "%a = exponent(%x) : float32[2,3]\n%c = addition(%x, %a) : float32[2,3]\n%out = division(%c, %c) : "
          "float32[2,3]\n");
}

TEST(simplify_cancels_shape_operations) {
  const std::string shapes =
      "%s = constant() {value=int64[2] [0x0000000000000003,0x0000000000000002]} : int64[2]\n"
      "%t = constant() {value=int64[2] [0x0000000000000002,0xffffffffffffffff]} : int64[2]\n";
  CHECK_EQUAL(simplified_to(shapes + "%a = reshape(%x, %s) : float32[3,2]\n%b = reshape(%a, %t) : float32[2,3]\n%out = "
                                     "exponent(%b) : float32[2,3]\n"),
              x_line + "%out = exponent(%x) : float32[2,3]\n");
  CHECK_EQUAL(simplified_to("%a = transpose(%x) {permutation=[1,0]} : float32[3,2]\n%b = transpose(%a) "
                            "{permutation=[-1,0]} : float32[2,3]\n"
                            "%out = exponent(%b) : float32[2,3]\n"),
              x_line + "%out = exponent(%x) : float32[2,3]\n");
  CHECK_EQUAL(simplified_to(
                  "%a = concat(%x) {axis=0} : float32[2,3]\n%b = tile(%a) {multiplier=[1,1]} : float32[2,3]\n"
                  "%c = slice(%b) {end_mask=3, ends=[0,0], start_mask=3, starts=[0,0], strides=[1,1]} : float32[2,3]\n"
                  "%d = cast(%c) {dtype=float32} : float32[2,3]\n%out = exponent(%d) : float32[2,3]\n"),
              x_line + "%out = exponent(%x) : float32[2,3]\n");
}

TEST(simplify_removes_redundant_broadcasts) {
  const std::string shape = "%s = constant() {value=int64[2] [0x0000000000000002,0x0000000000000003]} : int64[2]\n";
  const std::string y = "%y = placeholder() {type=float32[3]} : float32[3]\n";
  CHECK_EQUAL(
      simplified_to(shape + y + "%b = broadcast_to(%y, %s) : float32[2,3]\n%out = addition(%x, %b) : float32[2,3]\n"),
      x_line + y + "%out = addition(%x, %y) : float32[2,3]\n");
  CHECK_EQUAL(
      simplified_to(shape + y + "%b = broadcast_to(%y, %s) : float32[2,3]\n%out = exponent(%b) : float32[2,3]\n"),
      x_line + y +
          "%exponent = exponent(%y) : float32[3]\n"
          "%constant = constant() {value=int64[2] [0x0000000000000002,0x0000000000000003]} : int64[2]\n"
          "%out = broadcast_to(%exponent, %constant) : float32[2,3]\n");
}

TEST(simplify_merges_reads_between_assigns) {
  const std::string v = "%v = variable() {value=float32[2,3] splat 0x00000000} : float32[2,3]\n";
  CHECK_EQUAL(
      simplified_to(
          v + "%a = read(%v) : float32[2,3]\n%b = read(%v) : float32[2,3]\n%c = subtraction(%a, %b) : float32[2,3]\n"
              "%w = assign(%v, %x) : ()\n%d = read(%v) : float32[2,3]\n%out = division(%c, %d) : float32[2,3]\n"),
      x_line + v +
          "%a = read(%v) : float32[2,3]\n%c = subtraction(%a, %a) : float32[2,3]\n%w = assign(%v, %x) : ()\n"
          "%out = division(%c, %x) : float32[2,3]\n");
}

TEST(simplify_keeps_reads_in_branches_that_assign) {
  auto graph = parse("graph {\n" + x_line +
                     "%v = variable() {value=float32[2,3] splat 0x00000000} : float32[2,3]\n"
                     "%p = placeholder() {type=bool[]} : bool[]\n"
                     "%a = read(%v) : float32[2,3]\n"
                     "%i = if(%p) : float32[2,3] {\n  %w = assign(%v, %x) : ()\n  %n = identity(%a) after [%w] : "
                     "float32[2,3]\n  yield %n\n} {\n"
                     "  %r = read(%v) : float32[2,3]\n  yield %r\n}\n"
                     "%b = read(%v) : float32[2,3]\n%out = addition(%i, %b) : float32[2,3]\n}\n");
  verify(*graph);
  Program program = program_of(*graph);
  simplify(program);
  verify(*program.graph);
  CHECK(program.graph->find("b") != nullptr);
  CHECK(program.graph->find("w") != nullptr);
  CHECK(program.targets[0]->operation->input(1) == program.graph->find("b")->output());
}

TEST(simplify_keeps_reads_inside_their_branch) {
  auto graph =
      parse("graph {\n" + x_line +
            "%v = variable() {value=float32[2,3] splat 0x00000000} : float32[2,3]\n"
            "%p = placeholder() {type=bool[]} : bool[]\n"
            "%i = if(%p) : float32[2,3] {\n  %r = read(%v) : float32[2,3]\n  %e = exponent(%r) : float32[2,3]\n"
            "  yield %e\n} {\n  %n = negative(%x) : float32[2,3]\n  yield %n\n}\n"
            "%b = read(%v) : float32[2,3]\n%out = addition(%i, %b) : float32[2,3]\n}\n");
  verify(*graph);
  Program program = program_of(*graph);
  simplify(program);
  verify(*program.graph);
  CHECK(program.targets[0]->operation->input(1) == program.graph->find("b")->output());
}

TEST(simplify_resolves_constant_branch) {
  const std::string text =
      "%p = constant() {value=bool[] splat 0x01} : bool[]\n"
      "%i = if(%p) : float32[2,3] {\n  %a = exponent(%x) : float32[2,3]\n  yield %a\n} {\n  yield %x\n}\n"
      "%out = negative(%i) : float32[2,3]\n";
  CHECK_EQUAL(simplified_to(text), x_line + "%a = exponent(%x) : float32[2,3]\n%out = negative(%a) : float32[2,3]\n");
}

// ---- schedule ----

// Gradients of two layers, followed by two updates of 512 KB each.
const std::string layers = R"(%x = placeholder() {type=float32[256,4]} : float32[256,4]
%y = placeholder() {type=float32[4,512]} : float32[4,512]
%z = placeholder() {type=float32[512,4]} : float32[512,4]
%v = variable() {value=float32[256,512] splat 0x00000000} : float32[256,512]
%w = variable() {value=float32[256,512] splat 0x00000000} : float32[256,512]
%read_v = read(%v) : float32[256,512]
%read_w = read(%w) : float32[256,512]
)";
const std::string gradient_of_v = "%dv = matrix_multiplication(%x, %y) : float32[256,512]\n";
const std::string use_of_v = "%out = matrix_multiplication(%read_v, %z) : float32[256,4]\n";
const std::string gradient_of_w = "%dw = matrix_multiplication(%out, %y) : float32[256,512]\n";

std::string update(const std::string& v) {
  return "%new_" + v + " = subtraction(%read_" + v + ", %d" + v + ") : float32[256,512]\n%set_" + v + " = assign(%" +
         v + ", %new_" + v + ") : ()\n";
}

TEST(schedule_moves_update_after_gradient_and_last_read) {
  CHECK_EQUAL(after(schedule, layers + gradient_of_v + use_of_v + gradient_of_w + update("v") + update("w")),
              layers + gradient_of_v + use_of_v + update("v") + gradient_of_w + update("w"));
}

TEST(schedule_follows_aliases_of_gradients) {
  const std::string constant = "%to = constant() {value=int64[2] [0x0000000000000100,0x0000000000000200]} : int64[2]\n";
  const std::string gradient = "%flat = matrix_multiplication(%x, %y) : float32[256,512]\n";
  const std::string alias = "%dv = reshape(%flat, %to) : float32[256,512]\n";
  CHECK_EQUAL(
      after(schedule, layers + constant + gradient + use_of_v + gradient_of_w + alias + update("v") + update("w")),
      layers + constant + gradient + alias + use_of_v + update("v") + gradient_of_w + update("w"));
}

TEST(schedule_moves_small_operands_with_update) {
  const std::string scalars = R"(%rate = constant() {value=float32[] splat 0x3f000000} : float32[]
%power = variable() {value=float32[] splat 0x3f800000} : float32[]
%read_power = read(%power) : float32[]
%corrected = multiplication(%rate, %read_power) : float32[]
)";
  const std::string change =
      "%new_power = square(%read_power) : float32[]\n%set_power = assign(%power, %new_power) : ()\n";
  const std::string region = R"(%new_v = fused_elementwise(%corrected, %dv, %read_v) : float32[256,512] ()"
                             R"(%argument: float32[], %argument_1: float32[256,512], %argument_2: float32[256,512]) {
%multiplication = multiplication(%argument, %argument_1) : float32[256,512]
%subtraction = subtraction(%argument_2, %multiplication) : float32[256,512]
yield %subtraction
}
%set_v = assign(%v, %new_v) : ()
)";
  CHECK_EQUAL(
      after(schedule, layers + gradient_of_v + use_of_v + gradient_of_w + scalars + change + region + update("w")),
      layers + gradient_of_v + use_of_v + scalars + region + gradient_of_w + update("w") + change);
}

TEST(schedule_keeps_updates_that_must_wait) {
  const auto stays = [&](const std::string& text) { CHECK_EQUAL(after(schedule, layers + text), layers + text); };
  // The gradient is also a target, so its memory cannot be released.
  stays("%out_1 = matrix_multiplication(%x, %y) : float32[256,512]\n" + use_of_v + gradient_of_w + update("w") +
        "%new_v = subtraction(%read_v, %out_1) : float32[256,512]\n%set_v = assign(%v, %new_v) : ()\n");
  // The old value is needed until the end.
  stays(gradient_of_v + use_of_v + gradient_of_w + update("w") +
        "%out_1 = matrix_multiplication(%read_v, %z) : float32[256,4]\n" + update("v"));
  // An update waits for another one through a control dependency.
  stays(gradient_of_v + use_of_v + gradient_of_w + "%new_v = subtraction(%read_v, %dv) : float32[256,512]\n" +
        "%set_v = assign(%v, %new_v) after [%dw] : ()\n" + update("w"));
}

TEST(schedule_keeps_small_updates_together) {
  const std::string text = R"(%x = placeholder() {type=float32[4]} : float32[4]
%v = variable() {value=float32[4] splat 0x00000000} : float32[4]
%w = variable() {value=float32[4] splat 0x00000000} : float32[4]
%read_v = read(%v) : float32[4]
%read_w = read(%w) : float32[4]
%dv = sin(%x) : float32[4]
%out = cos(%dv) : float32[4]
%new_v = subtraction(%read_v, %dv) : float32[4]
%set_v = assign(%v, %new_v) : ()
%new_w = subtraction(%read_w, %out) : float32[4]
%set_w = assign(%w, %new_w) : ()
)";
  CHECK_EQUAL(after(schedule, text), text);
}

TEST(calls_keep_their_order) {
  Graph g;
  Tensor* x = g.add("placeholder", {}, {{"type", f32({2})}});
  const auto call = [&](const char* symbol) {
    return g.create("call", {x}, {{"symbol", std::string(symbol)}, {"types", Types{f32({2})}}});
  };
  Operation *first = call("a"), *second = call("b");
  const Dependencies dependencies(g.root());
  const auto& before = dependencies.before(dependencies.position(second));
  CHECK(std::find(before.begin(), before.end(), dependencies.position(first)) != before.end());
}

// ---- the pipeline ----

Tensor* network(Graph& g, int layers) {
  Builder b(g);
  Tensor* x = g.add("placeholder", {}, {{"type", f32({-1, 8})}}, "x");
  Tensor* h = x;
  for (int i = 0; i < layers; ++i) {
    Tensor* w = g.add("variable", {}, {{"value", ConstantData::splat(DType::float32, {8, 8}, 0.1)}});
    h = b.unary("relu", b.add(b.matmul(h, w), 0.5));
  }
  return b.mean(h, {});
}

TEST(pipeline_reports_passes_and_respects_options) {
  Graph g;
  Tensor* y = network(g, 2);
  Tensor* x = g.placeholders()[0];
  std::vector<std::string> seen;
  Options options;
  options.disabled_passes = {"fuse", "fuse_elementwise", "schedule"};
  options.observe = [&](std::string_view pass, const std::string& text) {
    seen.emplace_back(pass);
    CHECK_EQUAL(print(*parse(text)), text);
  };
  Program program = specialize(g, {{x, f32({4, 8})}}, {y}, {});
  run_passes(program, wants_all, options);
  CHECK((seen == std::vector<std::string>{"specialize", "prune", "channels_last", "quantize", "widen", "normalize",
                                          "indices", "expand", "fold", "simplify", "absorb"}));
  CHECK_EQUAL(pass_named("fold").name, "fold");
  CHECK_THROWS(GraphError, pass_named("frobnicate"), "frobnicate", "simplify");
  options.disabled_passes = {"expand"};
  CHECK_THROWS(GraphError, run_passes(program, wants_all, options), "cannot be disabled");
}

TEST(target_selects_passes_and_native_composites) {
  const auto prepared = [](const Target& target) {
    Graph g;
    Tensor* x = g.add("placeholder", {}, {{"type", f32({2, 3})}}, "x");
    Tensor* y = g.add("softmax", {x}, {{"axis", int64_t{1}}});
    Tensor* z = g.add("log_softmax", {y}, {{"axis", int64_t{1}}});
    std::vector<std::string> seen;
    Options options;
    options.observe = [&](std::string_view pass, const std::string&) { seen.emplace_back(pass); };
    Program program = specialize(g, {{x, f32({2, 3})}}, {z}, {});
    run_passes(program, target, options);
    return std::pair(seen, print(*program.graph));
  };
  const auto [all, text] = prepared({.passes = {OptionalPass::fold, OptionalPass::prune}, .keeps = wants_all.keeps});
  CHECK((all == std::vector<std::string>{"specialize", "prune", "widen", "indices", "expand", "fold"}));
  CHECK(text.find(" softmax(") != std::string::npos && text.find("log_softmax(") == std::string::npos);
  const auto [none, plain] = prepared({});
  CHECK((none == std::vector<std::string>{"specialize", "widen", "indices", "expand"}));
  CHECK(plain.find("softmax(") == std::string::npos);
}

TEST(gradients_are_valid_after_every_pass) {
  Graph g;
  Tensor* y = network(g, 3);
  std::vector<Tensor*> targets = gradients(y, g.variables());
  targets.push_back(y);
  Program program = specialize(g, {{g.placeholders()[0], f32({4, 8})}}, targets, {});
  for (Run pass : {prune, expand, fold, simplify}) {
    pass(program);
    verify(*program.graph);
  }
  for (size_t i = 0; i < 3; ++i) CHECK_EQUAL(program.targets[i]->type, f32({8, 8}));
  CHECK_EQUAL(program.variables.size(), 3u);
}

}  // namespace
