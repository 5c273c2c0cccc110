// Whether a program runs faster on its thread alone than with helpers: found by trying both.
//
// Kernels of a small network take so little time that bringing a half of each one's data to another core can cost more
// than it saves, by the machine, and by what else runs on it; no threshold knows that. So a program's first runs are
// timed both ways, and now and then some later ones. Results do not depend on it: kernels are cut the same way.
#pragma once

#include <cstdint>

namespace mpsgraph::cpu {

class ThreadChoice {  // for one thread at a time
 public:
  bool alone() const { return trying_ ? turn_ % 2 == 1 : alone_; }  // the run that begins now
  void ran(bool alone, uint64_t ticks);

 private:
  void decide();
  bool changed(uint64_t ticks);
  double time_of(bool alone) const;  // of a run that was tried

  static constexpr int64_t warm_runs = 3, first_pause = 128, longest_pause = 2048;
  static constexpr int turns = 4, most_runs_of_turn = 8;

  bool alone_ = false, trying_ = false;
  int64_t runs_ = 0, next_trial_ = warm_runs, last_trial_ = 0, pause_ = first_pause;
  int turn_ = 0, runs_of_turn_ = 0;
  uint64_t time_[turns] = {};  // of each turn but its first run; those with even numbers are with helpers
  int64_t timed_[turns] = {};
  double usual_ = 0, recent_ = 0;  // time of a run as chosen: when it was, and of some runs just now
  int recent_runs_ = 0;
  uint64_t tried_time_ = 0, since_trial_ = 0;  // of all runs of a trial, and of those after it
  int64_t tried_ = 0;
  double rest_ = 0;  // how long runs take, together, before the next trial
};

}  // namespace mpsgraph::cpu
