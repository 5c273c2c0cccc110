// Emits signposts. The system requires the interval's name as a literal, so each phase has a separate pair of calls.
// Dynamic text is shown as "<private>" unless the format marks it as public.
#include "backends/metal/signposts.h"

#include <os/log.h>
#include <os/signpost.h>

#include <string>

namespace mpsgraph::metal {
namespace {

os_log_t signpost_log() {
  static os_log_t log = os_log_create("mpsgraph", "Metal");
  return log;
}

}  // namespace

Signpost::Signpost(Phase phase, std::string_view label) : phase_(phase), id_(os_signpost_id_generate(signpost_log())) {
  const std::string text(label);
  switch (phase_) {
    case Phase::compile: os_signpost_interval_begin(signpost_log(), id_, "compile", "%{public}s", text.c_str()); break;
    case Phase::copy: os_signpost_interval_begin(signpost_log(), id_, "copy", "%{public}s", text.c_str()); break;
    case Phase::encode: os_signpost_interval_begin(signpost_log(), id_, "encode", "%{public}s", text.c_str()); break;
    case Phase::run: os_signpost_interval_begin(signpost_log(), id_, "run", "%{public}s", text.c_str()); break;
  }
}

Signpost::~Signpost() {
  switch (phase_) {
    case Phase::compile: os_signpost_interval_end(signpost_log(), id_, "compile"); break;
    case Phase::copy: os_signpost_interval_end(signpost_log(), id_, "copy"); break;
    case Phase::encode: os_signpost_interval_end(signpost_log(), id_, "encode"); break;
    case Phase::run: os_signpost_interval_end(signpost_log(), id_, "run"); break;
  }
}

}  // namespace mpsgraph::metal
