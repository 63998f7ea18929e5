// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/lent_buffer.h"

#include <sys/socket.h>

#include <numeric>
#include <utility>

#include "interpose/snapshot/device_lane.h"

namespace gpusnap {

Result<GrowingMemory> LentBuffer::map(const LoanReply& reply,
                                      const std::vector<Descriptor>& files) const {
  if (driver_.cuMemImportFromShareableHandle == nullptr) {
    return Status(Code::kUnsupported, "this driver shares no memory by descriptors");
  }
  const uint64_t all = std::accumulate(reply.pieces.begin(), reply.pieces.end(), uint64_t{0});
  Result<GrowingMemory> memory = reserve_memory(driver_, user_, all);
  if (!memory.ok()) return memory;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < files.size() && result == CUDA_SUCCESS; ++i) {
    CUmemGenericAllocationHandle handle = 0;
    result = driver_.cuMemImportFromShareableHandle(
        &handle, reinterpret_cast<void*>(static_cast<intptr_t>(files[i].get())),
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS) break;
    result = append_memory(driver_, memory.value(), handle, reply.pieces[i]);
    if (result != CUDA_SUCCESS) (void)driver_.cuMemRelease(handle);
  }
  if (result == CUDA_SUCCESS) return memory;
  unmap_memory(driver_, memory.value());
  return driver_status(driver_, "mapping memory that another process lends", result);
}

Status LentBuffer::open(const LoanReply& reply, const std::vector<Descriptor>& files,
                        Descriptor lender) {
  Result<GrowingMemory> memory = map(reply, files);
  if (!memory.ok()) {
    say_returned(lender);
    return memory.status();
  }
  lender_.emplace(std::move(lender));
  memory_ = std::move(memory.value());
  const std::lock_guard lock(mutex_);
  first_ = memory_.address + reply.first;
  blocks_ = BlockPool(reply.bytes / zone_bytes_);
  return {};
}

void LentBuffer::say_returned(const Descriptor& lender) {
  // To a lender that has ended there is nothing to say.
  (void)send(lender.get(), kReturned.data(), kReturned.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void LentBuffer::give_back() {
  {
    const std::lock_guard lock(mutex_);
    blocks_ = BlockPool();
  }
  if (!lender_) return;
  unmap_memory(driver_, std::exchange(memory_, {}));
  say_returned(*lender_);
  lender_.reset();
}

uint64_t LentBuffer::free_bytes() {
  const std::lock_guard lock(mutex_);
  return blocks_.free() * zone_bytes_;
}

BlockPool::Run LentBuffer::take_blocks_for(int device, uint64_t most) {
  const std::lock_guard lock(mutex_);
  return device == user_ ? blocks_.take(most) : BlockPool::Run{};
}

void LentBuffer::give_back_guests(BlockPool::Run run) {
  const std::lock_guard lock(mutex_);
  if (blocks_.size() != 0) blocks_.give_back(run);
}

CUdeviceptr LentBuffer::block(uint64_t index) {
  const std::lock_guard lock(mutex_);
  return first_ + index * zone_bytes_;
}

}  // namespace gpusnap
