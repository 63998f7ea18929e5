// Threads of ours, started at activation and kept. The loader takes a little of the program's own
// heap for every new thread; were they started when they are first needed, a restored run would
// find its heap laid out otherwise than the recorded one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace gpusnap {

// Thread-safe. Never destroyed: its threads wait for work until the process ends.
class Workers {
 public:
  // Whether the threads call the driver, which takes memory from the C library's heap there. Each
  // has an arena of that heap from the start then: 64 MiB of addresses, which made at any later
  // moment would move what the program and the driver map from then on.
  enum class Heap : uint8_t { kUnused, kUsed };
  explicit Workers(int threads, Heap heap = Heap::kUnused);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs `body` on an idle thread and returns what waits for its end; empty when all are busy.
  std::function<void()> spawn(std::function<void()> body);

 private:
  struct Worker {
    std::function<void()> body;  // empty: idle
    uint64_t ended = 0;          // bodies that have come to their end
  };
  void work(size_t index);

  const Heap heap_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Worker> workers_;
  size_t begun_ = 0;
};

}  // namespace gpusnap
