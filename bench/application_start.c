/* An image classifier as an application would run it: opens PACKAGE, compiles it for one image of the three given sizes
 * (in the network's axis order), and runs it. Prints the milliseconds from opening the package to the first result, and
 * the sum of the scores, with which the caller checks the result. */
#include <mpsgraph/mpsgraph.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double milliseconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

int main(int argc, char** argv) {
  static float scores[1000];
  mpsgraph_type type = {MPSGRAPH_FLOAT32, 4, {1, 0, 0, 0}}, given;
  mpsgraph_graph graph;
  mpsgraph_executable executable;
  mpsgraph_array image, result = NULL;
  double begin, end, sum = 0;
  size_t i, count = 1;
  float* pixels;
  if (argc != 5) return 2;
  for (i = 1; i < 4; ++i) count *= (size_t)(type.dims[i] = atoi(argv[i + 1]));
  pixels = malloc(count * sizeof *pixels);
  if (!pixels) return 2;
  for (i = 0; i < count; ++i) pixels[i] = (float)(i % 7) / 7;
  begin = milliseconds();
  if (mpsgraph_graph_open(argv[1], NULL, &graph) || mpsgraph_graph_compile(graph, &type, 1, &executable) ||
      mpsgraph_array_from_memory(&type, NULL, pixels, count * sizeof *pixels, 0, NULL, NULL, &image) ||
      mpsgraph_executable_run(executable, &image, 1, &result, 1) ||
      mpsgraph_array_type(result, &given) || given.rank != 2 || given.dims[1] > 1000 ||
      mpsgraph_array_read(result, scores, (size_t)given.dims[1] * sizeof *scores)) {
    fprintf(stderr, "%s\n", mpsgraph_error_message());
    return 1;
  }
  end = milliseconds();
  for (i = 0; i < (size_t)given.dims[1]; ++i) sum += scores[i];
  printf("%.4f %.6g\n", end - begin, sum);
  return 0;
}
