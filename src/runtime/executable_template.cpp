// Makes executables for new sizes from two executables.
#include "mpsgraph/runtime/executable_template.h"

#include <utility>

#include "compiler/size_template.h"
#include "runtime/backend.h"

namespace mpsgraph::runtime {

// Executables share the parts, because a change of a variable's memory layout makes their programs again.
struct ExecutableTemplate::Parts {
  std::shared_ptr<const Executable> first;
  std::shared_ptr<CompiledProgram> compiled;  // owns the program that the template copies
  std::unique_ptr<compiler::SizeTemplate> size_template;
};

ExecutableTemplate::ExecutableTemplate(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
ExecutableTemplate::~ExecutableTemplate() = default;

std::shared_ptr<ExecutableTemplate> ExecutableTemplate::make(const std::shared_ptr<const Executable>& first,
                                                             const Executable& second, const Shapes& first_shapes,
                                                             const Shapes& second_shapes) {
  const auto compiled = first->compiled(), other = second.compiled();
  const compiler::Program *program = compiled->resizable_program(), *other_program = other->resizable_program();
  // Variables belong to one graph, so programs of two graphs that use variables differ in more than sizes.
  if (!program || !other_program || !program->variables.empty() || !first->target_operations().empty()) return nullptr;
  std::string reason;
  auto made = compiler::SizeTemplate::make(*program, *other_program, compiler::Flat(first_shapes),
                                           compiler::Flat(second_shapes), reason);
  if (!made) return nullptr;
  return std::shared_ptr<ExecutableTemplate>(
      new ExecutableTemplate(std::make_shared<const Parts>(Parts{first, compiled, std::move(made)})));
}

std::shared_ptr<Executable> ExecutableTemplate::executable(const Shapes& shapes) const {
  auto program = parts_->size_template->instantiate(compiler::Flat(shapes));
  if (!program) return nullptr;
  std::vector<Feed> feeds = parts_->first->feeds();
  for (size_t i = 0; i < feeds.size(); i++) feeds[i].second = program->feeds[i]->type;
  const auto made = std::make_shared<std::optional<compiler::Program>>(std::move(program));
  return Executable::like(*parts_->first, std::move(feeds), [made, shapes, parts = parts_] {
    auto now = std::exchange(*made, std::nullopt);
    return now ? std::move(*now) : *parts->size_template->instantiate(compiler::Flat(shapes));
  });
}

}  // namespace mpsgraph::runtime
