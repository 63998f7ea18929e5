#include "tiers/compression/setting.h"

#include <gtest/gtest.h>

namespace gpusnap {
namespace {

TEST(CompressionSetting, IsReadAsItWasWritten) {
  for (const char* text : {"auto", "off", "1", "19", "auto:1M", "3:1K", "3:512K", "19:128M"}) {
    const auto setting = parse_compression(text);
    ASSERT_TRUE(setting.ok()) << text;
    EXPECT_EQ(text_of(setting.value()), text);
  }
  EXPECT_EQ(parse_compression("3:8M")->window_log, 23);
  EXPECT_EQ(text_of(parse_compression("3:1024K").value()), "3:1M");
}

TEST(CompressionSetting, WhatMakesNoSenseIsRefused) {
  for (const char* text : {"", "on", "0", "20", "-1", "1.5", "3:", ":8M", "3:8", "3:8G", "3:3M",
                           "3:512", "3:256M", "3:0M", "3:-1M", "off:1M", "3:8M:8M", "auto "}) {
    const auto setting = parse_compression(text);
    EXPECT_EQ(setting.status().code(), Code::kInvalid) << text;
  }
}

}  // namespace
}  // namespace gpusnap
