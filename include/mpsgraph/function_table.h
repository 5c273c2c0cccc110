// Made by tools/function_table.py: the functions of mpsgraph.h in a table that only grows at its end.
#ifndef MPSGRAPH_FUNCTION_TABLE_H
#define MPSGRAPH_FUNCTION_TABLE_H

#include "mpsgraph/mpsgraph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
typedef struct mpsgraph_functions {
  size_t size; /* of the library's table: what lies behind it is not there */
  mpsgraph_status (*retain)(void* handle);
  mpsgraph_status (*release)(void* handle);
  const char* (*error_message)(void);
  const char* (*status_name)(mpsgraph_status status);
  const char* (*version)(void);
  mpsgraph_status (*thread_count)(int32_t* count);
  mpsgraph_status (*set_thread_count)(int32_t count);
  mpsgraph_status (*get_memory_statistics)(mpsgraph_memory_statistics* statistics);
  mpsgraph_status (*set_memory_cache_limit)(uint64_t bytes);
  mpsgraph_status (*device_count)(size_t* count);
  mpsgraph_status (*device_name_at)(size_t index, char* buffer, size_t capacity, size_t* length);
  mpsgraph_status (*device_open)(const char* name, mpsgraph_device* device);
  mpsgraph_status (*device_name)(mpsgraph_device device, char* buffer, size_t capacity, size_t* length);
  mpsgraph_status (*device_description)(mpsgraph_device device, char* buffer, size_t capacity, size_t* length);
  mpsgraph_status (*array_create)(const mpsgraph_type* type, mpsgraph_array* array);
  mpsgraph_status (*array_from_memory)(const mpsgraph_type* type, const int64_t* strides, void* data, size_t bytes,
      int32_t writable, mpsgraph_deleter deleter, void* context, mpsgraph_array* array);
  mpsgraph_status (*array_from_dlpack)(struct DLManagedTensor* managed, mpsgraph_array* array);
  mpsgraph_status (*array_to_dlpack)(mpsgraph_array array, struct DLManagedTensor** managed);
  mpsgraph_status (*array_from_dlpack_versioned)(struct DLManagedTensorVersioned* managed, mpsgraph_array* array);
  mpsgraph_status (*array_to_dlpack_versioned)(mpsgraph_array array, struct DLManagedTensorVersioned** managed);
  mpsgraph_status (*array_type)(mpsgraph_array array, mpsgraph_type* type);
  mpsgraph_status (*array_strides)(mpsgraph_array array, int64_t* strides, size_t capacity);
  mpsgraph_status (*array_data)(mpsgraph_array array, void** data, size_t* bytes);
  mpsgraph_status (*array_read)(mpsgraph_array array, void* destination, size_t bytes);
  mpsgraph_status (*array_write)(mpsgraph_array array, const void* source, size_t bytes);
  mpsgraph_status (*graph_create)(mpsgraph_device device, mpsgraph_graph* graph);
  mpsgraph_status (*graph_open)(const char* path, mpsgraph_device device, mpsgraph_graph* graph);
  mpsgraph_status (*graph_from_text)(const char* text, size_t length, mpsgraph_device device, mpsgraph_graph* graph);
  mpsgraph_status (*graph_text)(mpsgraph_graph graph, char* buffer, size_t capacity, size_t* length);
  mpsgraph_status (*graph_save)(mpsgraph_graph graph, const char* path);
  mpsgraph_status (*graph_load_state)(mpsgraph_graph graph, const char* path);
  mpsgraph_status (*graph_tensor_count)(mpsgraph_graph graph, mpsgraph_role role, size_t* count);
  mpsgraph_status (*graph_tensor_at)(mpsgraph_graph graph, mpsgraph_role role, size_t index, mpsgraph_tensor* tensor);
  mpsgraph_status (*graph_name_at)(mpsgraph_graph graph, mpsgraph_role role, size_t index, char* buffer,
      size_t capacity, size_t* length);
  mpsgraph_status (*graph_find)(mpsgraph_graph graph, mpsgraph_role role, const char* name, mpsgraph_tensor* tensor);
  mpsgraph_status (*graph_find_operation)(mpsgraph_graph graph, const char* name, mpsgraph_operation* operation);
  mpsgraph_status (*graph_set_name)(mpsgraph_graph graph, mpsgraph_role role, const char* name,
      mpsgraph_tensor tensor);
  mpsgraph_status (*tensor_type)(mpsgraph_tensor tensor, mpsgraph_type* type);
  mpsgraph_status (*tensor_name)(mpsgraph_tensor tensor, char* buffer, size_t capacity, size_t* length);
  mpsgraph_status (*operation_create)(mpsgraph_graph graph, const char* kind, const mpsgraph_tensor* inputs,
      size_t input_count, mpsgraph_attributes attributes, const char* name, mpsgraph_operation* operation);
  mpsgraph_status (*operation_output_count)(mpsgraph_operation operation, size_t* count);
  mpsgraph_status (*operation_output)(mpsgraph_operation operation, size_t index, mpsgraph_tensor* tensor);
  mpsgraph_status (*graph_add)(mpsgraph_graph graph, const char* kind, const mpsgraph_tensor* inputs,
      size_t input_count, mpsgraph_attributes attributes, const char* name, mpsgraph_tensor* tensor);
  mpsgraph_status (*graph_begin_control_dependencies)(mpsgraph_graph graph, const mpsgraph_operation* operations,
      size_t count);
  mpsgraph_status (*graph_end_control_dependencies)(mpsgraph_graph graph);
  mpsgraph_status (*graph_gradients)(mpsgraph_tensor of, const mpsgraph_tensor* with_respect_to, size_t count,
      mpsgraph_tensor* gradients);
  mpsgraph_status (*operation_kind_count)(size_t* count);
  mpsgraph_status (*operation_kind_at)(size_t index, char* buffer, size_t capacity, size_t* length);
  mpsgraph_status (*operation_description)(const char* kind, char* buffer, size_t capacity, size_t* length);
  mpsgraph_status (*attributes_create)(mpsgraph_attributes* attributes);
  mpsgraph_status (*attributes_set_bool)(mpsgraph_attributes attributes, const char* name, int32_t value);
  mpsgraph_status (*attributes_set_integer)(mpsgraph_attributes attributes, const char* name, int64_t value);
  mpsgraph_status (*attributes_set_real)(mpsgraph_attributes attributes, const char* name, double value);
  mpsgraph_status (*attributes_set_string)(mpsgraph_attributes attributes, const char* name, const char* value);
  mpsgraph_status (*attributes_set_integers)(mpsgraph_attributes attributes, const char* name, const int64_t* values,
      size_t count);
  mpsgraph_status (*attributes_set_dtype)(mpsgraph_attributes attributes, const char* name, mpsgraph_dtype value);
  mpsgraph_status (*attributes_set_data)(mpsgraph_attributes attributes, const char* name, mpsgraph_array value);
  mpsgraph_status (*attributes_set_type)(mpsgraph_attributes attributes, const char* name,
      const mpsgraph_type* value);
  mpsgraph_status (*attributes_set_types)(mpsgraph_attributes attributes, const char* name,
      const mpsgraph_type* values, size_t count);
  mpsgraph_status (*variable_read)(mpsgraph_tensor variable, mpsgraph_array* value);
  mpsgraph_status (*variable_write)(mpsgraph_tensor variable, mpsgraph_array value);
  mpsgraph_status (*graph_compile)(mpsgraph_graph graph, const mpsgraph_type* types, size_t type_count,
      mpsgraph_executable* executable);
  mpsgraph_status (*executable_create)(mpsgraph_graph graph, const mpsgraph_tensor* feeds,
      const mpsgraph_type* types, size_t feed_count, const mpsgraph_tensor* targets, size_t target_count,
      const mpsgraph_operation* target_operations, size_t target_operation_count, mpsgraph_executable* executable);
  mpsgraph_status (*executable_input_count)(mpsgraph_executable executable, size_t* count);
  mpsgraph_status (*executable_output_count)(mpsgraph_executable executable, size_t* count);
  mpsgraph_status (*executable_input_type)(mpsgraph_executable executable, size_t index, mpsgraph_type* type);
  mpsgraph_status (*executable_output_type)(mpsgraph_executable executable, size_t index, mpsgraph_type* type);
  mpsgraph_status (*executable_run)(mpsgraph_executable executable, const mpsgraph_array* inputs, size_t input_count,
      mpsgraph_array* results, size_t result_count);
  mpsgraph_status (*executable_run_async)(mpsgraph_executable executable, const mpsgraph_array* inputs,
      size_t input_count, const mpsgraph_array* results, size_t result_count, mpsgraph_queue queue,
      mpsgraph_completion completion, void* context, mpsgraph_execution* execution);
  mpsgraph_status (*execution_wait)(mpsgraph_execution execution, double seconds);
  mpsgraph_status (*execution_results)(mpsgraph_execution execution, mpsgraph_array* results, size_t result_count);
  mpsgraph_status (*queue_create)(mpsgraph_device device, mpsgraph_queue* queue);
  mpsgraph_status (*command_buffer_create)(mpsgraph_queue queue, mpsgraph_command_buffer* buffer);
  mpsgraph_status (*command_buffer_encode)(mpsgraph_command_buffer buffer, mpsgraph_executable executable,
      const mpsgraph_array* inputs, size_t input_count, mpsgraph_array* results, size_t result_count);
  mpsgraph_status (*command_buffer_wait_for_event)(mpsgraph_command_buffer buffer, mpsgraph_event event,
      uint64_t value);
  mpsgraph_status (*command_buffer_signal_event)(mpsgraph_command_buffer buffer, mpsgraph_event event,
      uint64_t value);
  mpsgraph_status (*command_buffer_add_completion)(mpsgraph_command_buffer buffer, mpsgraph_completion completion,
      void* context);
  mpsgraph_status (*command_buffer_commit)(mpsgraph_command_buffer buffer);
  mpsgraph_status (*command_buffer_wait)(mpsgraph_command_buffer buffer, double seconds);
  mpsgraph_status (*event_create)(mpsgraph_event* event);
  mpsgraph_status (*event_value)(mpsgraph_event event, uint64_t* value);
  mpsgraph_status (*event_signal)(mpsgraph_event event, uint64_t value);
  mpsgraph_status (*event_wait)(mpsgraph_event event, uint64_t value, double seconds);
  mpsgraph_status (*trainer_create)(mpsgraph_graph graph, const mpsgraph_tensor* feeds, size_t feed_count,
      mpsgraph_tensor loss, const mpsgraph_operation* updates, size_t update_count, mpsgraph_trainer* trainer);
  mpsgraph_status (*train_step)(mpsgraph_trainer trainer, const mpsgraph_array* feeds, size_t feed_count,
      double* loss);
  mpsgraph_status (*trainer_open)(const char* path, mpsgraph_device device, mpsgraph_trainer* trainer);
  mpsgraph_status (*trainer_graph)(mpsgraph_trainer trainer, mpsgraph_graph* graph);
  mpsgraph_status (*trainer_input_count)(mpsgraph_trainer trainer, size_t* count);
  mpsgraph_status (*trainer_input_name_at)(mpsgraph_trainer trainer, size_t index, char* buffer, size_t capacity,
      size_t* length);
  mpsgraph_status (*trainer_input_type)(mpsgraph_trainer trainer, size_t index, mpsgraph_type* type);
  mpsgraph_status (*trainer_result_count)(mpsgraph_trainer trainer, size_t* count);
  mpsgraph_status (*trainer_result_name_at)(mpsgraph_trainer trainer, size_t index, char* buffer, size_t capacity,
      size_t* length);
  mpsgraph_status (*trainer_train_step)(mpsgraph_trainer trainer, const char* const* names,
      const mpsgraph_array* inputs, size_t input_count, double* results, size_t result_count);
  mpsgraph_status (*trainer_evaluate)(mpsgraph_trainer trainer, const char* const* names,
      const mpsgraph_array* inputs, size_t input_count, double* results, size_t result_count);
  mpsgraph_status (*trainer_predict)(mpsgraph_trainer trainer, const char* const* names,
      const mpsgraph_array* inputs, size_t input_count, mpsgraph_array* results, size_t result_count);
  mpsgraph_status (*trainer_step_count)(mpsgraph_trainer trainer, int64_t* count);
  mpsgraph_status (*trainer_learning_rate)(mpsgraph_trainer trainer, double* rate);
  mpsgraph_status (*trainer_set_learning_rate)(mpsgraph_trainer trainer, double rate);
  mpsgraph_status (*trainer_save)(mpsgraph_trainer trainer, const char* path);
  mpsgraph_status (*trainer_load_state)(mpsgraph_trainer trainer, const char* path);
  mpsgraph_status (*graph_begin_block)(mpsgraph_graph graph, const mpsgraph_type* argument_types,
      size_t argument_count, mpsgraph_tensor* arguments);
  mpsgraph_status (*graph_end_block)(mpsgraph_graph graph, const mpsgraph_tensor* results, size_t result_count);
  mpsgraph_status (*graph_abandon_block)(mpsgraph_graph graph);
  mpsgraph_status (*operation_create_with_blocks)(mpsgraph_graph graph, const char* kind,
      const mpsgraph_tensor* inputs, size_t input_count, mpsgraph_attributes attributes, const char* name,
      size_t block_count, mpsgraph_operation* operation);
  mpsgraph_status (*custom_register)(const struct mpsgraph_custom_operation* operation);
  mpsgraph_status (*custom_load)(const char* path);
} mpsgraph_functions;
/* clang-format on */

/* For the interface version of the header that a program was compiled with; NULL when the library is older. */
MPSGRAPH_API const mpsgraph_functions* mpsgraph_get_functions(uint32_t interface_version);

#ifdef __cplusplus
}
#endif

#endif
