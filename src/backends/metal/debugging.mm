// print passes its operand through and adds a result to the run. The host formats and prints that result after
// completion.
//
// Values printed inside a control-flow block are first passed out of the block (block_prints.mm). If a check that was
// created before the print fails, the run ends and nothing is printed.
#include <algorithm>
#include <cstring>

#include "backends/metal/block_prints.h"
#include "backends/metal/lowering.h"
#include "runtime/printing.h"

namespace mpsgraph::metal {
namespace {

using runtime::NDArray;

GraphTensors lower_print(Lowering& l) {
  if (l.operation.parent->owner) return {l.inputs[0] ? [l.graph() identityWithTensor:l.inputs[0] name:nil] : nil};
  const Operation* print = &l.operation;
  if (!l.inputs[0]) {
    l.program.reports.push_back(
        {print, -1, {}, {}, [print](const std::vector<NDArray>&) { runtime::print_tensor(*print, nullptr); }});
    return {nil};
  }
  MPSGraphTensor* shown = [l.graph() identityWithTensor:l.input() name:l.name()];
  l.program.reports.push_back({print, -1, {shown}, {l.type()}, [print](const std::vector<NDArray>& arrays) {
                                 runtime::print_tensor(*print, arrays[0].data());
                               }});
  return {[l.graph() identityWithTensor:shown name:nil]};
}

// Print the kept values in order of their sequence numbers, after a line that reports how many values were dropped.
void print_in_order(const Operation& owner, const std::vector<const Operation*>& prints,
                    const std::vector<NDArray>& arrays) {
  struct Printed {
    int32_t number;
    const Operation* print;
    const std::byte* elements;
  };
  std::vector<Printed> all;
  size_t next = 0;
  for (const Operation* print : prints) {
    const TensorType& type = print->output()->type;
    const size_t bytes = static_cast<size_t>(type.shape.elements()) * size_of(type.dtype);
    const std::byte* values = bytes > 0 ? arrays[next++].data() : nullptr;
    const auto* numbers = reinterpret_cast<const int32_t*>(arrays[next++].data());
    for (int64_t i = 0; i < kept_prints && numbers[i] > 0; ++i)
      all.push_back({numbers[i], print, values + static_cast<size_t>(i) * bytes});
  }
  int32_t count;
  std::memcpy(&count, arrays[next].data(), sizeof count);
  std::ranges::sort(all, {}, &Printed::number);
  if (static_cast<size_t>(count) > all.size())
    runtime::print_line(cat("[print] the Metal device kept the last ", all.size(), " of ", count,
                            " values printed in '", owner.name, "'"));
  for (const Printed& one : all) runtime::print_tensor(*one.print, one.elements);
}

GraphTensors lower_report_prints(Lowering& l) {
  const Operation* owner = l.operation.inputs.back()->operation;
  std::vector<TensorType> types;
  for (const Tensor* input : l.operation.inputs) types.push_back(input->type);
  GraphTensors results;
  for (MPSGraphTensor* input : l.inputs) results.push_back([l.graph() identityWithTensor:input name:nil]);
  auto prints = prints_within(*owner);
  const Operation* first = prints.front();
  l.program.reports.push_back({first, -1, std::move(results), std::move(types),
                               [owner, prints = std::move(prints)](const std::vector<NDArray>& arrays) {
                                 print_in_order(*owner, prints, arrays);
                               }});
  return {};
}

}  // namespace

const Lowerings debugging_lowerings("debugging", [] {
  define_lowering("print", lower_print);
  define_lowering("report_prints", lower_report_prints);
});

}  // namespace mpsgraph::metal
