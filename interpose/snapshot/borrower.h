// SPDX-License-Identifier: Apache-2.0
//
// Asks other processes of the node to lend blocks of their device buffers to one context of this
// one, for one snapshot. Nobody waits for an answer: what has come by then is used.
//
// On the offloader's thread, but for what LentBuffer allows others.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "interpose/services/control.h"
#include "interpose/snapshot/device_lane.h"
#include "interpose/snapshot/lent_buffer.h"

namespace gpusnap {

class Borrower {
 public:
  // For a lane that has links to other devices; both outlive it until give_back().
  Borrower(const Driver& driver, DeviceLane& lane, uint64_t zone_bytes);
  Borrower(const Borrower&) = delete;
  Borrower& operator=(const Borrower&) = delete;

  // One for each device to which the lane has a link: empty until its loan has come.
  std::span<const std::unique_ptr<LentBuffer>> buffers() const { return buffers_; }

  void ask(std::span<const pid_t> processes, uint64_t bytes);
  // Takes the answers that have come.
  void collect();
  // Once nothing uses the buffers: any thread, which holds no lock; the last call.
  void give_back();

 private:
  void take(const std::string& message, const std::vector<Descriptor>& files, Descriptor lender);
  LentBuffer* buffer_of(const DeviceId& device) const;

  const Driver& driver_;
  const DeviceId own_device_;
  std::vector<std::unique_ptr<LentBuffer>> buffers_;
  std::vector<Descriptor> asked_;  // connections
};

}  // namespace gpusnap
