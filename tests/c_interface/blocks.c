/* A C99 program that tests control flow through the C interface.
 *
 * It doubles x in a `while` loop until x is at least 20, adds 0 + 1 + 2 + 3 in a `for` loop, negates the doubled value
 * in one branch of an `if`, differentiates through the `while` loop, and checks that invalid uses of blocks fail. */
#include "checks.h"

static mpsgraph_graph graph;
static const mpsgraph_type real = {MPSGRAPH_FLOAT32, 0, {0}}, whole = {MPSGRAPH_INT32, 0, {0}};

static mpsgraph_tensor constant(const mpsgraph_type* type, const void* value) {
  mpsgraph_array array;
  mpsgraph_attributes attributes;
  mpsgraph_tensor made;
  CHECK(mpsgraph_array_create(type, &array));
  CHECK(mpsgraph_array_write(array, value, 4));
  CHECK(mpsgraph_attributes_create(&attributes));
  CHECK(mpsgraph_attributes_set_data(attributes, "value", array));
  CHECK(mpsgraph_graph_add(graph, "constant", NULL, 0, attributes, NULL, &made));
  CHECK(mpsgraph_release(attributes));
  CHECK(mpsgraph_release(array));
  return made;
}

static mpsgraph_tensor number(float value) { return constant(&real, &value); }
static mpsgraph_tensor count(int32_t value) { return constant(&whole, &value); }

static mpsgraph_tensor binary(const char* kind, mpsgraph_tensor a, mpsgraph_tensor b) {
  mpsgraph_tensor inputs[2], made;
  inputs[0] = a, inputs[1] = b;
  CHECK(mpsgraph_graph_add(graph, kind, inputs, 2, NULL, NULL, &made));
  return made;
}

static mpsgraph_tensor result(mpsgraph_operation operation) {
  mpsgraph_tensor tensor;
  CHECK(mpsgraph_operation_output(operation, 0, &tensor));
  return tensor;
}

int main(void) {
  mpsgraph_attributes attributes;
  mpsgraph_tensor x, value, doubled, sum, gradient, targets[4], results[2], bounds[4], arguments[2];
  mpsgraph_operation operation;
  mpsgraph_executable executable;
  mpsgraph_array fed, found[4] = {NULL, NULL, NULL, NULL};
  const float three = 3, expected[4] = {24, -24, 8, 6};
  size_t i;

  CHECK(mpsgraph_graph_create(NULL, &graph));
  CHECK(mpsgraph_attributes_create(&attributes));
  CHECK(mpsgraph_attributes_set_type(attributes, "type", &real));
  CHECK(mpsgraph_graph_add(graph, "placeholder", NULL, 0, attributes, "x", &x));

  CHECK(mpsgraph_graph_begin_block(graph, &real, 1, &value)); /* condition */
  results[0] = binary("less_than", value, number(20)), results[1] = value;
  CHECK(mpsgraph_graph_end_block(graph, results, 2));
  CHECK(mpsgraph_graph_begin_block(graph, &real, 1, &value)); /* body */
  results[0] = binary("addition", value, value);
  CHECK(mpsgraph_graph_end_block(graph, results, 1));
  CHECK(mpsgraph_operation_create_with_blocks(graph, "while", &x, 1, NULL, NULL, 2, &operation));
  doubled = result(operation);
  CHECK(mpsgraph_graph_gradients(doubled, &x, 1, &gradient));

  bounds[0] = count(0), bounds[1] = count(4), bounds[2] = count(1), bounds[3] = count(0);
  {
    mpsgraph_type types[2];
    types[0] = whole, types[1] = whole;
    CHECK(mpsgraph_graph_begin_block(graph, types, 2, arguments));
  }
  results[0] = binary("addition", arguments[0], arguments[1]);
  CHECK(mpsgraph_graph_end_block(graph, results, 1));
  CHECK(mpsgraph_operation_create_with_blocks(graph, "for", bounds, 4, NULL, NULL, 1, &operation));
  sum = result(operation);

  value = binary("greater_than", doubled, number(10));
  CHECK(mpsgraph_graph_begin_block(graph, NULL, 0, NULL));
  CHECK(mpsgraph_graph_add(graph, "negative", &doubled, 1, NULL, NULL, &results[0])); /* uses an outer tensor */
  CHECK(mpsgraph_graph_end_block(graph, results, 1));
  CHECK(mpsgraph_graph_begin_block(graph, NULL, 0, NULL));
  CHECK(mpsgraph_graph_end_block(graph, &doubled, 1));
  CHECK(mpsgraph_operation_create_with_blocks(graph, "if", &value, 1, NULL, "chosen", 2, &operation));

  targets[0] = doubled, targets[1] = result(operation), targets[2] = gradient, targets[3] = sum;
  CHECK(mpsgraph_executable_create(graph, &x, &real, 1, targets, 4, NULL, 0, &executable));
  CHECK(mpsgraph_array_create(&real, &fed));
  CHECK(mpsgraph_array_write(fed, &three, sizeof three));
  CHECK(mpsgraph_executable_run(executable, &fed, 1, found, 4));
  for (i = 0; i < 3; ++i) {
    float got;
    CHECK(mpsgraph_array_read(found[i], &got, sizeof got));
    REQUIRE(got == expected[i]);
  }
  {
    int32_t got;
    CHECK(mpsgraph_array_read(found[3], &got, sizeof got));
    REQUIRE(got == 6);
  }

  /* Invalid calls fail and leave the graph usable. */
  REQUIRE(mpsgraph_graph_end_block(graph, NULL, 0) == MPSGRAPH_GRAPH_ERROR);
  REQUIRE(mpsgraph_graph_abandon_block(graph) == MPSGRAPH_GRAPH_ERROR);
  REQUIRE(mpsgraph_operation_create_with_blocks(graph, "if", &value, 1, NULL, NULL, 2, &operation) ==
          MPSGRAPH_GRAPH_ERROR);
  CHECK(mpsgraph_graph_begin_block(graph, NULL, 0, NULL));
  CHECK(mpsgraph_graph_begin_block(graph, &real, 1, &value));
  CHECK(mpsgraph_graph_end_block(graph, &value, 1));
  REQUIRE(mpsgraph_graph_end_block(graph, NULL, 0) == MPSGRAPH_GRAPH_ERROR); /* no operation uses the inner block yet */
  REQUIRE(mpsgraph_operation_create_with_blocks(graph, "if", &x, 1, NULL, NULL, 1, &operation) == MPSGRAPH_GRAPH_ERROR);
  CHECK(mpsgraph_graph_abandon_block(graph));
  /* The argument of the abandoned block is no longer valid. */
  REQUIRE(mpsgraph_graph_add(graph, "negative", &value, 1, NULL, NULL, &sum) == MPSGRAPH_GRAPH_ERROR);
  CHECK(mpsgraph_graph_begin_block(graph, NULL, 0, NULL));
  CHECK(mpsgraph_graph_end_block(graph, &x, 1));
  CHECK(mpsgraph_graph_abandon_block(graph)); /* abandons a block that has ended */
  CHECK(mpsgraph_graph_begin_block(graph, NULL, 0, NULL));
  CHECK(mpsgraph_release(executable));
  CHECK(mpsgraph_release(graph)); /* while a block is still open */
  CHECK(mpsgraph_release(attributes));
  CHECK(mpsgraph_release(fed));
  for (i = 0; i < 4; ++i) CHECK(mpsgraph_release(found[i]));
  puts("done");
  return 0;
}
