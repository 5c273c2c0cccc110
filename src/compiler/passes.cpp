// The pipeline: the passes, their order, and the observers they call.
#include "compiler/passes.h"

#include "compiler/recipes.h"

#include <algorithm>

#include "mpsgraph/core/text.h"

namespace mpsgraph::compiler {

namespace {

constexpr int64_t max_shown_elements = 1024;  // limit for constants in the text passed to observers

}  // namespace

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes = {
      {"prune", "removes operations that neither results nor effects need", prune, OptionalPass::prune},
      {"finite", "with check_finite: adds checks that name the operation producing a NaN or an infinity", finite, {}},
      {"channels_last", "converts channels-first images around convolutions to channels last", channels_last,
       OptionalPass::channels_last},
      {"quantize", "turns dequantize, convolution or matmul, and quantize into one integer operation", quantize,
       OptionalPass::quantize},
      {"widen", "computes half-precision sums and multi-step operations in float32, rounding once", widen, {}},
      {"normalize", "fuses batch and layer normalizations, and their gradients, with the operations around them",
       normalize, OptionalPass::normalize},
      {"indices", "clips out-of-range indices, or checks them before all effects", indices, {}},
      {"expand", "replaces composites with operations for which backends have kernels", expand, {}},
      {"fold", "replaces operations on constants with constants", fold, OptionalPass::fold},
      {"simplify", "applies algebra, merges duplicates, forwards variable reads, resolves branches", simplify,
       OptionalPass::simplify},
      {"absorb", "folds constant scales and shifts along channels into constant weights", absorb, OptionalPass::absorb},
      {"fuse", "fuses bias, residual and activation into convolutions and matmuls", fuse, OptionalPass::fuse},
      {"fuse_elementwise", "merges each region of element-wise operations into one kernel", fuse_elementwise,
       OptionalPass::fuse_elementwise},
      {"schedule", "runs operations that free more memory than they allocate as early as possible", schedule,
       OptionalPass::schedule},
  };
  return passes;
}

const Pass& pass_named(std::string_view name) {
  std::string names;
  for (const Pass& pass : all_passes()) {
    if (pass.name == name) return pass;
    names += cat(names.empty() ? "" : ", ", pass.name);
  }
  throw GraphError(cat("unknown pass \"", name, "\"; the passes are ", names));
}

void run_passes(Program& program, const Target& target, const Options& options) {
  program.target = target;
  for (const std::string& name : options.disabled_passes) {
    if (!pass_named(name).optional)
      throw GraphError(cat("pass \"", name, "\" cannot be disabled, because backends rely on it"));
  }
  auto observe = [&](std::string_view pass) {
    if (!options.observe) return;
    PrintOptions print_options;
    print_options.max_constant_elements = max_shown_elements;
    options.observe(pass, print(*program.graph, print_options));
  };
  observe("specialize");
  const auto recipes = std::make_shared<Recipes>();
  const Recipes::Scope scope(*recipes);
  for (const Pass& pass : all_passes()) {
    if (pass.run == finite && !options.check_finite) continue;
    if (pass.optional && std::ranges::find(target.passes, *pass.optional) == target.passes.end()) continue;
    if (std::ranges::find(options.disabled_passes, pass.name) != options.disabled_passes.end()) continue;
    const auto begin = std::chrono::steady_clock::now();
    pass.run(program);
    if (options.observe_time) options.observe_time(pass.name, begin, std::chrono::steady_clock::now());
    observe(pass.name);
  }
  program.recipes = recipes;
}

}  // namespace mpsgraph::compiler
