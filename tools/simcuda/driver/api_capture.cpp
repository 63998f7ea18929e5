// Streams are captured.

#include <memory>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/graph_calls.h"

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

CUresult begin_in_graph(CUstream handle, CUgraph graph_handle, const CUgraphNode* nodes,
                        const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
  return in_stream(handle, [&](Driver& state, Context&, Stream& stream) {
    std::vector<std::shared_ptr<GraphNode>> heads;
    auto graph = state.graphs.graphs.find(graph_handle);
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED || !graph || graph->child ||
        (count != 0 && nodes == nullptr)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (!plain(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < count; ++i) {
      auto node = state.graphs.nodes.find(nodes[i]);
      if (!node || node->graph.lock() != graph) return CUDA_ERROR_INVALID_VALUE;
      heads.push_back(std::move(node));
    }
    return state.captures.begin(stream, mode, graph, std::move(heads));
  });
}

CUresult set_heads(CUstream handle, const CUgraphNode* nodes, size_t count, unsigned flags) {
  return in_stream(handle, [&](Driver& state, Context&, Stream& stream) {
    if ((count != 0 && nodes == nullptr) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return state.captures.set_heads(stream, nodes, count,
                                    flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  });
}

}  // namespace
}  // namespace simcuda

using simcuda::begin_in_graph;
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

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                     const CUgraphEdgeData* edges, size_t count,
                                     CUstreamCaptureMode mode) {
  return begin_in_graph(stream, graph, nodes, edges, count, mode);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count,
                                           unsigned flags) {
  return simcuda::set_heads(stream, nodes, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes,
                                              const CUgraphEdgeData* edges, size_t count,
                                              unsigned flags) {
  if (!simcuda::plain(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
  return simcuda::set_heads(stream, nodes, count, flags);
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
