// Reads and writes variables between runs, and moves them to a new MPSGraph.
#include "backends/metal/variables.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/metal/guarded.h"
#include "backends/metal/queue.h"
#include "backends/metal/shared_variables.h"
#include "backends/metal/signposts.h"
#include "backends/metal/types.h"

namespace mpsgraph::metal {

using runtime::NDArray;

namespace {

constexpr int spare_programs = 16;
constexpr size_t most_accesses = 64;
// Values that the device cannot map are copied before they are written, so the values of one program are limited.
constexpr size_t most_written_bytes = size_t{1} << 30;
constexpr std::byte zero{0};

}  // namespace

// --- all variables of a graph ----------------------------------------------------------------------------------------

MetalVariables::MetalVariables(MetalDevice& device)
    : form(executables_share_variables(device) ? GraphProgram::Form::executable : GraphProgram::Form::through_graph),
      device_(device),
      graph_([MPSGraph new]) {}

void MetalVariables::make_room() {
  const auto alive = static_cast<int>(generation_.use_count()) - 1;
  if (programs_ >= 2 * alive + spare_programs) move();
  ++programs_;
}

void MetalVariables::move() {
  std::vector<std::shared_ptr<runtime::VariableStorage>> storages;
  for (const auto& weak : variables_)
    if (const auto variable = weak.lock(); variable && variable->tensor()) storages.push_back(variable);
  const std::vector<NDArray> values = read(storages);
  MPSGraph* graph = [MPSGraph new];
  std::vector<MetalVariable::InGraph> declared;
  GraphTensors given;
  NSMutableArray<MPSGraphOperation*>* assigns = [NSMutableArray array];
  for (size_t i = 0; i < storages.size(); ++i) {
    declared.push_back(
        static_cast<const MetalVariable&>(*storages[i]).declared(graph, repeated({&zero, 1}, values[i].bytes())));
    given.push_back(declared.back().given);
    [assigns addObject:declared.back().assign];
  }
  assign(GraphProgram(device_, graph, std::move(given), {}, assigns, form), values);
  graph_ = graph;
  generation_ = std::make_shared<int>(*generation_ + 1);
  programs_ = 0;
  accesses_.clear();
  variables_.clear();
  for (size_t i = 0; i < storages.size(); ++i) {
    const auto variable = std::static_pointer_cast<MetalVariable>(storages[i]);
    variable->there_ = declared[i];
    variables_.push_back(variable);
  }
}

NSData* MetalVariables::repeated(std::span<const std::byte> element, size_t bytes) {
  NSData* __strong& largest = repeated_[{element.begin(), element.end()}];
  if (largest.length < bytes) {
    // Sizes are powers of two, so that the data of all sizes is less than four times as large as the largest variable.
    NSMutableData* data = [NSMutableData dataWithLength:std::bit_ceil(bytes)];
    auto* to = static_cast<std::byte*>(data.mutableBytes);
    if (std::ranges::any_of(element, [](std::byte byte) { return byte != zero; }))
      for (size_t i = 0; i < data.length; ++i) to[i] = element[i % element.size()];
    largest = data;
  }
  NSData* kept = largest;
  return [[NSData alloc] initWithBytesNoCopy:const_cast<void*>(kept.bytes)
                                      length:bytes
                                 deallocator:^(void*, NSUInteger) { (void)kept; }];
}

const GraphProgram& MetalVariables::access(GraphTensors feeds, GraphTensors targets,
                                           NSArray<MPSGraphOperation*>* operations) {
  const auto found = std::ranges::find_if(
      accesses_, [&](const GraphProgram& program) { return program.feeds() == feeds && program.targets() == targets; });
  if (found != accesses_.end()) {
    accesses_.splice(accesses_.begin(), accesses_, found);
  } else {
    accesses_.emplace_front(device_, graph_, std::move(feeds), std::move(targets), operations, form);
    if (accesses_.size() > most_accesses) accesses_.pop_back();
  }
  return accesses_.front();
}

std::vector<NDArray> MetalVariables::read(Storages storages) {
  return guarded([&] {
    std::vector<NDArray> values;
    GraphTensors targets;
    std::vector<MPSGraphTensorData*> outputs;
    for (const auto& storage : storages) {
      const auto& variable = static_cast<const MetalVariable&>(*storage);
      values.push_back(device_.allocate(variable.type_.dtype, variable.type_.shape.dims()));
      if (!variable.tensor()) continue;
      targets.push_back(variable.there_.value);
      outputs.push_back(device_.data_of(values.back()).data);  // pooled memory is never staged
    }
    if (targets.empty()) return values;
    const Signpost copying(Phase::copy, "read variables");
    const GraphProgram& program = access({}, std::move(targets), nil);
    run_now(device_.queue, [&](MPSCommandBuffer* buffer) { program.encode(buffer, {}, outputs); });
    return values;
  });
}

void MetalVariables::write(Storages storages, std::span<const NDArray> values) {
  guarded([&] {
    size_t next = 0;
    while (next < storages.size()) {
      GraphTensors given;
      NSMutableArray<MPSGraphOperation*>* assigns = [NSMutableArray array];
      std::vector<NDArray> written;
      for (size_t bytes = 0; next < storages.size() && bytes < most_written_bytes; ++next) {
        const auto& variable = static_cast<const MetalVariable&>(*storages[next]);
        if (!variable.tensor()) continue;
        given.push_back(variable.there_.given);
        [assigns addObject:variable.there_.assign];
        written.push_back(values[next]);
        bytes += values[next].bytes();
      }
      if (!given.empty()) assign(access(std::move(given), {}, assigns), written);
    }
  });
}

void MetalVariables::assign(const GraphProgram& program, std::span<const NDArray> values) {
  if (!program.computes()) return;
  const Signpost copying(Phase::copy, "write variables");
  std::vector<NDArray> plain;
  std::vector<ArrayData> sources;
  std::vector<MPSGraphTensorData*> inputs;
  for (const NDArray& value : values) {
    plain.push_back(value.contiguous() ? value : value.copy_contiguous());
    sources.push_back(device_.data_of(plain.back()));
    const ArrayData& source = sources.back();
    device_.uses.wait_for({plain.back(), false, source.tracked});
    if (source.staged) std::memcpy(source.staged->buffer.contents, plain.back().data(), plain.back().bytes());
    inputs.push_back(source.data);
  }
  run_now(device_.queue, [&](MPSCommandBuffer* buffer) { program.encode(buffer, inputs, {}); });
}

// --- one variable ----------------------------------------------------------------------------------------------------

std::shared_ptr<MetalVariable> MetalVariable::make(std::shared_ptr<MetalVariables> home, const ConstantPtr& value) {
  return guarded([&] {
    std::shared_ptr<MetalVariable> variable(new MetalVariable(home, {value->dtype(), Shape(value->dims())}));
    if (value->elements() > 0) {
      const size_t bytes = static_cast<size_t>(value->elements()) * size_of(value->dtype());
      const size_t each = size_of(value->dtype());
      NSData* start = value->is_splat() ? home->repeated({value->bytes(), each}, bytes) : bytes_of(value);
      variable->there_ = variable->declared(home->graph_, start);
    }
    std::erase_if(home->variables_, [](const auto& other) { return other.expired(); });
    home->variables_.push_back(variable);
    return variable;
  });
}

MetalVariable::InGraph MetalVariable::declared(MPSGraph* graph, NSData* value) const {
  MPSShape* shape = shape_of(type_);
  const MPSDataType type = data_type(type_.dtype);
  InGraph there;
  there.variable = [graph variableWithData:value shape:shape dataType:type name:nil];
  there.value = [graph readVariable:there.variable name:nil];
  there.given = [graph placeholderWithShape:shape dataType:type name:nil];
  there.assign = [graph assignVariable:there.variable withValueOfTensor:there.given name:nil];
  return there;
}

}  // namespace mpsgraph::metal
