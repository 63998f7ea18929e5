// The public CUDA runtime API of CUDA 13, as far as libcudart.so.13 of simcuda implements it: our
// own declarations, so that no toolkit is needed. Where one is present, a test compares every
// value, layout and signature below with its headers
// (tests/unit/simcuda/runtime/runtime_abi_check.py).
//
// Enumerators, structures and functions have their public names. Functions that exist once more for
// programs built with --default-stream per-thread are declared by CUDART_API_DS or CUDART_API_SZ.
#pragma once

#include <stddef.h>

// CUDART_LINKAGE may be set empty to declare the functions inside a namespace (the check does).
#ifndef CUDART_LINKAGE
#define CUDART_LINKAGE extern "C" __attribute__((visibility("default")))
#endif
#define CUDART_API(name, parameters) CUDART_LINKAGE cudaError_t name parameters
#define CUDART_API_DS(name, parameters) \
  CUDART_API(name, parameters);         \
  CUDART_API(name##_ptds, parameters)
#define CUDART_API_SZ(name, parameters) \
  CUDART_API(name, parameters);         \
  CUDART_API(name##_ptsz, parameters)

enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorCudartUnloading = 4,
  cudaErrorProfilerDisabled = 5,
  cudaErrorProfilerNotInitialized = 6,
  cudaErrorProfilerAlreadyStarted = 7,
  cudaErrorProfilerAlreadyStopped = 8,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidPitchValue = 12,
  cudaErrorInvalidSymbol = 13,
  cudaErrorInvalidHostPointer = 16,
  cudaErrorInvalidDevicePointer = 17,
  cudaErrorInvalidTexture = 18,
  cudaErrorInvalidTextureBinding = 19,
  cudaErrorInvalidChannelDescriptor = 20,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorAddressOfConstant = 22,
  cudaErrorTextureFetchFailed = 23,
  cudaErrorTextureNotBound = 24,
  cudaErrorSynchronizationError = 25,
  cudaErrorInvalidFilterSetting = 26,
  cudaErrorInvalidNormSetting = 27,
  cudaErrorMixedDeviceExecution = 28,
  cudaErrorNotYetImplemented = 31,
  cudaErrorMemoryValueTooLarge = 32,
  cudaErrorStubLibrary = 34,
  cudaErrorInsufficientDriver = 35,
  cudaErrorCallRequiresNewerDriver = 36,
  cudaErrorInvalidSurface = 37,
  cudaErrorDuplicateVariableName = 43,
  cudaErrorDuplicateTextureName = 44,
  cudaErrorDuplicateSurfaceName = 45,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorIncompatibleDriverContext = 49,
  cudaErrorMissingConfiguration = 52,
  cudaErrorPriorLaunchFailure = 53,
  cudaErrorLaunchMaxDepthExceeded = 65,
  cudaErrorLaunchFileScopedTex = 66,
  cudaErrorLaunchFileScopedSurf = 67,
  cudaErrorSyncDepthExceeded = 68,
  cudaErrorLaunchPendingCountExceeded = 69,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorDeviceNotLicensed = 102,
  cudaErrorSoftwareValidityNotEstablished = 103,
  cudaErrorStartupFailure = 127,
  cudaErrorInvalidKernelImage = 200,
  cudaErrorDeviceUninitialized = 201,
  cudaErrorMapBufferObjectFailed = 205,
  cudaErrorUnmapBufferObjectFailed = 206,
  cudaErrorArrayIsMapped = 207,
  cudaErrorAlreadyMapped = 208,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorAlreadyAcquired = 210,
  cudaErrorNotMapped = 211,
  cudaErrorNotMappedAsArray = 212,
  cudaErrorNotMappedAsPointer = 213,
  cudaErrorECCUncorrectable = 214,
  cudaErrorUnsupportedLimit = 215,
  cudaErrorDeviceAlreadyInUse = 216,
  cudaErrorPeerAccessUnsupported = 217,
  cudaErrorInvalidPtx = 218,
  cudaErrorInvalidGraphicsContext = 219,
  cudaErrorNvlinkUncorrectable = 220,
  cudaErrorJitCompilerNotFound = 221,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorJitCompilationDisabled = 223,
  cudaErrorUnsupportedExecAffinity = 224,
  cudaErrorUnsupportedDevSideSync = 225,
  cudaErrorContained = 226,
  cudaErrorInvalidSource = 300,
  cudaErrorFileNotFound = 301,
  cudaErrorSharedObjectSymbolNotFound = 302,
  cudaErrorSharedObjectInitFailed = 303,
  cudaErrorOperatingSystem = 304,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalState = 401,
  cudaErrorLossyQuery = 402,
  cudaErrorSymbolNotFound = 500,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchOutOfResources = 701,
  cudaErrorLaunchTimeout = 702,
  cudaErrorLaunchIncompatibleTexturing = 703,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorPeerAccessNotEnabled = 705,
  cudaErrorSetOnActiveProcess = 708,
  cudaErrorContextIsDestroyed = 709,
  cudaErrorAssert = 710,
  cudaErrorTooManyPeers = 711,
  cudaErrorHostMemoryAlreadyRegistered = 712,
  cudaErrorHostMemoryNotRegistered = 713,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorCooperativeLaunchTooLarge = 720,
  cudaErrorTensorMemoryLeak = 721,
  cudaErrorNotPermitted = 800,
  cudaErrorNotSupported = 801,
  cudaErrorSystemNotReady = 802,
  cudaErrorSystemDriverMismatch = 803,
  cudaErrorCompatNotSupportedOnDevice = 804,
  cudaErrorMpsConnectionFailed = 805,
  cudaErrorMpsRpcFailure = 806,
  cudaErrorMpsServerNotReady = 807,
  cudaErrorMpsMaxClientsReached = 808,
  cudaErrorMpsMaxConnectionsReached = 809,
  cudaErrorMpsClientTerminated = 810,
  cudaErrorCdpNotSupported = 811,
  cudaErrorCdpVersionMismatch = 812,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorCapturedEvent = 907,
  cudaErrorStreamCaptureWrongThread = 908,
  cudaErrorTimeout = 909,
  cudaErrorGraphExecUpdateFailure = 910,
  cudaErrorExternalDevice = 911,
  cudaErrorInvalidClusterSize = 912,
  cudaErrorFunctionNotLoaded = 913,
  cudaErrorInvalidResourceType = 914,
  cudaErrorInvalidResourceConfiguration = 915,
  cudaErrorUnknown = 999,
  cudaErrorApiFailureBase = 10000,
};
enum cudaDeviceP2PAttr {
  cudaDevP2PAttrPerformanceRank = 1,
  cudaDevP2PAttrAccessSupported = 2,
  cudaDevP2PAttrNativeAtomicSupported = 3,
  cudaDevP2PAttrCudaArrayAccessSupported = 4,
};
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxBlockDimX = 2,
  cudaDevAttrMaxBlockDimY = 3,
  cudaDevAttrMaxBlockDimZ = 4,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxGridDimY = 6,
  cudaDevAttrMaxGridDimZ = 7,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrTotalConstantMemory = 9,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMaxPitch = 11,
  cudaDevAttrMaxRegistersPerBlock = 12,
  cudaDevAttrClockRate = 13,
  cudaDevAttrTextureAlignment = 14,
  cudaDevAttrGpuOverlap = 15,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrKernelExecTimeout = 17,
  cudaDevAttrIntegrated = 18,
  cudaDevAttrCanMapHostMemory = 19,
  cudaDevAttrComputeMode = 20,
  cudaDevAttrMaxTexture1DWidth = 21,
  cudaDevAttrMaxTexture2DWidth = 22,
  cudaDevAttrMaxTexture2DHeight = 23,
  cudaDevAttrMaxTexture3DWidth = 24,
  cudaDevAttrMaxTexture3DHeight = 25,
  cudaDevAttrMaxTexture3DDepth = 26,
  cudaDevAttrMaxTexture2DLayeredWidth = 27,
  cudaDevAttrMaxTexture2DLayeredHeight = 28,
  cudaDevAttrMaxTexture2DLayeredLayers = 29,
  cudaDevAttrSurfaceAlignment = 30,
  cudaDevAttrConcurrentKernels = 31,
  cudaDevAttrEccEnabled = 32,
  cudaDevAttrPciBusId = 33,
  cudaDevAttrPciDeviceId = 34,
  cudaDevAttrTccDriver = 35,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrAsyncEngineCount = 40,
  cudaDevAttrUnifiedAddressing = 41,
  cudaDevAttrMaxTexture1DLayeredWidth = 42,
  cudaDevAttrMaxTexture1DLayeredLayers = 43,
  cudaDevAttrMaxTexture2DGatherWidth = 45,
  cudaDevAttrMaxTexture2DGatherHeight = 46,
  cudaDevAttrMaxTexture3DWidthAlt = 47,
  cudaDevAttrMaxTexture3DHeightAlt = 48,
  cudaDevAttrMaxTexture3DDepthAlt = 49,
  cudaDevAttrPciDomainId = 50,
  cudaDevAttrTexturePitchAlignment = 51,
  cudaDevAttrMaxTextureCubemapWidth = 52,
  cudaDevAttrMaxTextureCubemapLayeredWidth = 53,
  cudaDevAttrMaxTextureCubemapLayeredLayers = 54,
  cudaDevAttrMaxSurface1DWidth = 55,
  cudaDevAttrMaxSurface2DWidth = 56,
  cudaDevAttrMaxSurface2DHeight = 57,
  cudaDevAttrMaxSurface3DWidth = 58,
  cudaDevAttrMaxSurface3DHeight = 59,
  cudaDevAttrMaxSurface3DDepth = 60,
  cudaDevAttrMaxSurface1DLayeredWidth = 61,
  cudaDevAttrMaxSurface1DLayeredLayers = 62,
  cudaDevAttrMaxSurface2DLayeredWidth = 63,
  cudaDevAttrMaxSurface2DLayeredHeight = 64,
  cudaDevAttrMaxSurface2DLayeredLayers = 65,
  cudaDevAttrMaxSurfaceCubemapWidth = 66,
  cudaDevAttrMaxSurfaceCubemapLayeredWidth = 67,
  cudaDevAttrMaxSurfaceCubemapLayeredLayers = 68,
  cudaDevAttrMaxTexture1DLinearWidth = 69,
  cudaDevAttrMaxTexture2DLinearWidth = 70,
  cudaDevAttrMaxTexture2DLinearHeight = 71,
  cudaDevAttrMaxTexture2DLinearPitch = 72,
  cudaDevAttrMaxTexture2DMipmappedWidth = 73,
  cudaDevAttrMaxTexture2DMipmappedHeight = 74,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxTexture1DMipmappedWidth = 77,
  cudaDevAttrStreamPrioritiesSupported = 78,
  cudaDevAttrGlobalL1CacheSupported = 79,
  cudaDevAttrLocalL1CacheSupported = 80,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrManagedMemory = 83,
  cudaDevAttrIsMultiGpuBoard = 84,
  cudaDevAttrMultiGpuBoardGroupID = 85,
  cudaDevAttrHostNativeAtomicSupported = 86,
  cudaDevAttrSingleToDoublePrecisionPerfRatio = 87,
  cudaDevAttrPageableMemoryAccess = 88,
  cudaDevAttrConcurrentManagedAccess = 89,
  cudaDevAttrComputePreemptionSupported = 90,
  cudaDevAttrCanUseHostPointerForRegisteredMem = 91,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrCanFlushRemoteWrites = 98,
  cudaDevAttrHostRegisterSupported = 99,
  cudaDevAttrPageableMemoryAccessUsesHostPageTables = 100,
  cudaDevAttrDirectManagedMemAccessFromHost = 101,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrMaxPersistingL2CacheSize = 108,
  cudaDevAttrMaxAccessPolicyWindowSize = 109,
  cudaDevAttrReservedSharedMemoryPerBlock = 111,
  cudaDevAttrSparseCudaArraySupported = 112,
  cudaDevAttrHostRegisterReadOnlySupported = 113,
  cudaDevAttrTimelineSemaphoreInteropSupported = 114,
  cudaDevAttrMemoryPoolsSupported = 115,
  cudaDevAttrGPUDirectRDMASupported = 116,
  cudaDevAttrGPUDirectRDMAFlushWritesOptions = 117,
  cudaDevAttrGPUDirectRDMAWritesOrdering = 118,
  cudaDevAttrMemoryPoolSupportedHandleTypes = 119,
  cudaDevAttrClusterLaunch = 120,
  cudaDevAttrDeferredMappingCudaArraySupported = 121,
  cudaDevAttrIpcEventSupport = 125,
  cudaDevAttrMemSyncDomainCount = 126,
  cudaDevAttrNumaConfig = 130,
  cudaDevAttrNumaId = 131,
  cudaDevAttrMpsEnabled = 133,
  cudaDevAttrHostNumaId = 134,
  cudaDevAttrD3D12CigSupported = 135,
  cudaDevAttrVulkanCigSupported = 138,
  cudaDevAttrGpuPciDeviceId = 139,
  cudaDevAttrGpuPciSubsystemId = 140,
  cudaDevAttrHostNumaMemoryPoolsSupported = 142,
  cudaDevAttrHostNumaMultinodeIpcSupported = 143,
  cudaDevAttrHostMemoryPoolsSupported = 144,
  cudaDevAttrOnlyPartialHostNativeAtomicSupported = 147,
};
typedef enum cudaError cudaError_t;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};

enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
  cudaMemoryTypeManaged = 3,
};

enum cudaMemoryAdvise {
  cudaMemAdviseSetReadMostly = 1,
  cudaMemAdviseUnsetReadMostly = 2,
  cudaMemAdviseSetPreferredLocation = 3,
  cudaMemAdviseUnsetPreferredLocation = 4,
  cudaMemAdviseSetAccessedBy = 5,
  cudaMemAdviseUnsetAccessedBy = 6,
};

enum cudaMemLocationType {
  cudaMemLocationTypeInvalid = 0,
  cudaMemLocationTypeDevice = 1,
  cudaMemLocationTypeHost = 2,
  cudaMemLocationTypeHostNuma = 3,
  cudaMemLocationTypeHostNumaCurrent = 4,
};

enum cudaLimit {
  cudaLimitStackSize = 0,
  cudaLimitPrintfFifoSize = 1,
  cudaLimitMallocHeapSize = 2,
  cudaLimitDevRuntimeSyncDepth = 3,
  cudaLimitDevRuntimePendingLaunchCount = 4,
  cudaLimitMaxL2FetchGranularity = 5,
  cudaLimitPersistingL2CacheSize = 6,
};

enum cudaFuncCache {
  cudaFuncCachePreferNone = 0,
  cudaFuncCachePreferShared = 1,
  cudaFuncCachePreferL1 = 2,
  cudaFuncCachePreferEqual = 3,
};

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
  cudaFuncAttributeClusterDimMustBeSet = 10,
  cudaFuncAttributeRequiredClusterWidth = 11,
  cudaFuncAttributeRequiredClusterHeight = 12,
  cudaFuncAttributeRequiredClusterDepth = 13,
  cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
  cudaFuncAttributeClusterSchedulingPolicyPreference = 15,
};

enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2,
};

enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2,
};

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
  cudaDriverEntryPointSymbolNotFound = 1,
  cudaDriverEntryPointVersionNotSufficent = 2,
};

enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeCooperative = 2,
};

