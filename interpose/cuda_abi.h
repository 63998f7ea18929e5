// The CUDA 13 driver API as we see it: our own declarations of every driver function that is hooked
// here or that the software GPU implements. Each function stands under its exported name (explicit
// _v2 and the like, no renaming macros), one a line: generate_hooks.py reads the signatures here.
// A function that exists per kind of null stream has a second line for its _ptsz or _ptds form.
// Where a toolkit is found, a test compares all of it with NVIDIA's headers; to include this file
// beside them, inside a namespace, GPUSNAP_CUDA_LINKAGE is set to 'inline namespace functions'.
// clang-format off
#pragma once

#include "interpose/cuda_types.h"

#define GPUSNAP_CUDA_VERSION 13000
#ifndef GPUSNAP_CUDA_LINKAGE
#define GPUSNAP_CUDA_LINKAGE extern "C"
#endif

GPUSNAP_CUDA_LINKAGE {

// ---- start, versions, entry points, errors --------------------------------------------------------
CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int* version);
CUresult cuGetErrorString(CUresult error, const char** text);
CUresult cuGetErrorName(CUresult error, const char** name);
CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags);
CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status);
decltype(cuGetProcAddress_v2) cuGetProcAddress_v2_ptsz;
CUresult cuGetExportTable(const void** table, const CUuuid* id);
CUresult cuProfilerStart();
CUresult cuProfilerStop();
CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs* args);
CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs* args);
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs* args);
CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs* args);

// ---- devices --------------------------------------------------------------------------------------
CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDeviceGetCount(int* count);
CUresult cuDeviceGetName(char* name, int capacity, CUdevice device);
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device);
CUresult cuDeviceGetLuid(char* luid, unsigned* node_mask, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device);
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device);
CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device);
CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* bus_id);
CUresult cuDeviceGetPCIBusId(char* bus_id, int capacity, CUdevice device);
CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer);
CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination);
CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType type, CUdevice device);
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device);

// ---- primary contexts and contexts ----------------------------------------------------------------
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active);
CUresult cuDevicePrimaryCtxReset(CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuCtxCreate(CUcontext* context, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params, unsigned flags, CUdevice device);
CUresult cuCtxDestroy(CUcontext context);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxAttach(CUcontext* context, unsigned flags);
CUresult cuCtxDetach(CUcontext context);
CUresult cuCtxPushCurrent(CUcontext context);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent(CUcontext* context);
CUresult cuCtxPopCurrent_v2(CUcontext* context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext* context);
CUresult cuCtxGetDevice(CUdevice* device);
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context);
CUresult cuCtxGetFlags(unsigned* flags);
CUresult cuCtxSetFlags(unsigned flags);
CUresult cuCtxGetId(CUcontext context, unsigned long long* id);
CUresult cuCtxSynchronize();
CUresult cuCtxSynchronize_v2(CUcontext context);
CUresult cuCtxSetLimit(CUlimit limit, size_t value);
CUresult cuCtxGetLimit(size_t* value, CUlimit limit);
CUresult cuCtxGetCacheConfig(CUfunc_cache* config);
CUresult cuCtxSetCacheConfig(CUfunc_cache config);
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config);
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config);
CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version);
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest);
CUresult cuCtxResetPersistingL2Cache();
CUresult cuCtxGetExecAffinity(CUexecAffinityParam* affinity, CUexecAffinityType type);
CUresult cuCtxRecordEvent(CUcontext context, CUevent event);
CUresult cuCtxWaitEvent(CUcontext context, CUevent event);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
CUresult cuCtxDisablePeerAccess(CUcontext peer);

