// The subset of Grand Central Dispatch that the backend uses. Dispatch objects are Objective-C objects, which ARC
// retains.
//
// Like Apple's implementation, this one is strict: the process aborts with a message when a semaphore or group is
// released while in use, when a leave is unbalanced, or when dispatch_sync targets the queue that the caller runs on.
#if defined(__APPLE__)
#include_next <dispatch/dispatch.h>
#else
#pragma once
#import <Foundation/NSObject.h>

@protocol OS_dispatch_object <NSObject>
@end
@protocol OS_dispatch_queue <OS_dispatch_object>
@end
@protocol OS_dispatch_queue_attr <OS_dispatch_object>
@end
@protocol OS_dispatch_semaphore <OS_dispatch_object>
@end
@protocol OS_dispatch_group <OS_dispatch_object>
@end
@protocol OS_dispatch_data <OS_dispatch_object>
@end
typedef NSObject<OS_dispatch_queue>* dispatch_queue_t;
typedef NSObject<OS_dispatch_queue_attr>* dispatch_queue_attr_t;
typedef NSObject<OS_dispatch_semaphore>* dispatch_semaphore_t;
typedef NSObject<OS_dispatch_group>* dispatch_group_t;
typedef NSObject<OS_dispatch_data>* dispatch_data_t;

typedef void (^dispatch_block_t)(void);
typedef void (*dispatch_function_t)(void* _Nullable context);
typedef uint64_t dispatch_time_t;
typedef intptr_t dispatch_once_t;
typedef unsigned int qos_class_t;

enum : dispatch_time_t { DISPATCH_TIME_NOW = 0, DISPATCH_TIME_FOREVER = ~0ull };
#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define USEC_PER_SEC 1000000ull
#define NSEC_PER_USEC 1000ull

enum : qos_class_t {
  QOS_CLASS_USER_INTERACTIVE = 0x21,
  QOS_CLASS_USER_INITIATED = 0x19,
  QOS_CLASS_DEFAULT = 0x15,
  QOS_CLASS_UTILITY = 0x11,
  QOS_CLASS_BACKGROUND = 0x09,
  QOS_CLASS_UNSPECIFIED = 0
};
#define DISPATCH_QUEUE_PRIORITY_HIGH 2
#define DISPATCH_QUEUE_PRIORITY_DEFAULT 0
#define DISPATCH_QUEUE_PRIORITY_LOW (-2)

#define DISPATCH_EXPORT FOUNDATION_EXPORT

NS_ASSUME_NONNULL_BEGIN

DISPATCH_EXPORT dispatch_queue_attr_t mock_concurrent_attribute(void);
#define DISPATCH_QUEUE_SERIAL nil
#define DISPATCH_QUEUE_CONCURRENT mock_concurrent_attribute()
DISPATCH_EXPORT dispatch_queue_attr_t _Nullable dispatch_queue_attr_make_with_qos_class(
    dispatch_queue_attr_t _Nullable attribute, qos_class_t qos, int relative_priority);

DISPATCH_EXPORT dispatch_queue_t dispatch_queue_create(const char* _Nullable label,
                                                       dispatch_queue_attr_t _Nullable attribute) NS_RETURNS_RETAINED;
DISPATCH_EXPORT dispatch_queue_t dispatch_get_global_queue(intptr_t identifier, uintptr_t flags);
DISPATCH_EXPORT const char* dispatch_queue_get_label(dispatch_queue_t _Nullable queue);
#define DISPATCH_CURRENT_QUEUE_LABEL nil
DISPATCH_EXPORT void dispatch_queue_set_specific(dispatch_queue_t queue, const void* key, void* _Nullable context,
                                                 dispatch_function_t _Nullable destructor);
DISPATCH_EXPORT void* _Nullable dispatch_get_specific(const void* key);

DISPATCH_EXPORT void dispatch_async(dispatch_queue_t queue, dispatch_block_t block);
DISPATCH_EXPORT void dispatch_async_f(dispatch_queue_t queue, void* _Nullable context, dispatch_function_t work);
DISPATCH_EXPORT void dispatch_sync(dispatch_queue_t queue, NS_NOESCAPE dispatch_block_t block);
DISPATCH_EXPORT void dispatch_sync_f(dispatch_queue_t queue, void* _Nullable context, dispatch_function_t work);
DISPATCH_EXPORT void dispatch_barrier_async(dispatch_queue_t queue, dispatch_block_t block);
DISPATCH_EXPORT void dispatch_barrier_sync(dispatch_queue_t queue, NS_NOESCAPE dispatch_block_t block);
DISPATCH_EXPORT void dispatch_after(dispatch_time_t when, dispatch_queue_t queue, dispatch_block_t block);

DISPATCH_EXPORT dispatch_time_t dispatch_time(dispatch_time_t when, int64_t delta);
DISPATCH_EXPORT void dispatch_once(dispatch_once_t* token, NS_NOESCAPE dispatch_block_t block);

DISPATCH_EXPORT dispatch_semaphore_t dispatch_semaphore_create(intptr_t value) NS_RETURNS_RETAINED;
DISPATCH_EXPORT intptr_t dispatch_semaphore_wait(dispatch_semaphore_t semaphore, dispatch_time_t timeout);
DISPATCH_EXPORT intptr_t dispatch_semaphore_signal(dispatch_semaphore_t semaphore);

DISPATCH_EXPORT dispatch_group_t dispatch_group_create(void) NS_RETURNS_RETAINED;
DISPATCH_EXPORT void dispatch_group_enter(dispatch_group_t group);
DISPATCH_EXPORT void dispatch_group_leave(dispatch_group_t group);
DISPATCH_EXPORT intptr_t dispatch_group_wait(dispatch_group_t group, dispatch_time_t timeout);
DISPATCH_EXPORT void dispatch_group_async(dispatch_group_t group, dispatch_queue_t queue, dispatch_block_t block);
DISPATCH_EXPORT void dispatch_group_notify(dispatch_group_t group, dispatch_queue_t queue, dispatch_block_t block);

NS_ASSUME_NONNULL_END
#endif
