// The kernels of the CPU: for each kind of operation, one kernel, or an ordered table of candidates.
//
// A candidate builds a kernel for the operation, or declines with a reason. The first candidate that builds a kernel is
// chosen. The printed plan names the chosen candidate, and the reasons of those before it.
//
// The environment variable MPSGRAPH_KERNELS forces or forbids candidates, so that each can be tested and measured. It
// is read once. Its value is a list separated by commas, such as "winograd=off,convolution2d=patches,amx=off":
//   CANDIDATE=off      never chooses this candidate
//   KIND=CANDIDATE     considers only this candidate for this kind of operation
//   TECHNIQUE=on|off   requires or forbids a technique that some kernels use internally (`techniques` below)
// A setting that this processor cannot follow is an error.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/kernel.h"

namespace mpsgraph::cpu {

// The answer of a candidate: a kernel, or the reason why it does not compute the operation.
class Offer {
 public:
  template <class AnyKernel>
  Offer(std::unique_ptr<AnyKernel> kernel) : kernel_(std::move(kernel)) {}
  static Offer decline(std::string reason) { return Offer(std::move(reason)); }

  explicit operator bool() const { return kernel_ != nullptr; }
  std::unique_ptr<Kernel> take() { return std::move(kernel_); }
  const std::string& reason() const { return reason_; }

 private:
  explicit Offer(std::string reason) : reason_(std::move(reason)) {}
  std::unique_ptr<Kernel> kernel_;
  std::string reason_;
};
inline Offer decline(std::string reason) { return Offer::decline(std::move(reason)); }

struct Candidate {
  std::string_view name;
  // Must neither reserve scratch memory nor ask for constant operands before it is certain to build a kernel.
  Offer (*offer)(Lowering&);
};

// Define an ordered table of candidates. The last candidate runs if tests request plain loops.
void define_candidates(Kind kind, std::vector<Candidate> candidates);
// Define the kernel of a composite operation. The operation is expanded into simpler operations if suits(operation)
// returns false, and always if tests request plain loops.
void define_composite(Kind kind, Lower lower, bool (*suits)(const Operation&));

// Return whether the CPU has a kernel for this operation and its operands.
bool has_kernel(const Operation& operation);
// Return whether the CPU has a plain-loop kernel for this operation, which is used if tests request plain loops.
bool has_plain_kernel(const Operation& operation);
// Return the candidates for a kind of operation; empty if it has a single kernel or none.
std::span<const Candidate> candidates_of(Kind kind);

// Build the kernel of the lowering's operation, or of an operation of another kind with the same operands and
// attributes. Throw UnsupportedError if there is none.
std::unique_ptr<Kernel> make_kernel(Lowering& lowering);
std::unique_ptr<Kernel> make_kernel(Kind kind, Lowering& lowering);

// Techniques within kernels that MPSGRAPH_KERNELS can require or forbid.
inline constexpr std::string_view techniques[] = {
    "amx",  // products of bfloat16 numbers and of bytes in AMX registers
    "pairs",  // products of pairs of bfloat16 numbers in vector registers
    "shared_panels",  // right operands of float matmuls packed by all threads together
    "buckets",  // sorting of long rows by buckets, instead of quicksort
};
// Return whether MPSGRAPH_KERNELS requires (true) or forbids (false) a technique, or nullopt if it does not name it.
std::optional<bool> wanted(std::string_view technique);

}  // namespace mpsgraph::cpu
