// Options: how a graph is compiled: passes left out, plain kernels, callables, and who watches.
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

// What an operation `call` runs: something compiled elsewhere, with types of its own.
class MPSGRAPH_API Callable {
 public:
  virtual ~Callable() = default;
  virtual std::vector<TensorType> operand_types() const = 0;
  virtual std::vector<TensorType> result_types() const = 0;
  // Runs on the calling thread. Operands and results are dense, row-major and of these types.
  virtual void call(const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results) = 0;
};
using Callables = std::map<std::string, std::shared_ptr<Callable>, std::less<>>;  // by symbol

struct Options {
  std::vector<std::string> disabled_passes;
  bool reference_kernels = false;  // plain loops only: for tests
  bool check_finite = false;  // end the run at the first operation that makes a NaN or an infinity, and name it
  Callables callables;  // what the symbols of `call` stand for
  // Called with the pass's name and the program's text after each pass ("specialize" first).
  std::function<void(std::string_view pass, const std::string& text)> observe;
  // Called with the time that each pass took: for profiles.
  using Time = std::chrono::steady_clock::time_point;
  std::function<void(std::string_view pass, Time begin, Time end)> observe_time;
};

}  // namespace mpsgraph::compiler
