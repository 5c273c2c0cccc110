// The CPU backend: compiles programs into executables, and evaluates operations on constants for the fold pass.
#include "backends/cpu/backend.h"

#include <functional>
#include <unordered_set>

#include "backends/cpu/amx.h"
#include "backends/cpu/convolution/convolution_taps.h"
#include "backends/cpu/executable.h"
#include "backends/cpu/flush_to_zero.h"
#include "backends/cpu/instruction_set.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/machine_limits.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/prepacked_weights.h"
#include "compiler/passes.h"
#include "core/definition.h"
#include "mpsgraph/runtime/profiler.h"

namespace mpsgraph::cpu {
namespace {

// Describe the CPU to the compiler. 8-bit matmuls require a processor that supports them. If tests request plain loops,
// there are no fused operations and no changes of layout.
compiler::Target target(bool plain_loops) {
  using enum compiler::OptionalPass;
  compiler::Target result{.passes = {prune, normalize, fold, simplify, absorb, fuse_elementwise, schedule},
                          .keeps = plain_loops ? has_plain_kernel : has_kernel,
                          .fuses_epilogues = !plain_loops};
  if (!plain_loops) result.passes.insert(result.passes.end(), {fuse, channels_last});
  if (multiplies_integers() && !plain_loops) result.passes.push_back(quantize);
  return result;
}

// Evaluate an operation on constant inputs, for the fold pass, with the kernel that would run it in a program.
std::vector<ConstantPtr> evaluate(const Operation& operation) {
  if (!has_kernel(operation) || !operation.blocks.empty()) return {};
  compiler::Program program;
  program.graph = std::make_unique<Graph>();
  Block& root = program.graph->root();
  std::vector<Tensor*> inputs;
  for (const Tensor* in : operation.inputs) {
    Attributes value{{"value", in->operation->attributes.data("value")}};
    inputs.push_back(
        program.graph->create_unchecked(root, definition_of("constant"), {}, value, {}, {in->type})->output());
  }
  std::vector<TensorType> types;
  for (const auto& output : operation.outputs) types.push_back(output->type);
  Operation* copy =
      program.graph->create_unchecked(root, *operation.definition, inputs, operation.attributes, {}, types);
  for (const auto& output : copy->outputs) program.targets.push_back(output.get());
  CpuProgram compiled(lower(std::move(program), true), {});
  std::vector<runtime::NDArray> results(types.size());
  compiled.run({}, results);
  std::vector<ConstantPtr> values;
  // Minimum size in bytes of a result that is used in place instead of being copied. Copying a smaller result is faster
  // than the page faults that fresh memory would cause.
  constexpr size_t huge = size_t{8} << 20;
  for (const runtime::NDArray& result : results)
    values.push_back(result.bytes() < huge ? ConstantData::copy(result.dtype(), result.dims(), result.data())
                                           : ConstantData::borrow(result.dtype(), result.dims(), result.data(),
                                                                  std::make_shared<runtime::NDArray>(result)));
  return values;
}

// Return the variables to which any block of the program assigns a value.
std::vector<CpuVariable*> assigned(const compiler::Program& program,
                                   const std::vector<std::shared_ptr<CpuVariable>>& variables) {
  std::unordered_set<const Tensor*> assigned;
  const std::function<void(const Block&)> look = [&](const Block& block) {
    for (const auto& operation : block.operations) {
      if (operation->is("assign")) assigned.insert(operation->input(0));
      for (const auto& inner : operation->blocks) look(*inner);
    }
  };
  look(program.graph->root());
  std::vector<CpuVariable*> result;
  for (size_t i = 0; i < variables.size(); i++)
    if (assigned.contains(program.variables[i])) result.push_back(variables[i].get());
  return result;
}

class CpuBackend final : public runtime::Backend {
 public:
  std::string_view name() const override { return "cpu"; }
  std::string description() const override { return cat("CPU: ", describe()); }
  std::unique_ptr<runtime::CompiledProgram> compile(compiler::Program program,
                                                    std::vector<std::shared_ptr<runtime::VariableStorage>> storages,
                                                    const compiler::Options& options) override {
    const FlushToZero flush;
    if (!program.optimized) compiler::run_passes(program, target(options.reference_kernels), options);
    const runtime::ProfileScope scope("lower", "pass");
    std::vector<std::shared_ptr<CpuVariable>> variables;
    for (auto& storage : storages) variables.push_back(std::static_pointer_cast<CpuVariable>(storage));
    LoweredProgram lowered = lower(std::move(program), options.reference_kernels);
    CpuVariable::own(assigned(lowered.program, variables));
    return std::make_unique<CpuProgram>(std::move(lowered), std::move(variables));
  }
  bool sees_feeds() const override { return true; }
  std::string takes_forms() const override { return packed_for(); }
  std::vector<runtime::DeviceForm> forms() const override { return packed_weights(); }
  runtime::DeviceLimits measure_limits() override { return cpu::measure_limits(); }
  std::shared_ptr<runtime::VariableStorage> make_variable(const ConstantPtr& value,
                                                          const std::shared_ptr<runtime::VariableHome>&) override {
    return std::make_shared<CpuVariable>(value);
  }
  std::vector<runtime::NDArray> read_variables(
      std::span<const std::shared_ptr<runtime::VariableStorage>> storages) override {
    std::vector<runtime::NDArray> values;
    for (const auto& storage : storages) values.push_back(static_cast<const CpuVariable&>(*storage).read());
    return values;
  }
  void write_variables(std::span<const std::shared_ptr<runtime::VariableStorage>> storages,
                       std::span<const runtime::NDArray> values) override {
    for (size_t i = 0; i < storages.size(); ++i) static_cast<CpuVariable&>(*storages[i]).write(values[i]);
  }
};

}  // namespace

void register_backend() {
  runtime::register_backend(
      {.name = "cpu", .make = []() -> std::unique_ptr<runtime::Backend> { return std::make_unique<CpuBackend>(); }});
  // The CPU folds constants for all devices.
  compiler::register_evaluator(evaluate);
}

namespace {
// Register the device when the library is loaded, so that linking the library is enough. Kernels are registered on
// first use.
[[maybe_unused]] const bool registered = (register_backend(), true);
}  // namespace

std::string describe() { return cat(instruction_set(), has_amx() ? " and AMX" : "", ", ", thread_count(), " threads"); }

}  // namespace mpsgraph::cpu
