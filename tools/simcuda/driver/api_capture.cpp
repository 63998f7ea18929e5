// Streams are captured.

#include <utility>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

CUresult capture_info(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                      CUgraph* graph, const CUgraphNode** heads, size_t* count) {
  return in_stream(handle, [&](Driver& state, Context&, Stream& stream) {
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Captures::Info info;
    CUresult result = state.captures.info(stream, &info);
    if (result != CUDA_SUCCESS) return result;
    *status = info.status;
    if (id != nullptr) *id = info.id;
    if (graph != nullptr) *graph = info.graph;
    if (heads != nullptr) *heads = info.heads == nullptr ? nullptr : info.heads->data();
    if (count != nullptr) *count = info.heads == nullptr ? 0 : info.heads->size();
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace simcuda

using simcuda::capture_info;
using simcuda::Context;
using simcuda::Driver;
using simcuda::in_driver;
using simcuda::in_stream;
using simcuda::Stream;

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return in_stream(handle, [&](Driver& state, Context&, Stream& stream) {
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    return state.captures.begin(stream, mode);
  });
}

CUresult cuStreamBeginCapture(CUstream stream) {
  return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return in_stream(handle, [&](Driver& state, Context&, Stream& stream) {
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return state.captures.end(stream, graph);
  });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return capture_info(stream, status, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return capture_info(stream, status, id, nullptr, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** heads, size_t* count) {
  return capture_info(stream, status, id, graph, heads, count);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** heads,
                                   const CUgraphEdgeData** edges, size_t* count) {
  if (edges != nullptr) *edges = nullptr;  // no edge has data of its own
  return capture_info(stream, status, id, graph, heads, count);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return in_driver([&](Driver&) {
    if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, simcuda::Captures::thread_mode());
    return CUDA_SUCCESS;
  });
}
