// Compares the names and versions that the runtime asks the driver for with the toolkit's list of
// them: PFN_<name>_v<version> must exist and be the type of the function that is meant.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <type_traits>

#define DRIVER_CALL(name, version, symbol) \
  static_assert(std::is_same_v<PFN_##name##_v##version, decltype(&symbol)>, #name);
#define STREAM_CALL(name, version, symbol, per_thread_version, suffix)              \
  static_assert(std::is_same_v<PFN_##name##_v##version, decltype(&symbol)>, #name); \
  static_assert(                                                                    \
      std::is_same_v<PFN_##name##_v##per_thread_version##suffix, PFN_##name##_v##version>, #name);
#include "tools/simcuda/runtime/driver_calls.inc"
