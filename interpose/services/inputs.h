// Files that the program has read: what they were when it opened them, and whether they still are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tiers/manifest.h"

namespace gpusnap {

// Larger files are known by their size and the time of their last change alone.
inline constexpr uint64_t kLargestSummedInput = 1 << 20;

// Gives it its checksum, where it has at most `most` bytes and is still the file that was opened.
// Returns how many bytes were read.
uint64_t add_checksum(InputFile& input, uint64_t most);

// "/data/big.cfg has 130 bytes, not 120", where one of them is not what it was; " (and 3 more)"
// where several are not. Empty: they are as they were.
std::string changed_inputs(const std::vector<InputFile>& inputs);

}  // namespace gpusnap
