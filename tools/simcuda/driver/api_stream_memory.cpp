// Words in memory that streams write and wait for.

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/node_work.h"

namespace simcuda {
namespace {

// How often a stream looks at the word that it waits for.
constexpr auto kPoll = std::chrono::microseconds(50);

struct WordOp {
  bool waits = false;
  bool wide = false;  // 64 bits
  unsigned kind = 0;  // of a wait: CUstreamWaitValue_flags without CU_STREAM_WAIT_VALUE_FLUSH
  uint64_t value = 0;
  std::byte* word = nullptr;
  std::shared_ptr<const void> bytes;  // keeps the word
};

template <class T>
bool is_met(const WordOp& op) {
  const T found =
      std::atomic_ref<T>(*reinterpret_cast<T*>(op.word)).load(std::memory_order_acquire);
  const T wanted = static_cast<T>(op.value);
  switch (op.kind) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<T>>(found - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return found == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (found & wanted) != 0;
    default:
      return static_cast<T>(~(found | wanted)) != 0;
  }
}

template <class T>
void store(const WordOp& op) {
  std::atomic_ref<T>(*reinterpret_cast<T*>(op.word))
      .store(static_cast<T>(op.value), std::memory_order_release);
}

// Time passes while a stream waits: what ends the wait may be an operation of another one.
void wait_for_word(VirtualClock* clock, const Context& context, const WordOp& op) {
  while (!(op.wide ? is_met<uint64_t>(op) : is_met<uint32_t>(op)) && !context.cancelled()) {
    if (clock != nullptr) clock->release();
    std::this_thread::sleep_for(kPoll);
    if (clock != nullptr) clock->hold();
  }
}

void run_ops(VirtualClock* clock, const Context& context, const std::vector<WordOp>& ops) {
  for (const WordOp& op : ops) {
    if (context.cancelled()) return;
    if (op.waits) {
      wait_for_word(clock, context, op);
    } else {
      op.wide ? store<uint64_t>(op) : store<uint32_t>(op);
    }
  }
}

// The words of device memory, and of memory of the host that devices reach, but for managed memory.
CUresult locate(Driver& state, const Memory::Hold& hold, CUdeviceptr address, WordOp* op) {
  const uint64_t size = op->wide ? sizeof(uint64_t) : sizeof(uint32_t);
  const Allocation* found = state.memory.find(hold, address);
  if (found == nullptr || found->type == MemoryType::kManaged || address % size != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  op->word = state.memory.resolve(hold, address, size);
  op->bytes = found->bytes;
  return op->word == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult describe(Driver& state, const Memory::Hold& hold, const CUstreamBatchMemOpParams& asked,
                  std::vector<WordOp>* ops) {
  WordOp op;
  const unsigned flags = asked.writeValue.flags;
  switch (asked.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      op.wide = true;
      [[fallthrough]];
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      // There are no writes of others that would have to be flushed.
      if (flags > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_NOT_SUPPORTED;
      op.waits = true;
      op.kind = flags;
      break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      op.wide = true;
      [[fallthrough]];
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      if (flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) return CUDA_ERROR_INVALID_VALUE;
      break;
    case CU_STREAM_MEM_OP_BARRIER:  // all that a stream does is in order
      return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  op.value = asked.writeValue.value64;
  const CUresult result = locate(state, hold, asked.writeValue.address, &op);
  if (result == CUDA_SUCCESS) ops->push_back(std::move(op));
  return result;
}

bool is_batch(unsigned count, const CUstreamBatchMemOpParams* asked, unsigned flags) {
  constexpr unsigned kMost = 256;
  return asked != nullptr && count != 0 && count <= kMost && flags == 0;
}

CUresult queue_ops(CUstream handle, unsigned count, const CUstreamBatchMemOpParams* asked,
                   unsigned flags) {
  return queue_or_capture(
      handle,
      [&](Driver& state, Context& context, Work* work) {
        return work_of(
            state,
            CUDA_BATCH_MEM_OP_NODE_PARAMS_v1{context.handle(), count,
                                             const_cast<CUstreamBatchMemOpParams*>(asked), flags},
            work);
      },
      [&](Driver& state, Context& context, Stream& stream) {
        if (!is_batch(count, asked, flags)) return CUDA_ERROR_INVALID_VALUE;
        auto hold = state.memory.hold();
        WorkQueue::Task task;
        const CUresult result = words_task(state, context, hold, {asked, asked + count}, &task);
        if (result == CUDA_SUCCESS) context.submit(stream, std::move(task));
        return result;
      });
}

CUresult queue_one(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address,
                   uint64_t value, unsigned flags) {
  CUstreamBatchMemOpParams one{};
  one.writeValue = {operation, address, value, flags, 0};
  return queue_ops(stream, 1, &one, 0);
}

}  // namespace

CUresult words_task(Driver& state, Context& context, const Memory::Hold& hold,
                    const std::vector<CUstreamBatchMemOpParams>& operations,
                    WorkQueue::Task* task) {
  std::vector<WordOp> ops;
  for (const CUstreamBatchMemOpParams& one : operations) {
    const CUresult result = describe(state, hold, one, &ops);
    if (result != CUDA_SUCCESS) return result;
  }
  *task = [&context, clock = state.engines.clock(), ops = std::move(ops)] {
    run_ops(clock, context, ops);
  };
  return CUDA_SUCCESS;
}

CUresult work_of(Driver& state, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1& params, Work* work) {
  if (!is_batch(params.count, params.paramArray, params.flags)) return CUDA_ERROR_INVALID_VALUE;
  if (!state.contexts.find(params.ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<CUstreamBatchMemOpParams> asked(params.paramArray, params.paramArray + params.count);
  auto hold = state.memory.hold();
  std::vector<WordOp> ops;
  for (const CUstreamBatchMemOpParams& one : asked) {
    const CUresult result = describe(state, hold, one, &ops);
    if (result != CUDA_SUCCESS) return result;
  }
  *work = WordsCall{params.ctx, std::move(asked)};
  return CUDA_SUCCESS;
}

}  // namespace simcuda

using simcuda::queue_one;
using simcuda::queue_ops;

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned flags) {
  return queue_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                unsigned flags) {
  return queue_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                             unsigned flags) {
  return queue_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                unsigned flags) {
  return queue_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned flags) {
  return queue_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                 unsigned flags) {
  return queue_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned flags) {
  return queue_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned flags) {
  return queue_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}

// Barriers came with the second form.
CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations,
                            unsigned flags) {
  for (unsigned i = 0; operations != nullptr && i < count; ++i) {
    if (operations[i].operation == CU_STREAM_MEM_OP_BARRIER) {
      return simcuda::in_stream(stream,
                                [](auto&, auto&, auto&) { return CUDA_ERROR_INVALID_VALUE; });
    }
  }
  return queue_ops(stream, count, operations, flags);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count,
                               CUstreamBatchMemOpParams* operations, unsigned flags) {
  return queue_ops(stream, count, operations, flags);
}
