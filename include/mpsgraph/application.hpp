// The C interface as C++ classes that release their handles automatically, accept spans, and throw exceptions.
// Header-only; requires C++20.
//
// These classes need only mpsgraph.h from the library. A program compiled with them therefore works with newer versions
// of the library and with a library built by a different compiler. The classes of mpsgraph.hpp are for programs that
// extend the library. docs/cpp.md lists the headers of this folder.
#pragma once

#include "mpsgraph/application/control_flow.hpp"
#include "mpsgraph/application/custom.hpp"
#include "mpsgraph/application/training.hpp"
