// Safetensors files. Every byte of every tensor that the reader returns must be readable.
#include "runtime/safetensors.h"

#include "fuzzing/fuzz.h"

using namespace mpsgraph;
using namespace mpsgraph::runtime;

FUZZ_TARGET(safetensors) {
  static const fuzz::Scratch scratch;
  const auto path = scratch.write("file.safetensors", input);
  const auto file = MappedFile::open(path, size_t{1} << 40);
  for (const auto& [name, tensor] : read_safetensors(file, path)) {
    std::vector<std::byte> copy(tensor->stored_bytes());
    tensor->expand_into(copy.data());
    fuzz::require(tensor->elements() == 0 || copy.back() == tensor->bytes()[copy.size() - 1], "the data differs");
  }
}
