// Preferred layouts of variables: variables are stored in the packed layout that their convolutions use, so that no
// training step has to reorder weights.
//
// A variable, its gradient, momentum, and update are connected by element-wise operations, which accept any layout. If
// only element-wise operations and convolutions use these values, the variables adopt the convolution's layout.
// Otherwise, the value is converted to row-major order when it is read, and back when it is assigned.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cpu/kernel.h"

namespace mpsgraph::compiler {
struct Program;
}

namespace mpsgraph::cpu {

// A layout of one tensor type that takes as many bytes as row-major order.
class Layout {
 public:
  virtual ~Layout() = default;
  virtual bool equals(const Layout& other) const = 0;
  virtual void from_row_major(const void* from, void* to) const = 0;
  virtual void to_row_major(const void* from, void* to) const = 0;
};
using LayoutPtr = std::shared_ptr<const Layout>;  // null if row-major
inline bool same_layout(const LayoutPtr& a, const LayoutPtr& b) { return a == b || (a && b && a->equals(*b)); }

// Return the weight layout that a convolution or its gradient prefers. Return null if it has no preference, or if the
// preferred layout needs padding.
#ifdef MPSGRAPH_ONEDNN
LayoutPtr wanted_weights_layout(const Operation& convolution);
#else
inline LayoutPtr wanted_weights_layout(const Operation&) { return nullptr; }
#endif

using Layouts = std::unordered_map<const Tensor*, LayoutPtr>;  // layouts of the values that are not row-major
// Choose the layouts of a program's values. `present` holds the current layouts of program.variables; a variable that
// has a packed layout keeps it.
Layouts choose_home_layouts(const compiler::Program& program, const std::vector<LayoutPtr>& present, bool allow_new);

}  // namespace mpsgraph::cpu
