// MPSNNGraph nodes of family resize.
#include "backends/metal/nngraph/make_node.h"

namespace mpsgraph::metal {
namespace {

void make_nearest(Making& m) {
  m.made.node = [MPSCNNUpsamplingNearestNode nodeWithSource:m.source()
                                        integerScaleFactorX:m.size("integer_scale_factor_x")
                                        integerScaleFactorY:m.size("integer_scale_factor_y")];
}

void make_bilinear(Making& m) {
  m.made.node = [MPSCNNUpsamplingBilinearNode nodeWithSource:m.source()
                                         integerScaleFactorX:m.size("integer_scale_factor_x")
                                         integerScaleFactorY:m.size("integer_scale_factor_y")
                                                alignCorners:m.attributes().boolean("align_corners")];
}

template <class Node>
void make_scale(Making& m) {
  m.made.node = [Node nodeWithSource:m.source() outputSize:MTLSize{m.size("width"), m.size("height"), 1}];
}

// Reject Lanczos resizes that shrink an image. Apple does not document whether the kernel widens in this case so that
// every source pixel contributes.
void fits_lanczos(const nngraph::FilterNode& filter, std::span<const Dims> sources) {
  const int64_t height = filter.attributes().integer("height"), width = filter.attributes().integer("width");
  if (height < sources[0][1] || width < sources[0][2])
    unsupported(filter,
                cat("a Lanczos scale must not shrink images, because it is unknown how Apple's kernel does so; got ",
                    sources[0][1], "x", sources[0][2], " to ", height, "x", width,
                    "; use a bilinear scale, or device=\"cpu\""));
}

}  // namespace

const NodeMakers resize_makers("resize", [] {
  define_maker("upsampling_nearest", make_nearest);
  define_maker("upsampling_bilinear", make_bilinear);
  define_maker("bilinear_scale", make_scale<MPSNNBilinearScaleNode>);
  define_maker("lanczos_scale", make_scale<MPSNNLanczosScaleNode>, fits_lanczos);
});

}  // namespace mpsgraph::metal
