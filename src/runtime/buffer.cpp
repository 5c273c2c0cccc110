// Buffers, and a cache of freed blocks. The cache has four size classes per power of two and a limit on its total size;
// the oldest blocks are evicted first.
//
// Free blocks are linked through their own first bytes, so the cache itself allocates nothing.
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "mpsgraph/runtime/ndarray.h"
#include "mpsgraph/runtime/process.h"
#include "runtime/memory_limit.h"

namespace mpsgraph::runtime {

size_t memory_limit() {
  static const size_t limit = [] {
    size_t physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (auto* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
      size_t contained = 0;
      // The file may contain "max", which is not a number.
      if (std::ifstream(path) >> contained) physical = std::min(physical, contained);
    }
    return physical;
  }();
  return limit;
}

namespace {

constexpr size_t cache_line = 64, page = 4096, page_aligned_from = 16384;
constexpr size_t huge_page = size_t{2} << 20, huge_pages_from = size_t{8} << 20;

struct SizeClass {
  size_t bytes;  // allocated size in bytes
  size_t index;
};

// Rounds a size up to a number in which only the three leading bits can be nonzero: 64, 128, 192, 256, 320, ... Large
// classes are whole pages.
SizeClass size_class(size_t bytes) {
  bytes = (std::max(bytes, cache_line) + cache_line - 1) / cache_line * cache_line;
  const int width = std::bit_width(bytes - 1);
  const int shift = width - 3;
  const size_t last = (bytes - 1) >> shift;  // 4 ... 7
  const size_t rounded = std::max((last + 1) << shift, cache_line);
  return {(rounded + cache_line - 1) / cache_line * cache_line, static_cast<size_t>(width) * 4 + (last & 3)};
}

struct FreeBlock {
  FreeBlock *newer, *older;  // list of all free blocks by age
  FreeBlock *next, *previous;  // list of the free blocks of one class
  size_t bytes, index;
};
static_assert(sizeof(FreeBlock) <= cache_line);

class Cache {
 public:
  static Cache& get() {
    static Cache& instance = *new Cache;  // never destroyed, because buffers may be freed until the process ends
    return instance;
  }

  void* allocate(size_t wanted, MemoryUse use) {
    const size_t limit = memory_limit();
    if (wanted > limit) fail(wanted);
    const SizeClass size = size_class(wanted);
    if (usable()) {
      std::lock_guard lock(mutex_);
      if (size.bytes > limit || live_ > limit - size.bytes) fail(wanted);
      ++allocations_;
      live_ += size.bytes;
      peak_ = std::max<size_t>(peak_, live_);
      account(use, size.bytes);
      if (FreeBlock* block = heads_[size.index]) {
        ++reused_;
        unlink(block);
        return block;
      }
    }
    void* fresh = system_allocate(size.bytes);
    if (!fresh && usable()) {
      trim(0);
      fresh = system_allocate(size.bytes);
    }
    if (!fresh) {
      if (usable()) {
        std::lock_guard lock(mutex_);
        live_ -= size.bytes;
        live_by_use_[static_cast<size_t>(use)] -= size.bytes;
      }
      fail(wanted);
    }
    return fresh;
  }

  void release(void* data, size_t wanted, MemoryUse use) {
    const SizeClass size = size_class(wanted);
    if (!usable()) return std::free(data);
    {
      std::lock_guard lock(mutex_);
      live_ -= size.bytes;
      live_by_use_[static_cast<size_t>(use)] -= size.bytes;
      if (size.bytes <= limit_) {
        link(new (data) FreeBlock{.newer = nullptr,
                                  .older = newest_,
                                  .next = heads_[size.index],
                                  .previous = nullptr,
                                  .bytes = size.bytes,
                                  .index = size.index});
        data = nullptr;
      }
    }
    std::free(data);
    trim(limit_);
  }

  void set_limit(size_t bytes) {
    limit_ = bytes;
    trim(bytes);
  }

  BufferStatistics statistics() {
    std::lock_guard lock(mutex_);
    return {.live_bytes = live_,
            .peak_live_bytes = peak_,
            .cached_bytes = cached_,
            .cache_limit = limit_,
            .allocations = allocations_,
            .reused = reused_,
            .live_by_use = live_by_use_,
            .peak_by_use = peak_by_use_};
  }

