// Signposts: compiling, encoding, running, and copying emit intervals that Instruments can display, each with the name
// of the work.
#pragma once

#include <cstdint>
#include <string_view>

namespace mpsgraph::metal {

enum class Phase { compile, encode, run, copy };

// An interval from construction to destruction, which may be on different threads.
class Signpost {
 public:
  Signpost(Phase phase, std::string_view label);
  ~Signpost();
  Signpost(const Signpost&) = delete;
  Signpost& operator=(const Signpost&) = delete;

 private:
  const Phase phase_;
  const uint64_t id_;
};

}  // namespace mpsgraph::metal
