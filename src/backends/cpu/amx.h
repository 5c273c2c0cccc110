// AMX: Intel's registers of sixteen rows of 64 bytes, and the unit that multiplies them.
#pragma once

namespace mpsgraph::cpu {

// Whether this processor multiplies bfloat16 and 8-bit integers so, and the system lets this process. The first call
// asks for that: Linux keeps 8 KB of registers for a thread that uses them only after a request. Device descriptions
// say what the answer was.
bool has_amx();

}  // namespace mpsgraph::cpu
