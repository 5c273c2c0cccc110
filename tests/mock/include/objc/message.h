// Declarations for sending messages from C. Cast objc_msgSend to the type of the method before calling it.
#if defined(__APPLE__)
#include_next <objc/message.h>
#else
#pragma once
#include <objc/objc.h>

OBJC_EXPORT void objc_msgSend(void);
#endif