  [[noreturn]] static void fail(size_t bytes) {
    throw OutOfMemoryError(cat("cannot allocate ", bytes, " bytes: ", get().statistics_text(),
                               "the limit of this process is ", memory_limit(),
                               " bytes; use smaller shapes or free results that are no longer needed"));
  }

 private:
  void account(MemoryUse use, size_t bytes) {
    const auto i = static_cast<size_t>(use);
    live_by_use_[i] += bytes;
    peak_by_use_[i] = std::max(peak_by_use_[i], live_by_use_[i]);
  }

  // Whether the cache can be used. In a forked child it cannot, because a thread of the parent may have held the mutex
  // at the time of the fork, and the mutex then stays locked forever.
  bool usable() const { return !guard_.forked(); }

  std::string statistics_text() const { return cat(live_.load(), " bytes are in use, "); }

  static void* system_allocate(size_t bytes) {
    if (bytes < page_aligned_from) return std::aligned_alloc(cache_line, bytes);
    if (bytes < huge_pages_from) return std::aligned_alloc(page, bytes);
    void* data = std::aligned_alloc(huge_page, bytes);  // a huge page causes one page fault instead of 512
#ifdef __linux__
    if (data) madvise(data, bytes / huge_page * huge_page, MADV_HUGEPAGE);
#endif
    return data;
  }

  void link(FreeBlock* block) {
    (newest_ ? newest_->newer : oldest_) = block;
    newest_ = block;
    if (block->next) block->next->previous = block;
    heads_[block->index] = block;
    cached_ += block->bytes;
  }
  void unlink(FreeBlock* block) {
    (block->newer ? block->newer->older : newest_) = block->older;
    (block->older ? block->older->newer : oldest_) = block->newer;
    (block->previous ? block->previous->next : heads_[block->index]) = block->next;
    if (block->next) block->next->previous = block->previous;
    cached_ -= block->bytes;
  }
  void trim(size_t limit) {
    for (;;) {
      FreeBlock* block;
      {
        std::lock_guard lock(mutex_);
        if (cached_ <= limit) return;
        block = oldest_;
        unlink(block);
      }
      std::free(block);
    }
  }

  const ForkGuard guard_;
  std::mutex mutex_;
  std::array<FreeBlock*, 65 * 4> heads_{};
  FreeBlock *newest_ = nullptr, *oldest_ = nullptr;
  std::atomic<size_t> limit_{size_t{256} << 20};
  std::atomic<size_t> live_{0};  // bytes in use; written only with the mutex held
  size_t peak_ = 0, cached_ = 0;
  std::array<size_t, 3> live_by_use_{}, peak_by_use_{};
  uint64_t allocations_ = 0, reused_ = 0;
};

}  // namespace

std::shared_ptr<Buffer> Buffer::allocate(size_t bytes, MemoryUse use) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->data_ = static_cast<std::byte*>(Cache::get().allocate(bytes, use));
  buffer->use_ = use;
  buffer->bytes_ = bytes;
  return buffer;
}

std::shared_ptr<Buffer> Buffer::borrow(void* data, size_t bytes, std::function<void()> release, bool writable) {
  std::shared_ptr<Buffer> buffer(new Buffer);
  buffer->data_ = static_cast<std::byte*>(data);
  buffer->bytes_ = bytes;
  buffer->writable_ = writable;
  buffer->release_ = release ? std::move(release) : [] {};
  return buffer;
}

std::shared_ptr<Buffer> Buffer::of_device(void* data, size_t bytes, std::unique_ptr<DeviceMemory> memory) {
  std::shared_ptr<Buffer> buffer = borrow(data, bytes, {});
  buffer->device_memory_ = std::move(memory);
  return buffer;
}

Buffer::~Buffer() {
  if (release_)
    release_();
  else if (data_)
    Cache::get().release(data_, bytes_, use_);
}

void Buffer::set_cache_limit(size_t bytes) { Cache::get().set_limit(bytes); }

BufferStatistics Buffer::statistics() { return Cache::get().statistics(); }

void require_memory(size_t bytes) {
  if (bytes > memory_limit()) Cache::fail(bytes);
}

}  // namespace mpsgraph::runtime
