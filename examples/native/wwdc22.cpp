// The programs of "Accelerate machine learning with Metal" (WWDC22): shared events between two queues, LSTM, max
// pooling with indices, random numbers, Hamming distances, and operations on shapes.
#include <array>

#include "noise.h"

namespace mg = mpsgraph::application;

// The second queue must not start before the first has computed its input.
static void synchronize_queues() {
  const mg::Graph compute, post_process;
  const auto type = mg::type(MPSGRAPH_FLOAT32, {4, 4});
  const mg::Tensor input0 = compute.placeholder(type, "input0"), input1 = compute.placeholder(type, "input1");
  const mg::Executable computing =
      compute.compile({{input0, type}, {input1, type}}, {mg::matmul(input0, input1) + input1});
  const mg::Tensor image = post_process.placeholder(type, "image");
  const mg::Executable processing = post_process.compile({{image, type}}, {mg::clamp(image, -0.5, 0.5)});

  const mg::Queue queue1, queue2;
  const mg::Event event;
  const mg::CommandBuffer first(queue1);
  const mg::Array between = first.encode(computing, {uniform({4, 4}, 1, 1), uniform({4, 4}, 1, 2)})[0];
  first.signal(event, 1);
  const mg::CommandBuffer second(queue2);
  second.wait_for(event, 1);
  const mg::Array last = second.encode(processing, {between})[0];

  second.commit();  // waits for the event
  first.commit();
  second.wait();
  print_values("post_processed", last);
}

static void apply_lstm() {
  constexpr int64_t steps = 5, batch = 2, inputs = 3, units = 4;
  const mg::Graph graph;
  const mg::Tensor input = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {steps, batch, inputs}), "input");
  const mg::Tensor recurrent_weight = graph.variable(uniform({4 * units, units}, 0.5f, 3));
  const mg::Tensor input_weight = graph.variable(uniform({4 * units, inputs}, 0.5f, 4));
  const auto lstm = mg::lstm(input, recurrent_weight,
                             {.input_weight = input_weight,
                              .bidirectional = false,
                              .input_gate_activation = mg::Activation::sigmoid,
                              .forget_gate_activation = mg::Activation::sigmoid,
                              .cell_gate_activation = mg::Activation::tanh,
                              .output_gate_activation = mg::Activation::sigmoid,
                              .activation = mg::Activation::tanh,
                              .training = true});
  const mg::Tensor slope = mg::gradients(mg::reduction_sum(lstm[0]), {recurrent_weight})[0];
  const auto results = graph.run({{input, uniform({steps, batch, inputs}, 1, 5)}}, {lstm[0], slope});
  print_values("lstm", results[0]);
  print_values("lstm_slope", results[1]);
}

static void pool_with_indices() {
  const mg::Graph graph;
  const mg::Tensor source = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {1, 2, 6, 6}), "source");
  const mg::Sizes kernel{1, 1, 3, 3};
  const auto [pooled, indices] = mg::max_pooling4d_return_indices(
      source, kernel, {}, {.return_indices_mode = mg::PoolingIndices::global_flatten_4d, .padding = mg::TF_SAME});
  const mg::Tensor slope = mg::max_pooling4d_gradient_from_indices(
      pooled, indices, mg::shape_of(source), kernel, {},
      {.return_indices_mode = mg::PoolingIndices::global_flatten_4d, .padding = mg::TF_SAME});
  const auto results = graph.run({{source, uniform({1, 2, 6, 6}, 1, 6)}}, {pooled, indices, slope});
  print_values("pooled", results[0]);
  print_values("pooled_indices", results[1]);
  print_values("pooled_slope", results[2]);
}

static void draw_random_numbers() {
  const mg::Graph graph;
  const mg::Tensor state = mg::random_philox_state(graph, 2022);
  // Two standard deviations of 2.5 around a mean of -1.
  const auto [numbers, next] = mg::random({3, 4}, state,
                                          {.distribution = mg::RandomDistribution::truncated_normal,
                                           .mean = -1,
                                           .standard_deviation = 2.5,
                                           .lower = -2,
                                           .upper = 2});
  const auto results = graph.run({}, {numbers, next});
  print_values("random", results[0]);
  print_values("random_state", results[1]);
}

static void count_bits() {
  const mg::Graph graph;
  const mg::Tensor primary = graph.placeholder(mg::type(MPSGRAPH_UINT32, {3, 4}), "primary");
  const mg::Tensor secondary = graph.placeholder(mg::type(MPSGRAPH_UINT32, {1, 4}), "secondary");
  const mg::Tensor distance = mg::hamming_distance(primary, secondary, MPSGRAPH_UINT16);  // of shape 3 x 1
  const mg::Array rows = mg::Array::of<uint32_t>({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  print_values("hamming",
               graph.run({{primary, rows}, {secondary, mg::Array::of<uint32_t>({1, 4}, {0, 1, 2, 12})}}, distance));
}

static void change_shapes() {
  const mg::Graph graph;
  const mg::Tensor input = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {4, 2}), "input");
  const mg::Tensor expanded = mg::expand_dims(input, {1});  // 4x2 -> 4x1x2
  const mg::Tensor squeezed = mg::squeeze(expanded, {1});  // 4x1x2 -> 4x2
  const auto parts = mg::split_equally(squeezed, 2, 1);  // 4x2 -> 4x1, 4x1
  const mg::Tensor stacked = mg::stack({parts[0], parts[1]}, 0);  // 4x1, 4x1 -> 2x4x1
  print_values("stacked", graph.run({{input, uniform({4, 2}, 1, 7)}}, stacked));

  const mg::Tensor coordinates = mg::coordinate_along_axis(graph, 0, {6});
  print_values("range", graph.run({}, coordinates * 4 + 3));  // 3, 7, 11, 15, 19, 23
}

int main() {
  try {
    synchronize_queues();
    apply_lstm();
    pool_with_indices();
    draw_random_numbers();
    count_bits();
    change_shapes();
  } catch (const mg::Failure& failure) {
    std::fprintf(stderr, "%s: %s\n", failure.status_name(), failure.what());
    return 1;
  }
}
