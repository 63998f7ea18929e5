// SPDX-License-Identifier: Apache-2.0
#include "interpose/record/host_updates.h"

#include <algorithm>
#include <new>

#include "interpose/services/fatal.h"
#include "interpose/services/private_memory.h"
#include "interpose/threads/thread_path.h"
#include "tiers/unlocked.h"

namespace gpusnap {

HostWrite* HostUpdates::begin_write(CUstream stream) {
  if (with_.model.host_memory.empty() || !with_.admission.is_recording()) return nullptr;
  const CUcontext context = with_.model.contexts.current();
  if (own_state.number == 0) own_state.number = ++thread_count_;
  const uint64_t thread = stream == CU_STREAM_PER_THREAD ? own_state.number : 0;
  const CUstream known = stream == nullptr ? CU_STREAM_LEGACY : stream;
  HostWrite* const write = deliveries_.begin_write(context, known, thread);
  if (write != nullptr || !with_.model.contexts.is_known(context)) return write;
  add_words(context);
  return deliveries_.begin_write(context, known, thread);
}

void HostUpdates::refuse_guess(const WriteSet& set) {
  if (!set.unknown()) return;
  // Another thread may have made a change there, and makes it again at a time of its own.
  if (!with_.calls.several_threads() || !with_.admission.is_recording()) return;
  std::string which = "a kernel whose code is not known";
  if (!set.proven()) {
    const KernelWrites& kernel = with_.model.modules.kernels().of_guess(set.guesses().back());
    which = "the kernel " + kernel.name + " (" + kernel.reason + ")";
  }
  with_.refuse("pinned or managed memory beside " + which +
               ", which may write to any of it, in several threads");
}

bool HostUpdates::begin_watch() {
  if (!with_.model.host_memory.is_guessed() || !with_.admission.is_recording()) return false;
  // Other threads of the program may write to that memory at any time, and so may other ranks.
  const ThreadPath& path = own_thread_path();
  if (with_.calls.several_threads() || path.depth != 0 || path.children != 0 ||
      with_.ranks.ranks != 1) {
    return false;
  }
  deliveries_.begin_watch();
  return true;
}

void HostUpdates::end_watch() {
  if (deliveries_.end_watch() || with_.calls.several_threads()) return;
  with_.doubt.store(
      "pinned memory that a kernel has written although no argument of a kernel points there "
      "(gpusnap explain names kernels of which there is only machine code),",
      std::memory_order_relaxed);
}

ProgressMark HostUpdates::take_mark() {
  const CUcontext context = with_.model.contexts.current();
  ProgressWord* word = words_.take(context);
  if (word == nullptr && with_.model.contexts.is_known(context)) {
    add_words(context);
    word = words_.take(context);
  }
  return {word, word == nullptr ? 0 : ++word->issued};
}

// Without them checkpoints end at the first copy that needs a mark. The page stays when its context
// ends: nothing tells whether the driver has forgotten it by then.
void HostUpdates::add_words(CUcontext context) {
  constexpr size_t kBytes = 4096;
  const Driver& driver = with_.model.driver;
  std::byte* block = nullptr;
  CUdeviceptr device = 0;
  bool usable = false;
  {
    const Unlocked unlocked(with_.lock);
    block = allocate_block(kBytes);
    if (block != nullptr) {
      const RelaxedCapture relaxed(driver);
      const CurrentContext current(driver, context);
      usable = driver.cuMemHostRegister_v2(block, kBytes, CU_MEMHOSTREGISTER_DEVICEMAP) ==
                   CUDA_SUCCESS &&
               driver.cuMemHostGetDevicePointer_v2 != nullptr &&
               driver.cuMemHostGetDevicePointer_v2(&device, block, 0) == CUDA_SUCCESS;
    }
  }
  if (!usable) return;
  using Word = std::atomic<uint32_t>;
  words_.add(context, {new (block) Word[kBytes / sizeof(Word)]{}, kBytes / sizeof(Word)}, device);
}

void HostUpdates::note_answered(const HostBlock& block) {
  if (with_.model.host_memory.empty()) return;
  block.for_each_row([&](auto row) {
    with_.model.host_memory.note_copied(reinterpret_cast<uint64_t>(row.data()), row.size());
  });
}

const std::vector<Delivery>& HostUpdates::collect(bool all_done, uint8_t* flags) {
  using enum Deliveries::Moment;
  const auto taken = deliveries_.collect(all_done ? kIdle : kCall, !function_runs());
  *flags |= taken.flags;
  if (taken.doubt != nullptr) with_.doubt.store(taken.doubt, std::memory_order_relaxed);
  return deliveries_.deliveries();
}

void HostUpdates::deliver_to_memory(const DeliveryHead& head, Replayer& replayer, Status& status) {
  const auto mirror = with_.model.host_memory.mirror(head.target, head.offset, head.size);
  if (mirror.size() != head.size) {
    if (with_.model.managed_places() != 0) fatal(kExitImpossible, kManagedElsewhere);
    fatal(kExitDamaged, "the replay journal writes to memory that is not there");
  }
  status = replayer.read(mirror);
}

void HostUpdates::deliver(const Entry& entry, Replayer& replayer) {
  std::vector<uint64_t> looked_at;
  for (uint32_t i = 0; i < entry.head.deliveries; ++i) {
    DeliveryHead head;
    Status status = replayer.next_delivery(head);
    if (status.ok() && head.kind == DeliveryHead::kCopy) {
      HostBlock block;
      if (!deliveries_.take_expected(head.target, head.size, block)) {
        fatal(kExitDamaged, "the replay journal delivers a copy that was not made");
      }
      block.for_each_row([&](std::span<std::byte> bytes) {
        if (status.ok()) status = replayer.read(bytes);
      });
      note_answered(block);
    } else if (status.ok()) {
      deliver_to_memory(head, replayer, status);
      looked_at.push_back(head.target);
    }
    if (!status.ok()) fatal(kExitDamaged, status.message());
  }
  if ((entry.head.flags & kCaptured) != 0) with_.model.host_memory.settle();
  if ((entry.head.flags & kPartlyCaptured) == 0) return;
  looked_at.erase(std::unique(looked_at.begin(), looked_at.end()), looked_at.end());
  for (uint64_t address : looked_at) with_.model.host_memory.settle(address);
}

}  // namespace gpusnap
