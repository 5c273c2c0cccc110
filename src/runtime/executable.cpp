// Executables: compilation and its bookkeeping, validation of inputs and results, and runs on a queue's thread.
#include "mpsgraph/runtime/executable.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <span>

#include "compiler/program.h"
#include "core/definition.h"
#include "mpsgraph/runtime/profiler.h"
#include "mpsgraph/runtime/serialized_executable.h"
#include "mpsgraph/runtime/threads.h"
#include "runtime/backend.h"
#include "runtime/graph_state.h"
#include "runtime/run_control.h"
#include "runtime/staged_program.h"
#include "runtime/thread_storage.h"

namespace mpsgraph::runtime {

// ---- compiling ----

namespace {

std::atomic<int64_t> all_compile_nanoseconds = 0;  // of all graphs

bool has_effect(const Block& block) {
  return std::ranges::any_of(block.operations, [](auto& operation) {
    return is_effect(*operation) ||
           std::ranges::any_of(operation->blocks, [](auto& inner) { return has_effect(*inner); });
  });
}

// Whether the run time is unbounded because the program contains a loop, whose number of iterations depends on values,
// or a call, whose duration is unknown.
bool open_ended(const Block& block) {
  return std::ranges::any_of(block.operations, [](auto& operation) {
    return operation->is({"while", "for", "call"}) ||
           std::ranges::any_of(operation->blocks, [](auto& inner) { return open_ended(*inner); });
  });
}

// Checks a compilation request for errors that specialization cannot report well.
void check_request(const std::vector<Feed>& feeds, const std::vector<Tensor*>& targets,
                   const std::vector<Operation*>& target_operations) {
  for (auto& [tensor, type] : feeds)
    if (!tensor) throw GraphError("[compile] a feed is null");
  if (std::ranges::find(targets, nullptr) != targets.end()) throw GraphError("[compile] a target is null");
  if (std::ranges::find(target_operations, nullptr) != target_operations.end())
    throw GraphError("[compile] a target operation is null");
  if (targets.empty() && target_operations.empty())
    throw GraphError("[compile] there is nothing to run: pass at least one target or target operation");
}

std::string joined(const std::vector<TensorType>& types) {
  std::string text;
  for (const TensorType& type : types) text += cat(text.empty() ? "(" : ", ", type);
  return text.empty() ? "()" : text + ")";
}

// Resolves the symbols of a program's calls, and checks that each call declares the types of its callable.
void resolve_calls(const Block& block, const compiler::Callables& callables, compiler::Callables& found) {
  for (const auto& operation : block.operations) {
    for (const auto& inner : operation->blocks) resolve_calls(*inner, callables, found);
    if (!operation->is("call")) continue;
    const std::string& symbol = operation->attributes.string("symbol");
    const auto callable = callables.find(symbol);
    if (callable == callables.end()) {
      std::string known;
      for (const auto& [name, unused] : callables) known += cat(known.empty() ? "" : ", ", "'", name, "'");
      throw GraphError(cat("[call] no callable is named '", symbol, "': the callables of this compilation are ",
                           known.empty() ? "none" : known, operation->where()));
    }
    std::vector<TensorType> operands, results;
    for (const Tensor* input : operation->inputs) operands.push_back(input->type);
    for (const auto& output : operation->outputs) results.push_back(output->type);
    const auto compare = [&](const char* what, const std::vector<TensorType>& stated,
                             const std::vector<TensorType>& own) {
      if (stated != own)
        throw ShapeError(cat("[call] the callable '", symbol, "' ", what, " ", joined(own), ", but the call declares ",
                             joined(stated), operation->where()));
    };
    compare("takes", operands, callable->second->operand_types());
    compare("returns", results, callable->second->result_types());
    found.insert(*callable);
  }
}

}  // namespace

Executable::Executable(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}

Device& Executable::device() const { return state_->device; }
const std::shared_ptr<Graph>& Executable::graph() const { return state_->graph; }

std::shared_ptr<Executable> Executable::create(std::shared_ptr<GraphState> state, std::vector<Feed> feeds,
                                               std::vector<Tensor*> targets, std::vector<Operation*> target_operations,
                                               compiler::Options options) {
  state->device.check_usable();
  check_request(feeds, targets, target_operations);
  std::shared_ptr<Executable> self(new Executable(std::move(state)));
  self->feeds_ = std::move(feeds);
  self->targets_ = std::move(targets);
  self->target_operations_ = std::move(target_operations);
  self->options_ = std::move(options);
  self->check_callables();
  self->finish();
  return self;
}

std::shared_ptr<Executable> Executable::like(const Executable& other, std::vector<Feed> feeds, MakeProgram make) {
  other.state_->device.check_usable();
  std::shared_ptr<Executable> self(new Executable(other.state_));
  self->feeds_ = std::move(feeds);
  self->targets_ = other.targets_;
  self->excludes_ = other.excludes_;
  self->open_ended_ = other.open_ended_;
  self->make_ = std::move(make);
  self->finish();
  return self;
}

void Executable::finish() {
  label_ = !targets_.empty() ? targets_.front()->name() : target_operations_.front()->name;
  const auto pass = state_->gate->exclusive();
  build();
  options_.observe = nullptr;  // The observer is only for this compilation.
  state_->add(shared_from_this());
  state_->refresh();
}

void Executable::build() {
  // Programs that are observed, or that contain checks or calls, are always compiled completely.
  const bool plain = !make_ && !options_.observe && !options_.check_finite && !options_.reference_kernels &&
                     options_.disabled_passes.empty() && options_.callables.empty();
  std::optional<SizeTemplates::Found> found;
  if (make_)
    found.emplace(make_(), ProgramTraits{excludes_, open_ended_});
  else if (plain)
    found = state_->templates.find(feeds_, targets_, target_operations_);
  const bool complete = !found;
  if (complete) {
    const ProfileScope scope("specialize", "pass");
    auto program = compiler::specialize(*state_->graph, feeds_, targets_, target_operations_);
    const Block& root = program.graph->root();
    const ProgramTraits traits{.excludes = program.rest || has_effect(root),
                               .open_ended = program.rest || open_ended(root)};
    found.emplace(std::move(program), traits);
  }
  auto& [program, traits] = *found;
  auto types = compiler::target_types(program);
  std::shared_ptr<CompiledProgram> compiled = compile(std::move(program), options_);
  if (plain && complete && compiled->resizable_program())
    state_->templates.add(*state_->graph, feeds_, targets_, target_operations_, compiled, traits);
  const bool first = !program_;
  {
    std::lock_guard lock(program_mutex_);
    program_ = std::move(compiled);
  }
  if (first) {  // Recompilation does not change these values, which are read without holding the gate.
    target_types_ = std::move(types);
    excludes_ = traits.excludes;
    open_ended_ = traits.open_ended;
  }
  needs_build_ = false;
}

// Compiles a program. A program with a rest compiles that rest during a run, so everything to which the compile
// function refers must live as long as the executable.
std::unique_ptr<CompiledProgram> Executable::compile(compiler::Program program, compiler::Options options) const {
  ProfileScope scope(label_, "compile");
  const auto begin = Profiler::Clock::now();
  if (const auto session = Profiler::get().session())
    options.observe_time = [session](std::string_view pass, auto began, auto ended) {
      Profiler::get().record(session, {.name = std::string(pass), .category = "pass", .kernel = {}}, began, ended);
    };
  auto storages = state_->storages(program.source_variables);
  resolve_calls(program.graph->root(), options.callables, program.callables);
  compiler::Options later = options;
  later.observe = nullptr;  // The observer is only for this compilation.
  later.observe_time = nullptr;
  const CompileProgram compile_later = [this, later](compiler::Program next) {
    return compile(std::move(next), later);
  };
  // Let fed flags choose the branches of `if`s before the run, unless the passes are observed or the reference kernels
  // are tested, because both need the program with all branches.
  if (state_->device.backend().sees_feeds() && !options.observe && !options.reference_kernels && !program.optimized)
    if (auto rest = compiler::rest_of_flags(program))
      return std::make_unique<StagedProgram>(nullptr, 0, std::move(rest), compile_later);
  const auto rest = std::move(program.rest);
  const size_t targets = program.targets.size();
  auto compiled = state_->device.backend().compile(std::move(program), std::move(storages), options);
  ++state_->compiles;
  const auto nanoseconds = std::chrono::nanoseconds(Profiler::Clock::now() - begin).count();
  state_->compile_nanoseconds += nanoseconds;
  all_compile_nanoseconds += nanoseconds;
  if (!rest) return compiled;
  return std::make_unique<StagedProgram>(std::move(compiled), targets, rest, compile_later);
}

double compile_seconds() { return static_cast<double>(all_compile_nanoseconds) / 1e9; }

void Executable::check_callables() {
  for (const auto& [symbol, callable] : options_.callables) {
    if (!callable) throw GraphError(cat("[compile] the callable '", symbol, "' is null"));
    const auto* other = dynamic_cast<const Executable*>(callable.get());
    if (!other) continue;
    if (&other->device() != &device())
      throw DeviceError(cat("[compile] the callable '", symbol, "' must be compiled for the device of its caller (",
                            device().name(), "), but was compiled for ", other->device().name()));
    if (!state_->may_call(other->state_))
      throw GraphError(cat("[compile] the callable '", symbol, "' belongs to the same graph as its caller, or to a ",
                           "graph that calls that graph: build it in a separate graph"));
  }
}

void Executable::require_built() {
  if (!needs_build_) return;
  const auto pass = state_->gate->exclusive();
  if (!needs_build_) return;
  build();
  state_->refresh();
}

size_t Executable::own_bytes() const {
  std::lock_guard lock(program_mutex_);
  return program_->own_arena_bytes() + program_->constant_bytes();
}

size_t Executable::shared_bytes() const {
  std::lock_guard lock(program_mutex_);
  return program_->shared_bytes();
}

std::shared_ptr<CompiledProgram> Executable::compiled() const {
  std::lock_guard lock(program_mutex_);
  return program_;
}

std::vector<std::string> Executable::kernel_names() const {
  std::lock_guard lock(program_mutex_);
  return program_->kernel_names();
}

std::string Executable::plan() const {
  std::lock_guard lock(program_mutex_);
  return program_->plan();
}

// ---- running ----

// One run, from its encoding until its completion. The list of results is shared with the caller, because the run adds
// the arrays that it allocates.
struct Executable::Run {
  Run(std::shared_ptr<Executable> executable, std::vector<NDArray> inputs, std::vector<NDArray> results)
      : executable(std::move(executable)),
        inputs(std::move(inputs)),
        results(std::make_shared<std::vector<NDArray>>(std::move(results))) {
    ++this->executable->in_flight_;
  }
  ~Run() { --executable->in_flight_; }
  Run(const Run&) = delete;

