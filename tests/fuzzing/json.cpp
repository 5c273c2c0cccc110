// The JSON parser that packages, safetensors headers, and prepared weights share. What parses must round-trip.
#include "runtime/json.h"

#include "fuzzing/fuzz.h"

using namespace mpsgraph::runtime;

FUZZ_TARGET(json) {
  try {
    const Json parsed = parse_json(input);
    const std::string text = to_text(parsed);
    fuzz::require(to_text(parse_json(text)) == text, "JSON text does not round-trip");
  } catch (const Json::exception&) {  // every caller turns it into a PackageError
  }
}
