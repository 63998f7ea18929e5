// Where the program gets its entry points: dlsym, dlvsym and cuGetProcAddress, which this library
// exports and answers with wrappers for hooked calls, and otherwise exactly as without us. The real
// resolver is always asked first; what it finds becomes the hook's real function.
//
// dlopen is exported, too, and passed on without RTLD_DEEPBIND: a library that is bound to what
// stands beside it before what was preloaded would not be seen.
//
// A lookup by RTLD_NEXT is never answered by us: it is how another interposing library finds what
// stands behind itself.
#pragma once

#include "interpose/cuda/cuda_abi.h"
#include "interpose/hook/hook.h"

namespace gpusnap {

// The result of a hooked call in a process without a driver: our library is then no more than the
// stub that toolkits ship to link against.
inline constexpr CUresult kNoDriver = CUDA_ERROR_STUB_LIBRARY;

// dlsym as the program would have it without us. RTLD_NEXT means behind this library.
void* real_dlsym(void* handle, const char* symbol);

// A function of the driver, hooked or not: what stands behind this library in the program's own
// order, else the loaded libcuda.so.1. Null: there is none; a driver is never loaded for it.
void* driver_symbol(const char* symbol);

// The function of that name behind us: MPI's, or that of another library that stands in between.
void* mpi_symbol(const char* symbol);

// The hooked cuGetProcAddress, _v2 and _v2_ptsz.
CUresult get_proc_address(Hook<decltype(::cuGetProcAddress)>& hook, const char* name,
                          void** function, int version, cuuint64_t flags) noexcept;
CUresult get_proc_address(Hook<decltype(::cuGetProcAddress_v2)>& hook, const char* name,
                          void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) noexcept;

}  // namespace gpusnap
