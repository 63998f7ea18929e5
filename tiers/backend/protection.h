// SPDX-License-Identifier: Apache-2.0
// Protects committed parts against the loss of nodes, as the backend sees it. gpusnapd brings
// one (tiers/levels/); the backend, which is also a part of the preloaded library, knows no more.
#pragma once

#include "tiers/backend/message.h"

namespace gpusnap {

// Thread-safe.
class Protection {
 public:
  virtual ~Protection() = default;
  // The part has been committed. Takes note of it for good; does no more than that.
  virtual void committed(const CheckpointText& part) = 0;
  // Its files in the store stay as they are now, as far as this backend goes. Does not wait.
  virtual void settled(const CheckpointText& part) = 0;
  // Whether there is something left that it has not tried yet.
  virtual bool is_busy() const = 0;
};

}  // namespace gpusnap
