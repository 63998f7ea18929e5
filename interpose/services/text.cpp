#include "interpose/services/text.h"

#include <charconv>

namespace gpusnap {

std::string hex_text(uint64_t value) {
  char digits[17];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, 16).ptr;
  return "0x" + std::string(digits, end);
}

std::string range_text(uint64_t address, uint64_t size) {
  return hex_text(address) + ".." + hex_text(address + size) + " (" + std::to_string(size) +
         " bytes)";
}

}  // namespace gpusnap
