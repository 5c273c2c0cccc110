// Keeps the last complete compilation of each request, and the templates made from pairs of them.
#include "runtime/size_templates.h"

#include <algorithm>

#include "mpsgraph/core/text.h"
#include "mpsgraph/runtime/profiler.h"
#include "runtime/backend.h"

namespace mpsgraph::runtime {
namespace {

constexpr size_t max_templates = 8, max_groups = 32;
constexpr int max_failures = 8;  // then the program is taken for one that has no template

std::vector<TensorType> types_of(const std::vector<Feed>& feeds) {
  std::vector<TensorType> types;
  for (const Feed& feed : feeds) types.push_back(feed.second);
  return types;
}

// Whether the dimensions of feeds lie on the line through those of two compilations. If several dimensions change
// independently, a decision that is the same at both ends may differ between them.
bool on_line(const std::vector<Feed>& feeds, const std::vector<Feed>& first, const std::vector<Feed>& second) {
  std::optional<std::pair<int64_t, int64_t>> fraction;  // of the way from the first to the second
  for (size_t i = 0; i < feeds.size(); i++) {
    const Dims &now = feeds[i].second.shape.dims(), &a = first[i].second.shape.dims(),
               &b = second[i].second.shape.dims();
    if (now.size() != a.size() || a.size() != b.size()) return false;
    for (size_t axis = 0; axis < now.size(); axis++) {
      const int64_t part = now[axis] - a[axis], whole = b[axis] - a[axis];
      if (whole == 0 && part == 0) continue;
      if (!fraction) fraction = {part, whole};
      if (part * fraction->second != whole * fraction->first) return false;
    }
  }
  return true;
}

}  // namespace

SizeTemplates::Key SizeTemplates::key(const std::vector<Feed>& feeds, const std::vector<Tensor*>& targets,
                                      const std::vector<Operation*>& target_operations) {
  Key key;
  for (const Feed& feed : feeds) key.push_back(feed.first);
  key.push_back(nullptr);
  key.insert(key.end(), targets.begin(), targets.end());
  key.push_back(nullptr);
  key.insert(key.end(), target_operations.begin(), target_operations.end());
  return key;
}

std::optional<SizeTemplates::Found> SizeTemplates::find(const std::vector<Feed>& feeds,
                                                        const std::vector<Tensor*>& targets,
                                                        const std::vector<Operation*>& target_operations) {
  std::lock_guard lock(mutex_);
  const auto group = groups_.find(key(feeds, targets, target_operations));
  if (group == groups_.end() || group->second.entries.empty()) return std::nullopt;
  const ProfileScope scope("respecialize", "pass");
  auto& [last, entries, retyping, traits, failures] = group->second;
  if (!retyping || !retyping->retype(types_of(feeds))) return std::nullopt;
  const compiler::Flat flat(retyping->graph());
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    if (entry->size_template->assigns() && !on_line(feeds, entry->first, entry->second)) continue;
    auto program = entry->size_template->instantiate(flat);
    if (!program) continue;
    entries.splice(entries.begin(), entries, entry);
    return Found{std::move(*program), traits};
  }
  return std::nullopt;
}

void SizeTemplates::add(const Graph& graph, const std::vector<Feed>& feeds, const std::vector<Tensor*>& targets,
                        const std::vector<Operation*>& target_operations, std::shared_ptr<CompiledProgram> compiled,
                        ProgramTraits traits) {
  std::lock_guard lock(mutex_);
  if (groups_.size() > max_groups) groups_.clear();
  Group& group = groups_[key(feeds, targets, target_operations)];
  group.traits = traits;
  if (group.failures >= max_failures) return group.last.reset();
  std::optional<Sample> before = std::exchange(group.last, Sample{feeds, compiled});
  if (!before || before->feeds == feeds) return;
  const auto begin = Profiler::Clock::now();
  std::string reason = "the sizes change the specialized graph";
  const auto flat_of = [&](const std::vector<Feed>& sizes) -> std::optional<compiler::Flat> {
    if (!group.retyping || !group.retyping->retype(types_of(sizes))) return std::nullopt;
    return compiler::Flat(group.retyping->graph());
  };
  auto first = flat_of(before->feeds);
  if (!first) {  // there is no specialized graph yet, or it has another structure
    group.retyping = compiler::trace(graph, before->feeds, targets, target_operations);
    first = flat_of(before->feeds);
  }
  const auto second = first ? flat_of(feeds) : std::nullopt;
  auto made = second ? compiler::SizeTemplate::make(*before->compiled->resizable_program(),
                                                    *compiled->resizable_program(), *first, *second, reason)
                     : nullptr;
  if (const auto session = Profiler::get().session()) {
    const std::string name = made ? "make size template" : cat("no size template: ", reason);
    Profiler::get().record(session, {.name = name, .category = "pass", .kernel = {}}, begin, Profiler::Clock::now());
  }
  group.failures = made ? 0 : group.failures + 1;
  if (!made) return;
  group.entries.push_front({before->feeds, feeds, before->compiled, std::move(made)});
  if (group.entries.size() > max_templates) group.entries.pop_back();
}

void SizeTemplates::clear() {
  std::lock_guard lock(mutex_);
  groups_.clear();
}

}  // namespace mpsgraph::runtime
