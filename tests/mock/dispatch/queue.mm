// Dispatch queues: blocks start in the order of submission. A serial queue runs one block at a time. A concurrent queue
// runs several at a time, but a barrier block runs alone.
//
// A queue has no dedicated thread. Whenever a block may start, start_what_can passes it to the pool, or, if a thread
// waits in dispatch_sync, wakes that thread, because the block of a dispatch_sync runs on the caller's thread.
#include <dispatch/dispatch.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "dispatch/pool.h"
#include "foundation/support.h"

namespace {

struct Turn {
  std::condition_variable came;
  bool mine = false;
};

struct Item {
  dispatch_block_t block;  // nil for a dispatch_sync
  Turn* turn;
  bool alone;
};

struct Specific {
  void* context;
  dispatch_function_t destructor;
};

}  // namespace

@interface MockQueueAttribute : NSObject <OS_dispatch_queue_attr>
@end
@implementation MockQueueAttribute
@end

@interface MockQueue : NSObject <OS_dispatch_queue> {
 @public
  std::mutex _lock;
  std::deque<Item> _waiting;
  size_t _running;
  bool _one_runs_alone;
  bool _serial;
  std::string _label;
  std::unordered_map<const void*, Specific> _specifics;
}
@end

// The queues whose blocks this thread is running, innermost last. They are not retained here, because running them
// retains them.
static std::vector<__unsafe_unretained MockQueue*>& current_queues() {
  thread_local std::vector<__unsafe_unretained MockQueue*> queues;
  return queues;
}

@implementation MockQueue

- (void)dealloc {
  for (const auto& [key, specific] : _specifics) {
    if (specific.destructor) specific.destructor(specific.context);
  }
}

- (void)run:(NS_NOESCAPE dispatch_block_t)block {
  current_queues().push_back(self);
  const struct Leave {
    ~Leave() { current_queues().pop_back(); }
  } leave;
  block();
}

- (void)finish {
  const std::lock_guard lock(_lock);
  --_running;
  _one_runs_alone = false;
  [self start_what_can];
}

// The caller must hold the lock.
- (void)start_what_can {
  while (!_waiting.empty() && !_one_runs_alone && (_running == 0 || !_waiting.front().alone)) {
    const Item item = _waiting.front();
    _waiting.pop_front();
    ++_running;
    _one_runs_alone = item.alone;
    if (item.turn) {
      item.turn->mine = true;
      item.turn->came.notify_one();
      continue;
    }
    mock::submit([self, block = item.block]() mutable {
      [self run:block];
      block = nil;  // release captured objects before the next block of a serial queue starts
      [self finish];
    });
  }
}

- (void)add:(dispatch_block_t)block alone:(bool)alone {
  const std::lock_guard lock(_lock);
  _waiting.push_back({[block copy], nullptr, alone || _serial});
  [self start_what_can];
}

- (void)runNow:(NS_NOESCAPE dispatch_block_t)block alone:(bool)alone {
  if (_serial) {
    for (const MockQueue* queue : current_queues()) {
      if (queue == self)
        mock::fatal("deadlock: dispatch_sync on the serial queue %s from a block that runs on it", _label.c_str());
    }
  }
  {
    Turn turn;
    std::unique_lock lock(_lock);
    _waiting.push_back({nil, &turn, alone || _serial});
    [self start_what_can];
    turn.came.wait(lock, [&] { return turn.mine; });
  }
  struct Finish {
    __unsafe_unretained MockQueue* queue;
    ~Finish() { [queue finish]; }
  } const finish{self};
  [self run:block];
}

@end

static MockQueue* queue_of(dispatch_queue_t queue) {
  if (!queue) mock::fatal("dispatch functions must not be called with a nil queue");
  return static_cast<MockQueue*>(queue);
}

dispatch_queue_attr_t mock_concurrent_attribute(void) {
  static MockQueueAttribute* const attribute = [] {
    MockQueueAttribute* const made = [[MockQueueAttribute alloc] init];
    mock_make_immortal(made);
    return made;
  }();
  return attribute;
}

dispatch_queue_attr_t dispatch_queue_attr_make_with_qos_class(dispatch_queue_attr_t attribute, qos_class_t, int) {
  return attribute;
}

dispatch_queue_t dispatch_queue_create(const char* label, dispatch_queue_attr_t attribute) {
  MockQueue* const queue = [[MockQueue alloc] init];
  queue->_serial = attribute == DISPATCH_QUEUE_SERIAL;
  queue->_label = label ? label : "";
  return queue;
}

dispatch_queue_t dispatch_get_global_queue(intptr_t, uintptr_t) {
  static const dispatch_queue_t queue = [] {
    const dispatch_queue_t made = dispatch_queue_create("com.apple.root.default-qos", DISPATCH_QUEUE_CONCURRENT);
    mock_make_immortal(made);
    return made;
  }();
  return queue;
}

const char* dispatch_queue_get_label(dispatch_queue_t queue) {
  if (queue) return queue_of(queue)->_label.c_str();
  return current_queues().empty() ? "" : current_queues().back()->_label.c_str();
}

void dispatch_queue_set_specific(dispatch_queue_t queue, const void* key, void* context,
                                 dispatch_function_t destructor) {
  MockQueue* const to = queue_of(queue);
  Specific old{};
  {
    const std::lock_guard lock(to->_lock);
    std::swap(old, to->_specifics[key]);
    if (context)
      to->_specifics[key] = {context, destructor};
    else
      to->_specifics.erase(key);
  }
  if (old.destructor) old.destructor(old.context);
}

void* dispatch_get_specific(const void* key) {
  if (current_queues().empty()) return nullptr;
  MockQueue* const queue = current_queues().back();
  const std::lock_guard lock(queue->_lock);
  const auto found = queue->_specifics.find(key);
  return found == queue->_specifics.end() ? nullptr : found->second.context;
}

void dispatch_async(dispatch_queue_t queue, dispatch_block_t block) { [queue_of(queue) add:block alone:false]; }
void dispatch_barrier_async(dispatch_queue_t queue, dispatch_block_t block) { [queue_of(queue) add:block alone:true]; }
void dispatch_async_f(dispatch_queue_t queue, void* context, dispatch_function_t work) {
  dispatch_async(queue, ^{ work(context); });
}
void dispatch_sync(dispatch_queue_t queue, NS_NOESCAPE dispatch_block_t block) {
  [queue_of(queue) runNow:block alone:false];
}
void dispatch_barrier_sync(dispatch_queue_t queue, NS_NOESCAPE dispatch_block_t block) {
  [queue_of(queue) runNow:block alone:true];
}
void dispatch_sync_f(dispatch_queue_t queue, void* context, dispatch_function_t work) {
  dispatch_sync(queue, ^{ work(context); });
}

void dispatch_after(dispatch_time_t when, dispatch_queue_t queue, dispatch_block_t block) {
  MockQueue* const to = queue_of(queue);
  if (when == DISPATCH_TIME_FOREVER) return;
  mock::submit_at(when, [to, kept = static_cast<dispatch_block_t>([block copy])] { dispatch_async(to, kept); });
}