  std::shared_ptr<Executable> executable;
  std::vector<NDArray> inputs;
  std::shared_ptr<std::vector<NDArray>> results;
};

namespace {

void check_type(std::string_view what, const Tensor& tensor, const NDArray& array, const TensorType& type) {
  if (array.dtype() != type.dtype)
    throw DTypeError(cat("[run] ", what, " ", tensor.name(), " must be ", name(type.dtype), ", got ",
                         name(array.dtype()), "; convert the array first", tensor.operation->where()));
  const bool same = type.shape.known() && array.dims() == type.shape.dims();
  if (!same && !compatible(Shape(array.dims()), type.shape))
    throw ShapeError(cat("[run] ", what, " ", tensor.name(), " must have the shape ", type.shape,
                         " for which the executable was compiled, got ", to_string(array.dims()),
                         "; compile an executable for that shape", tensor.operation->where()));
  if (!array.contiguous())
    throw ShapeError(cat("[run] ", what, " ", tensor.name(), " must be contiguous, got shape ", to_string(array.dims()),
                         " with strides ", to_string(array.strides()), "; make a contiguous copy"));
}

// Whether a result shares memory with a feed or with another result, found in one pass over all arrays by address.
// Feeds may share memory with each other. All arrays must be contiguous.
bool results_overlap(std::span<const NDArray> inputs, std::span<const NDArray> results) {
  struct Extent {
    const std::byte *begin, *end;
    bool written;
  };
  std::vector<Extent> extents;
  extents.reserve(inputs.size() + results.size());
  const auto add = [&](const NDArray& array, bool written) {
    if (!array.valid() || !array.elements()) return;
    const auto* begin = static_cast<const std::byte*>(array.data());
    extents.push_back({begin, begin + static_cast<size_t>(array.elements()) * size_of(array.dtype()), written});
  };
  for (const NDArray& array : results) add(array, true);
  if (extents.empty()) return false;
  for (const NDArray& array : inputs) add(array, false);
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return std::less<>()(a.begin, b.begin); });
  const std::byte *read_to = nullptr, *written_to = nullptr;
  for (const Extent& extent : extents) {
    if (std::less<>()(extent.begin, written_to) || (extent.written && std::less<>()(extent.begin, read_to)))
      return true;
    const std::byte*& reached = extent.written ? written_to : read_to;
    if (std::less<>()(reached, extent.end)) reached = extent.end;
  }
  return false;
}

}  // namespace

