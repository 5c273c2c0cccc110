// Gate: controls access to a graph's variables. Runs that only read variables enter concurrently; a run that assigns
// variables enters alone.
//
// Access is first come, first served, so no thread starves. Runs of one in-order queue of an asynchronous device never
// exclude one another, because the device runs them in order; they specify the queue as their `owner`. A run holds a
// Pass while it is inside the gate. The Pass may be released on a different thread from the one that acquired it, such
// as a thread of the device when the work is done.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace mpsgraph::runtime {

class Gate : public std::enable_shared_from_this<Gate> {
 public:
  // A run's permission to access the variables that the gate controls. The permission ends when this object is
  // destroyed.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept : gate_(std::move(other.gate_)), exclusive_(other.exclusive_) {}
    Pass& operator=(Pass&& other) noexcept;
    ~Pass() { reset(); }
    explicit operator bool() const { return gate_ != nullptr; }
    void reset();

   private:
    friend class Gate;
    Pass(std::shared_ptr<Gate> gate, bool exclusive) : gate_(std::move(gate)), exclusive_(exclusive) {}
    std::shared_ptr<Gate> gate_;
    bool exclusive_ = false;
  };

  // Throws DeviceError if this thread is already running a program of the same graph, and that run or this one must be
  // exclusive.
  Pass enter(bool exclusive, const void* owner = nullptr);
  Pass try_enter(bool exclusive, const void* owner);  // returns an empty pass instead of waiting
  Pass shared() { return enter(false); }
  Pass exclusive() { return enter(true); }
  // How many exclusive passes have been given. If the number has not changed, the variables have not either.
  uint64_t exclusive_entries() const { return exclusive_entries_; }

 private:
  bool admits(bool exclusive, const void* owner) const;  // The caller must hold mutex_.
  Pass admit(bool exclusive, const void* owner);
  bool is_inner(bool exclusive) const;  // whether this thread is running a program of the same graph
  void leave(bool exclusive);

  std::mutex mutex_;
  std::condition_variable condition_;
  uint64_t next_ticket_ = 0, serving_ = 0;
  int within_ = 0, within_exclusively_ = 0;
  std::atomic<uint64_t> exclusive_entries_{0};
  const void* owner_ = nullptr;  // common owner of all current holders; null if they have no owner or different owners
};

}  // namespace mpsgraph::runtime