// Opaque handles; the same types as the driver's.
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUkern_st* cudaKernel_t;
typedef struct CUfunc_st* cudaFunction_t;
typedef struct CUlib_st* cudaLibrary_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
typedef struct cudaArray* cudaArray_t;
typedef const struct cudaArray* cudaArray_const_t;
typedef struct cudaMipmappedArray* cudaMipmappedArray_t;
typedef const struct cudaMipmappedArray* cudaMipmappedArray_const_t;
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef struct CUmemPoolHandle_st* cudaMemPool_t;
typedef struct CUuserObject_st* cudaUserObject_t;
typedef struct cudaGraphEdgeData_st cudaGraphEdgeData;

typedef void (*cudaStreamCallback_t)(cudaStream_t stream, cudaError_t status, void* userData);
typedef void (*cudaHostFn_t)(void* userData);

struct uint3 {
  unsigned int x, y, z;
};

struct dim3 {
  unsigned int x, y, z;
};

struct cudaIpcMemHandle_t {
  char reserved[64];
};

struct cudaIpcEventHandle_t {
  char reserved[64];
};

struct cudaUUID_t {
  char bytes[16];
};

struct cudaExtent {
  size_t width;  // bytes where no array is involved
  size_t height;
  size_t depth;
};

struct cudaPos {
  size_t x, y, z;
};

struct cudaPitchedPtr {
  void* ptr;
  size_t pitch;  // bytes from row to row
  size_t xsize;
  size_t ysize;  // rows from slice to slice
};

struct cudaMemcpy3DParms {
  cudaArray_t srcArray;
  struct cudaPos srcPos;
  struct cudaPitchedPtr srcPtr;
  cudaArray_t dstArray;
  struct cudaPos dstPos;
  struct cudaPitchedPtr dstPtr;
  struct cudaExtent extent;
  enum cudaMemcpyKind kind;
};

enum cudaChannelFormatKind {
  cudaChannelFormatKindSigned = 0,
  cudaChannelFormatKindUnsigned = 1,
  cudaChannelFormatKindFloat = 2,
  cudaChannelFormatKindNone = 3,
};

struct cudaChannelFormatDesc {
  int x, y, z, w;  // bits of each channel
  enum cudaChannelFormatKind f;
};

enum cudaResourceType {
  cudaResourceTypeArray = 0,
  cudaResourceTypeMipmappedArray = 1,
  cudaResourceTypeLinear = 2,
  cudaResourceTypePitch2D = 3,
};

struct cudaResourceDesc {
  enum cudaResourceType resType;
  union {
    struct {
      cudaArray_t array;
    } array;
    struct {
      cudaMipmappedArray_t mipmap;
    } mipmap;
    struct {
      void* devPtr;
      struct cudaChannelFormatDesc desc;
      size_t sizeInBytes;
    } linear;
    struct {
      void* devPtr;
      struct cudaChannelFormatDesc desc;
      size_t width, height, pitchInBytes;
    } pitch2D;
    struct {
      int reserved[32];
    } reserved;
  } res;
  unsigned int flags;
};

enum cudaTextureAddressMode {
  cudaAddressModeWrap = 0,
  cudaAddressModeClamp = 1,
  cudaAddressModeMirror = 2,
  cudaAddressModeBorder = 3,
};

enum cudaTextureFilterMode {
  cudaFilterModePoint = 0,
  cudaFilterModeLinear = 1,
};

enum cudaTextureReadMode {
  cudaReadModeElementType = 0,
  cudaReadModeNormalizedFloat = 1,
};

struct cudaTextureDesc {
  enum cudaTextureAddressMode addressMode[3];
  enum cudaTextureFilterMode filterMode;
  enum cudaTextureReadMode readMode;
  int sRGB;
  float borderColor[4];
  int normalizedCoords;
  unsigned int maxAnisotropy;
  enum cudaTextureFilterMode mipmapFilterMode;
  float mipmapLevelBias;
  float minMipmapLevelClamp;
  float maxMipmapLevelClamp;
  int disableTrilinearOptimization;
  int seamlessCubemap;
};

struct cudaMemLocation {
  enum cudaMemLocationType type;
  int id;
};

enum cudaMemAllocationType {
  cudaMemAllocationTypeInvalid = 0,
  cudaMemAllocationTypePinned = 1,
  cudaMemAllocationTypeMax = 0x7fffffff,
};

enum cudaMemAllocationHandleType {
  cudaMemHandleTypeNone = 0,
  cudaMemHandleTypePosixFileDescriptor = 1,
};

enum cudaMemPoolAttr {
  cudaMemPoolReuseFollowEventDependencies = 1,
  cudaMemPoolReuseAllowOpportunistic = 2,
  cudaMemPoolReuseAllowInternalDependencies = 3,
  cudaMemPoolAttrReleaseThreshold = 4,
  cudaMemPoolAttrReservedMemCurrent = 5,
  cudaMemPoolAttrReservedMemHigh = 6,
  cudaMemPoolAttrUsedMemCurrent = 7,
  cudaMemPoolAttrUsedMemHigh = 8,
};

enum cudaGraphNodeType {
  cudaGraphNodeTypeKernel = 0,
  cudaGraphNodeTypeMemcpy = 1,
  cudaGraphNodeTypeMemset = 2,
  cudaGraphNodeTypeHost = 3,
  cudaGraphNodeTypeGraph = 4,
  cudaGraphNodeTypeEmpty = 5,
  cudaGraphNodeTypeWaitEvent = 6,
  cudaGraphNodeTypeEventRecord = 7,
  cudaGraphNodeTypeMemAlloc = 10,
  cudaGraphNodeTypeMemFree = 11,
};

enum cudaGraphMemAttributeType {
  cudaGraphMemAttrUsedMemCurrent = 0,
  cudaGraphMemAttrUsedMemHigh = 1,
  cudaGraphMemAttrReservedMemCurrent = 2,
  cudaGraphMemAttrReservedMemHigh = 3,
};

enum cudaGraphInstantiateResult {
  cudaGraphInstantiateSuccess = 0,
  cudaGraphInstantiateError = 1,
  cudaGraphInstantiateInvalidStructure = 2,
};

enum cudaGraphChildGraphNodeOwnership {
  cudaGraphChildGraphOwnershipClone = 0,
  cudaGraphChildGraphOwnershipMove = 1,
};

enum cudaMemAccessFlags {
  cudaMemAccessFlagsProtNone = 0,
  cudaMemAccessFlagsProtRead = 1,
  cudaMemAccessFlagsProtReadWrite = 3,
};

enum cudaGraphExecUpdateResult {
  cudaGraphExecUpdateSuccess = 0,
  cudaGraphExecUpdateError = 1,
  cudaGraphExecUpdateErrorTopologyChanged = 2,
  cudaGraphExecUpdateErrorNodeTypeChanged = 3,
  cudaGraphExecUpdateErrorParametersChanged = 5,
};

