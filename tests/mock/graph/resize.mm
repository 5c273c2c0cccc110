// Bilinear resizing of images, and its gradient.
//
// From the documentation: destination indices are scaled directly; with centerResult they are scaled and shifted so
// that the result is centered on the input, as in OpenCV and TensorFlow 2; with alignCorners the factor is (size - 1) /
// (inputSize - 1) and centerResult has no effect. A position between four pixels is interpolated; positions beyond the
// edge are clamped, as in OpenCV. The size is (height, width).
#include <algorithm>
#include <cmath>

#include "graph/graph.h"
#include "metal/mock_metal.h"

using namespace mock;

namespace {

struct Plane {
  size_t rank, height;  // the width follows the height
};

Plane plane_of(MPSGraphTensorNamedDataLayout layout) {
  switch (layout) {
    case MPSGraphTensorNamedDataLayoutNHWC: return {4, 1};
    case MPSGraphTensorNamedDataLayoutNCHW: return {4, 2};
    case MPSGraphTensorNamedDataLayoutHWC: return {3, 0};
    case MPSGraphTensorNamedDataLayoutCHW: return {3, 1};
    case MPSGraphTensorNamedDataLayoutHW: return {2, 0};
    default: misuse(@"resize: layout %lu is not supported", (unsigned long)layout);
  }
}

// The input pixels on both sides of an output pixel's position, and the weight of the second one.
struct Between {
  int64_t low, high;
  double share;
};

Between between(int64_t i, int64_t from, int64_t to, bool centers, bool corners) {
  if (corners && (from == 1 || to == 1)) misuse(@"resize: alignCorners requires at least two pixels per axis");
  const double factor = corners ? static_cast<double>(to - 1) / static_cast<double>(from - 1)
                                : static_cast<double>(to) / static_cast<double>(from);
  double place = static_cast<double>(i) / factor;
  if (centers && !corners) place = (static_cast<double>(i) + 0.5) / factor - 0.5;
  place = std::min(std::max(place, 0.0), static_cast<double>(from - 1));
  const auto low = static_cast<int64_t>(place);
  return {low, std::min(low + 1, from - 1), place - static_cast<double>(low)};
}

// Call visit(result pixel, input pixel, weight) for the four input pixels of each result pixel.
template <class Visit>
void for_each_share(const Plane& plane, const Dims& from, const Dims& to, bool centers, bool corners,
                    const Visit& visit) {
  const size_t y = plane.height, x = plane.height + 1;
  const Dims strides = strides_of(from);
  int64_t next = 0;
  for_each_position(to, [&](const Dims& place) {
    const Between row = between(place[y], from[y], to[y], centers, corners);
    const Between column = between(place[x], from[x], to[x], centers, corners);
    Dims at = place;
    for (const bool below : {false, true})
      for (const bool right : {false, true}) {
        at[y] = below ? row.high : row.low;
        at[x] = right ? column.high : column.low;
        visit(next, offset_of(at, strides),
              (below ? row.share : 1 - row.share) * (right ? column.share : 1 - column.share));
      }
    ++next;
  });
}

void require_plane(const Plane& plane, const Value& value) {
  if (!is_real(value.type) || value.rank() != plane.rank)
    misuse(@"resize: %s %@ does not match a layout of rank %lu", type_name(value.type), text_of(value.dims),
           plane.rank);
}

Value resized_of_sums(MPSDataType type, const Dims& dims, const std::vector<double>& sums) {
  Value value(type, dims);
  for (size_t i = 0; i < sums.size(); ++i) value.set(static_cast<int64_t>(i), sums[i]);
  return value;
}

}  // namespace

@implementation MPSGraph (MockResize)

- (MPSGraphTensor*)resizeBilinearWithTensor:(MPSGraphTensor*)images
                                 sizeTensor:(MPSGraphTensor*)size
                               centerResult:(BOOL)centers
                               alignCorners:(BOOL)corners
                                     layout:(MPSGraphTensorNamedDataLayout)layout
                                       name:(NSString*)name {
  const Plane plane = plane_of(layout);
  return add_one(self, @"resizeBilinear", name, {images, size}, [=](const Values& in) {
    require_plane(plane, in[0]);
    const Dims wanted = in[1].integers();
    if (wanted.size() != 2 || (in[1].type != MPSDataTypeInt32 && in[1].type != MPSDataTypeInt64))
      misuse(@"resize: the size must be two integers, got %s %@", type_name(in[1].type), text_of(in[1].dims));
    Dims dims = in[0].dims;
    dims[plane.height] = wanted[0];
    dims[plane.height + 1] = wanted[1];
    std::vector<double> sums(static_cast<size_t>(count_of(dims)));
    for_each_share(plane, in[0].dims, dims, centers, corners, [&](int64_t to, int64_t from, double weight) {
      sums[static_cast<size_t>(to)] += weight * in[0].real(from);
    });
    return resized_of_sums(in[0].type, dims, sums);
  });
}

- (MPSGraphTensor*)resizeBilinearWithGradientTensor:(MPSGraphTensor*)gradient
                                              input:(MPSGraphTensor*)input
                                       centerResult:(BOOL)centers
                                       alignCorners:(BOOL)corners
                                             layout:(MPSGraphTensorNamedDataLayout)layout
                                               name:(NSString*)name {
  const Plane plane = plane_of(layout);
  return add_one(self, @"resizeBilinearGradient", name, {gradient, input}, [=](const Values& in) {
    require_plane(plane, in[0]);
    require_plane(plane, in[1]);
    Dims expected = in[1].dims;
    for (const size_t axis : {plane.height, plane.height + 1}) expected[axis] = in[0].dims[axis];
    if (in[0].dims != expected || in[0].type != in[1].type)
      misuse(@"resize: incoming gradient %@ does not match the source %@", text_of(in[0].dims), text_of(in[1].dims));
    std::vector<double> sums(static_cast<size_t>(in[1].count()));
    for_each_share(plane, in[1].dims, in[0].dims, centers, corners, [&](int64_t to, int64_t from, double weight) {
      sums[static_cast<size_t>(from)] += weight * in[0].real(to);
    });
    return resized_of_sums(in[0].type, in[1].dims, sums);
  });
}
@end
