// SPDX-License-Identifier: Apache-2.0
//
// A buffer of another device, as load balancing sees it: of another context of this process
// (device_lane.h), or lent by another process (lent_buffer.h). Thread-safe.
#pragma once

#include <cstdint>

#include "interpose/hook/driver.h"
#include "tracker/block_pool.h"

namespace gpusnap {

class PeerBuffer {
 public:
  virtual ~PeerBuffer() = default;
  virtual int device() const = 0;
  // Blocks for zones of `device`, which may write to them; none where it may not, or not yet.
  virtual BlockPool::Run take_blocks_for(int device, uint64_t most) = 0;
  virtual void give_back_guests(BlockPool::Run run) = 0;
  virtual CUdeviceptr block(uint64_t index) = 0;
};

}  // namespace gpusnap