struct cudaMemPoolProps {
  enum cudaMemAllocationType allocType;
  enum cudaMemAllocationHandleType handleTypes;
  struct cudaMemLocation location;
  void* win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

struct cudaKernelNodeParams {
  void* func;
  struct dim3 gridDim;
  struct dim3 blockDim;
  unsigned int sharedMemBytes;
  void** kernelParams;
  void** extra;
};

struct cudaMemsetParams {
  void* dst;
  size_t pitch;
  unsigned int value;
  unsigned int elementSize;
  size_t width;
  size_t height;
};

struct cudaHostNodeParams {
  cudaHostFn_t fn;
  void* userData;
};

typedef struct CUgraphExec_st* cudaGraphExec_t;

struct cudaGraphEdgeData_st {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
};

struct cudaMemAccessDesc {
  struct cudaMemLocation location;
  enum cudaMemAccessFlags flags;
};

struct cudaMemAllocNodeParams {
  struct cudaMemPoolProps poolProps;
  const struct cudaMemAccessDesc* accessDescs;
  size_t accessDescCount;
  size_t bytesize;
  void* dptr;
};

struct cudaMemcpyNodeParams {
  int flags;
  int reserved[3];
  struct cudaMemcpy3DParms copyParams;
};

struct cudaChildGraphNodeParams {
  cudaGraph_t graph;
  enum cudaGraphChildGraphNodeOwnership ownership;
};

struct cudaEventWaitNodeParams {
  cudaEvent_t event;
};

struct cudaEventRecordNodeParams {
  cudaEvent_t event;
};

struct cudaMemFreeNodeParams {
  void* dptr;
};

// Kinds that are not simulated are left out.
struct cudaGraphNodeParams {
  enum cudaGraphNodeType type;
  int reserved0[3];
  union {
    long long reserved1[29];
    struct cudaKernelNodeParams kernel;
    struct cudaMemcpyNodeParams memcpy;
    struct cudaMemsetParams memset;
    struct cudaHostNodeParams host;
    struct cudaChildGraphNodeParams graph;
    struct cudaEventWaitNodeParams eventWait;
    struct cudaEventRecordNodeParams eventRecord;
    struct cudaMemAllocNodeParams alloc;
    struct cudaMemFreeNodeParams free;
  };
  long long reserved2;
};

struct cudaGraphInstantiateParams_st {
  unsigned long long flags;
  cudaStream_t uploadStream;
  cudaGraphNode_t errNode_out;
  enum cudaGraphInstantiateResult result_out;
};
typedef struct cudaGraphInstantiateParams_st cudaGraphInstantiateParams;

struct cudaGraphExecUpdateResultInfo_st {
  enum cudaGraphExecUpdateResult result;
  cudaGraphNode_t errorNode;
  cudaGraphNode_t errorFromNode;
};
typedef struct cudaGraphExecUpdateResultInfo_st cudaGraphExecUpdateResultInfo;

struct cudaPointerAttributes {
  enum cudaMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
  long reserved[8];
};

struct cudaFuncAttributes {
  size_t sharedSizeBytes;
  size_t constSizeBytes;
  size_t localSizeBytes;
  int maxThreadsPerBlock;
  int numRegs;
  int ptxVersion;
  int binaryVersion;
  int cacheModeCA;
  int maxDynamicSharedSizeBytes;
  int preferredShmemCarveout;
  int clusterDimMustBeSet;
  int requiredClusterWidth;
  int requiredClusterHeight;
  int requiredClusterDepth;
  int clusterSchedulingPolicyPreference;
  int nonPortableClusterSizeAllowed;
  int reserved[16];
};

// How the copies of a batch are made.
enum cudaMemcpySrcAccessOrder {
  cudaMemcpySrcAccessOrderInvalid = 0,
  cudaMemcpySrcAccessOrderStream = 1,
  cudaMemcpySrcAccessOrderDuringApiCall = 2,
  cudaMemcpySrcAccessOrderAny = 3,
  cudaMemcpySrcAccessOrderMax = 0x7fffffff,
};

struct cudaMemcpyAttributes {
  enum cudaMemcpySrcAccessOrder srcAccessOrder;
  struct cudaMemLocation srcLocHint;
  struct cudaMemLocation dstLocHint;
  unsigned int flags;
};

enum cudaMemcpy3DOperandType {
  cudaMemcpyOperandTypePointer = 1,
  cudaMemcpyOperandTypeArray = 2,
  cudaMemcpyOperandTypeMax = 0x7fffffff,
};

struct cudaOffset3D {
  size_t x, y, z;
};

struct cudaMemcpy3DOperand {
  enum cudaMemcpy3DOperandType type;
  union {
    struct {
      void* ptr;
      size_t rowLength;
      size_t layerHeight;
      struct cudaMemLocation locHint;
    } ptr;
    struct {
      cudaArray_t array;
      struct cudaOffset3D offset;
    } array;
  } op;
};

struct cudaMemcpy3DBatchOp {
  struct cudaMemcpy3DOperand src;
  struct cudaMemcpy3DOperand dst;
  struct cudaExtent extent;
  enum cudaMemcpySrcAccessOrder srcAccessOrder;
  unsigned int flags;
};

enum cudaMemRangeAttribute {
  cudaMemRangeAttributeReadMostly = 1,
  cudaMemRangeAttributePreferredLocation = 2,
  cudaMemRangeAttributeAccessedBy = 3,
  cudaMemRangeAttributeLastPrefetchLocation = 4,
};

enum cudaJitOption {
  cudaJitMaxRegisters = 0,
  cudaJitInfoLogBuffer = 3,
  cudaJitInfoLogBufferSizeBytes = 4,
  cudaJitErrorLogBuffer = 5,
  cudaJitErrorLogBufferSizeBytes = 6,
};

enum cudaLibraryOption {
  cudaLibraryHostUniversalFunctionAndDataTable = 0,
  cudaLibraryBinaryIsPreserved = 1,
};

union alignas(8) cudaLaunchAttributeValue {
  char pad[64];
  int cooperative;
};

struct cudaLaunchAttribute {
  enum cudaLaunchAttributeID id;
  union cudaLaunchAttributeValue val;
};

struct cudaLaunchConfig_t {
  struct dim3 gridDim;
  struct dim3 blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  struct cudaLaunchAttribute* attrs;
  unsigned int numAttrs;
};

struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  char luid[8];
  unsigned int luidDeviceNodeMask;
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  size_t totalConstMem;
  int major;
  int minor;
  size_t textureAlignment;
  size_t texturePitchAlignment;
  int multiProcessorCount;
  int integrated;
  int canMapHostMemory;
  int maxTexture1D;
  int maxTexture1DMipmap;
  int maxTexture2D[2];
  int maxTexture2DMipmap[2];
  int maxTexture2DLinear[3];
  int maxTexture2DGather[2];
  int maxTexture3D[3];
  int maxTexture3DAlt[3];
  int maxTextureCubemap;
  int maxTexture1DLayered[2];
  int maxTexture2DLayered[3];
  int maxTextureCubemapLayered[2];
  int maxSurface1D;
  int maxSurface2D[2];
  int maxSurface3D[3];
  int maxSurface1DLayered[2];
  int maxSurface2DLayered[3];
  int maxSurfaceCubemap;
  int maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int hostNativeAtomicSupported;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int gpuDirectRDMASupported;
  unsigned int gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned int memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported;
  int ipcEventSupported;
  int clusterLaunch;
  int unifiedFunctionPointers;
  int deviceNumaConfig;
  int deviceNumaId;
  int mpsEnabled;
  int hostNumaId;
  unsigned int gpuPciDeviceID;
  unsigned int gpuPciSubsystemID;
  int hostNumaMultinodeIpcSupported;
  int reserved[56];
};

// Functions that programs compiled by nvcc call behind the scenes.
CUDART_LINKAGE void** __cudaRegisterFatBinary(void* fatCubin);
CUDART_LINKAGE void __cudaRegisterFatBinaryEnd(void** fatCubinHandle);
CUDART_LINKAGE void __cudaUnregisterFatBinary(void** fatCubinHandle);
CUDART_LINKAGE void __cudaRegisterFunction(void** fatCubinHandle, const char* hostFun,
                                           char* deviceFun, const char* deviceName,
                                           int thread_limit, struct uint3* tid, struct uint3* bid,
                                           struct dim3* bDim, struct dim3* gDim, int* wSize);
CUDART_LINKAGE void __cudaRegisterVar(void** fatCubinHandle, char* hostVar, char* deviceAddress,
                                      const char* deviceName, int ext, size_t size, int constant,
                                      int global);
CUDART_LINKAGE void __cudaRegisterManagedVar(void** fatCubinHandle, void** hostVarPtrAddress,
                                             char* deviceAddress, const char* deviceName, int ext,
                                             size_t size, int constant, int global);
CUDART_LINKAGE char __cudaInitModule(void** fatCubinHandle);
CUDART_LINKAGE unsigned int __cudaPushCallConfiguration(struct dim3 gridDim, struct dim3 blockDim,
                                                        size_t sharedMem, cudaStream_t stream);
