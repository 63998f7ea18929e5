// SPDX-License-Identifier: Apache-2.0
// The cuFile API as we see it: our own declarations of the few functions that are called here. They
// are looked up in libcufile.so.0 when the process runs; nothing is linked to it. Where a toolkit
// with cufile.h is found, a test compares them with NVIDIA's header; to include this file beside
// that one, inside a namespace, GPUSNAP_CUFILE_LINKAGE is set to 'inline namespace functions'.
// clang-format off
#pragma once

#include <sys/types.h>

#include <cstddef>

#ifndef GPUSNAP_CUFILE_LINKAGE
#define GPUSNAP_CUFILE_LINKAGE extern "C"
#endif

GPUSNAP_CUFILE_LINKAGE {

// Only those names of the library's header that are asked for here.
enum CUfileOpError { CU_FILE_SUCCESS = 0, CU_FILE_DRIVER_NOT_INITIALIZED = 5001 };
struct CUfileError {
  CUfileOpError err;
  int cu_err;  // a CUresult
};
using CUfileError_t = CUfileError;

enum CUfileFileHandleType { CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1 };
struct CUfileDescr_t {
  CUfileFileHandleType type;
  union {
    int fd;
    void* handle;
  } handle;
  const void* fs_ops;
};
using CUfileHandle_t = void*;

CUfileError_t cuFileDriverOpen();
CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle, CUfileDescr_t* description);
void cuFileHandleDeregister(CUfileHandle_t handle);
CUfileError_t cuFileBufRegister(const void* base, size_t bytes, int flags);
CUfileError_t cuFileBufDeregister(const void* base);
ssize_t cuFileWrite(CUfileHandle_t handle, const void* base, size_t bytes, off_t file_offset, off_t buffer_offset);

}  // linkage
