// The thread pool that runs parallel loops. The process has one pool for all queues and callers.
//
// The thread that has a loop to run, the caller, opens a gate. Helpers that are awake enter the gate, and then both
// caller and helpers take items. When no items are left, the caller closes the gate and waits for the helpers inside,
// each of which is finishing one item. The pool never waits for threads that have not entered, so if other programs
// keep the helpers' cores busy, the caller does all the work.
//
// A helper that is descheduled in the middle of an item makes the caller wait, possibly for milliseconds. The pool
// therefore keeps a balance of the time that helpers save and the time that callers wait for them. While the waiting
// time prevails, callers run their loops without helpers.
//
// A team of threads lent by the application acts as a separate pool while one program runs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace mpsgraph::cpu {

class ThreadPool {
 public:
  static ThreadPool& get();

  // A loop of consecutive phases. Helpers may join in any phase.
  struct Loop {
    void* context;
    // Return the number of items of a phase. Called by the caller while no helper is working.
    int64_t (*prepare)(void* context, int64_t phase);
    // Take items until none are left; return how many were taken. Must not throw.
    int64_t (*work)(void* context, int64_t phase, int64_t member);
  };
  // Run a loop on at most `threads` threads: the calling thread and helpers. Within the loop, the calling thread has
  // member number 0, and each helper always has the same number between 1 and threads - 1.
  void run(int threads, int64_t phases, const Loop& loop);

  // Run f(), whose loops use the threads of a lent team as helpers instead of the pool's threads. The team is joined
  // once, when f returns (runtime::LentTeam).
  using Fork = void (*)(void (*f)(void* data), void* data, unsigned threads, unsigned flags);
  static void with_team(Fork fork, const std::function<void()>& f);

  // Makes this thread's loops run without helpers during its lifetime, if `alone` is true.
  class Alone {
   public:
    explicit Alone(bool alone);
    ~Alone();
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    bool before_;
  };

  // Return the number of the calling thread within the team of the loop it is working on.
  static int64_t member();

  ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

 private:
  // A loop that helpers can join. The fields are written only while the gate is closed and no helper is inside.
  struct alignas(64) Job {
    std::atomic<uint64_t> gate{0};
    const Loop* loop = nullptr;
    int64_t phase = 0;
    alignas(64) std::atomic<int64_t> helped{0};  // items taken by helpers
    std::atomic<uint64_t> helping{0};  // ticks that helpers spent on these items
    std::atomic<int> sleeping{0};  // 1 while the caller sleeps until no helper is inside
    std::atomic<bool> taken{false};  // whether a caller uses this job
  };
  struct alignas(64) Helper {
    std::atomic<int> sleeping{0};
    std::array<uint64_t, 8> seen{};  // ticket of the last gate entered, indexed by job
  };
  static constexpr size_t most_jobs = 8;  // maximum number of concurrent loops with helpers; further callers work alone

  Job* claim();
  void call(int threads);
  void start(int threads);
  void open(Job& job, int threads, const Loop& loop, int64_t phase);
  uint64_t shut(Job& job);
  void help(int64_t member);
  void begin_team();
  void dismiss_team();
  bool take_part(Helper& helper, int64_t member);
  void settle(Job& job, int64_t own, uint64_t worked, uint64_t waited);

  alignas(64) std::atomic<uint32_t> calls_{0};
  std::atomic<bool> dismissed_{false};  // the threads of a lent team must return to the application
  alignas(64) std::atomic<int> helpers_{0};  // number of helpers started
  std::array<Job, most_jobs> jobs_;
  std::unique_ptr<Helper[]> helper_;
  std::mutex starting_;
  // The balance, in ticks. Callers that update it at the same time may lose an update, which does not affect results.
  std::atomic<int64_t> balance_{0};
  std::atomic<uint64_t> alone_until_{0}, pause_{0};
};

}  // namespace mpsgraph::cpu
