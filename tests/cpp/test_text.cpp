// The textual form: exact round trips, arbitrary and malicious text, and every check of the verifier.
#include "mpsgraph/core/text.h"

#include <ctime>
#include <limits>
#include <random>

#include "check.h"
#include "core/definition.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/core/gradients.h"

using namespace mpsgraph;

namespace {

constexpr std::string_view example = R"(graph {
  %x = placeholder() {type=float32[-1,4]} : float32[-1,4]
  %training = placeholder() {type=bool[]} : bool[]
  %w = variable() {value=float32[4,2] splat 0x3f800000} : float32[4,2]
  %r = read(%w) : float32[4,2]
  %y = matrix_multiplication(%x, %r) : float32[-1,2]
  %s = split(%y) {axis=1, sizes=[1,1]} : float32[-1,1], float32[-1,1]
  %z = relu(%s:1) after [%y] : float32[-1,1]
  %u = assign(%w, %r) : ()
  %p = if(%training) : float32[-1,1] {
    yield %z
  } {
    yield %s:0
  }
  %q = while(%p) : float32[-1,1] (%before: float32[-1,1]) {
    yield %training, %before
  } (%after: float32[-1,1]) {
    %next = square(%after) : float32[-1,1]
    yield %next
  }
}
)";

std::string in_graph(const std::string& line) { return "graph {\n  " + line + "\n}\n"; }

// Return the type of operation %y in a line of text that follows these operands.
constexpr std::string_view operands =
    "  %x = placeholder() {type=float32[2,3]} : float32[2,3]\n"
    "  %i = constant() {value=int32[2] [0x00000000,0x00000001]} : int32[2]\n"
    "  %b = placeholder() {type=bool[]} : bool[]\n"
    "  %v = variable() {value=float32[2,3] splat 0x00000000} : float32[2,3]\n";

std::string after_operands(const std::string& lines) { return cat("graph {\n", operands, lines, "\n}\n"); }

void round_trip(const Graph& graph) {
  const std::string text = print(graph, {.locations = true});
  const std::unique_ptr<Graph> again = parse(text);
  CHECK_EQUAL(print(*again, {.locations = true}), text);
  const auto &before = graph.root().operations, &after = again->root().operations;
  CHECK_EQUAL(after.size(), before.size());
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    CHECK_EQUAL(after[i]->name, before[i]->name);
    CHECK(after[i]->attributes == before[i]->attributes);
    CHECK_EQUAL(after[i]->inputs.size(), before[i]->inputs.size());
  }
}

}  // namespace

TEST(example_in_header_round_trips) { CHECK_EQUAL(print(*parse(example)), example); }

TEST(empty_graph_round_trips) { CHECK_EQUAL(print(*parse(" graph\n{ } ")), "graph {\n}\n"); }

TEST(white_space_and_default_attributes_are_optional) {
  const auto graph = parse("graph{%x=placeholder(){type=float32[2,1]}:float32[2,1]%y=squeeze(%x){axes=[]}:float32[2]}");
  CHECK(graph->find("y")->attributes.has("axes"));
  CHECK_EQUAL(print(*graph),
              "graph {\n  %x = placeholder() {type=float32[2,1]} : float32[2,1]\n"
              "  %y = squeeze(%x) : float32[2]\n}\n");
}

TEST(names_with_special_characters_are_quoted) {
  for (const char* name : {"a b", "a\"b\\c", "tab\tand\nline", "conv/1.w-x_2", "ä", "%", "a:1", "0", "\x7f"}) {
    Graph graph;
    Tensor* x = graph.add("placeholder", {}, {{"type", TensorType{DType::float32, {2}}}}, name);
    graph.set_location(std::string("odd \"place\".py:1"));
    graph.add("relu", {x});
    round_trip(graph);
    CHECK(parse(print(graph))->find(name) != nullptr);
  }
}

TEST(constants_round_trip_bitwise) {
  std::mt19937_64 random(1);
  for (int dtype = 0; dtype < dtype_count; ++dtype) {
    const auto type = static_cast<DType>(dtype);
    std::vector<uint64_t> words(8);
    for (auto& word : words) word = type == DType::boolean ? random() & 0x0101010101010101u : random();
    Graph graph;
    for (const Dims& dims : std::vector<Dims>{{}, {3}, {2, 2}, {0, 5}, {1, 0}})
      graph.add("constant", {}, {{"value", ConstantData::copy(type, dims, words.data())}});
    graph.add("constant", {},
              {{"value", ConstantData::splat(type, {7, 0, 9}, static_cast<const void*>(words.data()))}});
    graph.add("constant", {}, {{"value", ConstantData::splat(type, {1000, 1000}, 1.0)}});
    round_trip(graph);
  }
}

