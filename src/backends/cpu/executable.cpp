// Implements compiled CPU programs: their frames, the loop that runs the kernels, and the printed plan.
#include "backends/cpu/executable.h"

#include <algorithm>
#include <sstream>

#include "backends/cpu/arenas.h"
#include "backends/cpu/flush_to_zero.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/ticks.h"
#include "runtime/run_control.h"

namespace mpsgraph::cpu {
namespace {

constexpr size_t large_constant = 4096;

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

CpuProgram::CpuProgram(LoweredProgram lowered, std::vector<std::shared_ptr<CpuVariable>> variables)
    : lowered_(std::move(lowered)), variables_(std::move(variables)) {
  // Kernels read constants and never write to them. Large constants are therefore used in place, and only small ones
  // are copied into the program's constant memory.
  const auto stays = [](const ConstantPtr& constant) {
    return !constant || (!constant->is_splat() && constant->stored_bytes() >= large_constant);
  };
  for (const ConstantPtr& constant : lowered_.constants)
    if (!stays(constant))
      constant_bytes_ += aligned(static_cast<size_t>(constant->elements()) * size_of(constant->dtype()));
  constants_ = runtime::Buffer::allocate(constant_bytes_, runtime::MemoryUse::packed_weights);
  std::byte* next = constants_->data();
  for (const ConstantPtr& constant : lowered_.constants) {
    if (stays(constant)) {
      constant_pointers_.push_back(constant ? const_cast<std::byte*>(constant->bytes()) : nullptr);
      continue;
    }
    constant_pointers_.push_back(next);
    constant->expand_into(next);
    next += aligned(static_cast<size_t>(constant->elements()) * size_of(constant->dtype()));
  }
  for (Slot slot = 0; slot < static_cast<Slot>(lowered_.slots.size()); slot++) {
    const SlotInfo& info = lowered_.slots[slot];
    if (info.home == Home::feed || info.home == Home::result || info.home == Home::variable)
      external_.push_back({slot, info});
  }
  free_frames_.push_back(new_frame());  // the first frame is allocated here, so that the first run need not allocate it
  Arenas::get().join(lowered_.arena_bytes);
}

CpuProgram::~CpuProgram() { Arenas::get().leave(lowered_.arena_bytes); }

std::unique_ptr<CpuProgram::OwnedFrame> CpuProgram::take_frame() {
  std::unique_ptr<OwnedFrame> owned;
  bool alone;
  {
    std::lock_guard lock(mutex_);
    alone = choice_.alone();
    if (!free_frames_.empty()) {
      owned = std::move(free_frames_.back());
      free_frames_.pop_back();
    }
  }
  if (!owned) owned = new_frame();
  owned->alone = alone;
  owned->arena = Arenas::get().take(lowered_.arena_bytes, owned->base);
  if (owned->arena->data() == owned->base) return owned;
  owned->base = owned->arena->data();
  for (size_t i = 0; i < lowered_.slots.size(); i++) {
    const SlotInfo& info = lowered_.slots[i];
    if (info.home == Home::arena) owned->frame.pointers[i] = owned->base + lowered_.slots[info.memory].offset;
  }
  return owned;
}

std::unique_ptr<CpuProgram::OwnedFrame> CpuProgram::new_frame() const {
  auto owned = std::make_unique<OwnedFrame>();
  Frame& frame = owned->frame;
  frame.pointers.resize(lowered_.slots.size());
  for (size_t i = 0; i < lowered_.slots.size(); i++) {
    const SlotInfo& info = lowered_.slots[i];
    if (info.home == Home::constant) frame.pointers[i] = constant_pointers_[info.index];
  }
  for (const Kernel* kernel : lowered_.all_kernels) frame.states.push_back(kernel ? kernel->make_state() : nullptr);
  return owned;
}

void CpuProgram::give_back(std::unique_ptr<OwnedFrame> frame, uint64_t ticks) {
  Arenas::get().give_back(std::move(frame->arena));
  std::lock_guard lock(mutex_);
  if (ticks > 0) choice_.ran(frame->alone, ticks);
  free_frames_.push_back(std::move(frame));
}

void CpuProgram::run(std::span<const runtime::NDArray> feeds, std::span<runtime::NDArray> results) {
  for (size_t i = 0; i < results.size(); i++)
    if (!results[i].valid()) {
      const TensorType& type = lowered_.program.targets[i]->type;
      results[i] = runtime::NDArray::allocate(type.dtype, type.shape.dims());
    }
  const FlushToZero flush;
  auto owned = take_frame();
  Frame& frame = owned->frame;
  for (const auto& [slot, info] : external_) {
    switch (info.home) {
      case Home::feed: frame.pointers[slot] = feeds[info.index].data(); break;
      case Home::result: frame.pointers[slot] = results[info.index].data(); break;
      case Home::variable: frame.pointers[slot] = variables_[info.index]->data(); break;
      default: break;
    }
  }
  for (const LentPlace& lent : lowered_.lent) {
    std::byte* const place = lent.callable->operand_place(lent.operand);
    frame.pointers[lent.slot] = place ? place : owned->base + lowered_.slots[lent.slot].offset;
  }
  frame.history.clear();
  uint64_t time = 0;  // time in ticks; 0 if it is not measured
  {
    const ThreadPool::Alone alone(owned->alone);
    const auto fork = owned->alone ? nullptr : runtime::LentTeam::current();
    const auto session = runtime::Profiler::get().session();
    const auto run_all = [&] { session ? run_profiled(frame, session) : run_all_kernels(frame); };
    const uint64_t begin = runtime::thread_count() > 1 && !session ? ticks() : 0;
    if (fork)
      ThreadPool::with_team(fork, run_all);
    else
      run_all();
    if (begin > 0) time = ticks() - begin;
  }
  give_back(std::move(owned), time);
}

void CpuProgram::run_profiled(Frame& frame, runtime::Profiler::Session session) {
  std::call_once(described_, [&] {
    const runtime::ProfileScope scope("describe kernels", "profiler");
    descriptions_ = describe_kernels(lowered_);
  });
  const KernelProfile profile(session, descriptions_);
  frame.profile = &profile;
  run_all_kernels(frame);
  frame.profile = nullptr;
}

// Before the first kernel that writes variables, their values are saved, so that a run that is cancelled later can
// restore them. If saving them is not possible or not worthwhile, the run can no longer be cancelled from that kernel
// on.
void CpuProgram::run_all_kernels(Frame& frame) const {
  const runtime::RunState* const run = runtime::this_run();
  const bool can_end = run && run->cancelled && run->undo && !run->undo->declined();
  frame.cancelled = can_end ? run->cancelled : &Frame::never_cancelled;
  const std::span<const std::unique_ptr<Kernel>> all(lowered_.kernels);
  const auto run_here = [&](std::span<const std::unique_ptr<Kernel>> kernels) {
    const PollScope poll(frame.cancelled == &Frame::never_cancelled ? nullptr : frame.cancelled);
    run_kernels(kernels, frame);
  };
  if (!can_end || lowered_.first_write == all.size()) return run_here(all);
  run_here(all.first(lowered_.first_write));
  frame.poll();
  for (const int i : lowered_.assigned) {
    const auto& variable = variables_[static_cast<size_t>(i)];
    const auto copy = [&] { return variable->saved(); };
    if (run->undo->save(variable.get(), variable->bytes(), lowered_.loops_later, copy)) continue;
    frame.cancelled = &Frame::never_cancelled;
    break;
  }
  run_here(all.subspan(lowered_.first_write));
}

std::vector<std::string> CpuProgram::kernel_names() const {
  std::vector<std::string> names;
  for (const auto& kernel : lowered_.kernels) names.push_back(kernel->name);
  return names;
}

std::string CpuProgram::plan() const {
  std::ostringstream out;
  out << lowered_.kernels.size() << " kernels, arena " << lowered_.arena_bytes << " bytes, constants "
      << constant_bytes_ << " bytes\n";
  for (const auto& kernel : lowered_.kernels) out << "  " << kernel->name << ": " << explained(*kernel) << "\n";
  constexpr std::string_view homes[] = {"arena", "feed", "result", "variable", "constant", "allocated by its kernel"};
  for (size_t i = 0; i < lowered_.slots.size(); i++) {
    const SlotInfo& info = lowered_.slots[i];
    out << "  slot " << i << ": " << info.bytes << " bytes, " << homes[static_cast<int>(info.home)];
    if (info.home != Home::arena)
      out << " " << info.index;
    else if (info.memory != static_cast<Slot>(i))
      out << ", in place of slot " << info.memory;
    else
      out << " at " << info.offset << ", alive " << info.first << " to " << info.last;
    out << "\n";
  }
  return out.str();
}

}  // namespace mpsgraph::cpu
