// Graphs: built by hand and captured, changed, launched.

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

class GraphTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    ASSERT_OK(cuStreamCreate(&a_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuStreamCreate(&b_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuGraphCreate(&graph_, 0));
    ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&seen_), 4, 0));
    memory_ = allocate(4096);
    ASSERT_OK(cuMemsetD32_v2(memory_, 1, 1024));
    ASSERT_OK(cuCtxSynchronize());
  }
  void TearDown() override {
    EXPECT_OK(cuGraphDestroy(graph_));
    KernelTest::TearDown();
  }

  struct Words {
    CUdeviceptr pointer;
    uint32_t count = 1024;
    uint32_t value = 0;
    void* parameters[3] = {&pointer, &count, &value};
    CUDA_KERNEL_NODE_PARAMS_v2 node{};
    Words(CUfunction function, CUdeviceptr where, uint32_t with) : pointer(where), value(with) {
      node.func = function;
      node.gridDimX = 16;
      node.blockDimX = 64;
      node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
      node.kernelParams = parameters;
    }
    Words(const Words&) = delete;
    Words& operator=(const Words&) = delete;
  };
  CUgraphNode add_kernel(CUfunction function, uint32_t value,
                         const std::vector<CUgraphNode>& after = {}) {
    Words words(function, memory_, value);
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddKernelNode_v2(&node, graph_, after.data(), after.size(), &words.node));
    return node;
  }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
  }
  uint32_t launched(CUgraphExec exec) {
    EXPECT_OK(cuGraphLaunch(exec, a_));
    EXPECT_OK(cuStreamSynchronize(a_));
    return word(memory_ + 4092);
  }
  size_t nodes_of(CUgraph graph) {
    size_t count = 0;
    EXPECT_OK(cuGraphGetNodes(graph, nullptr, &count));
    return count;
  }

  CUstream a_ = nullptr;
  CUstream b_ = nullptr;
  CUgraph graph_ = nullptr;
  CUdeviceptr memory_ = 0;
  uint32_t* seen_ = nullptr;
};

TEST_F(GraphTest, RunsItsNodesInOrderEachTimeItIsLaunched) {
  auto first = add_kernel(fill_, 5);
  add_kernel(add_, 2, {first});
  auto exec = instantiate(graph_);
  EXPECT_EQ(1u, word(memory_));
  EXPECT_EQ(7u, launched(exec));
  ASSERT_OK(cuMemsetD32_v2(memory_, 1, 1024));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(7u, launched(exec));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, a_));
}

TEST_F(GraphTest, AForgottenDependencyShows) {
  add_kernel(fill_, 5);
  add_kernel(add_, 2);
  EXPECT_EQ(5u, launched(instantiate(graph_)));
}

TEST_F(GraphTest, EdgesCanBeAddedAndRemovedButNotToACycle) {
  auto first = add_kernel(fill_, 5);
  auto second = add_kernel(add_, 2);
  CUgraphNode wrong = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphAddDependencies(graph_, &first, &second, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph_, &first, &second, 1));
  EXPECT_EQ(7u, launched(instantiate(graph_)));
  ASSERT_OK(cuGraphAddDependencies_v2(graph_, &second, &first, nullptr, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate_v2(&exec, graph_, &wrong, nullptr, 0));
  EXPECT_NE(nullptr, wrong);
  ASSERT_OK(cuGraphRemoveDependencies(graph_, &first, &second, 1));
  size_t count = 1;
  CUgraphNode found = nullptr;
  ASSERT_OK(cuGraphNodeGetDependencies(first, &found, &count));
  EXPECT_EQ(second, found);
  ASSERT_OK(cuGraphNodeGetDependentNodes(first, nullptr, &count));
  EXPECT_EQ(0u, count);
  count = 1;
  ASSERT_OK(cuGraphGetRootNodes(graph_, &found, &count));
  EXPECT_EQ(second, found);
  EXPECT_EQ(5u, launched(instantiate(graph_)));
  ASSERT_OK(cuGraphDestroyNode(second));
  EXPECT_EQ(1u, nodes_of(graph_));
}