TEST(real_attributes_round_trip) {
  std::mt19937_64 random(2);
  std::vector<double> values{0.0,
                             -0.0,
                             1.0,
                             -3.0,
                             0.1,
                             1e300,
                             1e-320,
                             1e22,
                             123456789.0,
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN(),
                             -std::numeric_limits<double>::quiet_NaN()};
  for (int i = 0; i < 2000; ++i) values.push_back(std::bit_cast<double>(random()));
  Graph graph;
  Tensor* x = graph.add("placeholder", {}, {{"type", TensorType{DType::float32, {2}}}});
  for (double value : values) graph.add("pad", {x}, {{"left", Ints{1}}, {"right", Ints{1}}, {"value", value}});
  round_trip(graph);
}

TEST(gradients_and_control_flow_round_trip) {
  Graph graph;
  Builder b(graph);
  Tensor* x = graph.add("placeholder", {}, {{"type", TensorType{DType::float32, {-1, 8, 8, 3}}}}, "x");
  Tensor* training = graph.add("placeholder", {}, {{"type", TensorType{DType::boolean, Shape(Dims{})}}});
  Tensor* w = graph.add("variable", {}, {{"value", ConstantData::splat(DType::float32, {3, 3, 3, 4}, 0.5)}}, "w");
  Tensor* h = graph.add("convolution2d", {x, w}, {{"padding_style", std::string("TF_SAME")}});
  h = graph.add("max_pooling2d", {h}, {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  std::vector<std::unique_ptr<Block>> blocks;
  for (bool taken : {true, false}) {
    Block* block = graph.begin_block();
    Tensor* result = taken ? b.mul(h, graph.add("square", {h})) : b.neg(h);
    blocks.push_back(graph.finish_block(block, {result}));
  }
  Tensor* y = graph.create("if", {training}, {}, {}, std::move(blocks))->output();
  Tensor* loss = b.sum(y);
  const std::vector<Tensor*> d = gradients(loss, {w, x});
  graph.begin_control_dependencies({loss->operation});
  graph.create("assign", {w, d[0]});
  graph.end_control_dependencies();
  verify(graph);
  round_trip(graph);
}

TEST(unranked_and_empty_types_round_trip) {
  CHECK_EQUAL(parse(in_graph("%x = placeholder() {type=int8[*]} : int8[*]"))->find("x")->output()->type,
              (TensorType{DType::int8, {}}));
  CHECK_EQUAL(parse(in_graph("%x = placeholder() {type=int8[0,-1]} : int8[0,-1]"))->find("x")->output()->shape(),
              (Shape{0, -1}));
}

TEST(histories_round_trip) {
  const std::string text = R"(graph {
  %n = constant() {value=int32[] splat 0x00000003} : int32[]
  %x = placeholder() {type=float32[2]} : float32[2]
  %loop = for(%n, %n, %n, %x) {from_zero=1} : float32[2], history(float32[2]) ()"
                           R"(%i: int32[], %v: float32[2], %h: history(float32[2])) {
    %longer = history_push(%h, %v) : history(float32[2])
    yield %v, %longer
  }
  %nothing = undefined() {type=history(history(float32[-1]))} : history(history(float32[-1]))
  %last = history_pop(%loop:1) : history(float32[2]), float32[2]
}
)";
  CHECK_EQUAL(print(*parse(text)), text);
  const auto refused = [&](const std::string& type, const std::string& why) {
    CHECK_THROWS(GraphError, parse("graph { %a = undefined() {type=" + type + "} : " + type + " }"), why);
  };
  refused("history[2]", "'('");
  refused("history(float32[2]", "')'");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "history(";
  refused(deep, "nest deeper");
  // A history is not a tensor, even though its elements have a tensor type.
  CHECK_THROWS(GraphError, parse(text.substr(0, text.size() - 2) + "  %y = tanh(%loop:1) : float32[2]\n}\n"), "'y'",
               "must be a tensor");
}

