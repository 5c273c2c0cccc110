// oneDNN engine, streams, and the execution of primitives on frames.
#include "backends/cpu/onednn_kernel.h"

#include <omp.h>
#include <pthread.h>

#include <cstdlib>

#include "backends/cpu/flush_to_zero.h"
#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

// Limit on the number of primitives in oneDNN's cache. A small limit suffices: executables own their primitives, so the
// cache only helps programs that are compiled again.
constexpr int cached_primitives = 256;

dnnl::engine first_engine() {
  if (!std::getenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY")) dnnl::set_primitive_cache_capacity(cached_primitives);
  return {dnnl::engine::kind::cpu, 0};
}

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine = first_engine();
  return engine;
}

dnnl::stream& onednn_stream() {
  static thread_local dnnl::stream stream(onednn_engine());
  return stream;
}

namespace {

thread_local bool has_threads = false;  // whether OpenMP workers are waiting for the next loop of this thread

// Release the OpenMP workers before a fork. A forked child does not inherit the workers, and OpenMP code in the child
// would wait for them forever.
void end_threads() {
  if (has_threads) omp_pause_resource_all(omp_pause_soft);
  has_threads = false;
}

}  // namespace

OnednnThreads::OnednnThreads(int count) : before_(omp_get_max_threads()) {
  if (before_ != count) omp_set_num_threads(count);
  if (count == 1 || has_threads) return;
  [[maybe_unused]] static const int registered = pthread_atfork(end_threads, nullptr, nullptr);
  has_threads = true;
#pragma omp parallel num_threads(count)
  if (omp_get_thread_num() > 0) FlushToZero::for_good();
}
OnednnThreads::~OnednnThreads() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

namespace {

[[noreturn]] void throw_out_of_memory(const std::string& what, const std::string& reason) {
  throw OutOfMemoryError(
      cat("oneDNN could not ", what, " (", reason, "), probably for lack of memory; use smaller shapes or batches"));
}

}  // namespace

void with_typed_errors(const std::function<void()>& f) {
  try {
    f();
  } catch (const dnnl::error& error) {
    throw_out_of_memory("prepare a kernel", error.what());
  }
}

void execute_primitive(const dnnl::primitive& primitive, const std::vector<dnnl_exec_arg_t>& arguments,
                       const std::string& name) {
  // Some primitives generate code when they first run. If this fails, their code generator throws an exception.
  dnnl_status_t status = dnnl_success;
  const std::string what = "run kernel '" + name + "'";
  try {
    status = dnnl_primitive_execute(primitive.get(), onednn_stream().get(), static_cast<int>(arguments.size()),
                                    arguments.data());
  } catch (const std::exception& error) {
    throw_out_of_memory(what, error.what());
  }
  if (status != dnnl_success) throw_out_of_memory(what, cat("dnnl_status_t ", status));
}

std::string onednn_version() {
  const dnnl::version_t* version = dnnl::version();
  return cat("oneDNN ", version->major, ".", version->minor);
}

bool onednn_multiplies_bfloat16() {
  constexpr unsigned avx512_core = dnnl_cpu_isa_avx512_core;
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & avx512_core) == avx512_core;
}

std::optional<dnnl::memory::data_type> onednn_type(DType dtype) {
  switch (dtype) {
    case DType::float32: return dnnl::memory::data_type::f32;
    case DType::bfloat16: return dnnl::memory::data_type::bf16;
    default: return std::nullopt;  // oneDNN has no float64, and few processors support float16
  }
}

dnnl::primitive_attr scratchpad_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Epilogue::Epilogue(const Operation& operation) {
  if (!operation.attributes.has("has_bias")) return;
  has_bias = operation.attributes.boolean("has_bias");
  has_residual = operation.attributes.boolean("has_residual");
  relu = operation.attributes.string("activation") == "relu";
}

