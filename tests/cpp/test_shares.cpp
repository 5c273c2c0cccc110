// The items of a parallel loop: each is taken once, whoever takes it, also those of a member that is late.
#include <atomic>
#include <thread>
#include <vector>

#include "backends/cpu/parallel.h"
#include "check.h"

using mpsgraph::cpu::Shares;

namespace {

std::vector<int64_t> all_of(Shares& shares, int64_t member) {
  std::vector<int64_t> taken;
  for (int64_t item; (item = shares.take(member)) >= 0;) taken.push_back(item);
  return taken;
}

TEST(members_take_their_own_part_first_and_in_order) {
  Shares shares(6, 2);
  CHECK_EQUAL(shares.take(0), 0);
  CHECK_EQUAL(shares.take(1), 3);
  CHECK_EQUAL(shares.take(1), 4);
  CHECK_EQUAL(shares.take(0), 1);
  CHECK_EQUAL(shares.take(1), 5);
  CHECK_EQUAL(shares.take(1), 2);  // what the other one has left
  CHECK_EQUAL(shares.take(0), -1);
  CHECK_EQUAL(shares.take(1), -1);
}

TEST(one_member_does_the_work_of_those_that_are_late) {
  Shares shares(7, 3);
  CHECK(all_of(shares, 1) == (std::vector<int64_t>{2, 3, 6, 5, 4, 1, 0}));
}

TEST(fewer_items_than_members) {
  Shares shares(1, 4);
  CHECK(all_of(shares, 0) == std::vector<int64_t>{0});
  CHECK_EQUAL(shares.take(3), -1);
  Shares none(0, 4);
  CHECK_EQUAL(none.take(2), -1);
}

TEST(each_item_is_taken_once_by_many_threads) {
  constexpr int64_t items = 20000;
  for (const int64_t members : {2, 5, 100}) {  // more than there are parts, too
    std::vector<std::atomic<int>> times(items);
    Shares shares(items, members);
    std::vector<std::thread> threads;
    for (int64_t member = 0; member < std::min<int64_t>(members, 8); ++member)
      threads.emplace_back([&, member = member * members / 8] {
        for (int64_t item; (item = shares.take(member)) >= 0;) ++times[item];
      });
    for (std::thread& thread : threads) thread.join();
    for (const auto& count : times) CHECK_EQUAL(count.load(), 1);
  }
}

TEST(a_parallel_loop_covers_its_range_once) {
  for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{1000}, int64_t{100003}}) {
    std::vector<std::atomic<int>> times(n);
    mpsgraph::cpu::parallel_for(n, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++times[i];
    });
    for (const auto& count : times) CHECK_EQUAL(count.load(), 1);
  }
}

}  // namespace

int main() { return check::run_all(); }