TEST_F(GraphTest, CopiesSetsAndHostFunctionsAreNodes) {
  CUgraphNode set = nullptr;
  CUgraphNode copy = nullptr;
  CUgraphNode host = nullptr;
  CUgraphNode empty = nullptr;
  CUDA_MEMSET_NODE_PARAMS sets{memory_, 0, 0x77, 4, 1024, 1};
  CUDA_MEMCPY3D copies{};
  copies.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copies.srcDevice = memory_ + 4092;
  copies.dstMemoryType = CU_MEMORYTYPE_HOST;
  copies.dstHost = seen_;
  copies.WidthInBytes = 4;
  copies.Height = copies.Depth = 1;
  CUDA_HOST_NODE_PARAMS calls{[](void* word) { ++*static_cast<uint32_t*>(word); }, seen_};
  ASSERT_OK(cuGraphAddMemsetNode(&set, graph_, nullptr, 0, &sets, context_));
  ASSERT_OK(cuGraphAddEmptyNode(&empty, graph_, &set, 1));
  ASSERT_OK(cuGraphAddMemcpyNode(&copy, graph_, &empty, 1, &copies, context_));
  ASSERT_OK(cuGraphAddHostNode(&host, graph_, &copy, 1, &calls));
  auto exec = instantiate(graph_);
  EXPECT_EQ(0x77u, launched(exec));
  EXPECT_EQ(0x78u, *seen_);
  sets.value = 0x99;
  ASSERT_OK(cuGraphExecMemsetNodeSetParams(exec, set, &sets, context_));
  launched(exec);
  EXPECT_EQ(0x9au, *seen_);
  ASSERT_OK(cuGraphNodeSetEnabled(exec, set, 0));
  ASSERT_OK(cuMemsetD32_v2(memory_, 3, 1024));
  ASSERT_OK(cuCtxSynchronize());
  launched(exec);
  EXPECT_EQ(4u, *seen_);
  ASSERT_OK(cuGraphMemsetNodeGetParams(set, &sets));
  EXPECT_EQ(0x77u, sets.value);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  ASSERT_OK(cuGraphNodeGetType(host, &type));
  EXPECT_EQ(CU_GRAPH_NODE_TYPE_HOST, type);
  sets.elementSize = 3;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphMemsetNodeSetParams(set, &sets));
}

TEST_F(GraphTest, ParametersOfKernelsAreToldAndChanged) {
  auto node = add_kernel(fill_, 5);
  auto exec = instantiate(graph_);
  CUDA_KERNEL_NODE_PARAMS_v2 params{};
  ASSERT_OK(cuGraphKernelNodeGetParams_v2(node, &params));
  EXPECT_EQ(fill_, params.func);
  EXPECT_EQ(16u, params.gridDimX);
  EXPECT_EQ(5u, *static_cast<uint32_t*>(params.kernelParams[2]));
  EXPECT_EQ(memory_, *static_cast<CUdeviceptr*>(params.kernelParams[0]));
  Words words(fill_, memory_, 8);
  ASSERT_OK(cuGraphExecKernelNodeSetParams_v2(exec, node, &words.node));
  EXPECT_EQ(8u, launched(exec));
  EXPECT_EQ(5u, launched(instantiate(graph_)));
  ASSERT_OK(cuGraphKernelNodeSetParams_v2(node, &words.node));
  EXPECT_EQ(8u, launched(instantiate(graph_)));
}

