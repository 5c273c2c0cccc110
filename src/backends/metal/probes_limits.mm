// Probes of sizes, dtypes, and forms that the backend avoids, as listed in tests/apple/behaviour.md. Each probe runs in
// a separate process, because some Macs abort the process, which counts as an answer.
#include <cmath>

#include "backends/metal/availability.h"
#include "backends/metal/direct.h"
#include "backends/metal/probes.h"

namespace mpsgraph::metal {

using runtime::NDArray;
using runtime::Probe;

namespace {

const char* const older = "not asked: this macOS version does not have the feature";

std::string wrong_of(size_t wrong, size_t count, const char* what) {
  return cat(wrong, " of ", count, " ", what, " are wrong");
}

// --- sizes -----------------------------------------------------------------------------------------------------------

// Feed a large array of integers and read the last four. The placeholder is created first because MPSGraph may reject
// it.
template <class T>
std::string last_four(MetalDevice& device, DType dtype, int64_t rows, int64_t width, const char* size) {
  Trial trial(device);
  MPSGraphTensor* x = [trial.graph placeholderWithShape:@[ @(rows), @(width) ] dataType:data_type(dtype) name:nil];
  MPSGraphTensor* row = [trial.graph sliceTensor:x dimension:0 start:rows - 1 length:1 name:nil];
  MPSGraphTensor* last = [trial.graph sliceTensor:row dimension:1 start:width - 4 length:4 name:nil];
  MPSGraphTensor* found = [trial.graph castTensor:last toType:MPSDataTypeInt32 name:nil];
  const NDArray fed = device.allocate(dtype, {rows, width});
  T* const end = reinterpret_cast<T*>(fed.data()) + rows * width;
  for (int i = 0; i < 4; ++i) end[i - 4] = static_cast<T>(i + 1);
  Fed* feeds = [NSMutableDictionary dictionary];
  feeds[x] = device.data_of(fed).data;
  const NDArray result = run_once(device, trial.graph, feeds, {{found, {DType::int32, Shape(Dims{1, 4})}}})[0];
  const auto* numbers = reinterpret_cast<const int32_t*>(result.data());
  return cat("the last four of ", size, ": ", list(std::vector<int32_t>(numbers, numbers + 4)));
}

constexpr int64_t two_30 = int64_t{1} << 30;

std::string elements_beyond_2_31(MetalDevice& device) {
  return last_four<int8_t>(device, DType::int8, 2, two_30 + 4, "2^31 + 8 elements");
}

// Whether the machine has at least 16 GB of memory, so that arrays of 4 GB leave enough for other programs.
bool has_much_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) >= 15e9;
}
const char* const little_memory = "not asked: this machine has less than 16 GB of memory";

std::string elements_beyond_2_32(MetalDevice& device) {
  if (!has_much_memory()) return little_memory;
  return last_four<int8_t>(device, DType::int8, 4, two_30 + 4, "2^32 + 16 elements");
}

std::string bytes_beyond_2_32(MetalDevice& device) {
  if (!has_much_memory()) return little_memory;
  return last_four<int32_t>(device, DType::int32, 2, two_30 / 2 + 4, "2^32 + 32 bytes");
}

// The sum of a column and a row has more than 2^32 bytes. Read one number before that limit and the last two.
std::string results_beyond_2_32(MetalDevice& device) {
  if (!has_much_memory()) return little_memory;
  constexpr int64_t rows = 32769, columns = 32776;
  Trial trial(device);
  std::vector<float> column(rows), row(columns);
  for (size_t i = 0; i < column.size(); ++i) column[i] = static_cast<float>(i);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i) / 65536;
  MPSGraphTensor* sum = [trial.graph additionWithPrimaryTensor:trial.fed(column, {rows, 1})
                                               secondaryTensor:trial.fed(row, {1, columns})
                                                          name:nil];
  const NDArray found = trial.run({{sum, {DType::float32, Shape(Dims{rows, columns})}}})[0];
  const auto* numbers = reinterpret_cast<const float*>(found.data());
  std::vector<float> wrong;
  for (const int64_t at : {int64_t{5}, two_30 - 1, two_30, rows * columns - 1}) {
    const float wanted = column[static_cast<size_t>(at / columns)] + row[static_cast<size_t>(at % columns)];
    wrong.push_back(numbers[at] - wanted);
  }
  return cat("errors at 5, 2^30 - 1, 2^30, and the end: ", list(wrong));
}

