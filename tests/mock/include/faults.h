// Faults of the mock, for tests of the self-test's report: MPSGRAPH_MOCK_BROKEN=name breaks the mock in one way in
// which a Mac could surprise us. tests/mock/README.md describes the faults.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Return whether the environment variable MPSGRAPH_MOCK_BROKEN names this fault.
int mock_is_broken(const char* fault);

#ifdef __cplusplus
}
#endif
