// MetalProgram compiles, feeds, and runs a program.
#include "backends/metal/program.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "backends/metal/array_uses.h"
#include "backends/metal/guarded.h"
#include "backends/metal/signposts.h"
#include "core/ops/any_outside.h"
#include "core/ops/out_of_range.h"

namespace mpsgraph::metal {

using runtime::NDArray;

namespace {

std::vector<bool> present(const GraphTensors& tensors) {
  std::vector<bool> result;
  for (MPSGraphTensor* tensor : tensors) result.push_back(tensor != nil);
  return result;
}

size_t bytes_of_constants(const Block& block) {
  size_t bytes = 0;
  for (const auto& operation : block.operations) {
    if (operation->is("constant")) bytes += operation->attributes.data("value")->stored_bytes();
    for (const auto& inner : operation->blocks) bytes += bytes_of_constants(*inner);
  }
  return bytes;
}

// Return the peak total size in bytes of a block's results; a tensor lives from its creation to its last use.
size_t most_alive(const Block& block) {
  std::unordered_map<const Tensor*, size_t> last_use;
  for (size_t i = 0; i < block.operations.size(); ++i)
    for (const Tensor* input : block.operations[i]->inputs) last_use[input] = i;
  std::vector<size_t> freed(block.operations.size());
  size_t alive = 0, most = 0;
  for (size_t i = 0; i < block.operations.size(); ++i) {
    const Operation& operation = *block.operations[i];
    if (operation.is({"constant", "placeholder", "variable"})) continue;
    for (const auto& output : operation.outputs) {
      const size_t bytes = static_cast<size_t>(output->shape().elements()) * size_of(output->dtype());
      const auto use = last_use.find(output.get());
      alive += bytes;
      freed[use == last_use.end() ? i : use->second] += bytes;
    }
    size_t within = 0;
    for (const auto& inner : operation.blocks) within = std::max(within, most_alive(*inner));
    most = std::max(most, alive + within);
    alive -= freed[i];
  }
  return most;
}

}  // namespace

// --- arrays of a run -------------------------------------------------------------------------------------------------

RunData::RunData(MetalDevice& device, MetalCommands& commands, std::span<const NDArray> feeds,
                 std::span<NDArray> results, const std::vector<bool>& fed, const std::vector<bool>& computed)
    : inputs(feeds.size()), outputs(results.size()) {
  ArrayUses uses(device);
  for (size_t i = 0; i < feeds.size(); ++i)
    if (fed[i]) inputs[i] = uses.data(feeds[i], Access::reads).data;
  for (size_t i = 0; i < results.size(); ++i) {
    if (computed[i])
      outputs[i] = uses.data(results[i], Access::writes).data;
    else
      uses.written_by_host(results[i]);
  }
  uses.begin(commands);
}

// --- programs --------------------------------------------------------------------------------------------------------

MetalProgram::MetalProgram(MetalDevice& device, compiler::Program program,
                           std::vector<std::shared_ptr<runtime::VariableStorage>> storages, bool makes_room)
    : device_(device), program_(std::move(program)), storages_(std::move(storages)) {
  const Signpost compiling(Phase::compile, program_.targets.empty() ? "program" : program_.targets.front()->name());
  guarded([&] {
    GraphTensors variables;
    for (const auto& storage : storages_) {
      const auto variable = std::static_pointer_cast<MetalVariable>(storage);
      if (!home_) {
        home_ = variable->home().shared_from_this();
        if (makes_room) home_->make_room();
      }
      variables.push_back(variable->tensor());
    }
    if (home_) generation_ = home_->generation();
    MPSGraph* graph = home_ ? home_->graph() : [MPSGraph new];
    // The variables may just have moved to another MPSGraph.
    for (size_t i = 0; i < storages_.size(); ++i)
      variables[i] = static_cast<const MetalVariable&>(*storages_[i]).tensor();
    ProgramLowering lowering(graph, program_, std::move(variables));
    lowering.run();
    names_ = lowering.names;
    reports_ = lowering.reports;
    fed_ = present(lowering.feeds);
    computed_ = present(lowering.targets);
    compiled_ = GraphProgram(device_, graph, lowering.feeds, lowering.targets,
                             home_ ? lowering.target_operations : nil,  // without variables, operations have no effects
                             home_ ? home_->form : GraphProgram::Form::executable);
  });
  constant_bytes_ = bytes_of_constants(program_.graph->root());
  arena_bytes_ = most_alive(program_.graph->root());
}

void MetalProgram::run(std::span<const NDArray> feeds, std::span<NDArray> results) {
  guarded([&] {
    MetalCommands commands(this, device_, device_.queue, "program");
    for (size_t i = 0; i < results.size(); ++i)
      if (!results[i].valid()) {
        const TensorType& type = program_.targets[i]->type;
        results[i] = device_.allocate(type.dtype, type.shape.dims());
      }
    encode_into(commands, feeds, results);
    commands.finish();
  });
}

bool MetalProgram::encode(runtime::DeviceCommands& commands, std::span<const NDArray> feeds,
                          std::span<NDArray> results) {
  if (std::ranges::any_of(results, [](const NDArray& result) { return !result.valid(); })) return false;
  guarded([&] { encode_into(static_cast<MetalCommands&>(commands), feeds, results); });
  return true;
}

void MetalProgram::encode_part(MetalCommands& commands, std::span<const NDArray> feeds, std::span<NDArray> results,
                               bool is_first) {
  guarded([&] { encode_into(commands, feeds, results, is_first); });
}

void MetalProgram::encode_into(MetalCommands& commands, std::span<const NDArray> feeds, std::span<NDArray> results,
                               bool is_first) {
  const Signpost encoding(Phase::encode, names_.empty() ? "program" : names_.back());
  check_feeds(commands, feeds);
  std::vector<NDArray> outputs(results.begin(), results.end());
  for (NDArray& report : read_reports(commands)) outputs.push_back(std::move(report));
  const RunData data(device_, commands, feeds, outputs, fed_, computed_);
  for (size_t i = 0; i < results.size(); ++i) {
    if (computed_[i]) continue;
    const ConstantPtr value = program_.targets[i]->operation->attributes.data("value");
    commands.copy_back([value, result = results[i]] { value->expand_into(result.data()); });
  }
  if (!compiled_.computes()) return;
  MPSCommandBuffer* buffer = is_first ? commands.next_program() : commands.this_program();
  const std::lock_guard lock(home_ ? home_->encoding : encoding_);
  compiled_.encode(buffer, data.inputs, data.outputs);
}

void MetalProgram::check_feeds(MetalCommands& commands, std::span<const NDArray> feeds) {
  for (const ProgramLowering::Report& report : reports_) {
    if (report.feed < 0) continue;
    const NDArray& fed = feeds[static_cast<size_t>(report.feed)];
    const PendingUses::Use use(fed, false, false);
    if (!device_.uses.try_add({use})) {
      commands.finish();  // the pending writer may be part of `commands`
      device_.uses.wait_for(use);
    }
    const Operation& operation = *report.operation;
    if (ops::any_outside(fed.data(), fed.dtype(), element_count(fed.dims()), operation.attributes.integers("lengths"),
                         operation.attributes.integers("ignored")))
      ops::refuse(operation, fed.data());
  }
}

std::vector<NDArray> MetalProgram::read_reports(MetalCommands& commands) {
  std::vector<NDArray> arrays;
  const auto ended = std::make_shared<bool>(false);
  for (const ProgramLowering::Report& report : reports_) {
    if (report.feed >= 0) continue;
    std::vector<NDArray> own;
    for (const TensorType& type : report.types) own.push_back(device_.allocate(type.dtype, type.shape.dims()));
    arrays.insert(arrays.end(), own.begin(), own.end());
    commands.copy_back([own = std::move(own), read = report.read, ended] {
      if (std::exchange(*ended, true)) return;
      read(own);
      *ended = false;
    });
  }
  return arrays;
}

std::string MetalProgram::plan() const {
  std::ostringstream out;
  out << names_.size() << " operations in "
      << (compiled_.executable() ? "an MPSGraphExecutable" : "the MPSGraph of the variables") << ", constants "
      << constant_bytes_ << " bytes\n";
  for (const std::string& name : names_) out << "  " << name << "\n";
  return out.str();
}

}  // namespace mpsgraph::metal