std::shared_ptr<Executable::Run> Executable::prepare(std::vector<NDArray> inputs, std::vector<NDArray> results) {
  state_->device.check_usable();
  if (inputs.size() != feeds_.size())
    throw GraphError(cat("[run] the number of inputs must be ", feeds_.size(), " (one per feed), got ", inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid()) throw GraphError(cat("[run] no array was given for feed ", feeds_[i].first->name()));
    check_type("feed", *feeds_[i].first, inputs[i], feeds_[i].second);
  }
  const bool given = !results.empty();
  if (given && results.size() != targets_.size())
    throw GraphError(
        cat("[run] the number of results must be ", targets_.size(), " (one per target), got ", results.size()));
  results.resize(targets_.size());
  for (size_t i = 0; given && i < results.size(); ++i) {
    if (!results[i].valid()) continue;
    check_type("result", *targets_[i], results[i], target_types_[i]);
    if (!results[i].writable())
      throw DeviceError(cat("[run] result ", targets_[i]->name(), " must be writable, got a read-only array"));
  }
  if (given && results_overlap(inputs, results)) {  // Determine which arrays overlap, for the error message.
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].valid()) continue;
      for (size_t j = 0; j < inputs.size(); ++j)
        if (overlap(results[i], inputs[j]))
          throw DeviceError(cat("[run] result ", targets_[i]->name(), " shares memory with feed ",
                                feeds_[j].first->name(), "; pass arrays that do not overlap"));
      for (size_t j = 0; j < i; ++j)
        if (results[j].valid() && overlap(results[i], results[j]))
          throw DeviceError(cat("[run] results ", targets_[j]->name(), " and ", targets_[i]->name(),
                                " share memory; pass arrays that do not overlap"));
    }
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].valid() && target_types_[i].shape.known())
      results[i] = device().backend().allocate(target_types_[i].dtype, target_types_[i].shape.dims());
  auto run = std::make_shared<Run>(shared_from_this(), std::move(inputs), std::move(results));
  require_built();
  return run;
}