// On M1 and M2, large results of matmuls were reported as wrong.
std::string large_products(MetalDevice& device) {
  if ([device.device supportsFamily:MTLGPUFamilyApple9]) return "not asked: reported for M1 and M2 only";
  constexpr int64_t rows = 9216, columns = 50304;  // as in pytorch/pytorch#122045; the result has 1.9 GB
  Trial trial(device);
  std::vector<float> column(rows), row(columns);
  for (size_t i = 0; i < column.size(); ++i) column[i] = static_cast<float>(i % 7 + 1);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 5 + 1);
  MPSGraphTensor* product = [trial.graph matrixMultiplicationWithPrimaryTensor:trial.fed(column, {rows, 1})
                                                               secondaryTensor:trial.fed(row, {1, columns})
                                                                          name:nil];
  const NDArray found = trial.run({{product, {DType::float32, Shape(Dims{rows, columns})}}})[0];
  const auto* numbers = reinterpret_cast<const float*>(found.data());
  size_t wrong = 0, count = 0;
  for (size_t i = 0; i < column.size(); i += 127)
    for (size_t j = 0; j < row.size(); j += 61, ++count) wrong += numbers[i * row.size() + j] != column[i] * row[j];
  return wrong_of(wrong, count, "numbers of an outer product of 9216 by 50304");
}

// Sort 2^22 + 1 rows of two numbers in descending order.
std::string sorts_of_many_rows(MetalDevice& device) {
  Trial trial(device);
  constexpr int64_t rows = (int64_t{1} << 22) + 1;
  std::vector<int32_t> pairs(static_cast<size_t>(2 * rows));
  for (size_t i = 0; i < pairs.size(); i += 2) pairs[i] = 1;
  MPSGraphTensor* x = [trial.graph reshapeTensor:trial.fed(pairs) withShape:@[ @(rows), @2 ] name:nil];
  const std::vector<int32_t> order =
      trial.values<int32_t>([trial.graph argSortWithTensor : x axis : 1 name : nil], { rows, 2 });
  size_t wrong = 0;
  for (size_t i = 0; i < order.size(); i += 2) wrong += order[i] != 1 || order[i + 1] != 0;
  return wrong_of(wrong, static_cast<size_t>(rows), "rows");
}

std::string long_products(MetalDevice& device) {
  Trial trial(device);
  constexpr int64_t length = 40000;
  const std::vector<float> ones(static_cast<size_t>(2 * length), 1.0f);
  MPSGraphTensor* product = [trial.graph matrixMultiplicationWithPrimaryTensor:trial.fed(ones, {2, length})
                                                               secondaryTensor:trial.fed(ones, {length, 2})
                                                                          name:nil];
  return cat("2x40000 by 40000x2 matrices of ones: ", list(trial.values(product, {2, 2})));
}

std::string large_inverse(MetalDevice& device) {
  Trial trial(device);
  constexpr size_t rows = 1025;
  std::vector<float> twice(rows * rows);
  for (size_t i = 0; i < rows; ++i) twice[i * rows + i] = 2;
  MPSGraphTensor* inverse = [trial.graph inverseOfTensor:trial.fed(twice, {rows, rows}) name:nil];
  const std::vector<float> found = trial.values(inverse, {rows, rows});
  size_t wrong = 0;
  for (size_t i = 0; i < found.size(); ++i) wrong += !(std::abs(found[i] - twice[i] / 4) < 1e-5f);
  return wrong_of(wrong, found.size(), "numbers");
}

// --- element types ---------------------------------------------------------------------------------------------------

std::string extrema(MetalDevice& device, MPSDataType type) {
  Trial trial(device);
  MPSGraphTensor* x = [trial.graph castTensor:trial.fed({3, 1, 2}) toType:type name:nil];
  const auto whole = [&](MPSGraphTensor* tensor) {
    return list(trial.values<int32_t>([trial.graph castTensor : tensor toType : MPSDataTypeInt32 name : nil], { 1 }));
  };
  return cat("of [3, 1, 2]: maximum ", whole([trial.graph reductionMaximumWithTensor:x axes:@[ @0 ] name:nil]),
             ", minimum ", whole([trial.graph reductionMinimumWithTensor:x axes:@[ @0 ] name:nil]));
}

template <DType dtype>
std::string extrema_of(MetalDevice& device) {
  if (dtype != DType::bfloat16) return extrema(device, data_type(dtype));
  if (METAL_AVAILABLE(14.0, 17.0)) return extrema(device, MPSDataTypeBFloat16);
  return older;
}

