/* A C program that registers a custom operation, uses it in a graph, and loads a package that needs a custom operation.
 *
 * Usage: program PACKAGE LIBRARY, where LIBRARY defines the custom operation of PACKAGE. The program prints the results
 * and then "done". */
#include <mpsgraph/custom_operation.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call)                                           \
  do {                                                     \
    const mpsgraph_status status_ = (call);                \
    if (status_ != MPSGRAPH_OK) {                          \
      printf("%s: %s\n", #call, mpsgraph_error_message()); \
      return 1;                                            \
    }                                                      \
  } while (0)

static double attribute(const mpsgraph_custom_site* site, const char* name) {
  size_t i;
  for (i = 0; i < site->attribute_count; ++i)
    if (strcmp(site->attributes[i].name, name) == 0) return site->attributes[i].real;
  return 0;
}

struct work {
  const float* from;
  float* to;
  float factor;
};

static void part(void* context, int64_t begin, int64_t end) {
  const struct work* work = context;
  int64_t i;
  for (i = begin; i < end; ++i) work->to[i] = work->from[i] * work->factor;
}

static int32_t scale(const mpsgraph_custom_call* call) {
  const mpsgraph_type* type = &call->site->operand_types[0];
  struct work work;
  work.from = call->operands[0];
  work.to = call->results[0];
  work.factor = (float)attribute(call->site, "factor");
  if (work.factor == 0) {
    call->fail(call, "factor must not be zero");
    return 1;
  }
  call->parallel_for(call, type->dims[0], 1, part, &work);
  return 0;
}

static const mpsgraph_custom_attribute factor[] = {{"factor", MPSGRAPH_CUSTOM_REAL, 1, 0, 0, NULL, NULL, 0}};
static const mpsgraph_custom_operation scaling = {"scale", "mine", factor, 1,    1,    0,    NULL, 0,
                                                  NULL,    scale,  NULL,   NULL, NULL, NULL, 0};

static int run(mpsgraph_graph graph, const float* numbers) {
  mpsgraph_executable executable;
  mpsgraph_array input, result = NULL;
  mpsgraph_type type = {MPSGRAPH_FLOAT32, 1, {3}};
  float values[3];
  OK(mpsgraph_graph_compile(graph, &type, 1, &executable));
  OK(mpsgraph_array_create(&type, &input));
  OK(mpsgraph_array_write(input, numbers, sizeof(values)));
  OK(mpsgraph_executable_run(executable, &input, 1, &result, 1));
  OK(mpsgraph_array_read(result, values, sizeof(values)));
  printf("%g %g %g\n", values[0], values[1], values[2]);
  OK(mpsgraph_release(result));
  OK(mpsgraph_release(input));
  OK(mpsgraph_release(executable));
  return 0;
}

int main(int count, char** words) {
  mpsgraph_graph graph;
  mpsgraph_tensor x, y;
  mpsgraph_attributes attributes;
  const mpsgraph_type type = {MPSGRAPH_FLOAT32, 1, {-1}};
  const float numbers[] = {1, 2, -3};
  mpsgraph_custom_operation wrong = scaling;
  if (count != 3) return 2;

  if (mpsgraph_graph_open(words[1], NULL, &graph) != MPSGRAPH_PACKAGE_ERROR) return 3;
  printf("%s\n", mpsgraph_error_message());
  OK(mpsgraph_custom_load(words[2]));
  OK(mpsgraph_graph_open(words[1], NULL, &graph));
  if (run(graph, numbers)) return 1;
  OK(mpsgraph_release(graph));

  if (mpsgraph_custom_register(NULL) != MPSGRAPH_INVALID_ARGUMENT) return 4;
  wrong.name = "two words";
  if (mpsgraph_custom_register(&wrong) != MPSGRAPH_GRAPH_ERROR) return 5;
  wrong = scaling;
  wrong.key = NULL;
  if (mpsgraph_custom_register(&wrong) != MPSGRAPH_GRAPH_ERROR) return 6;
  if (mpsgraph_custom_load("/nowhere.so") != MPSGRAPH_GRAPH_ERROR) return 7;
  if (mpsgraph_custom_load(NULL) != MPSGRAPH_INVALID_ARGUMENT) return 8;

  OK(mpsgraph_custom_register(&scaling));
  OK(mpsgraph_graph_create(NULL, &graph));
  OK(mpsgraph_attributes_create(&attributes));
  OK(mpsgraph_attributes_set_type(attributes, "type", &type));
  OK(mpsgraph_graph_add(graph, "placeholder", NULL, 0, attributes, "x", &x));
  OK(mpsgraph_graph_set_name(graph, MPSGRAPH_INPUT, "x", x));
  OK(mpsgraph_release(attributes));
  OK(mpsgraph_attributes_create(&attributes));
  OK(mpsgraph_attributes_set_string(attributes, "operation", "scale"));
  if (mpsgraph_graph_add(graph, "custom", &x, 1, attributes, NULL, &y) != MPSGRAPH_GRAPH_ERROR) return 9;
  OK(mpsgraph_attributes_set_real(attributes, "factor", 2.5));
  OK(mpsgraph_graph_add(graph, "custom", &x, 1, attributes, NULL, &y));
  OK(mpsgraph_graph_set_name(graph, MPSGRAPH_OUTPUT, "y", y));
  if (run(graph, numbers)) return 1;
  OK(mpsgraph_release(attributes));
  OK(mpsgraph_release(graph));
  printf("done\n");
  return 0;
}
