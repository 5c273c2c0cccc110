// Options of a compilation: disabled passes, reference kernels, callables, and observers of the passes.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mpsgraph/core/types.h"
#include "mpsgraph/export.h"

namespace mpsgraph::compiler {

// The target of an operation `call`: separately compiled code with its own operand and result types.
class MPSGRAPH_API Callable {
 public:
  virtual ~Callable() = default;
  virtual std::vector<TensorType> operand_types() const = 0;
  virtual std::vector<TensorType> result_types() const = 0;
  // Runs on the calling thread. Operands and results are dense and row-major, with the types that operand_types() and
  // result_types() return.
  virtual void call(const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results) = 0;
};
// maps the symbol of a `call` to its callable
using Callables = std::map<std::string, std::shared_ptr<Callable>, std::less<>>;

// Settings for the compilation of a graph.
struct Options {
  std::vector<std::string> disabled_passes;
  bool reference_kernels = false;  // use only plain loops; for tests
  // Fail the run at the first operation that produces a NaN or an infinity, and name that operation in the error.
  bool check_finite = false;
  Callables callables;  // maps the symbols of `call` operations to their callables
  // Called after each pass with its name and the text of the program; the first pass is "specialize".
  std::function<void(std::string_view pass, const std::string& text)> observe;
  // Called with the begin and end time of each pass, for profiles.
  using Time = std::chrono::steady_clock::time_point;
  std::function<void(std::string_view pass, Time begin, Time end)> observe_time;
};

}  // namespace mpsgraph::compiler
