// Detects Intel AMX, a matrix multiplication unit with tile registers of sixteen 64-byte rows.
#pragma once

namespace mpsgraph::cpu {

// Return whether this process may use AMX to multiply bfloat16 and 8-bit integers.
//
// The first call asks Linux for permission, because the kernel saves 8 KB of tile registers for each thread that uses
// AMX. The device description reports the outcome.
bool has_amx();

}  // namespace mpsgraph::cpu
