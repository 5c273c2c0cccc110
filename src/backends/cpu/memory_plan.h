// Memory plan of an executable: where each slot lives, and arena offsets assigned by liveness.
//
// A slot is alive from the kernel that first writes it to the kernel that last reads it. Slots that are not alive at
// the same time may share arena bytes. Planning takes almost linear time in the number of slots.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// Where the memory of a slot comes from. `entered` means that the kernel that computes the value allocates the memory
// at run time and stores the pointer in the frame.
enum class Home : uint8_t { arena, feed, result, variable, constant, entered };

struct SlotInfo {
  Home home = Home::arena;
  int index = -1;  // index of the feed, result, variable, or constant
  size_t bytes = 0;
  int first = -1, last = -1;  // positions of the first and last kernel that use the slot
  Slot memory = -1;  // the slot itself, or the input slot whose memory it overwrites
  size_t offset = 0;  // offset in bytes within the arena
  bool alone = false;  // must not share its memory with another slot
};

// Assign offsets to the arena slots that own their memory; return the size of the arena.
size_t plan_arena(std::vector<SlotInfo>& slots);

}  // namespace mpsgraph::cpu
