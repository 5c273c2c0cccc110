// JSON, implemented by nlohmann-json. The library's parser is the largest template of the runtime, so it is
// instantiated in a single translation unit.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace mpsgraph::runtime {

// A JSON value whose objects keep their members in insertion order; looking up a member takes linear time. The runtime
// uses no other JSON type, because a second instantiation would duplicate all of the library's code.
using Json = nlohmann::ordered_json;

// Parses JSON text. Throws Json::exception if `text` is not valid JSON, and PackageError if it nests deeper than 64
// levels. `watch`, if given, is called with each key and value as it is parsed, and returns whether to keep it.
Json parse_json(std::string_view text, const Json::parser_callback_t& watch = nullptr);
std::string to_text(const Json& json, int indent = -1);

}  // namespace mpsgraph::runtime
