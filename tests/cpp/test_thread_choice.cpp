// Which runs are tried with helpers and alone, and what is chosen, by times that are given.
#include <functional>

#include "backends/cpu/thread_choice.h"
#include "backends/cpu/ticks.h"
#include "check.h"

using mpsgraph::cpu::microseconds;
using mpsgraph::cpu::ThreadChoice;

namespace {

// A program on a machine: how long a run takes, in microseconds.
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

TEST(what_is_faster_is_chosen_and_seldom_tried_again) {
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

TEST(what_is_far_slower_is_left_after_a_few_runs) {
  Machine machine{.together = 100, .alone = 5000};
  CHECK(machine.alone_of(64) <= 5);
  CHECK(!machine.choice.alone());
}

TEST(what_is_not_better_is_tried_for_a_few_runs_only) {
  Machine machine{.together = 1000, .alone = 1300};
  CHECK(machine.alone_of(64) <= 4);
  CHECK(machine.alone_of(4000) <= 5 * 4);
  Machine faster_alone{.together = 1300, .alone = 1000};
  faster_alone.run(64);
  CHECK(4000 - faster_alone.alone_of(4000) <= 5 * 8);
}

TEST(a_turn_that_is_slow_by_chance_decides_nothing) {
  for (int slow = 0; slow < 40; slow += 4) {  // something else runs for a while, whichever way is tried meanwhile
    Machine machine{.together = 1000, .alone = 1500};
    machine.run(slow);
    machine.together = 4000, machine.alone = 4500;
    machine.run(6);
    machine.together = 1000, machine.alone = 1500;
    machine.run(40);
    CHECK(!machine.choice.alone());
  }
}

// As after waiting for data: caches are cold, and the processor's clock is low.
TEST(pauses_are_no_reason_to_try_again_and_again) {
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

// Beside busy processes short runs take now longer and now shorter, and a helper that has lost its processor costs as
// much as many of them.
TEST(what_costs_much_is_seldom_tried) {
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

TEST(short_runs_are_alone_and_tried_once_they_are_longer) {
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

TEST(the_choice_follows_the_machine) {
  Machine machine{.together = 1000, .alone = 1500};
  machine.run(3000);
  CHECK(!machine.choice.alone());
  machine.together = 4000, machine.alone = 1600;  // something else has begun to run
  machine.run(150);
  CHECK(machine.alone_of(500) > 450);
  machine.together = 1000, machine.alone = 1500;  // and has ended, which a run alone hardly shows
  machine.run(2500);
  CHECK(machine.alone_of(500) < 50);
}

}  // namespace
