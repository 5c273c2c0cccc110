// prune: operations that neither a result nor an effect needs go.
//
//   %a = exponent(%x)            (gone: nothing uses it)
//   %b = negative(%x)      ->    %b = negative(%x)
#include "compiler/passes.h"

namespace mpsgraph::compiler {

void prune(Program& program) { sweep(program); }

}  // namespace mpsgraph::compiler
