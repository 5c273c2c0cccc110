// The corpora of the fuzz targets, replayed without libFuzzer: all stored inputs, and a few hundred mutations of them.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "check.h"
#include "fuzzing/fuzz.h"
#include "mpsgraph/core/errors.h"

namespace fs = std::filesystem;
using mpsgraph::cat;

namespace {

// An input of a few kilobytes takes milliseconds. The limit is wide, because sanitizers and busy machines are slow.
constexpr double most_seconds = 10;

std::vector<std::pair<std::string, std::string>> corpus(std::string_view target) {
  std::vector<std::pair<std::string, std::string>> inputs;
  for (const auto& entry : fs::directory_iterator(fs::path(MPSGRAPH_TEST_DATA) / "../fuzzing/corpora" / target)) {
    std::ifstream file(entry.path(), std::ios::binary);
    inputs.emplace_back(entry.path().filename().string(), std::string(std::istreambuf_iterator<char>(file), {}));
  }
  std::ranges::sort(inputs);
  return inputs;
}

void run_in_time(const fuzz::Target& target, const std::string& name, std::string_view input) {
  const auto start = std::chrono::steady_clock::now();
  try {
    fuzz::run(target, input);
  } catch (const std::exception& error) {
    check::fail(name.c_str(), 0, cat("an error of another type than mpsgraph::Error: ", error.what()));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (seconds > most_seconds) check::fail(name.c_str(), 0, cat("took ", seconds, " s"));
}

std::string mutated(std::string input, std::mt19937_64& random) {
  for (uint64_t left = 1 + random() % 4; left > 0 && !input.empty(); --left) {
    const size_t at = random() % input.size(), count = 1 + random() % 16;
    switch (random() % 4) {
      case 0: input[at] = static_cast<char>(random()); break;
      case 1: input.erase(at, count); break;
      case 2: input.insert(at, input.substr(random() % input.size(), count)); break;
      default: input.resize(at);
    }
  }
  return input;
}

}  // namespace

TEST(every_fuzz_target_has_a_corpus) {
  CHECK(fuzz::targets().size() >= 7);
  for (const fuzz::Target& target : fuzz::targets())
    if (corpus(target.name).empty()) check::fail(__FILE__, __LINE__, cat("no corpus for ", target.name));
}

TEST(stored_inputs_end_with_a_result_or_an_error) {
  for (const fuzz::Target& target : fuzz::targets())
    for (const auto& [name, input] : corpus(target.name)) run_in_time(target, cat(target.name, "/", name), input);
}

TEST(mutated_inputs_end_with_a_result_or_an_error) {
  std::mt19937_64 random(1);
  for (const fuzz::Target& target : fuzz::targets()) {
    const auto inputs = corpus(target.name);
    for (int i = 0; i < 100 && !inputs.empty(); ++i) {
      const auto& [name, input] = inputs[random() % inputs.size()];
      run_in_time(target, cat(target.name, "/", name, ", mutation ", i), mutated(input, random));
    }
  }
}
