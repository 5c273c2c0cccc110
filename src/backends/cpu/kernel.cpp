// The kernel registry: for each kind of operation, its implementations on the CPU in order of precedence.
#include "backends/cpu/kernel.h"

#include "backends/cpu/kernel_choice.h"

#include <array>
#include <mutex>
#include <unordered_map>

#include "mpsgraph/core/errors.h"
#include "runtime/run_control.h"

namespace mpsgraph::cpu {
namespace {

using Alternatives = std::array<Lower, static_cast<size_t>(Precedence::own) + 1>;

std::unordered_map<std::string_view, Alternatives>& table() {
  static std::unordered_map<std::string_view, Alternatives> kernels;
  return kernels;
}

std::unordered_map<std::string_view, bool (*)(const Operation&)>& conditions() {
  static std::unordered_map<std::string_view, bool (*)(const Operation&)> suits;
  return suits;
}

const std::unordered_map<std::string_view, Alternatives>& filled_table() {
  static std::once_flag once;
  std::call_once(once, [] { Kernels::for_each([](std::string_view, Kernels::Say define) { define(); }); });
  return table();
}

}  // namespace

const std::atomic<bool> Frame::never_cancelled{false};
void Frame::throw_cancelled() { runtime::throw_cancelled(); }
Kernel::~Kernel() = default;
DescribedKernel::~DescribedKernel() = default;
std::string DescribedKernel::description() const { return description_; }
void DescribedKernel::describe(std::string description) { description_ = std::move(description); }

void define_kernel(std::string_view kind, Lower lower, Precedence precedence) {
  Lower& place = table()[kind][static_cast<size_t>(precedence)];
  if (place)
    throw GraphError(cat("operation kind '", kind, "' already has a kernel of this precedence; register only one"));
  place = lower;
}

void define_composite(std::string_view kind, Lower lower, bool (*suits)(const Operation&)) {
  define_kernel(kind, lower);
  conditions()[kind] = suits;
}

Lower find_kernel(std::string_view kind, Precedence up_to) {
  const auto found = filled_table().find(kind);
  if (found == filled_table().end()) return nullptr;
  for (int i = static_cast<int>(up_to); i >= 0; --i)
    if (const Lower lower = found->second[static_cast<size_t>(i)]) return lower;
  return nullptr;
}

bool has_kernel(const Operation& operation) {
  if (!find_kernel(operation.kind())) return false;
  const auto found = conditions().find(operation.kind());
  return found == conditions().end() || found->second(operation);
}

bool has_plain_kernel(const Operation& operation) {
  return find_kernel(operation.kind()) && !conditions().contains(operation.kind());
}

}  // namespace mpsgraph::cpu
