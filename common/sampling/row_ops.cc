#include "common/sampling/row_ops.h"

namespace baton::sampling {

const RowOps& row_ops(device::Isa isa) {
  switch (isa) {
    case device::Isa::kScalar:
      return kRowOpsScalar;
    case device::Isa::kAvx2:
      return kRowOpsAvx2;
    case device::Isa::kAvx512:
    case device::Isa::kAmx:  // tiles have nothing to offer here
      return kRowOpsAvx512;
  }
  return kRowOpsScalar;
}

}  // namespace baton::sampling
