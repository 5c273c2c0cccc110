// Command queues with one thread each, command buffers, shared events, and their listeners.
#include "metal/resource.h"

#include <dispatch/dispatch.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "faults.h"
#include "metal/counts.h"

#pragma clang diagnostic ignored "-Wprotocol"
#pragma clang diagnostic ignored "-Wobjc-protocol-property-synthesis"

namespace {

std::atomic<uint64_t> committed{0};
std::mutex control_mutex;
std::condition_variable control_changed;
std::string fault, faulty_label;
bool held = false;

std::string take_fault(NSString* label) {
  std::unique_lock lock(control_mutex);
  control_changed.wait(lock, [] { return !held; });
  const char* name = label.UTF8String;
  if (!faulty_label.empty() && faulty_label != (name ? name : "")) return {};
  faulty_label.clear();
  return std::exchange(fault, {});
}

NSError* error_saying(NSString* text) {
  return [NSError errorWithDomain:MTLCommandBufferErrorDomain
                             code:MTLCommandBufferErrorInternal
                         userInfo:@{NSLocalizedDescriptionKey : text}];
}

}  // namespace

NSErrorDomain const MTLCommandBufferErrorDomain = @"MTLCommandBufferErrorDomain";

extern "C" {
void mock_fail_next_command_buffer(const char* message) { mock_fail_command_buffer("", message); }
void mock_fail_command_buffer(const char* label, const char* message) {
  std::lock_guard lock(control_mutex);
  faulty_label = label;
  fault = message;
}
void mock_hold_command_buffers(int hold) {
  {
    std::lock_guard lock(control_mutex);
    held = hold != 0;
  }
  control_changed.notify_all();
}
uint64_t mock_committed_command_buffers(void) { return committed; }
}

// --- events ----------------------------------------------------------------------------------------------------------

@implementation MTLSharedEventListener {
  dispatch_queue_t _dispatchQueue;
}
- (instancetype)init {
  return [self initWithDispatchQueue:dispatch_queue_create("mock.listener", nil)];
}
- (instancetype)initWithDispatchQueue:(dispatch_queue_t)queue {
  if ((self = [super init])) _dispatchQueue = queue;
  return self;
}
- (dispatch_queue_t)dispatchQueue {
  return _dispatchQueue;
}
@end

@implementation MockSharedEvent {
  std::mutex _mutex;
  std::condition_variable _condition;
  uint64_t _value;
  std::multimap<uint64_t, void (^)(void)> _notifications;
}
@synthesize label = _label;

- (uint64_t)signaledValue {
  std::lock_guard lock(_mutex);
  return _value;
}

- (void)setSignaledValue:(uint64_t)value {
  std::vector<void (^)(void)> due;
  {
    std::lock_guard lock(_mutex);
    _value = value;
    const auto end = _notifications.upper_bound(value);
    for (auto i = _notifications.begin(); i != end; ++i) due.push_back(i->second);
    _notifications.erase(_notifications.begin(), end);
  }
  _condition.notify_all();
  for (void (^notify)(void) : due) notify();
}

- (void)waitForValue:(uint64_t)value {
  std::unique_lock lock(_mutex);
  _condition.wait(lock, [&] { return _value >= value; });
}

- (void)notifyListener:(MTLSharedEventListener*)listener
               atValue:(uint64_t)value
                 block:(MTLSharedEventNotificationBlock)block {
  dispatch_queue_t queue = listener.dispatchQueue;
  __weak MockSharedEvent* weak = self;
  void (^notify)(void) = ^{
    MockSharedEvent* event = weak;
    dispatch_async(queue, ^{
      mock::pause_at_random();
      block(event, value);
    });
  };
  {
    std::lock_guard lock(_mutex);
    if (_value < value) {
      _notifications.emplace(value, notify);
      return;
    }
  }
  notify();
}
@end

// --- queue -----------------------------------------------------------------------------------------------------------

@implementation MockCommandQueue {
 @package
  MockDevice* _device;
  dispatch_queue_t _thread, _handlers;
  dispatch_semaphore_t _free;
}
@synthesize label = _label;

- (instancetype)initWithDevice:(MockDevice*)device limit:(NSUInteger)limit {
  if (!(self = [super init])) return nil;
  _device = device;
  _thread = dispatch_queue_create("mock.queue", nil);
  _handlers = dispatch_queue_create("mock.handlers", nil);
  _free = dispatch_semaphore_create(static_cast<intptr_t>(limit));
  return self;
}
- (id<MTLDevice>)device {
  return _device;
}
- (id<MTLCommandBuffer>)commandBuffer {
  dispatch_semaphore_wait(_free, DISPATCH_TIME_FOREVER);
  return [[MockCommandBuffer alloc] initWithQueue:self];
}
@end

// --- command buffer --------------------------------------------------------------------------------------------------

@implementation MockCommandBuffer {
  MockCommandQueue* _queue;
  std::vector<std::function<void()>> _commands;
  std::vector<MTLCommandBufferHandler> _scheduled, _completed;
  std::mutex _mutex;
  std::condition_variable _condition;
  MTLCommandBufferStatus _status;
  NSError* _error;
  bool _is_over, _has_open_encoder;
  std::vector<std::shared_ptr<mock::Temporary>> _temporaries;
  NSString* _leftover;
}
@synthesize label = _label;

