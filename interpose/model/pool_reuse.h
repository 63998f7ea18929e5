// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered pools that give memory again by the order of calls alone. By themselves they also
// give what the device happens to be done with: a replay, in which nothing runs, would get other
// addresses, and a driver's pool is no place where memory can be put. The program reads its own
// setting of this back as it has set it.
//
// Thread-safe; the driver is called without the lock.
#pragma once

#include <map>
#include <mutex>

#include "interpose/hook/driver.h"

namespace gpusnap {

class PoolReuse {
 public:
  explicit PoolReuse(const Driver& driver) : driver_(driver) {}

  // The program is about to take memory from the pool; null: from the current device's.
  void make_repeatable(CUmemoryPool pool);
  // The attribute that the program no longer sets.
  static constexpr CUmemPool_attribute kOurs = CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC;
  // The program's own setting of it: until wish(), what a new pool has.
  void wish(CUmemoryPool pool, int value);
  int wished(CUmemoryPool pool);
  void forget(CUmemoryPool pool);
  // Stream-ordered memory is in use: synchronisations decide where memory comes from. The session's
  // lock guards it.
  void note_use() { is_used_ = true; }
  bool is_used() const { return is_used_; }

 private:
  const Driver& driver_;
  bool is_used_ = false;
  std::mutex mutex_;
  std::map<CUmemoryPool, bool> repeatable_;
  std::map<CUmemoryPool, int> wishes_;
};

}  // namespace gpusnap
