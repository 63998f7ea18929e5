#include "tracker/lz4.h"

#include <gtest/gtest.h>

#include "fat_binary_builder.h"

namespace gpusnap {
namespace {

std::optional<std::string> decompress(const std::string& block, size_t size) {
  return lz4_decompress(as_bytes(block), size);
}

TEST(Lz4, LiteralsOnly) {
  EXPECT_EQ(decompress(std::string("\x30"
                                   "abc"),
                       3),
            "abc");
  EXPECT_EQ(decompress("", 0), "");
}

TEST(Lz4, MatchMayOverlapItself) {
  // "ab", then 4 + 2 bytes from two back, then the literal "c".
  EXPECT_EQ(decompress(std::string("\x22"
                                   "ab"
                                   "\x02\x00"
                                   "\x10"
                                   "c",
                                   7),
                       9),
            "ababababc");
}

TEST(Lz4, LongLengthsGoOnInMoreBytes) {
  // 15 + 255 + 3 literals.
  const std::string literals(273, 'x');
  EXPECT_EQ(decompress(std::string("\xF0\xFF\x03", 3) + literals, 273), literals);
  // One literal, then a match of 4 + 15 + 10 from one back.
  EXPECT_EQ(decompress(std::string("\x1F"
                                   "z"
                                   "\x01\x00"
                                   "\x0A",
                                   5),
                       30),
            std::string(30, 'z'));
}

TEST(Lz4, DamageIsFound) {
  EXPECT_EQ(decompress("\x30"
                       "ab",
                       3),
            std::nullopt)
      << "literals cut off";
  EXPECT_EQ(decompress("\x30"
                       "abc",
                       2),
            std::nullopt)
      << "more than announced";
  EXPECT_EQ(decompress("\x30"
                       "abc",
                       4),
            std::nullopt)
      << "less than announced";
  EXPECT_EQ(decompress(std::string("\x20"
                                   "ab"
                                   "\x03\x00",
                                   5),
                       6),
            std::nullopt)
      << "too far back";
  EXPECT_EQ(decompress(std::string("\x20"
                                   "ab"
                                   "\x00\x00",
                                   5),
                       6),
            std::nullopt)
      << "distance 0";
  EXPECT_EQ(decompress(std::string("\x20"
                                   "ab"
                                   "\x01",
                                   4),
                       6),
            std::nullopt)
      << "half a distance";
  EXPECT_EQ(decompress(std::string("\xF0\xFF", 2), 600), std::nullopt) << "length cut off";
}

}  // namespace
}  // namespace gpusnap
