// Reads environment variables that select an implementation, and rejects unknown values.
#include "backends/cpu/environment.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "mpsgraph/core/errors.h"

namespace mpsgraph::cpu {

std::string_view asked_for(const char* variable, std::initializer_list<std::string_view> choices) {
  const char* set = std::getenv(variable);
  const std::string_view wish = set ? set : "";
  if (wish.empty()) return wish;
  const auto* found = std::find(choices.begin(), choices.end(), wish);
  if (found != choices.end()) return *found;
  std::string list;
  for (const std::string_view& choice : choices) {
    if (!list.empty()) list += &choice == choices.end() - 1 ? " or " : ", ";
    list += choice;
  }
  throw DeviceError(cat("environment variable ", variable, " must be ", list, ", got '", wish, "'"));
}

}  // namespace mpsgraph::cpu
