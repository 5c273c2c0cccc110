// Shape operations that move data: transpose, slice, concat, broadcast, and tile. Padding is in pad.cpp.
//
// Almost all of these operations run as a StridedCopy between views of their operands. Their gradients are a copy in
// the other direction, or a sum. Operations that move no data (reshape, squeeze, ...) are aliases in the lowering.

#include "core/ops/shape.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/elementwise/tile_functions.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/shape/strided_copy.h"
#include "backends/cpu/streaming_stores.h"

namespace mpsgraph::cpu {
namespace {

// A copy between two operands, each starting at a given byte.
struct Move {
  StridedCopy copy;
  Slot to, from;
  int64_t to_byte = 0, from_byte = 0;
  void run(Frame& f) const { copy.run(f.at<std::byte>(to) + to_byte, f.at<std::byte>(from) + from_byte); }
};

std::unique_ptr<Kernel> move_kernel(std::vector<Move> moves) {
  if (moves.size() == 1) return kernel([move = moves[0]](Frame& f) { move.run(f); });
  return kernel([moves = std::move(moves)](Frame& f) {
    for (const Move& move : moves) move.run(f);
  });
}

Dims slice_of(const Dims& dims, size_t axis, int64_t n) {
  Dims result = dims;
  result[axis] = n;
  return result;
}

std::unique_ptr<Kernel> lower_transpose(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const Ints& permutation = lowering.attributes().integers("permutation");
  const Dims strides = contiguous_strides(x.dims);
  Dims source(x.dims.size());
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = strides[static_cast<size_t>(ops::wrap_axis(permutation[i], static_cast<int>(source.size())))];
  return move_kernel({{StridedCopy(size_of(x.dtype), y.dims, contiguous_strides(y.dims), source), y.slot, x.slot}});
}

// The view that a slice takes of a tensor: its dims and strides over all axes, and the position of its first element.
struct SliceView {
  Dims dims, strides;
  int64_t first = 0;
  SliceView(const Attributes& attributes, const Dims& full) : strides(contiguous_strides(full)) {
    for (size_t i = 0; i < full.size(); ++i) {
      const ops::SliceRange range = *ops::slice_range(attributes, static_cast<int>(i), full[i]);
      first += range.start * strides[i];
      strides[i] *= range.stride;
      dims.push_back(range.count);
    }
  }
};

std::unique_ptr<Kernel> lower_slice(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const SliceView view(lowering.attributes(), x.dims);
  const auto item = static_cast<int64_t>(size_of(x.dtype));
  return move_kernel({{StridedCopy(size_of(x.dtype), view.dims, contiguous_strides(view.dims), view.strides), y.slot,
                       x.slot, 0, view.first * item}});
}

// Build a kernel that fills the result with the element at `background`, and then copies into it.
std::unique_ptr<Kernel> scatter_kernel(const Operand& y, const void* background, Move move) {
  Item16 element;
  std::memcpy(&element, background, size_of(y.dtype));
  return kernel([=, item = size_of(y.dtype), n = y.elements()](Frame& f) {
    fill(f.at<std::byte>(y.slot), &element, item, n);
    move.run(f);
  });
}

std::unique_ptr<Kernel> lower_slice_gradient(Lowering& lowering) {
  const Operand incoming = lowering.input(0), y = lowering.output();
  const SliceView view(lowering.attributes(), y.dims);
  const auto item = static_cast<int64_t>(size_of(y.dtype));
  const Item16 zero;
  return scatter_kernel(y, &zero,
                        {StridedCopy(size_of(y.dtype), view.dims, view.strides, contiguous_strides(view.dims)), y.slot,
                         incoming.slot, view.first * item, 0});
}

std::unique_ptr<Kernel> lower_slice_update_data(Lowering& lowering) {
  const Operand data = lowering.input(0), update = lowering.input(1), y = lowering.output();
  const SliceView view(lowering.attributes(), y.dims);
  const Move move{StridedCopy(size_of(y.dtype), view.dims, view.strides, contiguous_strides(view.dims)), y.slot,
                  update.slot, view.first * static_cast<int64_t>(size_of(y.dtype)), 0};
  lowering.may_share(0, 0);
  return kernel([=](Frame& f) {
    if (f.pointers[y.slot] != f.pointers[data.slot])
      copy_bytes(f.at<std::byte>(y.slot), f.at<std::byte>(data.slot), data.bytes());
    move.run(f);
  });
}

// Operands that are concatenated along an axis of the result. The result consists of `count` stretches, one for each
// index over the axes before that axis, and each operand contributes some bytes to every stretch.
struct Stretches {
  struct Part {
    Slot slot;
    int64_t bytes, at;
  };
  int64_t count, bytes = 0;
  std::vector<Part> parts;

