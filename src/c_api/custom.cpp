// Custom operations of the C interface, defined by the program itself or by libraries.
#include "c_api/objects.h"
#include "mpsgraph/runtime/custom_library.h"

using namespace mpsgraph;
using namespace mpsgraph::c_api;

mpsgraph_status mpsgraph_custom_register(const mpsgraph_custom_operation* operation) {
  return guarded([&] { register_custom_operation(runtime::described(*required(operation, "operation"))); });
}

mpsgraph_status mpsgraph_custom_load(const char* path) {
  return guarded([&] { runtime::load_custom_library(required(path, "path")); });
}
