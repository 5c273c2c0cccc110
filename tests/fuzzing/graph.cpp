// The parser of graphs and the verifier. A text that parses must round-trip through print().
#include "mpsgraph/core/text.h"

#include "fuzzing/fuzz.h"

using namespace mpsgraph;

FUZZ_TARGET(graph) {
  const auto graph = parse(input);
  const std::string text = print(*graph);
  fuzz::require(print(*parse(text)) == text, "print(parse(text)) is not text");
}
