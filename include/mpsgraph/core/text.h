// The textual form of graphs, which people can read and which is parsed back exactly. It is also used for golden tests.
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
// An operation is written `%name = kind(operands) {attributes} after [control dependencies] at "place" : types blocks`.
// Parts that are empty are omitted, except the types, which are then `()`. If an operation has several results,
// operands refer to a result by its index, as in `%s:1`. Attributes with their default value are omitted. Names are
// quoted if they contain characters other than letters, digits, and _ . / -
//
// Constants are written as bits in hexadecimal, such as `[0x3f800000,0x40000000]`, as a splat, or as a reference to
// data stored elsewhere, such as `float32[4,2] from "w"`. Lists of integers are written `[1,2]`, and lists of types
// `(float32[2],int32[])`. Real numbers have the fewest digits that identify them.
//
// The round trip is exact: parse(print(g)) equals g except for operation numbers, and print(parse(t)) equals t for
// every t that print() returned.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mpsgraph/core/graph.h"
#include "mpsgraph/export.h"

namespace mpsgraph {

// What print() includes in the text.
struct PrintOptions {
  bool locations = false;  // include the place where each operation was built
  // Constants with more elements are abbreviated with "...", and the text can then no longer be parsed. -1 means no
  // limit.
  int64_t max_constant_elements = -1;
  std::function<bool(const Operation&)> only = {};  // the operations of the root block to print; default: all
  // Returns the name under which an operation's constant data is stored elsewhere, or nullopt if the text should
  // contain the data.
  std::function<std::optional<std::string>(const Operation&, std::string_view attribute)> elsewhere = {};
};
MPSGRAPH_API std::string print(const Graph& graph, const PrintOptions& options = {});
MPSGRAPH_API std::string print(const Block& block, const PrintOptions& options = {});

// Parses a graph and verifies it. Throws GraphError with the line and column if the text is invalid. Every name must be
// defined above its uses. Setting `verification` to off allows inspecting an invalid graph.
enum class Verification { on, off };
// Returns constant data that is stored elsewhere, by name. The data must have the type that the text states.
using Elsewhere = std::function<ConstantPtr(const std::string& name, const TensorType& type)>;
MPSGRAPH_API std::unique_ptr<Graph> parse(std::string_view text, Verification verification = Verification::on,
                                          const Elsewhere& elsewhere = {});

// Verifies a graph: scopes, order, number of operands, attributes, names, block signatures, and that types agree with
// inference. Throws a GraphError that names the first invalid operation.
//
// A stated type may be more or less specific than the inferred type (-1 or unranked on either side), because compiler
// passes fold and drop constants, but the two must not contradict each other. Operations without operands and blocks
// must have exactly the type that their attributes define.
MPSGRAPH_API void verify(const Graph& graph);

}  // namespace mpsgraph
