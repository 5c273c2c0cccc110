// Every question about the system's version, and every known fault of Apple's that the backend works around.
//
// The oldest system is macOS 13.3. Newer API is guarded by `if (METAL_AVAILABLE(14.0))`, which the compiler checks
// against the interfaces' own versions. Over the stand-in of the tests the version is simulated, so that both sides
// run.
#pragma once

#ifdef __APPLE__
#define METAL_AVAILABLE(version) @available(macOS version, *)
#else
extern "C" double standin_macos_version(void);
#define METAL_AVAILABLE(version) (standin_macos_version() >= (version))
#endif
