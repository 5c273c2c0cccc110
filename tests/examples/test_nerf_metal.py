"""Compile the Metal kernels of the hash encoding as C++ and compare them with the CPU kernels.

This file defines the part of Metal's language that the kernels use. A threadgroup is a single thread, so its barrier
does nothing. On device metal the mock also checks how the kernels are encoded, and calls them.
"""

import ctypes
from collections.abc import Iterator

import mpsgraph as mg
import numpy as np
import pytest
from harness import device
from mpsgraph.custom import compiling
from radiance_field import hash_encoding as module

RESOLUTIONS, ROWS, PLACES = (4, 6, 20, 37), 512, 300
LANGUAGE = """
#include <algorithm>
#include <cstddef>
#include <cstdint>
using uint = uint32_t;
using ulong = uint64_t;
struct uint2 { uint x, y; };
struct uint3 { uint x, y, z; uint3(uint a, uint b, uint c) : x(a), y(b), z(c) {}
               explicit uint3(uint a) : uint3(a, a, a) {}
               explicit uint3(const struct float3& f); };
struct bool3 { bool x, y, z; explicit bool3(uint3 u) : x(u.x), y(u.y), z(u.z) {} };
struct float2 { float x, y; float2(float a) : x(a), y(a) {} float2(float a, float b) : x(a), y(b) {} };
struct float3 { float x, y, z; float3(float a, float b, float c) : x(a), y(b), z(c) {}
                explicit float3(uint3 u) : x(u.x), y(u.y), z(u.z) {} };
inline uint3::uint3(const float3& f) : uint3(uint(f.x), uint(f.y), uint(f.z)) {}
using packed_float3 = float3;
uint3 operator+(uint3 a, uint3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
uint3 operator*(uint3 a, uint3 b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
uint3 operator&(uint3 a, uint b) { return {a.x & b, a.y & b, a.z & b}; }
float3 operator*(float3 a, float b) { return {a.x * b, a.y * b, a.z * b}; }
float3 operator-(float3 a, float3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
float3 operator-(float a, float3 b) { return {a - b.x, a - b.y, a - b.z}; }
float2 operator*(float a, float2 b) { return {a * b.x, a * b.y}; }
float2& operator+=(float2& a, float2 b) { return a = {a.x + b.x, a.y + b.y}; }
uint3 min(uint3 a, uint3 b) { return {std::min(a.x, b.x), std::min(a.y, b.y), std::min(a.z, b.z)}; }
float3 select(float3 a, float3 b, bool3 c) { return {c.x ? b.x : a.x, c.y ? b.y : a.y, c.z ? b.z : a.z}; }
float saturate(float x) { return std::max(0.0f, std::min(1.0f, x)); }
float3 saturate(float3 a) { return {saturate(a.x), saturate(a.y), saturate(a.z)}; }
struct atomic_float { float value; };
enum memory_order { memory_order_relaxed };
void atomic_store_explicit(atomic_float* a, float b, memory_order) { a->value = b; }
void atomic_fetch_add_explicit(atomic_float* a, float b, memory_order) { a->value += b; }
enum class mem_flags { mem_device };
void threadgroup_barrier(mem_flags) {}
#define kernel
#define device
#define constant const
"""
CALLED = """
#define EXPORT extern "C" __attribute__((visibility("default"))) void
using Buffers = void* const*;
EXPORT encode(Buffers b, const size_t*, size_t, const uint32_t* at, const uint32_t*) {
  hash_encoding((const float3*)b[0], (const float2*)b[1], (float2*)b[2], *(const Arguments*)b[3], {at[0], at[1]});
}
EXPORT gradient(Buffers b, const size_t*, size_t, const uint32_t* at, const uint32_t*) {
  hash_encoding_gradient((const float2*)b[0], (const float3*)b[1], (const float2*)b[2], (atomic_float*)b[3],
                         *(const Arguments*)b[4], {at[0], at[1]}, {at[0], at[1]}, {1, 1});
}
"""


@pytest.fixture(scope="module")
def kernels() -> Iterator[dict]:
    source = module.CODE["metal"].read_text(encoding="utf-8")
    shapes = {"encode": "[2], operand1_shape[3], result0_shape[2]"}
    shapes["gradient"] = "[2], operand1_shape[2], operand2_shape[3], result0_shape[3]"
    found = {}
    for name, rest in shapes.items():
        arguments = f"struct Arguments {{ int resolutions[{len(RESOLUTIONS)}], operand0_shape{rest}; }};\n"
        text = LANGUAGE + arguments + source + CALLED
        path = compiling.compiled(f"{name}_in_metals_language", text, ["-Wno-attributes"], None)
        found[name] = getattr(ctypes.CDLL(str(path)), name)
    names = {"encode": "hash_encoding", "gradient": "hash_encoding_gradient"}
    if device.IS_METAL:
        for name, function in found.items():
            meaning = ctypes.cast(function, ctypes.c_void_p)
            device.mock().mock_define_kernel(names[name].encode(), meaning)
    yield found
    if device.IS_METAL:
        for name in names.values():
            device.mock().mock_define_kernel(name.encode(), None)


def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    places = rng.random((PLACES, 3), np.float32)
    places[:4] = [[0, 0, 0], [1, 1, 1], [-1, 2, 0.3], [0.25, 0.5, 0.75]]
    tables = rng.standard_normal((len(RESOLUTIONS), ROWS, 2), np.float32)
    return places, tables, rng.standard_normal((PLACES, 2 * len(RESOLUTIONS)), np.float32)


def in_threads(function, grid: tuple[int, int], *arrays: np.ndarray) -> None:
    sizes = np.concatenate([RESOLUTIONS, *(array.shape for array in arrays)]).astype(np.int32)
    buffers = (ctypes.c_void_p * (len(arrays) + 1))(*(array.ctypes.data for array in (*arrays, sizes)))
    for at in np.ndindex(grid):
        function(buffers, None, ctypes.c_size_t(len(buffers)), (ctypes.c_uint32 * 2)(*at), (ctypes.c_uint32 * 2)(*grid))


@pytest.mark.both_devices
def test_metal_kernels_match_the_graph(kernels):
    places, tables, weights = drawn()
    encoded, slope = np.empty_like(weights), np.empty_like(tables)
    in_threads(kernels["encode"], (PLACES, len(RESOLUTIONS)), places, tables, encoded)
    in_threads(kernels["gradient"], (1, len(RESOLUTIONS)), weights, places, tables, slope)
    g = mg.Graph()
    x, w, t = g.placeholder((-1, 3)), g.placeholder((-1, 2 * len(RESOLUTIONS))), g.variable(tables)
    y = module.hash_encoding(x, t, resolutions=RESOLUTIONS)
    dt = g.gradients(g.reduction_sum(y * w), [t])[t]
    found = g.run({x: places, w: weights}, [y, dt])
    np.testing.assert_allclose(found[y].numpy(), encoded, atol=1e-6)
    np.testing.assert_allclose(found[dt].numpy(), slope, atol=1e-5)
    assert np.abs(encoded).max() > 1 and np.abs(slope).max() > 1
