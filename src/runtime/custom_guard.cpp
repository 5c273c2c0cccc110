// Guarded runs of user-provided kernels: the kernel works on copies of its operands. After every run, these copies and
// the margins around all tensors must be unchanged.
//
// This detects writes close to a tensor, such as those of loops that run too far. It does not detect reads out of
// bounds, or writes far away from a tensor.
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "mpsgraph/core/errors.h"
#include "mpsgraph/runtime/custom_library.h"

namespace mpsgraph::runtime {
namespace {

constexpr size_t margin = 4096;  // size of the margin on each side, in bytes
constexpr auto untouched = std::byte{0xC5};

bool guards_everything() {
  const char* wish = std::getenv("MPSGRAPH_GUARD_CUSTOM");
  return wish && std::string_view(wish) != "" && std::string_view(wish) != "0";
}

// A tensor's bytes between two margins.
class Watched {
 public:
  Watched(std::string called, size_t bytes)
      : called_(std::move(called)), bytes_(bytes), memory_(bytes + 2 * margin, untouched) {}
  std::byte* data() { return memory_.data() + margin; }

  void require_intact(const CustomSite& site) const {
    for (size_t i = 0; i < margin; ++i) {
      if (memory_[margin - 1 - i] != untouched) refuse(site, i + 1, "before");
      if (memory_[margin + bytes_ + i] != untouched) refuse(site, i + 1, "after");
    }
  }

 private:
  void refuse(const CustomSite& site, size_t distance, const char* side) const {
    throw DeviceError(cat("[", site.name, "] the kernel of ", site.where, " wrote outside its tensors: ", distance,
                          distance == 1 ? " byte " : " bytes ", side, " ", called_, " of ", bytes_,
                          " bytes; check the bounds of its loops"));
  }
  std::string called_;
  size_t bytes_;
  std::vector<std::byte> memory_;
};

size_t tensor_bytes(const TensorType& type) { return static_cast<size_t>(type.shape.elements()) * size_of(type.dtype); }

void run_watched(const CustomRun& run, const CustomSite& site, const std::byte* const* operands,
                 std::byte* const* results, const CustomLoop& loop) {
  std::vector<Watched> watched;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  const size_t operand_count = site.operands.size(), result_count = site.results.size();
  watched.reserve(operand_count + result_count);
  for (size_t i = 0; i < operand_count; ++i) {
    const size_t bytes = tensor_bytes(site.operands[i]);
    std::byte* data = watched.emplace_back(cat("operand ", i), bytes).data();
    if (bytes > 0) std::memcpy(data, operands[i], bytes);
    inputs.push_back(data);
  }
  for (size_t i = 0; i < result_count; ++i)
    outputs.push_back(watched.emplace_back(cat("result ", i), tensor_bytes(site.results[i])).data());
  run(inputs.data(), outputs.data(), loop);
  for (const Watched& one : watched) one.require_intact(site);
  for (size_t i = 0; i < operand_count; ++i) {
    const size_t bytes = tensor_bytes(site.operands[i]);
    if (bytes > 0 && std::memcmp(inputs[i], operands[i], bytes) != 0)
      throw DeviceError(
          cat("[", site.name, "] the kernel of ", site.where, " wrote to operand ", i, ", but operands are read-only"));
  }
  for (size_t i = 0; i < result_count; ++i)
    if (const size_t bytes = tensor_bytes(site.results[i]); bytes > 0) std::memcpy(results[i], outputs[i], bytes);
}

}  // namespace

CustomRun prepared(const CustomOperation& operation, std::shared_ptr<const CustomSite> site) {
  CustomRun run = operation.kernel(site);
  if (!operation.guard && !guards_everything()) return run;
  return [run = std::move(run), site = std::move(site)](const std::byte* const* operands, std::byte* const* results,
                                                        const CustomLoop& loop) {
    run_watched(run, *site, operands, results, loop);
  };
}

}  // namespace mpsgraph::runtime
