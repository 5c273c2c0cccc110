// The pipeline: which passes there are, in which order they run, and who may watch.
#include "compiler/passes.h"

#include <algorithm>

#include "mpsgraph/core/text.h"

namespace mpsgraph::compiler {

namespace {

constexpr int64_t max_shown_elements = 1024;  // of a constant in the text that observers get

}  // namespace

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes = {
      {"prune", "drops what neither results nor effects need", prune, OptionalPass::prune},
      {"finite", "where it is asked for: checks that name what makes a NaN or an infinity", finite, {}},
      {"channels_last", "images with their channels second have them last around convolutions", channels_last,
       OptionalPass::channels_last},
      {"quantize", "dequantize, convolution or product, and quantize become one operation on integers", quantize,
       OptionalPass::quantize},
      {"widen", "what sums halves, or takes several steps, computes in float32 and is rounded once", widen, {}},
      {"normalize", "batch and layer normalizations take along what surrounds them, their sums are made together",
       normalize, OptionalPass::normalize},
      {"indices", "indices that must lie inside of their axes are clipped, or checked before all effects", indices, {}},
      {"expand", "composites become the operations that backends have kernels for", expand, {}},
      {"fold", "operations on constants become constants", fold, OptionalPass::fold},
      {"simplify", "algebra, merged duplicates, forwarded variable reads, decided branches", simplify,
       OptionalPass::simplify},
      {"absorb", "constant scales and shifts along channels go into constant weights", absorb, OptionalPass::absorb},
      {"fuse", "convolutions and matrix products take bias, residual and activation along", fuse, OptionalPass::fuse},
      {"fuse_elementwise", "element-wise regions become one operation each", fuse_elementwise,
       OptionalPass::fuse_elementwise},
      {"schedule", "what gives back more memory than it takes runs as soon as it can", schedule,
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
  throw GraphError(cat("there is no pass \"", name, "\"; the passes are ", names));
}

void run_passes(Program& program, const Target& target, const Options& options) {
  program.target = target;
  for (const std::string& name : options.disabled_passes) {
    if (!pass_named(name).optional)
      throw GraphError(cat("pass \"", name, "\" cannot be disabled: backends count on it"));
  }
  auto observe = [&](std::string_view pass) {
    if (!options.observe) return;
    PrintOptions print_options;
    print_options.max_constant_elements = max_shown_elements;
    options.observe(pass, print(*program.graph, print_options));
  };
  observe("specialize");
  for (const Pass& pass : all_passes()) {
    if (pass.run == finite && !options.check_finite) continue;
    if (pass.optional && std::ranges::find(target.passes, *pass.optional) == target.passes.end()) continue;
    if (std::ranges::find(options.disabled_passes, pass.name) != options.disabled_passes.end()) continue;
    const auto begin = std::chrono::steady_clock::now();
    pass.run(program);
    if (options.observe_time) options.observe_time(pass.name, begin, std::chrono::steady_clock::now());
    observe(pass.name);
  }
}

}  // namespace mpsgraph::compiler
