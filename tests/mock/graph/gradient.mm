// gradientForPrimaryTensor:withTensors:name: by central differences of the mock's own evaluation.
//
// Apple's implementation differentiates symbolically. This one only shows that the self-test queries, compares, and
// reports correctly; it reproduces neither Apple's rules nor the operations for which Apple has none.
#include <algorithm>

#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

namespace {

constexpr double step = 1.0 / 64;  // large, because every operation rounds to float32

// Return the placeholders from which a tensor is computed.
std::vector<MPSGraphTensor*> sources_of(MPSGraphTensor* tensor) {
  std::vector<MPSGraphTensor*> found, stack{tensor};
  std::vector<MPSGraphOperation*> seen;
  while (!stack.empty()) {
    MPSGraphTensor* next = stack.back();
    stack.pop_back();
    MPSGraphOperation* producer = next->producer;
    if (std::find(seen.begin(), seen.end(), producer) != seen.end()) continue;
    seen.push_back(producer);
    if ([producer->owner->placeholders containsObject:next]) found.push_back(next);
    for (MPSGraphTensor* input in producer->inputs) stack.push_back(input);
  }
  return found;
}

}  // namespace

@implementation MPSGraph (MockGradient)

- (NSDictionary<MPSGraphTensor*, MPSGraphTensor*>*)gradientForPrimaryTensor:(MPSGraphTensor*)primary
                                                                withTensors:(NSArray<MPSGraphTensor*>*)tensors
                                                                       name:(NSString*)name {
  if (count_of(primary->result.dims) != 1 || !is_real(primary->result.type))
    misuse(@"gradient: the primary tensor must be one real number, got %@", primary);
  const std::vector<MPSGraphTensor*> sources = sources_of(primary);
  std::vector<size_t> moved;
  std::vector<ResultType> types;
  for (MPSGraphTensor* tensor in tensors) {
    const auto place = std::find(sources.begin(), sources.end(), tensor);
    if (place == sources.end()) continue;
    moved.push_back(place - sources.begin());
    types.push_back(tensor->result);
  }
  const auto differences = [sources, moved, primary](Run& run, const Values& values) {
    const auto at = [&](const Values& given) {
      Run inner(run.variables);
      for (size_t i = 0; i < sources.size(); ++i) inner.give(sources[i], given[i]);
      return inner.value_of(primary).real(0);
    };
    Values results;
    for (const size_t source : moved) {
      Value gradient(values[source].type, values[source].dims);
      for (int64_t i = 0; i < gradient.count(); ++i) {
        Values above = values, below = values;
        above[source].set(i, values[source].real(i) + step);
        below[source].set(i, values[source].real(i) - step);
        gradient.set(i, (at(above) - at(below)) / (above[source].real(i) - below[source].real(i)));
      }
      results.push_back(gradient);
    }
    return results;
  };
  NSMutableDictionary<MPSGraphTensor*, MPSGraphTensor*>* gradients = [NSMutableDictionary dictionary];
  if (moved.empty()) return gradients;
  MPSGraphOperation* operation = add_operation(self, @"gradient", name, sources, types, differences);
  for (size_t k = 0; k < moved.size(); ++k) gradients[sources[moved[k]]] = operation->outputs[k];
  return gradients;
}
@end
