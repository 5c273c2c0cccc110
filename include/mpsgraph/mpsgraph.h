// The C interface of mpsgraph, C99: devices, arrays, graphs, executables, queues and training for applications.
//
// Every function gives a status; what it makes comes through its last argument and is untouched when it fails. The
// words for the last failure of this thread are in mpsgraph_error_message(). Handles are numbers in the clothes of
// pointers: NULL, released and wrong ones are found and refused. Objects are counted: mpsgraph_release() gives back
// what a function made, mpsgraph_retain() keeps it longer. Tensors and operations belong to their graph and need
// neither. Objects may be used from several threads.
//
// Memory that is handed in must have the size that is stated; nothing can check a wild pointer to it.
// mpsgraph_get_functions() (function_table.h) gives the same functions in a table, for programs that load the library
// themselves.
#ifndef MPSGRAPH_MPSGRAPH_H
#define MPSGRAPH_MPSGRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "mpsgraph/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- status, types, handles --- */

#define MPSGRAPH_INTERFACE_VERSION 3 /* of this header; a library serves this one and all before */
#define MPSGRAPH_MAX_RANK 16

typedef int32_t mpsgraph_status;
enum {
  MPSGRAPH_OK = 0,
  MPSGRAPH_INVALID_ARGUMENT = 1, /* NULL where something is needed, a number that is none of ours */
  MPSGRAPH_INVALID_HANDLE = 2,   /* NULL, released, or of another kind */
  MPSGRAPH_BUFFER_TOO_SMALL = 3, /* the size that is needed has been written */
  MPSGRAPH_SHAPE_ERROR = 4,
  MPSGRAPH_OUT_OF_RANGE = 5,
  MPSGRAPH_DTYPE_ERROR = 6,
  MPSGRAPH_GRAPH_ERROR = 7,
  MPSGRAPH_PACKAGE_ERROR = 8,
  MPSGRAPH_UNSUPPORTED = 9,
  MPSGRAPH_DEVICE_ERROR = 10,
  MPSGRAPH_TIMEOUT = 11,
  MPSGRAPH_OUT_OF_MEMORY = 12,
  MPSGRAPH_INTERNAL_ERROR = 13,
  MPSGRAPH_CHECK_FAILED = 14 /* an operation `check`, or that all numbers are finite */
};

typedef int32_t mpsgraph_dtype;
enum {
  MPSGRAPH_FLOAT32 = 0,
  MPSGRAPH_FLOAT16 = 1,
  MPSGRAPH_BFLOAT16 = 2,
  MPSGRAPH_FLOAT64 = 3,
  MPSGRAPH_INT8 = 4,
  MPSGRAPH_INT16 = 5,
  MPSGRAPH_INT32 = 6,
  MPSGRAPH_INT64 = 7,
  MPSGRAPH_UINT8 = 8,
  MPSGRAPH_UINT16 = 9,
  MPSGRAPH_UINT32 = 10,
  MPSGRAPH_UINT64 = 11,
  MPSGRAPH_BOOL = 12,
  MPSGRAPH_COMPLEX64 = 13,
  MPSGRAPH_COMPLEX128 = 14
};

typedef struct mpsgraph_type {
  mpsgraph_dtype dtype;
  int32_t rank;                    /* -1: not known */
  int64_t dims[MPSGRAPH_MAX_RANK]; /* -1: not known */
} mpsgraph_type;

typedef struct mpsgraph_device_handle* mpsgraph_device;
typedef struct mpsgraph_array_handle* mpsgraph_array;
typedef struct mpsgraph_graph_handle* mpsgraph_graph;
typedef struct mpsgraph_tensor_handle* mpsgraph_tensor;
typedef struct mpsgraph_operation_handle* mpsgraph_operation;
typedef struct mpsgraph_attributes_handle* mpsgraph_attributes;
typedef struct mpsgraph_executable_handle* mpsgraph_executable;
typedef struct mpsgraph_execution_handle* mpsgraph_execution;
typedef struct mpsgraph_queue_handle* mpsgraph_queue;
typedef struct mpsgraph_command_buffer_handle* mpsgraph_command_buffer;
typedef struct mpsgraph_event_handle* mpsgraph_event;
typedef struct mpsgraph_trainer_handle* mpsgraph_trainer;

/* Of any handle that a function made; releasing NULL does nothing. */
MPSGRAPH_API mpsgraph_status mpsgraph_retain(void* handle);
MPSGRAPH_API mpsgraph_status mpsgraph_release(void* handle);

/* Of this thread's last failure; valid until its next one. Never NULL. */
MPSGRAPH_API const char* mpsgraph_error_message(void);
MPSGRAPH_API const char* mpsgraph_status_name(mpsgraph_status status);

