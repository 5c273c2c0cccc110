// The C interface of mpsgraph (C99): devices, arrays, graphs, executables, queues, and training.
//
// Status: every function that can fail returns a status. Results are stored through pointer arguments, which are
// unchanged on failure. mpsgraph_error_message() describes the last failure of the calling thread.
//
// Ownership: handles refer to reference-counted objects. A function that creates an object gives the caller one
// reference. mpsgraph_release() releases a reference, and mpsgraph_retain() adds one. Objects keep the objects that
// they need alive: an executable keeps its graph, and a run keeps its arrays. Tensors and operations belong to their
// graph and need not be retained or released.
//
// Safety: NULL, released handles, and handles of a different kind are detected and refused. The sizes of memory blocks
// that the caller passes are trusted. Objects may be used from several threads, but no operation may be added to a
// graph while the graph is being run.
//
// mpsgraph_get_functions() of function_table.h returns the same functions as a table, for programs that load the
// library at run time.
#ifndef MPSGRAPH_MPSGRAPH_H
#define MPSGRAPH_MPSGRAPH_H

#include <stddef.h>
#include <stdint.h>

#include "mpsgraph/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status, types and handles ---- */

/* The version of this interface. A library supports programs compiled for its own version and for all earlier ones. */
#define MPSGRAPH_INTERFACE_VERSION 4
#define MPSGRAPH_MAX_RANK 16

