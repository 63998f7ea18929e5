// Entry points by name, version and kind of null stream.

#include <algorithm>
#include <array>
#include <cstring>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

struct Entry {
  const char* name;
  int since;  // 1000 * major + 10 * minor
  void* plain;
  void* per_thread;  // null: the call has no such form
};

template <class F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}

const auto kEntries = std::to_array<Entry>({
#define SIMCUDA_PLAIN(name, since, symbol) {#name, since, address(symbol), nullptr},
#define SIMCUDA_BOTH(name, since, symbol, per_thread, count) \
  {#name, since, address(symbol), address(per_thread)},
#include "tools/simcuda/driver/calls.inc"
#undef SIMCUDA_PLAIN
#undef SIMCUDA_BOTH
});

// Functions that a driver of a later version has, beyond what anybody here declares: a form of a
// known name with another signature, and a name of its own.
CUresult launch_host_func(CUstream stream, CUhostFn function, void* user, unsigned) {
  return cuLaunchHostFunc(stream, function, user);
}
CUresult launch_host_func_ptsz(CUstream stream, CUhostFn function, void* user, unsigned) {
  return cuLaunchHostFunc_ptsz(stream, function, user);
}
CUresult stream_weight(CUstream, double factor, unsigned* weight) {
  if (weight == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *weight = static_cast<unsigned>(100 * factor);
  return CUDA_SUCCESS;
}
const auto kLater = std::to_array<Entry>({
    {"cuLaunchHostFunc", 13010, address(launch_host_func), address(launch_host_func_ptsz)},
    {"cuStreamGetWeight", 13010, address(stream_weight), nullptr},
});

// `status` is told whether a name is unknown or its version too old; the result is the same.
CUresult find_entry(const char* name, void** function, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnown =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || function == nullptr || version > driver_version() ||
      (flags & ~kKnown) != 0 || flags == kKnown) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Entry* best = nullptr;
  bool known = false;
  const auto look_at = [&](const Entry& entry) {
    if (std::strcmp(entry.name, name) != 0 || entry.since > driver_version()) return;
    known = true;
    if (entry.since <= version) best = &entry;  // rows of a name are in order of version
  };
  std::ranges::for_each(kEntries, look_at);
  std::ranges::for_each(kLater, look_at);
  if (status != nullptr) {
    *status = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  *function = nullptr;
  if (best == nullptr) return CUDA_ERROR_NOT_FOUND;
  bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  *function = per_thread && best->per_thread != nullptr ? best->per_thread : best->plain;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace simcuda

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return simcuda::find_entry(symbol, function, version, flags, nullptr);
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  return simcuda::find_entry(symbol, function, version, flags, status);
}

CUresult cuGetProcAddress_v2_ptsz(const char* symbol, void** function, int version,
                                  cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  if (flags == CU_GET_PROC_ADDRESS_DEFAULT) flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  return simcuda::find_entry(symbol, function, version, flags, status);
}
