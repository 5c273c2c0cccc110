// Packs large constants onto huge pages. Most of the cost of reading a model's weights is the first access to each page
// of memory, and one huge page replaces 512 small pages.
//
// Blocks are allocated from a chunk until it is full. A chunk is never refilled, and is freed together with the last of
// its blocks. A block that is freed earlier than its chunk returns its own pages to the system. Only allocations beyond
// the first few megabytes use chunks, so that small models do not reserve more memory than they need.
#include "core/weight_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace mpsgraph {
namespace {

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
constexpr bool has_huge_pages = true;

void use_huge_pages(std::byte* memory, size_t bytes) { madvise(memory, bytes, MADV_HUGEPAGE); }
void give_back(std::byte* memory, size_t bytes) { madvise(memory, bytes, MADV_DONTNEED); }
#else
constexpr bool has_huge_pages = false;  // disabled with AddressSanitizer, which would need room next to each block

void use_huge_pages(std::byte*, size_t) {}
void give_back(std::byte*, size_t) {}
#endif

constexpr size_t page = 4096, huge_page = size_t{2} << 20, chunk_bytes = 4 * huge_page;
constexpr size_t large = 4 * page, few = huge_page;

constexpr size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

struct Chunk {
  explicit Chunk(size_t bytes)
      : memory(static_cast<std::byte*>(std::aligned_alloc(huge_page, rounded(bytes, huge_page)))), bytes(bytes) {
    if (!memory) throw std::bad_alloc();
    use_huge_pages(memory, bytes / huge_page * huge_page);
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
  ~Chunk() { std::free(memory); }

  std::byte* const memory;
  const size_t bytes;
  size_t taken = 0;
};

class Chunks {
 public:
  static Chunks& get() {
    static Chunks& instance = *new Chunks;  // never destroyed, because constants may be freed until the process ends
    return instance;
  }

  // Returns memory for a block, and the chunk that contains the memory. The chunk must live as long as the block.
  std::pair<std::byte*, std::shared_ptr<Chunk>> take(size_t bytes) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Chunk> chunk = current_.lock();
    if (!chunk || bytes > chunk->bytes - chunk->taken) {
      chunk = std::make_shared<Chunk>(std::max(bytes, chunk_bytes));
      if (bytes < chunk_bytes) current_ = chunk;
    }
    std::byte* memory = chunk->memory + chunk->taken;
    chunk->taken += bytes;
    return {memory, std::move(chunk)};
  }

  std::atomic<size_t> live{0};  // total bytes of all large constants

 private:
  std::mutex mutex_;
  std::weak_ptr<Chunk> current_;
};

}  // namespace

std::shared_ptr<std::byte> weight_memory(size_t bytes) {
  if (!has_huge_pages || bytes < large) return {new std::byte[bytes], std::default_delete<std::byte[]>()};
  Chunks& chunks = Chunks::get();
  if (chunks.live + bytes <= few) {
    auto* memory = new std::byte[bytes];
    chunks.live += bytes;
    return {memory, [bytes, &chunks](std::byte* block) {
              chunks.live -= bytes;
              delete[] block;
            }};
  }
  const size_t whole = rounded(bytes, page);
  auto [memory, chunk] = chunks.take(whole);
  chunks.live += bytes;
  return {memory, [bytes, whole, &chunks, chunk = std::move(chunk)](std::byte* block) {
            chunks.live -= bytes;
            if (chunk.use_count() > 1) give_back(block, whole);
          }};
}

}  // namespace mpsgraph
