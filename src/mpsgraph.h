// The public C++ interface of mpsgraph in one include: build a graph, differentiate it, compile it, run it.
//
// Applications include <mpsgraph/mpsgraph.h> and link mpsgraph::mpsgraph (find_package(mpsgraph)). Everything below
// core/, compiler/ and runtime/ is installed with it; backends are reached only through runtime::Device.
#pragma once

#include "compiler/program.h"
#include "core/attributes.h"
#include "core/autocast.h"
#include "core/builder.h"
#include "core/definition.h"
#include "core/errors.h"
#include "core/gradients.h"
#include "core/graph.h"
#include "core/text.h"
#include "core/types.h"
#include "runtime/command_queue.h"
#include "runtime/device.h"
#include "runtime/device_graph.h"
#include "runtime/dlpack.h"
#include "runtime/executable.h"
#include "runtime/execution.h"
#include "runtime/inference.h"
#include "runtime/ndarray.h"
#include "runtime/package.h"
#include "runtime/profiler.h"
#include "runtime/serialized_executable.h"
#include "runtime/shared_event.h"
