// SPDX-License-Identifier: Apache-2.0
//
// Zones that lie in blocks of a device buffer (tracker/block_pool.h) on their way to the host. They
// are saved: nobody waits for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "tracker/block_pool.h"
#include "tracker/snapshot_zones.h"

namespace gpusnap {

// In blocks of its own, the rest of the last one unused.
struct BlocksOfZones {
  TransferPiece piece;
  BlockPool::Run blocks;
};

// Takes the first zones of the queue, in at most `most` blocks (at least 1) that lie together. The
// queue is not empty.
inline BlocksOfZones take_front(std::deque<BlocksOfZones>& queue, uint64_t most,
                                uint64_t zone_bytes) {
  BlocksOfZones& next = queue.front();
  BlocksOfZones part = next;
  part.blocks.count = std::min(next.blocks.count, most);
  part.piece.size = std::min(next.piece.size, part.blocks.count * zone_bytes);
  next.piece.offset += part.piece.size;
  next.piece.size -= part.piece.size;
  next.blocks.first += part.blocks.count;
  next.blocks.count -= part.blocks.count;
  if (next.blocks.count == 0) queue.pop_front();
  return part;
}

}  // namespace gpusnap
