// ExecutableTemplate: executables for new sizes, for frontends that build a separate graph for each size.
#include "mpsgraph/runtime/executable_template.h"

#include "bindings/bindings.h"

namespace mpsgraph::bindings {

void define_executable_templates(Module& module) {
  using runtime::Executable, runtime::ExecutableTemplate;
  using Self = std::shared_ptr<ExecutableTemplate>;
  using Shapes = std::vector<std::vector<int64_t>>;
  Class<ExecutableTemplate, Self>(module, "ExecutableTemplate",
                                  "Two executables of graphs that differ only in sizes, as a function of the sizes.")
      .def_static(
          "make",
          [](const std::shared_ptr<Executable>& first, const Executable& second, const Shapes& first_shapes,
             const Shapes& second_shapes) -> std::optional<Self> {
            WithoutGil released;
            Self made = ExecutableTemplate::make(first, second, first_shapes, second_shapes);
            return made ? std::optional(std::move(made)) : std::nullopt;
          },
          py::arg("first"), py::arg("second"), py::arg("first_shapes"), py::arg("second_shapes"),
          R"(Relate the sizes in two executables to the shapes of the graphs from which they were built.

Args:
    first: An executable.
    second: An executable of the same graph with other sizes.
    first_shapes: The shapes of all values of the first graph.
    second_shapes: The shapes of the same values of the second graph, in the same order.

Returns:
    An ExecutableTemplate, or None if the executables differ in more than sizes that occur in the shapes.)")
      .def(
          "executable",
          [](const ExecutableTemplate& self, const Shapes& shapes) -> std::optional<std::shared_ptr<Executable>> {
            WithoutGil released;
            auto made = self.executable(shapes);
            return made ? std::optional(std::move(made)) : std::nullopt;
          },
          py::arg("shapes"),
          R"(Return an executable for other sizes, without running the passes of the compiler.

Args:
    shapes: The shapes of all values for these sizes, in the same order.

Returns:
    An Executable of the first graph, or None if the graph must be compiled completely for these sizes.)");
}

}  // namespace mpsgraph::bindings
