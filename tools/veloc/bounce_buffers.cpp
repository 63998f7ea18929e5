// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/bounce_buffers.h"

#include <cstdlib>

namespace gpusnap::veloc {

Result<std::unique_ptr<BounceBuffers>> BounceBuffers::create(Memory& memory) {
  auto* const all = static_cast<std::byte*>(std::aligned_alloc(4096, kBytes * kCount));
  if (all == nullptr) return Status(Code::kIo, "no memory is left for a history's buffers");
  const bool is_pinned = memory.has_device() && memory.pin(all, kBytes * kCount).ok();
  return std::unique_ptr<BounceBuffers>(new BounceBuffers(memory, all, is_pinned));
}

BounceBuffers::BounceBuffers(Memory& memory, std::byte* all, bool is_pinned)
    : memory_(memory), all_(all), is_pinned_(is_pinned) {
  for (size_t i = 0; i < kCount; ++i) free_.push_back(all_ + i * kBytes);
}

BounceBuffers::~BounceBuffers() {
  if (is_pinned_) memory_.unpin(all_);
  std::free(all_);
}

Result<std::byte*> BounceBuffers::take(bool) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return nullptr;
  std::byte* const buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void BounceBuffers::give_back(std::byte* buffer) {
  const std::lock_guard lock(mutex_);
  free_.push_back(buffer);
  given_back_.notify_one();
}

std::byte* BounceBuffers::take_when_free() {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [this] { return !free_.empty(); });
  std::byte* const buffer = free_.back();
  free_.pop_back();
  return buffer;
}

}  // namespace gpusnap::veloc
