// Output of kernels: vprintf, by the rules of CUDA's printf().
#pragma once

#include <string>

#include "tools/simcuda/machine/op.h"

namespace simcuda {

// Appends to `text` what a lane prints by the format at one generic address with the arguments at
// another. Data that cannot be read is printed as '?'. Returns what printf() does on the device:
// the number of arguments, -1 where there is no format.
int32_t format(const WarpView& warp, uint32_t lane, uint64_t format, uint64_t arguments,
               std::string& text);

}  // namespace simcuda
