// Decides by trial whether a program runs faster with helper threads or on the calling thread alone.
//
// In a small network, each kernel takes so little time that moving half of its data to another core can cost more than
// the second core saves. This depends on the machine and on what else is running, so no fixed limit on the size of a
// network would separate the two cases. The first runs of a program are therefore timed both ways, and the trial is
// repeated from time to time. Results do not depend on the choice, because kernels partition their work identically in
// both modes.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

class ThreadChoice {  // not thread-safe
 public:
  // whether the run that begins now uses the calling thread only
  bool alone() const { return trying_ ? turn_ % 2 == 1 : alone_; }
  void ran(bool alone, uint64_t ticks);

 private:
  void decide();
  bool changed(uint64_t ticks);
  double time_of(bool alone) const;  // time per run in this mode, measured in a trial

  static constexpr int64_t warm_runs = 3, first_pause = 128, longest_pause = 2048;
  static constexpr int turns = 4, most_runs_of_turn = 8;

  bool alone_ = false, trying_ = false;
  int64_t runs_ = 0, next_trial_ = warm_runs, last_trial_ = 0, pause_ = first_pause;
  int turn_ = 0, runs_of_turn_ = 0;
  uint64_t time_[turns] = {};  // indexed by turn, not including its first run; even turns use helpers
  int64_t timed_[turns] = {};
  double usual_ = 0, recent_ = 0;  // time per run in the chosen mode: usual, and most recent
  int recent_runs_ = 0;
  uint64_t tried_time_ = 0, since_trial_ = 0;  // ticks of the trial's runs, and of the runs after it
  int64_t tried_ = 0;
  double rest_ = 0;  // total run time to wait before the next trial
};

}  // namespace mpsgraph::cpu
