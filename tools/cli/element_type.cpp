// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/element_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace gpusnap {
namespace {

constexpr ElementType kTypes[] = {
    {"u8", 1, "|u1", "U8"},       {"i8", 1, "|i1", "I8"},     {"bool", 1, "|b1", "BOOL"},
    {"u16", 2, "<u2", "U16"},     {"i16", 2, "<i2", "I16"},   {"f16", 2, "<f2", "F16"},
    {"bf16", 2, nullptr, "BF16"}, {"u32", 4, "<u4", "U32"},   {"i32", 4, "<i4", "I32"},
    {"f32", 4, "<f4", "F32"},     {"u64", 8, "<u8", "U64"},   {"i64", 8, "<i8", "I64"},
    {"f64", 8, "<f8", "F64"},     {"c64", 8, "<c8", nullptr}, {"c128", 16, "<c16", nullptr},
};

template <class T>
T value_of(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

float half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  float value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

float bfloat_value(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

template <class T>
std::string show_complex(std::span<const std::byte> bytes) {
  return fmt::format("{}{:+}j", value_of<T>(bytes), value_of<T>(bytes.subspan(sizeof(T))));
}

template <class T>
std::string show_number(std::span<const std::byte> bytes) {
  return fmt::format("{}", value_of<T>(bytes));
}

}  // namespace

const ElementType* find_element_type(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kTypes, [name](const ElementType& type) { return type.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

std::string element_type_names() {
  std::string names;
  for (const ElementType& type : kTypes)
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

std::string show_bits(std::span<const std::byte> bytes) {
  std::string text = "0x";
  for (size_t i = bytes.size(); i-- > 0;) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

std::string show_element(const ElementType& type, std::span<const std::byte> bytes) {
  const std::string_view name = type.name;
  if (bytes.size() != type.bytes) {
    std::string text;
    for (const std::byte byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
  }
  if (name == "i8") return fmt::format("{}", static_cast<int>(value_of<int8_t>(bytes)));
  if (name == "u16") return show_number<uint16_t>(bytes);
  if (name == "i16") return show_number<int16_t>(bytes);
  if (name == "u32") return show_number<uint32_t>(bytes);
  if (name == "i32") return show_number<int32_t>(bytes);
  if (name == "u64") return show_number<uint64_t>(bytes);
  if (name == "i64") return show_number<int64_t>(bytes);
  if (name == "f16") return fmt::format("{}", half_value(value_of<uint16_t>(bytes)));
  if (name == "bf16") return fmt::format("{}", bfloat_value(value_of<uint16_t>(bytes)));
  if (name == "f32") return show_number<float>(bytes);
  if (name == "f64") return show_number<double>(bytes);
  if (name == "c64") return show_complex<float>(bytes);
  if (name == "c128") return show_complex<double>(bytes);
  return fmt::format("{}", static_cast<unsigned>(bytes[0]));  // u8 and bool
}

}  // namespace gpusnap