CUDART_API(__cudaPopCallConfiguration,
           (struct dim3 * gridDim, struct dim3* blockDim, size_t* sharedMem, void* stream));
CUDART_API(__cudaGetKernel, (cudaKernel_t * kernel, const void* entryFuncAddr));
CUDART_API_SZ(__cudaLaunchKernel, (cudaKernel_t kernel, struct dim3 gridDim, struct dim3 blockDim,
                                   void** args, size_t sharedMem, cudaStream_t stream));

// Errors.
CUDART_API(cudaGetLastError, (void));
CUDART_API(cudaPeekAtLastError, (void));
CUDART_LINKAGE const char* cudaGetErrorName(cudaError_t error);
CUDART_LINKAGE const char* cudaGetErrorString(cudaError_t error);

// Versions and the driver's entry points.
CUDART_API(cudaDriverGetVersion, (int* driverVersion));
CUDART_API(cudaRuntimeGetVersion, (int* runtimeVersion));
CUDART_API_SZ(cudaGetDriverEntryPoint,
              (const char* symbol, void** funcPtr, unsigned long long flags,
               enum cudaDriverEntryPointQueryResult* driverStatus));
CUDART_API_SZ(cudaGetDriverEntryPointByVersion,
              (const char* symbol, void** funcPtr, unsigned int cudaVersion,
               unsigned long long flags, enum cudaDriverEntryPointQueryResult* driverStatus));

// Devices.
CUDART_API(cudaGetDeviceCount, (int* count));
CUDART_API(cudaGetDevice, (int* device));
CUDART_API(cudaSetDevice, (int device));
CUDART_API(cudaInitDevice, (int device, unsigned int deviceFlags, unsigned int flags));
CUDART_API(cudaSetValidDevices, (int* device_arr, int len));
CUDART_API(cudaChooseDevice, (int* device, const struct cudaDeviceProp* prop));
CUDART_API(cudaSetDeviceFlags, (unsigned int flags));
CUDART_API(cudaGetDeviceFlags, (unsigned int* flags));
CUDART_API(cudaGetDeviceProperties, (struct cudaDeviceProp * prop, int device));
CUDART_API(cudaDeviceGetAttribute, (int* value, enum cudaDeviceAttr attr, int device));
CUDART_API(cudaDeviceGetPCIBusId, (char* pciBusId, int len, int device));
CUDART_API(cudaDeviceGetByPCIBusId, (int* device, const char* pciBusId));
CUDART_API(cudaDeviceCanAccessPeer, (int* canAccessPeer, int device, int peerDevice));
CUDART_API(cudaDeviceDisablePeerAccess, (int peerDevice));
CUDART_API(cudaDeviceEnablePeerAccess, (int peerDevice, unsigned int flags));
CUDART_API(cudaDeviceGetP2PAttribute,
           (int* value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice));
CUDART_API(cudaDeviceSynchronize, (void));
CUDART_API(cudaDeviceReset, (void));
CUDART_API(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value));
CUDART_API(cudaDeviceGetLimit, (size_t * pValue, enum cudaLimit limit));
CUDART_API(cudaDeviceSetCacheConfig, (enum cudaFuncCache cacheConfig));
CUDART_API(cudaDeviceGetCacheConfig, (enum cudaFuncCache * pCacheConfig));
CUDART_API(cudaDeviceGetStreamPriorityRange, (int* leastPriority, int* greatestPriority));
CUDART_API(cudaProfilerStart, (void));
CUDART_API(cudaProfilerStop, (void));

// Memory.
CUDART_API(cudaMalloc, (void** devPtr, size_t size));
CUDART_API(cudaFree, (void* devPtr));
CUDART_API(cudaIpcGetMemHandle, (struct cudaIpcMemHandle_t * handle, void* devPtr));
CUDART_API(cudaIpcOpenMemHandle,
           (void** devPtr, struct cudaIpcMemHandle_t handle, unsigned int flags));
CUDART_API(cudaIpcCloseMemHandle, (void* devPtr));
CUDART_API(cudaMallocHost, (void** ptr, size_t size));
CUDART_API(cudaFreeHost, (void* ptr));
CUDART_API(cudaHostAlloc, (void** pHost, size_t size, unsigned int flags));
CUDART_API(cudaHostRegister, (void* ptr, size_t size, unsigned int flags));
CUDART_API(cudaHostUnregister, (void* ptr));
CUDART_API(cudaHostGetDevicePointer, (void** pDevice, void* pHost, unsigned int flags));
CUDART_API(cudaHostGetFlags, (unsigned int* pFlags, void* pHost));
CUDART_API(cudaMallocManaged, (void** devPtr, size_t size, unsigned int flags));
CUDART_API(cudaMallocPitch, (void** devPtr, size_t* pitch, size_t width, size_t height));
CUDART_API(cudaMalloc3D, (struct cudaPitchedPtr * pitchedDevPtr, struct cudaExtent extent));
CUDART_API_SZ(cudaMallocAsync, (void** devPtr, size_t size, cudaStream_t hStream));
CUDART_API_SZ(cudaFreeAsync, (void* devPtr, cudaStream_t hStream));
CUDART_API(cudaMemGetInfo, (size_t * free, size_t* total));
CUDART_API(cudaPointerGetAttributes, (struct cudaPointerAttributes * attributes, const void* ptr));
CUDART_API(cudaMemAdvise, (const void* devPtr, size_t count, enum cudaMemoryAdvise advice,
                           struct cudaMemLocation location));
CUDART_API_SZ(cudaMemPrefetchAsync,
              (const void* devPtr, size_t count, struct cudaMemLocation location,
               unsigned int flags, cudaStream_t stream));
CUDART_API_SZ(cudaMemPrefetchBatchAsync,
              (void** dptrs, size_t* sizes, size_t count, struct cudaMemLocation* prefetchLocs,
               size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
               cudaStream_t stream));
CUDART_API_SZ(cudaMemDiscardBatchAsync, (void** dptrs, size_t* sizes, size_t count,
                                         unsigned long long flags, cudaStream_t stream));
CUDART_API_SZ(cudaMemDiscardAndPrefetchBatchAsync,
              (void** dptrs, size_t* sizes, size_t count, struct cudaMemLocation* prefetchLocs,
               size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
               cudaStream_t stream));
CUDART_API(cudaMemRangeGetAttribute,
           (void* data, size_t dataSize, enum cudaMemRangeAttribute attribute, const void* devPtr,
            size_t count));
CUDART_API(cudaMemRangeGetAttributes,
           (void** data, size_t* dataSizes, enum cudaMemRangeAttribute* attributes,
            size_t numAttributes, const void* devPtr, size_t count));
CUDART_API(cudaGetSymbolAddress, (void** devPtr, const void* symbol));
CUDART_API(cudaGetSymbolSize, (size_t * size, const void* symbol));

// Copies and sets.
CUDART_API_DS(cudaMemcpy, (void* dst, const void* src, size_t count, enum cudaMemcpyKind kind));
CUDART_API_SZ(cudaMemcpyAsync, (void* dst, const void* src, size_t count, enum cudaMemcpyKind kind,
                                cudaStream_t stream));
CUDART_API(cudaMemcpyPeer,
           (void* dst, int dstDevice, const void* src, int srcDevice, size_t count));
CUDART_API(cudaMemcpyPeerAsync, (void* dst, int dstDevice, const void* src, int srcDevice,
                                 size_t count, cudaStream_t stream));
CUDART_API_DS(cudaMemcpy2D, (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                             size_t height, enum cudaMemcpyKind kind));
CUDART_API_SZ(cudaMemcpy2DAsync,
              (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
               size_t height, enum cudaMemcpyKind kind, cudaStream_t stream));
CUDART_API_DS(cudaMemcpy3D, (const struct cudaMemcpy3DParms* p));
CUDART_API_SZ(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms* p, cudaStream_t stream));
CUDART_API_DS(cudaMemcpy2DToArray,
              (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t spitch,
               size_t width, size_t height, enum cudaMemcpyKind kind));