std::string sum_of_uint32(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* x = [trial.graph castTensor:trial.fed({16777217, 1, 2}) toType:MPSDataTypeUInt32 name:nil];
  MPSGraphTensor* sum = [trial.graph reductionSumWithTensor:x axes:@[ @0 ] name:nil];
  return cat("16777217 + 1 + 2 = ",
             list(trial.values<int32_t>([trial.graph castTensor : sum toType : MPSDataTypeInt32 name : nil], { 1 })));
}

std::string all_and_any(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* zero = [trial.graph constantWithScalar:0 shape:@[ @1 ] dataType:MPSDataTypeInt32];
  MPSGraphTensor* x = [trial.graph notEqualWithPrimaryTensor:trial.fed({1, 0, 1}) secondaryTensor:zero name:nil];
  const auto whole = [&](MPSGraphTensor* tensor) {
    return list(trial.values<int32_t>([trial.graph castTensor : tensor toType : MPSDataTypeInt32 name : nil], { 1 }));
  };
  return cat("of [true, false, true]: and ", whole([trial.graph reductionAndWithTensor:x axes:@[ @0 ] name:nil]),
             ", or ", whole([trial.graph reductionOrWithTensor:x axes:@[ @0 ] name:nil]));
}

std::string sorted_int64(MetalDevice& device) {
  Trial trial(device);
  constexpr int64_t count = 5000;
  std::vector<int32_t> mixed(static_cast<size_t>(count));
  for (size_t i = 0; i < mixed.size(); ++i) mixed[i] = static_cast<int32_t>(i * 1237 % mixed.size());
  MPSGraphTensor* x = [trial.graph castTensor:trial.fed(mixed) toType:MPSDataTypeInt64 name:nil];
  MPSGraphTensor* order = [trial.graph argSortWithTensor:x axis:0 name:nil];
  size_t wrong = 0;
  int32_t next = 0;
  for (const int32_t at : trial.values<int32_t>(order, {count}))
    wrong += at < 0 || at >= count || mixed[static_cast<size_t>(at)] != next++;
  return wrong_of(wrong, mixed.size(), "places");
}

template <MPSDataType type>
std::string gathered(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* zero = [trial.graph constantWithScalar:0 shape:@[ @1 ] dataType:MPSDataTypeInt32];
  MPSGraphTensor* given = trial.fed({1, 0, 1});
  MPSGraphTensor* x = type == MPSDataTypeBool
                          ? [trial.graph notEqualWithPrimaryTensor:given secondaryTensor:zero name:nil]
                          : [trial.graph castTensor:given toType:type name:nil];
  MPSGraphTensor* found = [trial.graph gatherWithUpdatesTensor:x
                                                 indicesTensor:trial.fed({2, 1, 0, 1})
                                                          axis:0
                                               batchDimensions:0
                                                          name:nil];
  MPSGraphTensor* numbers = [trial.graph castTensor:found toType:MPSDataTypeInt32 name:nil];
  return cat("of [1, 0, 1] at 2, 1, 0, 1: ", list(trial.values<int32_t>(numbers, {4})));
}

std::string scattered_product(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* found = [trial.graph scatterWithDataTensor:trial.fed({16777217, 5})
                                               updatesTensor:trial.fed({3, 7})
                                               indicesTensor:trial.fed({0, 1})
                                                        axis:0
                                                        mode:MPSGraphScatterModeMul
                                                        name:nil];
  return cat("16777217 by 3 and 5 by 7: ", list(trial.values<int32_t>(found, {2})));
}

std::string indices_of_64_bits(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* indices = [trial.graph castTensor:trial.fed({2, 0, 1}) toType:MPSDataTypeInt64 name:nil];
  MPSGraphTensor* found = [trial.graph gatherAlongAxis:0
                                     withUpdatesTensor:trial.fed({10, 20, 30}, {3})
                                         indicesTensor:indices
                                                  name:nil];
  return cat("of [10, 20, 30] at 2, 0, 1: ", list(trial.values(found, {3})));
}

