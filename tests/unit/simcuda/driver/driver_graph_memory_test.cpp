// Memory that graphs allocate and free.

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

constexpr size_t kBytes = 4096;

class GraphMemoryTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuGraphCreate(&graph_, 0));
  }
  void TearDown() override {
    if (exec_ != nullptr) {
      EXPECT_OK(cuGraphExecDestroy(exec_));
    }
    EXPECT_OK(cuGraphDestroy(graph_));
    KernelTest::TearDown();
  }

  static CUDA_MEM_ALLOC_NODE_PARAMS wanted() {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    params.bytesize = kBytes;
    return params;
  }
  CUdeviceptr add_alloc(CUgraphNode* node, CUgraph graph) {
    auto params = wanted();
    EXPECT_OK(cuGraphAddMemAllocNode(node, graph, nullptr, 0, &params));
    return params.dptr;
  }
  CUgraphNode add_fill(CUgraphNode after, CUdeviceptr where, uint32_t value) {
    uint32_t count = kBytes / 4;
    void* parameters[] = {&where, &count, &value};
    CUDA_KERNEL_NODE_PARAMS_v2 params{};
    params.func = fill_;
    params.gridDimX = 16;
    params.blockDimX = 64;
    params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = parameters;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddKernelNode_v2(&node, graph_, &after, 1, &params));
    return node;
  }
  void instantiate(unsigned long long flags = 0) {
    ASSERT_OK(cuGraphInstantiateWithFlags(&exec_, graph_, flags));
  }
  CUresult launched() {
    const CUresult result = cuGraphLaunch(exec_, stream_);
    EXPECT_OK(cuStreamSynchronize(stream_));
    return result;
  }
  static cuuint64_t counted(CUgraphMem_attribute attribute) {
    cuuint64_t count = 0;
    EXPECT_OK(cuDeviceGetGraphMemAttribute(0, attribute, &count));
    return count;
  }

  CUstream stream_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

TEST_F(GraphMemoryTest, IsThereFromALaunchOnUntilItIsFreed) {
  CUgraphNode node = nullptr;
  const CUdeviceptr memory = add_alloc(&node, graph_);
  add_fill(node, memory, 5);
  instantiate();
  uint32_t seen = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&seen, memory, 4));
  EXPECT_OK(launched());
  EXPECT_EQ(5u, word(memory + kBytes - 4));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec_, stream_));
  ASSERT_OK(cuMemFreeAsync(memory, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&seen, memory, 4));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(memory));
  EXPECT_OK(launched());
  EXPECT_EQ(5u, word(memory));
  ASSERT_OK(cuMemFree_v2(memory));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&seen, memory, 4));
}

TEST_F(GraphMemoryTest, ItsParametersAreTold) {
  CUgraphNode node = nullptr;
  const CUdeviceptr memory = add_alloc(&node, graph_);
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  ASSERT_OK(cuGraphMemAllocNodeGetParams(node, &params));
  EXPECT_EQ(memory, params.dptr);
  EXPECT_EQ(kBytes, params.bytesize);
  CUgraphNode freed = nullptr;
  CUdeviceptr told = 0;
  ASSERT_OK(cuGraphAddMemFreeNode(&freed, graph_, &node, 1, memory));
  ASSERT_OK(cuGraphMemFreeNodeGetParams(freed, &told));
  EXPECT_EQ(memory, told);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  ASSERT_OK(cuGraphNodeGetType(freed, &type));
  EXPECT_EQ(CU_GRAPH_NODE_TYPE_MEM_FREE, type);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphMemAllocNodeGetParams(freed, &params));
}

