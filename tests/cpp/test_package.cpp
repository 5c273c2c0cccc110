// Packages: saved graphs load again with mapped weights, and damaged or malicious files throw PackageError.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "check.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/core/text.h"
#include "mpsgraph/runtime/package.h"
#include "runtime/checksum.h"
#include "runtime/safetensors.h"

using namespace mpsgraph;
using namespace mpsgraph::runtime;
namespace fs = std::filesystem;

namespace {

// A temporary directory that is removed at the end of the test.
struct Scratch {
  fs::path path = fs::temp_directory_path() / cat("mpsgraph_package_", ::getpid());
  Scratch() { fs::create_directories(path); }
  ~Scratch() { fs::remove_all(path); }
};

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
}

// y = x w + b, where w is large enough to be mapped as a variable.
constexpr int64_t width = 256;
PackageContents linear() {
  PackageContents package;
  package.graph = std::make_shared<Graph>();
  Graph& graph = *package.graph;
  Builder build(graph);
  Tensor* x = graph.add("placeholder", {}, {{"type", TensorType{DType::float32, {-1, width}}}}, "x");
  std::vector<float> weights(width * width);
  for (int64_t i = 0; i < width; ++i) weights[static_cast<size_t>(i * width + i)] = 2;
  Tensor* w =
      graph.add("variable", {}, {{"value", ConstantData::copy(DType::float32, {width, width}, weights.data())}}, "w");
  std::vector<float> offsets(width, 0.5f);
  Tensor* b = graph.add("constant", {}, {{"value", ConstantData::copy(DType::float32, {width}, offsets.data())}}, "b");
  Tensor* y = build.add(build.matmul(x, w), b);
  graph.add("square", {y}, {}, "unused");
  package.inputs = {{"input", x}};
  package.outputs = {{"output", y}};
  package.parameters = {{"weights", w}};
  package.trainable = {w};
  return package;
}

NDArray filled(Dims dims, float value) {
  NDArray array = NDArray::allocate(DType::float32, std::move(dims));
  std::fill_n(reinterpret_cast<float*>(array.data()), array.elements(), value);
  return array;
}

float first(const NDArray& array) { return *reinterpret_cast<const float*>(array.data()); }

// Write a safetensors file with this header and this many bytes of data, and read it.
std::map<std::string, ConstantPtr> tensors_of(const std::string& header, size_t data = 64) {
  const Scratch scratch;
  const uint64_t length = header.size();
  std::string text(reinterpret_cast<const char*>(&length), sizeof length);
  text += header + std::string(data, '\0');
  write(scratch.path / "t.safetensors", text);
  return read_safetensors(MappedFile::open(scratch.path / "t.safetensors", 1 << 20), scratch.path / "t.safetensors");
}

std::string padded(std::string header) {
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

}  // namespace

TEST(package_round_trips) {
  const Scratch scratch;
  save_package(scratch.path / "linear.mpsgraph", linear());
  const Package package = Package::load(scratch.path / "linear.mpsgraph");
  CHECK_EQUAL(package.contents().inputs[0].first, "input");
  CHECK_EQUAL(package.contents().parameters[0].first, "weights");
  CHECK_EQUAL(package.contents().trainable[0], package.contents().parameters[0].second);
  CHECK(!package.contents().graph->find("unused"));
  CHECK_EQUAL(first(package.run({{"input", filled({3, width}, 1)}}).at("output")), 2.5f);
  const auto executable = package.compile({{"input", {DType::float32, {2, width}}}});
  CHECK_EQUAL(first(executable->run({filled({2, width}, 2)})[0]), 4.5f);
  CHECK_THROWS(GraphError, package.run({{"other", filled({1, width}, 1)}}), "no input 'other'; it has 'input'");
  CHECK_THROWS(GraphError, package.output("other"), "no output 'other'; it has 'output'");
}

