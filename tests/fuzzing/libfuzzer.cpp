// Connects libFuzzer to the target that the environment variable MPSGRAPH_FUZZ_TARGET names. Processes that libFuzzer
// starts inherit it.
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "fuzzing/fuzz.h"

namespace {

const fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("MPSGRAPH_FUZZ_TARGET");
  chosen = fuzz::find(name ? name : "");
  if (chosen) return 0;
  std::cerr << "MPSGRAPH_FUZZ_TARGET must name a target:";
  for (const fuzz::Target& target : fuzz::targets()) std::cerr << " " << target.name;
  std::cerr << "\n";
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::run(*chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
