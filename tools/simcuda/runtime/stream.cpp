// Streams, events, host callbacks and what can be asked about captures.
#include <memory>

#include "tools/simcuda/runtime/context.h"

using namespace simcuda::runtime;

namespace {

// The data cudaStreamAddCallback hands to the driver: the program's function wants a runtime error.
struct Callback {
  cudaStreamCallback_t function;
  void* user;
};

void call_back(CUstream stream, CUresult status, void* user) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(user));
  callback->function(stream, from_driver(status), callback->user);
}

cudaError_t add_callback(const StreamCalls& streams, cudaStream_t stream,
                         cudaStreamCallback_t function, void* user, unsigned int flags) {
  if (function == nullptr) return cudaErrorInvalidValue;
  auto callback = std::make_unique<Callback>(Callback{function, user});
  const cudaError_t result = streams.cuStreamAddCallback(stream, call_back, callback.get(), flags);
  if (result == cudaSuccess) (void)callback.release();
  return result;
}

cudaError_t capture_info(const StreamCalls& streams, cudaStream_t stream,
                         cudaStreamCaptureStatus* status, unsigned long long* id,
                         cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                         const cudaGraphEdgeData** edges, size_t* count) {
  if (status == nullptr) return cudaErrorInvalidValue;
  CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t found_id = 0;
  const cudaError_t result = streams.cuStreamGetCaptureInfo(
      stream, &found, id == nullptr ? nullptr : &found_id, graph, dependencies,
      reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  if (result != cudaSuccess) return result;
  *status = static_cast<cudaStreamCaptureStatus>(found);
  if (id != nullptr) *id = found_id;
  return cudaSuccess;
}

cudaError_t is_capturing(const StreamCalls& streams, cudaStream_t stream,
                         cudaStreamCaptureStatus* status) {
  if (status == nullptr) return cudaErrorInvalidValue;
  CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
  const cudaError_t result = streams.cuStreamIsCapturing(stream, &found);
  if (result == cudaSuccess) *status = static_cast<cudaStreamCaptureStatus>(found);
  return result;
}

cudaError_t stream_id(const StreamCalls& streams, cudaStream_t stream, unsigned long long* id) {
  if (id == nullptr) return cudaErrorInvalidValue;
  return streams.cuStreamGetId(stream, id);
}

cudaError_t create_event(cudaEvent_t* event, unsigned int flags) {
  return with_context([&](const Driver& driver) { return driver.cuEventCreate(event, flags); });
}

cudaError_t create_stream(cudaStream_t* stream, unsigned int flags) {
  return with_context([&](const Driver& driver) { return driver.cuStreamCreate(stream, flags); });
}

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  return create_stream(pStream, CU_STREAM_DEFAULT);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  return create_stream(pStream, flags);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  return with_context([&](const Driver& driver) {
    return driver.cuStreamCreateWithPriority(pStream, flags, priority);
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return with_context([&](const Driver& driver) {
    return stream == nullptr ? cudaErrorInvalidResourceHandle : driver.cuStreamDestroy(stream);
  });
}

CUDART_BOTH_STREAMS(cudaStreamGetPriority, _ptsz, (cudaStream_t hStream, int* priority),
                    streams.cuStreamGetPriority(hStream, priority))

CUDART_BOTH_STREAMS(cudaStreamGetFlags, _ptsz, (cudaStream_t hStream, unsigned int* flags),
                    streams.cuStreamGetFlags(hStream, flags))

CUDART_BOTH_STREAMS(cudaStreamGetId, _ptsz, (cudaStream_t hStream, unsigned long long* streamId),
                    stream_id(streams, hStream, streamId))

CUDART_BOTH_STREAMS(cudaStreamGetDevice, _ptsz, (cudaStream_t hStream, int* device),
                    streams.cuStreamGetDevice(hStream, device))

CUDART_BOTH_STREAMS(cudaStreamWaitEvent, _ptsz,
                    (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
                    streams.cuStreamWaitEvent(stream, event, flags))

CUDART_BOTH_STREAMS(cudaStreamSynchronize, _ptsz, (cudaStream_t stream),
                    streams.cuStreamSynchronize(stream))

CUDART_BOTH_STREAMS(cudaStreamQuery, _ptsz, (cudaStream_t stream), streams.cuStreamQuery(stream))

CUDART_BOTH_STREAMS(cudaStreamGetAttribute, _ptsz,
                    (cudaStream_t hStream, cudaLaunchAttributeID attr,
                     cudaLaunchAttributeValue* value_out),
                    streams.cuStreamGetAttribute(hStream, static_cast<CUstreamAttrID>(attr),
                                                 reinterpret_cast<CUstreamAttrValue*>(value_out)))

CUDART_BOTH_STREAMS(cudaStreamSetAttribute, _ptsz,
                    (cudaStream_t hStream, cudaLaunchAttributeID attr,
                     const cudaLaunchAttributeValue* value),
                    streams.cuStreamSetAttribute(hStream, static_cast<CUstreamAttrID>(attr),
                                                 reinterpret_cast<const CUstreamAttrValue*>(value)))

CUDART_BOTH_STREAMS(cudaStreamCopyAttributes, _ptsz, (cudaStream_t dst, cudaStream_t src),
                    streams.cuStreamCopyAttributes(dst, src))

CUDART_BOTH_STREAMS(cudaStreamAddCallback, _ptsz,
                    (cudaStream_t stream, cudaStreamCallback_t callback, void* userData,
                     unsigned int flags),
                    add_callback(streams, stream, callback, userData, flags))

CUDART_BOTH_STREAMS(cudaLaunchHostFunc, _ptsz,
                    (cudaStream_t stream, cudaHostFn_t fn, void* userData),
                    streams.cuLaunchHostFunc(stream, fn, userData))

CUDART_BOTH_STREAMS(cudaStreamAttachMemAsync, _ptsz,
                    (cudaStream_t stream, void* devPtr, size_t length, unsigned int flags),
                    streams.cuStreamAttachMemAsync(stream, reinterpret_cast<CUdeviceptr>(devPtr),
                                                   length, flags))

CUDART_BOTH_STREAMS(cudaStreamIsCapturing, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus),
                    is_capturing(streams, stream, pCaptureStatus))

CUDART_BOTH_STREAMS(cudaStreamGetCaptureInfo, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out,
                     unsigned long long* id_out, cudaGraph_t* graph_out,
                     const cudaGraphNode_t** dependencies_out,
                     const cudaGraphEdgeData** edgeData_out, size_t* numDependencies_out),
                    capture_info(streams, stream, captureStatus_out, id_out, graph_out,
                                 dependencies_out, edgeData_out, numDependencies_out))

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return with_context([&](const Driver& driver) {
    if (mode == nullptr) return cudaErrorInvalidValue;
    auto exchanged = static_cast<CUstreamCaptureMode>(*mode);
    const cudaError_t result = driver.cuThreadExchangeStreamCaptureMode(&exchanged);
    if (result == cudaSuccess) *mode = static_cast<cudaStreamCaptureMode>(exchanged);
    return result;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return create_event(event, CU_EVENT_DEFAULT);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return create_event(event, flags);
}

CUDART_BOTH_STREAMS(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
                    streams.cuEventRecord(event, stream))

CUDART_BOTH_STREAMS(cudaEventRecordWithFlags, _ptsz,
                    (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
                    streams.cuEventRecordWithFlags(event, stream, flags))

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_context([&](const Driver& driver) { return driver.cuEventQuery(event); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_context([&](const Driver& driver) { return driver.cuEventSynchronize(event); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_context([&](const Driver& driver) { return driver.cuEventDestroy(event); });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return with_context(
      [&](const Driver& driver) { return driver.cuEventElapsedTime(ms, start, end); });
}
