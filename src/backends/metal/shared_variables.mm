// Assigns and reads a variable through executables and through its MPSGraph, and compares the values.
#include "backends/metal/shared_variables.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "backends/metal/graph_program.h"
#include "backends/metal/guarded.h"
#include "backends/metal/queue.h"

namespace mpsgraph::metal {

using runtime::NDArray;

namespace {

using Pair = std::array<float, 2>;

// A variable of two elements, and the forms of programs that the backend uses.
class SharingTest {
 public:
  explicit SharingTest(MetalDevice& device) : device_(device) {
    variable_ = [graph_ variableWithData:[NSData dataWithBytes:start_.data() length:sizeof start_]
                                   shape:@[ @2 ]
                                dataType:MPSDataTypeFloat32
                                    name:nil];
    value_ = [graph_ readVariable:variable_ name:nil];
    given_ = [graph_ placeholderWithShape:@[ @2 ] dataType:MPSDataTypeFloat32 name:nil];
    assign_ = [graph_ assignVariable:variable_ withValueOfTensor:given_ name:nil];
  }

  bool passes() {
    const GraphProgram write = program({given_}, {}, @[ assign_ ], Form::executable);
    const GraphProgram write_by_graph = program({given_}, {}, @[ assign_ ], Form::through_graph);
    const GraphProgram read_by_graph = program({}, {value_}, nil, Form::through_graph);
    if (values_of({&read_by_graph}) != start_) return false;
    set(write, {3, 4});
    if (values_of({&read_by_graph}) != Pair{3, 4}) return false;
    // These programs are added and compiled after others have run.
    MPSGraphTensor* twice = [graph_ additionWithPrimaryTensor:value_ secondaryTensor:value_ name:nil];
    MPSGraphOperation* assign_twice = [graph_ assignVariable:variable_ withValueOfTensor:twice name:nil];
    const GraphProgram doubling = program({}, {twice}, @[ assign_twice ], Form::executable);
    const GraphProgram read = program({}, {value_}, nil, Form::executable);
    if (values_of({&read}) != Pair{3, 4}) return false;
    if (values_of({&doubling}) != Pair{6, 8} || values_of({&read_by_graph}) != Pair{6, 8}) return false;
    set(write_by_graph, {5, 7});
    // Programs in one command buffer run in order, without a wait between them.
    return values_of({&doubling, &doubling, &read}) == Pair{20, 28} && values_of({&read_by_graph}) == Pair{20, 28};
  }

 private:
  using Form = GraphProgram::Form;
  GraphProgram program(GraphTensors feeds, GraphTensors targets, NSArray<MPSGraphOperation*>* operations, Form form) {
    return GraphProgram(device_, graph_, std::move(feeds), std::move(targets), operations, form);
  }

  void set(const GraphProgram& program, const Pair& values) {
    const NDArray array = device_.allocate(DType::float32, {2});
    std::memcpy(array.data(), values.data(), sizeof values);
    MPSGraphTensorData* data = device_.data_of(array).data;
    run_now(device_.queue, [&](MPSCommandBuffer* buffer) { program.encode(buffer, {data}, {}); });
  }

  // Run programs with one target each in one command buffer, and return the result of the last program.
  Pair values_of(const std::vector<const GraphProgram*>& programs) {
    std::vector<NDArray> arrays;
    run_now(device_.queue, [&](MPSCommandBuffer* buffer) {
      for (const GraphProgram* program : programs) {
        arrays.push_back(device_.allocate(DType::float32, {2}));
        program->encode(buffer, {}, {device_.data_of(arrays.back()).data});
      }
    });
    Pair values;
    std::memcpy(values.data(), arrays.back().data(), sizeof values);
    return values;
  }

  MetalDevice& device_;
  MPSGraph* const graph_ = [MPSGraph new];
  const Pair start_{1, 2};
  MPSGraphTensor *variable_ = nil, *value_ = nil, *given_ = nil;
  MPSGraphOperation* assign_ = nil;
};

bool find_out(MetalDevice& device) {
  if (const char* wish = std::getenv("MPSGRAPH_METAL_VARIABLES")) {
    if (wish == std::string_view("graph")) return false;
    throw DeviceError(
        cat("[metal] the environment variable MPSGRAPH_METAL_VARIABLES must be 'graph' or unset, got '", wish, "'"));
  }
  try {
    return guarded([&] { return SharingTest(device).passes(); });
  } catch (const DeviceError&) {
    return false;  // MPSGraph refuses such executables
  }
}

}  // namespace

bool executables_share_variables(MetalDevice& device) {
  static const bool answer = find_out(device);
  return answer;
}

}  // namespace mpsgraph::metal
