// SPDX-License-Identifier: Apache-2.0
// The types of elements that extracted data can be given, and how their values are shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gpusnap {

struct ElementType {
  const char* name;         // as users write it: "f32"
  uint32_t bytes;           // of an element
  const char* npy;          // in an .npy file; null: NumPy has no such type
  const char* safetensors;  // in a safetensors file; null: it has no such type
};

// Null where there is none of that name.
const ElementType* find_element_type(std::string_view name);
std::string element_type_names();  // "u8, i8, ..."

// The value of one element, or of bytes at a range's end that are no whole element: in hexadecimal
// digits, as they lie in memory.
std::string show_element(const ElementType& type, std::span<const std::byte> bytes);
// The bytes as one number in hexadecimal digits, the most significant first.
std::string show_bits(std::span<const std::byte> bytes);

}  // namespace gpusnap
