#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>

#include "tracker/ptx.h"

namespace gpusnap::ptx {
namespace {

ParseResult parse_declarations(const std::string& text) {
  return parse(".version 7.8\n.target sm_75\n.address_size 64\n" + text);
}

// The last variable of the text.
Variable last(const std::string& text) {
  const ParseResult result = parse_declarations(text);
  EXPECT_NE(result.module, nullptr)
      << text << ": " << result.error.reason << " near " << result.error.near_text;
  return result.module == nullptr ? Variable{} : result.module->variables.back();
}

std::string refusal(const std::string& text) {
  const ParseResult result = parse_declarations(text);
  EXPECT_EQ(result.module, nullptr) << text;
  return result.error.reason;
}

template <class T>
T value(const Variable& variable, size_t index = 0) {
  T loaded{};
  EXPECT_LE((index + 1) * sizeof(T), variable.initial.size());
  if ((index + 1) * sizeof(T) <= variable.initial.size()) {
    std::memcpy(&loaded, variable.initial.data() + index * sizeof(T), sizeof loaded);
  }
  return loaded;
}

TEST(PtxInitialiser, DeclarationWithoutValues) {
  const Variable variable = last(".visible .global .align 16 .b8 x[24];");
  EXPECT_EQ(variable.name, "x");
  EXPECT_EQ(variable.space, Space::kGlobal);
  EXPECT_EQ(variable.type, Type::kB8);
  EXPECT_EQ(variable.linkage, Linkage::kVisible);
  EXPECT_EQ(variable.elements, 24U);
  EXPECT_EQ(variable.size, 24U);
  EXPECT_EQ(variable.align, 16U);
  EXPECT_TRUE(variable.initial.empty());
}

TEST(PtxInitialiser, UnsizedSharedMemory) {
  const Variable variable = last(".extern .shared .align 16 .b8 raw[];");
  EXPECT_EQ(variable.space, Space::kShared);
  EXPECT_EQ(variable.linkage, Linkage::kExtern);
  EXPECT_EQ(variable.elements, 0U);
  EXPECT_EQ(variable.size, 0U);
}

TEST(PtxInitialiser, Managed) {
  EXPECT_TRUE(last(".global .attribute(.managed) .align 4 .u32 m = 3;").managed);
  EXPECT_FALSE(last(".global .attribute(.unified(1, 2)) .u32 m;").managed);
}

TEST(PtxInitialiser, Integers) {
  EXPECT_EQ(value<uint32_t>(last(".global .u32 x = 0x1F;")), 31U);
  EXPECT_EQ(value<int32_t>(last(".global .s32 x = -2;")), -2);
  EXPECT_EQ(value<int64_t>(last(".global .s64 x = -9223372036854775808;")), INT64_MIN);
  EXPECT_EQ(value<uint64_t>(last(".global .u64 x = 18446744073709551615;")), UINT64_MAX);
  EXPECT_EQ(value<uint16_t>(last(".global .u16 x = 0b101;")), 5U);
  EXPECT_EQ(value<uint8_t>(last(".global .b8 x = 017;")), 15U);
  EXPECT_EQ(value<uint32_t>(last(".global .u32 x = 7U;")), 7U);
  const Variable wide = last(".global .b128 x = -1;");
  EXPECT_EQ(value<uint64_t>(wide, 1), UINT64_MAX);
}

TEST(PtxInitialiser, ConstantExpressions) {
  const auto evaluate = [](const std::string& expression) {
    return value<int64_t>(last(".global .s64 x = " + expression + ";"));
  };
  EXPECT_EQ(evaluate("1 + 2 * 3"), 7);
  EXPECT_EQ(evaluate("(1 + 2) * 3"), 9);
  EXPECT_EQ(evaluate("10 - 3 - 2"), 5);
  EXPECT_EQ(evaluate("-7 / 2"), -3);
  EXPECT_EQ(evaluate("-7 % 4"), -3);
  EXPECT_EQ(evaluate("(-9223372036854775808) / (-1)"), INT64_MIN);
  EXPECT_EQ(evaluate("1 << 4 | 1"), 17);
  EXPECT_EQ(evaluate("-16 >> 2"), -4);
  EXPECT_EQ(evaluate("(.u64) -16 >> 60"), 15);
  EXPECT_EQ(evaluate("1 << 64"), 0);
  EXPECT_EQ(evaluate("~0 ^ 5 & 4"), ~4);
  EXPECT_EQ(evaluate("!0 + !7"), 1);
  EXPECT_EQ(evaluate("3 > 2 && 2 <= 1"), 0);
  EXPECT_EQ(evaluate("3 != 2 || 1 / 1 == 0"), 1);
  EXPECT_EQ(evaluate("-1 < 0 ? 11 : 22"), 11);
  EXPECT_EQ(evaluate("-1 < 0U ? 11 : 22"), 22);
  EXPECT_EQ(refusal(".global .s64 x = 1 / 0;"), "division by zero");
  EXPECT_EQ(refusal(".global .s64 x = 1 + 0f3F800000;"),
            "float literals take no operator but a sign");
}

TEST(PtxInitialiser, Floats) {
  EXPECT_EQ(value<float>(last(".global .f32 x = 0f3F800000;")), 1.0F);
  EXPECT_EQ(value<float>(last(".global .f32 x = -0f3F800000;")), -1.0F);
  EXPECT_EQ(value<double>(last(".global .f64 x = 0d4000000000000000;")), 2.0);
  EXPECT_EQ(value<double>(last(".global .f64 x = -1.5e2;")), -150.0);
  EXPECT_EQ(value<float>(last(".global .f32 x = 2.5;")), 2.5F);
  EXPECT_EQ(value<double>(last(".global .f64 x = 0f3FC00000;")), 1.5);
  EXPECT_EQ(value<float>(last(".global .f32 x = -3;")), -3.0F);
  EXPECT_EQ(value<uint32_t>(last(".global .b32 x = 0f3F800000;")), 0x3F800000U);
  EXPECT_EQ(refusal(".global .u32 x = 1.5;"), "a float does not fit the type of the variable");
  // The payload of a NaN is kept.
  EXPECT_EQ(value<uint32_t>(last(".global .f32 x = 0f7FA00001;")), 0x7FA00001U);
}

TEST(PtxInitialiser, FewerValuesThanElements) {
  const Variable variable = last(".global .align 4 .u32 x[4] = {1, 2};");
  EXPECT_EQ(variable.initial.size(), 16U);
  EXPECT_EQ(value<uint32_t>(variable, 1), 2U);
  EXPECT_EQ(value<uint32_t>(variable, 3), 0U);
}

TEST(PtxInitialiser, RowsAndVectors) {
  const Variable rows = last(".global .s32 x[3][2] = {{1}, {3, 4}, 5};");
  EXPECT_EQ(rows.elements, 6U);
  const int expected[] = {1, 0, 3, 4, 5, 0};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(value<int32_t>(rows, i), expected[i]) << i;
  const Variable vector = last(".global .v4 .f32 x = {1.0, 2.0, 3.0, 4.0};");
  EXPECT_EQ(vector.size, 16U);
  EXPECT_EQ(vector.align, 16U);
  EXPECT_EQ(value<float>(vector, 3), 4.0F);
  const Variable vectors = last(".global .v2 .u32 x[2] = {{1, 2}, {3, 4}};");
  EXPECT_EQ(value<uint32_t>(vectors, 3), 4U);
}

TEST(PtxInitialiser, UnsizedArrayTakesItsSizeFromItsValues) {
  const Variable variable = last(".global .u16 x[] = {1, 2, 3};");
  EXPECT_EQ(variable.elements, 3U);
  EXPECT_EQ(variable.size, 6U);
  EXPECT_EQ(last(".global .u8 x[][4] = {{1}, {2, 3}};").size, 8U);
}

TEST(PtxInitialiser, Addresses) {
  const Variable variable = last(
      ".global .u32 y[8];\n.func f();\n"
      ".global .u64 x[4] = {0, y + 8, generic(y) - 4, f};");
  ASSERT_EQ(variable.relocations.size(), 3U);
  EXPECT_EQ(variable.relocations[0].offset, 8U);
  EXPECT_EQ(variable.relocations[0].bytes, 8U);
  EXPECT_EQ(variable.relocations[0].symbol, "y");
  EXPECT_EQ(variable.relocations[0].addend, 8);
  EXPECT_FALSE(variable.relocations[0].generic);
  EXPECT_TRUE(variable.relocations[1].generic);
  EXPECT_EQ(variable.relocations[1].addend, -4);
  EXPECT_EQ(variable.relocations[2].symbol, "f");
}

TEST(PtxInitialiser, AddressesByBytes) {
  const Variable variable = last(
      ".global .u32 y;\n"
      ".global .b8 x[12] = {7, 0xFF(y+4), 0xFF00(y+4), 0xFF0000(y+4), 0xFF000000(y+4), "
      "0xFF00000000(y+4), 0xFF0000000000(y+4), 0xFF000000000000(y+4), 0xFF00000000000000(y+4), "
      "0xFF(generic(y)), 0xFF00(generic(y))};");
  ASSERT_EQ(variable.relocations.size(), 2U);
  EXPECT_EQ(variable.relocations[0].offset, 1U);
  EXPECT_EQ(variable.relocations[0].bytes, 8U);
  EXPECT_EQ(variable.relocations[0].addend, 4);
  EXPECT_EQ(variable.relocations[1].offset, 9U);
  EXPECT_EQ(variable.relocations[1].bytes, 2U);
  EXPECT_TRUE(variable.relocations[1].generic);
}

TEST(PtxInitialiser, RefusesWhatCannotBe) {
  EXPECT_EQ(refusal(".global .u32 x[2] = {1, 2, 3};"), "more initial values than elements");
  EXPECT_EQ(refusal(".global .u32 x[2] = {{1}, 2};"), "too many braces");
  EXPECT_EQ(refusal(".global .u64 x = nobody;"), "an initial value names an unknown symbol");
  EXPECT_EQ(refusal(".global .u32 y; .global .b8 x[2] = {0xFF00(y)};"),
            "the bytes of an address must start with the lowest");
  EXPECT_EQ(refusal(".global .u32 y; .global .b8 x[3] = {0xFF(y), 1, 0xFF00(y)};"),
            "the bytes of an address must start with the lowest");
  EXPECT_EQ(refusal(".global .u32 y; .global .b8 x[2] = {0xFF(y), 0xFF0000(y)};"),
            "the bytes of an address must follow each other");
  EXPECT_EQ(refusal(".global .u32 y; .global .b8 x = 0x1F(y);"),
            "the mask of an address must select one byte");
  EXPECT_EQ(refusal(".global .u32 y; .global .u16 x = y;"),
            "an address needs an element of 4 or 8 bytes");
  EXPECT_EQ(refusal(".shared .u32 x = 1;"), "no initial value may stand here");
  EXPECT_EQ(refusal(".global .pred x;"), "a variable in memory needs a type with a size");
  EXPECT_EQ(refusal(".global .u32 x[0x7FFFFFFF][0x7FFFFFFF];"), "the array is too large");
  EXPECT_EQ(refusal(".global .b8 x[1099511627776] = {1};"),
            "the initial values of the module are too large");
  EXPECT_EQ(refusal(".global .b8 x[][0] = {1, {2}};"), "an array of nothing has no values");
  EXPECT_EQ(refusal(".global .align 3 .b8 x;"), "an alignment must be a power of two");
}

}  // namespace
}  // namespace gpusnap::ptx
