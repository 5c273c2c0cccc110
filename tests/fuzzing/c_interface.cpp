// The C interface: the input is a program of calls, whose arguments are handles of earlier calls, released and foreign
// handles, NULL, small numbers, and short strings.
//
// Each byte decides one thing, so that libFuzzer can change a call without changing the others. Memory that functions
// write to is valid and large enough, which the interface cannot check.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <type_traits>

#include "fuzzing/fuzz.h"
#include "mpsgraph/function_table.h"

namespace {

constexpr size_t most_calls = 64, most_handles = 256, room = 4096, most_items = 8;
constexpr std::string_view strings[] = {"",         "x",           "y",        "w",     "relu", "addition",
                                        "variable", "placeholder", "constant", "value", "type", "shape",
                                        "axis",     "axes",        "no such",  "cpu"};
constexpr std::string_view text =
    "graph {\n  %w = variable() {value=float32[2] splat 0x3f800000} : float32[2]\n"
    "  %x = placeholder() {type=float32[2]} : float32[2]\n  %r = read(%w) : float32[2]\n"
    "  %s = addition(%x, %r) : float32[2]\n  %y = relu(%s) : float32[2]\n  %u = assign(%w, %y) : ()\n}\n";

template <class T, class... Handles>
constexpr bool is_one_of = (std::is_same_v<T, Handles> || ...);
template <class T>
constexpr bool is_handle = is_one_of<T, mpsgraph_device, mpsgraph_array, mpsgraph_graph, mpsgraph_tensor,
                                     mpsgraph_operation, mpsgraph_attributes, mpsgraph_executable, mpsgraph_execution,
                                     mpsgraph_queue, mpsgraph_command_buffer, mpsgraph_event, mpsgraph_trainer>;

class Calls {
 public:
  explicit Calls(std::string_view input) : input_(input), table_(*mpsgraph_get_functions(3)) {}
  ~Calls() {
    // Runs use memory of this object.
    for (void* handle : handles_) {
      (void)table_.execution_wait(static_cast<mpsgraph_execution>(handle), 10);
      (void)table_.command_buffer_wait(static_cast<mpsgraph_command_buffer>(handle), 10);
    }
    for (const auto& [handle, references] : references_)
      for (int i = 0; i < references; ++i) (void)table_.release(handle);
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  void run();

 private:
  uint8_t byte() {
    if (input_.empty()) return 0;
    const auto value = static_cast<uint8_t>(input_.front());
    input_.remove_prefix(1);
    return value;
  }

  // ---- arguments ----

  std::byte* memory() {
    memory_.emplace_back(new std::byte[room]());
    return memory_.back().get();
  }

  void* handle() {
    const uint8_t choice = byte();
    if (choice == 255) return nullptr;
    if (choice == 254) return reinterpret_cast<void*>(uintptr_t{0xDEADBEEF});
    return handles_.empty() ? nullptr : handles_[choice % handles_.size()];
  }

  mpsgraph_type type() {
    const uint8_t dtype = byte(), rank = byte();
    mpsgraph_type result{dtype % 17 - 1, rank % 20 - 2, {}};
    // At most 256 elements, because an array of gigabytes would not be a finding.
    for (int32_t i = 0; i < std::min(result.rank, 16); ++i) result.dims[i] = byte() % (result.rank > 4 ? 3 : 6) - 1;
    return result;
  }

  template <class T>
  T argument() {
    using Pointee = std::remove_pointer_t<T>;
    if constexpr (std::is_same_v<T, double>) {
      const double value = byte() / 1e4 - 0.001;  // also how long functions wait, in seconds; negative: without limit
      return waits_for_event_ ? std::max(value, 0.0) : value;
    } else if constexpr (std::is_same_v<T, size_t>) {
      return byte() % (most_items + 1);
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(byte() % 20 - 2);
    } else if constexpr (std::is_same_v<T, const char*>) {
      const uint8_t choice = byte();
      if (choice == 255) return nullptr;
      const std::string_view chosen = strings[choice % std::size(strings)];
      return static_cast<const char*>(std::memcpy(memory(), chosen.data(), chosen.size()));
    } else if constexpr (std::is_function_v<Pointee>) {
      return nullptr;
    } else if constexpr (std::is_same_v<T, void*> || std::is_same_v<T, const void*> || std::is_same_v<T, char*>) {
      return byte() == 255 ? nullptr : reinterpret_cast<T>(memory());
    } else if constexpr (is_handle<T>) {
      return static_cast<T>(handle());
    } else {
      static_assert(std::is_pointer_v<T>);
      if (byte() == 255) return nullptr;
      auto* items = reinterpret_cast<std::remove_const_t<Pointee>*>(memory());
      if constexpr (std::is_same_v<std::remove_const_t<Pointee>, mpsgraph_type>) {
        for (size_t i = 0; i < 2; ++i) items[i] = type();
      } else if constexpr (std::is_const_v<Pointee> && is_handle<std::remove_const_t<Pointee>>) {
        for (size_t i = 0; i < 3; ++i) items[i] = static_cast<std::remove_const_t<Pointee>>(handle());
      } else if constexpr (std::is_same_v<std::remove_const_t<Pointee>, int64_t>) {
        for (size_t i = 0; i < 3; ++i) items[i] = byte() % 8 - 2;
      } else if constexpr (std::is_same_v<Pointee, const char* const>) {
        for (size_t i = 0; i < most_items; ++i) items[i] = strings[i].data();  // literals, which end with a null
      } else if constexpr (!std::is_const_v<Pointee> && is_handle<Pointee>) {
        out_ = reinterpret_cast<void**>(items);
      }
      return items;
    }
  }

  // Calls a function with arguments of the types that it declares.
  template <class... Arguments>
  void call(mpsgraph_status (*function)(Arguments...)) {
    out_ = nullptr;
    // An event that no call signals is waited for as long as the caller has asked for, which would not be a finding.
    waits_for_event_ = std::is_same_v<std::tuple<Arguments...>, std::tuple<mpsgraph_event, uint64_t, double>>;
    std::tuple<Arguments...> arguments{argument<Arguments>()...};  // in order
    const mpsgraph_status status = std::apply(function, arguments);
    fuzz::require(status >= 0 && status <= 14 && status != MPSGRAPH_INTERNAL_ERROR, table_.error_message());
    if (status == MPSGRAPH_OK && out_)
      for (size_t i = 0; i < most_items; ++i)
        if (out_[i]) keep(out_[i]);
  }

  void keep(void* handle) {
    if (handles_.size() < most_handles) handles_.push_back(handle);
    ++references_[handle];
  }

  std::string_view input_;
  const mpsgraph_functions& table_;
  std::vector<void*> handles_;
  std::map<void*, int> references_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  void** out_ = nullptr;
  bool waits_for_event_ = false;
};

void Calls::run() {
  // Functions with an array of results release nothing, so what they return is kept, too. Tensors and operations belong
  // to their graph; releasing one is refused.
  mpsgraph_graph graph = nullptr;
  if (table_.graph_from_text(text.data(), text.size(), nullptr, &graph) != MPSGRAPH_OK) return;
  keep(graph);
  for (const char* name : {"x", "y", "w"}) {
    mpsgraph_tensor tensor = nullptr;
    if (table_.graph_find(graph, 0, name, &tensor) == MPSGRAPH_OK) keep(tensor);
  }
  mpsgraph_type pair{MPSGRAPH_FLOAT32, 1, {2}};
  mpsgraph_array array = nullptr;
  if (table_.array_create(&pair, &array) == MPSGRAPH_OK) keep(array);

  // Not called: functions that read structures of the caller (custom operations, DLPack), load libraries, write files,
  // or change the process.
  // clang-format off
#define CALLS(X) \
  X(retain) X(release) X(thread_count) X(get_memory_statistics) X(device_count) X(device_name_at) X(device_open) \
  X(device_name) X(device_description) X(array_create) X(array_from_memory) X(array_type) X(array_strides) \
  X(array_data) X(array_read) X(array_write) X(graph_create) X(graph_from_text) X(graph_text) X(graph_tensor_count) \
  X(graph_tensor_at) X(graph_name_at) X(graph_find) X(graph_find_operation) X(graph_set_name) X(tensor_type) \
  X(tensor_name) X(operation_create) X(operation_output_count) X(operation_output) X(graph_add) \
  X(graph_begin_control_dependencies) X(graph_end_control_dependencies) X(graph_gradients) X(operation_kind_count) \
  X(operation_kind_at) X(operation_description) X(attributes_create) X(attributes_set_bool) \
  X(attributes_set_integer) X(attributes_set_real) X(attributes_set_string) X(attributes_set_integers) \
  X(attributes_set_dtype) X(attributes_set_data) X(attributes_set_type) X(attributes_set_types) X(variable_read) \
  X(variable_write) X(graph_compile) X(executable_create) X(executable_input_count) X(executable_output_count) \
  X(executable_input_type) X(executable_output_type) X(executable_run) X(executable_run_async) X(execution_wait) \
  X(execution_results) X(queue_create) X(command_buffer_create) X(command_buffer_encode) \
  X(command_buffer_signal_event) X(command_buffer_commit) X(command_buffer_wait) X(event_create) X(event_value) \
  X(event_signal) X(event_wait) X(trainer_create) X(train_step) X(trainer_graph) X(trainer_input_count) \
  X(trainer_input_name_at) X(trainer_input_type) X(trainer_result_count) X(trainer_result_name_at) \
  X(trainer_train_step) X(trainer_evaluate) X(trainer_predict) X(trainer_step_count) X(trainer_learning_rate) \
  X(trainer_set_learning_rate) X(graph_begin_block) X(graph_end_block) X(graph_abandon_block) \
  X(operation_create_with_blocks)
  // clang-format on
  using Call = void (*)(Calls&);
#define ONE(name) +[](Calls& calls) { calls.call(calls.table_.name); },
  static constexpr Call all[] = {CALLS(ONE)};
  for (size_t i = 0; i < most_calls && !input_.empty(); ++i) all[byte() % std::size(all)](*this);
}

}  // namespace

FUZZ_TARGET(c_interface) { Calls(input).run(); }