TEST(weights_are_mapped_and_changes_stay_private) {
  const Scratch scratch;
  const fs::path path = scratch.path / "linear.mpsgraph";
  save_package(path, linear());
  const std::string before = contents_of(path / "weights.safetensors");
  const size_t live = Buffer::statistics().live_bytes;
  const Package one = Package::load(path), other = Package::load(path);
  CHECK_EQUAL(first(one.run({{"input", filled({1, width}, 1)}}).at("output")), 2.5f);
  CHECK(Buffer::statistics().live_bytes - live < width * width * sizeof(float));  // the weights are not copied

  Tensor* w = one.contents().parameters[0].second;
  one.on_device().set_variable(w, filled({width, width}, 1));
  CHECK_EQUAL(first(one.run({{"input", filled({1, width}, 1)}}).at("output")), width + 0.5f);
  CHECK_EQUAL(first(other.run({{"input", filled({1, width}, 1)}}).at("output")), 2.5f);
  CHECK(contents_of(path / "weights.safetensors") == before);

  // Overwrite the package that is currently mapped, with the new values.
  save_package(path, one.contents(), &one.on_device());
  CHECK_EQUAL(first(Package::load(path).run({{"input", filled({1, width}, 1)}}).at("output")), width + 0.5f);
  CHECK_EQUAL(first(other.run({{"input", filled({1, width}, 1)}}).at("output")), 2.5f);
}

TEST(truncated_and_altered_files_throw) {
  const Scratch scratch;
  const fs::path path = scratch.path / "linear.mpsgraph";
  save_package(path, linear());
  for (const char* name : {"package.json", "graph.txt", "weights.safetensors"}) {
    const std::string whole = contents_of(path / name);
    const size_t step = std::max<size_t>(1, whole.size() / 40);
    for (size_t at = 0; at < whole.size(); at += step) {
      write(path / name, whole.substr(0, at));
      CHECK_THROWS(PackageError, load_package(path), name);
      std::string altered = whole;
      altered[at] = static_cast<char>(altered[at] ^ 0x11);
      write(path / name, altered);
      CHECK_THROWS(PackageError, load_package(path), path.string());
    }
    fs::remove(path / name);
    CHECK_THROWS(PackageError, load_package(path), name, "cannot be opened");
    write(path / name, whole);
  }
  CHECK_EQUAL(load_package(path).outputs.size(), size_t{1});
}

TEST(damaged_files_without_checksums_are_read_safely) {
  const Scratch scratch;
  const fs::path path = scratch.path / "linear.mpsgraph";
  save_package(path, linear());
  const std::string whole = contents_of(path / "weights.safetensors");
  for (size_t at = 0; at < 400; ++at) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ 0x08);
    write(path / "weights.safetensors", altered);
    try {
      load_package(path, {.verify = false});
    } catch (const PackageError&) {}
  }
}

TEST(existing_files_and_foreign_folders_are_not_overwritten) {
  const Scratch scratch;
  write(scratch.path / "file", "precious");
  CHECK_THROWS(PackageError, save_package(scratch.path / "file", linear()), "is not a package");
  fs::create_directories(scratch.path / "folder");
  write(scratch.path / "folder" / "file", "precious");
  CHECK_THROWS(PackageError, save_package(scratch.path / "folder", linear()), "is not a package");
  CHECK_EQUAL(contents_of(scratch.path / "folder" / "file"), "precious");
  CHECK_THROWS(PackageError, save_package(scratch.path / "file" / "below", linear()), "cannot be written");
  CHECK_THROWS(PackageError, load_package(scratch.path / "folder"), "cannot be opened");
  size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(scratch.path)) entries += entry.exists();
  CHECK_EQUAL(entries, size_t{2});  // and no partial package
}

TEST(invalid_package_contents_throw) {
  const Scratch scratch;
  PackageContents package = linear();
  const Graph other;
  const auto save = [&] { save_package(scratch.path / "p", package); };
  package.outputs.push_back(package.outputs[0]);
  CHECK_THROWS(GraphError, save(), "got output 'output' twice");
  package.outputs.clear();
  CHECK_THROWS(GraphError, save(), "needs at least one output");
  package = linear();
  package.inputs[0].second = package.outputs[0].second;
  CHECK_THROWS(GraphError, save(), "must be a placeholder");
  package = linear();
  package.parameters[0].second = nullptr;
  CHECK_THROWS(GraphError, save(), "must be a tensor of the graph");
}

