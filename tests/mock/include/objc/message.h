// Messages sent by hand: cast objc_msgSend to the method's type before the call.
#if defined(__APPLE__)
#include_next <objc/message.h>
#else
#pragma once
#include <objc/objc.h>

OBJC_EXPORT void objc_msgSend(void);
#endif
