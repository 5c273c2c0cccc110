// The registry of kernels, and the choice among candidates.
#include "backends/cpu/kernel_table.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "backends/cpu/amx.h"
#include "backends/cpu/instruction_set.h"
#include "core/kind_table.h"
#include "mpsgraph/core/errors.h"

namespace mpsgraph::cpu {
namespace {

struct KernelsOfKind {
  Lower only = nullptr;  // the kernel, if there are no candidates
  std::vector<Candidate> candidates;
  bool (*suits)(const Operation&) = nullptr;  // for composite operations
};

using Registry = KindTable<KernelsOfKind>;
Registry& registry() {
  static Registry kernels;
  return kernels;
}

const Registry& filled_registry() {
  static std::once_flag once;
  std::call_once(once, [] { Kernels::for_each([](std::string_view, Kernels::Say define) { define(); }); });
  return registry();
}

const KernelsOfKind* kernels_of(Kind kind) { return filled_registry().find(kind); }

KernelsOfKind& add_kind(Kind kind) {
  if (registry().contains(kind))
    throw GraphError(cat("operation kind '", kind, "' already has a kernel; register only one"));
  return registry()[kind];
}

bool has_technique(std::string_view technique) {
  if (technique == "shared_panels") return true;
#if defined(__x86_64__)
  if (technique == "amx") return has_amx();
  if (technique == "pairs") return instruction_set() == "AVX-512" && __builtin_cpu_supports("avx512bf16");
  return instruction_set() == "AVX-512";
#else
  return technique == "pairs" && instruction_set() == "NEON-bf16";
#endif
}

// The value of MPSGRAPH_KERNELS.
struct KernelSettings {
  std::set<std::string, std::less<>> forbidden;  // candidates
  KindTable<std::string> forced;  // candidates by kind of operation
  std::map<std::string, bool, std::less<>> techniques;

  static const KernelSettings& get() {
    static const KernelSettings settings = [] {
      const char* value = std::getenv("MPSGRAPH_KERNELS");
      return KernelSettings(value ? value : "");
    }();
    return settings;
  }

 private:
  explicit KernelSettings(std::string_view list) {
    while (!list.empty()) {
      const size_t comma = std::min(list.find(','), list.size());
      read(list.substr(0, comma));
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
  }

  void read(std::string_view setting) {
    const size_t equals = std::min(setting.find('='), setting.size());
    const std::string name(setting.substr(0, equals)), value(setting.substr(std::min(equals + 1, setting.size())));
    if (std::ranges::find(cpu::techniques, name) != std::end(cpu::techniques)) {
      if (value != "on" && value != "off") refuse(setting, cat(name, "=on or ", name, "=off"));
      if (value == "on" && !has_technique(name)) refuse(setting, cat(name, "=off, because this processor lacks it"));
      techniques[name] = value == "on";
    } else if (const auto kind = Kind::find(name); kind && kernels_of(*kind)) {
      std::string names;
      for (const Candidate& candidate : kernels_of(*kind)->candidates) {
        names += cat(names.empty() ? "" : ", ", candidate.name);
        if (candidate.name == value) forced[*kind] = value;
      }
      if (!forced.contains(*kind))
        refuse(setting, names.empty() ? "an operation kind with several kernels" : cat(name, "= one of ", names));
    } else {
      std::set<std::string_view> names;
      for (const KernelsOfKind& entry : filled_registry().values())
        for (const Candidate& candidate : entry.candidates) names.insert(candidate.name);
      if (value != "off" || !names.contains(name)) {
        std::string all;
        for (const std::string_view one : names) all += cat(all.empty() ? "" : ", ", one);
        refuse(setting, cat("CANDIDATE=off with one of ", all, "; or KIND=CANDIDATE with an operation kind"));
      }
      forbidden.insert(name);
    }
  }

  [[noreturn]] static void refuse(std::string_view setting, const std::string& expected) {
    throw DeviceError(cat("environment variable MPSGRAPH_KERNELS contains '", setting, "', expected ", expected));
  }
};

}  // namespace

void define_kernel(Kind kind, Lower lower) { add_kind(kind).only = lower; }

void define_candidates(Kind kind, std::vector<Candidate> candidates) {
  add_kind(kind).candidates = std::move(candidates);
}

void define_composite(Kind kind, Lower lower, bool (*suits)(const Operation&)) {
  KernelsOfKind& entry = add_kind(kind);
  entry.only = lower;
  entry.suits = suits;
}

bool has_kernel(const Operation& operation) {
  const KernelsOfKind* entry = kernels_of(operation.kind());
  return entry && (!entry->suits || entry->suits(operation));
}

bool has_plain_kernel(const Operation& operation) {
  const KernelsOfKind* entry = kernels_of(operation.kind());
  return entry && !entry->suits;
}

std::span<const Candidate> candidates_of(Kind kind) {
  const KernelsOfKind* entry = kernels_of(kind);
  return entry ? std::span<const Candidate>(entry->candidates) : std::span<const Candidate>();
}

std::unique_ptr<Kernel> make_kernel(Lowering& lowering) { return make_kernel(lowering.operation().kind(), lowering); }

std::unique_ptr<Kernel> make_kernel(Kind kind, Lowering& lowering) {
  const Operation& operation = lowering.operation();
  const KernelsOfKind* entry = kernels_of(kind);
  if (!entry)
    throw UnsupportedError(
        cat("[", kind, "] the CPU has no kernel for operation '", operation.name, "'", operation.where()));
  if (entry->only) return entry->only(lowering);
  const KernelSettings& settings = KernelSettings::get();
  const std::string* forced = settings.forced.find(kind);
  std::string declined;
  for (const Candidate& candidate : entry->candidates) {
    const bool last = &candidate == &entry->candidates.back();
    if (lowering.reference_only() && !last) continue;
    const bool off = !lowering.reference_only() &&
                     (settings.forbidden.contains(candidate.name) || (forced && *forced != candidate.name));
    Offer offer = off ? decline("forbidden by MPSGRAPH_KERNELS") : candidate.offer(lowering);
    if (offer) {
      auto kernel = offer.take();
      kernel->candidate = candidate.name;
      kernel->declined = std::move(declined);
      return kernel;
    }
    declined += cat(declined.empty() ? "" : ", ", candidate.name, " (", offer.reason(), ")");
  }
  throw UnsupportedError(cat("[", kind, "] no kernel can compute operation '", operation.name, "' with output ",
                             operation.output()->type, ": ", declined, operation.where()));
}

std::optional<bool> wanted(std::string_view technique) {
  const KernelSettings& settings = KernelSettings::get();
  const auto found = settings.techniques.find(technique);
  return found == settings.techniques.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace mpsgraph::cpu