TEST(long_constants_can_be_abbreviated) {
  Graph graph;
  graph.add("constant", {}, {{"value", ConstantData::of_ints({1, 2, 3})}}, "c");
  const std::string text = print(graph, {.max_constant_elements = 1});
  CHECK(text.find("[0x0000000000000001,...]") != text.npos);
  CHECK_THROWS(GraphError, parse(text), "text:2:", "was truncated");
}

TEST(single_block_prints_by_itself) {
  const auto graph = parse(example);
  CHECK_EQUAL(print(*graph->find("q")->blocks[1]), "{\n  %next = square(%after) : float32[-1,1]\n  yield %next\n}\n");
}

TEST(parse_errors_contain_line_and_column) {
  CHECK_THROWS(GraphError, parse(""), "text:1:1: expected 'graph', got the end of the text");
  CHECK_THROWS(GraphError, parse("graph {\n  %x = nonsense() : ()\n}"), "text:2:3:", "nonsense");
  CHECK_THROWS(GraphError, parse("graph {\n  %x = relu(%y) : float32[]\n}"), "text:2:13: unknown operation 'y'");
  CHECK_THROWS(GraphError, parse("graph {}\n more"), "text:2:2: expected the end of the text, got 'more'");
  CHECK_THROWS(GraphError, parse(in_graph("%x = placeholder() {tipe=int8[]} : int8[]")), "text:2:3:", "tipe");
  CHECK_THROWS(GraphError, parse(in_graph("%x = placeholder() : int8[]")), "text:2:3:", "requires attribute 'type'");
  CHECK_THROWS(GraphError, parse(in_graph("%x = placeholder() {type=3} : int8[]")),
               "text:2:3:", "must be a tensor type");
}

TEST(malicious_numbers_and_types_throw) {
  const auto constant = [](const std::string& value) {
    return in_graph("%c = constant() {value=" + value + "} : float32[]");
  };
  const std::pair<const char*, const char*> wrong[] = {
      {"float32[99999999999999999999] splat 0x00000000", "out of range"},
      {"float32[4611686018427387904] splat 0x00000000", "at most 2^62 bytes"},
      {"float32[0,4611686018427387904] []", "at most 2^62 bytes"},
      {"float32[-2] splat 0x00000000", "a dimension must be at least 0, or -1"},
      {"float32[-1] splat 0x00000000", "needs a static shape"},
      {"float32[*] splat 0x00000000", "needs a static shape"},
      {"float32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] splat 0x00000000", "at most 16 dimensions"},
      {"float32[1000000000000] [0x00000000]", "must have 1000000000000 element(s), got 1"},
      {"float32[1] [0x00000000,0x00000000]", "must have 1 element(s), got 2"},
      {"float32[1] [0x0000]", "8 hexadecimal digits"},
      {"float32[1] [0x000000000]", "exactly 8"},
      {"float32[1] [0x-1000000]", "8 hexadecimal digits"},
      {"float32[1] [0xg0000000]", "8 hexadecimal digits"},
      {"bool[1] [0x02]", "a bool must be 0x00 or 0x01"},
      {"float31[1] [0x00000000]", "'float31' is not a value"},
      {"[1,2,99999999999999999999]", "out of range"},
      {"1e999", "out of range"},
      {"-1e999", "out of range"},
      {"1e-999", "out of range"},
      {"0x1p3", "expected a number"},
      {"+1.5", "expected a value"},
      {"-infinity", "expected"},
      {"-nan", "expected a number"},
      {"1.5e", "expected a number"},
      {"1.2.3", "expected a number"},
      {"--1", "expected a number"},
      {"nan:0x1", "16 hexadecimal digits"},
      {"\"\\q\"", "hexadecimal"},
      {"\"abc", "unterminated string"},
      {"", "expected a value"},
  };
  for (const auto& [value, message] : wrong) CHECK_THROWS(GraphError, parse(constant(value)), "text:2:", message);
}

