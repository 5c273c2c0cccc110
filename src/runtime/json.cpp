// Parsing and serialization of JSON with the nlohmann library.
#include "runtime/json.h"

#include "mpsgraph/core/errors.h"
#include "mpsgraph/core/limits.h"

namespace mpsgraph::runtime {

namespace {

constexpr int max_depth = 64;

}  // namespace

Json parse_json(std::string_view text, const Json::parser_callback_t& watch) {
  // Values are destroyed recursively, so text that nests deeply would overflow the stack.
  const auto limited = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) check_depth(depth);
    if (depth > max_depth) throw PackageError(cat("JSON must not nest deeper than ", max_depth, " levels"));
    return !watch || watch(depth, event, parsed);
  };
  return Json::parse(text.begin(), text.end(), limited);
}

std::string to_text(const Json& json, int indent) { return json.dump(indent); }

}  // namespace mpsgraph::runtime
