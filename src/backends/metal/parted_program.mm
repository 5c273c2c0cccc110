// Compiles the parts of a program and encodes them in sequence.
#include "backends/metal/parted_program.h"

#include <algorithm>
#include <sstream>

#include "backends/metal/guarded.h"
#include "mpsgraph/runtime/custom_library.h"

namespace mpsgraph::metal {

using runtime::NDArray;

bool is_custom(const Operation& operation) { return operation.is("custom"); }

PartedProgram::PartedProgram(MetalDevice& device, compiler::Program program,
                             std::vector<std::shared_ptr<runtime::VariableStorage>> storages)
    : device_(device), parts_([&] {  // the lambda also fills steps_
        // If the variables must move to a new MPSGraph, move them now. A move while a later part is compiled would make
        // the parts compiled before it stale.
        if (!storages.empty()) std::static_pointer_cast<MetalVariable>(storages[0])->home().make_room();
        std::vector<Tensor*> variables = program.source_variables;
        auto parts = compiler::cut_into_parts(std::move(program), is_custom);
        for (compiler::Part& part : parts.parts) {
          Step& step = steps_.emplace_back();
          if (part.program) {
            std::vector<std::shared_ptr<runtime::VariableStorage>> own;
            for (Tensor* variable : part.program->source_variables)
              own.push_back(storages[static_cast<size_t>(std::ranges::find(variables, variable) - variables.begin())]);
            step.program = std::make_unique<MetalProgram>(device_, std::move(*part.program), std::move(own), false);
            continue;
          }
          const CustomOperationPtr custom = custom_operation(*part.alone);
          const auto site = custom_site(*part.alone);
          step.name = part.alone->name;
          if (custom->runs_on_host)
            step.host = runtime::prepared(*custom, site);
          else
            step.kernel = guarded([&] { return std::make_unique<MetalKernel>(device_, *custom, site); });
        }
        return parts;
      }()) {
  for (const compiler::Part& part : parts_.parts)
    for (const size_t value : part.operands) {
      const auto known = parts_.constants.find(value);
      if (known == parts_.constants.end() || constants_.contains(value)) continue;
      const TensorType& type = parts_.values[value];
      NDArray array = guarded([&] { return device_.allocate(type.dtype, type.shape.dims()); });
      known->second->expand_into(array.data());
      constants_.emplace(value, std::move(array));
    }
}

void PartedProgram::run(std::span<const NDArray> feeds, std::span<NDArray> results) {
  guarded([&] {
    MetalCommands commands(this, device_, device_.queue, "program");
    for (size_t i = 0; i < results.size(); ++i)
      if (!results[i].valid()) {
        const TensorType& type = parts_.values[parts_.targets[i]];
        results[i] = device_.allocate(type.dtype, type.shape.dims());
      }
    encode_into(commands, feeds, results);
    commands.finish();
  });
}

bool PartedProgram::encode(runtime::DeviceCommands& commands, std::span<const NDArray> feeds,
                           std::span<NDArray> results) {
  if (std::ranges::any_of(results, [](const NDArray& result) { return !result.valid(); })) return false;
  guarded([&] { encode_into(static_cast<MetalCommands&>(commands), feeds, results); });
  return true;
}

void PartedProgram::encode_into(MetalCommands& commands, std::span<const NDArray> feeds, std::span<NDArray> results) {
  std::vector<NDArray> values(parts_.values.size());
  std::ranges::copy(feeds, values.begin());
  for (const auto& [value, array] : constants_) values[value] = array;
  for (size_t i = 0; i < results.size(); ++i) values[parts_.targets[i]] = results[i];
  const auto given = [&](const std::vector<size_t>& numbers) {
    std::vector<NDArray> arrays;
    for (const size_t value : numbers) {
      NDArray& array = values[value];
      if (!array.valid()) array = device_.allocate(parts_.values[value].dtype, parts_.values[value].shape.dims());
      arrays.push_back(array);
    }
    return arrays;
  };
  bool is_first = true;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const std::vector<NDArray> operands = given(parts_.parts[i].operands);
    std::vector<NDArray> made = given(parts_.parts[i].results);
    const Step& step = steps_[i];
    if (step.program) {
      step.program->encode_part(commands, operands, made, is_first);
      // A failed check must end the run before the next part starts.
      if (step.program->reports() && i + 1 < steps_.size()) commands.finish();
    } else if (step.kernel) {
      if (is_first) commands.next_program();
      step.kernel->encode(commands, operands, made);
    } else {
      run_on_host(step, commands, operands, made);
    }
    is_first = false;
  }
}

// Wait until the device has finished writing the operands, and until other work no longer uses the results.
void PartedProgram::run_on_host(const Step& step, MetalCommands& commands, const std::vector<NDArray>& operands,
                                const std::vector<NDArray>& results) {
  commands.finish();
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (const NDArray& array : operands) {
    device_.uses.wait_for({array, false, false});
    from.push_back(array.data());
  }
  for (const NDArray& array : results) {
    device_.uses.wait_for({array, true, false});
    to.push_back(array.data());
  }
  step.host(from.data(), to.data(), [](int64_t items, int64_t, const auto& f) { f(0, items); });
}

bool PartedProgram::stale() const {
  return std::ranges::any_of(steps_, [](const Step& step) { return step.program && step.program->stale(); });
}

size_t PartedProgram::arena_bytes() const {
  size_t most = 0, passed = 0;
  for (const Step& step : steps_)
    if (step.program) most = std::max(most, step.program->arena_bytes());
  for (const TensorType& type : parts_.values)
    passed += static_cast<size_t>(type.shape.elements()) * size_of(type.dtype);
  return most + passed;
}

size_t PartedProgram::constant_bytes() const {
  size_t bytes = 0;
  for (const Step& step : steps_)
    if (step.program) bytes += step.program->constant_bytes();
  for (const auto& [value, array] : constants_) bytes += array.bytes();
  return bytes;
}

std::vector<std::string> PartedProgram::kernel_names() const {
  std::vector<std::string> names;
  for (const Step& step : steps_) {
    const auto own = step.program ? step.program->kernel_names() : std::vector<std::string>{step.name};
    names.insert(names.end(), own.begin(), own.end());
  }
  return names;
}

std::string PartedProgram::plan() const {
  std::ostringstream out;
  for (const Step& step : steps_) {
    if (step.program)
      out << step.program->plan();
    else
      out << "then " << step.name << (step.kernel ? ", a custom kernel\n" : ", a host function\n");
  }
  return out.str();
}

runtime::SerializedOrder PartedProgram::serialize(const std::filesystem::path&,
                                                  const runtime::SerializationDescriptor&) const {
  const auto custom = std::ranges::find_if(parts_.parts, [](const compiler::Part& part) { return part.alone; });
  throw UnsupportedError(cat("[serialize] an MPSGraphPackage cannot contain custom operations such as '",
                             custom->alone->name, "'; use save()", custom->alone->where()));
}

}  // namespace mpsgraph::metal