TEST(malicious_structure_throws) {
  CHECK_THROWS(GraphError, parse(after_operands("%x = relu(%v) : float32[2,3]")), "text:6:1: the name 'x' is taken");
  CHECK_THROWS(GraphError, parse(after_operands("%\"\" = relu(%v) : float32[2,3]")), "must not be empty");
  CHECK_THROWS(GraphError, parse(after_operands("% = relu(%v) : float32[2,3]")), "expected a name");
  CHECK_THROWS(GraphError, parse(after_operands("%y = relu(%x:1) : float32[2,3]")), "'x' has no result 1");
  CHECK_THROWS(GraphError, parse(after_operands("%y = relu(%x:-1) : float32[2,3]")), "'x' has no result -1");
  CHECK_THROWS(GraphError, parse(after_operands("%y = squeeze(%x) {axes=[], axes=[]} : float32[2,3]")),
               "is given twice");
  CHECK_THROWS(GraphError, parse(after_operands("%y = relu(%y) : float32[2,3]")), "unknown operation 'y'");
  CHECK_THROWS(GraphError, parse(after_operands("%y = relu(%x) after [%z] : float32[2,3]")), "unknown operation 'z'");
  CHECK_THROWS(GraphError,
               parse(after_operands("%s = split(%x) {axis=0, sizes=[1,1]} : float32[1,3], float32[1,3]\n"
                                    "%y = relu(%s) : float32[1,3]")),
               "has 2 results");
  CHECK_THROWS(GraphError, parse(after_operands("%y = if(%b) : () {\n%y = relu(%x) : float32[2,3]\n} {\n}")),
               "used by an operation inside the blocks of this operation");
}

