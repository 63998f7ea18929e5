// Contexts, devices, streams, pools: what is set for them and what they answer; callbacks.
#include <cstring>

#include "tests/random/caller.h"

namespace calls {

// Another context on top of the actor's, or its own once more, or none for a moment, in which
// memory is freed.
void Caller::stack_step() {
  CUcontext popped = nullptr;
  if (draw_.chance(50)) {
    CHECK(cuCtxPushCurrent_v2(context_));
    fill(allocate(random_size()));
    CHECK(cuCtxPopCurrent_v2(&popped));
  } else {
    CUdeviceptr made = 0;
    CHECK(cuMemAlloc_v2(&made, random_size()));
    CHECK(cuCtxPopCurrent_v2(&popped));
    CHECK(cuMemFree_v2(made));
    CHECK(cuCtxPushCurrent_v2(popped));
  }
  if (popped != context_) oracle::fail("cuCtxPopCurrent: another context", CUDA_ERROR_UNKNOWN);
  CUcontext current = nullptr;
  CHECK(cuCtxGetCurrent(&current));
  if (current != context_) oracle::fail("cuCtxGetCurrent: another context", CUDA_ERROR_UNKNOWN);
}

// Only in a context with one actor, since other actors would see its settings.
void Caller::context_settings_step() {
  int least = 0, greatest = 0;
  CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
  see(&least, sizeof least);
  see(&greatest, sizeof greatest);
  if (exchange_.shared_contexts) return;
  CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, draw_.between(1, 8) * 1024));
  size_t limit = 0;
  CHECK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
  see(&limit, sizeof limit);
  CHECK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_SHARED));
}

void Caller::device_step() {
  CUdevice device = 0;
  CHECK(cuCtxGetDevice(&device));
  char name[100] = {};
  int value = 0;
  CHECK(cuDeviceGetName(name, sizeof name, device));
  see(name, std::strlen(name));
  for (const CUdevice_attribute each :
       {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_WARP_SIZE,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT}) {
    CHECK(cuDeviceGetAttribute(&value, each, device));
    see(&value, sizeof value);
  }
  size_t bytes = 0;
  CHECK(cuDeviceTotalMem_v2(&bytes, device));
  see(&bytes, sizeof bytes);
  int devices = 0;
  CHECK(cuDeviceGetCount(&devices));
  for (CUdevice other = 0; other < devices; ++other) {
    CHECK(cuDeviceCanAccessPeer(&value, device, other));
    see(&value, sizeof value);
  }
}

void Caller::stream_settings_step() {
  const CUstream stream = pick_stream(), other = pick_stream();
  int priority = 0;
  unsigned flags = 0;
  CHECK(cuStreamGetPriority(stream, &priority));
  CHECK(cuStreamGetFlags(stream, &flags));
  see(&priority, sizeof priority);
  see(&flags, sizeof flags);
  if (stream == CU_STREAM_LEGACY || other == CU_STREAM_LEGACY || stream == other) return;
  CUstreamAttrValue value{};
  value.syncPolicy = draw_.chance(50) ? CU_SYNC_POLICY_SPIN : CU_SYNC_POLICY_YIELD;
  CHECK(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  CHECK(cuStreamCopyAttributes(other, stream));
}

// A restore changes a pool's usage figures (docs/limitations.md), and keeps the pool's settings.
void Caller::pool_settings_step() {
  if (pool_ == nullptr) return;
  const CUmemPool_attribute settable[] = {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                                          CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES};
  const CUmemPool_attribute chosen = settable[draw_.below(2)];
  int value = draw_.chance(70) ? 1 : 0;
  CHECK(cuMemPoolSetAttribute(pool_, chosen, &value));
  CHECK(cuMemPoolGetAttribute(pool_, chosen, &value));
  see(&value, sizeof value);
  uint64_t threshold = draw_.below(4) << 15;
  CHECK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  CHECK(cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  see(&threshold, sizeof threshold);
}

// The older kind of host function, which is told of its stream's fate.
void Caller::callback_step() {
  if (!exchange_.shared) return;
  const CUstream stream = pick_stream();
  const Part part = pick_part(*pinned_);
  notes_.push_back({pinned_bytes_ + (part.address - pinned_->address), part.size, draw_.word()});
  touch(*pinned_, stream);
  const auto [use_ptsz, given] = given_as(stream);
  const CUstreamCallback change = [](CUstream, CUresult fate, void* given_note) {
    const Note& note = *static_cast<const Note*>(given_note);
    for (uint64_t i = 0; i < note.count; ++i) {
      note.bytes[i] = static_cast<unsigned char>(note.bytes[i] * 7 + note.value + fate);
    }
  };
  CHECK((use_ptsz ? cuStreamAddCallback_ptsz : cuStreamAddCallback)(given, change, &notes_.back(),
                                                                    0));
}

// An event that is recorded several times, of which others wait for the last one.
void Caller::recorded_event_step() {
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  Memory& memory = pick_memory();
  const CUstream first = pick_stream(), second = pick_stream();
  touch(memory, first);
  CHECK(cuEventRecordWithFlags(event, first, CU_EVENT_RECORD_DEFAULT));
  IN_STREAM(cuMemsetD8Async, first, memory.address, static_cast<unsigned char>(draw_.word()),
            memory.size);
  const auto [use_ptsz, given] = given_as(first);
  CHECK((use_ptsz ? cuEventRecord_ptsz : cuEventRecord)(event, given));
  const auto [second_ptsz, second_given] = given_as(second);
  CHECK((second_ptsz ? cuStreamWaitEvent_ptsz : cuStreamWaitEvent)(second_given, event, 0));
  memory.last = second;
  const auto words = static_cast<unsigned>(memory.words());
  launch("touch", second, words, memory.address, words, 1u, draw_.word());
  CHECK(cuEventDestroy_v2(event));
}

}  // namespace calls
