// The driver as the runtime sees it: entry points asked of cuGetProcAddress_v2 of whatever
// libcuda.so.1 the process finds. Nothing else of the driver is touched.
#pragma once

#include "interpose/cuda/cuda_abi.h"
#include "tools/simcuda/runtime/cudart_abi.h"

namespace simcuda::runtime {

inline constexpr int kRuntimeVersion = 13000;

// Since CUDA 10.1 both APIs share their error numbers; a number that the runtime has no name for
// becomes cudaErrorUnknown.
cudaError_t from_driver(CUresult result);

// An entry point that the driver may lack; calling one that it lacks is an error, not a crash.
template <class Function>
class Entry;
template <class... Arguments>
class Entry<CUresult(Arguments...)> {
 public:
  cudaError_t operator()(Arguments... arguments) const {
    return function_ == nullptr ? cudaErrorCallRequiresNewerDriver
                                : from_driver(function_(arguments...));
  }
  void set(void* function) { function_ = reinterpret_cast<CUresult (*)(Arguments...)>(function); }

 private:
  CUresult (*function_)(Arguments...) = nullptr;
};

// The calls whose meaning depends on what the null stream is.
struct StreamCalls {
#define DRIVER_CALL(name, version, symbol)
#define STREAM_CALL(name, version, symbol, per_thread_version, suffix) \
  Entry<decltype(::symbol)> name;
#include "tools/simcuda/runtime/driver_calls.inc"
#undef STREAM_CALL
#undef DRIVER_CALL
};

struct Driver {
#define DRIVER_CALL(name, version, symbol) Entry<decltype(::symbol)> name;
#define STREAM_CALL(name, version, symbol, per_thread_version, suffix)
#include "tools/simcuda/runtime/driver_calls.inc"
#undef STREAM_CALL
#undef DRIVER_CALL
  StreamCalls legacy;      // the null stream synchronises with all blocking streams
  StreamCalls per_thread;  // the null stream is the calling thread's own
  Entry<decltype(::cuGetProcAddress_v2)> cuGetProcAddress;

  // The error of every call of the runtime while the driver cannot be used: no library, too old a
  // driver, or cuInit failed. cudaSuccess otherwise.
  cudaError_t status = cudaErrorInsufficientDriver;
};

// The process's driver, loaded and initialised by the first call. Any thread; lives for ever, since
// programs call the runtime from destructors and exit handlers.
const Driver& driver();

}  // namespace simcuda::runtime
