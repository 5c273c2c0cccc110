// Setup of the eight AMX tile registers, each sixteen rows of 64 bytes, for the *_amx_*.cpp files.
//
// AMX intrinsics refer to tile registers by number. Compilers do not know which memory these intrinsics access, so
// calls of memory_is_read() prevent compilers from moving other memory accesses past these intrinsics.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace mpsgraph::cpu::amx {

constexpr int side = 16;
constexpr int64_t line = 64, word = 4;  // bytes per tile row, and bytes of one dot-product group within a row

[[gnu::always_inline]] inline void memory_is_read() { __asm__ volatile("" ::: "memory"); }

// Configure the tile registers of the calling thread. Until end() is called, the thread must not call other code that
// uses tile registers.
inline void begin() {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, unused[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  } shapes;
  for (int i = 0; i < 8; ++i) shapes.bytes[i] = line, shapes.rows[i] = side;
  memory_is_read();
  _tile_loadconfig(&shapes);
}

// Release the tile registers of the calling thread. While they are in use, the operating system saves 8 KB more at
// every context switch.
inline void end() { _tile_release(); }

}  // namespace mpsgraph::cpu::amx
