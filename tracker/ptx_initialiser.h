// Initial values of variables: numbers, addresses of symbols, and the byte masks of addresses.
#pragma once

#include <vector>

#include "tracker/ptx_constant.h"
#include "tracker/ptx_declaration.h"

namespace gpusnap::ptx {

// Parses what follows the equals sign into `variable`, whose type, vector, elements and size are
// set. An unsized array (dimensions[0] == 0) gets its size from its values.
bool parse_initialiser(Cursor& cursor, Variable& variable, std::vector<uint64_t> dimensions,
                       InitialBudget& budget);

}  // namespace gpusnap::ptx
