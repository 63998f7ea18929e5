// SPDX-License-Identifier: Apache-2.0
//
// A keeper of the checkpoints of a shot: the history of this project, or managed memory, with which
// the GPU cache and prefetch paper compares (section 5.2.2). Any error ends the program.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace app {

// One thread. All checkpoints are copies of one buffer in device memory.
class Keeper {
 public:
  Keeper() = default;
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  virtual ~Keeper() = default;

  // Return when the buffer may be changed, or has the checkpoint's bytes.
  virtual void write(int version) = 0;
  virtual void restore(int version) = 0;
  virtual void start_prefetching() = 0;
  // Waits until every checkpoint that leaves the device has left it.
  virtual void wait_until_flushed() = 0;
};

struct Shot {
  CUdeviceptr buffer = 0;
  size_t bytes = 0;
  std::vector<int> order;         // in which the versions 0, 1, ... are restored
  bool hints = false;             // whether the keeper knows the order
  std::string config;             // of VELOC_Init_single()
  size_t device_cache_bytes = 0;  // that managed memory takes for checkpoints
};

std::unique_ptr<Keeper> make_history(const Shot& shot);
std::unique_ptr<Keeper> make_managed(const Shot& shot);

}  // namespace app
