// SPDX-License-Identifier: Apache-2.0
#include "interpose/model/pool_reuse.h"

#include <utility>

namespace gpusnap {

void PoolReuse::make_repeatable(CUmemoryPool pool) {
  CUdevice device = 0;
  if (pool == nullptr &&
      (driver_.cuDeviceGetMemPool == nullptr || driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
       driver_.cuDeviceGetMemPool(&pool, device) != CUDA_SUCCESS)) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(repeatable_[pool], true)) return;
  }
  if (driver_.cuMemPoolSetAttribute == nullptr) return;
  int off = 0;
  (void)driver_.cuMemPoolSetAttribute(pool, kOurs, &off);
}

void PoolReuse::wish(CUmemoryPool pool, int value) {
  const std::lock_guard lock(mutex_);
  wishes_[pool] = value;
}

int PoolReuse::wished(CUmemoryPool pool) {
  const std::lock_guard lock(mutex_);
  const auto found = wishes_.find(pool);
  return found == wishes_.end() ? 1 : found->second;
}

void PoolReuse::forget(CUmemoryPool pool) {
  const std::lock_guard lock(mutex_);
  repeatable_.erase(pool);
  wishes_.erase(pool);
}

}  // namespace gpusnap
