// Waits for conflicting uses of arrays, and copies arrays to and from staging memory.
#include "backends/metal/array_uses.h"

#include <algorithm>
#include <cstring>

#include "backends/metal/signposts.h"

namespace mpsgraph::metal {

using runtime::NDArray;

void ArrayUses::use(const NDArray& array, Access access, bool tracked) {
  uses_.emplace_back(array, access != Access::reads, tracked);
}

BufferView ArrayUses::view(const NDArray& array, Access access) {
  const auto known = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.view.buffer && entry.array.data() == array.data() && entry.array.bytes() == array.bytes();
  });
  Entry& entry = known != entries_.end() ? *known : entries_.emplace_back(Entry{array, device_.view_of(array)});
  entry.reads |= access != Access::writes;
  entry.writes |= access != Access::reads;
  use(array, access, entry.view.tracked);
  return entry.view;
}

void ArrayUses::add(const NDArray& array, Access access, BufferView view) {
  use(array, access, view.tracked);
  entries_.push_back({array, std::move(view), access != Access::writes, access != Access::reads});
}

ArrayData ArrayUses::data(const NDArray& array, Access access) {
  ArrayData data = device_.data_of(array);
  use(array, access, data.tracked);
  Entry& entry = entries_.emplace_back(Entry{array, {}});
  entry.view.staged = data.staged;
  entry.reads = access != Access::writes;
  entry.writes = access != Access::reads;
  return data;
}

void ArrayUses::begin(MetalCommands& commands) {
  struct Kept {
    std::vector<Entry> entries;
    // A token that marks the uses as pending as long as it exists. It is destroyed before the entries, because
    // releasing an array may have to wait for another thread, such as one that holds Python's GIL, which may in turn be
    // waiting for these uses.
    std::shared_ptr<const void> uses;
  };
  const auto kept = std::make_shared<Kept>();
  kept->uses = device_.uses.try_add(uses_);
  if (!kept->uses) {
    commands.finish();  // the conflicting use may be part of `commands`, or may depend on it
    kept->uses = device_.uses.add(uses_);
  }
  for (const Entry& entry : entries_) {
    const std::shared_ptr<PooledMemory>& staged = entry.view.staged;
    if (!staged) continue;
    if (entry.reads) {
      const Signpost copying(Phase::copy, "feed");
      std::memcpy(staged->buffer.contents, entry.array.data(), entry.array.bytes());
    }
    if (entry.writes)
      commands.copy_back([staged, result = entry.array] {
        const Signpost copying(Phase::copy, "result");
        std::memcpy(result.data(), staged->buffer.contents, result.bytes());
      });
  }
  kept->entries = std::move(entries_);
  commands.keep(kept);
}

}  // namespace mpsgraph::metal
