// Declarations shared by the three files that bind the legacy MPSNNGraph API.
#pragma once

#include "bindings/bindings.h"
#include "nngraph/data_source.h"

namespace mpsgraph::bindings {

void define_nngraph_states(Module& module);   // also defines optimizers
void define_nngraph_sources(Module& module);
// Returns a built-in data source, or a wrapper around a Python object; null for None. Throws GraphError if the object
// lacks a required method.
std::shared_ptr<nngraph::DataSource> to_source(const py::object& object, nngraph::DataSource::Kind kind);

}  // namespace mpsgraph::bindings
