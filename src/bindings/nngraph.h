// The older interface, over its three files: what they hand each other.
#pragma once

#include "bindings/bindings.h"
#include "nngraph/data_source.h"

namespace mpsgraph::bindings {

void define_nngraph_states(py::module_& module);   // and optimizers
void define_nngraph_sources(py::module_& module);
// A data source of ours, or of the user's in Python; null for None. GraphError when it lacks a method.
std::shared_ptr<nngraph::DataSource> to_source(const py::object& object, nngraph::DataSource::Kind kind);

}  // namespace mpsgraph::bindings
