// Nodes of any kind by one call, attributes, captures into graphs that are there, what graphs keep
// alive.

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

class GraphNodesTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuGraphCreate(&graph_, 0));
    memory_ = allocate(4096);
    ASSERT_OK(cuMemsetD32_v2(memory_, 1, 1024));
    ASSERT_OK(cuCtxSynchronize());
  }
  void TearDown() override {
    EXPECT_OK(cuGraphDestroy(graph_));
    KernelTest::TearDown();
  }

  CUgraphNode add(CUgraphNodeParams params, const std::vector<CUgraphNode>& after = {}) {
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddNode_v2(&node, graph_, after.data(), nullptr, after.size(), &params));
    return node;
  }
  CUgraphNodeParams set_params(uint32_t value) const {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset = {memory_, 0, value, 4, 1024, 1, context_};
    return params;
  }
  CUgraphNodeParams kernel_params(CUfunction function, uint32_t value) {
    value_ = value;
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel.func = function;
    params.kernel.gridDimX = 16;
    params.kernel.blockDimX = 64;
    params.kernel.gridDimY = params.kernel.gridDimZ = 1;
    params.kernel.blockDimY = params.kernel.blockDimZ = 1;
    params.kernel.kernelParams = parameters_;
    return params;
  }
  uint32_t launched(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    const uint32_t found = launched(exec);
    EXPECT_OK(cuGraphExecDestroy(exec));
    return found;
  }
  uint32_t launched(CUgraphExec exec) {
    EXPECT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
    return word(memory_ + 4092);
  }
  size_t nodes_of(CUgraph graph) {
    size_t count = 0;
    EXPECT_OK(cuGraphGetNodes(graph, nullptr, &count));
    return count;
  }

  CUstream stream_ = nullptr;
  CUgraph graph_ = nullptr;
  CUdeviceptr memory_ = 0;
  uint32_t count_ = 1024, value_ = 0;
  void* parameters_[3] = {&memory_, &count_, &value_};
};

TEST_F(GraphNodesTest, OneCallAddsAndChangesAll) {
  uint32_t calls = 0;
  auto set = add(set_params(5));
  auto kernel = add(kernel_params(add_, 2), {set});
  CUgraphNodeParams host{};
  host.type = CU_GRAPH_NODE_TYPE_HOST;
  host.host = {[](void* count) { ++*static_cast<uint32_t*>(count); }, &calls};
  auto function = add(host, {kernel});
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUgraphNodeParams record{};
  record.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  record.eventRecord.event = event;
  add(record, {function});
  CUgraphNodeParams wait{};
  wait.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  wait.eventWait.event = event;
  add(wait);
  CUgraphNodeParams empty{};
  empty.type = CU_GRAPH_NODE_TYPE_EMPTY;
  add(empty);
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph_, 0));
  EXPECT_EQ(7u, launched(exec));
  EXPECT_EQ(1u, calls);
  auto params = set_params(50);
  ASSERT_OK(cuGraphExecNodeSetParams(exec, set, &params));
  params = kernel_params(add_, 3);
  ASSERT_OK(cuGraphExecNodeSetParams(exec, kernel, &params));
  EXPECT_EQ(53u, launched(exec));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphExecNodeSetParams(exec, set, &params));
  ASSERT_OK(cuGraphNodeSetParams(kernel, &params));
  EXPECT_EQ(8u, launched(graph_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetParams(set, &params));
  params = {};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  CUgraphNode node = nullptr;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddNode(&node, graph_, nullptr, 0, &params));
}

TEST_F(GraphNodesTest, AGraphMayBeMovedIntoAnother) {
  CUgraph inner = nullptr;
  CUgraphNode inside = nullptr;
  ASSERT_OK(cuGraphCreate(&inner, 0));
  auto set = set_params(4);
  ASSERT_OK(cuGraphAddNode(&inside, inner, nullptr, 0, &set));
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  params.graph = {inner, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddNode(&node, graph_, nullptr, 0, &params));
  EXPECT_EQ(inner, params.graph.graph);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(inner));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&node, graph_, nullptr, 0, &params));
  EXPECT_EQ(4u, launched(graph_));
}

