// Timed trials of runs with and without helper threads, and the schedule for repeating them.
#include "backends/cpu/thread_choice.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/ticks.h"

namespace mpsgraph::cpu {
namespace {

constexpr double longest = 20'000;      // microseconds: longer runs always profit from helpers
constexpr double shortest = 30;  // microseconds: shorter runs do not repay waking a helper
// switch modes if the other mode takes less than this fraction of the current mode's time
constexpr double worth_changing = 0.97;
// The trial ends early if the mode on trial takes more than not_better times as long as the current mode, or if the
// current mode takes more than far_worse times as long as the mode on trial. The second factor is larger, because the
// current mode usually won an earlier trial.
constexpr double not_better = 1.1, far_worse = 1.5;
constexpr int64_t few_trials = 3;
constexpr double unusual = 1.25;  // run time ratio that suggests the machine's load has changed
constexpr int few_runs = 16;
// Minimum number of runs between a trial and the next one if the next one starts early because the machine's load has
// changed: the larger of least_pause and pause_ / share_of_pause, where pause_ is the number of runs without such a
// change.
constexpr int64_t least_pause = 64, share_of_pause = 8;
// A helper that is descheduled during a trial can cost as much time as hundreds of runs, so the next trial waits in
// proportion to the lost time.
constexpr double rest_of_trial = 32;  // pause after a trial, as a multiple of the time it lost

}  // namespace

void ThreadChoice::ran(bool alone, uint64_t ticks) {
  ++runs_;
  if (!trying_) {
    since_trial_ += ticks;
    // Some programs pause occasionally, and run slowly after each pause, with or without helpers. The next trial
    // therefore starts only after a minimum number of runs.
    if (changed(ticks))
      next_trial_ =
          std::min(next_trial_, std::max(runs_, last_trial_ + std::max(least_pause, pause_ / share_of_pause)));
    if (runs_ < next_trial_ || ticks > microseconds(longest) || static_cast<double>(since_trial_) < rest_) return;
    if (ticks < microseconds(shortest)) {
      alone_ = true;
      next_trial_ = runs_ + first_pause;
      return;
    }
    trying_ = true;
    turn_ = runs_of_turn_ = 0;
    std::fill_n(time_, turns, 0);
    std::fill_n(timed_, turns, 0);
    return;
  }
  tried_time_ += ticks;
  ++tried_;
  if (alone != (turn_ % 2 == 1)) return;  // another thread started this run before the trial switched modes
  if (++runs_of_turn_ > 1) {  // the first run of a turn warms the caches of its cores
    time_[turn_] += ticks;
    ++timed_[turn_];
  }
  const bool worse = timed_[1] >= few_trials && time_of(!alone_) > not_better * time_of(alone_);
  const bool usual_again = turn_ >= 2 && alone == alone_ && timed_[turn_] >= few_trials;
  const bool decided = worse || (usual_again && time_of(alone_) > far_worse * time_of(!alone_));
  if (runs_of_turn_ < most_runs_of_turn && !decided) return;
  runs_of_turn_ = 0;
  if (++turn_ == turns || decided) decide();
}

bool ThreadChoice::changed(uint64_t ticks) {
  recent_ += static_cast<double>(ticks) / few_runs;
  if (++recent_runs_ < few_runs) return false;
  const bool changed = usual_ > 0 && (recent_ > unusual * usual_ || unusual * recent_ < usual_);
  recent_ = 0;
  recent_runs_ = 0;
  return changed;
}

// Return the time per run in this mode. Of the mode's two turns in a trial, the faster one counts, because the slower
// one may have been disturbed.
double ThreadChoice::time_of(bool alone) const {
  double least = std::numeric_limits<double>::infinity();
  for (int turn = alone ? 1 : 0; turn < turns; turn += 2)
    if (timed_[turn] > 0) least = std::min(least, static_cast<double>(time_[turn]) / static_cast<double>(timed_[turn]));
  return least;
}

void ThreadChoice::decide() {
  const bool before = alone_;
  const double now = time_of(alone_), other = time_of(!alone_);
  if (other < worth_changing * now) alone_ = !alone_;
  trying_ = false;
  pause_ = alone_ == before ? std::min(2 * pause_, longest_pause) : first_pause;
  next_trial_ = runs_ + pause_;
  last_trial_ = runs_;
  usual_ = alone_ == before ? now : other;
  rest_ = rest_of_trial * (static_cast<double>(tried_time_) - static_cast<double>(tried_) * usual_);
  tried_time_ = since_trial_ = 0;
  tried_ = 0;
  recent_ = 0;
  recent_runs_ = 0;
}

}  // namespace mpsgraph::cpu
