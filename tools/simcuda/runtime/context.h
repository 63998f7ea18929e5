// Which device and context a thread's calls go to, and the frame that every call runs in.
#pragma once

#include "tools/simcuda/runtime/driver_api.h"
#include "tools/simcuda/runtime/errors.h"

namespace simcuda::runtime {

// Makes sure that the calling thread has a usable current context: one that the program made
// current by the driver API stays, else the primary context of the thread's device is retained
// (once in the process) and made current. After a reset the primary context is made anew.
cudaError_t enter_context(const Driver& driver);

// The same for one device, which becomes the thread's.
cudaError_t switch_to(const Driver& driver, int device);

// The primary context of a device, retained once in the process.
cudaError_t primary_context(const Driver& driver, int device, CUcontext* context);

// The device of the current context, or the thread's device while it has none.
cudaError_t device_of_thread(const Driver& driver, int* device);

// Destroys the primary context of a device. The next call of any thread makes it anew.
cudaError_t reset_device(const Driver& driver, int device);

// Runs `body(driver)` when the driver can be used; returns and remembers its error.
template <class Body>
cudaError_t with_driver(const Body& body) {
  const Driver& loaded = driver();
  return record(loaded.status == cudaSuccess ? body(loaded) : loaded.status);
}

// Likewise with a current context.
template <class Body>
cudaError_t with_context(const Body& body) {
  return with_driver([&](const Driver& loaded) {
    const cudaError_t ready = enter_context(loaded);
    return ready == cudaSuccess ? body(loaded) : ready;
  });
}

}  // namespace simcuda::runtime

// Defines a function and its twin for programs built with --default-stream per-thread. `call` may
// use `driver` and `streams`, the driver's calls under that meaning of the null stream.
#define CUDART_BOTH_STREAMS(name, suffix, parameters, call)                             \
  cudaError_t name parameters {                                                         \
    return simcuda::runtime::with_context([&](const simcuda::runtime::Driver& driver) { \
      const simcuda::runtime::StreamCalls& streams = driver.legacy;                     \
      return call;                                                                      \
    });                                                                                 \
  }                                                                                     \
  cudaError_t name##suffix parameters {                                                 \
    return simcuda::runtime::with_context([&](const simcuda::runtime::Driver& driver) { \
      const simcuda::runtime::StreamCalls& streams = driver.per_thread;                 \
      return call;                                                                      \
    });                                                                                 \
  }
