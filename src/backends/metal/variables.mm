// Reads and writes variables between runs, and moves them to a new MPSGraph.
#include "backends/metal/variables.h"

#include <cstring>

#include "backends/metal/guarded.h"
#include "backends/metal/queue.h"
#include "backends/metal/signposts.h"
#include "backends/metal/types.h"

namespace mpsgraph::metal {

using runtime::NDArray;

namespace {

constexpr int spare_programs = 16;

}  // namespace

// --- all variables of a graph ----------------------------------------------------------------------------------------

void MetalVariables::make_room() {
  const auto alive = static_cast<int>(generation_.use_count()) - 1;
  if (programs_ >= 2 * alive + spare_programs) move();
  ++programs_;
}

void MetalVariables::move() {
  std::vector<std::pair<std::shared_ptr<MetalVariable>, NSData*>> values;
  for (const auto& weak : variables_) {
    const auto variable = weak.lock();
    if (!variable || !variable->tensor()) continue;
    const NDArray value = variable->read();
    values.emplace_back(variable, [NSData dataWithBytes:value.data() length:value.bytes()]);
  }
  MPSGraph* graph = [MPSGraph new];
  std::vector<std::pair<std::shared_ptr<MetalVariable>, MetalVariable::InGraph>> declared;
  for (const auto& [variable, value] : values) declared.emplace_back(variable, variable->declared(graph, value));
  graph_ = graph;
  generation_ = std::make_shared<int>(*generation_ + 1);
  programs_ = 0;
  variables_.clear();
  for (const auto& [variable, there] : declared) {
    variable->there_ = there;
    variables_.push_back(variable);
  }
}

// --- one variable ----------------------------------------------------------------------------------------------------

std::shared_ptr<MetalVariable> MetalVariable::make(std::shared_ptr<MetalVariables> home, const ConstantPtr& value) {
  return guarded([&] {
    std::shared_ptr<MetalVariable> variable(new MetalVariable(home, {value->dtype(), Shape(value->dims())}));
    if (value->elements() > 0) variable->there_ = variable->declared(home->graph_, bytes_of(value));
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

NDArray MetalVariable::read() const {
  return guarded([&] {
    NDArray value = home_->device_.allocate(type_.dtype, type_.shape.dims());
    if (!tensor()) return value;
    const Signpost copying(Phase::copy, "read a variable");
    const ArrayData target = home_->device_.data_of(value);  // pooled memory is never staged
    run_now(home_->device_.queue, [&](MPSCommandBuffer* buffer) {
      [home_->graph_ encodeToCommandBuffer:buffer
                                     feeds:@{}
                          targetOperations:nil
                         resultsDictionary:@{there_.value : target.data}
                       executionDescriptor:execution_descriptor()];
    });
    return value;
  });
}

void MetalVariable::write(const NDArray& value) {
  if (!tensor()) return;
  const NDArray plain = value.contiguous() ? value : value.copy_contiguous();
  guarded([&] {
    const Signpost copying(Phase::copy, "write a variable");
    const ArrayData source = home_->device_.data_of(plain);
    home_->device_.uses.wait_for({plain, false, source.tracked});
    if (source.staged) std::memcpy(source.staged->buffer.contents, plain.data(), plain.bytes());
    run_now(home_->device_.queue, [&](MPSCommandBuffer* buffer) {
      [home_->graph_ encodeToCommandBuffer:buffer
                                     feeds:@{there_.given : source.data}
                          targetOperations:@[ there_.assign ]
                         resultsDictionary:@{}
                       executionDescriptor:execution_descriptor()];
    });
  });
}

}  // namespace mpsgraph::metal
