// Functions that the fuzz targets share.
#include "fuzzing/fuzz.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "mpsgraph/core/errors.h"
#include "runtime/checksum.h"

namespace fuzz {

namespace fs = std::filesystem;
using mpsgraph::cat;

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

const Target* find(std::string_view name) {
  for (const Target& target : targets())
    if (target.name == name) return &target;
  return nullptr;
}

void run(const Target& target, std::string_view input) {
  try {
    target.body(input);
  } catch (const mpsgraph::Error&) {}
}

Scratch::Scratch() {
  const fs::path memory = "/dev/shm";
  std::error_code ignored;
  path_ = (fs::is_directory(memory, ignored) ? memory : fs::temp_directory_path()) / cat("mpsgraph_fuzz_", ::getpid());
  fs::create_directories(path_);
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path Scratch::write(std::string_view name, std::string_view contents) const {
  const fs::path file = path_ / name;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
  return file;
}

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "fuzz target: " << what << "\n";
  std::abort();
}

std::vector<std::string_view> parts(std::string_view input, size_t count) {
  constexpr std::string_view line = "\n====\n";
  std::vector<std::string_view> result;
  while (result.size() + 1 < count) {
    const size_t end = input.find(line);
    result.push_back(input.substr(0, end));
    input.remove_prefix(end == input.npos ? input.size() : end + line.size());
  }
  result.push_back(input);
  return result;
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  if (const size_t place = text.find(from); place != text.npos) text.replace(place, from.size(), to);
}

std::string sealed(std::string manifest) {
  const std::string blank(16, '0');
  replace(manifest, blank, mpsgraph::runtime::to_hex(mpsgraph::runtime::checksum(manifest.data(), manifest.size())));
  return manifest;
}

namespace {

constexpr int64_t most_elements = 4096;
constexpr size_t most_operations = 64;

bool small(const mpsgraph::TensorType& type) {
  if (!type.shape.ranked() || type.history) return false;
  int64_t elements = 1;
  for (const int64_t size : type.shape.dims())
    if (size < 0 || size > most_elements || (elements *= std::max<int64_t>(size, 1)) > most_elements) return false;
  return true;
}

bool small(const mpsgraph::Attribute& attribute) {
  if (const auto* integer = std::get_if<int64_t>(&attribute)) return *integer <= most_elements;
  if (const auto* integers = std::get_if<mpsgraph::Ints>(&attribute))
    return std::ranges::all_of(*integers, [](int64_t value) { return value <= most_elements; });
  return true;
}

bool is_small(const mpsgraph::Block& block, size_t& operations) {
  for (const auto& operation : block.operations) {
    if (++operations > most_operations || operation->is("while") || operation->is("for")) return false;
    for (const auto& output : operation->outputs)
      if (!small(output->type)) return false;
    for (const auto& [key, attribute] : operation->attributes.items())
      if (key != "seed" && !small(attribute)) return false;
    for (const auto& inner : operation->blocks)
      if (!is_small(*inner, operations)) return false;
  }
  return true;
}

}  // namespace

bool is_small(const mpsgraph::Graph& graph) {
  size_t operations = 0;
  return is_small(graph.root(), operations);
}

}  // namespace fuzz
