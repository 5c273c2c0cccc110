// Nodes on device metal from a C++ application, on the mock: training with optimizers and custom updates, failures,
// threads, and leaks. Results are tested from Python; these tests also pass under the sanitizers.
#include "backend_check.h"
#include "mpsgraph/runtime/command_queue.h"
#include "nngraph/backend.h"
#include "nngraph/graph.h"
#include "nngraph/optimizer.h"

using namespace backend;
using namespace mpsgraph::nngraph;

namespace {

constexpr double seconds = 60;

ConvolutionDescriptor descriptor() {
  ConvolutionDescriptor d;
  d.kernel_width = d.kernel_height = 3;
  d.input_feature_channels = d.output_feature_channels = 4;
  return d;
}

const Dims kernel{4, 3, 3, 4};

NDArray drawn(const Dims& dims, float scale, uint32_t seed) {
  NDArray result = NDArray::allocate(DType::float32, dims);
  for (int64_t i = 0; i < result.elements(); ++i) {
    seed = seed * 1664525 + 1013904223;
    reinterpret_cast<float*>(result.data())[i] = scale * (static_cast<float>(seed >> 8) / 8388608.0f - 1);
  }
  return result;
}

// A data source with a custom update, gradient descent in place on its own memory, which can be made to throw.
class Descending final : public ConvolutionSource {
 public:
  ConvolutionDescriptor descriptor() override { return ::descriptor(); }
  bool load() override { return true; }
  void purge() override {}
  std::vector<NamedArray> arrays() override { return {{"weights", weights}}; }
  bool updates() const override { return true; }
  StatePtr update(CommandBuffer& buffer, const StatePtr& gradients, const StatePtr&) override {
    if (fails) throw GraphError("no update today");
    const NDArray* gradient = gradients->find("weights");
    find_node_backend("metal")->encode_step(descent, buffer, {*gradient, weights, {}, weights});
    return std::make_shared<ParameterState>(std::vector<NamedArray>{{"weights", weights}});
  }
  NDArray weights = drawn(kernel, 0.3f, 1);
  StochasticGradientDescent descent{{.learning_rate = 1e-3}, 0, false};
  std::atomic<bool> fails{false};
};

std::shared_ptr<DataSource> trainable() {
  return std::make_shared<TrainableConvolution>(
      descriptor(), drawn(kernel, 0.3f, 1), drawn({4}, 0.1f, 2),
      std::make_shared<Adam>(OptimizerDescriptor{.learning_rate = 1e-2}, 0.9, 0.999, 1e-8, 0, false), "conv");
}

// Convolution, batch normalization, neuron, and pooling nodes, a loss, and its gradient filters.
struct Network {
  explicit Network(std::shared_ptr<DataSource> source) {
    const auto norm = std::make_shared<TrainableNormalization>(DataSource::Kind::batch_normalization,
                                                               NormalizationDescriptor{.number_of_feature_channels = 4},
                                                               std::vector<NamedArray>{}, 0.9, nullptr, "norm");
    const ImagePtr x = ImageNode::input("x");
    ImagePtr image = FilterNode::create("convolution", {x}, {}, std::move(source))->result_image();
    image = FilterNode::create("batch_normalization", {image}, {}, norm)->result_image();
    image = FilterNode::create("neuron_relu", {image}, {})->result_image();
    image = FilterNode::create("pooling_max", {image},
                               {{"kernel_width", int64_t{2}},
                                {"kernel_height", int64_t{2}},
                                {"stride_in_pixels_x", int64_t{2}},
                                {"stride_in_pixels_y", int64_t{2}}})
                ->result_image();
    const FilterPtr loss = FilterNode::create(
        "loss", {image}, {{"loss_type", std::string("mean_squared_error")}, {"reduction_type", std::string("sum")}});
    const std::vector<FilterPtr> last = loss->training_graph(nullptr, nullptr);
    graph = std::make_unique<NNGraph>(metal(), std::vector<ImagePtr>{last.back()->result_image()},
                                      std::vector<bool>{false});
  }
  NDArray encode(const std::shared_ptr<CommandBuffer>& buffer) {
    std::vector<LabelsBatch> labels(1);
    labels[0].labels = drawn({3, 2, 2, 4}, 1, 3);
    graph->encode_batch(buffer, {{drawn({3, 4, 4, 4}, 1, 4)}}, labels);
    return labels[0].losses;
  }
  float step(const std::shared_ptr<CommandQueue>& queue) {
    const auto buffer = queue->command_buffer();
    const NDArray losses = encode(buffer);
    buffer->commit();
    buffer->wait_until_completed(Timeout{seconds});
    float sum = 0;
    for (float loss : values(losses)) sum += loss;
    return sum;
  }
  std::unique_ptr<NNGraph> graph;
};

TEST(node_network_learns_with_optimizers_and_custom_updates) {
  for (const std::shared_ptr<DataSource>& source :
       {trainable(), std::static_pointer_cast<DataSource>(std::make_shared<Descending>())}) {
    Network network(source);
    const auto queue = CommandQueue::create(metal());
    const float first = network.step(queue);
    float last = first;
    for (int i = 0; i < 30; ++i) last = network.step(queue);
    CHECK(last < 0.9f * first);
  }
}

TEST(batches_can_be_encoded_ahead) {
  Network network(trainable());
  const auto queue = CommandQueue::create(metal());
  std::vector<std::shared_ptr<CommandBuffer>> buffers;
  std::vector<NDArray> losses;
  for (int i = 0; i < 8; ++i) {
    buffers.push_back(queue->command_buffer());
    losses.push_back(network.encode(buffers.back()));
  }
  for (const auto& buffer : buffers) buffer->commit();
  buffers.back()->wait_until_completed(Timeout{seconds});
  for (size_t i = 1; i < losses.size(); ++i) CHECK(values(losses[i]) != values(losses[i - 1]));
}

TEST(throwing_update_leaves_weights_unchanged) {
  const auto source = std::make_shared<Descending>();
  Network network(source);
  const auto queue = CommandQueue::create(metal());
  source->fails = true;
  const Floats before = values(source->weights);
  CHECK_THROWS(GraphError, network.step(queue), "no update today");
  CHECK(values(source->weights) == before);
  source->fails = false;
  const float first = network.step(queue);
  CHECK(network.step(queue) < first);
}

TEST(threads_train_one_node_network_concurrently) {
  Network network(trainable());
  std::vector<std::thread> threads;
  const auto queue = CommandQueue::create(metal());
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) CHECK(network.step(queue) > 0);
    });
  for (auto& thread : threads) thread.join();
}

TEST(node_training_does_not_leak) {
  const auto train = [](int steps) {
    for (const std::shared_ptr<DataSource>& source :
         {trainable(), std::static_pointer_cast<DataSource>(std::make_shared<Descending>())}) {
      Network network(source);
      const auto queue = CommandQueue::create(metal());
      for (int i = 0; i < steps; ++i) network.step(queue);
    }
  };
  train(2);
  CHECK_EQUAL(check::leaves([&] { train(50); }), 0);
}

}  // namespace

int main() { return check::run_all(); }
