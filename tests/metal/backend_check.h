// Small graphs, arrays, and feeds on device metal for the backend's C++ tests.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "metal/mock_metal.h"
#include "mock_check.h"
#include "mpsgraph/mpsgraph.hpp"

namespace backend {

using namespace mpsgraph;
using namespace mpsgraph::runtime;
using Floats = std::vector<float>;

inline Device& metal() { return Device::get("metal"); }

inline NDArray array(const Floats& values, Dims dims = {}) {
  if (dims.empty()) dims = {static_cast<int64_t>(values.size())};
  NDArray result = NDArray::allocate(DType::float32, dims);
  std::memcpy(result.data(), values.data(), result.bytes());
  return result;
}

// Wrap memory of the caller in an array.
inline NDArray borrowed(Floats& values, size_t first = 0) {
  const auto count = static_cast<int64_t>(values.size() - first);
  return NDArray::borrow(values.data() + first, DType::float32, {count}, {1}, [] {});
}

inline Floats values(const NDArray& array) {
  Floats result(static_cast<size_t>(array.elements()));
  if (!result.empty()) std::memcpy(result.data(), array.data(), array.bytes());
  return result;
}

inline TensorType f32(Dims dims) { return {DType::float32, Shape(std::move(dims))}; }

struct Doubler {  // y = 2 x
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Tensor* x = graph->add("placeholder", {}, {{"type", f32({-1})}}, "x");
  Tensor* y = Builder(*graph).mul(x, 2.0);
  DeviceGraph on{graph, metal()};
  std::shared_ptr<Executable> of(int64_t n) { return on.compile({{x, f32({n})}}, {y}); }
};

struct Counter {  // v += x, for v with two equal elements
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Tensor* x = graph->add("placeholder", {}, {{"type", f32({2})}}, "x");
  Tensor* v = graph->add("variable", {}, {{"value", ConstantData::splat(DType::float32, {2}, 0.0)}}, "v");
  Tensor* sum = graph->add("addition", {v, x});
  Operation* assign = graph->create("assign", {v, sum});
  DeviceGraph on{graph, metal()};
  std::shared_ptr<Executable> step() { return on.compile({{x, f32({2})}}, {sum}, {assign}); }
};

// A trainable network for any batch size: two layers, softmax cross-entropy, gradients, and gradient descent.
struct Network {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Builder b{*graph};
  Tensor* images = graph->add("placeholder", {}, {{"type", f32({-1, 6})}}, "images");
  Tensor* labels = graph->add("placeholder", {}, {{"type", f32({-1, 3})}}, "labels");
  std::vector<Tensor*> weights;
  Tensor* loss;
  std::vector<Operation*> updates;
  DeviceGraph on{graph, metal()};

  Network() {
    Tensor* hidden = graph->add("relu", {b.add(b.matmul(images, weight({6, 8})), weight({8}))});
    Tensor* logits = b.add(b.matmul(hidden, weight({8, 3})), weight({3}));
    loss = graph->add("softmax_cross_entropy", {logits, labels}, {{"reduction", std::string("mean")}}, "loss");
    const std::vector<Tensor*> slopes = gradients(loss, weights);
    for (size_t i = 0; i < weights.size(); ++i)
      updates.push_back(graph->create("assign", {weights[i], b.sub(weights[i], b.mul(slopes[i], 0.5))}));
  }

  Tensor* weight(Dims dims) {
    Floats initial(static_cast<size_t>(element_count(dims)));
    for (size_t i = 0; i < initial.size(); ++i) initial[i] = static_cast<float>((i * 7 + 3) % 11) / 11 - 0.45f;
    auto value = ConstantData::copy(DType::float32, dims, reinterpret_cast<const std::byte*>(initial.data()));
    weights.push_back(graph->add("variable", {}, {{"value", value}}));
    return weights.back();
  }

  // Return images of three parts, one of which is bright, and the index of that part.
  std::vector<std::pair<Tensor*, NDArray>> batch(int64_t n) const {
    Floats pixels(static_cast<size_t>(n * 6)), classes(static_cast<size_t>(n * 3));
    for (int64_t i = 0; i < n; ++i) {
      pixels[i * 6 + i % 3 * 2] = pixels[i * 6 + i % 3 * 2 + 1] = 1 + static_cast<float>(i % 5) / 5;
      classes[i * 3 + i % 3] = 1;
    }
    return {{images, array(pixels, {n, 6})}, {labels, array(classes, {n, 3})}};
  }

  float step(int64_t n) { return values(on.run(batch(n), {loss}, updates)[0])[0]; }
};

}  // namespace backend
