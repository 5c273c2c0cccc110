// The program of application_start.c for libtorch: a TorchScript file and the image's three sizes.
#include <torch/script.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int64_t a = std::atoi(argv[2]), b = std::atoi(argv[3]), c = std::atoi(argv[4]);
  std::vector<float> pixels(static_cast<size_t>(a * b * c));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 7) / 7;
  const auto begin = std::chrono::steady_clock::now();
  const torch::InferenceMode inference;
  torch::jit::Module module = torch::jit::load(argv[1]);
  module.eval();
  const torch::Tensor scores = module.forward({torch::from_blob(pixels.data(), {1, a, b, c})}).toTensor();
  const double sum = scores.sum().item<double>();
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - begin;
  std::printf("%.4f %.6g\n", passed.count(), sum);
}
