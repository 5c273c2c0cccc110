// Home layouts: variables live in the layout that their convolutions want, so that no step reorders weights.
//
// A variable and all values of its shape that element-wise operations connect with it (gradient,
// momentum, update) can lie in any one layout, because those operations do not care. If nothing else
// looks at them, the variables among them take the layout of their convolution. Where something else does look, the
// value is reordered to row-major at the read, and back at the assign.
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

// A way to lay out one tensor type in as many bytes as row-major order takes.
class Layout {
 public:
  virtual ~Layout() = default;
  virtual bool equals(const Layout& other) const = 0;
  virtual void from_row_major(const void* from, void* to) const = 0;
  virtual void to_row_major(const void* from, void* to) const = 0;
};
using LayoutPtr = std::shared_ptr<const Layout>;  // null: row-major
inline bool same_layout(const LayoutPtr& a, const LayoutPtr& b) { return a == b || (a && b && a->equals(*b)); }

// What a convolution or a gradient of it wants its weights to be; null when it does not care or pads them.
#ifdef MPSGRAPH_ONEDNN
LayoutPtr wanted_weights_layout(const Operation& convolution);
#else
inline LayoutPtr wanted_weights_layout(const Operation&) { return nullptr; }
#endif

using Layouts = std::unordered_map<const Tensor*, LayoutPtr>;  // values that are not row-major
// `present`: the layouts that program.variables have now. A variable that has one keeps it.
Layouts choose_home_layouts(const compiler::Program& program, const std::vector<LayoutPtr>& present, bool allow_new);

}  // namespace mpsgraph::cpu
