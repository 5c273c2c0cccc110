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

// For each tensor in `theirs`, the feeds or targets in the executable's order, return its position in `ours`, the same
// tensors in the requested order.
std::vector<size_t> places(NSArray<MPSGraphTensor*>* theirs, const GraphTensors& ours, const char* what) {
  std::vector<size_t> order;
  for (MPSGraphTensor* tensor in theirs) {
    const auto found = std::ranges::find(ours, tensor);
    if (found == ours.end())
      throw DeviceError(cat("[metal] expected each ", what, " of MPSGraph's executable among the requested tensors, ",
                            "got a different tensor; please report this"));
    order.push_back(static_cast<size_t>(found - ours.begin()));
  }
  return order;
}

std::vector<bool> present(const GraphTensors& tensors) {
  std::vector<bool> result;
  for (MPSGraphTensor* tensor : tensors) result.push_back(tensor != nil);
  return result;
}

NSArray<MPSGraphTensorData*>* in_order(const std::vector<MPSGraphTensorData*>& data, const std::vector<size_t>& order) {
  NSMutableArray<MPSGraphTensorData*>* array = [NSMutableArray array];
  for (const size_t i : order) [array addObject:data[i]];
  return array;
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
    if (operation.is("constant") || operation.is("placeholder") || operation.is("variable")) continue;
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

// --- executables -----------------------------------------------------------------------------------------------------

CompiledGraph CompiledGraph::compile(MetalDevice& device, const ProgramLowering& lowering) {
  NSMutableDictionary<MPSGraphTensor*, MPSGraphShapedType*>* types = [NSMutableDictionary dictionary];
  for (MPSGraphTensor* feed : lowering.feeds)
    if (feed) types[feed] = [[MPSGraphShapedType alloc] initWithShape:feed.shape dataType:feed.dataType];
  NSMutableArray<MPSGraphTensor*>* targets = [NSMutableArray array];
  for (MPSGraphTensor* target : lowering.targets)
    if (target) [targets addObject:target];
  CompiledGraph result;
  if (targets.count == 0) return result;
  result.executable = [lowering.graph compileWithDevice:device.graph_device
                                                  feeds:types
                                          targetTensors:targets
                                       targetOperations:nil
                                  compilationDescriptor:compilation_descriptor()];
  if (!result.executable) throw DeviceError("[metal] MPSGraph failed to compile the program; use device=\"cpu\"");
  result.feeds = places(result.executable.feedTensors, lowering.feeds, "feed");
  result.targets = places(result.executable.targetTensors, lowering.targets, "target");
  return result;
}

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
    graph_ = home_ ? home_->graph() : [MPSGraph new];
    // The variables may just have moved to another MPSGraph.
    for (size_t i = 0; i < storages_.size(); ++i)
      variables[i] = static_cast<const MetalVariable&>(*storages_[i]).tensor();
    ProgramLowering lowering(graph_, program_, std::move(variables));
    lowering.run();
    feeds_ = lowering.feeds;
    targets_ = lowering.targets;
    target_operations_ = lowering.target_operations;
    names_ = lowering.names;
    reports_ = lowering.reports;
    fed_ = present(feeds_);
    computed_ = present(targets_);
    if (!home_) compiled_ = CompiledGraph::compile(device_, lowering);
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
  if (compiled_.executable) {
    MPSCommandBuffer* buffer = is_first ? commands.next_program() : commands.this_program();
    const std::lock_guard lock(encoding_);
    [compiled_.executable encodeToCommandBuffer:buffer
                                    inputsArray:in_order(data.inputs, compiled_.feeds)
                                   resultsArray:in_order(data.outputs, compiled_.targets)
                            executionDescriptor:nil];
    return;
  }
  if (!home_) return;  // without variables, there are only constants
  NSMutableDictionary<MPSGraphTensor*, MPSGraphTensorData*>* in = [NSMutableDictionary dictionary];
  NSMutableDictionary<MPSGraphTensor*, MPSGraphTensorData*>* out = [NSMutableDictionary dictionary];
  for (size_t i = 0; i < feeds_.size(); ++i)
    if (fed_[i]) in[feeds_[i]] = data.inputs[i];
  for (size_t i = 0; i < targets_.size(); ++i)
    if (computed_[i]) out[targets_[i]] = data.outputs[i];
  if (out.count == 0 && target_operations_.count == 0) return;
  MPSCommandBuffer* buffer = is_first ? commands.next_program() : commands.this_program();
  const std::lock_guard lock(home_->encoding);
  [graph_ encodeToCommandBuffer:buffer
                          feeds:in
               targetOperations:target_operations_
              resultsDictionary:out
            executionDescriptor:execution_descriptor()];
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
  out << names_.size() << " operations in " << (home_ ? "the MPSGraph of the variables" : "an MPSGraphExecutable")
      << ", constants " << constant_bytes_ << " bytes\n";
  for (const std::string& name : names_) out << "  " << name << "\n";
  return out.str();
}

}  // namespace mpsgraph::metal
