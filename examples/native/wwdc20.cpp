// The programs of "Build customized ML models with the Metal Performance Shaders Graph" (WWDC20): GeLU, text
// generation with an LSTM, training of a digit classifier, and a generative adversarial network.
#include <array>
#include <semaphore>

#include "noise.h"

namespace mg = mpsgraph::application;

// ---- a custom function: GeLU ----

static mg::Tensor gelu(const mg::Tensor& x) {
  const mg::Graph graph = x.graph();
  const mg::Tensor one = graph.constant(1), half = graph.constant(0.5);
  const mg::Tensor scaled = x * mg::square_root(half);
  const mg::Tensor halved = x * half;
  return halved * (mg::erf(scaled) + one);
}

static void activate() {
  const mg::Graph graph;
  const mg::Tensor x = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {-1, 3}), "x");  // any number of rows
  const mg::Tensor y = gelu(x);
  const mg::Tensor slope = mg::gradients(y, {x})[0];
  const auto results = graph.run({{x, uniform({2, 3}, 3, 1)}}, {y, slope});
  print_values("gelu", results[0]);
  print_values("gelu_slope", results[1]);
}

// ---- inference: text, one character at a time ----

static void write_text() {
  constexpr int64_t letters = 12, units = 16;
  const mg::Graph graph;
  const mg::Tensor letter = graph.placeholder(mg::type(MPSGRAPH_INT32, {1}), "letter");
  const mg::Tensor inverse_temperature = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {}), "inverse_temperature");
  const mg::Tensor embedding = graph.constant(uniform({letters, 8}, 1, 2));
  const mg::Tensor state = graph.variable(mg::Array::full({1, units}, 0.0f), "state");
  const mg::Tensor cell = graph.variable(mg::Array::full({1, units}, 0.0f), "cell");

  const mg::Tensor embedded = mg::reshape(mg::gather(embedding, letter), {1, 1, 8});
  const auto outputs = mg::lstm(embedded, graph.constant(uniform({4 * units, units}, 0.5f, 3)),
                                {.input_weight = graph.constant(uniform({4 * units, 8}, 0.5f, 4)),
                                 .initial_state = state,
                                 .initial_cell = cell,
                                 .produce_cell = true});
  const mg::Tensor last = mg::reshape(outputs[0], {1, units});
  const std::vector<mg::Operation> keep{mg::assign(state, last), mg::assign(cell, mg::reshape(outputs[1], {1, units}))};
  const mg::Tensor logits = mg::matmul(last, graph.constant(uniform({units, letters}, 2, 5)));
  const mg::Tensor chances = mg::softmax(logits * inverse_temperature, -1);

  // Sample from the distribution: the first letter whose cumulative chance exceeds a random number.
  const mg::Tensor chosen = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {1, 1}), "random");
  const mg::Tensor reached = mg::cast(mg::cumulative_sum(chances, 1) <= chosen, MPSGRAPH_INT32);
  const mg::Tensor next =
      mg::minimum(mg::reshape(mg::reduction_sum(reached, {1}), {1}), graph.constant(letters - 1, MPSGRAPH_INT32));

  const std::vector<float> random = noise(20, 6);
  mg::Array current = mg::Array::of<int32_t>({1}, {3});
  std::printf("text");
  for (const float number : random) {
    const auto results = graph.run({{letter, current},
                                    {inverse_temperature, mg::Array::scalar(1 / 0.5f)},
                                    {chosen, mg::Array::full({1, 1}, number)}},
                                   {next}, keep);
    current = results[0];
    std::printf(" %d", static_cast<int>(current.item<int32_t>()));
  }
  std::printf("\n");
}

// ---- training: a digit classifier ----

static mg::Tensor convolution_layer(const mg::Tensor& x, int64_t channels, std::vector<mg::Tensor>& variables) {
  const mg::Graph graph = x.graph();
  const auto seed = static_cast<uint32_t>(10 + variables.size());
  const mg::Tensor weights = graph.variable(uniform({5, 5, x.shape()[3], channels}, 0.2f, seed));
  const mg::Tensor bias = graph.variable(mg::Array::full({1, 1, 1, channels}, 0.1f));
  variables.insert(variables.end(), {weights, bias});
  const mg::Tensor convolved = mg::convolution2d(x, weights, {.padding = mg::TF_SAME});
  return mg::max_pooling2d(mg::relu(convolved + bias), 2, 2);
}

static mg::Tensor dense_layer(const mg::Tensor& x, int64_t features, std::vector<mg::Tensor>& variables) {
  const mg::Graph graph = x.graph();
  const auto seed = static_cast<uint32_t>(10 + variables.size());
  const mg::Tensor weights = graph.variable(uniform({x.shape()[1], features}, 0.2f, seed));
  const mg::Tensor bias = graph.variable(mg::Array::full({features}, 0.1f));
  variables.insert(variables.end(), {weights, bias});
  return mg::matmul(x, weights) + bias;
}