TEST(strings_that_are_not_utf8_throw) {
  const auto named = [](const std::string& name) {
    return in_graph("%\"" + name + "\" = variable() {value=int8[] splat 0x00} : int8[]");
  };
  for (const std::string valid :
       {"a b", "\\xc3\\xa9", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8d\x8e", "\xf4\x8f\xbf\xbf"})
    CHECK_EQUAL(parse(named(valid))->root().operations.size(), size_t{1});
  for (const std::string invalid : {"\xff", "\\xff", "\xc3", "a\x80", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80",
                                    "\xf4\x90\x80\x80", "\xf0\x9f\x8d"})
    CHECK_THROWS(GraphError, parse(named(invalid)), "text:2:4", "must be valid UTF-8");
  Graph graph;
  CHECK_THROWS(GraphError, graph.add("placeholder", {}, {{"type", TensorType{DType::int8, {2}}}}, "\xff"),
               "must be valid UTF-8");
}

TEST(many_attributes_parse_in_linear_time) {
  constexpr int count = 100000;
  std::string text = "graph { %a = placeholder() {";
  for (int i = 0; i < count; ++i) text += "k" + std::to_string(i * int64_t{7919} % count) + "=1,";
  const std::clock_t start = std::clock();
  CHECK_THROWS(GraphError, parse(text + "type=int8[]} : int8[] }"), "unknown attribute 'k0'");
  // Takes milliseconds, or a minute if each attribute is compared with all others.
  CHECK((std::clock() - start) / CLOCKS_PER_SEC < 10);
}

TEST(deep_nesting_throws) {
  for (const int depth : {150, 100000}) {
    std::string text = "graph {\n%b = placeholder() {type=bool[]} : bool[]\n", end = "}\n";
    for (int i = 0; i < depth; ++i) {
      text += cat("%p", i, " = if(%b) : () {\n");
      end = depth < 1000 ? "} {\n}\n" + end : end;
    }
    if (depth < 1000)
      CHECK_EQUAL(parse(text + end)->operation_count(), depth + 1);
    else
      CHECK_THROWS(GraphError, parse(text + end), "blocks must not nest deeper than 200");
  }
  CHECK_THROWS(GraphError, parse(std::string(1 << 20, '{')), "text:1:1:");
  CHECK_THROWS(GraphError, parse("graph {\n%x = placeholder() {type=" + std::string(1 << 20, '[')), "text:2:");
}

// Text with random deletions, duplications, and changes must parse or throw an mpsgraph error; what parses must
// round-trip.
TEST(altered_text_never_crashes) {
  std::mt19937 random(3);
  const auto any = [&](size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random); };
  const std::string alphabet = "%{}[]()=:,.\"-\\0123456789abcxyz \n*";
  size_t accepted = 0;
  const auto attempt = [&](const std::string& text) {
    try {
      const auto graph = parse(text, Verification::off);
      const std::string printed = print(*graph);
      CHECK_EQUAL(print(*parse(printed, Verification::off)), printed);
      verify(*graph);
      ++accepted;
    } catch (const GraphError&) {}
  };
  for (size_t length = 0; length <= example.size(); ++length) attempt(std::string(example.substr(0, length)));
  for (int i = 0; i < 6000; ++i) {
    std::string text(example);
    for (size_t edits = 1 + any(3); edits-- > 0;) {
      const size_t at = any(text.size()), length = std::min(any(12) + 1, text.size() - at);
      switch (any(4)) {
        case 0: text.erase(at, length); break;
        case 1: text.insert(at, text.substr(any(text.size()), any(40))); break;
        case 2: text[at] = alphabet[any(alphabet.size())]; break;
        default: text[at] = static_cast<char>(any(256)); break;
      }
      if (text.empty()) text = "g";
    }
    attempt(text);
  }
  CHECK(accepted > 10);
}

// --- every check of the verifier -------------------------------------------------------------------------------------

namespace {

// Parse the text and check that verify() rejects it with this message.
void rejected(const std::string& lines, const std::string& fragment) {
  const auto graph = parse(after_operands(lines), Verification::off);
  CHECK_THROWS(GraphError, verify(*graph), fragment);
}

Operation* unchecked(Graph& graph, Kind kind, std::vector<Tensor*> inputs, Attributes attributes,
                     std::vector<TensorType> types, std::string_view name = "y") {
  return graph.create_unchecked(graph.root(), definition_of(kind), std::move(inputs), std::move(attributes), name,
                                std::move(types));
}

const TensorType matrix{DType::float32, {2, 3}};

}  // namespace

TEST(verify_checks_types) {
  rejected("%y = relu(%x) : float32[2,4]", "'y' (relu): result 0 must have type float32[2,3], got float32[2,4]");
  rejected("%y = relu(%x) : float16[2,3]", "result 0 must have type float32[2,3], got float16[2,3]");
  rejected("%y = relu(%x) : float32[2,3], float32[2,3]", "the number of results must be 1, got 2");
  rejected("%y = relu(%x) : ()", "the number of results must be 1, got 0");
  rejected("%y = placeholder() {type=float32[-1]} : float32[4]", "must have type float32[-1], got float32[4]");
  rejected("%y = addition(%x, %i) : float32[2,3]", "'y' (addition): [addition]");
  verify(*parse(
      after_operands("%y = relu(%x) : float32[-1,3]\n%z = relu(%y) : float32[*]\n%q = relu(%z) : float32[2,3]")));
}

TEST(verify_checks_arity_and_blocks) {
  rejected("%y = relu() : float32[2,3]", "the number of operands must be 1, got 0");
  rejected("%y = relu(%x, %x) : float32[2,3]", "the number of operands must be 1, got 2");
  rejected("%y = concat() {axis=0} : float32[2,3]", "the number of operands must be at least 1, got 0");
  rejected("%y = if(%b) : () {\n}", "the number of blocks must be 2, got 1");
  rejected("%y = relu(%x) : float32[2,3] {\n}", "the number of blocks must be 0, got 1");
}

TEST(verify_checks_scopes) {
  rejected("%p = if(%b) : float32[2,3] {\n%t = relu(%x) : float32[2,3]\nyield %t\n} {\nyield %t\n}",
           "'p' (if): a result of a block is 't', which is not defined earlier");
  rejected("%p = if(%b) : () {\n%t = relu(%x) : float32[2,3]\n} {\n}\n%y = relu(%t) : float32[2,3]",
           "'y' (relu): operand 0 is 't', which is not defined earlier in the same block or in an enclosing block");
  rejected("%p = if(%b) : () {\n%t = relu(%x) : float32[2,3]\n} {\n}\n%y = relu(%x) after [%t] : float32[2,3]",
           "'y' (relu): a control dependency is 't'");
  rejected("%p = if(%b) : float32[2,3] {\nyield %v\n} {\nyield %x\n}", "a block returns the variable 'v' itself");
  rejected("%p = if(%b) : () {\n%t = placeholder() {type=bool[]} : bool[]\n} {\n}",
           "'t' (placeholder): is only allowed in the root block");
  rejected("%t = placeholder() {type=bool[]} after [%x] : bool[]", "without control dependencies");
  rejected("%t = argument() {type=bool[]} : bool[]", "'t' (argument): is not an argument of its block");
}

TEST(verify_checks_variables) {
  rejected("%y = relu(%v) : float32[2,3]", "operand 0 is the variable 'v' itself instead of a read of it");
  rejected("%y = assign(%v, %v) : ()", "operand 1 is the variable 'v' itself");
  rejected("%y = assign(%x, %x) : ()", "'y' (assign): [assign] operand 0 must be a variable");
}

TEST(verify_checks_order_and_tensors_of_other_graphs) {
  Graph graph, other;
  Tensor* x = graph.add("placeholder", {}, {{"type", matrix}}, "x");
  Tensor* foreign = other.add("placeholder", {}, {{"type", matrix}}, "foreign");
  Operation* first = unchecked(graph, "relu", {x}, {}, {matrix}, "first");
  Operation* second = unchecked(graph, "relu", {x}, {}, {matrix}, "second");
  verify(graph);
  first->control_dependencies = {second};
  CHECK_THROWS(GraphError, verify(graph),
               "'first' (relu): a control dependency is 'second', which is not defined earlier");
  first->control_dependencies = {nullptr};
  CHECK_THROWS(GraphError, verify(graph), "a control dependency is missing");
  first->control_dependencies = {first};
  CHECK_THROWS(GraphError, verify(graph), "'first' (relu): a control dependency is 'first'");
  first->control_dependencies.clear();
  first->inputs[0] = second->output();
  CHECK_THROWS(GraphError, verify(graph), "operand 0 is 'second', which is not defined earlier");
  first->inputs[0] = foreign;
  CHECK_THROWS(GraphError, verify(graph), "operand 0 is 'foreign' of another graph");
  first->inputs[0] = nullptr;
  CHECK_THROWS(GraphError, verify(graph), "operand 0 is missing");
  Tensor stray{x->operation, 0, matrix};
  first->inputs[0] = &stray;
  CHECK_THROWS(GraphError, verify(graph), "operand 0 is not a result of 'x'");
}

TEST(verify_checks_attributes) {
  Graph graph;
  Tensor* x = graph.add("placeholder", {}, {{"type", matrix}}, "x");
  const auto with = [&](Attributes attributes) {
    Operation* operation = unchecked(graph, "softmax", {x}, std::move(attributes), {matrix});
    const std::string text = [&] {
      try {
        verify(graph);
        return std::string("nothing was thrown");
      } catch (const GraphError& error) {
        return std::string(error.what());
      }
    }();
    graph.remove_operations(graph.root(), [&](const Operation& each) { return &each == operation; });
    return text;
  };
  CHECK_EQUAL(with({{"axis", int64_t{1}}}), "nothing was thrown");
  CHECK(with({}).find("some of its attributes are missing") != std::string::npos);
  CHECK(with({{"axis", 1.0}}).find("must be an integer") != std::string::npos);
  CHECK(with({{"axis", int64_t{1}}, {"other", true}}).find("'other'") != std::string::npos);
}

TEST(verify_checks_names_and_links) {
  Graph graph;
  Tensor* x = graph.add("placeholder", {}, {{"type", matrix}}, "x");
  Operation* y = unchecked(graph, "relu", {x}, {}, {matrix});
  y->name = "x";
  CHECK_THROWS(GraphError, verify(graph), "its name is empty or belongs to another operation");
  y->name = "y";
  y->output()->index = 1;
  CHECK_THROWS(GraphError, verify(graph), "result 0 is not linked to its operation");
  y->output()->index = 0;
  Block elsewhere;
  y->parent = &elsewhere;
  CHECK_THROWS(GraphError, verify(graph), "is not linked to its block");
  y->parent = &graph.root();
  y->definition = nullptr;
  CHECK_THROWS(GraphError, verify(graph), "has no definition");
  y->definition = &definition_of("relu");
  graph.root().arguments.push_back(x);
  CHECK_THROWS(GraphError, verify(graph), "the root block: has arguments");
  graph.root().arguments.clear();
  graph.root().results.push_back(nullptr);
  CHECK_THROWS(GraphError, verify(graph), "the root block: a result of a block is missing");
}

TEST(verify_checks_block_links_and_arguments) {
  const auto graph = parse(example);
  Operation* loop = graph->find("q");
  Block& body = *loop->blocks[1];
  body.owner = nullptr;
  CHECK_THROWS(GraphError, verify(*graph), "'q' (while): a block is not linked to its parent and owner");
  body.owner = loop;
  body.graph = nullptr;
  CHECK_THROWS(GraphError, verify(*graph), "a block belongs to another graph");
  body.graph = graph.get();
  body.arguments.push_back(body.arguments[0]);
  CHECK_THROWS(GraphError, verify(*graph), "a block has the same argument twice");
  body.arguments[1] = graph->find("z")->output();
  CHECK_THROWS(GraphError, verify(*graph), "each argument of a block must be an argument operation in that block");
  body.arguments.pop_back();
  verify(*graph);
}
