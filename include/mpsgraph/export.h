// MPSGRAPH_API: what leaves the library. Below include/mpsgraph it marks what applications may call; in src, the few
// functions that only the Python module asks for. Everything else stays inside.
#pragma once

#define MPSGRAPH_API __attribute__((visibility("default")))
