// SPDX-License-Identifier: Apache-2.0
//
// Memory of another device that one other process lends to this one for a snapshot. It is mapped
// here, so it stays valid if the lender ends; it is the lender's again once this object has given
// it back, or once this process has ended.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "interpose/model/mapped_memory.h"
#include "interpose/services/control.h"
#include "interpose/snapshot/peer_buffer.h"
#include "tiers/io/system_call.h"
#include "tiers/status.h"

namespace gpusnap {

class LentBuffer final : public PeerBuffer {
 public:
  // `device` has the memory, which `user` writes and reads. The driver outlives it.
  LentBuffer(const Driver& driver, int device, int user, uint64_t zone_bytes)
      : driver_(driver), device_(device), user_(user), zone_bytes_(zone_bytes) {}
  ~LentBuffer() override { give_back(); }
  LentBuffer(const LentBuffer&) = delete;
  LentBuffer& operator=(const LentBuffer&) = delete;

  // Maps the memory of which the lender at the other end of the connection has told. Once, and by
  // one thread, until give_back(). kIo, kUnsupported: it cannot be had, and has been returned.
  Status open(const LoanReply& reply, const std::vector<Descriptor>& files, Descriptor lender);
  bool is_open() const { return lender_.has_value(); }
  // Nothing of ours uses the memory any more. The caller holds no lock: the driver may wait for
  // what is queued.
  void give_back();
  static void say_returned(const Descriptor& lender);

  uint64_t free_bytes();
  int device() const override { return device_; }
  BlockPool::Run take_blocks_for(int device, uint64_t most) override;
  void give_back_guests(BlockPool::Run run) override;
  CUdeviceptr block(uint64_t index) override;

 private:
  Result<GrowingMemory> map(const LoanReply& reply, const std::vector<Descriptor>& files) const;

  const Driver& driver_;
  const int device_, user_;
  const uint64_t zone_bytes_;
  std::optional<Descriptor> lender_;
  GrowingMemory memory_;
  std::mutex mutex_;       // of what follows
  CUdeviceptr first_ = 0;  // block
  BlockPool blocks_;
};

}  // namespace gpusnap
