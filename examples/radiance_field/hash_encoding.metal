// GPU kernels of the hash encoding and its gradient, which hash_encoding.cpp describes.
//
// Both operations use this source, and only read Arguments that both have.

struct Corner {
  uint row;
  float weight;
};

Corner corner_of(float3 place, uint cells, uint rows, uint corner) {
  const float3 x = saturate(place) * float(cells);
  const uint3 low = min(uint3(x), uint3(cells - 1)), bit = uint3(corner, corner >> 1, corner >> 2) & 1u;
  const float3 part = x - float3(low), weight = select(1.0f - part, part, bool3(bit));
  const uint side = cells + 1;
  const bool hashed = ulong(side) * side * side > rows;
  const uint3 step = hashed ? uint3(1, 2654435761u, 805459861u) : uint3(1, side, side * side);
  const uint3 term = (low + bit) * step;
  const uint row = hashed ? (term.x ^ term.y ^ term.z) & (rows - 1) : term.x + term.y + term.z;
  return {row, weight.x * weight.y * weight.z};
}

// One thread per position and level.
kernel void hash_encoding(device const packed_float3* places [[buffer(0)]], device const float2* tables [[buffer(1)]],
                          device float2* encoded [[buffer(2)]], constant Arguments& arguments [[buffer(3)]],
                          uint2 at [[thread_position_in_grid]]) {
  const uint n = at.x, level = at.y, levels = arguments.operand1_shape[0], rows = arguments.operand1_shape[1];
  device const float2* table = tables + level * rows;
  float2 sum = 0.0f;
  for (uint i = 0; i < 8; ++i) {
    const Corner corner = corner_of(places[n], arguments.resolutions[level], rows, i);
    sum += corner.weight * table[corner.row];
  }
  encoded[n * levels + level] = sum;
}

// One threadgroup per level, so that its barrier separates the zeros from the sums. If the device makes threadgroups
// smaller than requested, the first one of a level does all the work.
kernel void hash_encoding_gradient(device const float2* incoming [[buffer(0)]],
                                   device const packed_float3* places [[buffer(1)]],
                                   device const float2* tables [[buffer(2)]],
                                   device atomic_float* gradient [[buffer(3)]],
                                   constant Arguments& arguments [[buffer(4)]],
                                   uint2 at [[thread_position_in_grid]],
                                   uint2 group [[threadgroup_position_in_grid]],
                                   uint2 size [[threads_per_threadgroup]]) {
  if (group.x > 0) return;
  const uint level = at.y, levels = arguments.result0_shape[0], rows = arguments.result0_shape[1];
  const uint count = arguments.operand1_shape[0];
  device atomic_float* table = gradient + 2 * level * rows;
  for (uint i = at.x; i < 2 * rows; i += size.x) atomic_store_explicit(&table[i], 0.0f, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_device);
  for (uint n = at.x; n < count; n += size.x) {
    const float2 share = incoming[n * levels + level];
    for (uint i = 0; i < 8; ++i) {
      const Corner corner = corner_of(places[n], arguments.resolutions[level], rows, i);
      atomic_fetch_add_explicit(&table[2 * corner.row], corner.weight * share.x, memory_order_relaxed);
      atomic_fetch_add_explicit(&table[2 * corner.row + 1], corner.weight * share.y, memory_order_relaxed);
    }
  }
}
