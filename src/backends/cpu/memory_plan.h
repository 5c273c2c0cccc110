// Where each slot of an executable lives, and offsets in the arena by liveness.
//
// A slot is alive from the position of the kernel that writes it first to the last that reads it;
// slots that are not alive together may share arena bytes. Planning is near linear in slots.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

enum class Home : uint8_t { arena, feed, result, variable, constant, entered };  // entered: by its kernel, when it runs

struct SlotInfo {
  Home home = Home::arena;
  int index = -1;  // which feed, result, variable or constant
  size_t bytes = 0;
  int first = -1, last = -1;  // kernel positions
  Slot memory = -1;  // the slot whose memory this one uses: itself, or one that it replaces in place
  size_t offset = 0;  // in the arena
  bool alone = false;  // shares its memory with no other slot
};

// Fills the offsets of arena slots that stand for themselves; returns the arena's size.
size_t plan_arena(std::vector<SlotInfo>& slots);

}  // namespace mpsgraph::cpu
