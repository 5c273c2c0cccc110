// Fuzz targets: functions that read untrusted bytes and must end with a result or an error of the library.
//
//   FUZZ_TARGET(json) { (void)runtime::parse_json(text); }
//
// The same targets run in two programs. In mpsgraph_fuzz (libfuzzer.cpp), libFuzzer generates inputs under sanitizers.
// The C++ tests (tests/cpp/test_fuzz_corpora.cpp) replay the corpora in seconds, without clang.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mpsgraph/core/graph.h"

namespace fuzz {

struct Target {
  std::string_view name;  // name of its file and of its folder in corpora/
  void (*body)(std::string_view input);
};
std::vector<Target>& targets();
const Target* find(std::string_view name);  // null if there is no such target

// Runs a target. An Error of the library is a valid result; everything else is a finding, and leaves this function as
// an exception or ends the process.
void run(const Target& target, std::string_view input);

struct Registration {
  explicit Registration(Target target) { targets().push_back(target); }
};

// A folder in memory where possible, which is removed at the end of the process.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(std::string_view name, std::string_view contents) const;  // returns the file's path

 private:
  std::filesystem::path path_;
};

// Ends the process with a message unless `holds`. A target states its own expectations with it.
void require(bool holds, std::string_view what);

// Splits an input that stands for several files at the lines "====". Returns exactly `count` parts; missing parts are
// empty.
std::vector<std::string_view> parts(std::string_view input, size_t count);

// Replaces the first occurrence of `from`, if there is one.
void replace(std::string& text, std::string_view from, std::string_view to);

// Writes the checksum of a manifest into it, in place of the sixteen zeros that it contains.
std::string sealed(std::string manifest);

// Whether compiling and running a graph takes little memory and time: few operations, small types, and no loops.
bool is_small(const mpsgraph::Graph& graph);

}  // namespace fuzz

#define FUZZ_TARGET(target)                                                        \
  static void target##_body(std::string_view input);                               \
  static const fuzz::Registration target##_registration{{#target, target##_body}}; \
  static void target##_body([[maybe_unused]] std::string_view input)