TEST_F(GraphMemoryTest, MayLiveWithinALaunch) {
  CUgraphNode node = nullptr;
  CUgraphNode freed = nullptr;
  const CUdeviceptr inside = add_alloc(&node, graph_);
  const CUdeviceptr out = allocate(kBytes);
  node = add_fill(node, inside, 9);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = inside;
  copy.dstDevice = out;
  copy.WidthInBytes = kBytes;
  copy.Height = copy.Depth = 1;
  ASSERT_OK(cuGraphAddMemcpyNode(&node, graph_, &node, 1, &copy, context_));
  ASSERT_OK(cuGraphAddMemFreeNode(&freed, graph_, &node, 1, inside));
  instantiate();
  EXPECT_OK(launched());
  EXPECT_OK(launched());
  EXPECT_EQ(9u, word(out + kBytes - 4));
  EXPECT_EQ(0u, counted(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(inside));
}

TEST_F(GraphMemoryTest, WhatIsUsedAfterItsFreeIsJunk) {
  CUgraphNode node = nullptr;
  CUgraphNode freed = nullptr;
  const CUdeviceptr inside = add_alloc(&node, graph_);
  const CUdeviceptr out = allocate(4);
  node = add_fill(node, inside, 9);
  ASSERT_OK(cuGraphAddMemFreeNode(&freed, graph_, &node, 1, inside));
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = inside;
  copy.dstDevice = out;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  ASSERT_OK(cuGraphAddMemcpyNode(&node, graph_, &freed, 1, &copy, context_));
  instantiate();
  EXPECT_OK(launched());
  EXPECT_NE(9u, word(out));
}

TEST_F(GraphMemoryTest, AnotherGraphMayFreeIt) {
  CUgraphNode node = nullptr;
  const CUdeviceptr memory = add_alloc(&node, graph_);
  instantiate();
  CUgraph other = nullptr;
  CUgraphExec frees = nullptr;
  ASSERT_OK(cuGraphCreate(&other, 0));
  ASSERT_OK(cuGraphAddMemFreeNode(&node, other, nullptr, 0, memory));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&node, other, nullptr, 0, memory));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&node, graph_, nullptr, 0, memory));
  ASSERT_OK(cuGraphInstantiateWithFlags(&frees, other, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(frees, stream_));
  EXPECT_OK(launched());
  EXPECT_EQ(kBytes, counted(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
  EXPECT_OK(cuGraphLaunch(frees, stream_));
  EXPECT_EQ(0u, counted(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
  EXPECT_OK(launched());
  EXPECT_OK(cuGraphLaunch(frees, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuGraphExecDestroy(frees));
  EXPECT_OK(cuGraphDestroy(other));
}

TEST_F(GraphMemoryTest, ALaunchMayFreeWhatTheOneBeforeLeft) {
  CUgraphNode node = nullptr;
  const CUdeviceptr memory = add_alloc(&node, graph_);
  add_fill(node, memory, 5);
  instantiate(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  EXPECT_OK(launched());
  EXPECT_OK(launched());
  EXPECT_EQ(kBytes, counted(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
  EXPECT_OK(cuMemFree_v2(memory));
}

TEST_F(GraphMemoryTest, OutlivesItsGraph) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  const CUdeviceptr memory = add_alloc(&node, graph);
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  ASSERT_OK(cuGraphExecDestroy(exec));
  ASSERT_OK(cuGraphDestroy(graph));
  ASSERT_OK(cuMemsetD32Async(memory, 3, 1, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(3u, word(memory));
  EXPECT_OK(cuMemFree_v2(memory));
  // Its address may be used again now.
  ASSERT_OK(cuGraphCreate(&graph, 0));
  EXPECT_EQ(memory, add_alloc(&node, graph));
  ASSERT_OK(cuGraphDestroy(graph));
}

TEST_F(GraphMemoryTest, ForbidsWhatWouldPutItInTwoPlaces) {
  CUgraphNode node = nullptr;
  CUgraphNode last = nullptr;
  CUgraph copy = nullptr;
  CUgraphExec second = nullptr;
  const CUdeviceptr memory = add_alloc(&node, graph_);
  last = add_fill(node, memory, 5);
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&copy, graph_));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(last));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuGraphRemoveDependencies(graph_, &node, &last, 1));
  instantiate();
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&second, graph_, 0));
  CUgraph parent = nullptr;
  ASSERT_OK(cuGraphCreate(&parent, 0));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddChildGraphNode(&node, parent, nullptr, 0, graph_));
  EXPECT_OK(cuGraphDestroy(parent));
  ASSERT_OK(cuGraphExecDestroy(exec_));
  instantiate();
}

TEST_F(GraphMemoryTest, ComesFromCapturedCalls) {
  CUdeviceptr kept = 0;
  CUdeviceptr inside = 0;
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuMemAllocAsync(&kept, kBytes, stream_));
  ASSERT_OK(cuMemAllocAsync(&inside, kBytes, stream_));
  ASSERT_OK(launch_words(fill_, inside, kBytes / 4, 8, stream_));
  ASSERT_OK(cuMemcpyDtoDAsync_v2(kept, inside, kBytes, stream_));
  ASSERT_OK(cuMemFreeAsync(inside, stream_));
  ASSERT_OK(cuStreamEndCapture(stream_, &captured));
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec_, captured, 0));
  EXPECT_OK(launched());
  EXPECT_EQ(8u, word(kept + kBytes - 4));
  EXPECT_OK(cuMemFreeAsync(kept, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuGraphDestroy(captured));
}

TEST_F(GraphMemoryTest, IsCounted) {
  CUgraphNode node = nullptr;
  const CUdeviceptr memory = add_alloc(&node, graph_);
  instantiate();
  EXPECT_OK(launched());
  EXPECT_OK(cuMemFree_v2(memory));
  EXPECT_LE(kBytes, counted(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH));
  EXPECT_LE(kBytes, counted(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT));
  ASSERT_OK(cuDeviceGraphMemTrim(0));
  EXPECT_EQ(0u, counted(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT));
  cuuint64_t zero = 0;
  ASSERT_OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
  EXPECT_EQ(0u, counted(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero));
}

}  // namespace
}  // namespace simcuda::test
