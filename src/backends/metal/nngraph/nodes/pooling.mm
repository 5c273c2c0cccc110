// MPSNNGraph nodes of family pooling. They keep their default edge mode, clamp: windows end where the image ends.
#include "backends/metal/nngraph/make_node.h"

namespace mpsgraph::metal {
namespace {

template <class Node>
void make_pooling(Making& m) {
  m.made.node = [[Node alloc] initWithSource:m.source()
                                 kernelWidth:m.size("kernel_width")
                                kernelHeight:m.size("kernel_height")
                             strideInPixelsX:m.size("stride_in_pixels_x")
                             strideInPixelsY:m.size("stride_in_pixels_y")];
}

void make_dilated(Making& m) {
  m.made.node = [[MPSCNNDilatedPoolingMaxNode alloc] initWithSource:m.source()
                                                        kernelWidth:m.size("kernel_width")
                                                       kernelHeight:m.size("kernel_height")
                                                    strideInPixelsX:m.size("stride_in_pixels_x")
                                                    strideInPixelsY:m.size("stride_in_pixels_y")
                                                      dilationRateX:m.size("dilation_rate_x")
                                                      dilationRateY:m.size("dilation_rate_y")];
}

}  // namespace

const NodeMakers pooling_makers("pooling", [] {
  define_maker("pooling_max", make_pooling<MPSCNNPoolingMaxNode>);
  define_maker("pooling_average", make_pooling<MPSCNNPoolingAverageNode>);
  define_maker("pooling_l2_norm", make_pooling<MPSCNNPoolingL2NormNode>);
  define_maker("dilated_pooling_max", make_dilated);
});

}  // namespace mpsgraph::metal
