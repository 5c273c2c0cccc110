// Shares machine code between equal kernels. Long chains and unrolled loops consist of many equal kernels, for which
// generating code takes most of the compile time. Entries do not keep code alive, and their number is bounded.
#include "backends/cpu/jit/code_cache.h"

#include <mutex>
#include <unordered_map>

namespace mpsgraph::cpu::jit {
namespace {

constexpr size_t most_entries = 256;

struct Key {
  explicit Key(const VectorCode& code)
      : set(code.set),
        lane_bytes(code.lane_bytes),
        accumulators(code.accumulators),
        prefetched(code.prefetched),
        nodes(code.nodes) {}
  bool operator==(const Key&) const = default;

  VectorSet set;
  int lane_bytes, accumulators;
  std::vector<int> prefetched;
  std::vector<Node> nodes;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    size_t hash = key.nodes.size();
    for (const Node& node : key.nodes) hash = hash * 0x9e3779b97f4a7c15u ^ NodeHash()(node);
    return hash;
  }
};

}  // namespace

std::shared_ptr<const CodeMemory> compiled(VectorCode code) {
  static std::mutex mutex;
  // never destroyed, because threads may outlive static objects
  static auto& known = *new std::unordered_map<Key, std::weak_ptr<const CodeMemory>, KeyHash>();
  Key key(code);
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(key); found != known.end())
      if (auto memory = found->second.lock()) return memory;
  }
  auto memory = CodeMemory::make(generate(std::move(code)));
  const std::lock_guard lock(mutex);
  if (known.size() >= most_entries) known.clear();
  known.insert_or_assign(std::move(key), memory);
  return memory;
}

}  // namespace mpsgraph::cpu::jit
