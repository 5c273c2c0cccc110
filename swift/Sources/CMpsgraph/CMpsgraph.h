// The C API as the Clang module CMpsgraph. Used on Linux, where the pkg-config package provides the headers.
#include <mpsgraph/custom_operation.h>
#include <mpsgraph/mpsgraph.h>
