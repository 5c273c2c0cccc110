// What the frameworks below a device say themselves, for the self-test: answers that only a run there gives.
//
// A backend that stands on such frameworks is a FrameworkOracle, too.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compiler/program.h"
#include "mpsgraph/export.h"
#include "mpsgraph/runtime/ndarray.h"

namespace mpsgraph::runtime {

class Device;

// A question about the frameworks.
struct Probe {
  std::string name, question;
  std::string method;   // how it is asked
  std::string meaning;  // what each answer would change in the code
  std::function<std::string()> ask;  // what the frameworks refuse may throw, or end the process
};

class FrameworkOracle {
 public:
  virtual ~FrameworkOracle() = default;
  virtual std::vector<Probe> probes() = 0;
  // By the frameworks' own differentiation the gradients of the program's only target, of rank 0, by each feed; an
  // invalid array for a feed that has none.
  virtual std::vector<NDArray> gradients(compiler::Program program, std::span<const NDArray> feeds) = 0;
};

MPSGRAPH_API FrameworkOracle* oracle_of(const Device& device);  // null when the device's work is all our own

}  // namespace mpsgraph::runtime
