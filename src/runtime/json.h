// JSON by nlohmann-json. Its parser is the largest template of the runtime, so it is compiled in one place.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mpsgraph::runtime {

using Json = nlohmann::ordered_json;  // members in the order in which they were entered; for few of them
using SortedJson = nlohmann::json;    // for many: found in logarithmic time

// Both throw Json::exception for what is no JSON. `watch` sees each key and value as it comes.
Json parse_json(std::string_view text);
SortedJson parse_sorted_json(std::string_view text, const SortedJson::parser_callback_t& watch);
std::string to_text(const Json& json, int indent = -1);

}  // namespace mpsgraph::runtime
