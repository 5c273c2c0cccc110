// Parses text into graphs; the inverse of printer.cpp. The text may come from untrusted sources.
//
// This is a recursive-descent parser over characters. Its memory use grows with the length of the text, never with a
// number in the text, and block nesting is limited, so malicious text ends in a GraphError. No property stated in the
// text is relied on before verify() has checked it.
#include <locale.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "core/definition.h"
#include "core/utf8.h"
#include "mpsgraph/core/limits.h"
#include "mpsgraph/core/text.h"

namespace mpsgraph {

namespace {

constexpr int max_block_depth = 200;

class Parser {
 public:
  Parser(std::string_view text, Graph& graph, const Elsewhere& elsewhere)
      : text_(text), graph_(graph), elsewhere_(elsewhere) {}

  void graph() {
    expect_word("graph");
    expect("{");
    block_body(graph_.root(), 0);
    skip_space();
    if (at_ != text_.size()) fail("expected the end of the text");
  }

 private:
  // ---- characters ----

  [[noreturn]] void fail(const std::string& message, size_t position) const {
    const std::string_view before = text_.substr(0, position);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t line_start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
    throw GraphError(cat("text:", line, ":", position - line_start + 1, ": ", message));
  }
  [[noreturn]] void fail(const std::string& message) const { fail(cat(message, ", got ", next_text()), at_); }

  std::string next_text() const {
    if (at_ == text_.size()) return "the end of the text";
    return cat("'", text_.substr(at_, std::min<size_t>(text_.find_first_of(" \t\r\n", at_ + 1) - at_, 20)), "'");
  }

