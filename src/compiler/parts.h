// A program divided into parts, for devices whose programs cannot contain certain operations. The program is divided
// before and after each operation that must run by itself.
//
// Parts run one after the other in program order, so reads and assigns of variables keep their order. The values passed
// between parts are numbered; the first numbers belong to the program's feeds.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/program.h"

namespace mpsgraph::compiler {

struct Part {
  std::optional<Program> program;  // the part as a program; nullopt if the part consists of the operation `alone`
  const Operation* alone = nullptr;  // belongs to the graph of the whole program
  std::vector<size_t> operands;  // numbers of the values that the part takes as feeds
  std::vector<size_t> results;  // numbers of the values that the part returns as targets
};

struct Parts {
  std::unique_ptr<Graph> graph;  // graph of the whole program
  std::vector<TensorType> values;
  std::map<size_t, ConstantPtr> constants;  // values known at compile time
  std::vector<Part> parts;
  std::vector<size_t> targets;  // number of the value of each target, all distinct
};

// Divides the program before and after every operation of the root block for which `alone` returns true.
Parts cut_into_parts(Program program, bool (*alone)(const Operation&));

}  // namespace mpsgraph::compiler