dnnl::primitive_attr Epilogue::attributes(const dnnl::memory::desc& residual) const {
  dnnl::primitive_attr attributes = scratchpad_attributes();
  dnnl::post_ops ops;
  if (has_residual) ops.append_binary(dnnl::algorithm::binary_add, residual);
  attributes.set_post_ops(ops);
  return attributes;
}

struct OnednnKernel::State final : KernelState {
  struct Memory {
    dnnl::memory memory;
    Slot slot;
    std::byte* current = nullptr;
  };
  struct Call {
    std::vector<Memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  std::vector<Call> calls;
};

void OnednnKernel::add(Lowering& lowering, const dnnl::primitive& primitive, std::vector<Argument> arguments) {
  const_dnnl_primitive_desc_t description = primitive.get_primitive_desc();
  const dnnl::memory::desc scratchpad = [&] {
    const_dnnl_memory_desc_t desc = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    dnnl_memory_desc_t copy = nullptr;
    dnnl_memory_desc_clone(&copy, desc);
    return dnnl::memory::desc(copy);
  }();
  if (scratchpad.get_size() > 0)
    arguments.push_back({DNNL_ARG_SCRATCHPAD, scratchpad, lowering.scratch(scratchpad.get_size())});
  const char* implementation = nullptr;
  dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, static_cast<void*>(&implementation));
  if (!text_.empty()) text_ += ", ";
  text_ += cat("oneDNN ", implementation);
  steps_.push_back({primitive, std::move(arguments)});
}

void OnednnKernel::add_reorder(Lowering& lowering, const dnnl::memory::desc& from, Slot from_slot,
                               const dnnl::memory::desc& to, Slot to_slot) {
  const dnnl::reorder::primitive_desc description(onednn_engine(), from, onednn_engine(), to, scratchpad_attributes());
  add(lowering, dnnl::reorder(description), {{DNNL_ARG_FROM, from, from_slot}, {DNNL_ARG_TO, to, to_slot}});
}

std::unique_ptr<KernelState> OnednnKernel::make_state() const {
  auto state = std::make_unique<State>();
  for (const Step& step : steps_) {
    State::Call& call = state->calls.emplace_back();
    for (const Argument& argument : step.arguments) {
      call.memories.push_back({dnnl::memory(argument.desc, onednn_engine(), DNNL_MEMORY_NONE), argument.slot});
      call.arguments.push_back({argument.id, call.memories.back().memory.get()});
    }
  }
  return state;
}

void OnednnKernel::add_relu(const Operand& result) {
  relu_ = result;
  text_ += ", relu";
}

namespace {

template <class T, class F>
void relu_in_place(T* x, int64_t n, const F& negative) {
  parallel_for(n, 65536 / static_cast<int64_t>(sizeof(T)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] = negative(x[i]) ? T{0} : x[i];
  });
}

}  // namespace

void relu_of(Frame& frame, const Operand& result) {
  const int64_t n = result.elements();
  if (result.dtype == DType::float32)
    relu_in_place(frame.at<float>(result.slot), n, [](float x) { return x < 0; });
  else  // bfloat16 as raw bits: values above 0x8000 (-0) and up to 0xff80 (-infinity) are negative numbers
    relu_in_place(frame.at<uint16_t>(result.slot), n, [](uint16_t x) { return x > 0x8000 && x <= 0xff80; });
}

void OnednnKernel::run(Frame& frame) const {
  const OnednnThreads threads(threads_);
  State& state = static_cast<State&>(*frame.states[index]);
  for (size_t i = 0; i < steps_.size(); i++) {
    State::Call& call = state.calls[i];
    for (State::Memory& memory : call.memories) {
      std::byte* const pointer = frame.pointers[memory.slot];
      if (pointer == memory.current) continue;
      dnnl_memory_set_data_handle(memory.memory.get(), pointer);
      memory.current = pointer;
    }
    execute_primitive(steps_[i].primitive, call.arguments, name);
  }
  if (relu_) relu_of(frame, *relu_);
}

}  // namespace mpsgraph::cpu
