// Packages. The input consists of package.json, graph.txt, and weights.safetensors, separated by lines "====".
#include "mpsgraph/runtime/package.h"

#include "fuzzing/fuzz.h"

using namespace mpsgraph;
using namespace mpsgraph::runtime;

FUZZ_TARGET(package) {
  static const fuzz::Scratch scratch;
  const auto files = fuzz::parts(input, 3);
  scratch.write("p.mpsgraph/package.json", fuzz::sealed(std::string(files[0])));
  scratch.write("p.mpsgraph/graph.txt", files[1]);
  scratch.write("p.mpsgraph/weights.safetensors", files[2]);
  // The checksums of the other files would stop almost every input. Only the manifest's own one is made to match.
  const PackageContents contents = load_package(scratch.path() / "p.mpsgraph", {.verify = false, .prepared = false});
  save_package(scratch.path() / "copy.mpsgraph", contents);
  const PackageContents copy = load_package(scratch.path() / "copy.mpsgraph");
  fuzz::require(copy.inputs.size() == contents.inputs.size() && copy.functions.size() == contents.functions.size(),
                "a saved package differs from the package that was loaded");
}
