// The C interface as the Clang module CMpsgraph. On Linux, where the headers come from pkg-config's package.
#include <mpsgraph/custom_operation.h>
#include <mpsgraph/mpsgraph.h>
