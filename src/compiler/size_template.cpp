// Relates the numbers of two optimized programs to those of the specialized graph, and computes them for other sizes.
#include "compiler/size_template.h"

#include <algorithm>
#include <functional>

#include "compiler/passes.h"
#include "compiler/recipes.h"
#include "mpsgraph/core/text.h"

namespace mpsgraph::compiler {
namespace {

// Small numbers, such as axes and ranks, and very large ones, which stand for the end of an axis, may occur in the
// optimized program without occurring in the specialized graph, if they do not depend on sizes.
constexpr int64_t small_number = 16, unlimited = int64_t{1} << 30;
// A template is used for sizes that differ from those of its compilations by at most this factor, because passes may
// decide by the bytes of a value. Below the second limit, values are so small that such decisions do not matter.
constexpr int64_t largest_factor = 4, always_near = 64;

std::optional<int64_t> product(const std::vector<int64_t>& numbers, size_t begin, size_t end) {
  int64_t result = 1;
  for (size_t i = begin; i < end; i++)
    if (__builtin_mul_overflow(result, numbers[i], &result)) return std::nullopt;
  return result;
}

}  // namespace

std::unique_ptr<SizeTemplate> SizeTemplate::make(const Program& first, const Program& second, const Flat& first_graph,
                                                 const Flat& second_graph, std::string& reason) {
  Flat first_flat(first);
  const Flat second_flat(second);
  if (first_graph.structure != second_graph.structure)
    return reason = "the specialized graphs differ in structure", nullptr;
  if (first_flat.structure != second_flat.structure)
    return reason = "the optimized programs differ in structure", nullptr;
  std::unique_ptr<SizeTemplate> made(new SizeTemplate(first, std::move(first_flat)));
  made->structure_ = first_graph.structure;
  made->assigns_ = made->interpolates_ =
      std::ranges::any_of(first.target_operations, [](const Operation* o) { return o->is("assign"); });
  made->collect_pairs(first_graph, second_graph);
  for (const auto& [begin, end] : first_graph.shapes)
    for (size_t from = begin; from < end; from++)
      for (size_t to = from + 2; to <= end; to++) {
        const auto a = product(first_graph.numbers, from, to), b = product(second_graph.numbers, from, to);
        if (a && b) made->products_[{*a, *b}].push_back({from, to});
      }
  if (!made->relate_numbers(made->flat_.numbers, second_flat.numbers, reason)) return nullptr;
  if (!made->relate_constants(made->flat_, second_flat, first_graph, second_graph, reason)) return nullptr;
  if (!made->relate_indices(first, second, reason)) return nullptr;
  for (size_t i = 0; i < first_graph.constants.size(); i++)
    if (same_elements(*first_graph.constants[i], *second_graph.constants[i]))
      made->unchanged_.emplace_back(i, first_graph.constants[i]);
  made->products_.clear();
  made->used_index_.clear();
  return made;
}

void SizeTemplate::collect_pairs(const Flat& first, const Flat& second) {
  std::vector<Pair> all;
  for (size_t i = 0; i < first.numbers.size(); i++) all.emplace_back(first.numbers[i], second.numbers[i]);
  pairs_ = all;
  std::ranges::sort(pairs_);
  pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  for (const Pair& pair : all)
    pair_of_.push_back(static_cast<uint32_t>(std::ranges::lower_bound(pairs_, pair) - pairs_.begin()));
}

// The index in `used_` of a pair; nullopt if nothing in the specialized graph has these values.
std::optional<size_t> SizeTemplate::used(const Pair& pair) {
  if (const auto known = used_index_.find(pair); known != used_index_.end()) return known->second;
  Sources sources;
  if (const auto direct = std::ranges::lower_bound(pairs_, pair); direct != pairs_.end() && *direct == pair)
    sources.of_pair = direct - pairs_.begin();
  if (const auto derived = products_.find(pair); derived != products_.end()) sources.products = derived->second;
  if (!sources.of_pair && sources.products.empty()) return std::nullopt;
  used_.push_back(std::move(sources));
  return used_index_[pair] = used_.size() - 1;
}

bool SizeTemplate::relate_numbers(const std::vector<int64_t>& first, const std::vector<int64_t>& second,
                                  std::string& reason) {
  for (size_t i = 0; i < first.size(); i++) {
    const Pair pair(first[i], second[i]);
    const int64_t size = std::abs(pair.first);
    if (pair.first == pair.second && (size <= small_number || size >= unlimited)) continue;
    const auto source = used(pair);
    if (!source && pair.first == pair.second) {  // does not change between these sizes, but may do so beyond them
      interpolates_ = true;
      continue;
    }
    if (!source) {
      reason = cat("the number ", pair.first, " of the optimized program, which became ", pair.second,
                   ", does not occur in the specialized graph");
      return false;
    }
    if (pair.first != pair.second) varying_.emplace_back(i, *source);
  }
  return true;
}

ConstantPtr SizeTemplate::formed(const ConstantData& like, Form form, int64_t size) {
  const auto number = static_cast<double>(size);
  return ConstantData::splat(like.dtype(), {}, form == Form::size ? number : 1 / number);
}

bool SizeTemplate::relate_constants(const Flat& first, const Flat& second, const Flat& first_graph,
                                    const Flat& second_graph, std::string& reason) {
  for (size_t i = 0; i < first.constants.size(); i++) {
    const ConstantData &a = *first.constants[i], &b = *second.constants[i];
    if (same_elements(a, b)) continue;
    Derived derived{.at = i, .copied = {}, .forms = {}};
    for (size_t j = 0; j < first_graph.constants.size() && !derived.copied; j++)
      if (same_elements(*first_graph.constants[j], a) && same_elements(*second_graph.constants[j], b))
        derived.copied = j;
    const bool scalar = a.elements() == 1 || a.is_splat();
    if (!derived.copied && scalar && is_float(a.dtype()) && a.is_splat() == b.is_splat()) {
      const auto fits = [&](const Pair& pair, Form form) {
        const auto is = [](const ConstantData& x, const ConstantPtr& y) {
          return std::equal(y->bytes(), y->bytes() + y->stored_bytes(), x.bytes());
        };
        return is(a, formed(a, form, pair.first)) && is(b, formed(b, form, pair.second));
      };
      const auto consider = [&](const Pair& pair) {
        if (pair.first == pair.second || pair.first <= 0 || pair.second <= 0) return;
        for (const Form form : {Form::size, Form::reciprocal})
          if (fits(pair, form)) derived.forms.emplace_back(form, *used(pair));
      };
      for (const Pair& pair : pairs_) consider(pair);
      for (const auto& [pair, unused] : products_) consider(pair);
    }
    if (!derived.copied && derived.forms.empty()) {
      reason = cat("a constant of the optimized program, ", to_string(TensorType{a.dtype(), Shape(a.dims())}),
                   ", depends on sizes");
      if (scalar) {
        const double before = a.scalar(), after = b.scalar();
        reason += cat(": ", before, " became ", after);
      }
      return false;
    }
    derived_.push_back(std::move(derived));
  }
  // Mark the operations that have varying numbers or constants.
  std::vector<size_t> numbers, constants;
  for (const auto& [at, source] : varying_) numbers.push_back(at);
  for (const Derived& derived : derived_) constants.push_back(derived.at);
  varies_.resize(flat_.starts.size());
  const auto any = [](const std::vector<size_t>& sorted, size_t begin, size_t end) {
    const auto at = std::ranges::lower_bound(sorted, begin);
    return at != sorted.end() && *at < end;
  };
  // An operation with blocks varies if an operation in its blocks does.
  const std::function<void(const Block&, Flat::Start)> mark = [&](const Block& block, Flat::Start end) {
    const std::vector<const Operation*> operations = in_creation_order(block);
    for (size_t i = 0; i < operations.size(); i++) {
      const Operation& operation = *operations[i];
      const auto id = static_cast<size_t>(operation.id);
      const bool last = i + 1 == operations.size();
      const Flat::Start next = last ? end : flat_.starts[static_cast<size_t>(operations[i + 1]->id)];
      varies_[id] = any(numbers, flat_.starts[id].number, next.number) ||
                    any(constants, flat_.starts[id].constant, next.constant);
      for (size_t b = 0; b < operation.blocks.size(); b++) {
        const bool final = b + 1 == operation.blocks.size() || operation.blocks[b + 1]->operations.empty();
        mark(*operation.blocks[b],
             final ? next : flat_.starts[static_cast<size_t>(operation.blocks[b + 1]->operations.front()->id)]);
      }
    }
  };
  mark(program_->graph->root(), {flat_.numbers.size(), flat_.constants.size()});
  return true;
}

// Indices that passes found to be valid must also be valid for other sizes, because nothing checks them during a run.
bool SizeTemplate::relate_indices(const Program& first, const Program& second, std::string& reason) {
  const auto &a = first.recipes->valid_indices(), &b = second.recipes->valid_indices();
  bool related = a.size() == b.size();
  for (size_t i = 0; related && i < a.size(); i++) {
    if (a[i].hash == b[i].hash && a[i].lengths == b[i].lengths) continue;
    related = a[i].least >= 0 && b[i].least >= 0 && a[i].lengths.size() == 1 && b[i].lengths.size() == 1;
    if (!related) break;
    const auto end = used({a[i].end, b[i].end}), length = used({a[i].lengths[0], b[i].lengths[0]});
    related = end && length;
    if (related) at_most_.emplace_back(*end, *length);
  }
  if (!related) reason = "the optimized program contains indices that depend on sizes";
  return related;
}

// The values of `used_` for a specialized graph; nullopt if sources disagree or the order of numbers differs.
std::optional<std::vector<int64_t>> SizeTemplate::values(const Flat& graph) const {
  if (graph.structure != structure_ || graph.numbers.size() != pair_of_.size()) return std::nullopt;
  std::vector<std::optional<int64_t>> of_pairs(pairs_.size());
  for (size_t i = 0; i < pair_of_.size(); i++) {
    std::optional<int64_t>& value = of_pairs[pair_of_[i]];
    if (value && *value != graph.numbers[i]) return std::nullopt;
    value = graph.numbers[i];
  }
  for (size_t i = 0; i < pairs_.size(); i++) {
    const auto& [a, b] = pairs_[i];
    if (a == b && *of_pairs[i] != a) return std::nullopt;
    for (size_t j = 0; a != b && j < pairs_.size(); j++) {
      const auto order = *of_pairs[i] <=> *of_pairs[j];
      if (i != j && order != a <=> pairs_[j].first && order != b <=> pairs_[j].second) return std::nullopt;
    }
    const auto [least, most] = std::minmax(a, b);
    if (interpolates_ && (*of_pairs[i] < least || *of_pairs[i] > most)) return std::nullopt;
    if (*of_pairs[i] > std::max(largest_factor * std::max(a, b), always_near)) return std::nullopt;
    if (std::min(a, b) > std::max(largest_factor * *of_pairs[i], always_near)) return std::nullopt;
  }
  std::vector<int64_t> result;
  for (const Sources& sources : used_) {
    std::optional<int64_t> value = sources.of_pair ? of_pairs[*sources.of_pair] : std::nullopt;
    for (const auto& [begin, end] : sources.products) {
      const auto other = product(graph.numbers, begin, end);
      if (!other || (value && *value != *other)) return std::nullopt;
      value = other;
    }
    result.push_back(*value);
  }
  for (const auto& [number, limit] : at_most_)
    if (result[number] > result[limit]) return std::nullopt;
  for (const auto& [at, value] : unchanged_)
    if (!same_elements(*graph.constants[at], *value)) return std::nullopt;
  return result;
}

std::optional<Program> SizeTemplate::instantiate(const Flat& graph) const {
  const auto known = values(graph);
  if (!known) return std::nullopt;
  std::vector<int64_t> numbers = flat_.numbers;
  for (const auto& [at, source] : varying_) numbers[at] = (*known)[source];
  std::vector<ConstantPtr> constants = flat_.constants;
  for (const Derived& derived : derived_) {
    const ConstantData& old = *flat_.constants[derived.at];
    ConstantPtr value = derived.copied ? graph.constants[*derived.copied] : nullptr;
    for (const auto& [form, source] : derived.forms) {
      ConstantPtr other = formed(old, form, (*known)[source]);
      if (value && !same_elements(*value, *other)) return std::nullopt;
      value = std::move(other);
    }
    constants[derived.at] = old.is_splat() || derived.copied ? value : reshaped(value, old.dims());
  }
  auto program = resized(*program_, flat_, varies_, numbers, constants);
  if (program && std::ranges::find(program->target.passes, OptionalPass::schedule) != program->target.passes.end())
    schedule(*program);
  return program;
}

}  // namespace mpsgraph::compiler
