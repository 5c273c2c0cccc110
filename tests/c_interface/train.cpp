// The C++ counterpart of train.c with the header-only classes: PACKAGE BATCHES STEPS SAVED.
#include <mpsgraph/application.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

namespace mg = mpsgraph::application;

namespace {

void print(const char* what, std::span<const double> numbers) {
  std::printf("%s", what);
  for (const double number : numbers) std::printf(" %a", number);
  std::printf("\n");
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 5) return 2;
  constexpr int64_t rows = 16, width = 6;
  const mg::Trainer trainer = mg::Trainer::open(arguments[1]);
  std::vector<float> xs(rows * width);
  std::vector<int32_t> ys(rows);
  const mg::Array x = mg::Array::over<float>({rows, width}, xs), y = mg::Array::over<int32_t>({rows}, ys);
  std::ifstream file(arguments[2], std::ios::binary);
  for (int step = 0; step < std::atoi(arguments[3]); ++step) {
    file.read(reinterpret_cast<char*>(xs.data()), static_cast<std::streamsize>(xs.size() * sizeof(float)));
    file.read(reinterpret_cast<char*>(ys.data()), static_cast<std::streamsize>(ys.size() * sizeof(int32_t)));
    print("step", trainer.step({{"labels", y}, {"inputs", x}}));
  }
  print("evaluated", trainer.evaluate({{"inputs", x}, {"labels", y}}));
  const double rate = trainer.learning_rate();
  print("rate", {&rate, 1});
  const auto outputs = trainer.predict({x});
  const auto scores = outputs[0].span<float>();
  print("scores", std::vector<double>(scores.begin(), scores.end()));
  trainer.save(arguments[4]);
  if (trainer.input_names() != std::vector<std::string>{"inputs", "labels"}) return 3;
  if (trainer.result_names().at(0) != "loss" || trainer.graph().tensors(MPSGRAPH_OUTPUT).size() != 1) return 4;
  try {
    trainer.step({x});
    return 5;
  } catch (const mg::Failure& failure) {
    if (failure.status != MPSGRAPH_INVALID_ARGUMENT) return 6;
  }
  const int64_t before = trainer.step_count();
  std::vector<std::thread> threads;  // concurrent steps are serialized
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        trainer.step({x, y});
        trainer.predict({x});
      }
    });
  for (auto& thread : threads) thread.join();
  if (trainer.step_count() != before + 20) return 7;
  std::puts("done");
  return 0;
} catch (const mg::Failure& failure) {
  std::fprintf(stderr, "%s: %s\n", mpsgraph_status_name(failure.status), failure.what());
  return 1;
}
