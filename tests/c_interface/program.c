/* A C99 program that fits a line with training steps, saves the state, reloads the package, and runs it in each of the
 * supported ways: synchronously, in place, and asynchronously. */
#include "checks.h"

#include <math.h>
#include <string.h>

enum { POINTS = 64 };
static int deleted = 0;

static void count_deletion(void* data, void* context) {
  (void)data;
  ++*(int*)context;
}

static void completed(void* context, mpsgraph_status status, const char* message, const mpsgraph_array* results,
                      size_t count) {
  float last[POINTS];
  (void)message;
  if (status == MPSGRAPH_OK && count == 1 && mpsgraph_array_read(results[0], last, sizeof last) == MPSGRAPH_OK)
    *(float*)context = last[POINTS - 1];
}

static mpsgraph_array scalar_array(float value, int rank) {
  mpsgraph_type type = {MPSGRAPH_FLOAT32, 0, {1, 1}};
  mpsgraph_array array;
  type.rank = rank;
  CHECK(mpsgraph_array_create(&type, &array));
  CHECK(mpsgraph_array_write(array, &value, sizeof value));
  return array;
}

static mpsgraph_tensor with_data(mpsgraph_graph graph, const char* kind, mpsgraph_array value, const char* name) {
  mpsgraph_attributes attributes;
  mpsgraph_tensor tensor;
  CHECK(mpsgraph_attributes_create(&attributes));
  CHECK(mpsgraph_attributes_set_data(attributes, "value", value));
  CHECK(mpsgraph_graph_add(graph, kind, NULL, 0, attributes, name, &tensor));
  CHECK(mpsgraph_release(attributes));
  CHECK(mpsgraph_release(value));
  return tensor;
}

static mpsgraph_tensor placeholder(mpsgraph_graph graph, const char* name) {
  const mpsgraph_type type = {MPSGRAPH_FLOAT32, 2, {-1, 1}};
  mpsgraph_attributes attributes;
  mpsgraph_tensor tensor;
  CHECK(mpsgraph_attributes_create(&attributes));
  CHECK(mpsgraph_attributes_set_type(attributes, "type", &type));
  CHECK(mpsgraph_graph_add(graph, "placeholder", NULL, 0, attributes, name, &tensor));
  CHECK(mpsgraph_release(attributes));
  return tensor;
}

static mpsgraph_tensor binary(mpsgraph_graph graph, const char* kind, mpsgraph_tensor a, mpsgraph_tensor b) {
  mpsgraph_tensor inputs[2], tensor;
  inputs[0] = a, inputs[1] = b;
  CHECK(mpsgraph_graph_add(graph, kind, inputs, 2, NULL, NULL, &tensor));
  return tensor;
}

static float variable(mpsgraph_tensor tensor) {
  mpsgraph_array array;
  float value;
  CHECK(mpsgraph_variable_read(tensor, &array));
  CHECK(mpsgraph_array_read(array, &value, sizeof value));
  CHECK(mpsgraph_release(array));
  return value;
}

