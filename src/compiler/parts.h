// A program divided into parts, for devices whose programs cannot contain certain operations: it is cut at each
// operation that must run by itself.
//
// Parts run one after the other in program order, so reads and assigns of variables keep their order. Parts pass values
// to each other by number; the first numbers are the program's feeds.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

struct Part {
  std::optional<Program> program;  // nullopt: the operation `alone` runs
  const Operation* alone = nullptr;  // in the graph of the whole program
  std::vector<size_t> operands;  // numbers of the values that are its feeds
  std::vector<size_t> results;  // numbers of the values that are its targets
};

struct Parts {
  std::unique_ptr<Graph> graph;  // of the whole program
  std::vector<TensorType> values;
  std::map<size_t, ConstantPtr> constants;  // values known at compile time
  std::vector<Part> parts;
  std::vector<size_t> targets;  // number of each target's value, all distinct
};

// Cuts before and after every operation of the root block for which `alone` returns true.
Parts cut_into_parts(Program program, bool (*alone)(const Operation&));

}  // namespace mpsgraph::compiler
