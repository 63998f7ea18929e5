// The order in which a function's operations are laid out.
//
// A warp runs its group of lanes that is earliest in the code, so lanes that branch apart meet
// where they must only if all code between is before that place. Compilers put code that is seldom
// needed after it, and let loops go on from the middle: such functions are laid out anew.
#pragma once

#include "tools/simcuda/machine/code.h"

namespace simcuda {

void order_for_meeting(CodeFunction& function);

}  // namespace simcuda
