// Recurrent layers and converters on device metal from a C++ application, on the mock: training, ordering across queues
// and threads, failures, and leaks. Results are tested from Python; these tests also pass under the sanitizers.
#include "backend_check.h"
#include "mpsgraph/runtime/command_queue.h"
#include "mpsgraph/runtime/shared_event.h"
#include "nngraph/backend.h"
#include "nngraph/optimizer.h"
#include "nngraph/recurrent_inference.h"
#include "nngraph/recurrent_training.h"

using namespace backend;
using namespace mpsgraph::nngraph;

namespace {

constexpr double seconds = 60;
constexpr int64_t rows = 3, inputs = 4, outputs = 5;

NDArray drawn(const Dims& dims, uint32_t seed) {
  NDArray result = NDArray::allocate(DType::float32, dims);
  for (int64_t i = 0; i < result.elements(); ++i) {
    seed = seed * 1664525 + 1013904223;
    reinterpret_cast<float*>(result.data())[i] = static_cast<float>(seed >> 8) / 8388608.0f - 1;
  }
  return result;
}

RecurrentDescriptor lstm(int64_t in = inputs) {
  RecurrentDescriptor d;
  d.cell = RecurrentCell::lstm;
  d.inputs = in;
  d.outputs = outputs;
  d.float32_weights = true;
  d.gates.resize(4);
  for (size_t gate = 0; gate < 4; ++gate) {
    const auto seed = static_cast<uint32_t>(gate);
    d.gates[gate].weights[0] = drawn({outputs, in}, seed);
    d.gates[gate].weights[1] = drawn({outputs, outputs}, seed + 10);
    d.gates[gate].weights[3] = drawn({outputs}, seed + 20);
    d.gates[gate].neuron = {gate == 2 ? "tanh" : "sigmoid", 1, 1, 0};
  }
  return d;
}

std::vector<Matrix> drawn_steps(int64_t steps, int64_t columns, uint32_t seed) {
  std::vector<Matrix> result;
  for (int64_t t = 0; t < steps; ++t) result.emplace_back(drawn({rows, columns}, seed + static_cast<uint32_t>(t)));
  return result;
}

// A training layer with its weights, gradients, and sequences.
struct Trained {
  RecurrentTrainingLayer layer{metal(), lstm()};
  std::vector<Matrix> weights = layer.initial_weights(), gradients = layer.zero_gradients(DType::float32);
  std::vector<Matrix> x = drawn_steps(4, inputs, 1), dx = drawn_steps(4, inputs, 2), y = drawn_steps(4, outputs, 3),
                      dy = drawn_steps(4, outputs, 4);

