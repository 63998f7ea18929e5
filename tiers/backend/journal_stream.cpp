// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/journal_stream.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "tiers/backend/message.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

constexpr std::chrono::nanoseconds kBetweenLooks = std::chrono::milliseconds(200);

class JournalStream final : public JournalSink {
 public:
  JournalStream(StagingPool& pool, uint32_t stream) : pool_(pool), stream_(stream) {
    cover_ = {stream, pool.client().life(stream), 0};
  }
  JournalStream(const JournalStream&) = delete;
  JournalStream& operator=(const JournalStream&) = delete;

  ~JournalStream() override {
    StagingClient& client = pool_.client();
    client.seal(stream_);
    uint32_t seen = client.changes();
    while (!client.outcome(stream_) && pool_.watch().look().ok()) {
      client.wait(seen, kBetweenLooks);
      seen = client.changes();
    }
    client.close(stream_);
  }

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), pool_.slot_bytes()));
      if (Status put = this->put(part); !put.ok()) return put;
      bytes = bytes.subspan(part.size());
    }
    return {};
  }

  // The backend ends an unsealed journal only if it cannot write it.
  Result<JournalCover> settle() override {
    if (const auto outcome = pool_.client().outcome(stream_)) return failed(*outcome);
    return cover_;
  }

 private:
  static Status failed(const Status& outcome) {
    if (!outcome.ok()) return outcome;
    return {Code::kIo, "the backend ended a journal that was not complete"};
  }

  Status put(std::span<const std::byte> bytes) {
    const Result<Slot*> slot = pool_.acquire();
    if (!slot.ok()) return slot.status();
    if (const auto outcome = pool_.client().outcome(stream_)) {
      pool_.release(slot.value());
      return failed(*outcome);
    }
    std::memcpy(slot.value()->data, bytes.data(), bytes.size());
    const Piece place{0, offset_, bytes.size()};
    pool_.client().hand_over(stream_, slot.value()->index, bytes.size(), {&place, 1});
    offset_ += bytes.size();
    ++cover_.slots;
    return {};
  }

  StagingPool& pool_;
  const uint32_t stream_;
  uint64_t offset_ = 0;  // in the file
  JournalCover cover_;   // of all that was handed over
};

}  // namespace

Result<std::unique_ptr<JournalSink>> open_journal_stream(StagingPool& pool,
                                                         const std::string& file) {
  const auto stream = pool.client().open(StreamKind::kJournal, encode(JournalText{file}));
  if (!stream.ok()) return stream.status();
  return no_throw("begin a journal", [&]() -> Result<std::unique_ptr<JournalSink>> {
    return std::unique_ptr<JournalSink>(std::make_unique<JournalStream>(pool, stream.value()));
  });
}

}  // namespace gpusnap
