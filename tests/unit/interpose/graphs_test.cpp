// The writes of a graph's launch, against a driver that knows nothing but graphs.
#include "interpose/model/graphs.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <utility>

namespace gpusnap::graphs_test {

namespace {

// A node as the fake driver keeps it.
struct FakeNode {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUDA_KERNEL_NODE_PARAMS_v1 kernel{};
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS memset{};
  CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 words{};
  CUevent event = nullptr;
  CUgraph child = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
  CUdeviceptr freed = 0;
  bool told = true;  // false: the driver does not say what is in it
};
std::map<CUgraph, std::vector<FakeNode*>> graphs;

FakeNode& node_of(CUgraphNode handle) {
  return *reinterpret_cast<FakeNode*>(handle);
}
CUgraphNode handle_of(FakeNode& node) {
  return reinterpret_cast<CUgraphNode>(&node);
}
CUgraph graph_of(uintptr_t number) {
  return reinterpret_cast<CUgraph>(number);
}
CUgraphExec exec_of(uintptr_t number) {
  return reinterpret_cast<CUgraphExec>(number);
}
CUevent event_of(uintptr_t number) {
  return reinterpret_cast<CUevent>(number);
}

CUresult get_nodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  const auto found = graphs.find(graph);
  if (found == graphs.end()) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = handle_of(*found->second[i]);
  }
  *count = found->second.size();
  return CUDA_SUCCESS;
}
CUresult get_type(CUgraphNode node, CUgraphNodeType* type) {
  *type = node_of(node).type;
  return CUDA_SUCCESS;
}
template <auto kMember, class T>
CUresult get(CUgraphNode node, T* params) {
  *params = node_of(node).*kMember;
  return node_of(node).told ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
// A library's kernel and its function in the context.
CUresult get_function(CUfunction* function, CUkernel kernel) {
  const auto number = reinterpret_cast<uintptr_t>(kernel);
  *function = reinterpret_cast<CUfunction>(number + 1000);
  return CUDA_SUCCESS;
}
CUresult attribute(int* value, CUdevice_attribute, CUdevice device) {
  *value = 9;
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

ImageContents image() {
  ImageContents contents;
  ImageEntry ptx;
  ptx.bytes =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry fill(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p];\n"
      "st.global.u32 [%a], 0; ret; }\n";
  for (const char* name : {"chase", "hunt"}) {
    ptx.bytes += ".visible .entry ";
    ptx.bytes += name;
    ptx.bytes +=
        "(.param .u64 p) { .reg .b64 %a, %b; ld.param.u64 %a, [p];\n"
        "ld.global.u64 %b, [%a]; st.global.u32 [%b], 0; ret; }\n";
  }
  contents.entries.push_back(ptx);
  return contents;
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
constexpr uint64_t kFirst = 0x10000000, kSecond = 0x20000000, kPinned = 0x30000000;
constexpr uint64_t kBytes = 0x10000;

class GraphsTest : public testing::Test {
 protected:
  GraphsTest() {
    driver_.cuDeviceGetAttribute = attribute;
    driver_.cuKernelGetFunction = get_function;
    driver_.cuGraphGetNodes = get_nodes;
    driver_.cuGraphNodeGetType = get_type;
    driver_.cuGraphKernelNodeGetParams = get<&FakeNode::kernel>;
    driver_.cuGraphMemcpyNodeGetParams = get<&FakeNode::copy>;
    driver_.cuGraphMemsetNodeGetParams = get<&FakeNode::memset>;
    driver_.cuGraphBatchMemOpNodeGetParams = get<&FakeNode::words>;
    driver_.cuGraphEventRecordNodeGetEvent = get<&FakeNode::event>;
    driver_.cuGraphChildGraphNodeGetGraph = get<&FakeNode::child>;
    driver_.cuGraphMemAllocNodeGetParams = get<&FakeNode::alloc>;
    driver_.cuGraphMemFreeNodeGetParams = get<&FakeNode::freed>;
    for (uint64_t address : {kFirst, kSecond}) {
      EXPECT_TRUE(memory_.insert({address, kBytes, MemoryKind::kDevice, {}, 0, 0, ""}));
    }
    EXPECT_TRUE(memory_.insert({kPinned, kBytes, MemoryKind::kPinned, {}, 0, 0, ""}));
    modules_.add_module(reinterpret_cast<CUmodule>(1), nullptr, image());
    const char* names[] = {"fill", "chase", "hunt"};
    for (CUfunction function : {fill_, chase_, hunt_}) {
      modules_.add_function(function, 0, names[reinterpret_cast<uintptr_t>(function) - 1]);
    }
  }
  ~GraphsTest() override { graphs.clear(); }

  static FakeNode kernel(CUfunction function, uint64_t& argument) {
    // As the driver gives it: the array is the graph's own.
    static std::deque<void*> arrays;
    arrays.push_back(&argument);
    FakeNode node;
    node.type = CU_GRAPH_NODE_TYPE_KERNEL;
    node.kernel.func = function;
    node.kernel.kernelParams = &arrays.back();
    return node;
  }
  static FakeNode copy(CUmemorytype kind, uint64_t to, size_t bytes) {
    FakeNode node;
    node.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    node.copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    node.copy.dstMemoryType = kind;
    if (kind == CU_MEMORYTYPE_HOST) {
      node.copy.dstHost = reinterpret_cast<void*>(to);
    } else {
      node.copy.dstDevice = to;
    }
    node.copy.WidthInBytes = bytes;
    node.copy.Height = node.copy.Depth = 1;
    return node;
  }
  static FakeNode set(uint64_t to, size_t width, size_t height = 1, size_t pitch = 0) {
    FakeNode node;
    node.type = CU_GRAPH_NODE_TYPE_MEMSET;
    node.memset = {to, pitch, 0, 4, width, height};
    return node;
  }
  static FakeNode plain(CUgraphNodeType type) {
    FakeNode node;
    node.type = type;
    return node;
  }
  static FakeNode alloc(uint64_t address, size_t bytes, int device = 0) {
    FakeNode node;
    node.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    node.alloc.dptr = address;
    node.alloc.bytesize = bytes;
    node.alloc.poolProps.location.id = device;
    return node;
  }
  static FakeNode free(uint64_t address) {
    FakeNode node;
    node.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    node.freed = address;
    return node;
  }
  // A function of the host, as it is while ours is in its place.
  static HostNodes::Node host(FakeNode& node) {
    HostNodes::Node host;
    host.handle = handle_of(node);
    host.callback = std::make_unique<GraphCallback>();
    return host;
  }
  static std::vector<HostNodes::Node> hosts(std::vector<FakeNode*> nodes) {
    std::vector<HostNodes::Node> hosts;
    for (FakeNode* node : nodes) hosts.push_back(host(*node));
    return hosts;
  }
  std::string instantiate(std::vector<FakeNode*> nodes, uintptr_t number = 1) {
    graphs[graph_of(number)] = std::move(nodes);
    return graphs_.instantiated(exec_of(number), graph_of(number));
  }
  WriteSet launch(uintptr_t number = 1) const {
    WriteSet writes;
    graphs_.add_writes(exec_of(number), writes);
    EXPECT_TRUE(writes.said());
    EXPECT_TRUE(writes.launch());
    return writes;
  }
  static Ranges ranges_of(const WriteSet& set) {
    Ranges ranges;
    for (const WriteSet::Range& range : set) ranges.emplace_back(range.address, range.size);
    return ranges;
  }

  const CUfunction fill_ = reinterpret_cast<CUfunction>(1);
  const CUfunction chase_ = reinterpret_cast<CUfunction>(2);
  const CUfunction hunt_ = reinterpret_cast<CUfunction>(3);
  Driver driver_;
  MemoryMap memory_;
  Modules modules_{driver_};
  Graphs graphs_{driver_, modules_, memory_};
  uint64_t first_ = kFirst + 16, second_ = kSecond;
};

TEST_F(GraphsTest, WritesWhatItsNodesWrite) {
  FakeNode a = kernel(fill_, first_), b = copy(CU_MEMORYTYPE_DEVICE, kSecond + 8, 100),
           c = set(kSecond + 0x1000, 4, 2, 256), d = plain(CU_GRAPH_NODE_TYPE_EMPTY);
  EXPECT_EQ(instantiate({&a, &b, &c, &d}), "");
  const WriteSet set = launch();
  EXPECT_TRUE(set.proven());
  EXPECT_FALSE(set.everything());
  EXPECT_EQ(ranges_of(set), (Ranges{{kFirst, WriteSet::kWholeRange},
                                    {kSecond + 8, 100},
                                    {kSecond + 0x1000, 16},
                                    {kSecond + 0x1100, 16}}));
  EXPECT_EQ(graphs_.kernels(exec_of(1)), 1u);
}

TEST_F(GraphsTest, NamesEveryKernelOfWhichItGuesses) {
  FakeNode a = kernel(chase_, first_), b = kernel(fill_, second_), c = kernel(hunt_, second_),
           d = kernel(chase_, second_);
  EXPECT_EQ(instantiate({&a, &b, &c, &d}), "");
  const WriteSet set = launch();
  EXPECT_FALSE(set.everything());
  ASSERT_EQ(set.guesses().size(), 2u);
  EXPECT_EQ(modules_.kernels().name(set.guesses()[0]), "chase");
  EXPECT_EQ(modules_.kernels().name(set.guesses()[1]), "hunt");
  EXPECT_EQ(graphs_.kernels(exec_of(1)), 4u);
}

TEST_F(GraphsTest, AsksWhatTheArgumentsLeadToAtEachLaunch) {
  uint64_t later = 0x40000000;
  FakeNode a = kernel(fill_, later);
  instantiate({&a});
  later = kFirst;  // the graph has a copy of its own
  EXPECT_EQ(ranges_of(launch()), Ranges());
  EXPECT_TRUE(memory_.insert({0x40000000, kBytes, MemoryKind::kDevice, {}, 0, 0, ""}));
  EXPECT_EQ(ranges_of(launch()), (Ranges{{0x40000000, WriteSet::kWholeRange}}));
}

TEST_F(GraphsTest, WhatIsNotKnownWritesEverything) {
  EXPECT_TRUE(launch(7).everything());
  FakeNode stranger = kernel(reinterpret_cast<CUfunction>(99), first_);
  instantiate({&stranger});
  EXPECT_TRUE(launch().everything());
  FakeNode silent = kernel(fill_, first_);
  silent.told = false;
  EXPECT_EQ(instantiate({&silent}, 2), "");
  EXPECT_TRUE(launch(2).everything());
  EXPECT_EQ(graphs_.kernels(exec_of(2)), 1u);
  graphs_.destroyed(exec_of(1));
  EXPECT_EQ(graphs_.number(exec_of(1)), UINT64_MAX);
}

TEST_F(GraphsTest, KnowsKernelsOfLibrariesByTheirFunctions) {
  const auto library = reinterpret_cast<CUlibrary>(7);
  modules_.add_library(library, image());
  modules_.add_kernel(reinterpret_cast<CUkernel>(50), 1, "chase");
  modules_.add_kernel(reinterpret_cast<CUkernel>(51), 1, "fill");
  // The program has the kernel, the graph its function.
  FakeNode a = kernel(reinterpret_cast<CUfunction>(1051), first_);
  instantiate({&a});
  EXPECT_TRUE(launch().proven());
  EXPECT_EQ(ranges_of(launch()), (Ranges{{kFirst, WriteSet::kWholeRange}}));
  // Once the library has gone the handle may be another one's.
  modules_.remove_library(library, memory_);
  instantiate({&a}, 2);
  EXPECT_TRUE(launch(2).everything());
}

TEST_F(GraphsTest, KnowsTheWordsThatNodesWrite) {
  std::array<CUstreamBatchMemOpParams, 4> operations{};
  operations[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, kFirst + 8, 1, 0, 0};
  operations[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, kPinned, 1, 0, 0};
  operations[2].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, kSecond, 1, 0, 0};
  operations[3].memoryBarrier = {CU_STREAM_MEM_OP_BARRIER, 0};
  FakeNode words = plain(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  words.words = {nullptr, operations.size(), operations.data(), 0};
  EXPECT_EQ(instantiate({&words}), "");
  EXPECT_EQ(ranges_of(launch()), (Ranges{{kFirst + 8, 4}, {kSecond, 8}}));
  operations[0].writeValue.address = kFirst + 64;
  EXPECT_EQ(graphs_.set_words(exec_of(1), handle_of(words), {operations.data(), 2}), "");
  EXPECT_EQ(ranges_of(launch()), (Ranges{{kFirst + 64, 4}}));
  // The host may take a word that it sees for a signal.
  operations[0].writeValue.address = kPinned + 4;
  const std::string seen = "a graph that writes values to memory that the host sees";
  EXPECT_EQ(graphs_.set_words(exec_of(1), handle_of(words), operations), seen);
  EXPECT_EQ(instantiate({&words}, 2), seen);
  operations[0].writeValue.address = 0x50000000;
  EXPECT_EQ(instantiate({&words}, 3), seen);
  operations[0].operation = static_cast<CUstreamBatchMemOpType>(77);
  EXPECT_EQ(instantiate({&words}, 4),
            "a graph with an operation on memory of a kind that is not known");
  EXPECT_TRUE(launch(4).everything());
  words.told = false;
  EXPECT_EQ(instantiate({&words}, 5), "a graph that the driver does not describe");
}

TEST_F(GraphsTest, RefusesByName) {
  const std::pair<CUgraphNodeType, const char*> kinds[] = {
      {CU_GRAPH_NODE_TYPE_HOST, "a graph with a host function that cannot be replaced by ours"},
      {CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, "a graph that uses external semaphores"},
      {CU_GRAPH_NODE_TYPE_CONDITIONAL, "a graph with conditions"},
      {static_cast<CUgraphNodeType>(77),
       "a graph with a node of a kind that this version does not know"}};
  for (const auto& [type, name] : kinds) {
    FakeNode node = plain(type);
    EXPECT_EQ(instantiate({&node}), name);
  }
  FakeNode array = copy(CU_MEMORYTYPE_ARRAY, kFirst, 16);
  EXPECT_EQ(instantiate({&array}), "");
  FakeNode silent = set(kFirst, 4);
  silent.told = false;
  EXPECT_EQ(instantiate({&silent}), "a graph that the driver does not describe");
  EXPECT_EQ(graphs_.updated(exec_of(1), graph_of(99)), "a graph that the driver does not describe");
}

TEST_F(GraphsTest, AChildIsANodeThatDoesAllThatItsOwnDo) {
  FakeNode a = kernel(fill_, first_), b = kernel(chase_, second_),
           hidden = plain(CU_GRAPH_NODE_TYPE_HOST);
  graphs[graph_of(5)] = {&a, &b};
  FakeNode parent = plain(CU_GRAPH_NODE_TYPE_GRAPH);
  parent.child = graph_of(5);
  EXPECT_EQ(instantiate({&parent}), "");
  EXPECT_EQ(graphs_.kernels(exec_of(1)), 2u);
  EXPECT_EQ(launch().guesses().size(), 1u);
  EXPECT_EQ(ranges_of(launch()).front().first, kFirst);
  graphs[graph_of(6)] = {&hidden};
  EXPECT_EQ(graphs_.set_child(exec_of(1), handle_of(parent), graph_of(6)),
            "a graph with a host function that cannot be replaced by ours");
}

TEST_F(GraphsTest, OneNodeMayChange) {
  FakeNode a = kernel(fill_, first_), b = copy(CU_MEMORYTYPE_DEVICE, kFirst, 16),
           c = set(kFirst + 64, 4), d = plain(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  d.event = event_of(8);
  instantiate({&a, &b, &c, &d});
  const FakeNode other = kernel(fill_, second_);
  EXPECT_EQ(graphs_.set_kernel(exec_of(1), handle_of(a), other.kernel), "");
  EXPECT_EQ(graphs_.set_copy(exec_of(1), handle_of(b),
                             copy(CU_MEMORYTYPE_DEVICE, kSecond + 512, 32).copy),
            "");
  graphs_.set_memset(exec_of(1), handle_of(c), set(kSecond + 1024, 8).memset);
  graphs_.set_record(exec_of(1), handle_of(d), event_of(9));
  EXPECT_EQ(ranges_of(launch()),
            (Ranges{{kSecond, WriteSet::kWholeRange}, {kSecond + 512, 32}, {kSecond + 1024, 32}}));
  EXPECT_EQ(graphs_.events(exec_of(1)), std::vector{event_of(9)});
  EXPECT_EQ(graphs_.kernels(exec_of(1)), 1u);
}

TEST_F(GraphsTest, WhatIsSwitchedOffWritesNothing) {
  FakeNode a = kernel(fill_, first_), b = set(kSecond, 4);
  instantiate({&a, &b});
  graphs_.set_enabled(exec_of(1), handle_of(a), false);
  EXPECT_EQ(ranges_of(launch()), (Ranges{{kSecond, 16}}));
  EXPECT_EQ(graphs_.kernels(exec_of(1)), 0u);
  // It stays off, whatever its parameters become.
  graphs_.set_kernel(exec_of(1), handle_of(a), kernel(fill_, second_).kernel);
  EXPECT_EQ(ranges_of(launch()), (Ranges{{kSecond, 16}}));
  graphs_.set_enabled(exec_of(1), handle_of(a), true);
  EXPECT_EQ(ranges_of(launch()).size(), 2u);
}

// Which node became which is not known then: nothing of the old ones may be lost.
TEST_F(GraphsTest, AfterAnUpdateWhatIsSetComesOnTop) {
  FakeNode a = set(kFirst, 4);
  instantiate({&a});
  FakeNode b = set(kFirst + 64, 4), c = kernel(fill_, second_);
  graphs[graph_of(3)] = {&b, &c};
  EXPECT_EQ(graphs_.updated(exec_of(1), graph_of(3)), "");
  EXPECT_EQ(ranges_of(launch()), (Ranges{{kFirst + 64, 16}, {kSecond, WriteSet::kWholeRange}}));
  graphs_.set_kernel(exec_of(1), handle_of(c), kernel(fill_, first_).kernel);
  EXPECT_EQ(ranges_of(launch()), (Ranges{{kFirst + 64, 16},
                                         {kSecond, WriteSet::kWholeRange},
                                         {kFirst, WriteSet::kWholeRange}}));
  EXPECT_EQ(graphs_.kernels(exec_of(1)), 1u);
}

TEST_F(GraphsTest, BringsWhatNoAllocationHoldsToTheHost) {
  constexpr uint64_t kPlain = 0x7fff0000;
  FakeNode pinned = copy(CU_MEMORYTYPE_HOST, kPinned + 4, 16),
           plain = copy(CU_MEMORYTYPE_HOST, kPlain, 16), device = copy(CU_MEMORYTYPE_DEVICE, 5, 16);
  plain.copy.Height = 3;
  plain.copy.dstPitch = 64;
  plain.copy.dstXInBytes = 8;
  plain.copy.dstY = 1;
  EXPECT_EQ(instantiate({&pinned, &plain, &device}), "");
  auto blocks = graphs_.brought_to_host(exec_of(1));
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(reinterpret_cast<uint64_t>(blocks[0].start), kPlain + 72);
  EXPECT_EQ(blocks[0].bytes(), 48u);
  EXPECT_EQ(blocks[0].pitch, 64u);
  EXPECT_EQ(ranges_of(launch()).front(), (std::pair<uint64_t, uint64_t>{kPinned + 4, 16}));
  // The kind that the memory has at the launch counts.
  EXPECT_TRUE(memory_.insert({kPlain, kBytes, MemoryKind::kPinned, {}, 0, 0, ""}));
  EXPECT_TRUE(graphs_.brought_to_host(exec_of(1)).empty());
  EXPECT_TRUE(memory_.erase(kPlain));
  EXPECT_EQ(graphs_.set_enabled(exec_of(1), handle_of(plain), false), "");
  EXPECT_TRUE(graphs_.brought_to_host(exec_of(1)).empty());
}

TEST_F(GraphsTest, KnowsFunctionsOfTheHostAlsoOfGraphsWithin) {
  FakeNode a = plain(CU_GRAPH_NODE_TYPE_HOST), b = plain(CU_GRAPH_NODE_TYPE_HOST),
           parent = plain(CU_GRAPH_NODE_TYPE_GRAPH);
  parent.child = graph_of(5);
  graphs[graph_of(5)] = {&b};
  graphs[graph_of(1)] = {&a, &parent};
  auto known = hosts({&b, &a});
  const std::vector<GraphCallback*> order = {known[1].callback.get(), known[0].callback.get()};
  EXPECT_EQ(graphs_.instantiated(exec_of(1), graph_of(1), std::move(known)), "");
  EXPECT_EQ(graphs_.callbacks(exec_of(1)), order);
  auto changed = std::make_unique<GraphCallback>();
  GraphCallback* const other = changed.get();
  EXPECT_EQ(graphs_.set_host(exec_of(1), handle_of(a), std::move(changed)), "");
  EXPECT_EQ(graphs_.callbacks(exec_of(1)), (std::vector{other, order[1]}));
}

// One whose run is still to come stays.
TEST_F(GraphsTest, KeepsFunctionsUntilTheyHaveRun) {
  FakeNode a = plain(CU_GRAPH_NODE_TYPE_HOST);
  graphs[graph_of(1)] = {&a};
  auto known = hosts({&a});
  GraphCallback* const callback = known[0].callback.get();
  EXPECT_EQ(graphs_.instantiated(exec_of(1), graph_of(1), std::move(known)), "");
  callback->launched.push_back(3);
  graphs_.destroyed(exec_of(1));
  EXPECT_EQ(callback->launched.front(), 3u);
  EXPECT_TRUE(graphs_.callbacks(exec_of(1)).empty());
}

TEST_F(GraphsTest, TellsMemoryThatLastsFromMemoryThatDoesNot) {
  FakeNode lasts = alloc(0x50000000, 512, 1), passes = alloc(0x60000000, 256),
           freed = free(0x60000000), older = free(0x70000000);
  EXPECT_EQ(instantiate({&lasts, &passes, &freed, &older}), "");
  const Graphs::Memory memory = graphs_.memory(exec_of(1));
  ASSERT_EQ(memory.lasting.size(), 1u);
  EXPECT_EQ(memory.lasting[0].address, 0x50000000u);
  EXPECT_EQ(memory.lasting[0].size, 512u);
  EXPECT_EQ(memory.lasting[0].device, 1);
  ASSERT_EQ(memory.transient.size(), 1u);
  EXPECT_EQ(memory.transient[0].address, 0x60000000u);
  EXPECT_EQ(memory.freed, std::vector<uint64_t>{0x70000000});
  EXPECT_TRUE(graphs_.allocates(0x60000000));
  EXPECT_FALSE(graphs_.allocates(0x70000000));
  // The same address twice, one after the other: what is left is the second.
  FakeNode again = alloc(0x60000000, 1024);
  EXPECT_EQ(instantiate({&passes, &freed, &again}, 2), "");
  EXPECT_EQ(graphs_.memory(exec_of(2)).transient.size(), 1u);
  ASSERT_EQ(graphs_.memory(exec_of(2)).lasting.size(), 1u);
  EXPECT_EQ(graphs_.memory(exec_of(2)).lasting[0].size, 1024u);
}

TEST_F(GraphsTest, MemoryOfAGraphWithinIsRefused) {
  FakeNode lasts = alloc(0x50000000, 512), parent = plain(CU_GRAPH_NODE_TYPE_GRAPH);
  parent.child = graph_of(5);
  graphs[graph_of(5)] = {&lasts};
  EXPECT_EQ(instantiate({&parent}), "a graph within a graph that allocates or frees memory");
}

// In a replay the driver has empty nodes there.
TEST_F(GraphsTest, NodesThatStandInAreWhatTheyStandFor) {
  FakeNode a = plain(CU_GRAPH_NODE_TYPE_EMPTY), b = plain(CU_GRAPH_NODE_TYPE_EMPTY);
  GraphMemoryPlaceholders::Node node;
  node.graph = graph_of(1);
  node.address = 0x50000000;
  graphs_.graph_memory_placeholders().add(handle_of(b), node);
  node.allocates = true;
  node.params.bytesize = 512;
  graphs_.graph_memory_placeholders().add(handle_of(a), node);
  EXPECT_EQ(instantiate({&a, &b}), "");
  EXPECT_EQ(graphs_.memory(exec_of(1)).transient.size(), 1u);
  graphs_.graph_memory_placeholders().note_memory(0x50000000, {512, 0});
  EXPECT_TRUE(graphs_.graph_memory_placeholders().without_node().empty());
  EXPECT_TRUE(graphs_.graph_memory_placeholders().has_nodes_of(graph_of(1)));
  graphs_.graph_memory_placeholders().forget(graph_of(1));
  EXPECT_EQ(graphs_.graph_memory_placeholders().without_node(), std::vector<uint64_t>{0x50000000});
}

TEST_F(GraphsTest, AfterAnUpdateNothingThatReachesTheHostIsMistaken) {
  FakeNode a = copy(CU_MEMORYTYPE_HOST, 0x7fff0000, 16);
  instantiate({&a});
  EXPECT_EQ(graphs_.set_copy(exec_of(1), handle_of(a), a.copy), "");
  EXPECT_EQ(graphs_.updated(exec_of(1), graph_of(1)), "");
  EXPECT_NE(graphs_.set_copy(exec_of(1), handle_of(a), a.copy), "");
  FakeNode b = copy(CU_MEMORYTYPE_HOST, 0x7fff0000, 16);
  EXPECT_NE(graphs_.set_enabled(exec_of(1), handle_of(b), false), "");
}

TEST_F(GraphsTest, AreNumberedInTheOrderOfTheirInstantiations) {
  instantiate({}, 4);
  instantiate({}, 2);
  EXPECT_EQ(graphs_.number(exec_of(4)), 0u);
  EXPECT_EQ(graphs_.number(exec_of(2)), 1u);
  // The driver may use a handle again.
  graphs_.destroyed(exec_of(4));
  instantiate({}, 4);
  EXPECT_EQ(graphs_.number(exec_of(4)), 2u);
}

}  // namespace
}  // namespace gpusnap::graphs_test