  // Calls `function`. If it throws an error without a text position, adds `position` to the error.
  template <class Function>
  decltype(auto) placed(size_t position, Function function) const {
    try {
      return function();
    } catch (const Error& error) {
      fail(error.what(), position);
    }
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool follows(std::string_view token) {
    skip_space();
    return text_.substr(at_, token.size()) == token;
  }

  bool accept(std::string_view token) {
    if (!follows(token)) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail(cat("expected '", token, "'"));
  }

  static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  static bool in_name(char c) { return in_word(c) || c == '.' || c == '/' || c == '-'; }

  std::string_view take_while(bool (*belongs)(char)) {
    const size_t start = at_;
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  std::string_view word(std::string_view what) {
    skip_space();
    if (at_ == text_.size() || !in_word(text_[at_])) fail(cat("expected ", what));
    return take_while(in_word);
  }

  // Accepts the next word only if the whole word matches.
  bool accept_word(std::string_view wanted) {
    skip_space();
    const size_t start = at_;
    if (take_while(in_word) == wanted) return true;
    at_ = start;
    return false;
  }

  void expect_word(std::string_view wanted) {
    if (!accept_word(wanted)) fail(cat("expected '", wanted, "'"));
  }

  std::string quoted() {
    expect("\"");
    const size_t start = at_ - 1;
    std::string result;
    for (;;) {
      if (at_ == text_.size()) fail("unterminated string", start);
      const char c = text_[at_++];
      if (c == '"') {
        if (!is_utf8(result)) fail("a string must be valid UTF-8", start);
        return result;
      }
      if (c != '\\') {
        result += c;
        continue;
      }
      const char escaped = at_ < text_.size() ? text_[at_++] : '\0';
      if (escaped == '"' || escaped == '\\')
        result += escaped;
      else if (escaped == 'x')
        result += static_cast<char>(hex(2));
      else
        fail("expected \\\", \\\\ or \\x with two hexadecimal digits after a backslash", at_ - 1);
    }
  }

  // Reads exactly `digits` hexadecimal digits.
  uint64_t hex(size_t digits) {
    uint64_t value = 0;
    const char* first = text_.data() + at_;
    const char* last = first + std::min(digits, text_.size() - at_);
    const auto [end, error] = std::from_chars(first, last, value, 16);
    if (error != std::errc() || end != first + digits) fail(cat("expected ", digits, " hexadecimal digits"));
    at_ += digits;
    return value;
  }

  struct Bits {
    uint64_t low, high;  // bits of a number; `high` is used only for complex128, which has more than 64 bits
  };
  // The bit pattern of a number, written as 0x and exactly `digits` hexadecimal digits.
  Bits bits(size_t digits) {
    expect("0x");
    const uint64_t high = digits > 16 ? hex(digits - 16) : 0;
    const Bits value{hex(std::min<size_t>(digits, 16)), high};
    if (at_ < text_.size() && in_word(text_[at_])) fail(cat("expected exactly ", digits, " hexadecimal digits"));
    return value;
  }

  int64_t integer(std::string_view digits, size_t start, std::string_view what) const {
    int64_t value{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc::result_out_of_range) fail(cat(digits.substr(0, 40), " is out of range"), start);
    if (error != std::errc() || end != digits.data() + digits.size()) fail(cat("expected ", what), start);
    return value;
  }

  int64_t integer() {
    skip_space();
    const size_t start = at_;
    return integer(take_while(in_name), start, "an integer");
  }

  // Apple's libc++ has std::from_chars for floating-point numbers only since macOS 26. Unlike from_chars, strtod_l also
  // accepts leading white space and plus signs, hexadecimal digits, infinities, and NaN, which this grammar excludes.
  double real(std::string_view digits, size_t start) const {
    static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
    const std::string text(digits);
    char* end = nullptr;
    errno = 0;
    const double value = strtod_l(text.c_str(), &end, c_locale);
    const bool decimal = digits.find_first_not_of("0123456789+-.eE") == digits.npos && !digits.starts_with('+');
    if (!decimal || digits.empty() || end != text.c_str() + text.size()) fail("expected a number", start);
    if (std::isinf(value) || (value == 0 && errno == ERANGE))
      fail(cat(digits.substr(0, 40), " is out of range"), start);
    return value;
  }

  // Parses a list: calls `one` for each item, and consumes the text `close` that ends the list.
  template <class Function>
  void list(std::string_view close, Function one) {
    if (accept(close)) return;
    do one();
    while (accept(","));
    expect(close);
  }

  // ---- names ----

  std::string name() {
    expect("%");
    if (at_ < text_.size() && text_[at_] == '"') return quoted();
    const std::string_view plain = take_while(in_name);
    if (plain.empty()) fail("expected a name");
    return std::string(plain);
  }

  std::string new_name() {
    skip_space();
    const size_t start = at_;
    std::string result = name();
    if (result.empty()) fail("a name must not be empty", start);
    if (graph_.find(result)) fail(cat("the name '", result, "' is taken"), start);
    return result;
  }

  Operation* operation_reference() {
    skip_space();
    const size_t start = at_;
    const std::string wanted = name();
    if (Operation* operation = graph_.find(wanted)) return operation;
    fail(cat("unknown operation '", wanted, "': an operation must be defined above its uses"), start);
  }

  Tensor* tensor_reference() {
    skip_space();
    const size_t start = at_;
    const Operation* operation = operation_reference();
    const int64_t count = static_cast<int64_t>(operation->outputs.size());
    int64_t index = 0;
    if (at_ < text_.size() && text_[at_] == ':') {
      ++at_;
      index = integer();
    } else if (count != 1) {
      fail(cat("'", operation->name, "' has ", count, " results; select one by its index, as in %name:0"), start);
    }
    if (index < 0 || index >= count)
      fail(cat("'", operation->name, "' has no result ", index, "; the number of results is ", count), start);
    return operation->output(static_cast<size_t>(index));
  }

  // ---- types and attributes ----

  TensorType type() {
    skip_space();
    const size_t start = at_;
    if (accept_word("history")) return history();
    const std::string_view dtype_name = word("a type");
    const std::optional<DType> dtype = dtype_from_name(dtype_name);
    if (!dtype) fail(cat("unknown dtype '", dtype_name, "'"), start);
    return {*dtype, shape(*dtype)};
  }

  // The type after the word `history`: the type of one value in parentheses, which may itself be a history.
  TensorType history() {
    int depth = 0;
    do {
      expect("(");
      if (++depth > max_block_depth) fail(cat("histories must not nest deeper than ", max_block_depth));
    } while (accept_word("history"));
    TensorType result = type();
    for (int i = 0; i < depth; ++i) expect(")");
    result.history = depth;
    return result;
  }

  Shape shape(DType dtype) {
    expect("[");
    if (accept("*")) {
      expect("]");
      return {};
    }
    Dims dims;
    int64_t bytes = static_cast<int64_t>(size_of(dtype));
    list("]", [&] {
      skip_space();
      const size_t start = at_;
      dims.push_back(integer());
      if (dims.back() < -1) fail(cat("a dimension must be at least 0, or -1 if unknown, got ", dims.back()), start);
      if (dims.size() > static_cast<size_t>(max_rank))
        fail(cat("a tensor must have at most ", max_rank, " dimensions"), start);
      // Counts dimensions of size 0 or -1 as 1, so that the product of any subset of the dimensions cannot overflow.
      if (__builtin_mul_overflow(bytes, std::max<int64_t>(dims.back(), 1), &bytes) || bytes > int64_t{1} << 62)
        fail("a tensor must have at most 2^62 bytes", start);
    });
    return Shape(std::move(dims));
  }

  ConstantPtr data(const TensorType& type, size_t start) {
    if (!type.shape.known()) fail(cat("a constant needs a static shape, got ", type.shape), start);
    if (accept_word("from")) return data_from_elsewhere(type, start);
    const size_t size = size_of(type.dtype);
    std::vector<std::byte> bytes;
    const auto element = [&] {
      const Bits value = bits(2 * size);
      if (type.dtype == DType::boolean && value.low > 1) fail("a bool must be 0x00 or 0x01", at_ - 2);
      for (size_t i = 0; i < size; ++i)
        bytes.push_back(static_cast<std::byte>((i < 8 ? value.low : value.high) >> (8 * (i % 8))));
    };
    if (accept_word("splat")) {
      element();
      return ConstantData::splat(type.dtype, type.shape.dims(), static_cast<const void*>(bytes.data()));
    }
    expect("[");
    list("]", [&] {
      if (follows("...")) fail("this constant was truncated when it was printed; print it with all its elements", at_);
      element();
    });
    const size_t expected = static_cast<size_t>(type.shape.elements()), came = bytes.size() / size;
    if (came != expected) fail(cat("a constant of ", type, " must have ", expected, " element(s), got ", came), start);
    return ConstantData::copy(type.dtype, type.shape.dims(), bytes.data());
  }

  ConstantPtr data_from_elsewhere(const TensorType& type, size_t start) {
    skip_space();
    const std::string place = quoted();
    if (!elsewhere_)
      fail(cat("the data of '", place, "' is stored outside the text, which is part of a package; load the package"),
           start);
    ConstantPtr data = placed(start, [&] { return elsewhere_(place, type); });
    if (!data || TensorType{data->dtype(), data->dims()} != type)
      fail(cat("the data of '", place, "' must be ", type, ", got ",
               data ? to_string(TensorType{data->dtype(), data->dims()}) : "no data"),
           start);
    return data;
  }

  // An attribute value that starts with a word: a boolean, a dtype, a type, or data.
  Attribute word_attribute() {
    const size_t start = at_;
    const std::string_view first = word("a value");
    if (first == "true") return true;
    if (first == "false") return false;
    if (first == "inf") return std::numeric_limits<double>::infinity();
    if (first == "nan") {
      expect(":");
      return std::bit_cast<double>(bits(16).low);
    }
    if (first == "history") return history();
    const std::optional<DType> dtype = dtype_from_name(first);
    if (!dtype) fail(cat("'", first, "' is not a value; strings must be quoted"), start);
    if (!follows("[")) return *dtype;
    const TensorType type{*dtype, shape(*dtype)};
    skip_space();
    const bool has_data = follows("[") || follows("splat") || follows("from");
    return has_data ? Attribute(data(type, start)) : Attribute(type);
  }

  Attribute number_attribute() {
    const size_t start = at_;
    if (accept("-inf")) return -std::numeric_limits<double>::infinity();
    const std::string_view digits = take_while([](char c) { return in_word(c) || c == '.' || c == '-' || c == '+'; });
    const bool whole = digits.find_first_not_of("-0123456789") == digits.npos;
    if (whole) return integer(digits, start, "a number");
    return real(digits, start);
  }

  Attribute attribute() {
    skip_space();
    if (follows("\"")) return quoted();
    if (accept("[")) {
      Ints values;
      list("]", [&] { values.push_back(integer()); });
      return values;
    }
    if (accept("(")) {
      Types types;
      list(")", [&] { types.push_back(type()); });
      return types;
    }
    const bool is_number = at_ < text_.size() && (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9'));
    return is_number ? number_attribute() : word_attribute();
  }

  Attributes attributes() {
    Attributes result;
    if (!accept("{")) return result;
    std::map<std::string_view, Attribute> by_key;  // `Attributes` is slow for thousands of keys
    list("}", [&] {
      skip_space();
      const size_t start = at_;
      const std::string_view key = word("the name of an attribute");
      if (by_key.contains(key)) fail(cat("attribute '", key, "' is given twice"), start);
      expect("=");
      by_key.emplace(key, attribute());
    });
    for (auto& [key, value] : by_key) result.set(key, std::move(value));  // in order, so each is added at the end
    return result;
  }

  // ---- operations and blocks ----

  void operation(Block& parent, int depth) {
    count_nodes();
    skip_space();
    const size_t start = at_;
    const std::string own_name = new_name();
    expect("=");
    const std::string_view kind = word("a kind of operation");
    const OperationDefinition& definition =
        placed(start, [&]() -> const OperationDefinition& { return definition_of(kind_named(kind)); });
    std::vector<Tensor*> inputs;
    expect("(");
    list(")", [&] { inputs.push_back(tensor_reference()); });
    Attributes given = placed(start, [&, read = attributes()] { return complete_attributes(definition, read, ""); });
    std::vector<Operation*> dependencies;
    if (accept_word("after")) {
      expect("[");
      list("]", [&] { dependencies.push_back(operation_reference()); });
    }
    std::string location;
    if (accept_word("at")) {
      skip_space();
      location = quoted();
    }
    expect(":");
    std::vector<TensorType> types;
    if (accept("(")) {
      expect(")");
    } else {
      do types.push_back(type());
      while (accept(","));
    }
    std::vector<std::unique_ptr<Block>> blocks;
    while (follows("(") || follows("{")) blocks.push_back(block(parent, depth + 1));
    if (graph_.find(own_name))
      fail(cat("the name '", own_name, "' is already used by an operation inside the blocks of this operation"), start);
    Operation* operation = graph_.create_unchecked(parent, definition, std::move(inputs), std::move(given), own_name,
                                                   std::move(types), std::move(blocks));
    operation->control_dependencies = std::move(dependencies);
    operation->location = std::move(location);
  }

  std::unique_ptr<Block> block(Block& parent, int depth) {
    check_depth(depth);
    if (depth > max_block_depth) fail(cat("blocks must not nest deeper than ", max_block_depth), at_);
    std::unique_ptr<Block> block = graph_.detached_block(&parent, {});
    if (accept("(")) {
      list(")", [&] {
        const std::string argument = new_name();
        expect(":");
        const TensorType argument_type = type();
        block->arguments.push_back(graph_
                                       .create_unchecked(*block, definition_of("argument"), {},
                                                         {{"type", argument_type}}, argument, {argument_type})
                                       ->output());
      });
    }
    expect("{");
    block_body(*block, depth);
    return block;
  }

  // Parses the rest of a block after its opening brace, including the closing brace.
  void block_body(Block& block, int depth) {
    while (!follows("}")) {
      if (accept_word("yield")) {
        do block.results.push_back(tensor_reference());
        while (accept(","));
        break;
      }
      if (!follows("%")) fail("expected an operation, 'yield' or '}'");
      operation(block, depth);
    }
    expect("}");
  }

  const std::string_view text_;
  Graph& graph_;
  const Elsewhere& elsewhere_;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<Graph> parse(std::string_view text, Verification verification, const Elsewhere& elsewhere) {
  auto graph = std::make_unique<Graph>();
  Parser(text, *graph, elsewhere).graph();
  if (verification == Verification::on) verify(*graph);
  return graph;
}

}  // namespace mpsgraph