  Stretches(const Operand& whole, size_t axis) : count(1) {
    for (size_t i = 0; i < axis; ++i) count *= whole.dims[i];
  }
  void add(const Operand& part) {
    const int64_t own = count == 0 ? 0 : static_cast<int64_t>(part.bytes()) / count;
    parts.push_back({part.slot, own, bytes});
    bytes += own;
  }
  // Return whether to alternate between operands, so that the result is written in order. Alternating brings no gain
  // for long parts or for a result that fits in cache, and there are faster loops for very short parts.
  bool alternate() const {
    constexpr int64_t shortest = 64, longest = 2048, cached = 1 << 20;
    return count > 1 && count * bytes > cached && std::all_of(parts.begin(), parts.end(), [](const Part& p) {
             return p.bytes >= shortest && p.bytes <= longest;
           });
  }
  // Call copy(part, offset in the part, offset in the result) for all parts of all stretches. Set `past` if `copy` uses
  // streaming stores; a fence is then issued afterwards.
  template <class Copy>
  void run(const Copy& copy, bool past = false) const {
    parallel_for(count, grain_for(2 * bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        for (const Part& part : parts) copy(part, i * part.bytes, i * bytes + part.at);
      if (past) streaming_fence();
    });
  }
  // Return whether the result is large enough, and its parts are aligned, for streaming stores.
  bool in_lines() const {
    return static_cast<size_t>(count * bytes) >= streaming_threshold &&
           std::ranges::all_of(parts, [](const Part& p) { return p.bytes % static_cast<int64_t>(cache_line) == 0; });
  }
};

std::unique_ptr<Kernel> lower_concat(Lowering& lowering) {
  const Operand y = lowering.output();
  const auto axis =
      static_cast<size_t>(ops::wrap_axis(lowering.attributes().integer("axis"), static_cast<int>(y.dims.size())));
  const bool interleave = lowering.attributes().boolean("interleave");
  const Dims strides = contiguous_strides(y.dims);
  const auto item = static_cast<int64_t>(size_of(y.dtype)), count = static_cast<int64_t>(lowering.input_count());
  Stretches stretches(y, axis);
  std::vector<Move> moves;
  int64_t position = 0;
  for (size_t i = 0; i < lowering.input_count(); ++i) {
    const Operand x = lowering.input(i);
    Dims to = strides;
    if (interleave) to[axis] *= count;
    moves.push_back({StridedCopy(size_of(y.dtype), x.dims, to, contiguous_strides(x.dims)), y.slot, x.slot,
                     position * strides[axis] * item, 0});
    position += interleave ? 1 : x.dims[axis];
    stretches.add(x);
  }
  if (interleave || !stretches.alternate()) return move_kernel(std::move(moves));
  return kernel([stretches, y = y.slot](Frame& f) {
    auto* to = f.at<std::byte>(y);
    const bool past = stretches.in_lines() && at_a_line(to);
    stretches.run(
        [&](const Stretches::Part& part, int64_t of_part, int64_t of_whole) {
          const auto* from = f.at<std::byte>(part.slot) + of_part;
          past ? streaming_copy(to + of_whole, from, part.bytes)
               : static_cast<void>(std::memcpy(to + of_whole, from, static_cast<size_t>(part.bytes)));
        },
        past);
  });
}

std::unique_ptr<Kernel> lower_split(Lowering& lowering) {
  const Operand x = lowering.input(0);
  const auto axis =
      static_cast<size_t>(ops::wrap_axis(lowering.attributes().integer("axis"), static_cast<int>(x.dims.size())));
  const Dims strides = contiguous_strides(x.dims);
  Stretches stretches(x, axis);
  std::vector<Move> moves;
  int64_t position = 0;
  for (size_t i = 0; i < lowering.operation().outputs.size(); ++i) {
    const Operand y = lowering.output(i);
    moves.push_back({StridedCopy(size_of(x.dtype), y.dims, contiguous_strides(y.dims), strides), y.slot, x.slot, 0,
                     position * strides[axis] * static_cast<int64_t>(size_of(x.dtype))});
    position += y.dims[axis];
    stretches.add(y);
  }
  if (!stretches.alternate()) return move_kernel(std::move(moves));
  return kernel([stretches, x = x.slot](Frame& f) {
    const auto* from = f.at<std::byte>(x);
    stretches.run([&](const Stretches::Part& part, int64_t of_part, int64_t of_whole) {
      std::memcpy(f.at<std::byte>(part.slot) + of_part, from + of_whole, static_cast<size_t>(part.bytes));
    });
  });
}

std::unique_ptr<Kernel> lower_stack(Lowering& lowering) {
  const Operand y = lowering.output();
  const auto axis =
      static_cast<size_t>(ops::wrap_axis(lowering.attributes().integer("axis"), static_cast<int>(y.dims.size())));
  const Dims strides = contiguous_strides(y.dims), dims = slice_of(y.dims, axis, 1);
  std::vector<Move> moves;
  for (size_t i = 0; i < lowering.input_count(); ++i)
    moves.push_back({StridedCopy(size_of(y.dtype), dims, strides, contiguous_strides(dims)), y.slot,
                     lowering.input(i).slot, static_cast<int64_t>(i * size_of(y.dtype)) * strides[axis], 0});
  return move_kernel(std::move(moves));
}

std::unique_ptr<Kernel> lower_broadcast_to(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const Dims strides = contiguous_strides(x.dims);
  const size_t missing = y.dims.size() - x.dims.size();
  Dims source(y.dims.size(), 0);
  for (size_t i = 0; i < x.dims.size(); ++i)
    if (x.dims[i] != 1) source[missing + i] = strides[i];
  return move_kernel({{StridedCopy(size_of(x.dtype), y.dims, contiguous_strides(y.dims), source), y.slot, x.slot}});
}

// Return [m0, d0, m1, d1, ...], the shape of a tiled tensor in which the repetitions of each axis form a separate axis.
Dims repetitions(const Dims& multiplier, const Dims& dims) {
  Dims result;
  for (size_t i = 0; i < dims.size(); ++i) result.insert(result.end(), {multiplier[i], dims[i]});
  return result;
}

std::unique_ptr<Kernel> lower_tile(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  const Dims dims = repetitions(lowering.attributes().integers("multiplier"), x.dims),
             strides = contiguous_strides(x.dims);
  Dims source;
  for (int64_t stride : strides) source.insert(source.end(), {0, stride});
  return move_kernel({{StridedCopy(size_of(x.dtype), dims, contiguous_strides(dims), source), y.slot, x.slot}});
}

std::unique_ptr<Kernel> lower_shape_of(Lowering& lowering) {
  const Operand y = lowering.output();
  return kernel([dims = lowering.input(0).dims, slot = y.slot](Frame& f) {
    for (size_t i = 0; i < dims.size(); ++i) f.at<int32_t>(slot)[i] = static_cast<int32_t>(dims[i]);
  });
}

std::unique_ptr<Kernel> lower_reinterpret_cast(Lowering& lowering) {
  const Operand x = lowering.input(0), y = lowering.output();
  lowering.may_share(0, 0);
  return kernel([=](Frame& f) {
    if (f.pointers[y.slot] != f.pointers[x.slot])
      copy_bytes(f.at<std::byte>(y.slot), f.at<std::byte>(x.slot), y.bytes());
  });
}

std::unique_ptr<Kernel> lower_coordinate_along_axis(Lowering& lowering) {
  const Operand y = lowering.output();
  const AxisSplit s(y.dims, lowering.attributes().integer("axis"));
  return kernel([=](Frame& f) {
    parallel_for(s.outer * s.n, grain_for(s.inner * 4), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto index = static_cast<int32_t>(row % s.n);
        const int32_t pattern[4] = {index, index, index, index};
        float_functions().repeat(f.at<int32_t>(y.slot) + row * s.inner, pattern,
                                 static_cast<size_t>(s.inner) * sizeof index);
      }
    });
  });
}

}  // namespace

const Kernels shape_kernels("shape", [] {
  define_kernel("transpose", lower_transpose);
  define_kernel("slice", lower_slice);
  define_kernel("slice_gradient", lower_slice_gradient);
  define_kernel("slice_update_data", lower_slice_update_data);
  define_kernel("concat", lower_concat);
  define_kernel("split", lower_split);
  define_kernel("stack", lower_stack);
  define_kernel("broadcast_to", lower_broadcast_to);
  define_kernel("tile", lower_tile);
  define_kernel("shape_of", lower_shape_of);
  define_kernel("reinterpret_cast", lower_reinterpret_cast);
  define_kernel("coordinate_along_axis", lower_coordinate_along_axis);
});

}  // namespace mpsgraph::cpu
