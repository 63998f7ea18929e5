// SPDX-License-Identifier: Apache-2.0
// Types, shapes and the bytes of files of arrays.
#include "tools/cli/array_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "tools/cli/array_plan.h"
#include "tools/cli/element_type.h"

namespace gpusnap {
namespace {

template <class T>
std::string shown(const char* type, T value) {
  return show_element(*find_element_type(type), std::as_bytes(std::span(&value, 1)));
}

TEST(ElementTypes, ShowTheirValues) {
  EXPECT_EQ(shown<uint8_t>("u8", 200), "200");
  EXPECT_EQ(shown<int8_t>("i8", -7), "-7");
  EXPECT_EQ(shown<bool>("bool", true), "1");
  EXPECT_EQ(shown<int16_t>("i16", -300), "-300");
  EXPECT_EQ(shown<uint32_t>("u32", 0xffffffff), "4294967295");
  EXPECT_EQ(shown<int64_t>("i64", -5'000'000'000), "-5000000000");
  EXPECT_EQ(shown<float>("f32", 0.1F), "0.1");
  EXPECT_EQ(shown<double>("f64", -2.5e300), "-2.5e+300");
  const float complex[] = {1.5F, -2};
  EXPECT_EQ(show_element(*find_element_type("c64"), std::as_bytes(std::span(complex))), "1.5-2j");
  EXPECT_EQ(find_element_type("f33"), nullptr);
}

TEST(ElementTypes, ShowHalves) {
  const std::pair<uint16_t, const char*> halves[] = {
      {0x3c00, "1"},     {0xc000, "-2"},  {0x3555, "0.33325195"}, {0x0001, "5.9604645e-08"},
      {0x7bff, "65504"}, {0x7c00, "inf"}, {0xfc00, "-inf"},       {0x7e00, "nan"}};
  for (const auto& [bits, text] : halves) EXPECT_EQ(shown("f16", bits), text);
  EXPECT_EQ(shown<uint16_t>("bf16", 0xc040), "-3");
}

TEST(ElementTypes, ShowBytesThatAreNoElement) {
  const std::byte bytes[] = {std::byte{1}, std::byte{0xab}};
  EXPECT_EQ(show_element(*find_element_type("f32"), bytes), "01ab");
  EXPECT_EQ(show_bits(bytes), "0xab01");
}

using Shape = std::vector<uint64_t>;

TEST(Shapes, AreNumbersWithCrosses) {
  EXPECT_EQ(parse_shape("7"), Shape{7});
  EXPECT_EQ(parse_shape("100x200x3"), (Shape{100, 200, 3}));
  for (const char* wrong : {"", "x", "1x", "x1", "1xx2", "0", "2x0", "-1", "1 x2", "1X2", "0x10"}) {
    EXPECT_EQ(parse_shape(wrong), std::nullopt) << wrong;
  }
  std::string many = "1";
  for (int i = 0; i < 31; ++i) many += "x1";
  EXPECT_TRUE(parse_shape(many).has_value());
  EXPECT_FALSE(parse_shape(many + "x1").has_value());
}

class Arrays : public ::testing::Test {
 protected:
  Arrays() {
    for (const uint64_t size : {24, 10}) {
      SavedRange range;
      range.size = size;
      rank_.ranges.push_back(range);
    }
    rank_.rank = 3;
  }
  Result<std::vector<ExtractedArray>> plan(std::vector<uint32_t> ranges, const char* type,
                                           Shape shape = {}, uint64_t offset = 0) const {
    return plan_arrays({{&rank_, std::move(ranges)}},
                       {find_element_type(type), std::move(shape), offset});
  }
  static std::vector<const ExtractedArray*> pointers(const std::vector<ExtractedArray>& arrays) {
    std::vector<const ExtractedArray*> all;
    for (const ExtractedArray& array : arrays) all.push_back(&array);
    return all;
  }

  Manifest rank_;
};

TEST_F(Arrays, HaveTheShapeThatIsAskedFor) {
  const auto whole = plan({0}, "f32");
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole.value()[0].shape, Shape{6});
  EXPECT_EQ(whole.value()[0].bytes, 24U);
  EXPECT_EQ(whole.value()[0].name(), "r3-0");
  const auto part = plan({0}, "u16", {2, 3}, 12);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part.value()[0].offset, 12U);
  EXPECT_EQ(part.value()[0].bytes, 12U);
}

TEST_F(Arrays, FitTheirRanges) {
  const Result<std::vector<ExtractedArray>> wrong[] = {
      plan({0, 1}, "f32"),
      plan({0}, "f32", {7}),
      plan({0}, "u8", {13}, 12),
      plan({0}, "u8", {}, 25),
      plan({0}, "f64", {1ULL << 40, 1ULL << 40}),
      plan({0}, "f32", {1ULL << 62}),
  };
  for (const auto& each : wrong) EXPECT_EQ(each.status().code(), Code::kInvalid);
  EXPECT_TRUE(plan({0, 1}, "u16").ok());
  EXPECT_EQ(plan({0}, "u8", {}, 24).value()[0].bytes, 0U);
}

TEST(Npy, HasAHeaderThatEndsAtAMultipleOf64) {
  const std::string header = npy_header(*find_element_type("f32"), {512, 7});
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(header.size() % 64, 0U);
  EXPECT_EQ(static_cast<unsigned char>(header[8]) + 256 * static_cast<unsigned char>(header[9]),
            static_cast<int>(header.size()) - 10);
  EXPECT_EQ(header.substr(10, 63),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (512, 7), }  ");
  EXPECT_EQ(header.back(), '\n');
  EXPECT_NE(npy_header(*find_element_type("u8"), {9})
                .find("'|u1', 'fortran_order': False, "
                      "'shape': (9,), }"),
            std::string::npos);
  for (size_t digits = 1; digits < 19; ++digits) {
    const Shape shape = {std::stoull(std::string(digits, '1'))};
    EXPECT_EQ(npy_header(*find_element_type("c128"), shape).size() % 64, 0U);
  }
}

TEST_F(Arrays, OfNpyHaveNoTypeThatNumPyLacks) {
  const ElementType& bf16 = *find_element_type("bf16");
  EXPECT_EQ(check_type(ArrayFormat::kNpy, bf16).code(), Code::kInvalid);
  EXPECT_EQ(check_type(ArrayFormat::kNpz, bf16).code(), Code::kInvalid);
  EXPECT_TRUE(check_type(ArrayFormat::kRaw, bf16).ok());
  EXPECT_TRUE(check_type(ArrayFormat::kSafetensors, bf16).ok());
  EXPECT_EQ(check_type(ArrayFormat::kSafetensors, *find_element_type("c64")).code(),
            Code::kInvalid);
}

TEST_F(Arrays, OfSafetensorsFollowTheirHeader) {
  const auto arrays = plan({0, 1}, "u16");
  const ArrayFile file(ArrayFormat::kSafetensors, "wave@1", pointers(arrays.value()));
  const auto frame = file.frame();
  ASSERT_EQ(frame.size(), 1U);
  EXPECT_EQ(frame[0].at, 0U);
  const std::string text(reinterpret_cast<const char*>(frame[0].bytes.data()),
                         frame[0].bytes.size());
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof length);
  EXPECT_EQ(length + 8, text.size());
  EXPECT_EQ(length % 8, 0U);
  EXPECT_NE(text.find(R"("checkpoint":"wave@1")"), std::string::npos);
  EXPECT_NE(text.find(R"("r3-1":{"dtype":"U16","shape":[5],"data_offsets":[24,34]})"),
            std::string::npos)
      << text;
  EXPECT_EQ(file.at(0), text.size());
  EXPECT_EQ(file.at(1), text.size() + 24);
  EXPECT_EQ(file.bytes(), text.size() + 34);
}

// ---- ZIP ----

TEST(PieceCrcs, DoNotDependOnTheOrderOfThePieces) {
  const std::string check = "123456789";
  PieceCrc whole(check.size());
  whole.add(0, std::as_bytes(std::span(check)));
  EXPECT_EQ(whole.value(), 0xcbf43926U);  // as the CRC catalogues have it

  std::mt19937 random(3);
  std::vector<std::byte> bytes(100'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  PieceCrc all(bytes.size());
  all.add(0, bytes);
  std::vector<std::pair<size_t, size_t>> pieces;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = std::min<size_t>(bytes.size() - at, 1 + random() % 9000);
    pieces.emplace_back(at, size);
    at += size;
  }
  for (int round = 0; round < 5; ++round) {
    std::ranges::shuffle(pieces, random);
    PieceCrc in_pieces(bytes.size());
    for (const auto& [at, size] : pieces) {
      in_pieces.add(at, std::span(bytes).subspan(at, size));
    }
    EXPECT_EQ(in_pieces.value(), all.value());
  }
}

TEST_F(Arrays, OfNpzAreWhereTheDirectorySays) {
  const auto arrays = plan({0, 1}, "u16");
  ArrayFile file(ArrayFormat::kNpz, "wave@1", pointers(arrays.value()));
  const std::vector<std::byte> data(24, std::byte{5});
  file.note(0, 0, data);
  file.note(1, 0, std::span(data).first(10));
  const auto frame = file.frame();
  ASSERT_EQ(frame.size(), 3U);
  // Each header goes up to its data, and each next one begins behind these.
  EXPECT_EQ(frame[0].at, 0U);
  EXPECT_EQ(frame[0].bytes.size(), file.at(0));
  EXPECT_EQ(frame[1].at, file.at(0) + 24);
  EXPECT_EQ(frame[1].at + frame[1].bytes.size(), file.at(1));
  EXPECT_EQ(frame[2].at, file.at(1) + 10);
  EXPECT_EQ(frame[2].at, file.bytes());
}

}  // namespace
}  // namespace gpusnap