// ---- modules, libraries, functions ----------------------------------------------------------------
CUresult cuModuleLoad(CUmodule* module, const char* path);
CUresult cuModuleLoadData(CUmodule* module, const void* image);
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values);
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode);
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name);
CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module);
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned capacity, CUmodule module);
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name);
CUresult cuModuleGetTexRef(CUtexref* reference, CUmodule module, const char* name);
CUresult cuModuleGetSurfRef(CUsurfref* reference, CUmodule module, const char* name);
CUresult cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values, CUlinkState* state);
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name, unsigned count, CUjit_option* options, void** values);
CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned count, CUjit_option* options, void** values);
CUresult cuLinkComplete(CUlinkState state, void** image, size_t* size);
CUresult cuLinkDestroy(CUlinkState state);
CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options, void** jit_values, unsigned jit_count, CUlibraryOption* options, void** values, unsigned count);
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* jit_options, void** jit_values, unsigned jit_count, CUlibraryOption* options, void** values, unsigned count);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name);
CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library);
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned capacity, CUlibrary library);
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library);
CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name);
CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name);
CUresult cuLibraryGetUnifiedFunction(void** function, CUlibrary library, const char* name);
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel);
CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel);
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device);
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device);
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device);
CUresult cuKernelGetName(const char** name, CUkernel kernel);
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size);
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function);
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config);
CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config);
CUresult cuFuncGetModule(CUmodule* module, CUfunction function);
CUresult cuFuncGetName(const char** name, CUfunction function);
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size);
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function);
CUresult cuFuncLoad(CUfunction function);

// ---- memory ---------------------------------------------------------------------------------------
CUresult cuMemGetInfo_v2(size_t* free, size_t* total);
CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size);
CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height, unsigned element_size);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address);
CUresult cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags);
CUresult cuMemAllocHost_v2(void** memory, size_t size);
CUresult cuMemHostAlloc(void** memory, size_t size, unsigned flags);
CUresult cuMemFreeHost(void* memory);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory, unsigned flags);
CUresult cuMemHostGetFlags(unsigned* flags, void* memory);
CUresult cuMemHostRegister(void* memory, size_t size, unsigned flags);
CUresult cuMemHostRegister_v2(void* memory, size_t size, unsigned flags);
CUresult cuMemHostUnregister(void* memory);
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address);
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values, CUdeviceptr address);
CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address);
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t size, CUmemRangeHandleType type, unsigned long long flags);
CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event);
CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle);
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address);
CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr address);

// The forms of CUDA 2, with 32-bit addresses.
CUresult cuMemAlloc(unsigned* address, unsigned size);
CUresult cuMemAllocPitch(unsigned* address, unsigned* pitch, unsigned width, unsigned height, unsigned element_size);
CUresult cuMemAllocHost(void** memory, unsigned size);
CUresult cuMemHostGetDevicePointer(unsigned* address, void* memory, unsigned flags);
CUresult cuModuleGetGlobal(unsigned* address, unsigned* bytes, CUmodule module, const char* name);

// ---- managed memory -------------------------------------------------------------------------------
CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t size, CUdevice device, CUstream stream);
decltype(cuMemPrefetchAsync) cuMemPrefetchAsync_ptsz;
CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags, CUstream stream);
decltype(cuMemPrefetchAsync_v2) cuMemPrefetchAsync_v2_ptsz;
CUresult cuMemPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count, CUmemLocation* locations, size_t* location_indices, size_t location_count, unsigned long long flags, CUstream stream);
decltype(cuMemPrefetchBatchAsync) cuMemPrefetchBatchAsync_ptsz;
CUresult cuMemDiscardBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count, unsigned long long flags, CUstream stream);
decltype(cuMemDiscardBatchAsync) cuMemDiscardBatchAsync_ptsz;
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* addresses, size_t* sizes, size_t count, CUmemLocation* locations, size_t* location_indices, size_t location_count, unsigned long long flags, CUstream stream);
decltype(cuMemDiscardAndPrefetchBatchAsync) cuMemDiscardAndPrefetchBatchAsync_ptsz;
CUresult cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device);
CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location);
CUresult cuMemRangeGetAttribute(void* value, size_t value_size, CUmem_range_attribute attribute, CUdeviceptr address, size_t size);
CUresult cuMemRangeGetAttributes(void** values, size_t* value_sizes, CUmem_range_attribute* attributes, size_t count, CUdeviceptr address, size_t size);
CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t length, unsigned flags);
decltype(cuStreamAttachMemAsync) cuStreamAttachMemAsync_ptsz;