TEST_F(GraphTest, AnExecutableGraphIsUpdatedFromOneOfTheSameShape) {
  auto first = add_kernel(fill_, 5);
  add_kernel(add_, 2, {first});
  auto exec = instantiate(graph_);
  CUgraph clone = nullptr;
  ASSERT_OK(cuGraphClone(&clone, graph_));
  CUgraphNode twin = nullptr;
  ASSERT_OK(cuGraphNodeFindInClone(&twin, first, clone));
  Words words(fill_, memory_, 40);
  ASSERT_OK(cuGraphKernelNodeSetParams_v2(twin, &words.node));
  CUgraphExecUpdateResultInfo info{};
  ASSERT_OK(cuGraphExecUpdate_v2(exec, clone, &info));
  EXPECT_EQ(42u, launched(exec));
  ASSERT_OK(cuGraphAddEmptyNode(&twin, clone, nullptr, 0));
  EXPECT_CU(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, clone, &info));
  EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
  EXPECT_EQ(42u, launched(exec));
  EXPECT_OK(cuGraphDestroy(clone));
}

TEST_F(GraphTest, AChildGraphIsACopy) {
  CUgraph child = nullptr;
  CUgraph inside = nullptr;
  CUgraphNode node = nullptr;
  auto first = add_kernel(fill_, 5);
  ASSERT_OK(cuGraphClone(&child, graph_));
  ASSERT_OK(cuGraphDestroyNode(first));
  ASSERT_OK(cuGraphAddChildGraphNode(&node, graph_, nullptr, 0, child));
  ASSERT_OK(cuGraphDestroy(child));
  add_kernel(add_, 1, {node});
  ASSERT_OK(cuGraphChildGraphNodeGetGraph(node, &inside));
  EXPECT_EQ(1u, nodes_of(inside));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(inside));
  EXPECT_EQ(6u, launched(instantiate(graph_)));
}

TEST_F(GraphTest, AGraphNeverRunsBesideItself) {
  add_kernel(add_, 1);
  auto exec = instantiate(graph_);
  Gate gate;
  gate.close(a_);
  ASSERT_OK(cuGraphLaunch(exec, a_));
  ASSERT_OK(cuGraphLaunch(exec, b_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(b_));
  gate.open();
  EXPECT_OK(cuStreamSynchronize(b_));
  EXPECT_EQ(3u, word(memory_));
}

TEST_F(GraphTest, MemoryThatIsGoneFailsTheLaunch) {
  CUgraphNode node = nullptr;
  CUDA_MEMSET_NODE_PARAMS sets{memory_, 0, 1, 4, 1024, 1};
  ASSERT_OK(cuGraphAddMemsetNode(&node, graph_, nullptr, 0, &sets, context_));
  auto exec = instantiate(graph_);
  ASSERT_OK(cuMemFree_v2(memory_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, a_));
}

class CaptureTest : public GraphTest {
 protected:
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_OK(cuStreamBeginCapture_v2(a_, mode));
  }
  CUgraph end() {
    CUgraph graph = nullptr;
    EXPECT_OK(cuStreamEndCapture(a_, &graph));
    return graph;
  }
  // The error that the capture ends with.
  CUresult ended() {
    CUgraph graph = graph_;
    CUresult result = cuStreamEndCapture(a_, &graph);
    EXPECT_EQ(nullptr, graph);
    return result;
  }
  CUevent event() {
    CUevent event = nullptr;
    EXPECT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
  }
};

