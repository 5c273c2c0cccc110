// Every question about the system's version, and every known fault of Apple's that the backend works around.
//
// The oldest systems are macOS 13.3 and iOS 16.4. Newer API is guarded by `if (METAL_AVAILABLE(14.0, 17.0))`, of which
// the compiler checks the first against the interfaces' own versions. Over the mock of the tests the version is
// simulated, so that both sides run.
#pragma once

#ifdef __APPLE__
#include <TargetConditionals.h>

#define METAL_AVAILABLE(macos, ios) @available(macOS macos, iOS ios, *)
#else
extern "C" double mock_macos_version(void);
#define METAL_AVAILABLE(macos, ios) (mock_macos_version() >= (macos))
#endif
