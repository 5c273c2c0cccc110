// METAL_AVAILABLE is the only way to query the system version, including in workarounds for known faults of Apple's
// releases.
//
// The oldest supported systems are macOS 13.3 and iOS 16.4. Newer API is guarded by `if (METAL_AVAILABLE(14.0, 17.0))`;
// the compiler checks the macOS version against the declared availability. The mock simulates the version so that both
// branches are tested.
#pragma once

#ifdef __APPLE__
#include <TargetConditionals.h>

#define METAL_AVAILABLE(macos, ios) @available(macOS macos, iOS ios, *)
#else
extern "C" double mock_macos_version(void);
#define METAL_AVAILABLE(macos, ios) (mock_macos_version() >= (macos))
#endif
