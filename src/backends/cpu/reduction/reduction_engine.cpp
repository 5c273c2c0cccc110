// The reduction engine: partitions reductions, and iterates over rows, columns, and chunks, independent of the type.

#include "backends/cpu/reduction/reduction.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/dispatch.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {

ReducePlan::ReducePlan(const Dims& dims, const std::vector<bool>& is_reduced) {
  struct Axis {
    int64_t n;
    bool reduced;
  };
  std::vector<Axis> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    (is_reduced[i] ? reduced_count : outputs) *= dims[i];
    if (dims[i] == 1) continue;
    if (!axes.empty() && axes.back().reduced == is_reduced[i])
      axes.back().n *= dims[i];
    else
      axes.push_back({dims[i], is_reduced[i]});
  }
  int64_t stride = 1;
  if (!axes.empty()) {
    stride = axes.back().n;
    (axes.back().reduced ? run : columns) = stride;
    axes.pop_back();
  }
  for (; !axes.empty(); axes.pop_back()) {
    const Axis axis = axes.back();
    Dims& n = axis.reduced ? reduced : kept;
    Dims& strides = axis.reduced ? reduced_strides : kept_strides;
    n.insert(n.begin(), axis.n), strides.insert(strides.begin(), stride);
    stride *= axis.n;
  }
  if (empty()) return;
  column_tiles = (columns + tile - 1) / tile;
  const int64_t units = outputs / columns * column_tiles;
  if (units < 16) chunks = std::clamp<int64_t>(reduced_count * std::min(columns, tile) / 32768, 1, 64);
  chunks = std::min(chunks, reduced_count);
}

namespace {

int64_t offset(const Dims& dims, const Dims& strides, int64_t index) {
  int64_t result = 0;
  for (size_t i = dims.size(); i-- > 0; index /= dims[i]) result += index % dims[i] * strides[i];
  return result;
}

}  // namespace

int64_t ReducePlan::kept_offset(int64_t row) const { return offset(kept, kept_strides, row); }
int64_t ReducePlan::reduced_offset(int64_t index) const { return offset(reduced, reduced_strides, index); }

