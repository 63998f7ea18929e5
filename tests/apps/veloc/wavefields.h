// SPDX-License-Identifier: Apache-2.0
//
// Where the forward pass of adjoint.cpp leaves its wavefields for the backward pass: in a history
// of checkpoints, or in host memory.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/apps/app.h"
#include "tests/apps/veloc/options.h"
#include "tools/veloc/veloc.h"

namespace app {

class Wavefields {
 public:
  virtual ~Wavefields() = default;
  // The device memory may be changed at return.
  virtual void store(int step, CUdeviceptr field, size_t bytes) = 0;
  virtual void begin_backward_pass() {}
  // The bytes that were stored, which are returned; no others are written.
  virtual size_t load(int step, CUdeviceptr field) = 0;
};

class InMemory final : public Wavefields {
 public:
  void store(int step, CUdeviceptr field, size_t bytes) override {
    std::vector<std::byte>& copy = fields_[step];
    copy.resize(bytes);
    CHECK(cuMemcpyDtoH_v2(copy.data(), field, bytes));
  }
  size_t load(int step, CUdeviceptr field) override {
    const std::vector<std::byte>& copy = fields_.at(step);
    CHECK(cuMemcpyHtoD_v2(field, copy.data(), copy.size()));
    return copy.size();
  }

 private:
  std::map<int, std::vector<std::byte>> fields_;
};

// As listing 1 of the GPU cache and prefetch paper. Steps are versions.
class History final : public Wavefields {
 public:
  enum class Hints { kNone, kNext, kAll };

  History(const char* config, int steps, Hints hints) : hints_(hints) {
    must(VELOC_Init_single(0, config));
    if (hints_ != Hints::kAll) return;
    for (int ver = steps - 1; ver >= 0; ver--) must(VELOC_Prefetch_enqueue(ver));
  }

  void store(int step, CUdeviceptr field, size_t bytes) override {
    const Timer timer(storing_);
    must(VELOC_Mem_protect(1, reinterpret_cast<void*>(field), bytes));
    must(VELOC_Checkpoint("wavefield", step));
  }

  void begin_backward_pass() override { must(VELOC_Prefetch_start()); }

  size_t load(int ver, CUdeviceptr field) override {
    const Timer timer(loading_);
    if (hints_ == Hints::kNext && ver > 0) must(VELOC_Prefetch_enqueue(ver - 1));
    const size_t size = VELOC_Recover_size(ver, 1);
    must(VELOC_Mem_protect(1, reinterpret_cast<void*>(field), size));
    must(VELOC_Restart(ver));
    return size;
  }

  void wait() { must(VELOC_Checkpoint_wait()); }
  void finish() { must(VELOC_Finalize(1)); }

  // Seconds that the program was blocked.
  double storing() const { return storing_; }
  double loading() const { return loading_; }

 private:
  // Adds its lifetime to a sum.
  class Timer {
   public:
    explicit Timer(double& sum) : sum_(sum) {}
    ~Timer() {
      const auto took = std::chrono::steady_clock::now() - begin_;
      sum_ += std::chrono::duration<double>(took).count();
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    double& sum_;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  };

  const Hints hints_;
  double storing_ = 0, loading_ = 0;
};

}  // namespace app
