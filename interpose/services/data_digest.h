// What the program gives to the device, in a word: a replay that is given something else is not the
// program's run again, though its calls are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpusnap {

// Never 0. Of long data, samples from all over it: what is looked at is bounded, so that a copy is
// not slower by more than a few microseconds. Any thread.
uint64_t data_digest(std::span<const std::byte> data);

}  // namespace gpusnap
