#include "tools/simcuda/machine/handlers.h"

namespace simcuda {

namespace baseline {
extern const Handlers kHandlers;
}
#ifdef SIMCUDA_HAVE_V3
namespace v3 {
extern const Handlers kHandlers;
}
#endif

const Handlers& handlers() {
#ifdef SIMCUDA_HAVE_V3
  static const bool kModern = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                              __builtin_cpu_supports("bmi2");
  if (kModern) return v3::kHandlers;
#endif
  return baseline::kHandlers;
}

}  // namespace simcuda