// Pass 0xD2511F53 to MPSGraph as a double, and multiply it by three. Return the bits of both uint32 results, read as
// int32.
std::string large_scalar(MetalDevice& device) {
  Trial trial(device);
  const auto number = [&](double value) {
    return [trial.graph constantWithScalar:value shape:@[ @1 ] dataType:MPSDataTypeUInt32];
  };
  const auto bits = [&](MPSGraphTensor* tensor) {
    return list(trial.values<int32_t>([trial.graph reinterpretCastTensor : tensor toType : MPSDataTypeInt32 name : nil],
                                      { 1 }));
  };
  MPSGraphTensor* word = number(0xD2511F53u);
  MPSGraphTensor* product = [trial.graph multiplicationWithPrimaryTensor:word secondaryTensor:number(3) name:nil];
  return cat("the bits of 3528531795 ", bits(word), ", of three times it ", bits(product));
}

// --- forms -----------------------------------------------------------------------------------------------------------

std::string scatter_along_one(MetalDevice& device) {
  Trial trial(device);
  const std::vector<int32_t> at{3, 1};
  MPSGraphTensor* indices = [trial.graph reshapeTensor:trial.fed(at) withShape:@[ @2, @1 ] name:nil];
  MPSGraphTensor* found = [trial.graph scatterAlongAxis:0
                                         withDataTensor:trial.fed({0, 0, 0, 0}, {4, 1})
                                          updatesTensor:trial.fed({7, 8}, {2, 1})
                                          indicesTensor:indices
                                                   mode:MPSGraphScatterModeSet
                                                   name:nil];
  return cat("scattering 7 and 8 to 3 and 1 of four zeros: ", list(trial.values(found, {4, 1})));
}

std::string gather_along_one(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* indices = [trial.graph reshapeTensor:trial.fed(std::vector<int32_t>{2, 0})
                                             withShape:@[ @2, @1 ]
                                                  name:nil];
  MPSGraphTensor* found = [trial.graph gatherAlongAxis:0
                                     withUpdatesTensor:trial.fed({10, 20, 30}, {3, 1})
                                         indicesTensor:indices
                                                  name:nil];
  return cat("gathering rows 2 and 0 of three rows of one element: ", list(trial.values(found, {2, 1})));
}

std::string reflected_twice(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* padded = [trial.graph padTensor:trial.fed({1, 2, 3}, {3})
                                  withPaddingMode:MPSGraphPaddingModeReflect
                                      leftPadding:@[ @3 ]
                                     rightPadding:@[ @0 ]
                                    constantValue:0
                                             name:nil];
  return cat("[1, 2, 3] with reflection padding of three before it: ", list(trial.values(padded, {6})));
}

// Pad the first of two large images.
std::string padding_of_five_axes(MetalDevice& device) {
  Trial trial(device);
  constexpr int64_t side = 256;
  std::vector<float> images(2 * side * side);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i % 1000 + 1);
  MPSGraphTensor* padded = [trial.graph padTensor:trial.fed(images, {1, 1, 2, side, side})
                                  withPaddingMode:MPSGraphPaddingModeConstant
                                      leftPadding:@[ @0, @0, @1, @0, @0 ]
                                     rightPadding:@[ @0, @0, @0, @0, @0 ]
                                    constantValue:0
                                             name:nil];
  const std::vector<float> found = trial.values(padded, {1, 1, 3, side, side});
  size_t wrong = 0;
  for (size_t i = 0; i < found.size(); ++i) wrong += found[i] != (i < side * side ? 0 : images[i - side * side]);
  return wrong_of(wrong, found.size(), "numbers");
}

std::string scan_of_five_axes(MetalDevice& device) {
  Trial trial(device);
  MPSGraphTensor* x = trial.fed({1, 2, 3}, {3, 1, 1, 1, 1});
  MPSGraphTensor* sums = [trial.graph cumulativeSumWithTensor:x axis:0 exclusive:NO reverse:NO name:nil];
  return cat("cumulative sums of [1, 2, 3] along the first of five axes: ", list(trial.values(sums, {3, 1, 1, 1, 1})));
}

