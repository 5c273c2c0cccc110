/* A C99 program that resumes training from a trainer's package. Arguments: PACKAGE BATCHES STEPS SAVED [RATES_END]
 *
 * BATCHES holds STEPS batches of 16 rows with 6 float32 features and an int32 label each, in the order of the inputs.
 * The program prints the results of each step in hexadecimal so that they can be compared bit for bit, repeats the last
 * step from a saved state, and saves the trainer to SAVED. */
#include "checks.h"

#include <string.h>

enum { ROWS = 16, WIDTH = 6, MOST = 8 };

static void print(const char* what, const double* numbers, size_t count) {
  size_t i;
  printf("%s", what);
  for (i = 0; i < count; ++i) printf(" %a", numbers[i]);
  printf("\n");
}

int main(int argc, char** argv) {
  const mpsgraph_type x_type = {MPSGRAPH_FLOAT32, 2, {ROWS, WIDTH}}, y_type = {MPSGRAPH_INT32, 1, {ROWS}};
  const char* swapped[2] = {"labels", "inputs"};
  static float xs[ROWS * WIDTH], scores[ROWS * 3];
  static int32_t ys[ROWS];
  mpsgraph_trainer trainer;
  mpsgraph_graph graph;
  mpsgraph_array batch[2], by_name[2], scored = NULL;
  mpsgraph_type type;
  double results[MOST], again[MOST], evaluated[MOST], rate = 0, loss = 0;
  int64_t before = 0, after = 0;
  size_t count = 0, inputs = 0, i;
  char name[32];
  FILE* file;
  int steps, step;

  REQUIRE(argc == 5);
  steps = atoi(argv[3]);
  CHECK(mpsgraph_trainer_open(argv[1], NULL, &trainer));
  CHECK(mpsgraph_trainer_input_count(trainer, &inputs));
  CHECK(mpsgraph_trainer_input_name_at(trainer, 1, name, sizeof name, NULL));
  REQUIRE(inputs == 2 && strcmp(name, "labels") == 0);
  CHECK(mpsgraph_trainer_input_type(trainer, 0, &type));
  REQUIRE(type.rank == 2 && type.dims[0] == -1 && type.dims[1] == WIDTH); /* the batch size is dynamic */
  CHECK(mpsgraph_trainer_result_count(trainer, &count));
  CHECK(mpsgraph_trainer_result_name_at(trainer, 0, name, sizeof name, NULL));
  REQUIRE(count <= MOST && strcmp(name, "loss") == 0);
  CHECK(mpsgraph_trainer_step_count(trainer, &before));
  CHECK(mpsgraph_array_create(&x_type, &batch[0]));
  CHECK(mpsgraph_array_create(&y_type, &batch[1]));

  file = fopen(argv[2], "rb");
  REQUIRE(file != NULL);
  for (step = 0; step < steps; ++step) {
    REQUIRE(fread(xs, sizeof xs, 1, file) == 1 && fread(ys, sizeof ys, 1, file) == 1);
    CHECK(mpsgraph_array_write(batch[0], xs, sizeof xs));
    CHECK(mpsgraph_array_write(batch[1], ys, sizeof ys));
    if (step == steps - 1) CHECK(mpsgraph_trainer_save(trainer, argv[4]));
    CHECK(mpsgraph_trainer_train_step(trainer, NULL, batch, 2, results, count));
    CHECK(mpsgraph_trainer_learning_rate(trainer, &rate));
    print("step", results, count);
  }
  fclose(file);
  /* Restore the state from before the last step and repeat that step, now with named inputs. */
  CHECK(mpsgraph_trainer_load_state(trainer, argv[4]));
  by_name[0] = batch[1], by_name[1] = batch[0];
  CHECK(mpsgraph_trainer_train_step(trainer, swapped, by_name, 2, again, count));
  REQUIRE(memcmp(results, again, count * sizeof *results) == 0);
  CHECK(mpsgraph_trainer_step_count(trainer, &after));
  REQUIRE(after == before + steps);

  CHECK(mpsgraph_trainer_evaluate(trainer, NULL, batch, 2, evaluated, count));
  print("evaluated", evaluated, count);
  CHECK(mpsgraph_trainer_predict(trainer, NULL, batch, 1, &scored, 1));
  CHECK(mpsgraph_array_read(scored, scores, sizeof scores));
  print("rate", &rate, 1);
  printf("scores");
  for (i = 0; i < ROWS * 3; ++i) printf(" %a", (double)scores[i]);
  printf("\n");
  CHECK(mpsgraph_trainer_save(trainer, argv[4]));

  /* Invalid calls fail and leave the trainer unchanged. */
  REQUIRE(mpsgraph_trainer_train_step(trainer, NULL, batch, 1, results, 1) == MPSGRAPH_INVALID_ARGUMENT);
  REQUIRE(mpsgraph_trainer_train_step(trainer, NULL, by_name, 2, results, 1) != MPSGRAPH_OK);
  REQUIRE(mpsgraph_trainer_train_step(trainer, NULL, batch, 2, results, count + 1) == MPSGRAPH_INVALID_ARGUMENT);
  swapped[1] = "labels";
  REQUIRE(mpsgraph_trainer_train_step(trainer, swapped, by_name, 2, results, 1) == MPSGRAPH_INVALID_ARGUMENT);
  swapped[1] = "no such";
  REQUIRE(mpsgraph_trainer_train_step(trainer, swapped, by_name, 2, results, 1) == MPSGRAPH_GRAPH_ERROR);
  REQUIRE(mpsgraph_trainer_set_learning_rate(trainer, -1) == MPSGRAPH_GRAPH_ERROR);
  CHECK(mpsgraph_trainer_step_count(trainer, &before));
  REQUIRE(before == after);

  CHECK(mpsgraph_trainer_set_learning_rate(trainer, 0.25));
  CHECK(mpsgraph_trainer_learning_rate(trainer, &rate));
  REQUIRE(rate == 0.25);
  CHECK(mpsgraph_train_step(trainer, batch, 2, &loss)); /* the older function also works on this trainer */
  REQUIRE(loss > 0);

  CHECK(mpsgraph_trainer_graph(trainer, &graph));
  CHECK(mpsgraph_release(trainer)); /* the graph has its own reference count */
  CHECK(mpsgraph_graph_tensor_count(graph, MPSGRAPH_PARAMETER, &count));
  REQUIRE(count > 4);
  REQUIRE(mpsgraph_trainer_step_count(trainer, &after) == MPSGRAPH_INVALID_HANDLE);
  CHECK(mpsgraph_release(graph));
  CHECK(mpsgraph_release(batch[0]));
  CHECK(mpsgraph_release(batch[1]));
  CHECK(mpsgraph_release(scored));
  puts("done");
  return 0;
}