// ---- stream-ordered memory and pools --------------------------------------------------------------
CUresult cuMemAllocAsync(CUdeviceptr* address, size_t size, CUstream stream);
decltype(cuMemAllocAsync) cuMemAllocAsync_ptsz;
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t size, CUmemoryPool pool, CUstream stream);
decltype(cuMemAllocFromPoolAsync) cuMemAllocFromPoolAsync_ptsz;
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
decltype(cuMemFreeAsync) cuMemFreeAsync_ptsz;
CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties);
CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* accesses, size_t count);
CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* location);
CUresult cuMemPoolExportToShareableHandle(void* handle, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags);
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* handle, CUmemAllocationHandleType type, unsigned long long flags);
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr address);
CUresult cuMemPoolImportPointer(CUdeviceptr* address, CUmemoryPool pool, CUmemPoolPtrExportData* data);
CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type);
CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type);
CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool);

// ---- virtual memory -------------------------------------------------------------------------------
CUresult cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr address, size_t size);
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* properties, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult cuMemMapArrayAsync(CUarrayMapInfo* infos, unsigned count, CUstream stream);
decltype(cuMemMapArrayAsync) cuMemMapArrayAsync_ptsz;
CUresult cuMemUnmap(CUdeviceptr address, size_t size);
CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* accesses, size_t count);
CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address);
CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable, CUmemAllocationHandleType type);
CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties, CUmemAllocationGranularity_flags option);
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address);
CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* properties);
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device);
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t offset, CUmemGenericAllocationHandle memory, size_t memory_offset, size_t size, unsigned long long flags);
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t offset, CUdeviceptr address, size_t size, unsigned long long flags);
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle multicast, CUdevice device, size_t offset, size_t size);
CUresult cuMulticastGetGranularity(size_t* granularity, const CUmulticastObjectProp* properties, CUmulticastGranularity_flags option);