CUDART_API_DS(cudaMemcpy2DFromArray,
              (void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
               size_t width, size_t height, enum cudaMemcpyKind kind));
CUDART_API_DS(cudaMemcpy2DArrayToArray,
              (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
               size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height,
               enum cudaMemcpyKind kind));
CUDART_API_SZ(cudaMemcpy2DToArrayAsync,
              (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t spitch,
               size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream));
CUDART_API_SZ(cudaMemcpy2DFromArrayAsync,
              (void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
               size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream));
CUDART_API_DS(cudaMemcpyToArray, (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src,
                                  size_t count, enum cudaMemcpyKind kind));
CUDART_API_SZ(cudaMemcpyToArrayAsync,
              (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t count,
               enum cudaMemcpyKind kind, cudaStream_t stream));
CUDART_API_DS(cudaMemcpyFromArray, (void* dst, cudaArray_const_t src, size_t wOffset,
                                    size_t hOffset, size_t count, enum cudaMemcpyKind kind));
CUDART_API_SZ(cudaMemcpyFromArrayAsync,
              (void* dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
               enum cudaMemcpyKind kind, cudaStream_t stream));
CUDART_API_DS(cudaMemcpyArrayToArray,
              (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
               size_t wOffsetSrc, size_t hOffsetSrc, size_t count, enum cudaMemcpyKind kind));
CUDART_API_DS(cudaMemcpyToSymbol, (const void* symbol, const void* src, size_t count, size_t offset,
                                   enum cudaMemcpyKind kind));
CUDART_API_DS(cudaMemcpyFromSymbol, (void* dst, const void* symbol, size_t count, size_t offset,
                                     enum cudaMemcpyKind kind));
CUDART_API_SZ(cudaMemcpyToSymbolAsync,
              (const void* symbol, const void* src, size_t count, size_t offset,
               enum cudaMemcpyKind kind, cudaStream_t stream));
CUDART_API_SZ(cudaMemcpyFromSymbolAsync,
              (void* dst, const void* symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
               cudaStream_t stream));
CUDART_API_SZ(cudaMemcpyBatchAsync,
              (void* const* dsts, const void* const* srcs, const size_t* sizes, size_t count,
               struct cudaMemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
               cudaStream_t stream));
CUDART_API_SZ(cudaMemcpy3DBatchAsync, (size_t numOps, struct cudaMemcpy3DBatchOp* opList,
                                       unsigned long long flags, cudaStream_t stream));
CUDART_API_DS(cudaMemset, (void* devPtr, int value, size_t count));
CUDART_API_SZ(cudaMemsetAsync, (void* devPtr, int value, size_t count, cudaStream_t stream));
CUDART_API_DS(cudaMemset2D, (void* devPtr, size_t pitch, int value, size_t width, size_t height));
CUDART_API_SZ(cudaMemset2DAsync, (void* devPtr, size_t pitch, int value, size_t width,
                                  size_t height, cudaStream_t stream));
CUDART_API_DS(cudaMemset3D,
              (struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent));
CUDART_API_SZ(cudaMemset3DAsync, (struct cudaPitchedPtr pitchedDevPtr, int value,
                                  struct cudaExtent extent, cudaStream_t stream));

// Arrays, textures and surfaces.
struct cudaResourceViewDesc;
CUDART_LINKAGE struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                                  enum cudaChannelFormatKind f);
CUDART_API(cudaMallocArray, (cudaArray_t * array, const struct cudaChannelFormatDesc* desc,
                             size_t width, size_t height, unsigned int flags));
CUDART_API(cudaMalloc3DArray, (cudaArray_t * array, const struct cudaChannelFormatDesc* desc,
                               struct cudaExtent extent, unsigned int flags));
CUDART_API(cudaFreeArray, (cudaArray_t array));
CUDART_API(cudaMallocMipmappedArray,
           (cudaMipmappedArray_t * mipmappedArray, const struct cudaChannelFormatDesc* desc,
            struct cudaExtent extent, unsigned int numLevels, unsigned int flags));
CUDART_API(cudaGetMipmappedArrayLevel,
           (cudaArray_t * levelArray, cudaMipmappedArray_const_t mipmappedArray,
            unsigned int level));
CUDART_API(cudaFreeMipmappedArray, (cudaMipmappedArray_t mipmappedArray));
CUDART_API(cudaArrayGetInfo, (struct cudaChannelFormatDesc * desc, struct cudaExtent* extent,
                              unsigned int* flags, cudaArray_t array));
CUDART_API(cudaGetChannelDesc, (struct cudaChannelFormatDesc * desc, cudaArray_const_t array));
CUDART_API(cudaCreateTextureObject,
           (cudaTextureObject_t * pTexObject, const struct cudaResourceDesc* pResDesc,
            const struct cudaTextureDesc* pTexDesc,
            const struct cudaResourceViewDesc* pResViewDesc));
CUDART_API(cudaDestroyTextureObject, (cudaTextureObject_t texObject));
CUDART_API(cudaGetTextureObjectResourceDesc,
           (struct cudaResourceDesc * pResDesc, cudaTextureObject_t texObject));
CUDART_API(cudaGetTextureObjectTextureDesc,
           (struct cudaTextureDesc * pTexDesc, cudaTextureObject_t texObject));
CUDART_API(cudaCreateSurfaceObject,
           (cudaSurfaceObject_t * pSurfObject, const struct cudaResourceDesc* pResDesc));
CUDART_API(cudaDestroySurfaceObject, (cudaSurfaceObject_t surfObject));
CUDART_API(cudaGetSurfaceObjectResourceDesc,
           (struct cudaResourceDesc * pResDesc, cudaSurfaceObject_t surfObject));

// Streams.
CUDART_API(cudaStreamCreate, (cudaStream_t * pStream));
CUDART_API(cudaStreamCreateWithFlags, (cudaStream_t * pStream, unsigned int flags));
CUDART_API(cudaStreamCreateWithPriority,
           (cudaStream_t * pStream, unsigned int flags, int priority));
CUDART_API(cudaStreamDestroy, (cudaStream_t stream));
CUDART_API_SZ(cudaStreamGetPriority, (cudaStream_t hStream, int* priority));
CUDART_API_SZ(cudaStreamGetFlags, (cudaStream_t hStream, unsigned int* flags));
CUDART_API_SZ(cudaStreamGetId, (cudaStream_t hStream, unsigned long long* streamId));
CUDART_API_SZ(cudaStreamGetDevice, (cudaStream_t hStream, int* device));
CUDART_API_SZ(cudaStreamGetAttribute, (cudaStream_t hStream, enum cudaLaunchAttributeID attr,
                                       union cudaLaunchAttributeValue* value_out));
CUDART_API_SZ(cudaStreamSetAttribute, (cudaStream_t hStream, enum cudaLaunchAttributeID attr,
                                       const union cudaLaunchAttributeValue* value));
CUDART_API_SZ(cudaStreamCopyAttributes, (cudaStream_t dst, cudaStream_t src));
CUDART_API_SZ(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags));
CUDART_API_SZ(cudaStreamSynchronize, (cudaStream_t stream));
CUDART_API_SZ(cudaStreamQuery, (cudaStream_t stream));
CUDART_API_SZ(cudaStreamAddCallback, (cudaStream_t stream, cudaStreamCallback_t callback,
                                      void* userData, unsigned int flags));
CUDART_API_SZ(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void* userData));
CUDART_API_SZ(cudaStreamAttachMemAsync,
              (cudaStream_t stream, void* devPtr, size_t length, unsigned int flags));
CUDART_API_SZ(cudaStreamIsCapturing,
              (cudaStream_t stream, enum cudaStreamCaptureStatus* pCaptureStatus));
