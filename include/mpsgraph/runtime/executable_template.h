// An executable as a function of the sizes of its feeds, from executables of two graphs that differ only in sizes.
//
// A frontend that builds a separate graph for each size uses it: the frontend states the shapes of all values in its
// own graph for each size, to which the numbers of the compiled programs are related.
#pragma once

#include <memory>
#include <vector>

#include "mpsgraph/runtime/executable.h"

namespace mpsgraph::runtime {

class MPSGRAPH_API ExecutableTemplate {
 public:
  using Shapes = std::vector<Dims>;

  // Returns null if the executables differ in more than sizes, or if their sizes cannot be related to the shapes.
  static std::shared_ptr<ExecutableTemplate> make(const std::shared_ptr<const Executable>& first,
                                                  const Executable& second, const Shapes& first_shapes,
                                                  const Shapes& second_shapes);
  ~ExecutableTemplate();

  // Returns an executable for other shapes, given in the same order; null if the template does not apply to them. The
  // executable belongs to the graph of the first executable, and its feeds and targets are those of the first.
  std::shared_ptr<Executable> executable(const Shapes& shapes) const;

 private:
  struct Parts;
  explicit ExecutableTemplate(std::shared_ptr<const Parts> parts);
  std::shared_ptr<const Parts> parts_;
};

}  // namespace mpsgraph::runtime