- (instancetype)initWithQueue:(MockCommandQueue*)queue {
  if ((self = [super init])) _queue = queue;
  return self;
}

- (void)dealloc {
  if (_status == MTLCommandBufferStatusNotEnqueued) dispatch_semaphore_signal(_queue->_free);
}

- (void)requireOpen:(const char*)what {
  std::lock_guard lock(_mutex);
  if (_status != MTLCommandBufferStatusNotEnqueued) mock::misuse(@"%s must not follow commit", what);
  if (_has_open_encoder) mock::misuse(@"%s must not precede endEncoding of the open encoder", what);
}

- (id<MTLDevice>)device {
  return _queue.device;
}
- (id<MTLCommandQueue>)commandQueue {
  return _queue;
}
- (MTLCommandBufferStatus)status {
  std::lock_guard lock(_mutex);
  return _status;
}
- (NSError*)error {
  std::lock_guard lock(_mutex);
  return _error;
}

- (void)encodeWork:(std::function<void()>)work {
  [self requireOpen:"encode"];
  _commands.push_back(std::move(work));
}
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value {
  [self requireOpen:"encodeWaitForEvent"];
  MockSharedEvent* awaited = static_cast<MockSharedEvent*>(event);
  _commands.push_back([awaited, value] { [awaited waitForValue:value]; });
}
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value {
  [self requireOpen:"encodeSignalEvent"];
  MockSharedEvent* signalled = static_cast<MockSharedEvent*>(event);
  if (!mock_is_broken("unsignaled_events"))
    _commands.push_back([signalled, value] { signalled.signaledValue = value; });
}
- (id<MTLBlitCommandEncoder>)blitCommandEncoder {
  ++mock::counters().encodes;
  [self requireOpen:"blitCommandEncoder"];
  _has_open_encoder = true;
  return [[MockBlitEncoder alloc] initWithCommandBuffer:self commands:&_commands];
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
  ++mock::counters().encodes;
  [self requireOpen:"computeCommandEncoder"];
  _has_open_encoder = true;
  return [[MockComputeEncoder alloc] initWithCommandBuffer:self commands:&_commands];
}
- (void)encoderEnded {
  _has_open_encoder = false;
}
- (void)addTemporary:(std::shared_ptr<mock::Temporary>)temporary {
  [self requireOpen:"creating a temporary object"];
  temporary->buffer = self;
  _temporaries.push_back(std::move(temporary));
}
- (void)moveTemporariesTo:(MockCommandBuffer*)next {
  for (auto& temporary : std::exchange(_temporaries, {})) [next addTemporary:temporary];
}
- (void)addScheduledHandler:(MTLCommandBufferHandler)handler {
  [self requireOpen:"addScheduledHandler"];
  _scheduled.push_back(handler);
}
- (void)addCompletedHandler:(MTLCommandBufferHandler)handler {
  [self requireOpen:"addCompletedHandler"];
  _completed.push_back(handler);
}

- (void)commit {
  [self requireOpen:"commit"];
  for (const auto& temporary : std::exchange(_temporaries, {}))
    if (temporary->reads != 0)
      _leftover = [NSString
          stringWithFormat:@"commit: the readCount of %@ must be 0, got %lu", temporary->what, temporary->reads];
  {
    std::lock_guard lock(_mutex);
    _status = MTLCommandBufferStatusCommitted;
  }
  ++committed;
  ++mock::counters().command_buffers;
  dispatch_async(_queue->_thread, ^{ [self run]; });
}

- (void)run {
  mock::pause_at_random();
  {
    std::lock_guard lock(_mutex);
    _status = MTLCommandBufferStatusScheduled;
  }
  const auto scheduled = std::exchange(_scheduled, {});
  dispatch_async(_queue->_handlers, ^{
    for (MTLCommandBufferHandler handler : scheduled) handler(self);
  });
  NSError* failure = nil;
  if (const std::string planned = take_fault(_label); !planned.empty()) failure = error_saying(@(planned.c_str()));
  static std::atomic<int> runs{0};
  if (mock_is_broken("gpu_timeouts") && ++runs % 40 == 0)
    failure = error_saying(@"Caused GPU Timeout Error (00000002:kIOAccelCommandBufferCallbackErrorTimeout)");
  if (_leftover) failure = error_saying(_leftover);
  for (auto& command : _commands) {
    if (failure) break;
    @autoreleasepool {
      @try {
        command();
      } @catch (NSException* exception) {
        failure = error_saying([NSString stringWithFormat:@"%@: %@", exception.name, exception.reason]);
      }
    }
  }
  _commands.clear();
  {
    std::lock_guard lock(_mutex);
    _error = failure;
    _status = failure ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted;
  }
  dispatch_semaphore_signal(_queue->_free);
  dispatch_async(_queue->_handlers, ^{
    mock::pause_at_random();
    [self finish];
  });
}

- (void)finish {
  for (MTLCommandBufferHandler handler : std::exchange(_completed, {})) handler(self);
  {
    std::lock_guard lock(_mutex);
    _is_over = true;
  }
  _condition.notify_all();
}

- (void)waitUntilCompleted {
  ++mock::counters().host_waits;
  std::unique_lock lock(_mutex);
  if (_status == MTLCommandBufferStatusNotEnqueued) mock::misuse(@"waitUntilCompleted was called before commit");
  _condition.wait(lock, [&] { return _is_over; });
}
@end
