#include "tiers/backend/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace gpusnap::test {
namespace {

CheckpointText checkpoint() {
  CheckpointText text;
  text.store = "/scratch/me/a store";
  text.job = "solver=1";
  text.run = "Ab3";
  text.epoch = 7;
  text.rank = 3;
  text.segment_bytes = 1 << 20;
  text.compression = {CompressionSetting::Mode::kLevel, 7};
  text.keep = 4;
  text.chain = 9;
  return text;
}

TEST(Message, IsReadAsItWasWritten) {
  EXPECT_EQ(parse_checkpoint(encode(checkpoint())).value(), checkpoint());
  const JournalText journal{"/store/demo/Ab3-r0.journal"};
  EXPECT_EQ(parse_journal(encode(journal)).value(), journal);
  for (const char* setting : {"auto", "off", "1", "19", "auto:1K", "3:512K", "19:128M"}) {
    CheckpointText text = checkpoint();
    text.compression = parse_compression(setting).value();
    EXPECT_EQ(parse_checkpoint(encode(text)).value(), text);
  }
}

TEST(Message, SaysWhatStaysInMemoryAndWhatIsComplete) {
  CheckpointText text = checkpoint();
  for (const bool in_memory : {false, true}) {
    for (const uint64_t complete : {0, 6}) {
      text.in_memory = in_memory;
      text.complete = complete;
      EXPECT_EQ(parse_checkpoint(encode(text)).value(), text);
    }
  }
  const std::string plain = encode(checkpoint());
  for (const char* wrong : {"level=ssd\n", "level=\n", "complete=0\n", "complete=x\n",
                            "complete=6\nlevel=memory\n", "level=memory\nlevel=memory\n"}) {
    EXPECT_FALSE(parse_checkpoint(plain + wrong).ok()) << wrong;
  }
}

TEST(Message, AManifestFollowsItsText) {
  ManifestText text;
  text.bytes = 12;
  size_t bytes = 0;
  EXPECT_EQ(parse_manifest_text(encode(text) + "GPUSNAPM\n=%\n", bytes).value(), text);
  EXPECT_EQ(bytes, encode(text).size());
  text.journal = {3, 70000, 1ULL << 40};
  EXPECT_EQ(parse_manifest_text(encode(text), bytes).value(), text);
}

TEST(Message, ValuesHoldAnyByteButZero) {
  CheckpointText text = checkpoint();
  for (int byte = 1; byte < 256; ++byte) text.store += static_cast<char>(byte);
  text.job = "a\nepoch=8\n%0a=\x7f\xff";
  const std::string written = encode(text);
  EXPECT_EQ(parse_checkpoint(written).value(), text);
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 10);
  text.job = std::string("a\0b", 3);
  EXPECT_FALSE(parse_checkpoint(encode(text)).ok());
}

void expect_refused(const std::string& text, const std::string& why) {
  const auto parsed = parse_checkpoint(text);
  ASSERT_FALSE(parsed.ok()) << text;
  EXPECT_NE(parsed.status().message().find(why), std::string::npos) << parsed.status().message();
  EXPECT_EQ(parsed.status().message().find('\n'), std::string::npos);
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = encode(checkpoint());
  return text.replace(text.find(from), from.size(), to);
}

TEST(Message, EverythingElseIsRefused) {
  expect_refused("", "ends too early");
  expect_refused(encode(JournalText{}), "first line");
  expect_refused(encode(checkpoint()) + "more=1\n", "follows");
  expect_refused(with("epoch=7\n", ""), "no 'epoch'");
  expect_refused(with("epoch=7", "epoch=0"), "'epoch' is no number");
  expect_refused(with("epoch=7", "epoch=07"), "'epoch' is no number");
  expect_refused(with("epoch=7", "epoch=7 "), "'epoch' is no number");
  expect_refused(with("epoch=7", "epoch=-7"), "'epoch' is no number");
  expect_refused(with("epoch=7", "epoch=1000000000000000000"), "'epoch' is no number");
  expect_refused(with("rank=3", "rank=4294967296"), "'rank' is no number");
  expect_refused(with("store=/", "store="), "not absolute");
  expect_refused(with("job=solver=1", "job="), "no name");
  expect_refused(with("run=Ab3", "run=../b"), "'run'");
  expect_refused(with("compress=7", "compress=20"), "'compress'");
  expect_refused(with("compress=7", "compress=07"), "'compress'");
  expect_refused(with("segment=1048576", "segment=1"), "'segment' is no number");
  expect_refused(with("job=", "job=%4"), "not escaped");
  expect_refused(with("job=", "job=%00"), "not escaped");
  expect_refused(with("job=", "job=%41"), "not escaped");
  expect_refused(with("job=", "job=%0A"), "not escaped");
  expect_refused(with("job=", "job=\x01"), "not escaped");
  expect_refused(with("checkpoint 1", "checkpoint one"), "version");
  EXPECT_EQ(parse_checkpoint(with("checkpoint 1", "checkpoint 2")).status().code(), Code::kNewer);
}

TEST(Message, JournalsAreCalledAsJournalsAre) {
  for (const char* path : {"store/Ab3-r0.journal", "/store/r0.manifest", "/store/Ab3-r0.journal/x",
                           "/store/..", "/"}) {
    EXPECT_FALSE(parse_journal(encode(JournalText{path})).ok()) << path;
  }
}

TEST(Message, EveryBeginningIsRefused) {
  const std::string text = encode(checkpoint());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(parse_checkpoint(text.substr(0, size)).ok());
  }
  size_t bytes = 0;
  const std::string manifest = encode(ManifestText{{{1, 2, 3}}, 4});
  for (size_t size = 0; size < manifest.size(); ++size) {
    EXPECT_FALSE(parse_manifest_text(manifest.substr(0, size), bytes).ok());
  }
  for (const char* journal : {"1.2", "1.2.3.4", "-1.2.3", "1..3", "4294967296.1.1", ""}) {
    EXPECT_FALSE(parse_manifest_text(
                     "gpusnap manifest 1\njournal=" + std::string(journal) + "\nbytes=1\n", bytes)
                     .ok())
        << journal;
  }
}

}  // namespace
}  // namespace gpusnap::test