// Compare MPSGraph's gradient of a normalization with the formula, for a gamma that varies along the normalized axis
// and with the gradients of gamma and beta given as operands.
std::string varying_gamma(MetalDevice& device) {
  Trial trial(device);
  const std::vector<float> x{1, 2, 4}, incoming{1, -1, 0.5}, gamma{1, 2, 3};
  const float mean = 7.0f / 3, variance = 14.0f / 9, root = std::sqrt(variance);
  float beta_sum = 0, gamma_sum = 0;
  std::vector<float> formula;
  for (size_t i = 0; i < 3; ++i) {
    beta_sum += incoming[i];
    gamma_sum += incoming[i] * (x[i] - mean) / root;
  }
  for (size_t i = 0; i < 3; ++i)
    formula.push_back(gamma[i] / root * (incoming[i] - beta_sum / 3 - (x[i] - mean) / root * gamma_sum / 3));
  MPSGraphTensor* found = [trial.graph normalizationGradientWithIncomingGradientTensor:trial.fed(incoming, {1, 3})
                                                                          sourceTensor:trial.fed(x, {1, 3})
                                                                            meanTensor:trial.fed({mean}, {1, 1})
                                                                        varianceTensor:trial.fed({variance}, {1, 1})
                                                                           gammaTensor:trial.fed(gamma, {1, 3})
                                                                   gammaGradientTensor:trial.fed({gamma_sum}, {1, 1})
                                                                    betaGradientTensor:trial.fed({beta_sum}, {1, 1})
                                                                         reductionAxes:@[ @1 ]
                                                                               epsilon:0
                                                                                  name:nil];
  const std::vector<float> values = trial.values(found, {1, 3});
  bool same = true;
  for (size_t i = 0; i < 3; ++i) same = same && std::abs(values[i] - formula[i]) < 1e-4f;
  return cat(same ? "as the formula: " : "other than the formula: ", list(values), ", by the formula ", list(formula));
}

// A softmax of scaled products, times values, is the pattern that MPSGraph replaces with one kernel. The mask excludes
// all keys for the first query.
std::string attention_pattern(MetalDevice& device) {
  constexpr int64_t heads = 2, length = 64, width = 16, runs = 300;
  Trial trial(device);
  MPSGraph* graph = trial.graph;
  std::vector<float> numbers(static_cast<size_t>(heads * length * width));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 7) / 7;
  const Dims dims{1, heads, length, width};
  MPSGraphTensor *queries = trial.fed(numbers, dims), *keys = trial.fed(numbers, dims);
  MPSGraphTensor* values = trial.fed(numbers, dims);
  std::vector<float> hidden(static_cast<size_t>(length * length));
  for (size_t i = 0; i < static_cast<size_t>(length); ++i) hidden[i] = -INFINITY;  // the first query attends to no key
  MPSGraphTensor* mask = trial.fed(hidden, {1, 1, length, length});
  MPSGraphTensor* turned = [graph transposeTensor:keys permutation:@[ @0, @1, @3, @2 ] name:nil];
  MPSGraphTensor* products = [graph matrixMultiplicationWithPrimaryTensor:queries secondaryTensor:turned name:nil];
  MPSGraphTensor* scale = [graph constantWithScalar:0.25 shape:@[ @1 ] dataType:MPSDataTypeFloat32];
  MPSGraphTensor* scaled = [graph multiplicationWithPrimaryTensor:products secondaryTensor:scale name:nil];
  MPSGraphTensor* masked = [graph additionWithPrimaryTensor:scaled secondaryTensor:mask name:nil];
  MPSGraphTensor* parts = [graph softMaxWithTensor:masked axis:3 name:nil];
  MPSGraphTensor* found = [graph matrixMultiplicationWithPrimaryTensor:parts secondaryTensor:values name:nil];
  NSUInteger before = 0;
  std::vector<float> last;
  for (int64_t run = 0; run < runs; ++run) {
    if (run == runs / 10) before = device.device.currentAllocatedSize;
    @autoreleasepool {
      last = trial.values(found, dims);
    }
  }
  const double grown =
      (static_cast<double>(device.device.currentAllocatedSize) - static_cast<double>(before)) / (1 << 20);
  const auto blind = std::isnan(last[0]), seeing = std::isnan(last[static_cast<size_t>(width)]);
  return cat(grown < 2 ? "no growth" : cat("the device's memory grew by ", std::lround(grown), " MB"), " in ", runs,
             " runs; a query without keys returns ", blind ? "NaN" : "numbers", ", the next ",
             seeing ? "NaN" : "numbers");
}

