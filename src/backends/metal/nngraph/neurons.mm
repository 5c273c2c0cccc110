// Maps the neuron names of nngraph to Apple's types.
#include "backends/metal/nngraph/neurons.h"

#include <map>
#include <vector>

namespace mpsgraph::metal {
namespace {

constexpr std::pair<std::string_view, MPSCNNNeuronType> types[] = {{"none", MPSCNNNeuronTypeNone},
                                                                   {"relu", MPSCNNNeuronTypeReLU},
                                                                   {"linear", MPSCNNNeuronTypeLinear},
                                                                   {"sigmoid", MPSCNNNeuronTypeSigmoid},
                                                                   {"hard_sigmoid", MPSCNNNeuronTypeHardSigmoid},
                                                                   {"tanh", MPSCNNNeuronTypeTanH},
                                                                   {"absolute", MPSCNNNeuronTypeAbsolute},
                                                                   {"softplus", MPSCNNNeuronTypeSoftPlus},
                                                                   {"softsign", MPSCNNNeuronTypeSoftSign},
                                                                   {"elu", MPSCNNNeuronTypeELU},
                                                                   {"relun", MPSCNNNeuronTypeReLUN},
                                                                   {"power", MPSCNNNeuronTypePower},
                                                                   {"exponential", MPSCNNNeuronTypeExponential},
                                                                   {"logarithm", MPSCNNNeuronTypeLogarithm},
                                                                   {"gelu", MPSCNNNeuronTypeGeLU}};

}  // namespace

MPSNNNeuronDescriptor* neuron_descriptor(std::string_view type, double a, double b, double c,
                                         const ConstantPtr& slopes) {
  if (type == "prelu") {
    std::vector<float> values(static_cast<size_t>(slopes->elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(slopes->scalar(static_cast<int64_t>(i)));
    NSData* data = [NSData dataWithBytes:values.data() length:values.size() * sizeof(float)];
    return [MPSNNNeuronDescriptor cnnNeuronPReLUDescriptorWithData:data noCopy:false];
  }
  MPSCNNNeuronType found = MPSCNNNeuronTypeNone;
  for (const auto& [name, known] : types)
    if (name == type) found = known;
  return [MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:found
                                                          a:static_cast<float>(a)
                                                          b:static_cast<float>(b)
                                                          c:static_cast<float>(c)];
}

}  // namespace mpsgraph::metal
