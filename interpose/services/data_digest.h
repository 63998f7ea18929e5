// A digest, in a word, of data that the program gives to the device: a replay that is given other
// data is not the program's run again, though its calls are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpusnap {

// Never 0. Long data is sampled all over: the bytes looked at are bounded, so that a copy is not
// slower by more than a few microseconds. Any thread.
uint64_t data_digest(std::span<const std::byte> data);

}  // namespace gpusnap