// clang-format off
struct Kind { const char *name, *question; std::string (*ask)(MetalDevice&); };
const Kind kinds[] = {
    {"extrema_of_int8", "Does MPSGraph support extrema of int8 along axes?", extrema_of<DType::int8>},
    {"extrema_of_uint8", "Does MPSGraph support extrema of uint8 along axes?", extrema_of<DType::uint8>},
    {"extrema_of_int16", "Does MPSGraph support extrema of int16 along axes?", extrema_of<DType::int16>},
    {"extrema_of_uint16", "Does MPSGraph support extrema of uint16 along axes?", extrema_of<DType::uint16>},
    {"extrema_of_uint32", "Does MPSGraph support extrema of uint32 along axes?", extrema_of<DType::uint32>},
    {"extrema_of_bfloat16", "Does MPSGraph support extrema of bfloat16 along axes?", extrema_of<DType::bfloat16>},
};
// clang-format on

}  // namespace

std::vector<Probe> limit_probes(MetalDevice& device) {
  std::vector<Probe> all{
      probe(device, "elements_beyond_2_31", "Does MPSGraph accept 2^31 elements or more?",
            "2^31 + 8 bytes are fed and the last four are sliced; takes 2 GB",
            "[1, 2, 3, 4]: require_size in src/backends/metal/types.mm could allow more. Other values, or an aborted "
            "process: the limit is needed.",
            elements_beyond_2_31),
      probe(device, "elements_beyond_2_32", "Does MPSGraph accept 2^32 elements or more?",
            "2^32 + 16 bytes are fed and the last four are sliced; takes 4 GB, on machines with 16 GB",
            "[1, 2, 3, 4]: if the probe of 2^31 elements agrees, require_size in src/backends/metal/types.mm needs no "
            "limit of elements. Other values, or an aborted process: a limit is needed.",
            elements_beyond_2_32),
      probe(device, "bytes_beyond_2_32", "Does MPSGraph accept arrays of more than 2^32 bytes?",
            "2^30 + 8 numbers of int32 are fed and the last four are sliced; takes 4 GB, on machines with 16 GB",
            "[1, 2, 3, 4]: require_size in src/backends/metal/types.mm could allow more. Other values, or an aborted "
            "process: the limit is needed.",
            bytes_beyond_2_32),
      probe(device, "results_beyond_2_32", "Does MPSGraph compute results of more than 2^32 bytes?",
            "the sum of a column and a row in float32; takes 4 GB, on machines with 16 GB",
            "[0, 0, 0, 0]: require_size in src/backends/metal/types.mm could allow more. Other values, or an aborted "
            "process: the limit is needed.",
            results_beyond_2_32),
      probe(device, "large_products", "Are matmuls with results of more than a gigabyte correct on M1 and M2?",
            "an outer product of small integers; takes 2 GB",
            "0 wrong numbers: large_product in src/backends/metal/matrix.mm could be removed. More: it is needed.",
            large_products),
      probe(
          device, "sorts_of_many_rows", "Does argSort support more than 2^22 rows?", "pairs in descending order",
          "0 wrong rows: sorted_order in src/backends/metal/order.mm need not sort parts. More: the parts are needed.",
          sorts_of_many_rows),
      probe(device, "long_products", "Are matmuls with a dimension above 32768 correct?",
            "2x40000 by 40000x2 matrices of ones",
            "[40000, 40000, 40000, 40000]: as on the CPU from macOS 14.4 on; on older systems, require_sound in "
            "src/backends/metal/matrix.mm could be removed. Other values on 14.4 or later: require_sound must refuse "
            "such matmuls there, too.",
            long_products),
      probe(device, "large_inverse", "Does MPSGraph support inverses of more than 1024 rows?",
            "twice the identity with 1025 rows",
            "0 wrong numbers: the limit in src/backends/metal/matrix_inverse.mm could be raised. Other values, or an "
            "aborted process: the limit is needed.",
            large_inverse),
      probe(device, "sum_of_uint32", "Does MPSGraph support sums of uint32?", "16777217 + 1 + 2",
            "[16777220]: keys_of in src/backends/metal/reduction.mm could keep uint32 for sums. Other values, or an "
            "aborted process: the conversion is needed.",
            sum_of_uint32),
      probe(device, "all_and_any_of_bool", "Does MPSGraph support reductionAnd and reductionOr of bool?",
            "for [true, false, true]",
            "and [0], or [1]: all_of and any_of in src/backends/metal/reduction.mm could use these reductions. Other "
            "values, or an aborted process: all_of and any_of must stay composed.",
            all_and_any),
      probe(device, "sorted_int64", "Are sorts of int64 complete?", "5000 shuffled numbers",
            "0 wrong positions: ascending_order in src/backends/metal/order.mm could sort int64 directly on this "
            "system. More: ascending_order must sort the high and low 32 bits separately.",
            sorted_int64),
      probe(device, "gathered_bools", "Do gathers of bool work?", "four elements of [1, 0, 1]",
            "[1, 0, 1, 0]: moving_type in src/backends/metal/indexing.mm could keep bool. Other values, or an aborted "
            "process: the conversion is needed.",
            gathered<MPSDataTypeBool>),
      probe(device, "gathered_bytes", "Do gathers of uint8 work?", "four elements of [1, 0, 1]",
            "[1, 0, 1, 0]: moving_type in src/backends/metal/indexing.mm could keep uint8. Other values, or an aborted "
            "process: the conversion is needed.",
            gathered<MPSDataTypeUInt8>),
      probe(device, "scattered_products", "Are scattered products of int32 exact?", "16777217 times 3, 5 times 7",
            "[50331651, 35]: the check of products in src/backends/metal/scatter_nd.mm could accept integers. Other "
            "values, or an aborted process: the check must refuse integers.",
            scattered_product),
      probe(device, "padding_beyond_the_axis", "Does reflection padding support more than the size of the axis?",
            "three elements before three",
            "[2, 3, 2, 1, 2, 3]: native_mode in src/backends/metal/padding.mm could use reflection padding. Other "
            "values, or an aborted process: such padding must stay composed.",
            reflected_twice),
      probe(device, "indices_of_64_bits", "Do gathers along an axis accept int64 indices?",
            "three indices, by gatherAlongAxis",
            "[30, 10, 20]: along_indices in src/backends/metal/indexing.mm could pass int64 indices directly. Other "
            "values, or an aborted process: the conversion to int32 is needed.",
            indices_of_64_bits),
      probe(
          device, "large_scalars_of_uint32",
          "Are uint32 scalars above 2^31 passed correctly, and are products of uint32 exact?",
          "the word 3528531795 and three times its value, as the bits of int32",
          "[-766435501] and [1995660793]: word() in src/backends/metal/random.mm could use a scalar. A different first "
          "number: word() must pass bytes. A different second number: products of uint32 are wrong, and so is Philox.",
          large_scalar),
      probe(device, "scatter_along_a_last_axis_of_one", "Does scatterAlongAxis accept a last axis of size 1?",
            "two numbers into four",
            "[0, 8, 0, 7]: src/backends/metal/scatter_nd.mm need not remove that axis. Other values, or an aborted "
            "process: the removal is needed.",
            scatter_along_one),
      probe(device, "gather_along_a_last_axis_of_one", "Does gatherAlongAxis accept a last axis of size 1?",
            "two rows of three",
            "[30, 10]: gathers do not need short_dims in src/backends/metal/indexing.h. Other values, or an aborted "
            "process: short_dims is needed.",
            gather_along_one),
      probe(device, "padding_of_five_axes", "Is padding of five axes correct?",
            "one of 65536 numbers before two others",
            "0 wrong numbers: Steps::pad in src/backends/metal/steps.h need not combine axes. More: it must.",
            padding_of_five_axes),
      probe(device, "scan_of_five_axes", "Do cumulative operations support the first of five axes?",
            "cumulative sums of 1, 2, 3",
            "[1, 3, 6]: src/backends/metal/cumulative.mm need not reshape. Other values, or an aborted process: the "
            "reshape is needed.",
            scan_of_five_axes),
      probe(device, "gradient_of_varying_gamma",
            "What is the gradient of a normalization whose gamma varies along the normalized axes?",
            "three numbers with given sums, compared with the formula",
            "As the formula: varies_along_axes in src/backends/metal/normalization.mm could be removed. Other: the "
            "gradient must stay composed.",
            varying_gamma),
      probe(device, "attention_pattern", "Does the attention pattern leak memory, or return unexpected NaN?",
            "300 runs of two heads with 64 queries, the first of which attends to nothing",
            "No growth, NaN for the first and numbers for the next: src/backends/metal/matrix.mm need not add 1e-20. "
            "Growth, or NaN for both: the addition is needed.",
            attention_pattern),
  };
  for (const Kind& kind : kinds)
    all.push_back(probe(device, kind.name, kind.question, "the maximum and minimum of three numbers",
                        "maximum [3], minimum [1]: keys_of in src/backends/metal/reduction.mm could keep the dtype. "
                        "Other values, or an aborted process: the conversion is needed.",
                        kind.ask));
  return all;
}

}  // namespace mpsgraph::metal
