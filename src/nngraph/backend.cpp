// The registry of devices that run MPSNNGraph nodes natively.
#include "nngraph/backend.h"

namespace mpsgraph::nngraph {
namespace {

std::map<std::string, NodeBackend, std::less<>>& node_backends() {
  static std::map<std::string, NodeBackend, std::less<>> backends;
  return backends;
}

}  // namespace

void register_node_backend(std::string device, NodeBackend backend) { node_backends()[std::move(device)] = backend; }

const NodeBackend* find_node_backend(std::string_view device) {
  const auto found = node_backends().find(device);
  return found == node_backends().end() ? nullptr : &found->second;
}

}  // namespace mpsgraph::nngraph
