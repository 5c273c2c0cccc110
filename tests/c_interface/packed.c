/* A C99 program that runs a package with packed weights. It prints whether the weights are mapped, by how many
 * kilobytes the memory that is not backed by files has grown, and the results. */
#include "checks.h"

#include <string.h>

static long anonymous_kilobytes(void) {
  char line[256];
  long kilobytes = -1;
  FILE* file = fopen("/proc/self/status", "r");
  REQUIRE(file != NULL);
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "RssAnon: %ld", &kilobytes) == 1) break;
  fclose(file);
  return kilobytes;
}

static int is_mapped(const char* name) {
  char line[4096];
  int found = 0;
  FILE* file = fopen("/proc/self/maps", "r");
  REQUIRE(file != NULL);
  while (fgets(line, sizeof line, file)) found |= strstr(line, name) != NULL;
  fclose(file);
  return found;
}

int main(int argc, char** argv) {
  mpsgraph_device device;
  mpsgraph_graph graph;
  mpsgraph_executable executable;
  mpsgraph_array input, result = 0;
  mpsgraph_type type = {MPSGRAPH_FLOAT32, 2, {1, 0}};
  long before;
  int64_t i, size;
  float *x, *y;
  REQUIRE(argc == 3);
  size = atol(argv[2]);
  type.dims[1] = size;
  x = malloc((size_t)size * sizeof *x), y = malloc((size_t)size * sizeof *y);
  REQUIRE(x && y);
  for (i = 0; i < size; ++i) x[i] = (float)(i % 7) - 3;
  CHECK(mpsgraph_device_open(NULL, &device));
  before = anonymous_kilobytes();
  CHECK(mpsgraph_graph_open(argv[1], device, &graph));
  CHECK(mpsgraph_graph_compile(graph, &type, 1, &executable));
  CHECK(mpsgraph_array_create(&type, &input));
  CHECK(mpsgraph_array_write(input, x, (size_t)size * sizeof *x));
  CHECK(mpsgraph_executable_run(executable, &input, 1, &result, 1));
  CHECK(mpsgraph_array_read(result, y, (size_t)size * sizeof *y));
  printf("%d %ld\n", is_mapped("weights.safetensors"), anonymous_kilobytes() - before);
  for (i = 0; i < size; ++i) printf("%.9g\n", y[i]);
  CHECK(mpsgraph_release(result));
  CHECK(mpsgraph_release(input));
  CHECK(mpsgraph_release(executable));
  CHECK(mpsgraph_release(graph));
  CHECK(mpsgraph_release(device));
  free(x), free(y);
  return 0;
}
