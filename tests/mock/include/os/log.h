// os_log. On Linux, messages are recorded for tests (see mock.h). For an Apple target without the SDK's header, the
// declarations refer to the system's own entry points.
#if defined(__APPLE__) && __has_include_next(<os/log.h>)
#include_next <os/log.h>
#else
#pragma once
#import <Foundation/NSObject.h>

#include <stdint.h>

#if defined(__APPLE__)
#include <os/object.h>
OS_OBJECT_DECL(os_log);
#else
@protocol OS_os_log <NSObject>
@end
typedef NSObject<OS_os_log>* os_log_t;
#endif

typedef uint8_t os_log_type_t;
enum : os_log_type_t {
  OS_LOG_TYPE_DEFAULT = 0x00,
  OS_LOG_TYPE_INFO = 0x01,
  OS_LOG_TYPE_DEBUG = 0x02,
  OS_LOG_TYPE_ERROR = 0x10,
  OS_LOG_TYPE_FAULT = 0x11
};

NS_ASSUME_NONNULL_BEGIN
FOUNDATION_EXPORT os_log_t os_log_create(const char* subsystem, const char* category) NS_RETURNS_RETAINED;
FOUNDATION_EXPORT BOOL os_log_type_enabled(os_log_t log, os_log_type_t type);
#if defined(__APPLE__)
extern "C" char __dso_handle;
FOUNDATION_EXPORT void _os_log_impl(void* image, os_log_t log, os_log_type_t type, const char* format,
                                    uint8_t* arguments, uint32_t size);
#define os_log_with_type(log, type, format, ...)                                               \
  ({                                                                                           \
    uint8_t os_log_arguments[__builtin_os_log_format_buffer_size(format, ##__VA_ARGS__)];      \
    __builtin_os_log_format(os_log_arguments, format, ##__VA_ARGS__);                          \
    _os_log_impl(&__dso_handle, log, type, format, os_log_arguments, sizeof os_log_arguments); \
  })
#else
FOUNDATION_EXPORT void mock_os_log(os_log_t log, os_log_type_t type, const char* format, ...)
    __attribute__((format(os_log, 3, 4)));
#define os_log_with_type(log, type, ...) mock_os_log(log, type, "" __VA_ARGS__)
#endif
NS_ASSUME_NONNULL_END

#define os_log(log, ...) os_log_with_type(log, OS_LOG_TYPE_DEFAULT, __VA_ARGS__)
#define os_log_info(log, ...) os_log_with_type(log, OS_LOG_TYPE_INFO, __VA_ARGS__)
#define os_log_debug(log, ...) os_log_with_type(log, OS_LOG_TYPE_DEBUG, __VA_ARGS__)
#define os_log_error(log, ...) os_log_with_type(log, OS_LOG_TYPE_ERROR, __VA_ARGS__)
#define os_log_fault(log, ...) os_log_with_type(log, OS_LOG_TYPE_FAULT, __VA_ARGS__)
#endif
