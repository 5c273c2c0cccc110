// Exchange slots, guarded by a mutex with two condition variables. Copies are made without holding the mutex, in pieces
// that are distributed among the caller's threads.
#include "mpsgraph/runtime/exchange.h"

#include <algorithm>
#include <cstring>

#include "mpsgraph/core/errors.h"
#include "mpsgraph/runtime/profiler.h"
#include "runtime/worker.h"

namespace mpsgraph::runtime {

namespace {

// Sizes in bytes. Arrays of at least `large` bytes start at a multiple of `line`, a cache line.
constexpr size_t large = 1024, line = 64;
constexpr size_t copied_at_once = size_t{256} << 10;  // number of bytes that one thread copies at a time

// A copy of many arrays, divided into pieces.
struct Copies {
  struct Piece {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };
  std::vector<Piece> pieces;
  uint64_t bytes = 0;

  void add(std::byte* to, const std::byte* from, size_t count) {
    for (size_t begin = 0; begin < count; begin += copied_at_once)
      pieces.push_back({to + begin, from + begin, std::min(copied_at_once, count - begin)});
    bytes += count;
  }
  void run(const compiler::ForEach& threads) const {
    const auto copy = [&](int64_t i) {
      const Piece& one = pieces[static_cast<size_t>(i)];
      std::memcpy(one.to, one.from, one.bytes);
    };
    threads(static_cast<int64_t>(pieces.size()), copy);
  }
};

size_t bytes_of(const TensorType& type) { return static_cast<size_t>(type.shape.elements()) * size_of(type.dtype); }

double seconds(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

class Exchange::SlotCallable : public compiler::ThreadedCallable {
 public:
  SlotCallable(std::shared_ptr<Exchange> exchange, size_t number, Slot& slot, bool gives, bool takes)
      : exchange_(std::move(exchange)), number_(number), slot_(slot), gives_(gives), takes_(takes) {}

  std::vector<TensorType> operand_types() const override { return gives_ ? slot_.types : std::vector<TensorType>(); }
  std::vector<TensorType> result_types() const override { return takes_ ? slot_.types : std::vector<TensorType>(); }
  void call_with(const std::vector<std::byte*>& operands, const std::vector<std::byte*>& results,
                 const compiler::ForEach& threads) override {
    if (gives_) exchange_->give(slot_, number_, operands, threads);
    if (takes_) exchange_->take(slot_, results, threads);
  }
  const void* memory() const override { return &slot_; }
  std::byte* operand_place(size_t operand) override { return gives_ ? exchange_->free_place(slot_, operand) : nullptr; }
  bool lends_results() const override { return !gives_; }
  std::byte* result_place(size_t result) override { return slot_.taken.data() + slot_.offsets[result]; }

 private:
  const std::shared_ptr<Exchange> exchange_;
  const size_t number_;
  Slot& slot_;
  const bool gives_, takes_;
};

std::shared_ptr<Exchange> Exchange::create() { return std::shared_ptr<Exchange>(new Exchange); }

size_t Exchange::add(std::string name, std::vector<TensorType> types) {
  guard_.check("the exchange");
  if (types.empty())
    throw GraphError(cat("[exchange] slot '", name, "' must have at least one array: pass at least one type"));
  auto made = std::make_unique<Slot>();
  size_t bytes = 0;
  for (const TensorType& type : types) {
    if (!type.shape.known())
      throw ShapeError(cat("[exchange] arrays of slot '", name, "' must have static shapes, got ", type));
    if (type.dtype != types.front().dtype)
      throw DTypeError(cat("[exchange] all arrays of slot '", name, "' must have the same dtype, got ", types.front(),
                           " and ", type));
    if (bytes_of(type) >= large) bytes = (bytes + line - 1) / line * line;
    made->offsets.push_back(bytes);
    bytes += bytes_of(type);
  }
  const DType dtype = types.front().dtype;
  made->memory = NDArray::allocate(dtype, {static_cast<int64_t>(bytes / size_of(dtype))});
  // Sums include the padding between arrays, so the padding is zeroed.
  std::memset(made->memory.data(), 0, bytes);
  made->taken = made->memory;
  made->name = std::move(name);
  made->types = std::move(types);
  std::lock_guard lock(mutex_);
  slots_.push_back(std::move(made));
  return slots_.size() - 1;
}

Exchange::Slot& Exchange::slot(size_t number) const {
  if (number >= slots_.size())
    throw GraphError(cat("[exchange] slot ", number, " is out of range: the exchange has ", slots_.size(), " slot(s)"));
  return *slots_[number];
}

std::shared_ptr<compiler::Callable> Exchange::callable(size_t number, bool gives, bool takes) {
  std::lock_guard lock(mutex_);
  return std::make_shared<SlotCallable>(shared_from_this(), number, slot(number), gives, takes);
}

std::shared_ptr<compiler::Callable> Exchange::giver(size_t slot) { return callable(slot, true, false); }
std::shared_ptr<compiler::Callable> Exchange::taker(size_t slot) { return callable(slot, false, true); }
std::shared_ptr<compiler::Callable> Exchange::through(size_t slot) { return callable(slot, true, true); }

// ---- called by runs ----

// Waits until a run may use the slot's memory, which is when the slot's work is done (State::ready) or, unless `ready`
// is set, when the slot has no work (State::idle).
void Exchange::wait_until_free(std::unique_lock<std::mutex>& lock, const Slot& slot, bool ready) {
  const auto free = [&] { return failure_ || slot.state == State::ready || (!ready && slot.state == State::idle); };
  const auto result = wait_until(lock, done_, {}, free);
  if (result == WaitResult::cancelled)
    throw DeviceError("[exchange] waiting was cancelled because the runtime is shutting down");
  if (failure_) throw DeviceError(cat("[exchange] ", *failure_));
}

// Waits until the other processes that share the sum have added up their ranges of the elements. After that, no process
// reads this process's contribution any more.
void Exchange::wait_for_others(Slot& slot) {
  if (!slot.others_read) return;
  constexpr double look = 0.05;  // interval in seconds between checks for cancellation and failure
  WorkerThreadState* const worker = this_worker();
  const BlockedScope scope;
  ++waiting_for_others_;
  try {
    while (!slot.shared->wait(SharedSum::Mark::added, look)) {
      if (worker && worker->cancelled)
        throw DeviceError("[exchange] waiting was cancelled because the runtime is shutting down");
      std::lock_guard lock(mutex_);
      if (failure_) throw DeviceError(cat("[exchange] ", *failure_));
    }
  } catch (...) {
    --waiting_for_others_;
    throw;
  }
  --waiting_for_others_;
  slot.others_read = false;
}

void Exchange::give(Slot& slot, size_t number, const std::vector<std::byte*>& operands,
                    const compiler::ForEach& threads) {
  {
    std::unique_lock lock(mutex_);
    wait_until_free(lock, slot, false);  // A run that ended early may have left the slot to the worker thread.
  }
  wait_for_others(slot);
  const auto begin = Clock::now();
  Copies copies;
  for (size_t i = 0; i < operands.size(); ++i)
    if (std::byte* const to = slot.memory.data() + slot.offsets[i]; operands[i] != to)
      copies.add(to, operands[i], bytes_of(slot.types[i]));
  copies.run(threads);
  {
    std::lock_guard lock(mutex_);
    if (slot.shared) slot.shared->post();
    slot.others_read = slot.shared != nullptr;
    slot.state = State::given;
    waiting_.push_back(number);
    ++statistics_.given;
    statistics_.copied += seconds(begin);
    statistics_.copied_bytes += copies.bytes;
  }
  given_.notify_one();
}

// Memory to which an operation can write an operand of the next give() directly. Null while another process may still
// read the previous contents, and for slots that are summed in place, because other operations of the run may read
// their memory.
std::byte* Exchange::free_place(Slot& slot, size_t operand) {
  std::lock_guard lock(mutex_);
  if (failure_ || !slot.shared || slot.state != State::idle) return nullptr;
  if (slot.others_read && !slot.shared->wait(SharedSum::Mark::added, 0)) return nullptr;
  return slot.memory.data() + slot.offsets[operand];
}

void Exchange::take(Slot& slot, const std::vector<std::byte*>& results, const compiler::ForEach& threads) {
  {
    std::unique_lock lock(mutex_);
    const auto begin = Clock::now();
    wait_until_free(lock, slot, true);
    lock.unlock();
    wait_for_others(slot);
    lock.lock();
    statistics_.waited += seconds(begin);
  }
  const auto begin = Clock::now();
  Copies copies;
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i]) copies.add(results[i], slot.taken.data() + slot.offsets[i], bytes_of(slot.types[i]));
  copies.run(threads);
  std::lock_guard lock(mutex_);
  slot.state = State::idle;
  statistics_.copied += seconds(begin);
  statistics_.copied_bytes += copies.bytes;
}

// ---- called by the worker thread ----

std::optional<size_t> Exchange::next(Timeout timeout) {
  guard_.check("the exchange");
  std::unique_lock lock(mutex_);
  const auto result = wait_until(lock, given_, timeout, [&] { return failure_ || !waiting_.empty(); });
  if (result != WaitResult::ready || failure_) return {};
  const size_t number = waiting_.front();
  waiting_.pop_front();
  Slot& next = slot(number);
  next.state = State::working;
  next.begin = Clock::now();
  return number;
}

NDArray Exchange::memory(size_t number) const {
  std::lock_guard lock(mutex_);
  return slot(number).memory;
}

void Exchange::share(size_t number, std::shared_ptr<SharedSum> sum) {
  std::lock_guard lock(mutex_);
  Slot& worked = slot(number);
  NDArray given = sum->contribution();
  if (given.dtype() != worked.memory.dtype())
    throw DTypeError(cat("[exchange] the sum shared with slot '", worked.name, "' must be ", worked.memory.dtype(),
                         ", got ", given.dtype()));
  if (given.dims() != worked.memory.dims())
    throw ShapeError(cat("[exchange] the sum shared with slot '", worked.name, "' must have ", worked.memory.elements(),
                         " element(s), got ", given.elements()));
  if (worked.state != State::working)
    throw GraphError(cat("[exchange] slot ", number, " '", worked.name,
                         "' is not being worked on: first get its number from next()"));
  given.copy_from(worked.memory);
  sum->post();
  worked.memory = std::move(given);
  worked.taken = sum->total();
  worked.shared = std::move(sum);
  worked.others_read = true;
}

void Exchange::done(size_t number) {
  {
    std::lock_guard lock(mutex_);
    Slot& worked = slot(number);
    if (worked.state != State::working)
      throw GraphError(cat("[exchange] slot ", number, " '", worked.name,
                           "' is not being worked on: first get its number from next()"));
    worked.state = State::ready;
    statistics_.worked += seconds(worked.begin);
    if (const auto session = Profiler::get().session())
      Profiler::get().record(session, {.name = worked.name, .category = "communication", .kernel = {}}, worked.begin,
                             Clock::now());
  }
  done_.notify_all();
}

void Exchange::fail(std::string reason) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(reason);
  }
  given_.notify_all();
  done_.notify_all();
}

bool Exchange::failed() const {
  std::lock_guard lock(mutex_);
  return failure_.has_value();
}

bool Exchange::waiting() const { return waiting_for_others_ > 0; }

Exchange::Statistics Exchange::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace mpsgraph::runtime
