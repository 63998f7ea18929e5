// Words for messages.
#pragma once

#include <cstdint>
#include <string>

namespace gpusnap {

std::string hex_text(uint64_t value);                     // "0x7f00"
std::string range_text(uint64_t address, uint64_t size);  // "0x7f00..0x8f00 (4096 bytes)"

}  // namespace gpusnap
