// Rules of the pass simplify for rows that are looked up in a table, and for the gradients of such lookups.
#pragma once

#include "compiler/rule.h"

namespace mpsgraph::compiler {

// Operations that move whole rows looked up in a table are replaced with operations that move the indices instead.
Tensor* moved_lookup(Site&);  // rule for transpose and reshape
Tensor* moved_gradient(Site&);  // rule for gather_gradient

// If more rows are looked up in a table than the table has, multiply the table's rows instead of the looked-up rows.
Tensor* product_of_lookup(Site&);  // rule for matrix_multiplication: the looked-up rows times weights
Tensor* bias_of_lookup(Site&);  // rule for addition
// Rule for a matrix_multiplication that computes the weights' gradient from looked-up rows and their incoming
// gradients. The gradients are first summed per row of the table, so that the table takes the place of the looked-up
// rows.
Tensor* weights_gradient_of_lookup(Site&);
Tensor* gradient_of_product(Site&);  // rule for gather_gradient

}  // namespace mpsgraph::compiler
