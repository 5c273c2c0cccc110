// The registry of devices that run recurrent layers natively.
#include "nngraph/recurrent_backend.h"

#include <map>

namespace mpsgraph::nngraph {
namespace {

std::map<std::string, RecurrentBackend, std::less<>>& recurrent_backends() {
  static std::map<std::string, RecurrentBackend, std::less<>> backends;
  return backends;
}

}  // namespace

void register_recurrent_backend(std::string device, RecurrentBackend backend) {
  recurrent_backends()[std::move(device)] = backend;
}

const RecurrentBackend* find_recurrent_backend(std::string_view device) {
  const auto found = recurrent_backends().find(device);
  return found == recurrent_backends().end() ? nullptr : &found->second;
}

}  // namespace mpsgraph::nngraph
