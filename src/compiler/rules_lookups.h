// Rules of simplify for rows that are looked up in a table, and for what comes back to them.
#pragma once

#include "compiler/rule.h"

namespace mpsgraph::compiler {

// What moves whole rows moves their indices instead.
Tensor* moved_lookup(Site&);  // of a transpose or a reshape
Tensor* moved_gradient(Site&);  // of a gather_gradient

// Fewer rows are multiplied where a table has fewer than are looked up in it.
Tensor* product_of_lookup(Site&);  // of a matrix_multiplication: by weights
Tensor* bias_of_lookup(Site&);  // of an addition
Tensor* weights_gradient_of_lookup(Site&);  // of a matrix_multiplication: the table's rows by what comes back to them
Tensor* gradient_of_product(Site&);  // of a gather_gradient

}  // namespace mpsgraph::compiler
