// Compilation and runs of small graphs: a valid text must compile and run on zeros, or be refused with an error.
#include <cstring>

#include "fuzzing/fuzz.h"
#include "mpsgraph/core/text.h"
#include "mpsgraph/runtime/device_graph.h"

using namespace mpsgraph;
using namespace mpsgraph::runtime;

FUZZ_TARGET(program) {
  const std::shared_ptr<Graph> graph = parse(input);
  if (!fuzz::is_small(*graph)) return;
  std::vector<std::pair<Tensor*, NDArray>> feeds;
  std::vector<Tensor*> targets;
  std::vector<Operation*> operations;
  for (const auto& operation : graph->root().operations) {
    if (operation->is("placeholder")) {
      NDArray zeros = NDArray::allocate(operation->output()->type.dtype, operation->output()->type.shape.dims());
      std::memset(zeros.data(), 0, zeros.bytes());
      feeds.emplace_back(operation->output(), zeros);
    } else if (operation->outputs.empty()) {
      operations.push_back(operation.get());
    } else if (!operation->is("variable")) {
      for (const auto& output : operation->outputs) targets.push_back(output.get());
    }
  }
  DeviceGraph on_device(graph, Device::get("cpu"));
  (void)on_device.run(feeds, targets, operations);
}