  ForwardResult forward(CommandBuffer& buffer, std::optional<LayerState> start = {}, bool gives_states = false) {
    ForwardSequence s;
    s.sources = x;
    s.destinations = y;
    s.weights = weights;
    s.input_state = std::move(start);
    s.gives_states = gives_states;
    return layer.encode_forward(buffer, s);
  }
  void gradient(CommandBuffer& buffer, const ForwardResult& forward) {
    GradientSequence s;
    s.forward_sources = x;
    s.source_gradients = dy;
    s.destination_gradients = dx;
    s.weight_gradients = gradients;
    s.weights = weights;
    s.training_states = forward.training_states;
    s.gives_destinations = s.gives_weights = true;
    layer.encode_gradient(buffer, s);
  }
  float sum() const {
    float total = 0;
    for (const auto* matrices : {&y, &dx, &gradients})
      for (const Matrix& matrix : *matrices)
        for (int64_t r = 0; r < matrix.rows(); ++r)
          for (int64_t c = 0; c < matrix.columns(); ++c)
            total += reinterpret_cast<const float*>(matrix.array().data())[r * matrix.array().strides()[0] + c];
    return total;
  }
};

void finish(const std::shared_ptr<CommandBuffer>& buffer) {
  buffer->commit();
  buffer->wait_until_completed(Timeout{seconds});
}

float once() {
  Trained trained;
  const auto buffer = CommandQueue::create(metal())->command_buffer();
  trained.gradient(*buffer, trained.forward(*buffer));
  finish(buffer);
  return trained.sum();
}

TEST(recurrent_layer_learns) {
  Trained trained;
  StochasticGradientDescent descent({.learning_rate = 0.01}, 0, false);
  const auto queue = CommandQueue::create(metal());
  const auto distance = [&] {
    float total = 0;
    for (const Matrix& matrix : trained.y)
      for (float value : values(matrix.array())) total += value;
    return total;
  };
  float first = 0;
  for (Matrix& matrix : trained.dy) std::fill_n(reinterpret_cast<float*>(matrix.array().data()), rows * outputs, 1.0f);
  for (int i = 0; i < 30; ++i) {
    const auto buffer = queue->command_buffer();
    trained.gradient(*buffer, trained.forward(*buffer));
    for (size_t k = 0; k < trained.weights.size(); ++k)  // rows are padded here
      find_node_backend("metal")->encode_step(
          descent, *buffer, {trained.gradients[k].array(), trained.weights[k].array(), {}, trained.weights[k].array()});
    finish(buffer);
    if (i == 0) first = distance();
  }
  CHECK(distance() < first - 1);  // the loss is the sum of the outputs, whose gradient is 1
}

TEST(gradient_on_another_queue_waits_for_its_sequence) {
  Trained trained;
  const auto one = CommandQueue::create(metal())->command_buffer(),
             other = CommandQueue::create(metal())->command_buffer();
  const auto event = std::make_shared<SharedEvent>();
  const ForwardResult forward = trained.forward(*one);
  one->encode_signal_event(event, 1);
  other->encode_wait_for_event(event, 1);
  trained.gradient(*other, forward);
  other->commit();
  finish(one);
  other->wait_until_completed(Timeout{seconds});
  CHECK_EQUAL(trained.sum(), once());
}

TEST(gradient_without_its_sequence_throws) {
  Trained trained;
  const auto queue = CommandQueue::create(metal());
  const auto buffer = queue->command_buffer();
  trained.gradient(*buffer, trained.forward(*queue->command_buffer()));
  CHECK_THROWS(DeviceError, finish(buffer), "has not run");
}

TEST(layer_may_be_destroyed_before_its_work_is_committed) {
  std::shared_ptr<CommandBuffer> buffer = CommandQueue::create(metal())->command_buffer();
  {
    Trained trained;
    trained.gradient(*buffer, trained.forward(*buffer));
  }
  finish(buffer);
}

// On every thread, each sequence begins with the states of the previous one.
TEST(threads_share_one_recurrent_layer) {
  RecurrentInferenceLayer stack("stack", metal(), {lstm(), lstm(outputs)}, false);
  RecurrentInferenceLayer images("images", metal(), {lstm()}, true);
  const std::vector<Matrix> x = drawn_steps(4, inputs, 1);
  const auto run = [&](const std::shared_ptr<CommandQueue>& queue) {
    const std::vector<Matrix> y = drawn_steps(4, outputs, 2), z = drawn_steps(4, outputs, 3);
    const Steps from = steps_of_matrices("x", x, {});
    const auto buffer = queue->command_buffer();
    auto states = stack.encode_sequence(*buffer, from, steps_of_matrices("y", y, {}), {}, true);
    for (int i = 0; i < 3; ++i)
      states = stack.encode_sequence(*buffer, from, steps_of_matrices("y", y, {}), states.back(), true);
    auto pixels = images.encode_sequence(*buffer, from, steps_of_matrices("z", z, {}), {}, true);
    images.encode_sequence(*buffer, from, steps_of_matrices("z", z, {}), pixels.back(), false);
    finish(buffer);
    return values(y.back().array());
  };
  const Floats expected = run(CommandQueue::create(metal()));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const auto queue = CommandQueue::create(metal());
      for (int i = 0; i < 5; ++i) CHECK(run(queue) == expected);
    });
  for (auto& thread : threads) thread.join();
}

TEST(threads_train_separate_layers) {
  const float expected = once();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) CHECK_EQUAL(once(), expected);
    });
  for (auto& thread : threads) thread.join();
}

TEST(images_convert_to_matrix_rows_and_back) {
  const NDArray images = drawn({2, 3, 2, 4}, 1), back = drawn({2, 3, 2, 4}, 2);
  const Matrix matrix(metal(), {.rows = 4, .columns = 30});
  const auto buffer = CommandQueue::create(metal())->command_buffer();
  encode_images_to_matrix(*buffer, images, matrix, DataLayout::feature_channels_x_height_x_width, {1, 3, 0});
  encode_matrix_to_images(*buffer, matrix, back, DataLayout::feature_channels_x_height_x_width, {1, 3, 0});
  finish(buffer);
  CHECK(values(images) == values(back));
  CHECK_THROWS(UnsupportedError,
               encode_images_to_matrix(*CommandQueue::create(metal())->command_buffer(),
                                       NDArray::allocate(DType::int32, {1, 1, 1, 1}),
                                       Matrix({.rows = 1, .columns = 1, .dtype = DType::int32}),
                                       DataLayout::height_x_width_x_feature_channels, {}),
               "images must be float32 or float16 on the Metal device");
}

TEST(recurrent_layers_do_not_leak) {
  const auto work = [](int steps) {
    Trained trained;
    const auto queue = CommandQueue::create(metal());
    std::optional<LayerState> state;
    for (int i = 0; i < steps; ++i) {
      const auto buffer = queue->command_buffer();
      const ForwardResult forward = trained.forward(*buffer, state, true);
      state = forward.states.back();
      if (i % 2) trained.gradient(*buffer, forward);
      trained.forward(*queue->command_buffer());  // never committed
      finish(buffer);
    }
  };
  Device::set_memory_cache_limit(0);  // the number of cached buffers would depend on timing
  // Unreferenced queues terminate asynchronously on their own threads.
  const auto settled = [] {
    long objects = -1;
    for (long now; (now = mock_live_objects()) != objects; objects = now) {
      mock_wait_until_idle(seconds);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return objects;
  };
  work(2);
  const long before = settled();
  work(50);
  CHECK_EQUAL(settled() - before, 0);
}

}  // namespace

int main() { return check::run_all(); }