TEST_F(CaptureTest, WhatIsCapturedRunsOnlyWhenLaunched) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  begin();
  ASSERT_OK(launch_words(fill_, memory_, 1024, 5, a_));
  ASSERT_OK(cuMemsetD32Async(memory_, 6, 1, a_));
  ASSERT_OK(cuMemcpyDtoDAsync_v2(memory_ + 4, memory_, 4, a_));
  ASSERT_OK(cuMemcpyDtoHAsync_v2(seen_, memory_ + 4, 4, a_));
  ASSERT_OK(cuLaunchHostFunc(
      a_, [](void* word) { ++*static_cast<uint32_t*>(word); }, seen_));
  ASSERT_OK(cuStreamIsCapturing(a_, &status));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
  CUgraph graph = end();
  EXPECT_EQ(5u, nodes_of(graph));
  EXPECT_EQ(1u, word(memory_));
  EXPECT_EQ(5u, launched(instantiate(graph)));
  EXPECT_EQ(6u, word(memory_));
  EXPECT_EQ(7u, *seen_);
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(CaptureTest, EventsBringOtherStreamsInAndBack) {
  CUevent fork = event();
  CUevent join = event();
  begin();
  ASSERT_OK(launch_words(fill_, memory_, 1024, 5, a_));
  ASSERT_OK(cuEventRecord(fork, a_));
  ASSERT_OK(cuStreamWaitEvent(b_, fork, 0));
  ASSERT_OK(launch_words(add_, memory_, 512, 1, a_));
  ASSERT_OK(launch_words(add_, memory_ + 2048, 512, 2, b_));
  ASSERT_OK(cuEventRecord(join, b_));
  ASSERT_OK(cuStreamWaitEvent(a_, join, 0));
  CUgraph captured = nullptr;
  const CUgraphNode* heads = nullptr;
  size_t count = 0;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  ASSERT_OK(cuStreamGetCaptureInfo_v2(a_, &status, nullptr, &captured, &heads, &count));
  EXPECT_EQ(2u, count);
  ASSERT_OK(launch_words(add_, memory_, 1024, 10, a_));
  CUgraph graph = end();
  EXPECT_EQ(captured, graph);
  EXPECT_EQ(17u, launched(instantiate(graph)));
  EXPECT_EQ(16u, word(memory_));
  // The event stands for nodes now.
  EXPECT_CU(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(join));
  EXPECT_OK(cuEventRecord(join, b_));
  EXPECT_OK(cuEventSynchronize(join));
}

TEST_F(CaptureTest, UnjoinedWorkIsAnError) {
  CUevent fork = event();
  begin();
  ASSERT_OK(cuEventRecord(fork, a_));
  ASSERT_OK(cuStreamWaitEvent(b_, fork, 0));
  ASSERT_OK(cuMemsetD32Async(memory_, 5, 1, b_));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, ended());
  EXPECT_OK(cuMemsetD32Async(memory_, 5, 1, b_));
}

TEST_F(CaptureTest, WhatACaptureCannotHoldMakesItInvalid) {
  const auto invalidated = [&](const char* what, auto call, CUresult expected) {
    SCOPED_TRACE(what);
    begin();
    EXPECT_CU(expected, call());
    EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD32Async(memory_, 5, 1, a_));
    EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, ended());
    EXPECT_OK(cuMemsetD32Async(memory_, 5, 1, a_));
  };
  CUdeviceptr p = 0;
  CUevent outside = event();
  ASSERT_OK(cuEventRecord(outside, b_));
  const CUresult unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  invalidated(
      "sync", [&] { return cuStreamSynchronize(a_); }, unsupported);
  invalidated(
      "query", [&] { return cuStreamQuery(a_); }, unsupported);
  invalidated(
      "context", [&] { return cuCtxSynchronize(); }, unsupported);
  invalidated(
      "malloc", [&] { return cuMemAlloc_v2(&p, 16); }, unsupported);
  invalidated(
      "event", [&] { return cuEventQuery(outside); }, unsupported);
  invalidated(
      "isolation", [&] { return cuStreamWaitEvent(a_, outside, 0); },
      CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
}

TEST_F(CaptureTest, TheLegacyStreamCannotWaitForACapturedOne) {
  CUstream blocking = nullptr;
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32Async(memory_, 5, 1, nullptr));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(blocking, &graph));
}

TEST_F(CaptureTest, ARelaxedCaptureAllowsWhatItDoesNotSee) {
  CUdeviceptr p = 0;
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  ASSERT_OK(cuMemAlloc_v2(&p, 16));
  EXPECT_OK(cuStreamSynchronize(b_));
  EXPECT_OK(cuMemFree_v2(p));
  EXPECT_OK(cuGraphDestroy(end()));
  begin();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
  ASSERT_OK(cuMemAlloc_v2(&p, 16));
  ASSERT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_OK(cuMemFree_v2(0));
  EXPECT_OK(cuGraphDestroy(end()));
}