void Executable::execute(Run& run, DeviceCommands* device) {
  Gate& gate = *state_->gate;
  const void* owner = device ? device->queue() : nullptr;
  Gate::Pass pass = device ? gate.try_enter(excludes_, owner) : gate.enter(excludes_);
  if (!pass) {
    // Finishes the encoded commands first to avoid a deadlock: the commands may hold another graph's gate, and the run
    // that holds this gate may be waiting for that other gate.
    device->finish();
    pass = gate.enter(excludes_, owner);
  }
  if (program_->stale() || program_->compiles(run.inputs)) {
    pass.reset();
    if (device) device->finish();
    pass = gate.exclusive();
    if (program_->stale()) build();
  }
  if (device && program_->encode(*device, run.inputs, *run.results)) {
    device->keep(program_);
    device->keep(std::make_shared<Gate::Pass>(std::move(pass)));
    return;
  }
  if (device) device->finish();
  // When a run is cancelled, the variables that it has changed are restored from copies. Making these copies must not
  // slow runs down noticeably. A short run therefore makes no copies and is completed instead of cancelled. A longer
  // run may copy as many bytes as can be copied in about 2 % of the duration of the last run.
  constexpr int64_t soon = 50'000'000;
  constexpr double bytes_per_nanosecond = 0.06;
  constexpr size_t most_at_first = size_t{16} << 20;
  const int64_t last = nanoseconds_;
  const bool measured = last != INT64_MAX;
  Undo undo(!measured ? most_at_first : last < soon ? 0 : static_cast<size_t>(bytes_per_nanosecond * last));
  const RunState* const outer = this_run();
  RunState state{.cancelled = outer ? outer->cancelled : nullptr, .undo = &undo, .gate = &gate, .exclusive = excludes_};
  const RunScope scope(state);
  const auto begin = Profiler::Clock::now();
  try {
    if (run_is_cancelled()) throw_cancelled();
    program_->run(run.inputs, *run.results);
  } catch (const CancelledError&) {
    undo.restore();
    throw;
  }
  nanoseconds_ = std::chrono::nanoseconds(Profiler::Clock::now() - begin).count();
  if (nanoseconds_ < fastest_) fastest_ = nanoseconds_.load();  // An approximate minimum suffices if runs overlap.
}