int main(int argc, char** argv) {
  const mpsgraph_type column = {MPSGRAPH_FLOAT32, 2, {POINTS, 1}};
  static float xs[POINTS], ys[POINTS], out[POINTS];
  mpsgraph_graph graph, loaded;
  mpsgraph_array feeds[2], result = NULL, wrong = NULL;
  mpsgraph_tensor x, y, variables[2], gradients[2], line, error, loss;
  mpsgraph_operation updates[2];
  mpsgraph_trainer trainer;
  mpsgraph_executable executable;
  mpsgraph_execution execution;
  mpsgraph_queue queue;
  mpsgraph_command_buffer buffer;
  mpsgraph_event event;
  double first = 0, last = 0;
  float seen = 0;
  uint64_t value = 0;
  int i;

  REQUIRE(argc == 2);
  for (i = 0; i < POINTS; ++i) {
    xs[i] = 2.0f * i / (POINTS - 1) - 1;
    ys[i] = 3 * xs[i] - 1;
  }
  CHECK(mpsgraph_graph_create(NULL, &graph));
  x = placeholder(graph, "x");
  y = placeholder(graph, "y");
  variables[0] = with_data(graph, "variable", scalar_array(0, 2), "w");
  variables[1] = with_data(graph, "variable", scalar_array(0, 2), "b");
  line = binary(graph, "addition", binary(graph, "matrix_multiplication", x, variables[0]), variables[1]);
  error = binary(graph, "subtraction", line, y);
  error = binary(graph, "multiplication", error, error);
  {
    const int64_t axes[2] = {0, 1};
    mpsgraph_attributes attributes;
    CHECK(mpsgraph_attributes_create(&attributes));
    CHECK(mpsgraph_attributes_set_integers(attributes, "axes", axes, 2));
    CHECK(mpsgraph_graph_add(graph, "mean", &error, 1, attributes, "loss", &loss));
    CHECK(mpsgraph_release(attributes));
  }
  CHECK(mpsgraph_graph_gradients(loss, variables, 2, gradients));
  for (i = 0; i < 2; ++i) {
    mpsgraph_tensor inputs[3], stepped;
    inputs[0] = with_data(graph, "constant", scalar_array(0.5f, 0), NULL);
    inputs[1] = variables[i];
    inputs[2] = gradients[i];
    CHECK(mpsgraph_graph_add(graph, "stochastic_gradient_descent", inputs, 3, NULL, NULL, &stepped));
    inputs[0] = variables[i], inputs[1] = stepped;
    CHECK(mpsgraph_operation_create(graph, "assign", inputs, 2, NULL, NULL, &updates[i]));
  }

  CHECK(mpsgraph_array_from_memory(&column, NULL, xs, sizeof xs, 0, count_deletion, &deleted, &feeds[0]));
  CHECK(mpsgraph_array_from_memory(&column, NULL, ys, sizeof ys, 0, count_deletion, &deleted, &feeds[1]));
  {
    mpsgraph_tensor fed[2];
    fed[0] = x, fed[1] = y;
    CHECK(mpsgraph_trainer_create(graph, fed, 2, loss, updates, 2, &trainer));
  }
  for (i = 0; i < 60; ++i) {
    CHECK(mpsgraph_train_step(trainer, feeds, 2, &last));
    if (i == 0) first = last;
  }
  printf("loss %g to %g, y = %g x + %g\n", first, last, variable(variables[0]), variable(variables[1]));
  REQUIRE(first > 1 && last < 1e-6);
  REQUIRE(fabs(variable(variables[0]) - 3) < 1e-3 && fabs(variable(variables[1]) + 1) < 1e-3);

  CHECK(mpsgraph_graph_set_name(graph, MPSGRAPH_INPUT, "x", x));
  CHECK(mpsgraph_graph_set_name(graph, MPSGRAPH_OUTPUT, "y", line));
  CHECK(mpsgraph_graph_save(graph, argv[1]));
  CHECK(mpsgraph_variable_write(variables[0], feeds[0]) == MPSGRAPH_SHAPE_ERROR ? MPSGRAPH_OK : 1);
  CHECK(mpsgraph_graph_open(argv[1], NULL, &loaded));
  CHECK(mpsgraph_graph_load_state(graph, argv[1]));
  CHECK(mpsgraph_graph_compile(loaded, &column, 1, &executable));

  CHECK(mpsgraph_executable_run(executable, feeds, 1, &result, 1));
  CHECK(mpsgraph_array_read(result, out, sizeof out));
  REQUIRE(fabs(out[POINTS - 1] - 2) < 2e-3);
  CHECK(mpsgraph_release(result));
  memset(out, 0, sizeof out);
  CHECK(mpsgraph_array_from_memory(&column, NULL, out, sizeof out, 1, NULL, NULL, &result));
  CHECK(mpsgraph_executable_run(executable, feeds, 1, &result, 1)); /* writes its result into out */
  REQUIRE(fabs(out[POINTS - 1] - 2) < 2e-3);

  CHECK(mpsgraph_queue_create(NULL, &queue));
  CHECK(mpsgraph_executable_run_async(executable, feeds, 1, NULL, 0, queue, completed, &seen, &execution));
  CHECK(mpsgraph_execution_wait(execution, 60));
  REQUIRE(fabs(seen - 2) < 2e-3);
  CHECK(mpsgraph_execution_results(execution, &wrong, 1));
  CHECK(mpsgraph_release(wrong));

  memset(out, 0, sizeof out);
  CHECK(mpsgraph_event_create(&event));
  CHECK(mpsgraph_command_buffer_create(queue, &buffer));
  CHECK(mpsgraph_command_buffer_wait_for_event(buffer, event, 1));
  CHECK(mpsgraph_command_buffer_encode(buffer, executable, feeds, 1, &result, 1));
  CHECK(mpsgraph_command_buffer_signal_event(buffer, event, 2));
  CHECK(mpsgraph_command_buffer_commit(buffer));
  REQUIRE(mpsgraph_command_buffer_wait(buffer, 0.01) == MPSGRAPH_TIMEOUT && out[POINTS - 1] == 0);
  CHECK(mpsgraph_event_signal(event, 1));
  CHECK(mpsgraph_event_wait(event, 2, 60));
  CHECK(mpsgraph_command_buffer_wait(buffer, -1));
  CHECK(mpsgraph_event_value(event, &value));
  REQUIRE(value == 2 && fabs(out[POINTS - 1] - 2) < 2e-3);

  CHECK(mpsgraph_executable_run_for(executable, feeds, 1, &result, 1, 60));
  CHECK(mpsgraph_release(buffer));
  CHECK(mpsgraph_command_buffer_create(queue, &buffer));
  CHECK(mpsgraph_command_buffer_wait_for_event(buffer, event, 3));
  CHECK(mpsgraph_command_buffer_commit(buffer));
  CHECK(mpsgraph_release(execution));
  CHECK(mpsgraph_executable_run_async(executable, feeds, 1, NULL, 0, queue, NULL, NULL, &execution));
  CHECK(mpsgraph_execution_cancel(execution)); /* before it starts, because the queue waits for the event */
  CHECK(mpsgraph_event_signal(event, 3));
  REQUIRE(mpsgraph_execution_wait(execution, 60) == MPSGRAPH_DEVICE_ERROR);
  CHECK(mpsgraph_command_buffer_wait(buffer, 60));

  REQUIRE(mpsgraph_executable_run(executable, NULL, 1, &result, 1) == MPSGRAPH_INVALID_ARGUMENT);
  REQUIRE(strlen(mpsgraph_error_message()) > 0);
  {
    void* handles[8];
    handles[0] = execution, handles[1] = buffer, handles[2] = event, handles[3] = queue, handles[4] = result;
    handles[5] = executable, handles[6] = trainer, handles[7] = loaded;
    for (i = 0; i < 8; ++i) CHECK(mpsgraph_release(handles[i]));
    for (i = 0; i < 8; ++i) REQUIRE(mpsgraph_release(handles[i]) == MPSGRAPH_INVALID_HANDLE);
  }
  CHECK(mpsgraph_release(feeds[0]));
  CHECK(mpsgraph_release(feeds[1]));
  CHECK(mpsgraph_release(graph));
  REQUIRE(mpsgraph_operation_output_count(updates[0], NULL) != MPSGRAPH_OK);
  REQUIRE(deleted == 2);
  puts("done");
  return 0;
}
