// Dequantization of weights that are packed at 4 or 8 bits, by MPSGraph's operation for groups.
//
// It is new in macOS 15. Before, and for other numbers of bits, the core composes the dequantization of shifts and
// masks of the words, whose results are 32-bit integers. MPSGraph's zero points are integers, so the bias of a group is
// added to the result. Apple's lookup tables would need no addition, but require that the tensor is a constant, while
// the weights of language models are variables.
#include "backends/metal/quantization_packed.h"

#include <cstdlib>
#include <string_view>

#include "backends/metal/direct.h"
#include "backends/metal/formula.h"
#include "backends/metal/guarded.h"
#include "mpsgraph/runtime/device.h"

namespace mpsgraph::metal {
namespace {

bool is_constant(const Operation& operation, size_t i) { return operation.inputs[i]->operation->is("constant"); }

// Dequantize two words with a scale each.
bool reads_words(MetalDevice& device) {
  if (METAL_AVAILABLE(15.0, 18.0)) {
    Trial trial(device);
    MPSGraphTensor* words = trial.fed(std::vector<int32_t>{0x76543210, static_cast<int32_t>(0xFEDCBA98)});
    MPSGraphTensor* elements = [trial.graph reinterpretCastTensor:words toType:MPSDataTypeUInt4 name:nil];
    MPSGraphTensor* found = [trial.graph dequantizeTensor:elements
                                              scaleTensor:trial.fed({1, 2}, {2})
                                                 dataType:MPSDataTypeFloat32
                                                     name:nil];
    return trial.values(found, {16}) == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 16, 18, 20, 22, 24, 26, 28, 30};
  }
  return false;
}

bool find_out_about_words(MetalDevice& device) {
  if (const char* wish = std::getenv("MPSGRAPH_METAL_PACKED")) {
    if (wish == std::string_view("composed")) return false;
    throw DeviceError(
        cat("[metal] the environment variable MPSGRAPH_METAL_PACKED must be 'composed' or unset, got '", wish, "'"));
  }
  try {
    return guarded([&] { return reads_words(device); });
  } catch (const DeviceError&) {
    return false;  // MPSGraph refuses such elements
  }
}

GraphTensors lower_dequantize_packed(Lowering& l) {
  if (METAL_AVAILABLE(15.0, 18.0)) {
    const MPSDataType type = l.attributes().integer("bits") == 4 ? MPSDataTypeUInt4 : MPSDataTypeUInt8;
    const Dims& dims = l.result_dims();
    MPSGraphTensor* elements = nil;
    if (is_constant(l.operation, 0))
      elements = [l.graph() constantWithData:bytes_of(l.operation.inputs[0]->operation->attributes.data("value"))
                                       shape:shape_of(dims)
                                    dataType:type];
    else
      elements = [l.graph() reinterpretCastTensor:l.input(0) toType:type name:nil];
    const Term scale = input(l, 1).cast(DType::float32), bias = input(l, 2).cast(DType::float32);
    const Term scaled = scale.with([l.graph() dequantizeTensor:elements
                                                   scaleTensor:scale.tensor()
                                                      dataType:MPSDataTypeFloat32
                                                          name:l.name()]);
    Dims groups = l.dims(2), blocks = groups;
    blocks.push_back(dims.back() / groups.back()), groups.push_back(1);
    return (scaled.reshape(blocks) + bias.reshape(groups)).reshape(dims).cast(l.result_type().dtype);
  }
  l.needs_system("15.0");
}

}  // namespace

bool reads_four_bits(MetalDevice& device) {
  static const bool answer = find_out_about_words(device);
  return answer;
}

bool dequantizes_natively(const Operation& operation) {
  if (METAL_AVAILABLE(15.0, 18.0)) {
    const int64_t bits = operation.attributes.integer("bits");
    return bits == 8 ||
           (bits == 4 && (is_constant(operation, 0) || reads_four_bits(metal_device(runtime::Device::get("metal")))));
  }
  return false;
}

const Lowerings quantization_packed_lowerings("quantization",
                                              [] { define_lowering("dequantize_packed", lower_dequantize_packed); });

}  // namespace mpsgraph::metal
