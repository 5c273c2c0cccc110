// Prepared weights of a package, and their use by the kernels. The input consists of the manifest of the prepared
// weights and their safetensors file, separated by a line "====". They belong to a package with one matmul by a
// constant of 16 rows and 16 columns. In the manifest, PROCESSOR, WEIGHTS, FORM, and BYTES are replaced by valid
// values.
#include "mpsgraph/runtime/package.h"

#include <cstring>

#include "fuzzing/fuzz.h"
#include "mpsgraph/core/builder.h"
#include "runtime/backend.h"
#include "runtime/checksum.h"
#include "runtime/manifest.h"

using namespace mpsgraph;
using namespace mpsgraph::runtime;

namespace {

constexpr int64_t width = 16;

PackageContents linear() {
  PackageContents package;
  package.graph = std::make_shared<Graph>();
  Builder build(*package.graph);
  Tensor* x = package.graph->add("placeholder", {}, {{"type", TensorType{DType::float32, {16, width}}}}, "x");
  std::vector<float> weights(width * width);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7);
  const ConstantPtr data = ConstantData::copy(DType::float32, {width, width}, weights.data());
  package.inputs = {{"x", x}};
  package.outputs = {{"y", build.matmul(x, package.graph->add("constant", {}, {{"value", data}}, "w"))}};
  return package;
}

}  // namespace

FUZZ_TARGET(prepared) {
  static const fuzz::Scratch scratch;
  Device& cpu = Device::get("cpu");
  static const std::filesystem::path directory = scratch.path() / "prepared.mpsgraph";
  static const Json valid = [&] {
    save_package(directory, linear());
    std::filesystem::path manifest = prepare_package(directory, {{}}, cpu).file;
    return read_manifest(manifest.replace_extension(".json"), [](const Json&) {});
  }();
  const auto made_for = valid["for"].get<std::string>();
  const std::string stem = cat("prepared.mpsgraph/prepared/cpu-", to_hex(checksum(made_for.data(), made_for.size())));
  const auto files = fuzz::parts(input, 2);
  std::string text(files[0]);
  fuzz::replace(text, "PROCESSOR", made_for);
  fuzz::replace(text, "WEIGHTS", valid["weights"].get<std::string>());
  fuzz::replace(text, "FORM", valid["of"][0]["form"].get<std::string>());
  fuzz::replace(text, "BYTES", to_text(valid["of"][0]["bytes"]));
  scratch.write(stem + ".json", fuzz::sealed(std::move(text)));
  scratch.write(stem + ".safetensors", files[1]);
  const Package package = Package::load(directory, cpu, {.verify = false});
  NDArray x = NDArray::allocate(DType::float32, {16, width});
  std::memset(x.data(), 0, x.bytes());
  (void)package.run({{"x", x}});
}
