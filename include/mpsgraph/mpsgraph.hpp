// The C++ classes of the core in one include: build a graph, differentiate it, compile it, run it.
//
// Programs that extend the library include <mpsgraph/mpsgraph.hpp> and link mpsgraph::mpsgraph; applications need no
// more than mpsgraph.h or application.hpp. What is not below include/mpsgraph is internal: neither installed nor
// exported. Backends are reached only through runtime::Device.
#pragma once

#include "mpsgraph/compiler/options.h"
#include "mpsgraph/compiler/quantization.h"
#include "mpsgraph/compiler/threaded_callable.h"
#include "mpsgraph/core/attributes.h"
#include "mpsgraph/core/autocast.h"
#include "mpsgraph/core/builder.h"
#include "mpsgraph/core/check_error.h"
#include "mpsgraph/core/custom.h"
#include "mpsgraph/core/errors.h"
#include "mpsgraph/core/gradients.h"
#include "mpsgraph/core/graph.h"
#include "mpsgraph/core/text.h"
#include "mpsgraph/core/types.h"
#include "mpsgraph/runtime/command_buffer.h"
#include "mpsgraph/runtime/command_queue.h"
#include "mpsgraph/runtime/custom_library.h"
#include "mpsgraph/runtime/device.h"
#include "mpsgraph/runtime/device_graph.h"
#include "mpsgraph/runtime/dlpack.h"
#include "mpsgraph/runtime/exchange.h"
#include "mpsgraph/runtime/executable.h"
#include "mpsgraph/runtime/execution.h"
#include "mpsgraph/runtime/inference.h"
#include "mpsgraph/runtime/ndarray.h"
#include "mpsgraph/runtime/package.h"
#include "mpsgraph/runtime/printing.h"
#include "mpsgraph/runtime/process.h"
#include "mpsgraph/runtime/profiler.h"
#include "mpsgraph/runtime/serialized_executable.h"
#include "mpsgraph/runtime/shared_event.h"
#include "mpsgraph/runtime/threads.h"
#include "mpsgraph/runtime/training_step.h"
