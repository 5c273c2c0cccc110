// Implements the list of free arenas, and tracks the arena sizes that live programs need.
#include "backends/cpu/arenas.h"

#include <algorithm>
#include <iterator>

namespace mpsgraph::cpu {

using runtime::Buffer;

Arenas& Arenas::get() {
  static Arenas& instance = *new Arenas;  // never destroyed, because programs may be destroyed during process exit
  return instance;
}

void Arenas::join(size_t bytes) {
  if (guard_.forked()) return;
  std::lock_guard lock(mutex_);
  const auto fits = [&](const Arena& arena) { return arena->bytes() >= bytes; };
  if (bytes > needed() && std::none_of(free_.begin(), free_.end(), fits)) free_.push_back(replaced(bytes));
  sizes_.insert(bytes);
}

void Arenas::leave(size_t bytes) {
  if (guard_.forked()) return;
  std::vector<Arena> freed;  // declared before the lock, so that the arenas are destroyed after it is released
  std::lock_guard lock(mutex_);
  sizes_.erase(sizes_.find(bytes));
  const auto kept = std::stable_partition(free_.begin(), free_.end(), [&](const Arena& a) { return !too_large(a); });
  std::move(kept, free_.end(), std::back_inserter(freed));
  free_.erase(kept, free_.end());
}

std::shared_ptr<Buffer> Arenas::take(size_t bytes, const std::byte* preferred) {
  if (guard_.forked()) return Buffer::allocate(bytes, runtime::MemoryUse::arenas);
  std::lock_guard lock(mutex_);
  if (Arena found = fitting(bytes, preferred)) return found;
  return replaced(bytes);
}

void Arenas::give_back(std::shared_ptr<Buffer> arena) {
  if (guard_.forked()) return;
  std::lock_guard lock(mutex_);
  if (!too_large(arena)) free_.push_back(std::move(arena));
}

Arenas::Arena Arenas::fitting(size_t bytes, const std::byte* preferred) {
  auto best = free_.end();
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    if ((*at)->bytes() < bytes) continue;
    if (best == free_.end() || (*at)->bytes() < (*best)->bytes() || (*at)->data() == preferred) best = at;
    if ((*best)->data() == preferred) break;
  }
  if (best == free_.end()) return nullptr;
  Arena found = std::move(*best);
  free_.erase(best);
  return found;
}

Arenas::Arena Arenas::replaced(size_t bytes) {
  const auto small = std::find_if(free_.begin(), free_.end(), [&](const Arena& a) { return a->bytes() < bytes; });
  if (small != free_.end()) free_.erase(small);
  return Buffer::allocate(bytes, runtime::MemoryUse::arenas);
}

}  // namespace mpsgraph::cpu
