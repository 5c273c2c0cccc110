// Prints graphs as text, in the form described in text.h. Invalid graphs are printed too, as far as possible.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "core/definition.h"
#include "mpsgraph/core/text.h"

namespace mpsgraph {

namespace {

static_assert(std::endian::native == std::endian::little, "constants are stored as little-endian bytes");

constexpr std::string_view hex_digits = "0123456789abcdef";

bool is_plain(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == '-';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), plain);
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  void block(const Block& block, std::string_view before_brace) {
    out_ += before_brace;
    out_ += "{\n";
    ++depth_;
    for (const auto& operation : block.operations) {
      if (!block.owner && options_.only && !options_.only(*operation)) continue;
      if (std::find(block.arguments.begin(), block.arguments.end(),
                    operation->outputs.empty() ? nullptr : operation->output()) == block.arguments.end())
        line(*operation);
    }
    if (!block.results.empty()) {
      indent();
      out_ += "yield ";
      list(block.results, [this](const Tensor* tensor) { reference(tensor); });
      out_ += '\n';
    }
    --depth_;
    indent();
    out_ += '}';
  }

  std::string text() && { return std::move(out_ += '\n'); }

 private:
  void indent() { out_.append(static_cast<size_t>(2 * depth_), ' '); }

  template <class Items, class Function>
  void list(const Items& items, Function print_one, std::string_view separator = ", ") {
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += separator;
      first = false;
      print_one(item);
    }
  }

  void quoted(std::string_view text) {
    out_ += '"';
    for (char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        (out_ += '\\') += c;
      } else if (byte < 0x20 || byte == 0x7f) {
        (((out_ += "\\x") += hex_digits[byte >> 4])) += hex_digits[byte & 15];
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  void name(std::string_view name) {
    out_ += '%';
    if (is_plain(name))
      out_ += name;
    else
      quoted(name);
  }

  void reference(const Tensor* tensor) {
    name(tensor->operation->name);
    if (tensor->operation->outputs.size() != 1) out_ += cat(":", tensor->index);
  }

  void line(const Operation& operation) {
    indent();
    name(operation.name);
    out_ += cat(" = ", operation.kind(), "(");
    list(operation.inputs, [this](const Tensor* tensor) { reference(tensor); });
    out_ += ')';
    attributes(operation);
    if (!operation.control_dependencies.empty()) {
      out_ += " after [";
      list(operation.control_dependencies, [this](const Operation* before) { name(before->name); });
      out_ += ']';
    }
    if (options_.locations && !operation.location.empty()) {
      out_ += " at ";
      quoted(operation.location.text());
    }
    out_ += " : ";
    if (operation.outputs.empty()) out_ += "()";
    list(operation.outputs, [this](const auto& output) { out_ += to_string(output->type); });
    for (const auto& inner : operation.blocks) block(*inner, header(*inner));
    out_ += '\n';
  }

  std::string header(const Block& block) {
    if (block.arguments.empty()) return " ";
    Printer arguments(options_);
    arguments.list(block.arguments, [&](const Tensor* argument) {
      arguments.name(argument->operation->name);
      arguments.out_ += cat(": ", argument->type);
    });
    return cat(" (", arguments.out_, ") ");
  }

  void attributes(const Operation& operation) {
    std::vector<const std::pair<std::string, Attribute>*> shown;
    for (const auto& item : operation.attributes.items()) {
      const auto& specs = operation.definition->attributes;
      const auto is_default = [&](const AttributeSpec& spec) {
        return spec.name == item.first && spec.default_value && same(*spec.default_value, item.second);
      };
      if (std::none_of(specs.begin(), specs.end(), is_default)) shown.push_back(&item);
    }
    if (shown.empty()) return;
    out_ += " {";
    list(shown, [&](const auto* item) {
      out_ += item->first + "=";
      if (const auto* data = std::get_if<ConstantPtr>(&item->second); data && *data && options_.elsewhere) {
        if (const std::optional<std::string> place = options_.elsewhere(operation, item->first)) {
          out_ += cat(TensorType{(*data)->dtype(), (*data)->dims()}, " from ");
          return quoted(*place);
        }
      }
      std::visit([this](const auto& value) { this->attribute(value); }, item->second);
    });
    out_ += '}';
  }

  void attribute(bool value) { out_ += value ? "true" : "false"; }
  void attribute(int64_t value) { out_ += std::to_string(value); }
  void attribute(const std::string& value) { quoted(value); }
  void attribute(DType value) { out_ += mpsgraph::name(value); }
  void attribute(const TensorType& value) { out_ += to_string(value); }

  void attribute(const Ints& values) {
    out_ += '[';
    list(values, [this](int64_t value) { attribute(value); }, ",");
    out_ += ']';
  }

  void attribute(const Types& types) {
    out_ += '(';
    list(types, [this](const TensorType& type) { attribute(type); }, ",");
    out_ += ')';
  }

  // NaN is written as its bit pattern. All other numbers are written with the fewest digits from which the parser
  // restores the same number.
  void attribute(double value) {
    if (std::isnan(value)) {
      out_ += "nan:";
      element(reinterpret_cast<const std::byte*>(&value), sizeof value);
      return;
    }
    char digits[32];
    const std::string_view text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    out_ += text;
    if (text.find_first_not_of("-0123456789") == text.npos) out_ += ".0";  // distinguishes 3.0 from an integer
  }

  void attribute(const ConstantPtr& data) {
    if (!data) {
      out_ += "none";
      return;
    }
    out_ += to_string(TensorType{data->dtype(), data->dims()});
    const size_t size = size_of(data->dtype());
    if (data->is_splat()) {
      out_ += " splat ";
      element(data->bytes(), size);
      return;
    }
    const int64_t limit = options_.max_constant_elements;
    const int64_t shown = limit < 0 ? data->elements() : std::min(limit, data->elements());
    out_ += " [";
    for (int64_t i = 0; i < shown; ++i) {
      if (i > 0) out_ += ',';
      element(data->bytes() + static_cast<size_t>(i) * size, size);
    }
    if (shown < data->elements()) out_ += shown > 0 ? ",..." : "...";
    out_ += ']';
  }

  void element(const std::byte* bytes, size_t size) {
    out_ += "0x";
    for (size_t i = size; i-- > 0;) {
      const auto byte = static_cast<unsigned>(bytes[i]);
      (out_ += hex_digits[byte >> 4]) += hex_digits[byte & 15];
    }
  }

  const PrintOptions& options_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  Printer printer(options);
  printer.block(graph.root(), "graph ");
  return std::move(printer).text();
}

std::string print(const Block& block, const PrintOptions& options) {
  Printer printer(options);
  printer.block(block, "");
  return std::move(printer).text();
}

}  // namespace mpsgraph
