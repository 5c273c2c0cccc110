// Lowers the program as usual and lets MPSGraph differentiate the lowered graph.
#include "backends/metal/oracle.h"

#include "backends/metal/direct.h"
#include "backends/metal/guarded.h"
#include "backends/metal/prepare.h"

namespace mpsgraph::metal {

using runtime::NDArray;

std::vector<NDArray> apple_gradients(MetalDevice& device, compiler::Program program, std::span<const NDArray> feeds) {
  prepare(program, {});
  return guarded([&] {
    MPSGraph* graph = [MPSGraph new];
    ProgramLowering lowering(graph, program, {});
    lowering.run();
    MPSGraphTensor* target = lowering.targets.at(0);
    if (!target)
      throw UnsupportedError("[metal] the target must depend on a feed to be differentiated, got a constant");

    std::vector<NDArray> inputs;  // kept alive until the run completes
    Fed* in = [NSMutableDictionary dictionary];
    NSMutableArray<MPSGraphTensor*>* by = [NSMutableArray array];
    for (size_t i = 0; i < feeds.size(); ++i) {
      MPSGraphTensor* feed = lowering.feeds[i];
      if (!feed) continue;
      inputs.push_back(on_device(device, feeds[i].data(), feeds[i].type()));
      in[feed] = device.data_of(inputs.back()).data;
      if (is_float(feeds[i].dtype())) [by addObject:feed];
    }
    NSDictionary<MPSGraphTensor*, MPSGraphTensor*>* gradients = [graph gradientForPrimaryTensor:target
                                                                                    withTensors:by
                                                                                           name:nil];
    Asked asked;
    std::vector<size_t> places;
    for (size_t i = 0; i < feeds.size(); ++i) {
      MPSGraphTensor* gradient = lowering.feeds[i] ? gradients[lowering.feeds[i]] : nil;
      if (!gradient) continue;
      const TensorType type = feeds[i].type();
      if (![gradient.shape isEqualToArray:shape_of(type)] || gradient.dataType != data_type(type.dtype))
        throw DeviceError(cat("[metal] expected a gradient of type ", type, " from MPSGraph, got ",
                              mpsgraph::to_string(dims_of(gradient.shape)), " ", to_string(gradient.dataType)));
      asked.emplace_back(gradient, type);
      places.push_back(i);
    }
    std::vector<NDArray> found = run_once(device, graph, in, asked), results(feeds.size());
    for (size_t i = 0; i < found.size(); ++i) results[places[i]] = found[i];
    return results;
  });
}

}  // namespace mpsgraph::metal
