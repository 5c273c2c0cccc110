// JSON by nlohmann-json. Its parser is the largest template of the runtime, so it is compiled in one place.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mpsgraph::runtime {

// Members stand in the order in which they were entered, and one of many is found in linear time. There is no second
// kind: it would be all of the library's code a second time.
using Json = nlohmann::ordered_json;

// Throws Json::exception for what is no JSON. `watch`, where there is one, sees each key and value as it comes, and
// says whether it stays.
Json parse_json(std::string_view text, const Json::parser_callback_t& watch = nullptr);
std::string to_text(const Json& json, int indent = -1);

}  // namespace mpsgraph::runtime
