// The readable textual form of graphs: printed for people and golden tests, parsed back exactly.
//
//   graph {
//     %x = placeholder() {type=float32[-1,4]} : float32[-1,4]
//     %w = variable() {value=float32[4,2] splat 0x3f800000} : float32[4,2]
//     %r = read(%w) : float32[4,2]
//     %y = matrix_multiplication(%x, %r) : float32[-1,2]
//     %a, %b = split(%y) {axis=1, sizes=[1,1]} : float32[-1,1], float32[-1,1]
//     %z = relu(%a) after [%y] : float32[-1,1]
//     %p = if(%c) : float32[2] {
//       yield %z
//     } {
//       yield %a
//     }
//   }
// Constants are bits in hexadecimal, so the round trip is exact. parse(print(g)) equals g, and
// print(parse(t)) equals t for every t that print made.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/graph.h"

namespace mpsgraph {

struct PrintOptions {
  bool locations = false;        // append "at model.py:41"; not parsed back as structure, but accepted
  int64_t max_constant_elements = -1;  // longer constants are cut with "..." (then it cannot be parsed); -1: never
};
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const Block& block, const PrintOptions& options = {});
std::unique_ptr<Graph> parse(std::string_view text);  // GraphError with line and column

// The grammar of the graph: scopes, order, arity, attributes, types as inference gives them, names,
// block signatures. Throws GraphError that names the first operation that is wrong.
void verify(const Graph& graph);

}  // namespace mpsgraph
