// The program of "Training DNNs on iOS with Metal Performance Shaders Graph" (NSSpain XI, 2023): a ResNet-50 for images
// of 32x32 pixels, built layer by layer and trained with stochastic gradient descent.
//
// Run it with the arguments BATCH, WIDTH, and STEPS; 64 64 5 is the network of the talk.
#include <cstdlib>
#include <string>

#include "noise.h"

namespace mg = mpsgraph::application;

class ResNet {
 public:
  ResNet(const mg::Graph& on, const mg::Tensor& is_training) : graph(on), is_training_(is_training) {}

  mg::Tensor conv2d(const mg::Tensor& source, int64_t filters, int64_t kernel_size, int64_t stride = 1,
                    mg::PaddingStyle padding = mg::TF_SAME) {
    const int64_t channels = source.shape()[3], area = kernel_size * kernel_size;
    const mg::Tensor weights =
        glorot_uniform({kernel_size, kernel_size, channels, filters}, area * channels, area * filters);
    return mg::convolution2d(source, weights, {.strides = stride, .padding = padding});
  }

  // Normalizes with the statistics of the batch and updates the moving averages in training; uses the moving averages
  // in inference.
  mg::Tensor batch_normalization(const mg::Tensor& input) {
    const int64_t features = input.shape()[3];
    const mg::Tensor beta = graph.variable(mg::Array::full({features}, 0.0f));
    const mg::Tensor gamma = graph.variable(mg::Array::full({features}, 1.0f));
    weights_.insert(weights_.end(), {beta, gamma});
    const mg::Tensor moving_mean = graph.variable(mg::Array::full({1, 1, 1, features}, 0.0f));
    const mg::Tensor moving_variance = graph.variable(mg::Array::full({1, 1, 1, features}, 1.0f));
    return mg::if_(
        is_training_,
        [&] {
          const mg::Axes axes{0, 1, 2};
          const mg::Tensor mean = mg::mean(input, axes);
          const mg::Tensor variance = mg::variance(input, mean, axes);
          const mg::Operation update_mean = mg::assign(moving_mean, moving_mean * 0.99 + mean * 0.01);
          const mg::Operation update_variance = mg::assign(moving_variance, moving_variance * 0.99 + variance * 0.01);
          return graph.after({update_mean, update_variance},
                             [&] { return mg::normalization(input, mean, variance, gamma, beta, 0.001); });
        },
        [&] { return mg::normalization(input, moving_mean, moving_variance, gamma, beta, 0.001); });
  }

  mg::Tensor fully_connected(const mg::Tensor& input, int64_t features) {
    const int64_t inputs = input.shape()[1];
    const mg::Tensor weights = glorot_uniform({inputs, features}, inputs, features);
    const mg::Tensor bias = graph.variable(mg::Array::full({features}, 0.0f));
    weights_.push_back(bias);
    return mg::matmul(input, weights) + bias;
  }

  // A residual block whose input and output have the same size.
  mg::Tensor identity_block(const mg::Tensor& source, int64_t filters) {
    return mg::relu(bottleneck(source, filters, 1) + source);
  }
  // A residual block that changes the number of channels, and divides height and width by the stride.
  mg::Tensor conv_block(const mg::Tensor& source, int64_t filters, int64_t stride) {
    const mg::Tensor x = bottleneck(source, filters, stride);
    return mg::relu(x + batch_normalization(conv2d(source, 4 * filters, 1, stride, mg::TF_VALID)));
  }

  const std::vector<mg::Tensor>& weights() const { return weights_; }

 private:
  mg::Tensor bottleneck(const mg::Tensor& source, int64_t filters, int64_t stride) {
    mg::Tensor x = conv2d(source, filters, 1, stride, mg::TF_VALID);
    x = mg::relu(batch_normalization(x));
    x = conv2d(x, filters, 3);
    x = mg::relu(batch_normalization(x));
    x = conv2d(x, 4 * filters, 1, 1, mg::TF_VALID);
    return batch_normalization(x);
  }

  mg::Tensor glorot_uniform(std::initializer_list<int64_t> shape, int64_t fan_in, int64_t fan_out) {
    const float limit = std::sqrt(6.0f / static_cast<float>(fan_in + fan_out));
    weights_.push_back(graph.variable(uniform(shape, limit, static_cast<uint32_t>(weights_.size()))));
    return weights_.back();
  }

  const mg::Graph graph;
  const mg::Tensor is_training_;
  std::vector<mg::Tensor> weights_;  // every trainable variable
};

static void train(int64_t batch, int64_t width, uint32_t steps) {
  const mg::Graph graph;
  const mg::Tensor input = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {batch, 32, 32, 3}), "input");
  const mg::Tensor labels = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {batch, 10}), "labels");
  const mg::Tensor is_training = graph.placeholder(mg::type(MPSGRAPH_BOOL, {1}), "is_training");
  ResNet net(graph, is_training);

  mg::Tensor x = net.conv2d(input, width, 7, 2);
  x = mg::relu(net.batch_normalization(x));
  x = mg::max_pooling2d(x, 3, 2, {.padding = mg::TF_SAME});
  for (int64_t stage = 0; stage < 4; ++stage) {
    const int64_t blocks[] = {3, 4, 6, 3};
    x = net.conv_block(x, width << stage, stage == 0 ? 1 : 2);
    for (int64_t block = 1; block < blocks[stage]; ++block) x = net.identity_block(x, width << stage);
  }
  x = mg::avg_pooling2d(x, 2, {}, {.padding = mg::TF_SAME});
  const auto shape = x.shape();
  x = mg::reshape(x, {batch, shape[1] * shape[2] * shape[3]});
  x = net.fully_connected(x, 10);
  const mg::Tensor output = mg::softmax(x, -1);

  const mg::Tensor loss = mg::softmax_cross_entropy(x, labels, -1, mg::Reduction::sum) / static_cast<double>(batch);
  const auto slopes = mg::gradients(loss, net.weights());
  const mg::Tensor learning_rate = graph.constant(0.01);
  std::vector<mg::Operation> updates;
  for (size_t i = 0; i < slopes.size(); ++i)
    updates.push_back(
        mg::assign(net.weights()[i], mg::stochastic_gradient_descent(learning_rate, net.weights()[i], slopes[i])));

  std::vector<float> targets(static_cast<size_t>(batch) * 10);
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i) targets[i * 10 + i % 10] = 1;
  const mg::Array one_hot = mg::Array::owning({batch, 10}, targets);
  for (uint32_t step = 0; step < steps; ++step) {
    const mg::Array images = uniform({batch, 32, 32, 3}, 1, 1000 + step);
    const mg::Execution execution = graph.run_async(
        {{input, images}, {is_training, mg::Array::full({1}, true)}, {labels, one_hot}}, {loss, output}, updates);
    print_values("loss", execution.results()[0]);
  }
  const mg::Array images = uniform({batch, 32, 32, 3}, 1, 999);
  print_values("inference", graph.run({{input, images}, {is_training, mg::Array::full({1}, false)}}, output));
}

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: %s BATCH WIDTH STEPS, such as 64 64 5\n", arguments[0]);
    return 2;
  }
  try {
    train(std::stoll(arguments[1]), std::stoll(arguments[2]), static_cast<uint32_t>(std::stoul(arguments[3])));
  } catch (const mg::Failure& failure) {
    std::fprintf(stderr, "%s: %s\n", failure.status_name(), failure.what());
    return 1;
  }
}
