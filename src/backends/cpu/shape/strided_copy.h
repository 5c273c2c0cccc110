// StridedCopy: a prepared copy between two strided views with the same dimensions.
//
// Transposes, slices, concatenations, broadcasts, and tiles all use this engine. At lowering, dimensions are collapsed
// where possible. Depending on the remaining dimensions, the copy runs as memcpy, as strided elements, or as blocked
// transposes, in parallel above a certain size. The destination view must not overlap itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpsgraph/core/types.h"

namespace mpsgraph::cpu {

class StridedCopy {
 public:
  StridedCopy() = default;
  // Prepare a copy. Strides are counted in elements of `item` bytes; source strides may be 0 (broadcast) or negative.
  StridedCopy(size_t item, const Dims& dims, const Dims& destination_strides, const Dims& source_strides);
  // Run the copy. Both pointers refer to the element at index 0 of their view.
  void run(std::byte* destination, const std::byte* source) const;

 private:
  template <class Item>
  void run_items(std::byte* destination, const std::byte* source) const;
  void run_runs(std::byte* destination, const std::byte* source, bool streaming) const;
  bool streams(const std::byte* destination) const;
  void run_bytes(std::byte* destination, const std::byte* source) const;
  template <class Item>
  void run_transpose(std::byte* destination, const std::byte* source) const;
  template <class Item>
  void run_interleave(std::byte* destination, const std::byte* source) const;

  enum class Mode { nothing, bytes, items, transpose, interleave } mode_ = Mode::nothing;
  size_t item_ = 0;           // bytes of an item; not used in mode bytes
  int64_t inner_ = 1;         // elements per run; in mode bytes, bytes per run
  int64_t inner_source_ = 0;  // strides of the run, in bytes
  int64_t inner_destination_ = 0;
  int64_t rows_ = 1;          // modes transpose and interleave: size of the axis that is contiguous in the source
  int64_t row_destination_ = 0;
  Dims outer_;                // sizes of the surrounding loops; their strides are in bytes
  Dims outer_source_, outer_destination_;
  int64_t outer_count_ = 1;
};

// Set n elements of `item` bytes each to the element at `element`.
void fill(std::byte* destination, const void* element, size_t item, int64_t n);
// Like memcpy, but use all threads if the size is large.
void copy_bytes(std::byte* destination, const std::byte* source, size_t bytes);

}  // namespace mpsgraph::cpu
