// The threads that help those who run kernels: one pool for the process, whichever queue or caller they work for.
//
// A thread that has a loop to run, its caller, opens a gate. Helpers that are awake come in and take items, as the
// caller does; when none are left it shuts the gate and waits for those inside, who have an item each in hand. Nobody
// waits for a thread that has not come: where other programs have the processors, the caller does what there is.
//
// A helper that loses its processor with an item in hand is waited for, which may take milliseconds. The pool keeps
// account of what helpers gain and what waiting for them costs; while it costs more, loops run on their callers alone.
//
// A team of threads that is lent to a caller is a pool of its own for as long as one program runs.
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

  // A loop in phases, one after the other, of which helpers join any.
  struct Loop {
    void* context;
    // By the caller, while nobody works: how many items the phase has.
    int64_t (*prepare)(void* context, int64_t phase);
    // Takes items until none are left; how many it took. Throws nothing.
    int64_t (*work)(void* context, int64_t phase, int64_t member);
  };
  // The caller is member 0; helpers have numbers from 1 on, below `threads`, which are theirs for good.
  void run(int threads, int64_t phases, const Loop& loop);

  // f(), whose loops have the threads of a team that is lent to this one as helpers, and none of the pool's. The team
  // is waited for once, when f is done (runtime::LentTeam).
  using Fork = void (*)(void (*f)(void* data), void* data, unsigned threads, unsigned flags);
  static void with_team(Fork fork, const std::function<void()>& f);

  // While it lives, this thread's loops run on it alone, if it is told to.
  class Alone {
   public:
    explicit Alone(bool alone);
    ~Alone();
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    bool before_;
  };

  // Of this thread in the loop that it works for.
  static int64_t member();

  ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

 private:
  // What a caller offers. Its fields are written while the gate is shut and nobody is inside.
  struct alignas(64) Job {
    std::atomic<uint64_t> gate{0};
    const Loop* loop = nullptr;
    int64_t phase = 0;
    alignas(64) std::atomic<int64_t> helped{0};  // items that helpers took
    std::atomic<uint64_t> helping{0};            // ticks that they took for these
    std::atomic<int> sleeping{0};                // the caller, until nobody is inside
    std::atomic<bool> taken{false};              // by a caller
  };
  struct alignas(64) Helper {
    std::atomic<int> sleeping{0};
    std::array<uint64_t, 8> seen{};  // of each job, the last gate that it was in
  };
  static constexpr size_t most_jobs = 8;  // that have helpers at a time; further callers work alone

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
  std::atomic<bool> dismissed_{false};       // helpers of a team go back to where they came from
  alignas(64) std::atomic<int> helpers_{0};  // that have been started
  std::array<Job, most_jobs> jobs_;
  std::unique_ptr<Helper[]> helper_;
  std::mutex starting_;
  // The account, in ticks. Callers that settle at once may lose an entry, which changes no result.
  std::atomic<int64_t> balance_{0};
  std::atomic<uint64_t> alone_until_{0}, pause_{0};
};

}  // namespace mpsgraph::cpu