TEST_F(CaptureTest, CapturesDoNotMergeAndEndWhereTheyBegan) {
  CUevent fork = event();
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(a_, &graph));
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture_v2(a_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuStreamBeginCapture_v2(b_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuEventRecord(fork, a_));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(b_, fork, 0));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(b_, &graph));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, ended());
}

TEST_F(CaptureTest, ExternalEventsAreNodesAndLaunchesAreChildren) {
  CUevent external = event();
  add_kernel(fill_, 5);
  auto inner = instantiate(graph_);
  begin();
  ASSERT_OK(cuGraphLaunch(inner, a_));
  ASSERT_OK(launch_words(add_, memory_, 1024, 1, a_));
  ASSERT_OK(cuEventRecordWithFlags(external, a_, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph = end();
  auto exec = instantiate(graph);
  EXPECT_EQ(6u, launched(exec));
  Gate gate;
  gate.close(a_);
  ASSERT_OK(cuGraphLaunch(exec, a_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuEventQuery(external));
  gate.open();
  EXPECT_OK(cuEventSynchronize(external));
}

TEST_F(CaptureTest, ADestroyedStreamEndsItsCapture) {
  begin();
  CUgraph captured = nullptr;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUevent fork = event();
  ASSERT_OK(cuEventRecord(fork, a_));
  ASSERT_OK(cuStreamWaitEvent(b_, fork, 0));
  ASSERT_OK(cuStreamGetCaptureInfo_v2(a_, &status, nullptr, &captured, nullptr, nullptr));
  ASSERT_OK(cuStreamDestroy_v2(a_));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuStreamIsCapturing(b_, &status));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, status);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(captured));
}

TEST_F(CaptureTest, AStreamThatWasJoinedMayBeDestroyed) {
  CUevent fork = event();
  CUevent join = event();
  CUstream joined = nullptr;
  ASSERT_OK(cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
  begin();
  ASSERT_OK(launch_words(fill_, memory_, 1024, 5, a_));
  ASSERT_OK(cuEventRecord(fork, a_));
  ASSERT_OK(cuStreamWaitEvent(joined, fork, 0));
  ASSERT_OK(launch_words(add_, memory_, 1024, 2, joined));
  ASSERT_OK(cuEventRecord(join, joined));
  ASSERT_OK(cuStreamWaitEvent(a_, join, 0));
  ASSERT_OK(cuStreamDestroy_v2(joined));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  ASSERT_OK(cuStreamIsCapturing(a_, &status));
  EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
  ASSERT_OK(launch_words(add_, memory_, 1024, 10, a_));
  CUgraph graph = end();
  EXPECT_EQ(3u, nodes_of(graph));
  EXPECT_EQ(17u, launched(instantiate(graph)));
}

TEST_F(CaptureTest, WhatADestroyedStreamDidHasToBeJoined) {
  for (const bool late : {false, true}) {
    CUevent fork = event();
    CUevent join = event();
    CUstream forked = nullptr;
    ASSERT_OK(cuStreamCreate(&forked, CU_STREAM_NON_BLOCKING));
    begin();
    ASSERT_OK(cuEventRecord(fork, a_));
    ASSERT_OK(cuStreamWaitEvent(forked, fork, 0));
    ASSERT_OK(cuMemsetD32Async(memory_, 5, 1, forked));
    ASSERT_OK(cuEventRecord(join, forked));
    ASSERT_OK(cuStreamDestroy_v2(forked));
    // The event stands for what the stream did, after its end, too.
    if (late) {
      ASSERT_OK(cuStreamWaitEvent(a_, join, 0));
      EXPECT_OK(cuGraphDestroy(end()));
    } else {
      EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, ended());
    }
  }
}

}  // namespace
}  // namespace simcuda::test
