// Reading such a variable, and what is said of a value that is none of the choices.
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
  throw DeviceError(cat(variable, " is '", wish, "'; it may be ", list));
}

}  // namespace mpsgraph::cpu
