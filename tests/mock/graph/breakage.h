// Places at which the mock's MPSGraph can be broken (faults.h). Without a fault, these functions do nothing.
#pragma once

#include "graph/graph.h"

namespace mock {

void break_building(NSString* kind, const std::vector<ResultType>& results);  // when an operation is added
void break_size();  // when an operation is refused because a tensor is too large
void break_compilation(MPSGraph* graph);
void break_run();
// Before an operation is evaluated; returns whether its evaluation is skipped.
bool break_evaluation(NSString* kind);
void break_results(NSString* kind, const Values& inputs, Values& results);

}  // namespace mock
