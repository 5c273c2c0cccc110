// Interface through which the self-test queries the frameworks on which a device is built, with questions that only a
// run on the device can answer.
//
// A backend that is built on such frameworks also implements FrameworkOracle.
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

// A question about the behavior of the frameworks.
struct Probe {
  std::string name, question;
  std::string method;   // how the question is tested
  std::string meaning;  // the change to our code that each answer implies
  std::function<std::string()> ask;  // may throw or terminate the process if the frameworks reject an operation
};

class FrameworkOracle {
 public:
  virtual ~FrameworkOracle() = default;
  virtual std::vector<Probe> probes() = 0;
  // The gradients of the program's only target, a scalar, with respect to each feed, as computed by the frameworks' own
  // automatic differentiation. The array of a feed without a gradient is invalid.
  virtual std::vector<NDArray> gradients(compiler::Program program, std::span<const NDArray> feeds) = 0;
};

MPSGRAPH_API FrameworkOracle* oracle_of(const Device& device);  // null if the device uses no such frameworks

}  // namespace mpsgraph::runtime