// Whether a run is short enough to be executed on the calling thread, where Ctrl-C, for example, cannot interrupt it.
//
// On a busy machine a run may take several times as long as the previous one. The runs of an executable therefore count
// as short once one of them was fast, unless the last one exceeded a much higher limit. Otherwise runs would alternate
// between two threads, which keeps two thread teams awake and slows down both. The limits are higher for a caller that
// lends its thread team: such callers are used to uninterruptible loops, and the team would interfere with a run on
// another thread.
bool Executable::brief() const {
  const int64_t once = LentTeam::lent() ? 200'000'000 : 20'000'000, always = 5 * once;
  return !open_ended_ && fastest_ < once && nanoseconds_ < always;
}

std::vector<TensorType> Executable::operand_types() const {
  std::vector<TensorType> types;
  for (const Feed& feed : feeds_) types.push_back(feed.second);
  return types;
}

void Executable::call(const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results) {
  const auto arrays = [](const std::vector<std::byte*>& places, const auto& type_of) {
    std::vector<NDArray> arrays;
    for (size_t i = 0; i < places.size(); ++i) {
      const TensorType& type = type_of(i);
      const Dims& dims = type.shape.dims();
      arrays.push_back(NDArray::borrow(places[i], type.dtype, dims, contiguous_strides(dims), [] {}));
    }
    return arrays;
  };
  execute(*prepare(arrays(operands, [&](size_t i) -> const TensorType& { return feeds_[i].second; }),
                   arrays(results, [&](size_t i) -> const TensorType& { return target_types_[i]; })),
          nullptr);
}

std::shared_ptr<Execution> Executable::run_async(std::vector<NDArray> inputs, std::vector<NDArray> results,
                                                 const ExecutionDescriptor& descriptor,
                                                 const std::shared_ptr<CommandQueue>& queue, bool waiting) {
  if (!reserve_thread_storage()) throw OutOfMemoryError("there is too little memory to run a program in this thread");
  auto buffer = (queue ? queue : state_->device.default_queue())->command_buffer();
  ExecutionDescriptor here = descriptor;
  here.wait_until_completed = false;  // run_async waits below, once the handle exists
  auto encoded = encode_run(*buffer, std::move(inputs), std::move(results), here);
  auto execution = std::make_shared<Execution>(buffer, std::move(encoded));
  buffer->commit(waiting || descriptor.wait_until_completed);
  if (descriptor.wait_until_completed) execution->wait();
  return execution;
}

