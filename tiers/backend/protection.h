// SPDX-License-Identifier: Apache-2.0
// The backend's interface to the protection of committed parts against the loss of nodes. gpusnapd
// implements it (tiers/levels/). The backend, which is also a part of the preloaded library, does
// not depend on the implementation.
#pragma once

#include "tiers/backend/message.h"

namespace gpusnap {

// Thread-safe.
class Protection {
 public:
  virtual ~Protection() = default;
  // The part has been committed. Records it durably and does nothing else.
  virtual void committed(const CheckpointText& part) = 0;
  // This backend will not change the part's files in the store any more. Does not wait.
  virtual void settled(const CheckpointText& part) = 0;
  // Returns whether there are parts that it has not tried to protect yet.
  virtual bool is_busy() const = 0;
};

}  // namespace gpusnap
