// Profiling of kernels: builds their descriptions from operations, and times each kernel of a run.
#include "backends/cpu/kernel_profile.h"

#include "compiler/operation_cost.h"

namespace mpsgraph::cpu {
namespace {

// maximum number of operations in a merged kernel for which the description lists the operation types
constexpr size_t most_operations = 4;
constexpr size_t most_characters = 240;  // maximum length of the description that a kernel provides

std::string types_of(const Operation& operation) {
  std::string text;
  for (const Tensor* in : operation.inputs) text += cat(text.empty() ? "" : ", ", in->type);
  text += " -> ";
  for (size_t i = 0; i < operation.outputs.size(); i++) text += cat(i ? ", " : "", operation.output(i)->type);
  return text;
}

runtime::KernelDescription describe(const Kernel& kernel) {
  runtime::KernelDescription description;
  description.name = kernel.name;
  description.implementation = explained(kernel);
  if (description.implementation.size() > most_characters) {
    description.implementation.resize(most_characters);
    description.implementation += " ...";
  }
  for (size_t i = 0; i < kernel.operations.size(); i++) {
    const Operation& operation = *kernel.operations[i];
    const compiler::OperationCost cost = compiler::cost_of(operation);
    description.flops += cost.flops;
    description.bytes_read += cost.bytes_read;
    description.bytes_written += cost.bytes_written;
    if (i < most_operations) description.types += cat(i ? "; " : "", types_of(operation));
  }
  const size_t more = kernel.operations.size();
  if (more > most_operations) description.types += cat("; and ", more - most_operations, " more");
  if (kernel.operations.empty()) {
    description.kind = "copy";
    description.bytes_read = description.bytes_written = static_cast<double>(kernel.copied_bytes);
    return description;
  }
  description.kind = kernel.operations.front()->kind();
  description.location = kernel.operations.front()->location.text();
  return description;
}

// Times one kernel. The destructor records the time, so that a profile also shows a kernel that throws.
struct Timed {
  const runtime::Profiler::Session session;
  const std::shared_ptr<const KernelDescriptions>& descriptions;
  const int index;
  const runtime::Profiler::Clock::time_point begin = runtime::Profiler::Clock::now();

  ~Timed() {
    const auto end = runtime::Profiler::Clock::now();
    try {
      runtime::Profiler::get().record(
          session,
          {.name = {}, .category = "kernel", .kernel = {descriptions, &(*descriptions)[static_cast<size_t>(index)]}},
          begin, end);
    } catch (...) {  // out of memory: drop the record, keep the result
    }
  }
};

}  // namespace

std::shared_ptr<const KernelDescriptions> describe_kernels(const LoweredProgram& lowered) {
  auto descriptions = std::make_shared<KernelDescriptions>();
  for (const Kernel* kernel : lowered.all_kernels)
    descriptions->push_back(kernel ? describe(*kernel) : runtime::KernelDescription{});
  return descriptions;
}

void KernelProfile::run(const Kernel& kernel, Frame& frame) const {
  const Timed timed{session_, descriptions_, kernel.index};
  kernel.run(frame);
}

void run_kernels(std::span<const std::unique_ptr<Kernel>> list, Frame& frame) {
  for (const auto& kernel : list) {
    frame.poll();
    if (frame.profile)
      frame.profile->run(*kernel, frame);
    else
      kernel->run(frame);
  }
}

}  // namespace mpsgraph::cpu
