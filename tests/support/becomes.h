// Waiting for another thread in a test.
#pragma once

#include <chrono>
#include <thread>

namespace gpusnap {

// In milliseconds, at least: longer than any machine takes. Only a test that fails waits for so
// long.
constexpr int kPatience = 20'000;

// Waits until `condition()` holds. False: it never did.
template <class Condition>
bool becomes(const Condition& condition) {
  for (int waited = 0; waited < kPatience; ++waited) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace gpusnap
