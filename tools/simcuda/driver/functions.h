// Functions by handle, for launches and queries.
#pragma once

#include <memory>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {

// A function, or a library's kernel in the current context.
CUresult find_function(Driver& state, CUfunction handle, std::shared_ptr<Function>* function);
CUresult function_in(Driver& state, Context& context, const LibraryKernel& kernel,
                     std::shared_ptr<Function>* function);
// Most bytes of dynamic shared memory that a launch of it may ask for.
int max_dynamic_shared(const Function& function);

}  // namespace simcuda
