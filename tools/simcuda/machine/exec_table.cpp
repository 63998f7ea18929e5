#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {

extern const Handlers kHandlers;
const Handlers kHandlers = {
    .integer = integer_handler,
    .floating = floating_handler,
    .half = half_handler,
    .compare = compare_handler,
    .test = test_handler,
    .resize = resize_handler,
    .clamp = clamp_handler,
    .integer_to_float = integer_to_float_handler,
    .float_to_integer = float_to_integer_handler,
    .integral = integral_handler,
    .float_to_float = float_to_float_handler,
    .to_half = to_half_handler,
    .from_half = from_half_handler,
    .to_float8 = to_float8_handler,
    .from_float8 = from_float8_handler,
    .to_tf32 = to_tf32_handler,
    .rounded = rounded,
    .predicate = predicate,
    .load = load_handler,
    .store = store_handler,
    .atomic = atomic_handler,
    .pack_wide = pack_wide,
    .unpack_wide = unpack_wide,
    .move_wide = move_wide,
    .locate = locate,
};

}  // namespace simcuda::SIMCUDA_ISA
