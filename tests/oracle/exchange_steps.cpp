// The work of actors on each other's memory, between two meetings of all of them.
#include "tests/oracle/program.h"

namespace oracle {

void Program::exchange() {
  if (exchange_.offers.size() < 2) return;
  while (memories_.size() < 2) fill(allocate(random_size()));
  exchange_.lends ? lend() : give();
}

// Each gives one allocation to the next one; where that one's stream takes it over, it waits for
// what the giver has queued.
void Program::give() {
  auto& offers = exchange_.offers;
  const size_t given = draw_.below(memories_.size());
  Memory& memory = *memories_[given];
  offers[number_].ready = memory.touched ? mark(memory) : nullptr;
  offers[number_].given = std::move(memories_[given]);
  memories_.erase(memories_.begin() + static_cast<std::ptrdiff_t>(given));
  exchange_.all_there.arrive_and_wait();
  Exchange::Offer taken = std::move(offers[(number_ + 1) % offers.size()]);
  exchange_.all_there.arrive_and_wait();
  const CUstream stream = pick_stream();
  if (taken.ready != nullptr) {
    CHECK(cuStreamWaitEvent(stream, taken.ready, 0));
    CHECK(cuEventDestroy_v2(taken.ready));
  }
  taken.given->last = stream;
  taken.given->touched = true;
  memories_.push_back(std::move(taken.given));
}

// Each lets the one before it work on one of its allocations, from another context perhaps, and
// uses that memory again after the other's work. Memory of a pool is not for other devices.
void Program::lend() {
  auto& offers = exchange_.offers;
  const auto may_be_lent = [](const auto& memory) { return !memory->pool; };
  while (std::ranges::none_of(memories_, may_be_lent)) fill(allocate(random_size()));
  Memory* lent = nullptr;
  while (lent == nullptr || lent->pool) lent = &pick_memory();
  Exchange::Offer& own = offers[number_];
  own.lent = lent;
  own.context = context_;
  own.ready = lent->touched ? mark(*lent) : nullptr;
  CHECK(cuCtxGetDevice(&own.device));
  exchange_.all_there.arrive_and_wait();
  Exchange::Offer& other = offers[(number_ + 1) % offers.size()];
  const CUstream stream = draw_.chance(70) ? pick_stream() : pick_default();
  if (other.ready != nullptr) {
    CHECK(cuStreamWaitEvent(stream, other.ready, 0));
    CHECK(cuEventDestroy_v2(other.ready));
  }
  Memory* mine = lent;
  while (mine == lent) mine = &pick_memory();
  work_on(other, *mine, stream);
  CHECK(cuEventCreate(&other.worked, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(other.worked, stream));
  exchange_.all_there.arrive_and_wait();
  lent->last = pick_stream();
  lent->touched = true;
  CHECK(cuStreamWaitEvent(lent->last, own.worked, 0));
  CHECK(cuEventDestroy_v2(own.worked));
}

void Program::work_on(const Exchange::Offer& other, Memory& mine, CUstream stream) {
  const Part here = pick_part(mine), there = pick_part(*other.lent);
  const bool read = draw_.chance(50);
  const Part &from = read ? there : here, &to = read ? here : there;
  touch(mine, stream);
  CUdevice device = 0;
  CHECK(cuCtxGetDevice(&device));
  // Its kernels reach another device's memory, but not that of another context on their own.
  const bool reaches = other.context == context_ || other.device != device;
  if (!reaches || draw_.chance(60)) {
    const CUcontext theirs = other.context;
    return peer_copy(to, read ? context_ : theirs, from, read ? theirs : context_, stream);
  }
  const unsigned words = std::min(from.words(), to.words());
  if (draw_.chance(50)) {
    launch("touch", stream, there.words(), there.pointer(), there.words(), 1u, draw_.word());
  } else {
    launch("move", stream, words, Moved{from.pointer(), to.pointer(), words, draw_.word()});
  }
}

void Program::peer_copy(const Part& to, CUcontext to_context, const Part& from,
                        CUcontext from_context, CUstream stream) {
  const uint64_t size = std::min(from.size, to.size);
  const bool at_once = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  const uint64_t kind = draw_.below(3);
  if (kind == 0 && at_once) {
    return AT_ONCE(cuMemcpyPeer, stream, to.address, to_context, from.address, from_context, size);
  }
  if (kind == 0) {
    return IN_STREAM(cuMemcpyPeerAsync, stream, to.address, to_context, from.address, from_context,
                     size);
  }
  if (kind == 1) return IN_STREAM(cuMemcpyAsync, stream, to.address, from.address, size);
  CUDA_MEMCPY3D_PEER box{};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = from.address;
  box.srcContext = from_context;
  box.dstDevice = to.address;
  box.dstContext = to_context;
  box.Height = draw_.between(1, std::min<uint64_t>(size, 20));
  box.srcPitch = box.dstPitch = size / box.Height;
  box.WidthInBytes = draw_.between(1, box.srcPitch);
  box.Depth = 1;
  if (at_once && draw_.chance(50)) return AT_ONCE(cuMemcpy3DPeer, stream, &box);
  IN_STREAM(cuMemcpy3DPeerAsync, stream, &box);
}

}  // namespace oracle
