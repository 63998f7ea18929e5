// SPDX-License-Identifier: Apache-2.0
// A value that one process publishes in shared memory. Other processes read it at any time: either
// a whole value or none.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <type_traits>

namespace gpusnap {

// One process at a time publishes; no call blocks. Memory of zeros: nothing was published yet. If a
// process is killed while it publishes, there is no value to read until the next one is published.
template <class T>
class Published {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);

 public:
  void say(const T& value) {
    Words words;
    std::memcpy(words.data(), &value, sizeof value);
    const uint64_t unfinished = turn_.load(std::memory_order_relaxed) | 1;
    turn_.store(unfinished, std::memory_order_relaxed);
    // A reader of one of these words also sees that the value is unfinished.
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    turn_.store(unfinished + 1, std::memory_order_release);
  }

  std::optional<T> look() const {
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i) {
      const uint64_t turn = turn_.load(std::memory_order_acquire);
      if (turn == 0) break;
      Words words;
      for (size_t k = 0; k < kWords; ++k) words[k] = words_[k].load(std::memory_order_acquire);
      if (turn % 2 == 0 && turn_.load(std::memory_order_relaxed) == turn) {
        T value;
        std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
        return value;
      }
      std::this_thread::yield();
    }
    return std::nullopt;
  }

 private:
  static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);
  using Words = std::array<uint64_t, kWords>;

  std::atomic<uint64_t> turn_{0};  // odd: being written
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

}  // namespace gpusnap
