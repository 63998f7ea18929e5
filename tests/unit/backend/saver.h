// A client as the preloaded library is one, in small: hands over checkpoints and a journal.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fault_file_system.h"
#include "support.h"
#include "tests/support/journal_file.h"
#include "tiers/backend/message.h"
#include "tiers/staging/client.h"
#include "tiers/store.h"

namespace gpusnap::test {

using namespace std::chrono_literals;

// The bytes that a client hands over in slots: the text, and behind it the manifest without its
// extents.
inline std::vector<std::byte> manifest_message(const Manifest& manifest, ManifestText head) {
  const std::vector<std::byte> encoded = encode(manifest);
  head.bytes = encoded.size();
  const std::string text = encode(head);
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  bytes.insert(bytes.end(), encoded.begin(), encoded.end());
  return bytes;
}

class Saver {
 public:
  Saver(StagingMemory& memory, std::string store, Job job)
      : memory_(memory), store_(std::move(store)), job_(std::move(job)) {
    auto client = StagingClient::join(memory);
    EXPECT_TRUE(client.ok()) << client.status().message();
    if (client.ok()) client_ = std::move(client.value());
  }
  // `client`: of that memory.
  Saver(StagingMemory& memory, std::string store, Job job, std::unique_ptr<StagingClient> client)
      : memory_(memory),
        store_(std::move(store)),
        job_(std::move(job)),
        client_(std::move(client)) {}

  StagingClient& client() { return *client_; }
  void go() { client_.reset(); }

  CheckpointText text(uint64_t epoch) const {
    CheckpointText text;
    text.store = store_;
    text.job = job_.name;
    text.run = job_.run;
    text.epoch = epoch;
    text.rank = job_.rank;
    text.segment_bytes = job_.segment_bytes;
    text.compression = compression;
    text.keep = keep;
    text.chain = chain;
    text.in_memory = in_memory;
    text.complete = complete;
    return text;
  }

  // The whole of it, but for the seal; its stream.
  uint32_t fill(uint64_t epoch, uint64_t parent = 0) {
    const auto stream = client_->open(StreamKind::kCheckpoint, encode(text(epoch)));
    EXPECT_TRUE(stream.ok()) << stream.status().message();
    if (!stream.ok()) return 0;
    for (size_t range = 0; range < job_.ranges.size(); ++range) {
      const std::vector<std::byte> bytes = memory_at(epoch, range, job_.ranges[range]);
      const auto number = static_cast<uint32_t>(range);
      if (!instead || !instead(stream.value(), number, bytes)) {
        hand_over(stream.value(), bytes, number);
      }
      if (range == 0 && after_first) after_first();
    }
    Manifest manifest = manifest_of(job_, epoch);
    if (parent != 0) {
      manifest.parent = parent;
      manifest.chain = 1;
      for (SavedRange& range : manifest.ranges) range.fresh = true;
    }
    ManifestText head;
    if (journal_) {
      add_to_journal(epoch);
      manifest.journal = {journal_part_};
      head.journal = {*journal_, memory_.streams()[*journal_].word.load().life, journal_slots_};
    }
    hand_over_manifest(stream.value(), manifest, head);
    return stream.value();
  }

  void hand_over_manifest(uint32_t stream, const Manifest& manifest, const ManifestText& head) {
    hand_over(stream, manifest_message(manifest, head), std::nullopt);
  }

  uint32_t save(uint64_t epoch, uint64_t parent = 0) {
    const uint32_t stream = fill(epoch, parent);
    client_->seal(stream);
    return stream;
  }

  Status wait(uint32_t stream) {
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (std::chrono::steady_clock::now() < until) {
      if (const auto outcome = client_->outcome(stream)) {
        client_->close(stream);
        return *outcome;
      }
      client_->wait(client_->changes(), 1ms);
    }
    return {Code::kBusy, "no outcome"};
  }

  // Until the backend keeps it, as a program does.
  bool wait_kept(uint32_t stream) {
    const auto until = std::chrono::steady_clock::now() + 60s;
    while (!client_->is_kept(stream)) {
      if (client_->outcome(stream) || std::chrono::steady_clock::now() > until) return false;
      client_->wait(client_->changes(), 1ms);
    }
    client_->leave(stream);
    return true;
  }

  void open_journal() {
    const JournalText text{store_ + "/" + sanitise_job(job_.name) + "/" + journal_name(job_)};
    const auto stream = client_->open(StreamKind::kJournal, encode(text));
    EXPECT_TRUE(stream.ok()) << stream.status().message();
    if (stream.ok()) journal_ = stream.value();
    FaultFileSystem::Fault none;
    (void)journal_files_.make_folder("/j");
    JournalWriter::Options options;
    options.block_bytes = 512;
    writer_ = std::move(create_journal(journal_files_, "/j", journal_name(job_), options).value());
  }
  uint32_t journal() const { return *journal_; }
  uint64_t journal_slots() const { return journal_slots_; }

  CompressionSetting compression{CompressionSetting::Mode::kOff, 1};
  uint32_t keep = 0;
  uint32_t chain = 0;                 // 0: nothing is merged
  bool in_memory = false;             // it stays there
  uint64_t complete = 0;              // the last epoch that is complete on all ranks
  std::function<void()> after_first;  // the first range has been handed over
  // Whether it has handed a range over in another way.
  std::function<bool(uint32_t stream, uint32_t range, std::span<const std::byte> bytes)> instead;

 private:
  void add_to_journal(uint64_t epoch) {
    writer_->append(journal_bytes(epoch), 4);
    journal_part_ = writer_->seal();
    EXPECT_TRUE(writer_->settle(journal_part_).ok());
    const auto content = journal_files_.content("/j/" + journal_name(job_));
    while (journal_bytes_ < content.size()) {
      const auto slot = client_->claim(60s);
      ASSERT_TRUE(slot.ok());
      const auto to = memory_.bytes(slot.value());
      const uint64_t size = std::min<uint64_t>(to.size() / 8, content.size() - journal_bytes_);
      std::memcpy(to.data(), content.data() + journal_bytes_, size);
      const Piece piece{0, journal_bytes_, size};
      client_->hand_over(*journal_, slot.value(), size, {&piece, 1});
      journal_bytes_ += size;
      ++journal_slots_;
    }
  }

  void hand_over(uint32_t stream, const std::vector<std::byte>& bytes,
                 std::optional<uint32_t> range) {
    for (size_t at = 0; at < bytes.size();) {
      const auto slot = client_->claim(60s);
      ASSERT_TRUE(slot.ok()) << slot.status().message();
      const auto to = memory_.bytes(slot.value());
      const size_t size = std::min(to.size(), bytes.size() - at);
      std::memcpy(to.data(), bytes.data() + at, size);
      const Piece piece{range.value_or(0), at, size};
      client_->hand_over(stream, slot.value(), size,
                         range ? std::span(&piece, 1) : std::span<const Piece>());
      at += size;
    }
  }

  StagingMemory& memory_;
  const std::string store_;
  const Job job_;
  std::unique_ptr<StagingClient> client_;
  FaultFileSystem journal_files_;
  std::unique_ptr<JournalWriter> writer_;
  std::optional<uint32_t> journal_;
  JournalPart journal_part_;
  uint64_t journal_bytes_ = 0;  // handed over
  uint64_t journal_slots_ = 0;
};

}  // namespace gpusnap::test