/* Texts are written with their final zero; `length` (may be NULL) gets their length without it. A `buffer` of NULL with
 * capacity 0 asks for the length alone. */

/* --- the process --- */

typedef struct mpsgraph_memory_statistics {
  uint64_t live_bytes, peak_live_bytes, cached_bytes, cache_limit, allocations, reused;
} mpsgraph_memory_statistics;

MPSGRAPH_API const char* mpsgraph_version(void); /* of the library: "0.1.0" */
MPSGRAPH_API mpsgraph_status mpsgraph_thread_count(int32_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_set_thread_count(int32_t count); /* 0: automatic */
MPSGRAPH_API mpsgraph_status mpsgraph_get_memory_statistics(mpsgraph_memory_statistics* statistics);
MPSGRAPH_API mpsgraph_status mpsgraph_set_memory_cache_limit(uint64_t bytes);

/* --- devices --- */

MPSGRAPH_API mpsgraph_status mpsgraph_device_count(size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_device_name_at(size_t index, char* buffer, size_t capacity, size_t* length);
/* NULL: the default device. A NULL device in other functions means that one, too. */
MPSGRAPH_API mpsgraph_status mpsgraph_device_open(const char* name, mpsgraph_device* device);
MPSGRAPH_API mpsgraph_status mpsgraph_device_name(mpsgraph_device device, char* buffer, size_t capacity,
                                                  size_t* length);
MPSGRAPH_API mpsgraph_status mpsgraph_device_description(mpsgraph_device device, char* buffer, size_t capacity,
                                                         size_t* length);

/* --- arrays --- */

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Called once, on whichever thread lets go of the memory last. */
typedef void (*mpsgraph_deleter)(void* data, void* context);

MPSGRAPH_API mpsgraph_status mpsgraph_array_create(const mpsgraph_type* type, mpsgraph_array* array); /* of zeros */
/* Over the caller's memory, `bytes` long. `strides` in elements, none negative; NULL: row-major. `deleter` may be NULL,
 * then the memory must outlive the array; it is not called when this fails. */
MPSGRAPH_API mpsgraph_status mpsgraph_array_from_memory(const mpsgraph_type* type, const int64_t* strides, void* data,
                                                        size_t bytes, int32_t writable, mpsgraph_deleter deleter,
                                                        void* context, mpsgraph_array* array);
/* Takes the structure over, also when this fails later than at NULL arguments; to_: the receiver calls its deleter. */
MPSGRAPH_API mpsgraph_status mpsgraph_array_from_dlpack(struct DLManagedTensor* managed, mpsgraph_array* array);
MPSGRAPH_API mpsgraph_status mpsgraph_array_to_dlpack(mpsgraph_array array, struct DLManagedTensor** managed);
MPSGRAPH_API mpsgraph_status mpsgraph_array_from_dlpack_versioned(struct DLManagedTensorVersioned* managed,
                                                                  mpsgraph_array* array);
MPSGRAPH_API mpsgraph_status mpsgraph_array_to_dlpack_versioned(mpsgraph_array array,
                                                                struct DLManagedTensorVersioned** managed);
MPSGRAPH_API mpsgraph_status mpsgraph_array_type(mpsgraph_array array, mpsgraph_type* type);
MPSGRAPH_API mpsgraph_status mpsgraph_array_strides(mpsgraph_array array, int64_t* strides, size_t capacity);
/* The memory itself, valid while the array lives; `bytes` counts from the first element to the end of the last. */
MPSGRAPH_API mpsgraph_status mpsgraph_array_data(mpsgraph_array array, void** data, size_t* bytes);
/* Row-major copies; `bytes` must be exactly the elements' size. */
MPSGRAPH_API mpsgraph_status mpsgraph_array_read(mpsgraph_array array, void* destination, size_t bytes);
MPSGRAPH_API mpsgraph_status mpsgraph_array_write(mpsgraph_array array, const void* source, size_t bytes);

/* --- graphs --- */

/* Tensors that have names for applications. Parameters are all variables, trainable ones those that a package names. */
typedef int32_t mpsgraph_role;
enum { MPSGRAPH_INPUT = 0, MPSGRAPH_OUTPUT = 1, MPSGRAPH_PARAMETER = 2, MPSGRAPH_TRAINABLE = 3 };

MPSGRAPH_API mpsgraph_status mpsgraph_graph_create(mpsgraph_device device, mpsgraph_graph* graph);
/* A package, as mpsgraph.save() in Python writes it. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_open(const char* path, mpsgraph_device device, mpsgraph_graph* graph);
/* The textual form (core/text.h). Placeholders are its inputs, by their names. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_from_text(const char* text, size_t length, mpsgraph_device device,
                                                      mpsgraph_graph* graph);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_text(mpsgraph_graph graph, char* buffer, size_t capacity, size_t* length);
/* Named inputs, outputs and all variables with their values of now. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_save(mpsgraph_graph graph, const char* path);
/* Sets the variables that a package has to its values: all of them, or none when one does not fit. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_load_state(mpsgraph_graph graph, const char* path);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_tensor_count(mpsgraph_graph graph, mpsgraph_role role, size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_tensor_at(mpsgraph_graph graph, mpsgraph_role role, size_t index,
                                                      mpsgraph_tensor* tensor);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_name_at(mpsgraph_graph graph, mpsgraph_role role, size_t index,
                                                    char* buffer, size_t capacity, size_t* length);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_find(mpsgraph_graph graph, mpsgraph_role role, const char* name,
                                                 mpsgraph_tensor* tensor);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_find_operation(mpsgraph_graph graph, const char* name,
                                                           mpsgraph_operation* operation);
/* Gives a placeholder a name as input, or a tensor one as output; a name that exists is moved. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_set_name(mpsgraph_graph graph, mpsgraph_role role, const char* name,
                                                     mpsgraph_tensor tensor);
MPSGRAPH_API mpsgraph_status mpsgraph_tensor_type(mpsgraph_tensor tensor, mpsgraph_type* type);
MPSGRAPH_API mpsgraph_status mpsgraph_tensor_name(mpsgraph_tensor tensor, char* buffer, size_t capacity,
                                                  size_t* length);

/* Building: an operation by its kind, its operands and its attributes, as docs/operations.md lists them.
 * `attributes` may be NULL, `name` too. */
MPSGRAPH_API mpsgraph_status mpsgraph_operation_create(mpsgraph_graph graph, const char* kind,
                                                       const mpsgraph_tensor* inputs, size_t input_count,
                                                       mpsgraph_attributes attributes, const char* name,
                                                       mpsgraph_operation* operation);
MPSGRAPH_API mpsgraph_status mpsgraph_operation_output_count(mpsgraph_operation operation, size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_operation_output(mpsgraph_operation operation, size_t index,
                                                       mpsgraph_tensor* tensor);
/* The single result of such an operation. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_add(mpsgraph_graph graph, const char* kind, const mpsgraph_tensor* inputs,
                                                size_t input_count, mpsgraph_attributes attributes, const char* name,
                                                mpsgraph_tensor* tensor);
/* What is created until the end runs after these operations. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_begin_control_dependencies(mpsgraph_graph graph,
                                                                       const mpsgraph_operation* operations,
                                                                       size_t count);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_end_control_dependencies(mpsgraph_graph graph);
/* Control flow: what is created between begin and end belongs to a block, with arguments of its own; blocks may use all
 * tensors from outside. An operation takes the last `block_count` blocks that ended where it stands, even if it fails:
 * "if" (predicate): then, else; "while" (first values): before, which gives predicate and values, and after; "for"
 * (lower, upper, step, first values): body (index, values). Abandoning drops the block that is being built, or those
 * that ended and that nothing has taken. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_begin_block(mpsgraph_graph graph, const mpsgraph_type* argument_types,
                                                        size_t argument_count, mpsgraph_tensor* arguments);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_end_block(mpsgraph_graph graph, const mpsgraph_tensor* results,
                                                      size_t result_count);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_abandon_block(mpsgraph_graph graph);
MPSGRAPH_API mpsgraph_status mpsgraph_operation_create_with_blocks(mpsgraph_graph graph, const char* kind,
                                                                   const mpsgraph_tensor* inputs, size_t input_count,
                                                                   mpsgraph_attributes attributes, const char* name,
                                                                   size_t block_count, mpsgraph_operation* operation);
/* d(of)/d(each), written to `gradients`, which has room for `count`. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_gradients(mpsgraph_tensor of, const mpsgraph_tensor* with_respect_to,
                                                      size_t count, mpsgraph_tensor* gradients);
/* The table of operations: their kinds, and one as JSON: {"kind", "family", "min_inputs", "max_inputs" (-1: any),
 * "attributes": [{"name", "kind", "required"}]}. */
MPSGRAPH_API mpsgraph_status mpsgraph_operation_kind_count(size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_operation_kind_at(size_t index, char* buffer, size_t capacity, size_t* length);
MPSGRAPH_API mpsgraph_status mpsgraph_operation_description(const char* kind, char* buffer, size_t capacity,
                                                            size_t* length);

/* Operations of your own: graphs and packages name them as kind "custom", with "operation" and "key" (from
 * custom_operation.h, which describes them; what a description points to must live as long as the process). They are
 * registered before a package that needs them is opened; one of the same name and key is replaced. */
struct mpsgraph_custom_operation;
MPSGRAPH_API mpsgraph_status mpsgraph_custom_register(const struct mpsgraph_custom_operation* operation);
/* Those of a shared library, which stays loaded. */
MPSGRAPH_API mpsgraph_status mpsgraph_custom_load(const char* path);

MPSGRAPH_API mpsgraph_status mpsgraph_attributes_create(mpsgraph_attributes* attributes);
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_bool(mpsgraph_attributes attributes, const char* name,
                                                          int32_t value);
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_integer(mpsgraph_attributes attributes, const char* name,
                                                             int64_t value);
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_real(mpsgraph_attributes attributes, const char* name,
                                                          double value);
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_string(mpsgraph_attributes attributes, const char* name,
                                                            const char* value);
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_integers(mpsgraph_attributes attributes, const char* name,
                                                              const int64_t* values, size_t count);
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_dtype(mpsgraph_attributes attributes, const char* name,
                                                           mpsgraph_dtype value);
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_data(mpsgraph_attributes attributes, const char* name,
                                                          mpsgraph_array value); /* copied */
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_type(mpsgraph_attributes attributes, const char* name,
                                                          const mpsgraph_type* value);
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_types(mpsgraph_attributes attributes, const char* name,
                                                           const mpsgraph_type* values, size_t count);

/* --- variables --- */

MPSGRAPH_API mpsgraph_status mpsgraph_variable_read(mpsgraph_tensor variable, mpsgraph_array* value); /* a copy */
MPSGRAPH_API mpsgraph_status mpsgraph_variable_write(mpsgraph_tensor variable, mpsgraph_array value);

/* --- executables --- */

/* The graph's named inputs and outputs, in their order. `types` has one for each input; NULL where all are known. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_compile(mpsgraph_graph graph, const mpsgraph_type* types, size_t type_count,
                                                    mpsgraph_executable* executable);
/* Any feeds, targets and target operations. */
MPSGRAPH_API mpsgraph_status mpsgraph_executable_create(mpsgraph_graph graph, const mpsgraph_tensor* feeds,
                                                        const mpsgraph_type* types, size_t feed_count,
                                                        const mpsgraph_tensor* targets, size_t target_count,
                                                        const mpsgraph_operation* target_operations,
                                                        size_t target_operation_count, mpsgraph_executable* executable);
MPSGRAPH_API mpsgraph_status mpsgraph_executable_input_count(mpsgraph_executable executable, size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_executable_output_count(mpsgraph_executable executable, size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_executable_input_type(mpsgraph_executable executable, size_t index,
                                                            mpsgraph_type* type);
MPSGRAPH_API mpsgraph_status mpsgraph_executable_output_type(mpsgraph_executable executable, size_t index,
                                                             mpsgraph_type* type);
/* `results` has room for all outputs. An entry that is NULL is made by the run and must be released; the others are
 * written in place: contiguous, writable, of the output's type. */
MPSGRAPH_API mpsgraph_status mpsgraph_executable_run(mpsgraph_executable executable, const mpsgraph_array* inputs,
                                                     size_t input_count, mpsgraph_array* results, size_t result_count);

/* On a thread of the library's, once, after success and failure alike. `results` are its own: retain what is kept. */
typedef void (*mpsgraph_completion)(void* context, mpsgraph_status status, const char* message,
                                    const mpsgraph_array* results, size_t result_count);

/* Returns at once. `results` as above, or NULL with count 0; `queue` and `completion` may be NULL. `completion` is
 * called only if this succeeds. */
MPSGRAPH_API mpsgraph_status mpsgraph_executable_run_async(mpsgraph_executable executable, const mpsgraph_array* inputs,
                                                           size_t input_count, const mpsgraph_array* results,
                                                           size_t result_count, mpsgraph_queue queue,
                                                           mpsgraph_completion completion, void* context,
                                                           mpsgraph_execution* execution);
MPSGRAPH_API mpsgraph_status mpsgraph_execution_wait(mpsgraph_execution execution, double seconds); /* < 0: for ever */
/* Waits, and gives each result with a count of its own. */
MPSGRAPH_API mpsgraph_status mpsgraph_execution_results(mpsgraph_execution execution, mpsgraph_array* results,
                                                        size_t result_count);

/* --- queues, command buffers, shared events --- */

MPSGRAPH_API mpsgraph_status mpsgraph_queue_create(mpsgraph_device device, mpsgraph_queue* queue);
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_create(mpsgraph_queue queue, mpsgraph_command_buffer* buffer);
/* `results` as in mpsgraph_executable_run; made ones are filled when the buffer is completed. */
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_encode(mpsgraph_command_buffer buffer,
                                                            mpsgraph_executable executable,
                                                            const mpsgraph_array* inputs, size_t input_count,
                                                            mpsgraph_array* results, size_t result_count);
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_wait_for_event(mpsgraph_command_buffer buffer,
                                                                    mpsgraph_event event, uint64_t value);
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_signal_event(mpsgraph_command_buffer buffer, mpsgraph_event event,
                                                                  uint64_t value);
/* `results` of the completion are none here. */
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_add_completion(mpsgraph_command_buffer buffer,
                                                                    mpsgraph_completion completion, void* context);
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_commit(mpsgraph_command_buffer buffer);
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_wait(mpsgraph_command_buffer buffer, double seconds);
MPSGRAPH_API mpsgraph_status mpsgraph_event_create(mpsgraph_event* event);
MPSGRAPH_API mpsgraph_status mpsgraph_event_value(mpsgraph_event event, uint64_t* value);
MPSGRAPH_API mpsgraph_status mpsgraph_event_signal(mpsgraph_event event, uint64_t value);
MPSGRAPH_API mpsgraph_status mpsgraph_event_wait(mpsgraph_event event, uint64_t value, double seconds);

/* --- training --- */

/* A step: feeds in this order, the loss (one number), and the updates that run with it. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_create(mpsgraph_graph graph, const mpsgraph_tensor* feeds,
                                                     size_t feed_count, mpsgraph_tensor loss,
                                                     const mpsgraph_operation* updates, size_t update_count,
                                                     mpsgraph_trainer* trainer);
MPSGRAPH_API mpsgraph_status mpsgraph_train_step(mpsgraph_trainer trainer, const mpsgraph_array* feeds,
                                                 size_t feed_count, double* loss);

/* The package of a trainer, as mpsgraph.save(path, trainer) in Python writes it: its steps go on where that one's were
 * saved, bit for bit. It has all of its state, schedules, random numbers and counters included, in its graph, which the
 * following gives with a count of its own. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_open(const char* path, mpsgraph_device device, mpsgraph_trainer* trainer);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_graph(mpsgraph_trainer trainer, mpsgraph_graph* graph);
/* A batch's arrays: "inputs", "labels", or as the model calls them; and the numbers of a step: "loss", metrics. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_input_count(mpsgraph_trainer trainer, size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_input_name_at(mpsgraph_trainer trainer, size_t index, char* buffer,
                                                            size_t capacity, size_t* length);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_input_type(mpsgraph_trainer trainer, size_t index, mpsgraph_type* type);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_result_count(mpsgraph_trainer trainer, size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_result_name_at(mpsgraph_trainer trainer, size_t index, char* buffer,
                                                             size_t capacity, size_t* length);
/* One step on a batch. `names` tells the arrays apart; NULL: they are in order. `results` has room for as many numbers
 * as are wanted, the loss first. MPSGRAPH_OUT_OF_RANGE when the package's schedule ends before this step. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_train_step(mpsgraph_trainer trainer, const char* const* names,
                                                         const mpsgraph_array* inputs, size_t input_count,
                                                         double* results, size_t result_count);
/* The same numbers of a batch in inference mode, without a step; NaN for those that only training has, such as
 * "loss_scale". MPSGRAPH_UNSUPPORTED where the package has no evaluation. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_evaluate(mpsgraph_trainer trainer, const char* const* names,
                                                       const mpsgraph_array* inputs, size_t input_count,
                                                       double* results, size_t result_count);
/* The model's outputs in inference mode, of its inputs alone; `results` as in mpsgraph_executable_run. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_predict(mpsgraph_trainer trainer, const char* const* names,
                                                      const mpsgraph_array* inputs, size_t input_count,
                                                      mpsgraph_array* results, size_t result_count);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_step_count(mpsgraph_trainer trainer, int64_t* count);
/* Of the next step; what it is set to counts from then on. MPSGRAPH_UNSUPPORTED to set one of several. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_learning_rate(mpsgraph_trainer trainer, double* rate);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_set_learning_rate(mpsgraph_trainer trainer, double rate);
/* A package that Python, C++ and C go on with; and the state of one that was saved of this trainer. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_save(mpsgraph_trainer trainer, const char* path);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_load_state(mpsgraph_trainer trainer, const char* path);

#ifdef __cplusplus
}
#endif

#include "mpsgraph/function_table.h"

#endif
