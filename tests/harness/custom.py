"""Custom operations on both devices: over the mock, a kernel in Metal's language means a function in C++.

The mock checks the encoding, and calls for each thread of the grid what a test defines; `meaning` compiles that
from a body, in which `i` is the thread, `buffer<T>(n)` the bound memory and `arguments` the attributes and sizes.
"""

from __future__ import annotations

import ctypes

from mpsgraph.custom import compiling

from . import device

_BODY = """
#include <cstddef>
#include <cstdint>
#include <cmath>
#line 1 "the meaning of {name}"
struct Arguments {{ {arguments} }};
extern "C" __attribute__((visibility("default")))
void {name}(void* const* buffers, const size_t*, size_t count, const uint32_t* position, const uint32_t* grid) {{
  const uint32_t i = position[0];
  const Arguments& arguments = *static_cast<const Arguments*>(buffers[count - 1]);
  const auto buffer = [&](size_t n) {{ return buffers[n]; }};
  (void)i, (void)arguments, (void)buffer, (void)grid;
  {body}
}}
"""
_KEPT: list[ctypes.CDLL] = []


def meaning(name: str, arguments: str, body: str) -> None:
    """Defines what the kernel computes, where the mock is; elsewhere nothing.

    Args: name of the kernel; arguments, members of the struct in the order of the backend's: attributes by name, then
    sizes; body, C++ of one thread.
    """
    if not device.IS_METAL:
        return
    text = _BODY.format(name=name, arguments=arguments, body=body)
    library = ctypes.CDLL(str(compiling.compiled(f"meaning_of_{name}", text, [], None)))
    _KEPT.append(library)
    device.mock().mock_define_kernel(name.encode(), ctypes.cast(getattr(library, name), ctypes.c_void_p))
