// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/config.h"

#include <gtest/gtest.h>

namespace gpusnap::veloc {
namespace {

TEST(Config, VelocsOwnFilesAreUnderstood) {
  const auto parsed = parse_config(
      "# comment\n[section]\nscratch = /tmp/scratch\npersistent=/tmp/persistent \r\nmode = async\n"
      "watchdog_interval = 10\naxl_type = posix\n\nmax_versions = 3",
      "veloc.cfg");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->config.scratch, "/tmp/scratch");
  EXPECT_EQ(parsed->config.persistent, "/tmp/persistent");
  EXPECT_FALSE(parsed->config.is_synchronous);
  EXPECT_EQ(parsed->config.max_versions, 3U);
  EXPECT_EQ(parsed->config.gpu_cache, Config::kByDefault);
  EXPECT_TRUE(parsed->warnings.empty());
}

TEST(Config, AllKeysAreRead) {
  const auto parsed = parse_config(
      "persistent = /p\ngpu_cache = 512M\nhost_cache = 2G\nmode = sync\ndiscard_consumed = yes\n"
      "evictor = fifo\nhints = off\ncompress = 3\n",
      "veloc.cfg");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Config& config = parsed->config;
  EXPECT_EQ(config.gpu_cache, 512U << 20);
  EXPECT_EQ(config.host_cache, 2ULL << 30);
  EXPECT_TRUE(config.is_synchronous);
  EXPECT_TRUE(config.discard_consumed);
  EXPECT_EQ(config.evictor, history::Evictor::kFifo);
  EXPECT_FALSE(config.uses_hints);
  EXPECT_EQ(config.compression.level, 3);
}

TEST(Config, WhatIsWrongIsNamedWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"persistent = /p\ngpu_cache = much\n", "veloc.cfg, line 2: gpu_cache needs a size"},
      {"persistent = /p\nmode = later\n", "line 2: mode needs sync or async"},
      {"persistent = /p\nevictor = best\n", "evictor needs score, fifo or lru"},
      {"persistent = /p\nmax_versions = -1\n", "max_versions needs a number"},
      {"persistent = /p\nhints = maybe\n", "hints needs true or false"},
      {"persistent\n", "'persistent' is no key = value"},
      {"persistent =\n", "persistent needs a folder"},
      {"scratch = /s\n", "names no folder for checkpoints"},
  };
  for (const auto& [text, message] : cases) {
    const auto parsed = parse_config(text, "veloc.cfg");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find(message), std::string::npos)
        << parsed.status().message();
  }
}

TEST(Config, UnknownKeysAreWarnedOf) {
  const auto parsed = parse_config("persistent = /p\ngpu_chache = 1G\n", "veloc.cfg");
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ(parsed->warnings.size(), 1U);
  EXPECT_NE(parsed->warnings[0].find("'gpu_chache'"), std::string::npos);
}

TEST(Config, OneFolderForBothIsThePersistentOne) {
  const auto parsed = parse_config("scratch = /p\npersistent = /p\n", "veloc.cfg");
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->config.scratch.empty());
}

TEST(Config, AMissingFileIsNamed) {
  const auto read = read_config("/nowhere/veloc.cfg");
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("/nowhere/veloc.cfg"), std::string::npos);
}

}  // namespace
}  // namespace gpusnap::veloc
