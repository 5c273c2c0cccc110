// The choice between running with helper threads and alone: when each is tried and which one is kept, on simulated
// times.
#include <functional>

#include "backends/cpu/thread_choice.h"
#include "backends/cpu/ticks.h"
#include "check.h"

using mpsgraph::cpu::microseconds;
using mpsgraph::cpu::ThreadChoice;

namespace {

// A simulated program: the time of a run in microseconds, with helpers and alone.
struct Machine {
  ThreadChoice choice = {};
  double together, alone;
  int64_t runs_alone = 0;

  void run(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const bool by_itself = choice.alone();
      runs_alone += by_itself;
      choice.ran(by_itself, microseconds(by_itself ? alone : together));
    }
  }
  int64_t alone_of(int64_t count) {
    runs_alone = 0;
    run(count);
    return runs_alone;
  }
};

TEST(faster_mode_is_chosen_and_rarely_reevaluated) {
  Machine faster_alone{.together = 3000, .alone = 2000};
  faster_alone.run(100);
  CHECK(faster_alone.alone_of(4000) > 3900);
  Machine faster_together{.together = 2000, .alone = 3000};
  faster_together.run(100);
  CHECK(faster_together.alone_of(4000) < 100);
}

TEST(equal_times_change_nothing) {
  Machine machine{.together = 1000, .alone = 990};
  CHECK(machine.alone_of(4000) < 80);
}

TEST(much_slower_mode_is_abandoned_after_a_few_runs) {
  Machine machine{.together = 100, .alone = 5000};
  CHECK(machine.alone_of(64) <= 5);
  CHECK(!machine.choice.alone());
}

TEST(slower_mode_is_tried_for_a_few_runs_only) {
  Machine machine{.together = 1000, .alone = 1300};
  CHECK(machine.alone_of(64) <= 4);
  CHECK(machine.alone_of(4000) <= 5 * 4);
  Machine faster_alone{.together = 1300, .alone = 1000};
  faster_alone.run(64);
  CHECK(4000 - faster_alone.alone_of(4000) <= 5 * 8);
}

TEST(temporary_slowdown_does_not_change_the_choice) {
  for (int slow = 0; slow < 40; slow += 4) {  // another process runs for a while, whichever mode is being tried
    Machine machine{.together = 1000, .alone = 1500};
    machine.run(slow);
    machine.together = 4000, machine.alone = 4500;
    machine.run(6);
    machine.together = 1000, machine.alone = 1500;
    machine.run(40);
    CHECK(!machine.choice.alone());
  }
}

// Simulates runs after waiting for data, with cold caches and a low clock frequency.
TEST(pauses_do_not_trigger_repeated_trials) {
  Machine machine{.together = 1000, .alone = 1500};
  machine.run(2000);
  machine.runs_alone = 0;
  for (int pause = 0; pause < 100; ++pause) {
    machine.together = 1500, machine.alone = 2200;
    machine.run(20);
    machine.together = 1000, machine.alone = 1500;
    machine.run(20);
  }
  CHECK(machine.runs_alone <= 4 * 4000 / 256 + 8);
}

// On a busy machine, times of short runs fluctuate, and a helper that has lost its processor costs as much as many
// runs.
TEST(expensive_mode_is_rarely_tried) {
  Machine machine{.together = 1000, .alone = 40};
  machine.run(1000);
  double all = 0;
  machine.runs_alone = 0;
  constexpr int rounds = 100, runs = 300;
  for (int round = 0; round < rounds; ++round) {
    machine.alone = round % 2 ? 60 : 40;
    all += runs * machine.alone;
    machine.run(runs);
  }
  CHECK((rounds * runs - static_cast<double>(machine.runs_alone)) * machine.together < 0.06 * all);
}

TEST(short_runs_are_alone_until_they_become_longer) {
  Machine machine{.together = 20, .alone = 25};
  machine.run(10);
  CHECK_EQUAL(machine.alone_of(4000), 4000);
  machine.together = 1000, machine.alone = 2000;
  machine.run(400);
  CHECK(machine.alone_of(1000) < 50);
}

TEST(long_runs_are_not_tried_alone) {
  Machine machine{.together = 50'000, .alone = 10};
  CHECK_EQUAL(machine.alone_of(1000), 0);
}

TEST(choice_adapts_to_changes_in_load) {
  Machine machine{.together = 1000, .alone = 1500};
  machine.run(3000);
  CHECK(!machine.choice.alone());
  machine.together = 4000, machine.alone = 1600;  // another process starts to use the machine
  machine.run(150);
  CHECK(machine.alone_of(500) > 450);
  machine.together = 1000, machine.alone = 1500;  // the process ends, which runs without helpers hardly reveal
  machine.run(2500);
  CHECK(machine.alone_of(500) < 50);
}

}  // namespace
