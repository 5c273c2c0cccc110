"""Custom operations on both devices: on the mock, a C++ function replaces a kernel in the Metal language.

The mock checks the encoding of the kernel and calls a C++ function for each thread of the grid. `meaning` compiles that
function from a body that can use `i` for the thread, `buffer<T>(n)` for the bound memory, and `arguments` for the
attributes and sizes.
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
    """Define what a kernel computes on the mock; on other devices, do nothing.

    Args:
        name: Name of the kernel.
        arguments: Members of the struct in the order of the backend: attributes by name, then sizes.
        body: C++ code of one thread.
    """
    if not device.IS_METAL:
        return
    text = _BODY.format(name=name, arguments=arguments, body=body)
    library = ctypes.CDLL(str(compiling.compiled(f"meaning_of_{name}", text, [], None)))
    _KEPT.append(library)
    device.mock().mock_define_kernel(name.encode(), ctypes.cast(getattr(library, name), ctypes.c_void_p))
