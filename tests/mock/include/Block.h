// C functions for copying and releasing blocks. Block_copy moves a block from the stack to the heap, or retains a block
// that is already there.
#if defined(__APPLE__)
#include_next <Block.h>
#else
#pragma once
#include <objc/objc.h>

OBJC_EXPORT void* _Block_copy(const void* block);
OBJC_EXPORT void _Block_release(const void* block);
#define Block_copy(...) ((__typeof(__VA_ARGS__))_Block_copy((const void*)(__VA_ARGS__)))
#define Block_release(...) _Block_release((const void*)(__VA_ARGS__))
#endif
