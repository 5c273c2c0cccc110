// Parsing and serialization of JSON with the nlohmann library.
#include "runtime/json.h"

namespace mpsgraph::runtime {

Json parse_json(std::string_view text, const Json::parser_callback_t& watch) {
  return Json::parse(text.begin(), text.end(), watch);
}

std::string to_text(const Json& json, int indent) { return json.dump(indent); }

}  // namespace mpsgraph::runtime