std::vector<NDArray> Executable::run(std::vector<NDArray> inputs, std::vector<NDArray> results,
                                     const std::shared_ptr<CommandQueue>& queue, Timeout timeout) {
  const auto execution = run_async(std::move(inputs), std::move(results), {}, queue, !timeout);
  execution->command_buffer()->wait_or_cancel(timeout);
  return execution->pending_results();
}

void Executable::serialize(const std::filesystem::path& path, const SerializationDescriptor& descriptor) {
  state_->device.check_usable();
  if (!target_operations_.empty())
    throw GraphError(cat("[serialize] target operation ", target_operations_.front()->name, " changes variables, ",
                         "which are frozen in a serialized executable; compile without target operations"));
  std::vector<SerializedTensor> feeds, targets;
  for (const auto& [tensor, type] : feeds_) feeds.push_back({tensor->name(), type, {}});
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (!target_types_[i].shape.known())
      throw UnsupportedError(cat("[serialize] the shape of target ", targets_[i]->name(), " must be static, but ",
                                 target_types_[i], " depends on run-time values", targets_[i]->operation->where()));
    targets.push_back({targets_[i]->name(), target_types_[i], {}});
  }
  require_built();
  const auto pass = state_->gate->exclusive();
  const SerializedOrder order = program_->serialize(path, descriptor);
  for (size_t i = 0; i < feeds.size(); ++i) feeds[i].position = order.feeds[i];
  for (size_t i = 0; i < targets.size(); ++i) targets[i].position = order.targets[i];
  write_interface(path, feeds, targets);
}

std::vector<NDArray> Executable::encode(CommandBuffer& buffer, std::vector<NDArray> inputs,
                                        std::vector<NDArray> results, const ExecutionDescriptor& descriptor) {
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (target_types_[i].shape.known() || (i < results.size() && results[i].valid())) continue;
    throw UnsupportedError(cat(
        "[encode] the shape of target ", targets_[i]->name(), " of type ", target_types_[i],
        " depends on run-time values and is only known after the run; use run or run_async, or pass an array for it",
        targets_[i]->operation->where()));
  }
  return *encode_run(buffer, std::move(inputs), std::move(results), descriptor);
}

std::shared_ptr<std::vector<NDArray>> Executable::encode_run(CommandBuffer& buffer, std::vector<NDArray> inputs,
                                                             std::vector<NDArray> results,
                                                             const ExecutionDescriptor& descriptor) {
  ProfileScope scope(label_, "encode");
  using Stage = ExecutionDescriptor::Stage;
  if (&buffer.queue().device() != &state_->device)
    throw DeviceError(cat("[encode] the command buffer must belong to the executable's device (", state_->device.name(),
                          "), got one of device ", buffer.queue().device().name()));
  auto run = prepare(std::move(inputs), std::move(results));
  auto outputs = run->results;
  const auto handler = [&](const ExecutionDescriptor::Handler& function) -> CommandBuffer::Handler {
    return [function, outputs](CommandBuffer& done) { function(*outputs, done.error()); };
  };
  for (auto& wait : descriptor.waits) buffer.encode_wait_for_event(wait.event, wait.value, wait.timeout);
  for (auto& signal : descriptor.signals)
    if (signal.stage == Stage::scheduled) buffer.encode_signal_event(signal.event, signal.value);
  buffer.encode_device_work([run = std::move(run)](DeviceCommands* device) { run->executable->execute(*run, device); },
                            label_, brief());
  for (auto& signal : descriptor.signals)
    if (signal.stage == Stage::completed) buffer.encode_signal_event(signal.event, signal.value);
  if (descriptor.scheduled_handler) buffer.add_scheduled_handler(handler(descriptor.scheduled_handler));
  if (descriptor.completed_handler) buffer.add_completed_handler(handler(descriptor.completed_handler));
  if (descriptor.wait_until_completed) {
    buffer.commit();
    buffer.wait_until_completed();
  }
  return outputs;
}

}  // namespace mpsgraph::runtime
