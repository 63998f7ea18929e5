// Graphs with nodes that write words and wait for words: for one that the host writes, and for
// those that the graphs have written. The words to write are changed in some steps and stay the
// same in others.
#include "signal_nodes.h"

#include <array>

#include "app.h"
#include "signal_nodes_ptx.h"

namespace app {

constexpr unsigned kThreads = 64;
constexpr uint64_t kLow = 0xffffffffu;

// Three words from `at` on: all of one, half of the next, and what a captured write sets.
struct Message {
  unsigned at = 0;
  uint64_t value = 1;

  std::array<CUstreamBatchMemOpParams, 4> operations(CUdeviceptr words) const {
    const CUdeviceptr place = words + at * sizeof(uint64_t);
    std::array<CUstreamBatchMemOpParams, 4> all{};
    all[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, place, value, 0, 0};
    all[1].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_64, place, value, CU_STREAM_WAIT_VALUE_EQ, 0};
    all[2].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, place + 8, value & kLow, 0, 0};
    all[3].memoryBarrier = {CU_STREAM_MEM_OP_BARRIER, 0};
    return all;
  }
  void apply(std::vector<uint64_t>& words) const {
    words[at] = value;
    words[at + 1] = (words[at + 1] & ~kLow) | (value & kLow);
    words[kWords - 1] = 77;
  }
};

class Graph {
 public:
  Graph(CUfunction gather, CUdeviceptr sums, CUdeviceptr words, CUdeviceptr gate)
      : words_(words), gate_(gate) {
    CHECK(cuCtxGetCurrent(&context_));
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CHECK(cuGraphCreate(&graph_, 0));
    CUstreamBatchMemOpParams gated = wait_for_gate(0);
    CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 waits{context_, 1, &gated, 0};
    CHECK(cuGraphAddBatchMemOpNode(&waiting_, graph_, nullptr, 0, &waits));
    auto all = Message().operations(words);
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    params.memOp = {context_, all.size(), all.data(), 0};
    CHECK(cuGraphAddNode(&writing_, graph_, &waiting_, 1, &params));
    // The last word is written by a node that was captured, which the kernel comes after.
    CUgraph captured = nullptr;
    CHECK(cuStreamBeginCaptureToGraph(stream_, graph_, &writing_, nullptr, 1,
                                      CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuStreamWriteValue32_v2(stream_, words + (kWords - 1) * sizeof(uint64_t), 77, 0));
    launch(gather, {kWords / kThreads, kThreads}, stream_, sums, words);
    CHECK(cuStreamEndCapture(stream_, &captured));
    CHECK(cuGraphInstantiateWithFlags(&exec_, graph_, 0));
  }
  ~Graph() {
    CHECK(cuGraphExecDestroy(exec_));
    CHECK(cuGraphDestroy(graph_));
    CHECK(cuStreamDestroy_v2(stream_));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  CUstream stream() const { return stream_; }
  void launch_it() const { CHECK(cuGraphLaunch(exec_, stream_)); }

  void change_one(const Message& message, unsigned turn) {
    auto all = message.operations(words_);
    CUstreamBatchMemOpParams gated = wait_for_gate(turn);
    const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 writes{context_, all.size(), all.data(), 0},
        waits{context_, 1, &gated, 0};
    CHECK(cuGraphExecBatchMemOpNodeSetParams(exec_, writing_, &writes));
    CHECK(cuGraphExecBatchMemOpNodeSetParams(exec_, waiting_, &waits));
  }
  void change_by_one_call(const Message& message, unsigned turn) {
    auto all = message.operations(words_);
    CUstreamBatchMemOpParams gated = wait_for_gate(turn);
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    params.memOp = {context_, all.size(), all.data(), 0};
    CHECK(cuGraphExecNodeSetParams(exec_, writing_, &params));
    params.memOp = {context_, 1, &gated, 0};
    CHECK(cuGraphExecNodeSetParams(exec_, waiting_, &params));
  }
  void change_as_a_whole(const Message& message, unsigned turn) {
    auto all = message.operations(words_);
    CUstreamBatchMemOpParams gated = wait_for_gate(turn);
    const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 writes{context_, all.size(), all.data(), 0},
        waits{context_, 1, &gated, 0};
    CHECK(cuGraphBatchMemOpNodeSetParams(writing_, &writes));
    CHECK(cuGraphBatchMemOpNodeSetParams(waiting_, &waits));
    CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 told{};
    CHECK(cuGraphBatchMemOpNodeGetParams(writing_, &told));
    if (told.count != all.size() || told.paramArray[0].writeValue.value64 != message.value) {
      fail("node", "tells other operations");
    }
    CUgraphExecUpdateResultInfo info{};
    CHECK(cuGraphExecUpdate_v2(exec_, graph_, &info));
  }

 private:
  CUstreamBatchMemOpParams wait_for_gate(unsigned turn) const {
    CUstreamBatchMemOpParams one{};
    one.waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, gate_, turn, CU_STREAM_WAIT_VALUE_GEQ, 0};
    return one;
  }

  CUdeviceptr words_, gate_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  CUgraphNode waiting_ = nullptr, writing_ = nullptr;
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const Module module(kSignalNodesPtx);
  std::vector<uint64_t> words(kWords, 3), sums(kWords, 1);
  {
    const Buffer<uint64_t> device_words(words), device_sums(sums);
    Pinned<unsigned> gate(1, CU_MEMHOSTALLOC_DEVICEMAP);
    gate[0] = 0;
    CHECK(cuCtxSynchronize());
    Graph graph(module.function("gather"), device_sums.address(), device_words.address(),
                gate.device_address());
    Message message;
    for (int step = 0; step < steps; ++step) {
      const auto turn = static_cast<unsigned>(step) + 1;
      const bool changed = step % 7 == 3;
      if (changed) {
        CHECK(cuStreamSynchronize(graph.stream()));
        message = {turn * 5 % (kWords - 2), turn * 0x9e3779b97f4a7c15u};
        if (step % 3 == 0) {
          graph.change_one(message, turn);
        } else if (step % 3 == 1) {
          graph.change_by_one_call(message, turn);
        } else {
          graph.change_as_a_whole(message, turn);
        }
      }
      graph.launch_it();
      message.apply(words);
      for (unsigned at = 0; at < kWords; ++at) sums[at] = gathered(sums[at], words[at], at);
      // Only now what was launched may begin.
      if (changed) __atomic_store_n(&gate[0], turn, __ATOMIC_SEQ_CST);
      if (step % 3 == 2) CHECK(cuStreamSynchronize(graph.stream()));
      if (step % 20 == 19) {
        CHECK(cuStreamSynchronize(graph.stream()));
        must_equal("sums", device_sums.download(), sums);
        std::printf("step %d: %016" PRIx64 "\n", step, digest(sums));
      }
    }
    CHECK(cuStreamSynchronize(graph.stream()));
    must_equal("sums", device_sums.download(), sums);
    must_equal("words", device_words.download(), words);
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