// ---- copies ---------------------------------------------------------------------------------------
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size);
decltype(cuMemcpy) cuMemcpy_ptds;
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
decltype(cuMemcpyAsync) cuMemcpyAsync_ptsz;
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t size);
decltype(cuMemcpyHtoD_v2) cuMemcpyHtoD_v2_ptds;
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream stream);
decltype(cuMemcpyHtoDAsync_v2) cuMemcpyHtoDAsync_v2_ptsz;
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t size);
decltype(cuMemcpyDtoH_v2) cuMemcpyDtoH_v2_ptds;
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream stream);
decltype(cuMemcpyDtoHAsync_v2) cuMemcpyDtoHAsync_v2_ptsz;
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size);
decltype(cuMemcpyDtoD_v2) cuMemcpyDtoD_v2_ptds;
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream);
decltype(cuMemcpyDtoDAsync_v2) cuMemcpyDtoDAsync_v2_ptsz;
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size);
decltype(cuMemcpyPeer) cuMemcpyPeer_ptds;
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size, CUstream stream);
decltype(cuMemcpyPeerAsync) cuMemcpyPeerAsync_ptsz;
CUresult cuMemcpyDtoA_v2(CUarray to, size_t to_offset, CUdeviceptr from, size_t size);
decltype(cuMemcpyDtoA_v2) cuMemcpyDtoA_v2_ptds;
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t from_offset, size_t size);
decltype(cuMemcpyAtoD_v2) cuMemcpyAtoD_v2_ptds;
CUresult cuMemcpyHtoA_v2(CUarray to, size_t to_offset, const void* from, size_t size);
decltype(cuMemcpyHtoA_v2) cuMemcpyHtoA_v2_ptds;
CUresult cuMemcpyAtoH_v2(void* to, CUarray from, size_t from_offset, size_t size);
decltype(cuMemcpyAtoH_v2) cuMemcpyAtoH_v2_ptds;
CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size);
decltype(cuMemcpyAtoA_v2) cuMemcpyAtoA_v2_ptds;
CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t to_offset, const void* from, size_t size, CUstream stream);
decltype(cuMemcpyHtoAAsync_v2) cuMemcpyHtoAAsync_v2_ptsz;
CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t from_offset, size_t size, CUstream stream);
decltype(cuMemcpyAtoHAsync_v2) cuMemcpyAtoHAsync_v2_ptsz;
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy);
decltype(cuMemcpy2D_v2) cuMemcpy2D_v2_ptds;
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy);
decltype(cuMemcpy2DUnaligned_v2) cuMemcpy2DUnaligned_v2_ptds;
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream);
decltype(cuMemcpy2DAsync_v2) cuMemcpy2DAsync_v2_ptsz;
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy);
decltype(cuMemcpy3D_v2) cuMemcpy3D_v2_ptds;
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream);
decltype(cuMemcpy3DAsync_v2) cuMemcpy3DAsync_v2_ptsz;
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy);
decltype(cuMemcpy3DPeer) cuMemcpy3DPeer_ptds;
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream);
decltype(cuMemcpy3DPeerAsync) cuMemcpy3DPeerAsync_ptsz;
CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count, CUmemcpyAttributes* attributes, size_t* attribute_indices, size_t attribute_count, size_t* fail_index, CUstream stream);
decltype(cuMemcpyBatchAsync) cuMemcpyBatchAsync_ptsz;
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count, CUmemcpyAttributes* attributes, size_t* attribute_indices, size_t attribute_count, CUstream stream);
decltype(cuMemcpyBatchAsync_v2) cuMemcpyBatchAsync_v2_ptsz;
CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, size_t* fail_index, unsigned long long flags, CUstream stream);
decltype(cuMemcpy3DBatchAsync) cuMemcpy3DBatchAsync_ptsz;
CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, unsigned long long flags, CUstream stream);
decltype(cuMemcpy3DBatchAsync_v2) cuMemcpy3DBatchAsync_v2_ptsz;
CUresult cuMemBatchDecompressAsync(CUmemDecompressParams* params, size_t count, unsigned flags, size_t* error_index, CUstream stream);
decltype(cuMemBatchDecompressAsync) cuMemBatchDecompressAsync_ptsz;

// ---- sets -----------------------------------------------------------------------------------------
CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t count);
decltype(cuMemsetD8_v2) cuMemsetD8_v2_ptds;
CUresult cuMemsetD16_v2(CUdeviceptr address, unsigned short value, size_t count);
decltype(cuMemsetD16_v2) cuMemsetD16_v2_ptds;
CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned value, size_t count);
decltype(cuMemsetD32_v2) cuMemsetD32_v2_ptds;
CUresult cuMemsetD2D8_v2(CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height);
decltype(cuMemsetD2D8_v2) cuMemsetD2D8_v2_ptds;
CUresult cuMemsetD2D16_v2(CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t height);
decltype(cuMemsetD2D16_v2) cuMemsetD2D16_v2_ptds;
CUresult cuMemsetD2D32_v2(CUdeviceptr address, size_t pitch, unsigned value, size_t width, size_t height);
decltype(cuMemsetD2D32_v2) cuMemsetD2D32_v2_ptds;
CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream);
decltype(cuMemsetD8Async) cuMemsetD8Async_ptsz;
CUresult cuMemsetD16Async(CUdeviceptr address, unsigned short value, size_t count, CUstream stream);
decltype(cuMemsetD16Async) cuMemsetD16Async_ptsz;
CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, CUstream stream);
decltype(cuMemsetD32Async) cuMemsetD32Async_ptsz;
CUresult cuMemsetD2D8Async(CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream);
decltype(cuMemsetD2D8Async) cuMemsetD2D8Async_ptsz;
CUresult cuMemsetD2D16Async(CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream);
decltype(cuMemsetD2D16Async) cuMemsetD2D16Async_ptsz;
CUresult cuMemsetD2D32Async(CUdeviceptr address, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream);
decltype(cuMemsetD2D32Async) cuMemsetD2D32Async_ptsz;

