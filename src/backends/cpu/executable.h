// A compiled program on the CPU: a flat list of kernels over frames.
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
  bool stale() const override;
  size_t arena_bytes() const override { return lowered_.arena_bytes; }
  size_t own_arena_bytes() const override { return 0; }
  size_t shared_bytes() const override { return lowered_.arena_bytes; }
  size_t constant_bytes() const override { return constant_bytes_; }
  std::vector<std::string> kernel_names() const override;
  std::string plan() const override;

 private:
  // A frame is for one run at a time; runs on several queues get one each. Its slots point into the arena of its last
  // run.
  struct OwnedFrame {
    Frame frame;
    std::shared_ptr<runtime::Buffer> arena;  // during a run
    std::byte* base = nullptr;               // where that lies, or lay
    bool alone = false;                      // this run, without helpers
  };
  std::unique_ptr<OwnedFrame> take_frame();
  std::unique_ptr<OwnedFrame> new_frame() const;
  void give_back(std::unique_ptr<OwnedFrame> frame, uint64_t ticks);
  void run_profiled(Frame& frame, runtime::Profiler::Session session);

  LoweredProgram lowered_;
  std::vector<std::shared_ptr<CpuVariable>> variables_;
  std::shared_ptr<runtime::Buffer> constants_;
  std::vector<std::byte*> constant_pointers_;
  size_t constant_bytes_ = 0;
  std::vector<std::pair<Slot, SlotInfo>> external_;  // feeds, results and variables: entered before each run
  bool uses_openmp_ = false;
  std::once_flag described_;
  std::shared_ptr<const KernelDescriptions> descriptions_;  // made when a profile first asks
  std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<OwnedFrame>> free_frames_;
  ThreadChoice choice_;
};

}  // namespace mpsgraph::cpu
