// The readable textual form of graphs: printed for people and golden tests, parsed back exactly.
//
//   graph {
//     %x = placeholder() {type=float32[-1,4]} : float32[-1,4]
//     %training = placeholder() {type=bool[]} : bool[]
//     %w = variable() {value=float32[4,2] splat 0x3f800000} : float32[4,2]
//     %r = read(%w) : float32[4,2]
//     %y = matrix_multiplication(%x, %r) : float32[-1,2]
//     %s = split(%y) {axis=1, sizes=[1,1]} : float32[-1,1], float32[-1,1]
//     %z = relu(%s:1) after [%y] : float32[-1,1]
//     %u = assign(%w, %r) : ()
//     %p = if(%training) : float32[-1,1] {
//       yield %z
//     } {
//       yield %s:0
//     }
//     %q = while(%p) : float32[-1,1] (%before: float32[-1,1]) {
//       yield %training, %before
//     } (%after: float32[-1,1]) {
//       %next = square(%after) : float32[-1,1]
//       yield %next
//     }
//   }
//
// An operation is `%name = kind(operands) {attributes} after [control dependencies] at "place" : types blocks`. What it
// has none of is left out, but for the types, which are then `()`. One of several results is named with its index.
// Attributes that have their default are left out. Names of other characters than letters, digits and _ . / - are
// quoted. Constants are bits in hexadecimal, `[0x3f800000,0x40000000]` or a splat, or stand elsewhere under a name,
// `float32[4,2] from "w"`; lists are `[1,2]` of integers and `(float32[2],int32[])` of types; real numbers have as few
// digits as tell them apart. So the round trip is exact: parse(print(g)) equals g, but for operation numbers, and
// print(parse(t)) equals t for every t that print made.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

struct PrintOptions {
  bool locations = false;  // with the place where each operation was built
  int64_t max_constant_elements = -1;  // longer constants are cut with "..." (then it cannot be parsed); -1: never
  std::function<bool(const Operation&)> only = {};  // of the root's operations; default: all
  // The name under which an operation's constant data is kept elsewhere, if it is.
  std::function<std::optional<std::string>(const Operation&, std::string_view attribute)> elsewhere = {};
};
MPSGRAPH_API std::string print(const Graph& graph, const PrintOptions& options = {});
MPSGRAPH_API std::string print(const Block& block, const PrintOptions& options = {});

// GraphError with line and column for text that is not of this form. Every name must stand above its uses. The graph is
// then verified, unless the caller wants to look at a wrong one.
enum class Verification { on, off };
// Finds constant data that is kept elsewhere; it must be of the type that the text states.
using Elsewhere = std::function<ConstantPtr(const std::string& name, const TensorType& type)>;
MPSGRAPH_API std::unique_ptr<Graph> parse(std::string_view text, Verification verification = Verification::on,
                                          const Elsewhere& elsewhere = {});

// The grammar of the graph: scopes, order, arity, attributes, types as inference gives them, names, block signatures.
// Throws GraphError that names the first operation that is wrong. A stated type may know more or less than inference
// does (-1 or unranked on one side), because passes learn and forget constants; it must not contradict it. What has no
// operands and no blocks has exactly the type that its attributes say.
MPSGRAPH_API void verify(const Graph& graph);

}  // namespace mpsgraph