CUDART_API_SZ(cudaStreamGetCaptureInfo,
              (cudaStream_t stream, enum cudaStreamCaptureStatus* captureStatus_out,
               unsigned long long* id_out, cudaGraph_t* graph_out,
               const cudaGraphNode_t** dependencies_out, const cudaGraphEdgeData** edgeData_out,
               size_t* numDependencies_out));
CUDART_API(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode));

// Captures and graphs.
CUDART_API_SZ(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode));
CUDART_API_SZ(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t* pGraph));
CUDART_API(cudaGraphCreate, (cudaGraph_t * pGraph, unsigned int flags));
CUDART_API(cudaGraphDestroy, (cudaGraph_t graph));
CUDART_API(cudaGraphClone, (cudaGraph_t * pGraphClone, cudaGraph_t originalGraph));
CUDART_API(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes));
CUDART_API(cudaGraphAddEmptyNode, (cudaGraphNode_t * pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies));
CUDART_API(cudaGraphAddKernelNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, const struct cudaKernelNodeParams* pNodeParams));
CUDART_API(cudaGraphAddMemsetNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, const struct cudaMemsetParams* pMemsetParams));
CUDART_API(cudaGraphAddHostNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, const struct cudaHostNodeParams* pNodeParams));
CUDART_API(cudaGraphAddMemcpyNode1D,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, void* dst, const void* src, size_t count,
            enum cudaMemcpyKind kind));
CUDART_API(cudaGraphInstantiate,
           (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags));
CUDART_API(cudaGraphInstantiateWithFlags,
           (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags));
CUDART_API(cudaGraphExecKernelNodeSetParams, (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                              const struct cudaKernelNodeParams* pNodeParams));
CUDART_API(cudaGraphExecMemsetNodeSetParams, (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                              const struct cudaMemsetParams* pNodeParams));
CUDART_API(cudaGraphExecUpdate, (cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                 cudaGraphExecUpdateResultInfo* resultInfo));
CUDART_API(cudaGraphExecDestroy, (cudaGraphExec_t graphExec));
CUDART_API_SZ(cudaGraphUpload, (cudaGraphExec_t graphExec, cudaStream_t stream));
CUDART_API_SZ(cudaGraphLaunch, (cudaGraphExec_t graphExec, cudaStream_t stream));

CUDART_API(cudaDeviceGetGraphMemAttribute,
           (int device, enum cudaGraphMemAttributeType attr, void* value));
CUDART_API(cudaDeviceGraphMemTrim, (int device));
CUDART_API(cudaDeviceSetGraphMemAttribute,
           (int device, enum cudaGraphMemAttributeType attr, void* value));
CUDART_API(cudaGraphAddChildGraphNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, cudaGraph_t childGraph));
CUDART_API(cudaGraphAddDependencies,
           (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
            const cudaGraphEdgeData* edgeData, size_t numDependencies));
CUDART_API(cudaGraphAddEventRecordNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, cudaEvent_t event));
CUDART_API(cudaGraphAddEventWaitNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, cudaEvent_t event));
CUDART_API(cudaGraphAddMemAllocNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, struct cudaMemAllocNodeParams* nodeParams));
CUDART_API(cudaGraphAddMemFreeNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, void* dptr));
CUDART_API(cudaGraphAddMemcpyNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, const struct cudaMemcpy3DParms* pCopyParams));
CUDART_API(cudaGraphAddMemcpyNodeFromSymbol,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, void* dst, const void* symbol, size_t count, size_t offset,
            enum cudaMemcpyKind kind));
CUDART_API(cudaGraphAddMemcpyNodeToSymbol,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            size_t numDependencies, const void* symbol, const void* src, size_t count,
            size_t offset, enum cudaMemcpyKind kind));
CUDART_API(cudaGraphAddNode,
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t* pDependencies,
            const cudaGraphEdgeData* dependencyData, size_t numDependencies,
            struct cudaGraphNodeParams* nodeParams));
CUDART_API(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t* pGraph));
CUDART_API(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char* path, unsigned int flags));
CUDART_API(cudaGraphDestroyNode, (cudaGraphNode_t node));
CUDART_API(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event_out));
CUDART_API(cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event));
CUDART_API(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event_out));
CUDART_API(cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event));
CUDART_API(cudaGraphExecChildGraphNodeSetParams,
           (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, cudaGraph_t childGraph));
CUDART_API(cudaGraphExecEventRecordNodeSetEvent,
           (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event));
CUDART_API(cudaGraphExecEventWaitNodeSetEvent,
           (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event));
CUDART_API(cudaGraphExecGetFlags, (cudaGraphExec_t graphExec, unsigned long long* flags));
CUDART_API(cudaGraphExecHostNodeSetParams, (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                            const struct cudaHostNodeParams* pNodeParams));
CUDART_API(cudaGraphExecMemcpyNodeSetParams, (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                              const struct cudaMemcpy3DParms* pNodeParams));
CUDART_API(cudaGraphExecMemcpyNodeSetParams1D,
           (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void* dst, const void* src,
            size_t count, enum cudaMemcpyKind kind));
CUDART_API(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
           (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void* dst, const void* symbol,
            size_t count, size_t offset, enum cudaMemcpyKind kind));
CUDART_API(cudaGraphExecMemcpyNodeSetParamsToSymbol,
           (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const void* symbol, const void* src,
            size_t count, size_t offset, enum cudaMemcpyKind kind));
CUDART_API(cudaGraphExecNodeSetParams, (cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                        struct cudaGraphNodeParams* nodeParams));
CUDART_API(cudaGraphGetEdges, (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                               cudaGraphEdgeData* edgeData, size_t* numEdges));
CUDART_API(cudaGraphGetRootNodes,
           (cudaGraph_t graph, cudaGraphNode_t* pRootNodes, size_t* pNumRootNodes));
CUDART_API(cudaGraphHostNodeGetParams,
           (cudaGraphNode_t node, struct cudaHostNodeParams* pNodeParams));
CUDART_API(cudaGraphHostNodeSetParams,
           (cudaGraphNode_t node, const struct cudaHostNodeParams* pNodeParams));
CUDART_API(cudaGraphKernelNodeCopyAttributes, (cudaGraphNode_t hDst, cudaGraphNode_t hSrc));
CUDART_API(cudaGraphKernelNodeGetAttribute, (cudaGraphNode_t hNode, enum cudaLaunchAttributeID attr,
                                             union cudaLaunchAttributeValue* value_out));
CUDART_API(cudaGraphKernelNodeGetParams,
           (cudaGraphNode_t node, struct cudaKernelNodeParams* pNodeParams));
CUDART_API(cudaGraphKernelNodeSetAttribute, (cudaGraphNode_t hNode, enum cudaLaunchAttributeID attr,
                                             const union cudaLaunchAttributeValue* value));
CUDART_API(cudaGraphKernelNodeSetParams,
           (cudaGraphNode_t node, const struct cudaKernelNodeParams* pNodeParams));
CUDART_API(cudaGraphMemAllocNodeGetParams,
           (cudaGraphNode_t node, struct cudaMemAllocNodeParams* params_out));
CUDART_API(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void* dptr_out));
CUDART_API(cudaGraphMemcpyNodeGetParams,
           (cudaGraphNode_t node, struct cudaMemcpy3DParms* pNodeParams));
CUDART_API(cudaGraphMemcpyNodeSetParams,
           (cudaGraphNode_t node, const struct cudaMemcpy3DParms* pNodeParams));
CUDART_API(cudaGraphMemcpyNodeSetParams1D, (cudaGraphNode_t node, void* dst, const void* src,
                                            size_t count, enum cudaMemcpyKind kind));
CUDART_API(cudaGraphMemcpyNodeSetParamsFromSymbol,
           (cudaGraphNode_t node, void* dst, const void* symbol, size_t count, size_t offset,
            enum cudaMemcpyKind kind));
