// A compiled program on the CPU: a flat list of kernels, which run on frames. A frame holds the address of each value
// in one run.
#pragma once

#include <mutex>

#include "backends/cpu/kernel_profile.h"
#include "backends/cpu/lowering.h"
#include "backends/cpu/thread_choice.h"
#include "backends/cpu/variable.h"
#include "runtime/backend.h"

namespace mpsgraph::cpu {

class CpuProgram final : public runtime::CompiledProgram {
 public:
  CpuProgram(LoweredProgram lowered, std::vector<std::shared_ptr<CpuVariable>> variables);
  ~CpuProgram() override;

  void run(std::span<const runtime::NDArray> feeds, std::span<runtime::NDArray> results) override;
  size_t arena_bytes() const override { return lowered_.arena_bytes; }
  size_t own_arena_bytes() const override { return 0; }
  size_t shared_bytes() const override { return lowered_.arena_bytes; }
  size_t constant_bytes() const override { return constant_bytes_; }
  std::vector<std::string> kernel_names() const override;
  std::string plan() const override;
  const compiler::Program* resizable_program() const override { return &lowered_.program; }

 private:
  // A frame, used by one run at a time; concurrent runs on several queues each take a separate frame. The slots of a
  // frame point into the arena of the last run that used the frame.
  struct OwnedFrame {
    Frame frame;
    std::shared_ptr<runtime::Buffer> arena;  // memory of the slots, held only during a run
    std::byte* base = nullptr;               // address of the current or most recent arena
    bool alone = false;                      // whether this run uses no helper threads
  };
  std::unique_ptr<OwnedFrame> take_frame();
  std::unique_ptr<OwnedFrame> new_frame() const;
  void give_back(std::unique_ptr<OwnedFrame> frame, uint64_t ticks);
  void run_profiled(Frame& frame, runtime::Profiler::Session session);
  void run_all_kernels(Frame& frame) const;

  LoweredProgram lowered_;
  std::vector<std::shared_ptr<CpuVariable>> variables_;
  std::shared_ptr<runtime::Buffer> constants_;
  std::vector<std::byte*> constant_pointers_;
  size_t constant_bytes_ = 0;
  // feeds, results, and variables, whose pointers are set before each run
  std::vector<std::pair<Slot, SlotInfo>> external_;
  std::once_flag described_;
  std::shared_ptr<const KernelDescriptions> descriptions_;  // created on the first profiled run
  std::mutex mutex_;  // guards the members below
  std::vector<std::unique_ptr<OwnedFrame>> free_frames_;
  ThreadChoice choice_;
};

}  // namespace mpsgraph::cpu
