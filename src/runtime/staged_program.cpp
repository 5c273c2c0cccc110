// Staged programs: runs a program and then its rest, and looks up the rest that was compiled for the current values of
// the feeds that determine its shapes or branches.
#include "runtime/staged_program.h"

#include <algorithm>
#include <sstream>

namespace mpsgraph::runtime {

namespace {

constexpr size_t max_known = 16;

bool same_values(const std::vector<ConstantPtr>& values, std::span<const NDArray> feeds,
                 const std::vector<size_t>& deciding) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::equal(values[i]->bytes(), values[i]->bytes() + values[i]->stored_bytes(), feeds[deciding[i]].data()))
      return false;
  return true;
}

}  // namespace

StagedProgram::StagedProgram(std::unique_ptr<CompiledProgram> first, size_t first_targets,
                             std::shared_ptr<const compiler::Rest> rest, CompileProgram compile)
    : first_(std::move(first)), first_targets_(first_targets), rest_(std::move(rest)), compile_(std::move(compile)) {}

void StagedProgram::run(std::span<const NDArray> feeds, std::span<NDArray> results) {
  std::vector<NDArray> first(first_targets_), inputs, late;
  for (size_t i = 0; i < rest_->early.size(); ++i) first[i] = results[rest_->early[i]];
  if (first_) first_->run(feeds, first);
  for (size_t i = 0; i < rest_->early.size(); ++i) results[rest_->early[i]] = first[i];
  for (const auto& [is_feed, index, is_given] : rest_->sources) inputs.push_back(is_feed ? feeds[index] : first[index]);
  for (size_t number : rest_->late) late.push_back(results[number]);
  const Known rest = rest_for(inputs);
  for (size_t i = 0; i < late.size(); ++i) {
    if (late[i].valid() && !compatible(rest.types[i].shape, Shape(late[i].dims())))
      throw ShapeError(cat("[run] the result array given for target ", rest_->targets[i]->name(), " must have shape ",
                           rest.types[i].shape, ", got ", to_string(late[i].dims()),
                           rest_->targets[i]->operation->where()));
  }
  rest.program->run(inputs, late);
  for (size_t i = 0; i < late.size(); ++i) results[rest_->late[i]] = late[i];
}

std::list<StagedProgram::Known>::const_iterator StagedProgram::find(std::span<const NDArray> feeds) const {
  return std::ranges::find_if(
      known_, [&](const Known& k) { return same_values(k.values, feeds, rest_->deciding) && !k.program->stale(); });
}

bool StagedProgram::compiles(std::span<const NDArray> feeds) const {
  if (first_) return false;  // If a part precedes the rest, every run excludes all others in any case.
  std::lock_guard lock(mutex_);
  return find(feeds) == known_.end();
}

StagedProgram::Known StagedProgram::rest_for(std::span<const NDArray> feeds) {
  {
    std::lock_guard lock(mutex_);
    if (const auto found = find(feeds); found != known_.end()) {
      known_.splice(known_.begin(), known_, found);
      return *found;
    }
  }
  std::vector<TensorType> types;
  for (const NDArray& feed : feeds) types.push_back(feed.type());
  Values values;
  for (size_t i : rest_->deciding)
    values.push_back(ConstantData::copy(feeds[i].dtype(), feeds[i].dims(), feeds[i].data()));
  auto program = compiler::specialize(*rest_, types, values);
  Known made{std::move(values), compiler::target_types(program), nullptr};
  made.program = compile_(std::move(program));
  std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const Known& k) { return k.program->stale(); });
  known_.push_front(made);
  if (known_.size() > max_known) known_.pop_back();
  return made;
}

std::vector<StagedProgram::Known> StagedProgram::known() const {
  std::lock_guard lock(mutex_);
  return {known_.begin(), known_.end()};
}

size_t StagedProgram::own_arena_bytes() const {
  size_t bytes = first_ ? first_->own_arena_bytes() : 0;
  for (const Known& k : known()) bytes += k.program->own_arena_bytes();
  return bytes;
}

size_t StagedProgram::shared_bytes() const {
  size_t most = first_ ? first_->shared_bytes() : 0;
  for (const Known& k : known()) most = std::max(most, k.program->shared_bytes());
  return most;
}

size_t StagedProgram::constant_bytes() const {
  size_t bytes = first_ ? first_->constant_bytes() : 0;
  for (const Known& k : known()) bytes += k.program->constant_bytes();
  return bytes;
}

std::vector<std::string> StagedProgram::kernel_names() const {
  std::vector<std::string> names;
  if (first_) names = first_->kernel_names();
  const std::vector<Known> rests = known();
  if (!rests.empty())
    for (std::string& name : rests.front().program->kernel_names()) names.push_back(std::move(name));
  return names;
}

std::string StagedProgram::plan() const {
  std::ostringstream out;
  if (first_) out << first_->plan();
  for (const Known& k : known()) {
    out << (first_ ? "then, when" : "when");
    for (const ConstantPtr& value : k.values) out << " " << to_string(value->integers());
    out << ":\n" << k.program->plan();
  }
  return out.str();
}

}  // namespace mpsgraph::runtime
