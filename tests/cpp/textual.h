// Graphs in textual form, for the tests of specialization and of the passes.
//
// Targets are the operations named "out", "out_1", ...; all placeholders are fed with their declared types.
#pragma once

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program.h"
#include "mpsgraph/core/text.h"

namespace textual {

using namespace mpsgraph;
using compiler::Program;
using Run = void (*)(Program&);  // a compiler pass

using Feeds = std::vector<std::pair<Tensor*, TensorType>>;

inline TensorType f32(Dims dims) { return {DType::float32, Shape(std::move(dims))}; }

// Return the text within "graph {" and "}" without indentation, for short expected texts in tests.
inline std::string body(const std::string& text) {
  std::istringstream in(text);
  std::string line, result;
  while (std::getline(in, line)) {
    line.erase(0, line.find_first_not_of(' '));
    if (!line.empty() && line != "graph {") result += line + "\n";
  }
  return result.substr(0, result.rfind("}\n"));
}

inline Program program_of(const Graph& graph) {
  Feeds feeds;
  for (Tensor* p : graph.placeholders()) feeds.emplace_back(p, p->type);
  std::vector<Tensor*> targets;
  std::vector<Operation*> target_operations;
  for (const auto& op : graph.root().operations) {
    if (op->name.rfind("out", 0) == 0) targets.push_back(op->output());
    if (op->is("assign")) target_operations.push_back(op.get());
  }
  return compiler::specialize(graph, feeds, targets, target_operations);
}

}  // namespace textual