// ---- launches -------------------------------------------------------------------------------------
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** params, void** extra);
decltype(cuLaunchKernel) cuLaunchKernel_ptsz;
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params, void** extra);
decltype(cuLaunchKernelEx) cuLaunchKernelEx_ptsz;
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** params);
decltype(cuLaunchCooperativeKernel) cuLaunchCooperativeKernel_ptsz;
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launches, unsigned count, unsigned flags);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* user);
decltype(cuLaunchHostFunc) cuLaunchHostFunc_ptsz;
CUresult cuLaunch(CUfunction function);
CUresult cuLaunchGrid(CUfunction function, int width, int height);
CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream);
CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z);
CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes);
CUresult cuParamSetSize(CUfunction function, unsigned bytes);
CUresult cuParamSeti(CUfunction function, int offset, unsigned value);
CUresult cuParamSetf(CUfunction function, int offset, float value);
CUresult cuParamSetv(CUfunction function, int offset, void* value, unsigned bytes);
CUresult cuParamSetTexRef(CUfunction function, int unit, CUtexref reference);

// ---- occupancy ------------------------------------------------------------------------------------
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int block_size, size_t shared_bytes);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int block_size, size_t shared_bytes, unsigned flags);
CUresult cuOccupancyMaxPotentialBlockSize(int* min_grid, int* block_size, CUfunction function, CUoccupancyB2DSize shared_of_block, size_t shared_bytes, int limit);
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* min_grid, int* block_size, CUfunction function, CUoccupancyB2DSize shared_of_block, size_t shared_bytes, int limit, unsigned flags);
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* shared_bytes, CUfunction function, int blocks, int block_size);
CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function, const CUlaunchConfig* config);
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config);

// ---- streams --------------------------------------------------------------------------------------
CUresult cuStreamCreate(CUstream* stream, unsigned flags);
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority);
CUresult cuStreamDestroy(CUstream stream);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamGetPriority(CUstream stream, int* priority);
decltype(cuStreamGetPriority) cuStreamGetPriority_ptsz;
CUresult cuStreamGetDevice(CUstream stream, CUdevice* device);
decltype(cuStreamGetDevice) cuStreamGetDevice_ptsz;
CUresult cuStreamGetFlags(CUstream stream, unsigned* flags);
decltype(cuStreamGetFlags) cuStreamGetFlags_ptsz;
CUresult cuStreamGetId(CUstream stream, unsigned long long* id);
decltype(cuStreamGetId) cuStreamGetId_ptsz;
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context);
decltype(cuStreamGetCtx) cuStreamGetCtx_ptsz;
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green);
decltype(cuStreamGetCtx_v2) cuStreamGetCtx_v2_ptsz;
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
decltype(cuStreamWaitEvent) cuStreamWaitEvent_ptsz;
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* user, unsigned flags);
decltype(cuStreamAddCallback) cuStreamAddCallback_ptsz;
CUresult cuStreamQuery(CUstream stream);
decltype(cuStreamQuery) cuStreamQuery_ptsz;
CUresult cuStreamSynchronize(CUstream stream);
decltype(cuStreamSynchronize) cuStreamSynchronize_ptsz;
CUresult cuStreamCopyAttributes(CUstream to, CUstream from);
decltype(cuStreamCopyAttributes) cuStreamCopyAttributes_ptsz;
CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue* value);
decltype(cuStreamGetAttribute) cuStreamGetAttribute_ptsz;
CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue* value);
decltype(cuStreamSetAttribute) cuStreamSetAttribute_ptsz;
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
decltype(cuStreamWaitValue32) cuStreamWaitValue32_ptsz;
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
decltype(cuStreamWaitValue32_v2) cuStreamWaitValue32_v2_ptsz;
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags);
decltype(cuStreamWaitValue64) cuStreamWaitValue64_ptsz;
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags);
decltype(cuStreamWaitValue64_v2) cuStreamWaitValue64_v2_ptsz;
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
decltype(cuStreamWriteValue32) cuStreamWriteValue32_ptsz;
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
decltype(cuStreamWriteValue32_v2) cuStreamWriteValue32_v2_ptsz;
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags);
decltype(cuStreamWriteValue64) cuStreamWriteValue64_ptsz;
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags);
decltype(cuStreamWriteValue64_v2) cuStreamWriteValue64_v2_ptsz;
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags);
decltype(cuStreamBatchMemOp) cuStreamBatchMemOp_ptsz;
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags);
decltype(cuStreamBatchMemOp_v2) cuStreamBatchMemOp_v2_ptsz;

