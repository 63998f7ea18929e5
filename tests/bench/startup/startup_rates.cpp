// SPDX-License-Identifier: Apache-2.0
//
//   startup_rates MIB THREADS
//
// How fast this machine touches staging memory, alone and beside copies into memory that is there,
// and how fast the driver of a GPU registers memory that has been touched. One line of JSON; bytes
// a second.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "interpose/cuda/cuda_abi.h"
#include "tiers/staging/large_pages.h"
#include "tiers/staging/memory.h"

namespace gpusnap {

namespace {

// The calling thread's time.
double processor_seconds() {
  timespec now{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::unique_ptr<StagingMemory> make_area(uint64_t bytes) {
  const std::string name = StagingMemory::name_for("startup_rates" + std::to_string(::getpid()));
  auto memory = StagingMemory::serve(name, {4 << 20, bytes});
  if (!memory.ok()) {
    std::cerr << "startup_rates: " << memory.status().message() << '\n';
    std::exit(2);
  }
  memory.value()->remove();  // it stays as long as it is mapped
  return std::move(memory.value());
}

// All of a new area; what the threads reach, together.
double touch_rate(uint64_t bytes, unsigned threads, std::string* lacking = nullptr) {
  const auto memory = make_area(bytes);
  std::atomic<uint32_t> next{0};
  const auto slots = static_cast<uint32_t>(memory->slots().size());
  std::mutex mutex;
  double rate = 0;
  std::vector<std::thread> all;
  for (unsigned i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      const double begun = processor_seconds();
      uint32_t touched = 0;
      for (uint32_t slot = next++; slot < slots; slot = next++) {
        (void)memory->touch(slot);
        ++touched;
      }
      const double seconds = processor_seconds() - begun;
      const std::lock_guard lock(mutex);
      if (touched > 0) rate += static_cast<double>(touched * memory->bytes(0).size()) / seconds;
    });
  }
  for (std::thread& thread : all) thread.join();
  if (lacking != nullptr) {
    *lacking = lack_of_large_pages(memory->bytes(0).data(), memory->data_bytes());
  }
  return rate;
}

// As a driver copies to memory that is not pinned: out of a small buffer, which stays in the cache.
class Copies {
 public:
  explicit Copies(uint64_t bytes) : memory_(make_area(bytes)), buffer_(1 << 20, std::byte{1}) {
    (void)memory_->grow(UINT32_MAX);
  }
  void copy_all() {
    for (uint32_t slot = 0; slot < memory_->backed(); ++slot) {
      const std::span<std::byte> to = memory_->bytes(slot);
      for (size_t at = 0; at < to.size(); at += buffer_.size()) {
        std::memcpy(to.data() + at, buffer_.data(), buffer_.size());
      }
    }
  }
  double bytes() const { return static_cast<double>(memory_->data_bytes()); }

 private:
  const std::unique_ptr<StagingMemory> memory_;
  const std::vector<std::byte> buffer_;
};

double copy_rate(Copies& copies) {
  const double begun = processor_seconds();
  copies.copy_all();
  return copies.bytes() / (processor_seconds() - begun);
}

struct Both {
  double touch = 0;
  double copy = 0;
};
Both beside_each_other(Copies& copies, uint64_t bytes) {
  std::atomic<bool> over{false};
  double sum = 0;
  int count = 0;
  std::thread copying([&] {
    do {
      sum += copy_rate(copies);
      ++count;
    } while (!over);
  });
  const double touch = touch_rate(bytes, 1);
  over = true;
  copying.join();
  return {touch, sum / count};
}

// 0: there is no GPU. The software GPU takes the time that it is told to.
double registering_rate(uint64_t bytes, std::string& device) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return 0;
#define CALL(name, ...) (reinterpret_cast<decltype(&::name)>(::dlsym(library, #name))(__VA_ARGS__))
  CUcontext context = nullptr;
  char name[256] = "";
  if (CALL(cuInit, 0) != CUDA_SUCCESS ||
      CALL(cuDeviceGetName, name, sizeof name, 0) != CUDA_SUCCESS ||
      CALL(cuDevicePrimaryCtxRetain, &context, 0) != CUDA_SUCCESS ||
      CALL(cuCtxSetCurrent, context) != CUDA_SUCCESS) {
    return 0;
  }
  device = name;
  const auto memory = make_area(bytes);
  (void)memory->grow(UINT32_MAX);
  using Clock = std::chrono::steady_clock;
  const auto begun = Clock::now();
  constexpr uint32_t kSlots = 4;  // as ArenaPinning
  for (uint32_t slot = 0; slot + kSlots <= memory->backed(); slot += kSlots) {
    if (CALL(cuMemHostRegister_v2, memory->bytes(slot).data(), kSlots * memory->bytes(0).size(),
             CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS) {
      return 0;
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  for (uint32_t slot = 0; slot + kSlots <= memory->backed(); slot += kSlots) {
    (void)CALL(cuMemHostUnregister, memory->bytes(slot).data());
  }
#undef CALL
  return static_cast<double>(memory->data_bytes()) / seconds;
}

int run(uint64_t bytes, unsigned threads) {
  std::string lacking, device;
  const double one = touch_rate(bytes, 1, &lacking);
  const double many = touch_rate(bytes, threads);
  Copies copies(bytes);
  const double copy = copy_rate(copies);
  const Both both = beside_each_other(copies, bytes);
  const double registering = registering_rate(bytes, device);
  std::cout << "{\"touch\": " << one << ", \"touch_by_all\": " << many << ", \"copy\": " << copy
            << ", \"touch_beside_copy\": " << both.touch << ", \"copy_beside_touch\": " << both.copy
            << ", \"registering\": " << registering << ", \"device\": \"" << device
            << "\", \"large_pages\": " << (lacking.empty() ? "true" : "false") << "}" << std::endl;
  return 0;
}

}  // namespace

}  // namespace gpusnap

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: startup_rates MIB THREADS\n";
    return 64;
  }
  const auto mebibytes = std::strtoull(argv[1], nullptr, 10);
  const auto threads = static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10));
  if (mebibytes < 16 || threads == 0) return 64;
  return gpusnap::run(mebibytes << 20, threads);
}
