/* The program of application_start.c for ONNX Runtime: MODEL and the image's three sizes. */
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double milliseconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static const OrtApi* api;
static void check(OrtStatus* status) {
  if (!status) return;
  fprintf(stderr, "%s\n", api->GetErrorMessage(status));
  exit(1);
}

int main(int argc, char** argv) {
  int64_t shape[4] = {1, 0, 0, 0};
  size_t i, count = 1;
  double begin, sum = 0;
  float *pixels, *scores;
  char *input_name, *output_name;
  OrtEnv* env;
  OrtSessionOptions* options;
  OrtSession* session;
  OrtMemoryInfo* memory;
  OrtAllocator* allocator;
  OrtValue *input, *output = NULL;
  OrtTensorTypeAndShapeInfo* info;
  if (argc != 5) return 2;
  for (i = 1; i < 4; ++i) count *= (size_t)(shape[i] = atoi(argv[i + 1]));
  pixels = malloc(count * sizeof *pixels);
  if (!pixels) return 2;
  for (i = 0; i < count; ++i) pixels[i] = (float)(i % 7) / 7;
  begin = milliseconds();
  api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (!api) return 3;
  check(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "application", &env));
  check(api->CreateSessionOptions(&options));
  check(api->CreateSession(env, argv[1], options, &session));
  check(api->GetAllocatorWithDefaultOptions(&allocator));
  check(api->SessionGetInputName(session, 0, allocator, &input_name));
  check(api->SessionGetOutputName(session, 0, allocator, &output_name));
  check(api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  check(api->CreateTensorWithDataAsOrtValue(memory, pixels, count * sizeof *pixels, shape, 4,
                                            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &input));
  check(api->Run(session, NULL, (const char* const*)&input_name, (const OrtValue* const*)&input, 1,
                 (const char* const*)&output_name, 1, &output));
  check(api->GetTensorMutableData(output, (void**)&scores));
  check(api->GetTensorTypeAndShape(output, &info));
  check(api->GetTensorShapeElementCount(info, &count));
  for (i = 0; i < count; ++i) sum += scores[i];
  printf("%.4f %.6g\n", milliseconds() - begin, sum);
  return 0;
}
