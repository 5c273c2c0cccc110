// Work stealing in parallel loops: every item is taken once, by any member, even if some members are late, and the
// items of a chain are taken in order.
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/parallel.h"
#include "check.h"

using mpsgraph::cpu::Chains;
using mpsgraph::cpu::Shares;

namespace {

std::vector<int64_t> all_of(Shares& shares, int64_t member) {
  std::vector<int64_t> taken;
  for (int64_t item; (item = shares.take(member)) >= 0;) taken.push_back(item);
  return taken;
}

TEST(members_take_their_own_share_first_and_in_order) {
  Shares shares(6, 2);
  CHECK_EQUAL(shares.take(0), 0);
  CHECK_EQUAL(shares.take(1), 3);
  CHECK_EQUAL(shares.take(1), 4);
  CHECK_EQUAL(shares.take(0), 1);
  CHECK_EQUAL(shares.take(1), 5);
  CHECK_EQUAL(shares.take(1), 2);  // left over by the other member
  CHECK_EQUAL(shares.take(0), -1);
  CHECK_EQUAL(shares.take(1), -1);
}

TEST(one_member_takes_over_work_of_late_members) {
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

TEST(each_item_is_taken_once_by_concurrent_threads) {
  constexpr int64_t items = 20000;
  for (const int64_t members : {2, 5, 100}) {  // includes more members than shares
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

TEST(parallel_for_covers_its_range_once) {
  for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{1000}, int64_t{100003}}) {
    std::vector<std::atomic<int>> times(n);
    mpsgraph::cpu::parallel_for(n, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++times[i];
    });
    for (const auto& count : times) CHECK_EQUAL(count.load(), 1);
  }
}

TEST(members_advance_their_own_chains_together) {
  Chains chains(4, 2, 2);
  const auto take = [&](int64_t member, bool done = true) {
    const Chains::Item item = chains.take(member);
    if (done && item.chain >= 0) chains.done(item.chain);
    return std::pair(item.chain, item.place);
  };
  using Item = std::pair<int64_t, int64_t>;
  CHECK(take(0) == Item(0, 0));
  CHECK(take(0) == Item(1, 0));
  CHECK(take(0) == Item(0, 1));
  CHECK(take(0) == Item(1, 1));
  CHECK(take(1, false) == Item(2, 0));
  CHECK(take(0) == Item(3, 0));  // from the other member
  CHECK(take(0) == Item(3, 1));
  CHECK_EQUAL(take(0).first, -1);  // the last chain is in progress
  chains.done(2);
  CHECK(take(0) == Item(2, 1));
  CHECK_EQUAL(take(0).first, -1);
  CHECK_EQUAL(take(1).first, -1);
}

TEST(chain_items_are_taken_once_and_in_order_by_concurrent_threads) {
  constexpr int64_t count = 7, length = 3000;
  for (const int64_t members : {1, 2, 5}) {
    struct alignas(64) Chain {
      int64_t next = 0;  // not atomic, because only one thread works on a chain at a time
    };
    std::vector<Chain> seen(count);
    std::atomic<int64_t> wrong = 0;
    Chains chains(count, length, members);
    std::vector<std::thread> threads;
    for (int64_t member = 0; member < members; ++member)
      threads.emplace_back([&, member] {
        for (Chains::Item item; (item = chains.take(member)).chain >= 0; chains.done(item.chain))
          wrong += seen[item.chain].next++ != item.place;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK_EQUAL(wrong.load(), 0);
    for (const Chain& chain : seen) CHECK_EQUAL(chain.next, length);
  }
}

TEST(parallel_chains_visit_all_positions_in_order) {
  std::vector<std::vector<int64_t>> places(5);
  mpsgraph::cpu::parallel_chains(5, 4, [&](int64_t chain, int64_t place, int64_t) { places[chain].push_back(place); });
  for (const auto& of_chain : places) CHECK(of_chain == (std::vector<int64_t>{0, 1, 2, 3}));
}

}  // namespace