namespace {

// Addressing of items and totals in memory.
struct ReducePlaces {
  const ReduceLoops& loops;
  const std::byte* item(const std::byte* in, int64_t i) const {
    return in + i * static_cast<int64_t>(loops.item_bytes);
  }
  std::byte* item(std::byte* out, int64_t i) const { return out + i * static_cast<int64_t>(loops.item_bytes); }
  std::byte* total(std::byte* totals, int64_t i) const { return totals + i * static_cast<int64_t>(loops.total_bytes); }
};

void reduce_long_rows(const ReducePlan& plan, const ReduceLoops& loops, const std::byte* in, std::byte* out) {
  const ReducePlaces at{loops};
  parallel_for(plan.outputs, grain_for(plan.run), [&](int64_t begin, int64_t end) {
    constexpr int64_t together = 64;
    alignas(64) std::byte totals[together * ReduceLoops::most_bytes];
    for (int64_t row = begin; row < end; row += together) {
      const int64_t count = std::min(together, end - row);
      loops.begin(totals, count);
      loops.run(at.item(in, row * plan.run), plan.run, count, totals);
      loops.store(totals, count, at.item(out, row));
    }
  });
}

void reduce_short_rows(const ReducePlan& plan, const ReduceLoops& loops, const std::byte* in, std::byte* out) {
  static_assert(longest_short_row <= ReduceLoops::most_rows && most_turned_rows <= ReducePlan::tile);
  using Turn = void (*)(const std::byte* rows, int64_t count, int64_t n, std::byte* turned, int64_t stride);
  const Turn turn = dispatch_size(loops.item_bytes, [](auto type) -> Turn {
    using T = typename decltype(type)::type;
    return [](const std::byte* rows, int64_t count, int64_t n, std::byte* turned, int64_t stride) {
      turn_rows(reinterpret_cast<const T*>(rows), n, count, n, reinterpret_cast<T*>(turned), stride);
    };
  });
  const ReducePlaces at{loops};
  const int64_t n = plan.run, most = turned_rows(n), tiles = (plan.outputs + most - 1) / most;
  parallel_for(tiles, grain_for(most * n), [&](int64_t begin, int64_t end) {
    alignas(64) std::byte turned[turned_elements * ReduceLoops::most_bytes];
    alignas(64) std::byte totals[ReducePlan::tile * ReduceLoops::most_bytes];
    for (int64_t first = begin * most, last = std::min(plan.outputs, end * most); first < last; first += most) {
      const int64_t count = std::min(most, last - first);
      turn(at.item(in, first * n), count, n, turned, most);
      loops.begin(totals, count);
      loops.rows(turned, most, n, count, totals);
      loops.store(totals, count, at.item(out, first));
    }
  });
}

// Reduce positions [first, last) along the reduced axes, for one tile of columns, into totals[width].
void reduce_unit(const ReducePlan& plan, const ReduceLoops& loops, const std::byte* in, int64_t width, int64_t first,
                 int64_t last, std::byte* totals) {
  const ReducePlaces at{loops};
  if (plan.run > 1) {
    while (first < last) {
      const int64_t skip = first % plan.run, n = std::min(plan.run - skip, last - first);
      loops.run(at.item(in, plan.reduced_offset(first / plan.run) + skip), n, 1, totals);
      first += n;
    }
    return;
  }
  const int64_t inner = plan.reduced.empty() ? 1 : plan.reduced.back();
  const int64_t stride = plan.reduced.empty() ? 0 : plan.reduced_strides.back();
  while (first < last) {  // process rows along the innermost reduced axis, one block at a time
    const int64_t n = std::min({inner - first % inner, last - first, ReduceLoops::most_rows});
    loops.rows(at.item(in, plan.reduced_offset(first)), stride, n, width, totals);
    first += n;
  }
}

void reduce_columns(const ReducePlan& plan, const ReduceLoops& loops, const std::byte* in, std::byte* out,
                    std::byte* scratch) {
  const ReducePlaces at{loops};
  const int64_t rows = plan.outputs / plan.columns, units = rows * plan.column_tiles * plan.chunks;
  const int64_t cost = plan.reduced_count / plan.chunks * std::min(plan.columns, plan.tile);
  const bool whole = loops.whole && plan.chunks == 1 && plan.run == 1 && plan.reduced.size() == 1 &&
                     plan.reduced_count <= ReduceLoops::most_rows;
  parallel_for(units, grain_for(cost), [&](int64_t begin, int64_t end) {
    alignas(64) std::byte totals[ReducePlan::tile * ReduceLoops::most_bytes];
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t tile = unit % plan.column_tiles, chunk = unit / plan.column_tiles % plan.chunks;
      const int64_t row = unit / plan.chunks / plan.column_tiles, column = tile * plan.tile;
      const int64_t width = std::min(plan.tile, plan.columns - column);
      const int64_t first = plan.reduced_count * chunk / plan.chunks,
                    last = plan.reduced_count * (chunk + 1) / plan.chunks;
      const int64_t output = row * plan.columns + column;
      if (whole) {
        loops.whole(at.item(in, plan.kept_offset(row) + column), plan.reduced_strides[0], plan.reduced_count, width,
                    at.item(out, output));
        continue;
      }
      loops.begin(totals, width);
      reduce_unit(plan, loops, at.item(in, plan.kept_offset(row) + column), width, first, last, totals);
      if (plan.chunks > 1)
        std::memcpy(at.total(scratch, chunk * plan.outputs + output), totals,
                    static_cast<size_t>(width) * loops.total_bytes);
      else
        loops.store(totals, width, at.item(out, output));
    }
  });
  if (plan.chunks == 1) return;
  for (int64_t chunk = 1; chunk < plan.chunks; ++chunk)
    loops.merge(scratch, at.total(scratch, chunk * plan.outputs), plan.outputs);
  loops.store(scratch, plan.outputs, out);
}

}  // namespace

void reduce(const ReducePlan& plan, const ReduceLoops& loops, const std::byte* in, std::byte* out, std::byte* scratch) {
  if (plan.reduced_count == 0) return loops.empty(out, plan.outputs);
  if (plan.outputs == 0) return;
  if (plan.is_rows() && is_short_row(plan.run, loops.item_bytes)) return reduce_short_rows(plan, loops, in, out);
  if (plan.is_rows()) return reduce_long_rows(plan, loops, in, out);
  reduce_columns(plan, loops, in, out, scratch);
}

}  // namespace mpsgraph::cpu