// ---- stream capture -------------------------------------------------------------------------------
CUresult cuStreamBeginCapture(CUstream stream);
decltype(cuStreamBeginCapture) cuStreamBeginCapture_ptsz;
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode);
decltype(cuStreamBeginCapture_v2) cuStreamBeginCapture_v2_ptsz;
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode);
decltype(cuStreamBeginCaptureToGraph) cuStreamBeginCaptureToGraph_ptsz;
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph);
decltype(cuStreamEndCapture) cuStreamEndCapture_ptsz;
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status);
decltype(cuStreamIsCapturing) cuStreamIsCapturing_ptsz;
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id);
decltype(cuStreamGetCaptureInfo) cuStreamGetCaptureInfo_ptsz;
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies, size_t* count);
decltype(cuStreamGetCaptureInfo_v2) cuStreamGetCaptureInfo_v2_ptsz;
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count);
decltype(cuStreamGetCaptureInfo_v3) cuStreamGetCaptureInfo_v3_ptsz;
CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* dependencies, size_t count, unsigned flags);
decltype(cuStreamUpdateCaptureDependencies) cuStreamUpdateCaptureDependencies_ptsz;
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* dependencies, const CUgraphEdgeData* edges, size_t count, unsigned flags);
decltype(cuStreamUpdateCaptureDependencies_v2) cuStreamUpdateCaptureDependencies_v2_ptsz;

// ---- events ---------------------------------------------------------------------------------------
CUresult cuEventCreate(CUevent* event, unsigned flags);
CUresult cuEventDestroy(CUevent event);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
decltype(cuEventRecord) cuEventRecord_ptsz;
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags);
decltype(cuEventRecordWithFlags) cuEventRecordWithFlags_ptsz;
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end);
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end);

// ---- graphs ---------------------------------------------------------------------------------------
CUresult cuGraphCreate(CUgraph* graph, unsigned flags);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphClone(CUgraph* clone, CUgraph original);
CUresult cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original, CUgraph clone);
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count);
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count);
CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count);
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges, size_t* count);
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* dependencies, size_t* count);
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* dependencies, CUgraphEdgeData* edges, size_t* count);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* dependents, size_t* count);
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* dependents, CUgraphEdgeData* edges, size_t* count);
CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count);
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edges, size_t count);
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count);
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edges, size_t count);
CUresult cuGraphDestroyNode(CUgraphNode node);
CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params);
CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, const CUDA_KERNEL_NODE_PARAMS_v2* params);
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* params);
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* params);
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from);
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute, const CUkernelNodeAttrValue* value);
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue* value);
CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, const CUDA_MEMCPY3D* copy, CUcontext context);
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* copy);
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* copy);
CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context);
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params);
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params);
CUresult cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* params);
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* params);
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* params);
CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, const CUDA_HOST_NODE_PARAMS* params);
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params);
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params);
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUgraph child);
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* child);
CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count);
CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUevent event);
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event);
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event);
CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUevent event);
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event);
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event);
CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* params);
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* params);
CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUdeviceptr address);
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address);
CUresult cuDeviceGraphMemTrim(CUdevice device);
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value);
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value);
CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count, CUgraphNodeParams* params);
CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* params);
CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params);
CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned flags);
CUresult cuUserObjectCreate(CUuserObject* object, void* user, CUhostFn destroy, unsigned count, unsigned flags);
CUresult cuUserObjectRetain(CUuserObject object, unsigned count);
CUresult cuUserObjectRelease(CUuserObject object, unsigned count);
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags);
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count);
CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log, size_t log_size);
CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log, size_t log_size);
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params);
decltype(cuGraphInstantiateWithParams) cuGraphInstantiateWithParams_ptsz;
CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* params);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* copy, CUcontext context);
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* params);
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params);
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child);
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event);
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event);
CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params);
CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node, CUgraphExecUpdateResult* result);
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* result);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled);
CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled);
CUresult cuGraphUpload(CUgraphExec graph, CUstream stream);
decltype(cuGraphUpload) cuGraphUpload_ptsz;
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream);
decltype(cuGraphLaunch) cuGraphLaunch_ptsz;

