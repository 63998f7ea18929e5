// SPDX-License-Identifier: Apache-2.0
// A message arrives through a channel as it was sent, or is refused, whatever is done to it on its
// way.
#include "tiers/levels/channel.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "memory_stream.h"

namespace gpusnap::levels::test {
namespace {

JobKey key_of(unsigned char byte) {
  JobKey key;
  key.bytes.fill(byte);
  return key;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

struct Talk {
  JobKey client_key = key_of(1);
  JobKey server_key = key_of(1);
  bool client_encrypts = false;
  bool server_encrypts = false;
  Wire::Meddle to_server;
  Wire::Meddle to_client;
  size_t cut_at = SIZE_MAX;    // bytes to the server
  bool server_listens = true;  // else it goes when both know each other
};

struct Heard {
  Status client;  // of the client's handshake
  Status server;  // of the server's handshake, or what ended its messages
  std::vector<std::string> messages;
  std::vector<std::byte> sent;  // by the client
};

const std::vector<std::string> kSaid = {"one", "", "a longer third message", std::string(300, 'x')};

// The client says something and goes.
Heard talk(const Talk& setup) {
  auto up = std::make_shared<Wire>(setup.to_server, setup.cut_at);
  auto down = std::make_shared<Wire>(setup.to_client);
  Heard heard;
  std::thread client([&] {
    auto channel = Channel::open(std::make_unique<MemoryStream>(down, up), Channel::Side::kClient,
                                 setup.client_key, setup.client_encrypts);
    heard.client = channel.status();
    if (!channel.ok()) return;
    for (const std::string& text : kSaid) (void)channel.value()->send(bytes_of(text));
  });
  {
    auto channel = Channel::open(std::make_unique<MemoryStream>(up, down), Channel::Side::kServer,
                                 setup.server_key, setup.server_encrypts);
    heard.server = channel.status();
    while (heard.server.ok() && setup.server_listens) {
      const auto message = channel.value()->receive();
      heard.server = message.status();
      if (message.ok()) {
        heard.messages.emplace_back(reinterpret_cast<const char*>(message.value().data()),
                                    message.value().size());
      }
    }
  }
  client.join();
  heard.sent = up->sent();
  return heard;
}

bool begins_as_said(const std::vector<std::string>& heard) {
  return heard.size() <= kSaid.size() && std::equal(heard.begin(), heard.end(), kSaid.begin());
}

class ChannelTest : public testing::TestWithParam<bool> {
 protected:
  Talk setup() const {
    Talk setup;
    setup.client_encrypts = setup.server_encrypts = GetParam();
    return setup;
  }
};
INSTANTIATE_TEST_SUITE_P(Plain, ChannelTest, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Encrypted, ChannelTest, testing::Values(true));

TEST_P(ChannelTest, BringsMessagesInOrder) {
  const Heard heard = talk(setup());
  EXPECT_TRUE(heard.client.ok()) << heard.client.message();
  EXPECT_EQ(heard.messages, kSaid);
  EXPECT_EQ(heard.server.code(), Code::kNotFound);
}

TEST_P(ChannelTest, HidesWhatItSaysOnlyWhenAsked) {
  const Heard heard = talk(setup());
  const auto text = bytes_of("longer third");
  const bool shows = std::search(heard.sent.begin(), heard.sent.end(), text.begin(), text.end()) !=
                     heard.sent.end();
  EXPECT_EQ(shows, !GetParam());
}

// Every byte, one bit of it, in both directions.
TEST_P(ChannelTest, NoticesEveryChangedByte) {
  const size_t sent = talk(setup()).sent.size();
  for (size_t changed = 0; changed < sent; ++changed) {
    Talk changing = setup();
    changing.to_server = [changed](size_t at, std::span<const std::byte> bytes) {
      std::vector<std::byte> passed(bytes.begin(), bytes.end());
      if (changed >= at && changed < at + passed.size()) {
        passed[changed - at] ^= std::byte{static_cast<unsigned char>(1 << (changed % 8))};
      }
      return passed;
    };
    const Heard heard = talk(changing);
    EXPECT_TRUE(begins_as_said(heard.messages)) << changed;
    EXPECT_LT(heard.messages.size(), kSaid.size()) << changed;
    EXPECT_NE(heard.server.code(), Code::kNotFound) << changed;
    EXPECT_FALSE(heard.server.message().empty()) << changed;
  }
  constexpr size_t kHandshake = 42 + 4 + 6 + 16;
  for (size_t changed = 0; changed < kHandshake; ++changed) {
    Talk changing = setup();
    changing.to_client = [changed](size_t at, std::span<const std::byte> bytes) {
      std::vector<std::byte> passed(bytes.begin(), bytes.end());
      if (changed >= at && changed < at + passed.size()) passed[changed - at] ^= std::byte{0x10};
      return passed;
    };
    changing.server_listens = false;
    EXPECT_FALSE(talk(changing).client.ok()) << changed;
  }
}

// Cut after every byte: what came before arrives, and no end is taken for another.
TEST_P(ChannelTest, NoticesACutWithinAMessage) {
  const size_t sent = talk(setup()).sent.size();
  for (size_t cut = 0; cut < sent; ++cut) {
    Talk cutting = setup();
    cutting.cut_at = cut;
    const Heard heard = talk(cutting);
    EXPECT_TRUE(begins_as_said(heard.messages)) << cut;
    EXPECT_LT(heard.messages.size(), kSaid.size()) << cut;
    EXPECT_FALSE(heard.server.ok()) << cut;
  }
}

TEST_P(ChannelTest, RefusesAMessageThatComesTwiceOrOutOfOrder) {
  // Frames after the hello and the proof; by their number.
  const auto with = [&](const std::function<void(std::vector<std::vector<std::byte>>&)>& change) {
    Talk changing = setup();
    auto frames = std::make_shared<std::vector<std::vector<std::byte>>>();
    changing.to_server = [frames, change](size_t at, std::span<const std::byte> bytes) {
      std::vector<std::byte> passed;
      if (at < 42 + 26) return std::vector<std::byte>(bytes.begin(), bytes.end());
      frames->emplace_back(bytes.begin(), bytes.end());
      if (frames->size() < kSaid.size()) return passed;
      change(*frames);
      for (const auto& frame : *frames) passed.insert(passed.end(), frame.begin(), frame.end());
      return passed;
    };
    return talk(changing);
  };
  const Heard twice = with([](auto& frames) { frames.insert(frames.begin() + 1, frames[0]); });
  EXPECT_EQ(twice.messages, std::vector<std::string>{"one"});
  EXPECT_EQ(twice.server.code(), Code::kDamaged);
  const Heard swapped = with([](auto& frames) { std::swap(frames[1], frames[2]); });
  EXPECT_EQ(swapped.messages.size(), 1U);
  EXPECT_EQ(swapped.server.code(), Code::kDamaged);
  const Heard missing = with([](auto& frames) { frames.erase(frames.begin()); });
  EXPECT_TRUE(missing.messages.empty());
  EXPECT_EQ(missing.server.code(), Code::kDamaged);
}

// A recorded connection is worth nothing: the server's key is another one.
TEST_P(ChannelTest, RefusesAConnectionThatIsPlayedAgain) {
  const std::vector<std::byte> recorded = talk(setup()).sent;
  auto up = std::make_shared<Wire>();
  auto down = std::make_shared<Wire>();
  up->put(recorded);
  up->end();
  const auto channel = Channel::open(std::make_unique<MemoryStream>(up, down),
                                     Channel::Side::kServer, key_of(1), GetParam());
  EXPECT_EQ(channel.status().code(), Code::kPermission) << channel.status().message();
}

TEST_P(ChannelTest, RefusesAnotherKeyByName) {
  Talk foreign = setup();
  foreign.client_key = key_of(2);
  const Heard heard = talk(foreign);
  EXPECT_EQ(heard.client.code(), Code::kPermission);
  EXPECT_EQ(heard.server.code(), Code::kPermission);
  EXPECT_NE(heard.server.message().find("key"), std::string::npos);
  EXPECT_TRUE(heard.messages.empty());
}

TEST_P(ChannelTest, RefusesWhoSaysNothingThatMakesSense) {
  auto up = std::make_shared<Wire>();
  up->put(bytes_of("GET / HTTP/1.1\r\nHost: here\r\nAccept: everything\r\n"));
  const auto channel = Channel::open(std::make_unique<MemoryStream>(up, std::make_shared<Wire>()),
                                     Channel::Side::kServer, key_of(1), GetParam());
  EXPECT_EQ(channel.status().code(), Code::kDamaged);
}

TEST(ChannelSettings, BothSidesEncryptOrNone) {
  Talk setup;
  setup.server_encrypts = true;
  const Heard heard = talk(setup);
  EXPECT_EQ(heard.server.code(), Code::kInvalid);
  EXPECT_NE(heard.server.message().find("GPUSNAP_LEVEL_ENCRYPT"), std::string::npos);
}

class KeyFile : public testing::Test {
 protected:
  KeyFile()
      : path_(std::filesystem::temp_directory_path() / ("key-" + std::to_string(::getpid()))) {}
  ~KeyFile() override { std::filesystem::remove(path_); }
  Result<JobKey> write(const std::string& content, mode_t mode) {
    std::ofstream(path_) << content;
    ::chmod(path_.c_str(), mode);
    return read_job_key(path_);
  }
  const std::filesystem::path path_;
};

TEST_F(KeyFile, IsThisUsersAlone) {
  const std::string key(32, 'k');
  EXPECT_TRUE(write(key, 0600).ok());
  EXPECT_TRUE(write(key, 0400).ok());
  EXPECT_EQ(write(key, 0640).status().code(), Code::kPermission);
  EXPECT_EQ(write(key, 0604).status().code(), Code::kPermission);
  EXPECT_EQ(write("short", 0600).status().code(), Code::kInvalid);
  EXPECT_EQ(write(std::string(5000, 'k'), 0600).status().code(), Code::kInvalid);
  EXPECT_EQ(read_job_key("/nonexistent/key").status().code(), Code::kPermission);
  const auto one = write(std::string(40, 'a'), 0600);
  const auto other = write(std::string(40, 'b'), 0600);
  EXPECT_NE(one.value().bytes, other.value().bytes);
}

}  // namespace
}  // namespace gpusnap::levels::test
