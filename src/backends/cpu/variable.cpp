// The first value of a variable becomes memory of its own.
#include "backends/cpu/variable.h"

namespace mpsgraph::cpu {

CpuVariable::CpuVariable(const ConstantPtr& value) : array_(runtime::NDArray::allocate(value->dtype(), value->dims())) {
  value->expand_into(array_.data());
}

}  // namespace mpsgraph::cpu