TEST_F(GraphNodesTest, KernelsHaveAttributes) {
  auto first = add(kernel_params(fill_, 1));
  auto second = add(kernel_params(fill_, 2), {first});
  CUkernelNodeAttrValue value{};
  value.priority = -3;
  ASSERT_OK(cuGraphKernelNodeSetAttribute(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  ASSERT_OK(cuGraphKernelNodeCopyAttributes(second, first));
  CUkernelNodeAttrValue told{};
  ASSERT_OK(cuGraphKernelNodeGetAttribute(second, CU_LAUNCH_ATTRIBUTE_PRIORITY, &told));
  EXPECT_EQ(-3, told.priority);
  value.cooperative = 1;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED,
            cuGraphKernelNodeSetAttribute(first, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  auto set = add(set_params(4));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphKernelNodeGetAttribute(set, CU_LAUNCH_ATTRIBUTE_PRIORITY, &told));
}

TEST_F(GraphNodesTest, ACaptureMayGoOnWithAGraph) {
  auto set = add(set_params(5));
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamBeginCaptureToGraph(stream_, graph_, &set, nullptr, 1,
                                        CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(launch_words(add_, memory_, 1024, 2, stream_));
  ASSERT_OK(cuStreamEndCapture(stream_, &captured));
  EXPECT_EQ(graph_, captured);
  EXPECT_EQ(2u, nodes_of(graph_));
  EXPECT_EQ(7u, launched(graph_));
  // One that fails leaves it as it is, with what has been captured.
  ASSERT_OK(cuStreamBeginCaptureToGraph(stream_, graph_, nullptr, nullptr, 0,
                                        CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream_));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream_, &captured));
  EXPECT_EQ(2u, nodes_of(graph_));
}

TEST_F(GraphNodesTest, NodesCanBePutIntoACapture) {
  CUgraph captured = nullptr;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  const CUgraphNode* heads = nullptr;
  size_t count = 0;
  ASSERT_OK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(launch_words(fill_, memory_, 1024, 3, stream_));
  ASSERT_OK(cuStreamGetCaptureInfo_v2(stream_, &status, &id, &captured, &heads, &count));
  ASSERT_EQ(1u, count);
  CUgraphNode set = nullptr;
  auto params = set_params(20);
  ASSERT_OK(cuGraphAddNode(&set, captured, heads, count, &params));
  ASSERT_OK(
      cuStreamUpdateCaptureDependencies(stream_, &set, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  ASSERT_OK(launch_words(add_, memory_, 1024, 1, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuStreamUpdateCaptureDependencies(stream_, &set, 1, 7));
  ASSERT_OK(cuStreamEndCapture(stream_, &captured));
  EXPECT_EQ(21u, launched(captured));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cuStreamUpdateCaptureDependencies(
                                          stream_, &set, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  ASSERT_OK(cuGraphDestroy(captured));
}

TEST_F(GraphNodesTest, ObjectsLiveAsLongAsAGraphRefersToThem) {
  uint32_t gone = 0;
  CUuserObject object = nullptr;
  auto destroy = [](void* count) { ++*static_cast<uint32_t*>(count); };
  ASSERT_OK(cuUserObjectCreate(&object, &gone, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  ASSERT_OK(cuUserObjectRetain(object, 2));
  ASSERT_OK(cuGraphRetainUserObject(graph_, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  ASSERT_OK(cuUserObjectRelease(object, 2));
  EXPECT_EQ(0u, gone);
  CUgraph clone = nullptr;
  ASSERT_OK(cuGraphClone(&clone, graph_));
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph_, 0));
  ASSERT_OK(cuGraphReleaseUserObject(graph_, object, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphReleaseUserObject(graph_, object, 1));
  ASSERT_OK(cuGraphDestroy(clone));
  EXPECT_EQ(0u, gone);
  ASSERT_OK(cuGraphExecDestroy(exec));
  EXPECT_EQ(1u, gone);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuUserObjectRetain(object, 1));
}

TEST_F(GraphNodesTest, IsPrinted) {
  auto set = add(set_params(5));
  add(kernel_params(fill_, 1), {set});
  const std::string path = ::testing::TempDir() + "graph_nodes_test.dot";
  ASSERT_OK(cuGraphDebugDotPrint(graph_, path.c_str(), 0));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_TRUE(text.str().starts_with("digraph")) << text.str();
  EXPECT_NE(std::string::npos, text.str().find("-> "));
  std::remove(path.c_str());
  EXPECT_CU(CUDA_ERROR_OPERATING_SYSTEM, cuGraphDebugDotPrint(graph_, "/no/such/folder/x", 0));
}

}  // namespace
}  // namespace simcuda::test