typedef int32_t mpsgraph_status;
enum {
  MPSGRAPH_OK = 0,
  MPSGRAPH_INVALID_ARGUMENT = 1, /* an argument is NULL or has an invalid value */
  MPSGRAPH_INVALID_HANDLE = 2, /* a handle is NULL, was released, or is of another kind */
  MPSGRAPH_BUFFER_TOO_SMALL = 3, /* if the result is text, the required length was stored */
  MPSGRAPH_SHAPE_ERROR = 4, /* a rank, dimension, size or axis is wrong */
  MPSGRAPH_OUT_OF_RANGE = 5, /* an index is out of range */
  MPSGRAPH_DTYPE_ERROR = 6, /* dtypes do not match or are not supported */
  MPSGRAPH_GRAPH_ERROR = 7, /* the structure of a graph, a name or an attribute is wrong */
  MPSGRAPH_PACKAGE_ERROR = 8, /* a package is missing or damaged, or cannot be written */
  MPSGRAPH_UNSUPPORTED = 9, /* valid, but not supported by this device or object */
  MPSGRAPH_DEVICE_ERROR = 10, /* a run failed, or a device is not available */
  MPSGRAPH_TIMEOUT = 11,
  MPSGRAPH_OUT_OF_MEMORY = 12,
  MPSGRAPH_INTERNAL_ERROR = 13, /* a bug in the library */
  MPSGRAPH_CHECK_FAILED = 14 /* an operation `check` failed, or a number is not finite */
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

/* The dtype and shape of a tensor or an array. */
typedef struct mpsgraph_type {
  mpsgraph_dtype dtype;
  int32_t rank; /* -1 if unknown */
  int64_t dims[MPSGRAPH_MAX_RANK]; /* -1 for dimensions that are unknown */
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

/* Adds a reference to the object behind a handle of any kind. */
MPSGRAPH_API mpsgraph_status mpsgraph_retain(void* handle);
/* Releases a reference to the object behind a handle of any kind. Releasing NULL does nothing. */
MPSGRAPH_API mpsgraph_status mpsgraph_release(void* handle);

/* Returns the message of the calling thread's last failure. The message is never NULL, and is valid until the thread's
 * next failure. */
MPSGRAPH_API const char* mpsgraph_error_message(void);
/* Returns the name of a status, such as "shape error". */
MPSGRAPH_API const char* mpsgraph_status_name(mpsgraph_status status);

/* Functions with the arguments `buffer`, `capacity`, and `length` return text. They write the text to `buffer`, which
 * has room for `capacity` bytes, including the terminating null character. They store the length of the text without
 * the null character in `length`, which may be NULL. To query only the length, pass NULL and a capacity of 0. */

/* ---- process ---- */

typedef struct mpsgraph_memory_statistics {
  uint64_t live_bytes, peak_live_bytes, cached_bytes, cache_limit, allocations, reused;
} mpsgraph_memory_statistics;

/* Returns the version of the library, such as "0.1.0". */
MPSGRAPH_API const char* mpsgraph_version(void);
/* Returns the number of threads that the CPU device uses. */
MPSGRAPH_API mpsgraph_status mpsgraph_thread_count(int32_t* count);
/* Sets the number of threads that the CPU device uses; 0 means automatic. Returns MPSGRAPH_DEVICE_ERROR if the
 * number exceeds the number in effect at the first compilation. */
MPSGRAPH_API mpsgraph_status mpsgraph_set_thread_count(int32_t count);
/* Returns statistics of the memory of all devices. */
MPSGRAPH_API mpsgraph_status mpsgraph_get_memory_statistics(mpsgraph_memory_statistics* statistics);
/* Sets how many freed bytes each device keeps for new arrays; with 0, memory is freed immediately. */
MPSGRAPH_API mpsgraph_status mpsgraph_set_memory_cache_limit(uint64_t bytes);

/* ---- devices ---- */

/* Returns the number of available devices, such as "cpu" and "metal". The default device is the first one. */
MPSGRAPH_API mpsgraph_status mpsgraph_device_count(size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_device_name_at(size_t index, char* buffer, size_t capacity, size_t* length);
/* Returns the device with this name, or the default device if `name` is NULL. All other functions also use the default
 * device if their `device` is NULL. */
MPSGRAPH_API mpsgraph_status mpsgraph_device_open(const char* name, mpsgraph_device* device);
MPSGRAPH_API mpsgraph_status mpsgraph_device_name(mpsgraph_device device, char* buffer, size_t capacity,
                                                  size_t* length);
/* Returns a description for people, such as the instruction set and the number of threads. */
MPSGRAPH_API mpsgraph_status mpsgraph_device_description(mpsgraph_device device, char* buffer, size_t capacity,
                                                         size_t* length);

/* ---- arrays ---- */

struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Called exactly once, by the thread that releases the last reference to the memory. */
typedef void (*mpsgraph_deleter)(void* data, void* context);

/* Creates an array of zeros. The shape must be static. */
MPSGRAPH_API mpsgraph_status mpsgraph_array_create(const mpsgraph_type* type, mpsgraph_array* array);
/* Creates an array over the caller's memory of `bytes` bytes, without copying it. `strides` are in elements and must
 * not be negative; NULL means row-major. Arrays over memory that is not writable cannot receive results. When the array
 * is no longer used, `deleter(data, context)` is called; if `deleter` is NULL, the caller must keep the memory valid
 * until then. The deleter is not called if this function fails. */
MPSGRAPH_API mpsgraph_status mpsgraph_array_from_memory(const mpsgraph_type* type, const int64_t* strides, void* data,
                                                        size_t bytes, int32_t writable, mpsgraph_deleter deleter,
                                                        void* context, mpsgraph_array* array);
/* The four functions for DLPack share CPU memory with other libraries without copying it. The from_ functions take
 * ownership of the structure, even on failure, unless an argument is NULL. The receiver of a structure from a to_
 * function must call its deleter. */
MPSGRAPH_API mpsgraph_status mpsgraph_array_from_dlpack(struct DLManagedTensor* managed, mpsgraph_array* array);
MPSGRAPH_API mpsgraph_status mpsgraph_array_to_dlpack(mpsgraph_array array, struct DLManagedTensor** managed);
MPSGRAPH_API mpsgraph_status mpsgraph_array_from_dlpack_versioned(struct DLManagedTensorVersioned* managed,
                                                                  mpsgraph_array* array);
MPSGRAPH_API mpsgraph_status mpsgraph_array_to_dlpack_versioned(mpsgraph_array array,
                                                                struct DLManagedTensorVersioned** managed);
MPSGRAPH_API mpsgraph_status mpsgraph_array_type(mpsgraph_array array, mpsgraph_type* type);
/* Stores the stride of each axis in elements. `strides` has room for `capacity` numbers. */
MPSGRAPH_API mpsgraph_status mpsgraph_array_strides(mpsgraph_array array, int64_t* strides, size_t capacity);
/* Returns the array's own memory, which is valid as long as the array exists. `bytes`, which may be NULL, receives the
 * number of bytes from the first element to the end of the last element. */
MPSGRAPH_API mpsgraph_status mpsgraph_array_data(mpsgraph_array array, void** data, size_t* bytes);
/* Copies all elements out of or into the array in row-major order. `bytes` must be exactly the size of the elements. */
MPSGRAPH_API mpsgraph_status mpsgraph_array_read(mpsgraph_array array, void* destination, size_t bytes);
MPSGRAPH_API mpsgraph_status mpsgraph_array_write(mpsgraph_array array, const void* source, size_t bytes);

/* ---- graphs ---- */

/* The roles under which an application finds named tensors. Parameters are all variables. Trainable tensors are those
 * that a package marks as trainable, and all variables that the application created. */
typedef int32_t mpsgraph_role;
enum { MPSGRAPH_INPUT = 0, MPSGRAPH_OUTPUT = 1, MPSGRAPH_PARAMETER = 2, MPSGRAPH_TRAINABLE = 3 };

/* Creates an empty graph. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_create(mpsgraph_device device, mpsgraph_graph* graph);
/* Opens a package that mpsgraph.save() in Python or mpsgraph_graph_save() wrote. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_open(const char* path, mpsgraph_device device, mpsgraph_graph* graph);
/* Parses the textual form of a graph, which core/text.h describes. The placeholders become inputs of the same names. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_from_text(const char* text, size_t length, mpsgraph_device device,
                                                      mpsgraph_graph* graph);
/* Returns the textual form of the graph. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_text(mpsgraph_graph graph, char* buffer, size_t capacity, size_t* length);
/* Writes a package with the named inputs and outputs, and with the current values of all variables. The graph must have
 * at least one named output. An existing package is replaced. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_save(mpsgraph_graph graph, const char* path);
/* Sets the variables of the graph, by name, to the values in a package. If the graph lacks one of
 * these variables, or a value differs in type from its variable, no variable is changed. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_load_state(mpsgraph_graph graph, const char* path);
/* Return the number of named tensors with a role, and the tensor and the name at an index. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_tensor_count(mpsgraph_graph graph, mpsgraph_role role, size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_tensor_at(mpsgraph_graph graph, mpsgraph_role role, size_t index,
                                                      mpsgraph_tensor* tensor);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_name_at(mpsgraph_graph graph, mpsgraph_role role, size_t index,
                                                    char* buffer, size_t capacity, size_t* length);
/* Find the tensor with a role and name, or an operation by its name. Return MPSGRAPH_GRAPH_ERROR if there is none. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_find(mpsgraph_graph graph, mpsgraph_role role, const char* name,
                                                 mpsgraph_tensor* tensor);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_find_operation(mpsgraph_graph graph, const char* name,
                                                           mpsgraph_operation* operation);
/* Names a placeholder as an input, or any tensor as an output. If the name is already used in this role, it is moved to
 * this tensor. Variables keep the names that they were created with. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_set_name(mpsgraph_graph graph, mpsgraph_role role, const char* name,
                                                     mpsgraph_tensor tensor);
MPSGRAPH_API mpsgraph_status mpsgraph_tensor_type(mpsgraph_tensor tensor, mpsgraph_type* type);
MPSGRAPH_API mpsgraph_status mpsgraph_tensor_name(mpsgraph_tensor tensor, char* buffer, size_t capacity,
                                                  size_t* length);

/* Adds an operation by its kind, operands and attributes, as docs/operations.md lists them. `attributes` and `name` may
 * be NULL. On failure the graph is unchanged. */
MPSGRAPH_API mpsgraph_status mpsgraph_operation_create(mpsgraph_graph graph, const char* kind,
                                                       const mpsgraph_tensor* inputs, size_t input_count,
                                                       mpsgraph_attributes attributes, const char* name,
                                                       mpsgraph_operation* operation);
MPSGRAPH_API mpsgraph_status mpsgraph_operation_output_count(mpsgraph_operation operation, size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_operation_output(mpsgraph_operation operation, size_t index,
                                                       mpsgraph_tensor* tensor);
/* Adds an operation that has exactly one result, and returns this result. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_add(mpsgraph_graph graph, const char* kind, const mpsgraph_tensor* inputs,
                                                size_t input_count, mpsgraph_attributes attributes, const char* name,
                                                mpsgraph_tensor* tensor);
/* Adds a constant of this type, whose elements all have the value `value`, rounded to the dtype. The shape must be
 * static. Returns MPSGRAPH_DTYPE_ERROR if the dtype cannot represent the value: integer dtypes require an integer in
 * their range, bool requires 0 or 1, and a finite value must not become infinite. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_constant(mpsgraph_graph graph, double value, const mpsgraph_type* type,
                                                     mpsgraph_tensor* tensor);
/* All operations created between the calls of begin and end run after the given operations. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_begin_control_dependencies(mpsgraph_graph graph,
                                                                       const mpsgraph_operation* operations,
                                                                       size_t count);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_end_control_dependencies(mpsgraph_graph graph);
/* Control flow. Operations created between begin_block and end_block belong to a block, which has its own arguments
 * and may use all tensors from outside. mpsgraph_operation_create_with_blocks() then passes the last `block_count`
 * blocks that have ended in the current block to an operation. The call consumes these blocks even if it fails:
 *
 *   "if" (predicate)                      two blocks: then, else
 *   "while" (initial values)              two blocks: before, which returns the predicate and the values; after
 *   "for" (lower, upper, step, values)    one block: body, with the index and the values as arguments
 *
 * mpsgraph_graph_abandon_block() discards the block that is being built, and blocks that have ended in it and that no
 * operation has used. If no block is being built, it discards the unused blocks that have ended. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_begin_block(mpsgraph_graph graph, const mpsgraph_type* argument_types,
                                                        size_t argument_count, mpsgraph_tensor* arguments);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_end_block(mpsgraph_graph graph, const mpsgraph_tensor* results,
                                                      size_t result_count);
MPSGRAPH_API mpsgraph_status mpsgraph_graph_abandon_block(mpsgraph_graph graph);
MPSGRAPH_API mpsgraph_status mpsgraph_operation_create_with_blocks(mpsgraph_graph graph, const char* kind,
                                                                   const mpsgraph_tensor* inputs, size_t input_count,
                                                                   mpsgraph_attributes attributes, const char* name,
                                                                   size_t block_count, mpsgraph_operation* operation);
/* Adds the gradients of `of` with respect to `count` tensors to the graph, and stores them in `gradients`. The gradient
 * of a tensor has the tensor's type. If `of` is not a scalar, the gradients are those of the sum of its elements. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_gradients(mpsgraph_tensor of, const mpsgraph_tensor* with_respect_to,
                                                      size_t count, mpsgraph_tensor* gradients);
/* Return the list of all kinds of operations, and the description of one kind as JSON: {"kind", "family", "min_inputs",
 * "max_inputs" (-1 for any number), "attributes": [{"name", "kind", "required"}]}. */
MPSGRAPH_API mpsgraph_status mpsgraph_operation_kind_count(size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_operation_kind_at(size_t index, char* buffer, size_t capacity, size_t* length);
MPSGRAPH_API mpsgraph_status mpsgraph_operation_description(const char* kind, char* buffer, size_t capacity,
                                                            size_t* length);

/* Custom operations. Graphs and packages contain them as operations of kind "custom" with the attributes "operation"
 * and "key"; custom_operation.h describes them. They must be registered or loaded before a package that needs them is
 * opened. A custom operation replaces an earlier one with the same name and key. Everything that a description points
 * to must remain valid until the process ends. */
struct mpsgraph_custom_operation;
MPSGRAPH_API mpsgraph_status mpsgraph_custom_register(const struct mpsgraph_custom_operation* operation);
/* Loads a shared library, which remains loaded, and registers its custom operations. */
MPSGRAPH_API mpsgraph_status mpsgraph_custom_load(const char* path);

/* Creates an empty set of attributes for an operation. The set_ functions add or replace an attribute, and copy the
 * name and the value. */
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
                                                          mpsgraph_array value);
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_type(mpsgraph_attributes attributes, const char* name,
                                                          const mpsgraph_type* value);
MPSGRAPH_API mpsgraph_status mpsgraph_attributes_set_types(mpsgraph_attributes attributes, const char* name,
                                                           const mpsgraph_type* values, size_t count);

/* ---- variables ---- */

/* Returns a copy of a variable's current value. */
MPSGRAPH_API mpsgraph_status mpsgraph_variable_read(mpsgraph_tensor variable, mpsgraph_array* value);
/* Sets a variable to a copy of the array, which must have the variable's dtype and shape. */
MPSGRAPH_API mpsgraph_status mpsgraph_variable_write(mpsgraph_tensor variable, mpsgraph_array value);

/* ---- executables ---- */

/* Compiles the graph from its named inputs to its named outputs, in the graph's order of inputs and outputs. `types`
 * has one type per input; if all inputs have static shapes, it may be NULL with a count of 0. */
MPSGRAPH_API mpsgraph_status mpsgraph_graph_compile(mpsgraph_graph graph, const mpsgraph_type* types, size_t type_count,
                                                    mpsgraph_executable* executable);
/* Compiles any feeds and targets, and target operations, which a run executes for their effects. `types` has one type
 * per feed; NULL means the types of the feeds themselves. */
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
/* Runs the executable and waits until it is done. `inputs` and `results` have one array for each input and output. If
 * an entry of `results` is NULL, it receives a new array, which the caller must release. Otherwise the result is
 * written into the given array, which must be contiguous, writable and of the output's type, and must not overlap with
 * other results or with inputs. Several threads may run the same executable. */
MPSGRAPH_API mpsgraph_status mpsgraph_executable_run(mpsgraph_executable executable, const mpsgraph_array* inputs,
                                                     size_t input_count, mpsgraph_array* results, size_t result_count);
/* Like mpsgraph_executable_run(), but cancels a run that takes longer than `seconds` and then returns MPSGRAPH_TIMEOUT;
 * variables have the values from before the run. A negative number means no timeout. */
MPSGRAPH_API mpsgraph_status mpsgraph_executable_run_for(mpsgraph_executable executable, const mpsgraph_array* inputs,
                                                         size_t input_count, mpsgraph_array* results,
                                                         size_t result_count, double seconds);

/* Called exactly once on a thread of the library when work has ended, after both success and failure. `status` and
 * `message` describe the outcome. `results` are owned by the library; call mpsgraph_retain() to keep a result. */
typedef void (*mpsgraph_completion)(void* context, mpsgraph_status status, const char* message,
                                    const mpsgraph_array* results, size_t result_count);

/* Starts a run and returns immediately. `results` are as in mpsgraph_executable_run(), or NULL with a count of 0; new
 * arrays are then available from mpsgraph_execution_results() and in the completion. `queue` is NULL for the device's
 * default queue. `completion` may be NULL; it is called only if this function succeeds. */
MPSGRAPH_API mpsgraph_status mpsgraph_executable_run_async(mpsgraph_executable executable, const mpsgraph_array* inputs,
                                                           size_t input_count, const mpsgraph_array* results,
                                                           size_t result_count, mpsgraph_queue queue,
                                                           mpsgraph_completion completion, void* context,
                                                           mpsgraph_execution* execution);
/* Waits until a run is done and returns its error, or MPSGRAPH_TIMEOUT if it takes longer than `seconds`; a negative
 * number means no timeout. */
MPSGRAPH_API mpsgraph_status mpsgraph_execution_wait(mpsgraph_execution execution, double seconds);
/* Cancels a run without waiting for its end. Unless the run ends first, it fails with MPSGRAPH_DEVICE_ERROR, and
 * variables have the values from before the run. */
MPSGRAPH_API mpsgraph_status mpsgraph_execution_cancel(mpsgraph_execution execution);
/* Waits without a timeout and returns the results of a run. The caller must release each of them. */
MPSGRAPH_API mpsgraph_status mpsgraph_execution_results(mpsgraph_execution execution, mpsgraph_array* results,
                                                        size_t result_count);

/* ---- queues, command buffers and shared events ---- */

/* Creates a queue, which executes committed command buffers in order. Several queues run concurrently. */
MPSGRAPH_API mpsgraph_status mpsgraph_queue_create(mpsgraph_device device, mpsgraph_queue* queue);
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_create(mpsgraph_queue queue, mpsgraph_command_buffer* buffer);
/* Appends a run of an executable. `results` are as in mpsgraph_executable_run(); the contents of new arrays are valid
 * once the command buffer is completed. */
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_encode(mpsgraph_command_buffer buffer,
                                                            mpsgraph_executable executable,
                                                            const mpsgraph_array* inputs, size_t input_count,
                                                            mpsgraph_array* results, size_t result_count);
/* Makes all work encoded afterwards wait until the event reaches `value`. The command buffer fails if this takes longer
 * than 60 seconds. */
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_wait_for_event(mpsgraph_command_buffer buffer,
                                                                    mpsgraph_event event, uint64_t value);
/* Raises the event to `value` once everything that was encoded before is done. */
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_signal_event(mpsgraph_command_buffer buffer, mpsgraph_event event,
                                                                  uint64_t value);
/* Adds a function to be called when the command buffer has ended. It receives no results. */
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_add_completion(mpsgraph_command_buffer buffer,
                                                                    mpsgraph_completion completion, void* context);
/* Submits the command buffer to its queue. It can be committed only once, and nothing can be encoded afterwards. */
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_commit(mpsgraph_command_buffer buffer);
/* Waits until a committed command buffer is completed. Returns its error, or MPSGRAPH_TIMEOUT if it takes longer than
 * `seconds`; a negative number means no timeout. */
MPSGRAPH_API mpsgraph_status mpsgraph_command_buffer_wait(mpsgraph_command_buffer buffer, double seconds);
/* Creates a shared event: a number, initially 0, that only increases. It orders the work of queues and the host. */
MPSGRAPH_API mpsgraph_status mpsgraph_event_create(mpsgraph_event* event);
MPSGRAPH_API mpsgraph_status mpsgraph_event_value(mpsgraph_event event, uint64_t* value);
/* Raises the event to `value`; does nothing if the event has already reached it. */
MPSGRAPH_API mpsgraph_status mpsgraph_event_signal(mpsgraph_event event, uint64_t value);
/* Waits until the event reaches `value`. Returns MPSGRAPH_TIMEOUT if this takes longer than `seconds`; a negative
 * number means no timeout. Returns MPSGRAPH_DEVICE_ERROR if the command buffer that should have signaled the value
 * failed. */
MPSGRAPH_API mpsgraph_status mpsgraph_event_wait(mpsgraph_event event, uint64_t value, double seconds);

/* ---- training ---- */

/* Creates a trainer whose step feeds these tensors in this order, computes the loss, which must have one element, and
 * executes the updates. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_create(mpsgraph_graph graph, const mpsgraph_tensor* feeds,
                                                     size_t feed_count, mpsgraph_tensor loss,
                                                     const mpsgraph_operation* updates, size_t update_count,
                                                     mpsgraph_trainer* trainer);
/* Runs one training step on arrays in the order of the feeds. `loss` may be NULL. */
MPSGRAPH_API mpsgraph_status mpsgraph_train_step(mpsgraph_trainer trainer, const mpsgraph_array* feeds,
                                                 size_t feed_count, double* loss);

/* Opens the package of a trainer, as mpsgraph.save(path, trainer) in Python writes it. Its steps continue from the
 * saved state with bit-identical results. The trainer's graph contains all of this state, including schedules, random
 * numbers and counters. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_open(const char* path, mpsgraph_device device, mpsgraph_trainer* trainer);
/* Returns the trainer's graph with a new reference, which the caller must release. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_graph(mpsgraph_trainer trainer, mpsgraph_graph* graph);
/* Return the names and types of a batch's arrays, such as "inputs" and "labels", and the names of a step's results:
 * "loss", followed by metrics. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_input_count(mpsgraph_trainer trainer, size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_input_name_at(mpsgraph_trainer trainer, size_t index, char* buffer,
                                                            size_t capacity, size_t* length);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_input_type(mpsgraph_trainer trainer, size_t index, mpsgraph_type* type);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_result_count(mpsgraph_trainer trainer, size_t* count);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_result_name_at(mpsgraph_trainer trainer, size_t index, char* buffer,
                                                             size_t capacity, size_t* length);
/* Runs one training step on a batch. `names` has the name of each array; if it is NULL, the arrays are in the order of
 * the inputs. Stores the first `result_count` results, starting with the loss. Returns MPSGRAPH_OUT_OF_RANGE if the
 * package's learning rate schedule has no rate for this step. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_train_step(mpsgraph_trainer trainer, const char* const* names,
                                                         const mpsgraph_array* inputs, size_t input_count,
                                                         double* results, size_t result_count);
/* Computes the results of mpsgraph_trainer_train_step() for a batch in inference mode, without a step. Results that
 * exist only in training, such as "loss_scale", are NaN. Returns MPSGRAPH_UNSUPPORTED if the package has no function
 * "evaluate", or if the trainer was not opened from a package. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_evaluate(mpsgraph_trainer trainer, const char* const* names,
                                                       const mpsgraph_array* inputs, size_t input_count,
                                                       double* results, size_t result_count);
/* Computes the model's outputs in inference mode from its inputs alone. `results` are as in
 * mpsgraph_executable_run(). */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_predict(mpsgraph_trainer trainer, const char* const* names,
                                                      const mpsgraph_array* inputs, size_t input_count,
                                                      mpsgraph_array* results, size_t result_count);
/* Stores the number of completed steps. Returns MPSGRAPH_UNSUPPORTED if the trainer was not opened from a package. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_step_count(mpsgraph_trainer trainer, int64_t* count);
/* Return or set the learning rate of the next step. Setting the rate replaces the schedule from the next step on. Both
 * functions return MPSGRAPH_UNSUPPORTED if the trainer was not opened from a package. Setting the rate also returns
 * MPSGRAPH_UNSUPPORTED if the trainer has several rates. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_learning_rate(mpsgraph_trainer trainer, double* rate);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_set_learning_rate(mpsgraph_trainer trainer, double rate);
/* Save a package from which Python, C++, and C can continue training, or set the trainer's state from a package that
 * was saved from this trainer. */
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_save(mpsgraph_trainer trainer, const char* path);
MPSGRAPH_API mpsgraph_status mpsgraph_trainer_load_state(mpsgraph_trainer trainer, const char* path);

#ifdef __cplusplus
}
#endif

#include "mpsgraph/function_table.h"

#endif