TEST(inconsistent_safetensors_headers_throw) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  CHECK_EQUAL(tensors_of(padded(good)).at("a")->elements(), 4);
  const auto refused = [](const std::string& header, const char* message) {
    CHECK_THROWS(PackageError, tensors_of(padded(header)), message);
  };
  refused(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,15]}})", "cover 16 bytes");
  refused(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[56,72]}})", "cover 16 bytes");
  refused(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[16,0]}})", "cover 16 bytes");
  refused(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[-16,0]}})",
          "data_offsets must be non-negative integers");
  refused(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[18446744073709551608,8]}})", "cover 16 bytes");
  refused(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[1e300,8]}})",
          "data_offsets must be non-negative integers");
  refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}})", "'a'");
  refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", "data_offsets must cover");
  refused(R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,16]}})",
          "the shape must consist of non-negative integers");
  refused(R"({"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})",
          "the shape must consist of non-negative integers");
  refused(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]}})",
          "at most 16 sizes");
  refused(R"({"a":{"dtype":"F31","shape":[4],"data_offsets":[0,16]}})", "F31");
  refused(R"({"a":{"dtype":4,"shape":[4],"data_offsets":[0,16]}})", "cannot be read");
  refused(R"({"a":{"dtype":"F32","shape":4,"data_offsets":[0,16]}})", "at most 16 sizes");
  refused(R"({"a":{"dtype":"F32","shape":[4]}})", "exactly dtype, shape and data_offsets");
  refused(R"({"a":[]})", "exactly dtype, shape and data_offsets");
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})", "must be aligned");
  refused(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
          R"("a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})",
          "appears twice");
  refused(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
          R"("b":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}})",
          "overlaps");
  refused(R"([1,2])", "must be a JSON object");
  refused(R"({"a":)", "cannot be read");
  refused(std::string(100000, '['), "deeper than 64");
  refused(R"({"__metadata__":)" + std::string(80000, '[') + std::string(80000, ']') + "}", "deeper than 64");
}

TEST(invalid_safetensors_header_lengths_throw) {
  const Scratch scratch;
  const fs::path path = scratch.path / "t.safetensors";
  for (const uint64_t length : {uint64_t{9}, uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}}) {
    write(path, std::string(reinterpret_cast<const char*>(&length), 8) + "{}      ");
    CHECK_THROWS(PackageError, read_safetensors(MappedFile::open(path, 1 << 20), path), "the header should have");
  }
  write(path, "1234567");
  CHECK_THROWS(PackageError, read_safetensors(MappedFile::open(path, 1 << 20), path), "at least 8 bytes, got 7");
  write(path, "");
  CHECK_THROWS(PackageError, read_safetensors(MappedFile::open(path, 1 << 20), path), "at least 8 bytes, got 0");
  write(path, std::string(100, 'x'));
  CHECK_THROWS(PackageError, MappedFile::open(path, 99), "more than the limit of 99 bytes");
  CHECK_THROWS(PackageError, MappedFile::open(scratch.path, 99), "is not a regular file");
}

TEST(external_constant_data_must_match_declared_type) {
  const auto three = ConstantData::splat(DType::float32, {3}, 1.0);
  const auto find = [&](const std::string& name, const TensorType&) { return name == "three" ? three : nullptr; };
  const auto text = [](const char* type, const char* name) {
    return cat("graph {\n  %a = constant() {value=", type, " from \"", name, "\"} : ", type, "\n}\n");
  };
  const auto graph = parse(text("float32[3]", "three"), Verification::on, find);
  CHECK_EQUAL(graph->find("a")->attributes.data("value"), three);
  CHECK_THROWS(GraphError, parse(text("float32[4]", "three"), Verification::on, find), "got float32[3]");
  CHECK_THROWS(GraphError, parse(text("float32[3]", "four"), Verification::on, find), "'four'", "got no data");
  CHECK_THROWS(GraphError, parse(text("float32[3]", "three")), "part of a package");
}

TEST(checksums_match_the_specification) {
  std::string hundred(100, '\0');
  for (size_t i = 0; i < hundred.size(); ++i) hundred[i] = static_cast<char>(i);
  CHECK_EQUAL(to_hex(checksum(hundred.data(), hundred.size())), "6ac1e58032166597");
  CHECK_EQUAL(to_hex(checksum("", 0)), "ef46db3751d8e999");
  CHECK_EQUAL(to_hex(checksum("abc", 3)), "44bc2cf5ad770999");
  const std::string text = "Nobody inspects the spammish repetition";
  CHECK_EQUAL(to_hex(checksum(text.data(), text.size())), "fbcea83c8a378bf1");
}
