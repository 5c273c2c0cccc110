// Rules of simplify for rows looked up in a table, and for their gradients.
#pragma once

#include "compiler/rule.h"

namespace mpsgraph::compiler {

// Operations that move whole rows move the indices instead.
Tensor* moved_lookup(Site&);  // for transpose and reshape
Tensor* moved_gradient(Site&);  // for gather_gradient

// If a table has fewer rows than are looked up in it, the table's rows are multiplied instead.
Tensor* product_of_lookup(Site&);  // for matrix_multiplication: the looked-up rows times weights
Tensor* bias_of_lookup(Site&);  // for addition
// For matrix_multiplication: the looked-up rows times their incoming gradients.
Tensor* weights_gradient_of_lookup(Site&);
Tensor* gradient_of_product(Site&);  // for gather_gradient

}  // namespace mpsgraph::compiler
