// Dispatch semaphores and groups.
#include <dispatch/dispatch.h>

#include <utility>
#include <vector>

#include "dispatch/wait.h"
#include "foundation/support.h"

@interface MockSemaphore : NSObject <OS_dispatch_semaphore> {
 @public
  std::mutex _lock;
  std::condition_variable _changed;
  intptr_t _value, _original;
}
@end
@implementation MockSemaphore
- (void)dealloc {
  if (_value < _original)
    mock::fatal("a semaphore was released while in use: value %ld, initially %ld", _value, _original);
}
@end

dispatch_semaphore_t dispatch_semaphore_create(intptr_t value) {
  if (value < 0) return nil;
  MockSemaphore* const semaphore = [[MockSemaphore alloc] init];
  semaphore->_value = semaphore->_original = value;
  return semaphore;
}

intptr_t dispatch_semaphore_wait(dispatch_semaphore_t semaphore, dispatch_time_t timeout) {
  MockSemaphore* const it = static_cast<MockSemaphore*>(semaphore);
  std::unique_lock lock(it->_lock);
  if (!mock::wait_until(it->_changed, lock, timeout, [&] { return it->_value > 0; })) return 1;
  --it->_value;
  return 0;
}

intptr_t dispatch_semaphore_signal(dispatch_semaphore_t semaphore) {
  MockSemaphore* const it = static_cast<MockSemaphore*>(semaphore);
  const std::lock_guard lock(it->_lock);
  ++it->_value;
  it->_changed.notify_one();
  return 0;
}

@interface MockGroup : NSObject <OS_dispatch_group> {
 @public
  std::mutex _lock;
  std::condition_variable _changed;
  long _entered;
  std::vector<std::pair<dispatch_queue_t, dispatch_block_t>> _to_notify;
}
@end
@implementation MockGroup
- (void)dealloc {
  if (_entered != 0) mock::fatal("a dispatch group was released while in use: %ld enters without leave", _entered);
}
@end

dispatch_group_t dispatch_group_create(void) { return [[MockGroup alloc] init]; }

void dispatch_group_enter(dispatch_group_t group) {
  MockGroup* const it = static_cast<MockGroup*>(group);
  const std::lock_guard lock(it->_lock);
  ++it->_entered;
}

void dispatch_group_leave(dispatch_group_t group) {
  MockGroup* const it = static_cast<MockGroup*>(group);
  decltype(it->_to_notify) to_notify;
  {
    const std::lock_guard lock(it->_lock);
    if (--it->_entered < 0) mock::fatal("dispatch_group_leave without dispatch_group_enter");
    if (it->_entered > 0) return;
    to_notify.swap(it->_to_notify);
    it->_changed.notify_all();
  }
  for (const auto& [queue, block] : to_notify) dispatch_async(queue, block);
}

intptr_t dispatch_group_wait(dispatch_group_t group, dispatch_time_t timeout) {
  MockGroup* const it = static_cast<MockGroup*>(group);
  std::unique_lock lock(it->_lock);
  return mock::wait_until(it->_changed, lock, timeout, [&] { return it->_entered == 0; }) ? 0 : 1;
}

void dispatch_group_async(dispatch_group_t group, dispatch_queue_t queue, dispatch_block_t block) {
  dispatch_group_enter(group);
  dispatch_async(queue, ^{
    block();
    dispatch_group_leave(group);
  });
}

void dispatch_group_notify(dispatch_group_t group, dispatch_queue_t queue, dispatch_block_t block) {
  MockGroup* const it = static_cast<MockGroup*>(group);
  {
    const std::lock_guard lock(it->_lock);
    if (it->_entered > 0) {
      it->_to_notify.emplace_back(queue, [block copy]);
      return;
    }
  }
  dispatch_async(queue, block);
}
