// os_signpost: intervals and events with literal names, as displayed by Instruments. See os/log.h for the supported
// targets.
#if defined(__APPLE__) && __has_include_next(<os/signpost.h>)
#include_next <os/signpost.h>
#else
#pragma once
#include <os/log.h>

typedef uint64_t os_signpost_id_t;
enum : os_signpost_id_t {
  OS_SIGNPOST_ID_NULL = 0,
  OS_SIGNPOST_ID_INVALID = ~0ull,
  OS_SIGNPOST_ID_EXCLUSIVE = 0xEEEEB0B5B2B2EEEEull
};
typedef uint8_t os_signpost_type_t;
enum : os_signpost_type_t { OS_SIGNPOST_EVENT = 0, OS_SIGNPOST_INTERVAL_BEGIN = 1, OS_SIGNPOST_INTERVAL_END = 2 };

NS_ASSUME_NONNULL_BEGIN
FOUNDATION_EXPORT BOOL os_signpost_enabled(os_log_t log);
FOUNDATION_EXPORT os_signpost_id_t os_signpost_id_generate(os_log_t log);
FOUNDATION_EXPORT os_signpost_id_t os_signpost_id_make_with_pointer(os_log_t log, const void* _Nullable pointer);
#if defined(__APPLE__)
FOUNDATION_EXPORT void _os_signpost_emit_with_name_impl(void* image, os_log_t log, os_signpost_type_t type,
                                                        os_signpost_id_t id, const char* name, const char* format,
                                                        uint8_t* arguments, uint32_t size);
#define OS_SIGNPOST_EMIT_FORMAT(log, type, id, name, format, ...)                                             \
  ({                                                                                                          \
    uint8_t os_signpost_arguments[__builtin_os_log_format_buffer_size("" format, ##__VA_ARGS__)];             \
    __builtin_os_log_format(os_signpost_arguments, "" format, ##__VA_ARGS__);                                 \
    _os_signpost_emit_with_name_impl(&__dso_handle, log, type, id, "" name, "" format, os_signpost_arguments, \
                                     sizeof os_signpost_arguments);                                           \
  })
#define OS_SIGNPOST_EMIT(log, type, id, name, ...) OS_SIGNPOST_EMIT_FORMAT(log, type, id, name, "" __VA_ARGS__)
#else
FOUNDATION_EXPORT void mock_os_signpost(os_log_t log, os_signpost_type_t type, os_signpost_id_t id, const char* name,
                                        const char* format, ...) __attribute__((format(os_log, 5, 6)));
#define OS_SIGNPOST_EMIT(log, type, id, name, ...) mock_os_signpost(log, type, id, "" name, "" __VA_ARGS__)
#endif
NS_ASSUME_NONNULL_END

#define os_signpost_interval_begin(log, id, name, ...) \
  OS_SIGNPOST_EMIT(log, OS_SIGNPOST_INTERVAL_BEGIN, id, name, ##__VA_ARGS__)
#define os_signpost_interval_end(log, id, name, ...) \
  OS_SIGNPOST_EMIT(log, OS_SIGNPOST_INTERVAL_END, id, name, ##__VA_ARGS__)
#define os_signpost_event_emit(log, id, name, ...) OS_SIGNPOST_EMIT(log, OS_SIGNPOST_EVENT, id, name, ##__VA_ARGS__)
#endif
