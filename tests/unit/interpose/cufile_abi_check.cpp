// SPDX-License-Identifier: Apache-2.0
// Compiles only where our declarations of cuFile say what the toolkit's header says.
#include <cuda.h>
#include <cufile.h>

#include <cstddef>
#include <type_traits>

namespace ours {
#define GPUSNAP_CUFILE_LINKAGE inline namespace functions
#include "interpose/direct/cufile_abi.h"
}  // namespace ours

static_assert(sizeof(ours::CUfileError_t) == sizeof(CUfileError_t));
static_assert(offsetof(ours::CUfileError_t, cu_err) == offsetof(CUfileError_t, cu_err));
static_assert(sizeof(ours::CUfileDescr_t) == sizeof(CUfileDescr_t));
static_assert(offsetof(ours::CUfileDescr_t, handle) == offsetof(CUfileDescr_t, handle));
static_assert(offsetof(ours::CUfileDescr_t, fs_ops) == offsetof(CUfileDescr_t, fs_ops));
static_assert(int(ours::CU_FILE_SUCCESS) == int(CU_FILE_SUCCESS));
static_assert(int(ours::CU_FILE_DRIVER_NOT_INITIALIZED) == int(CU_FILE_DRIVER_NOT_INITIALIZED));
static_assert(int(ours::CU_FILE_HANDLE_TYPE_OPAQUE_FD) == int(CU_FILE_HANDLE_TYPE_OPAQUE_FD));
static_assert(std::is_same_v<ours::CUfileHandle_t, CUfileHandle_t>);

using Bytes = const void*;
static_assert(std::is_same_v<decltype(cuFileDriverOpen), CUfileError_t()>);
static_assert(
    std::is_same_v<decltype(cuFileHandleRegister), CUfileError_t(CUfileHandle_t*, CUfileDescr_t*)>);
static_assert(std::is_same_v<decltype(cuFileHandleDeregister), void(CUfileHandle_t)>);
static_assert(std::is_same_v<decltype(cuFileBufRegister), CUfileError_t(Bytes, size_t, int)>);
static_assert(std::is_same_v<decltype(cuFileBufDeregister), CUfileError_t(Bytes)>);
static_assert(
    std::is_same_v<decltype(cuFileWrite), ssize_t(CUfileHandle_t, Bytes, size_t, off_t, off_t)>);
static_assert(std::is_same_v<decltype(ours::cuFileWrite), decltype(cuFileWrite)>);
static_assert(
    std::is_same_v<decltype(ours::cuFileBufRegister), ours::CUfileError_t(Bytes, size_t, int)>);

int main() {}