static void train_digits() {
  constexpr int64_t batch = 8;
  const mg::Graph graph;
  const mg::Tensor images = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {batch, 28, 28, 1}), "images");
  const mg::Tensor labels = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {batch, 10}), "labels");

  std::vector<mg::Tensor> variables;
  mg::Tensor x = convolution_layer(images, 8, variables);
  x = convolution_layer(x, 16, variables);
  x = mg::reshape(x, {batch, 7 * 7 * 16});
  x = mg::relu(dense_layer(x, 64, variables));
  x = dense_layer(x, 10, variables);
  const mg::Tensor loss = mg::softmax_cross_entropy(x, labels, -1, mg::Reduction::sum) / batch;

  const mg::Tensor rate = graph.constant(0.01);
  const auto slopes = mg::gradients(loss, variables);
  std::vector<mg::Operation> updates;
  for (size_t i = 0; i < variables.size(); ++i)
    updates.push_back(mg::assign(variables[i], mg::stochastic_gradient_descent(rate, variables[i], slopes[i])));

  // Prepare the next batch while the previous one runs, but never more than two at a time.
  std::counting_semaphore<2> prepared(2);
  std::vector<mg::Execution> executions;
  for (uint32_t step = 0; step < 6; ++step) {
    prepared.acquire();
    const mg::Array batch_images = uniform({batch, 28, 28, 1}, 1, 100 + step);
    std::vector<float> targets(batch * 10);
    for (size_t i = 0; i < batch; ++i) targets[i * 10 + (i + step) % 10] = 1;
    executions.push_back(
        graph.run_async({{images, batch_images}, {labels, mg::Array::owning({batch, 10}, targets)}}, {loss}, updates,
                        [&](mpsgraph_status, const std::string&, std::vector<mg::Array>) { prepared.release(); }));
  }
  for (const mg::Execution& execution : executions) print_values("digits_loss", execution.results()[0]);
  print_values("digits_bias", variables.back().value());
}

// ---- two networks in one graph: a generator of images, and a discriminator ----

struct Generator {
  mg::Tensor dense, upscale1, gamma, beta, upscale2;
  explicit Generator(const mg::Graph& graph)
      : dense(graph.variable(uniform({10, 7 * 7 * 8}, 0.3f, 40))),
        upscale1(graph.variable(uniform({5, 5, 8, 8}, 0.1f, 41))),
        gamma(graph.variable(mg::Array::full({1, 1, 1, 8}, 1.0f))),
        beta(graph.variable(mg::Array::full({1, 1, 1, 8}, 0.0f))),
        upscale2(graph.variable(uniform({5, 5, 1, 8}, 0.1f, 42))) {}
  std::vector<mg::Tensor> variables() const { return {dense, upscale1, gamma, beta, upscale2}; }
  mg::Tensor operator()(const mg::Tensor& seeds, int64_t batch) const {
    mg::Tensor x = mg::reshape(mg::matmul(seeds, dense), {batch, 7, 7, 8});
    x = mg::convolution_transpose2d(x, upscale1, {batch, 14, 14, 8}, {.strides = 2, .padding = mg::TF_SAME});
    const mg::Axes axes{0, 1, 2};
    const mg::Tensor mean = mg::mean(x, axes);
    x = mg::leaky_relu(mg::normalization(x, mean, mg::variance(x, mean, axes), gamma, beta, 0.001), 0.2);
    x = mg::convolution_transpose2d(x, upscale2, {batch, 28, 28, 1}, {.strides = 2, .padding = mg::TF_SAME});
    return mg::tanh(x);
  }
};

struct Discriminator {
  mg::Tensor convolution, dense;
  explicit Discriminator(const mg::Graph& graph)
      : convolution(graph.variable(uniform({5, 5, 1, 8}, 0.2f, 43))),
        dense(graph.variable(uniform({14 * 14 * 8, 1}, 0.05f, 44))) {}
  std::vector<mg::Tensor> variables() const { return {convolution, dense}; }
  // Returns the logits of the images' realness. `state` determines the elements that dropout removes.
  mg::Tensor operator()(const mg::Tensor& images, int64_t batch, const mg::Tensor& state) const {
    mg::Tensor x = mg::convolution2d(images, convolution, {.strides = 2, .padding = mg::TF_SAME});
    x = mg::dropout(mg::leaky_relu(x, 0.2), 0.3, state)[0];
    return mg::matmul(mg::reshape(x, {batch, 14 * 14 * 8}), dense);
  }
};

static mg::Tensor cross_entropy(const mg::Tensor& probability) {
  return -mg::mean(mg::logarithm(mg::maximum(probability, 1e-6)));
}

static void train_adversaries() {
  constexpr int64_t batch = 4;
  const mg::Graph graph;
  const mg::Tensor real = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {batch, 28, 28, 1}), "real");
  const mg::Tensor seeds = graph.placeholder(mg::type(MPSGRAPH_FLOAT32, {batch, 10}), "seeds");
  const Generator generator(graph);
  const Discriminator discriminator(graph);
  const mg::Tensor state = mg::random_philox_state(graph, 2020);

  const mg::Tensor fake = generator(seeds, batch);
  const mg::Tensor realness = mg::sigmoid(discriminator(real, batch, state));
  const mg::Tensor fooled = mg::sigmoid(discriminator(fake, batch, state));
  const mg::Tensor detective_loss = cross_entropy(realness) + cross_entropy(1 - fooled);
  const mg::Tensor artist_loss = cross_entropy(fooled);

  // Each network gets the gradients of its own loss, and one run updates both.
  std::vector<mg::Operation> updates = mg::minimize(detective_loss, discriminator.variables(), 0.05);
  const auto others = mg::minimize(artist_loss, generator.variables(), 0.05);
  updates.insert(updates.end(), others.begin(), others.end());
  for (uint32_t step = 0; step < 3; ++step) {
    const auto losses =
        graph.run({{real, uniform({batch, 28, 28, 1}, 1, 200 + step)}, {seeds, uniform({batch, 10}, 1, 300 + step)}},
                  {detective_loss, artist_loss}, updates);
    print_values("detective_loss", losses[0]);
    print_values("artist_loss", losses[1]);
  }
}

int main() {
  try {
    activate();
    write_text();
    train_digits();
    train_adversaries();
  } catch (const mg::Failure& failure) {
    std::fprintf(stderr, "%s: %s\n", failure.status_name(), failure.what());
    return 1;
  }
}