CUDART_API(cudaGraphMemcpyNodeSetParamsToSymbol,
           (cudaGraphNode_t node, const void* symbol, const void* src, size_t count, size_t offset,
            enum cudaMemcpyKind kind));
CUDART_API(cudaGraphMemsetNodeGetParams,
           (cudaGraphNode_t node, struct cudaMemsetParams* pNodeParams));
CUDART_API(cudaGraphMemsetNodeSetParams,
           (cudaGraphNode_t node, const struct cudaMemsetParams* pNodeParams));
CUDART_API(cudaGraphNodeFindInClone,
           (cudaGraphNode_t * pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph));
CUDART_API(cudaGraphNodeGetDependencies, (cudaGraphNode_t node, cudaGraphNode_t* pDependencies,
                                          cudaGraphEdgeData* edgeData, size_t* pNumDependencies));
CUDART_API(cudaGraphNodeGetDependentNodes,
           (cudaGraphNode_t node, cudaGraphNode_t* pDependentNodes, cudaGraphEdgeData* edgeData,
            size_t* pNumDependentNodes));
CUDART_API(cudaGraphNodeGetEnabled,
           (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int* isEnabled));
CUDART_API(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType* pType));
CUDART_API(cudaGraphNodeSetEnabled,
           (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled));
CUDART_API(cudaGraphNodeSetParams, (cudaGraphNode_t node, struct cudaGraphNodeParams* nodeParams));
CUDART_API(cudaGraphReleaseUserObject,
           (cudaGraph_t graph, cudaUserObject_t object, unsigned int count));
CUDART_API(cudaGraphRemoveDependencies,
           (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
            const cudaGraphEdgeData* edgeData, size_t numDependencies));
CUDART_API(cudaGraphRetainUserObject,
           (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags));
CUDART_API(cudaUserObjectCreate, (cudaUserObject_t * object_out, void* ptr, cudaHostFn_t destroy,
                                  unsigned int initialRefcount, unsigned int flags));
CUDART_API(cudaUserObjectRelease, (cudaUserObject_t object, unsigned int count));
CUDART_API(cudaUserObjectRetain, (cudaUserObject_t object, unsigned int count));
CUDART_API_SZ(cudaGraphInstantiateWithParams, (cudaGraphExec_t * pGraphExec, cudaGraph_t graph,
                                               cudaGraphInstantiateParams* instantiateParams));
CUDART_API_SZ(cudaStreamBeginCaptureToGraph,
              (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
               const cudaGraphEdgeData* dependencyData, size_t numDependencies,
               enum cudaStreamCaptureMode mode));
CUDART_API_SZ(cudaStreamUpdateCaptureDependencies,
              (cudaStream_t stream, cudaGraphNode_t* dependencies,
               const cudaGraphEdgeData* dependencyData, size_t numDependencies,
               unsigned int flags));

// Pools.
CUDART_API_SZ(cudaMallocFromPoolAsync,
              (void** ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream));
CUDART_API(cudaMemPoolCreate, (cudaMemPool_t * memPool, const struct cudaMemPoolProps* poolProps));
CUDART_API(cudaMemPoolDestroy, (cudaMemPool_t memPool));
CUDART_API(cudaMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep));
CUDART_API(cudaMemPoolSetAttribute,
           (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void* value));
CUDART_API(cudaMemPoolGetAttribute,
           (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void* value));
CUDART_API(cudaMemPoolSetAccess,
           (cudaMemPool_t memPool, const struct cudaMemAccessDesc* descList, size_t count));
CUDART_API(cudaMemPoolGetAccess, (enum cudaMemAccessFlags * flags, cudaMemPool_t memPool,
                                  struct cudaMemLocation* location));
CUDART_API(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * memPool, int device));
CUDART_API(cudaDeviceGetMemPool, (cudaMemPool_t * memPool, int device));
CUDART_API(cudaDeviceSetMemPool, (int device, cudaMemPool_t memPool));

// Events.
CUDART_API(cudaEventCreate, (cudaEvent_t * event));
CUDART_API(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags));
CUDART_API_SZ(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream));
CUDART_API_SZ(cudaEventRecordWithFlags,
              (cudaEvent_t event, cudaStream_t stream, unsigned int flags));
CUDART_API(cudaEventQuery, (cudaEvent_t event));
CUDART_API(cudaEventSynchronize, (cudaEvent_t event));
CUDART_API(cudaEventDestroy, (cudaEvent_t event));
CUDART_API(cudaEventElapsedTime, (float* ms, cudaEvent_t start, cudaEvent_t end));
CUDART_API(cudaIpcGetEventHandle, (struct cudaIpcEventHandle_t * handle, cudaEvent_t event));
CUDART_API(cudaIpcOpenEventHandle, (cudaEvent_t * event, struct cudaIpcEventHandle_t handle));

// Kernels.
CUDART_API_SZ(cudaLaunchKernel, (const void* func, struct dim3 gridDim, struct dim3 blockDim,
                                 void** args, size_t sharedMem, cudaStream_t stream));
CUDART_API_SZ(cudaLaunchKernelExC,
              (const struct cudaLaunchConfig_t* config, const void* func, void** args));
CUDART_API_SZ(cudaLaunchCooperativeKernel,
              (const void* func, struct dim3 gridDim, struct dim3 blockDim, void** args,
               size_t sharedMem, cudaStream_t stream));
CUDART_API(cudaGetKernel, (cudaKernel_t * kernelPtr, const void* entryFuncAddr));
CUDART_API(cudaGetFuncBySymbol, (cudaFunction_t * functionPtr, const void* symbolPtr));
CUDART_API(cudaFuncGetName, (const char** name, const void* func));
CUDART_API(cudaFuncGetParamInfo,
           (const void* func, size_t paramIndex, size_t* paramOffset, size_t* paramSize));
CUDART_API(cudaFuncGetAttributes, (struct cudaFuncAttributes * attr, const void* func));
CUDART_API(cudaFuncSetAttribute, (const void* func, enum cudaFuncAttribute attr, int value));
CUDART_API(cudaFuncSetCacheConfig, (const void* func, enum cudaFuncCache cacheConfig));
CUDART_API(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
           (int* numBlocks, const void* func, int blockSize, size_t dynamicSMemSize));
CUDART_API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
           (int* numBlocks, const void* func, int blockSize, size_t dynamicSMemSize,
            unsigned int flags));
CUDART_API(cudaOccupancyAvailableDynamicSMemPerBlock,
           (size_t * dynamicSmemSize, const void* func, int numBlocks, int blockSize));

// Libraries.
CUDART_API(cudaLibraryLoadData, (cudaLibrary_t * library, const void* code,
                                 enum cudaJitOption* jitOptions, void** jitOptionsValues,
                                 unsigned int numJitOptions, enum cudaLibraryOption* libraryOptions,
                                 void** libraryOptionValues, unsigned int numLibraryOptions));
CUDART_API(cudaLibraryLoadFromFile,
           (cudaLibrary_t * library, const char* fileName, enum cudaJitOption* jitOptions,
            void** jitOptionsValues, unsigned int numJitOptions,
            enum cudaLibraryOption* libraryOptions, void** libraryOptionValues,
            unsigned int numLibraryOptions));
CUDART_API(cudaLibraryUnload, (cudaLibrary_t library));
CUDART_API(cudaLibraryGetKernel, (cudaKernel_t * pKernel, cudaLibrary_t library, const char* name));
CUDART_API(cudaLibraryGetKernelCount, (unsigned int* count, cudaLibrary_t lib));
CUDART_API(cudaLibraryEnumerateKernels,
           (cudaKernel_t * kernels, unsigned int numKernels, cudaLibrary_t lib));
CUDART_API(cudaLibraryGetGlobal,
           (void** dptr, size_t* bytes, cudaLibrary_t library, const char* name));
CUDART_API(cudaLibraryGetManaged,
           (void** dptr, size_t* bytes, cudaLibrary_t library, const char* name));