// ---- arrays, textures, surfaces -------------------------------------------------------------------
CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* descriptor);
CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor);
CUresult cuArrayDestroy(CUarray array);
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* descriptor, CUarray array);
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray array);
CUresult cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor, unsigned levels);
CUresult cuMipmappedArrayGetLevel(CUarray* level, CUmipmappedArray array, unsigned number);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray array);
CUresult cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view);
CUresult cuTexObjectDestroy(CUtexObject object);
CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUtexObject object);
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* texture, CUtexObject object);
CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* view, CUtexObject object);
CUresult cuSurfObjectCreate(CUsurfObject* object, const CUDA_RESOURCE_DESC* resource);
CUresult cuSurfObjectDestroy(CUsurfObject object);
CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUsurfObject object);
CUresult cuTexRefSetArray(CUtexref reference, CUarray array, unsigned flags);
CUresult cuTexRefSetMipmappedArray(CUtexref reference, CUmipmappedArray array, unsigned flags);
CUresult cuTexRefSetAddress_v2(size_t* offset, CUtexref reference, CUdeviceptr address, size_t size);
CUresult cuTexRefSetAddress2D_v3(CUtexref reference, const CUDA_ARRAY_DESCRIPTOR* descriptor, CUdeviceptr address, size_t pitch);
CUresult cuSurfRefSetArray(CUsurfref reference, CUarray array, unsigned flags);

// ---- other owners of memory -----------------------------------------------------------------------
CUresult cuImportExternalMemory(CUexternalMemory* memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* descriptor);
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* address, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* descriptor);
CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray* array, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* descriptor);
CUresult cuDestroyExternalMemory(CUexternalMemory memory);
CUresult cuImportExternalSemaphore(CUexternalSemaphore* semaphore, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC* descriptor);
CUresult cuSignalExternalSemaphoresAsync(const CUexternalSemaphore* semaphores, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS* params, unsigned count, CUstream stream);
decltype(cuSignalExternalSemaphoresAsync) cuSignalExternalSemaphoresAsync_ptsz;
CUresult cuWaitExternalSemaphoresAsync(const CUexternalSemaphore* semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS* params, unsigned count, CUstream stream);
decltype(cuWaitExternalSemaphoresAsync) cuWaitExternalSemaphoresAsync_ptsz;
CUresult cuGraphicsMapResources(unsigned count, CUgraphicsResource* resources, CUstream stream);
decltype(cuGraphicsMapResources) cuGraphicsMapResources_ptsz;
CUresult cuGraphicsUnmapResources(unsigned count, CUgraphicsResource* resources, CUstream stream);
decltype(cuGraphicsUnmapResources) cuGraphicsUnmapResources_ptsz;
CUresult cuGreenCtxCreate(CUgreenCtx* green, CUdevResourceDesc descriptor, CUdevice device, unsigned flags);
CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx green, unsigned flags, int priority);
CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx green);

}  // GPUSNAP_CUDA_LINKAGE
