// Turns of runs with helpers and without, their times, and when to try again.
#include "backends/cpu/thread_choice.h"

#include <algorithm>

#include "backends/cpu/ticks.h"

namespace mpsgraph::cpu {
namespace {

constexpr double longest = 20'000;      // microseconds: runs that take longer gain by helpers, where there are any
constexpr double clearly = 1.5;         // so much slower, a turn ends at once
constexpr double worth_changing = 0.97;  // of the time
constexpr double unusual = 1.25;  // as much slower or faster, something else has begun or ended on the machine
constexpr int few_runs = 16;
constexpr int64_t least_pause = 64;

}  // namespace

void ThreadChoice::ran(bool alone, uint64_t ticks) {
  ++runs_;
  if (!trying_) {
    if (changed(ticks)) next_trial_ = std::min(next_trial_, std::max(runs_, last_trial_ + least_pause));
    if (runs_ < next_trial_ || ticks > microseconds(longest)) return;
    trying_ = true;
    turn_ = runs_of_turn_ = 0;
    time_[0] = time_[1] = 0;
    timed_[0] = timed_[1] = 0;
    return;
  }
  const int which = turn_ % 2;
  if (alone != (which == 1)) return;  // begun by another thread before the turn
  ++runs_of_turn_;
  if (runs_of_turn_ > 1) {  // the first one of a turn brings data to its cores
    time_[which] += ticks;
    ++timed_[which];
  }
  const int other = 1 - which;
  const bool hopeless = timed_[which] > 2 && timed_[other] > 0 &&
                        static_cast<double>(time_[which]) * static_cast<double>(timed_[other]) >
                            clearly * static_cast<double>(time_[other]) * static_cast<double>(timed_[which]);
  if (runs_of_turn_ < most_runs_of_turn && !hopeless) return;
  runs_of_turn_ = 0;
  if (++turn_ == turns || hopeless) decide();
}

bool ThreadChoice::changed(uint64_t ticks) {
  recent_ += static_cast<double>(ticks) / few_runs;
  if (++recent_runs_ < few_runs) return false;
  const bool changed = usual_ > 0 && (recent_ > unusual * usual_ || unusual * recent_ < usual_);
  recent_ = 0;
  recent_runs_ = 0;
  return changed;
}

void ThreadChoice::decide() {
  const auto mean = [&](int which) {
    return static_cast<double>(time_[which]) / static_cast<double>(std::max<int64_t>(timed_[which], 1));
  };
  const bool before = alone_;
  const double now = mean(alone_), other = mean(!alone_);
  if (timed_[!alone_] > 0 && other < worth_changing * now) alone_ = !alone_;
  trying_ = false;
  pause_ = alone_ == before ? std::min(2 * pause_, longest_pause) : first_pause;
  next_trial_ = runs_ + pause_;
  last_trial_ = runs_;
  usual_ = alone_ == before ? now : other;
  recent_ = 0;
  recent_runs_ = 0;
}

}  // namespace mpsgraph::cpu
