#include "tools/simcuda/machine/handlers.h"

#include <cstdlib>
#include <cstring>

namespace simcuda {

namespace baseline {
extern const Handlers kHandlers;
}
#ifdef SIMCUDA_HAVE_V3
namespace v3 {
extern const Handlers kHandlers;
}
#endif

const Handlers& baseline_handlers() {
  return baseline::kHandlers;
}

const Handlers& best_handlers() {
#ifdef SIMCUDA_HAVE_V3
  static const bool kModern = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                              __builtin_cpu_supports("bmi2");
  if (kModern) return v3::kHandlers;
#endif
  return baseline::kHandlers;
}

const Handlers& handlers() {
  static const Handlers& chosen = []() -> const Handlers& {
    const char* isa = std::getenv("SIMCUDA_ISA");
    return isa != nullptr && std::strcmp(isa, "baseline") == 0 ? baseline_handlers()
                                                               : best_handlers();
  }();
  return chosen;
}

}  // namespace simcuda
