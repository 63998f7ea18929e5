// A process that saves, as the staging area sees it: it claims slots, fills them, and hands them
// over as parts of a stream. The slots of a sealed stream do not need this process any more.
//
// Thread-safe, but for one stream only one thread at a time hands over, seals and closes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tiers/staging/memory.h"
#include "tiers/staging/turn.h"
#include "tiers/status.h"

namespace gpusnap {

// The content of a slot that is handed over: bytes of a stream, or an encoded DirectChunk.
enum class SlotContent : uint8_t { kBytes, kDirectChunk };

class StagingClient {
 public:
  // kBusy when there are too many; kNotFound when the area has been closed: there is another one by
  // now, or none.
  static Result<std::unique_ptr<StagingClient>> join(StagingMemory& memory);
  // Its streams are closed, or as they would be if the process were killed now.
  ~StagingClient();
  StagingClient(const StagingClient&) = delete;
  StagingClient& operator=(const StagingClient&) = delete;

  // For claim(). Ends before the client does.
  PlaceInLine place() { return {line_, index_}; }
  // A slot to fill; of the first `preferred` if one of those is free. In the order in which clients
  // asked: kBusy when none has come free within `longest`, and then the place is kept. With nothing
  // to wait for it takes no ticket, and comes after all who have one.
  Result<uint32_t> claim(PlaceInLine& place, std::chrono::nanoseconds longest,
                         uint32_t preferred = 0);
  Result<uint32_t> claim(std::chrono::nanoseconds longest, uint32_t preferred = 0);
  void give_back(uint32_t slot) { line_.give_back(slot); }

  // `text`: what the server has to know of it. kBusy where there are too many.
  Result<uint32_t> open(StreamKind kind, const std::string& text);
  // The claimed slot's first `used` bytes are the stream's next ones. `pieces`: where they lay, or
  // none. The slot is the server's from now on.
  // One thread at a time for a stream.
  void hand_over(uint32_t stream, uint32_t slot, uint64_t used, std::span<const Piece> pieces,
                 SlotContent content = SlotContent::kBytes);
  // Whether the server still has that life of a slot that was handed over.
  bool is_filled(uint32_t slot, uint32_t life) const;
  uint32_t slot_life(uint32_t slot) const;

  // Asks for a file that this process will write directly. Only when there is no question that has
  // no answer.
  void ask_for_file(uint32_t stream);
  struct DirectFile {
    uint32_t number = 0;
    uint64_t bytes = 0;  // that go behind the header; 0: there is no file at the moment
    std::string path;
  };
  // The answer to the last question, nothing as long as there is none.
  std::optional<DirectFile> file_answer(uint32_t stream) const;
  // No more slots: what there is outlives this process.
  void seal(uint32_t stream);
  // Nothing of it will be needed, an outcome neither: closes it, too.
  void abandon(uint32_t stream);
  // The server's outcome, or nothing as long as there is none.
  std::optional<Status> outcome(uint32_t stream) const;
  // Whether the server keeps all of the sealed stream in memory; then the client may leave it.
  bool is_kept(uint32_t stream) const;
  void leave(uint32_t stream);
  // How many of its slots are durable.
  uint64_t durable(uint32_t stream) const;
  // Which of the entry's lives it is: another stream that has its number later has another one.
  uint32_t life(uint32_t stream) const;
  // Once there is an outcome.
  void close(uint32_t stream);

  // Numbers of the other processes that save to this area.
  std::vector<pid_t> others() const;

  // Until something may have changed.
  void wait(uint32_t seen, std::chrono::nanoseconds longest) const;
  uint32_t changes() const;

 private:
  StagingClient(StagingMemory& memory, uint32_t index)
      : memory_(memory), line_(memory), index_(index) {}
  std::optional<uint32_t> try_claim(PlaceInLine& place, uint32_t preferred);
  bool claim_of(uint32_t begin, uint32_t end, uint32_t& slot);

  StagingMemory& memory_;
  TicketLine line_;
  const uint32_t index_;
  std::atomic<uint32_t> hint_{0};
};

}  // namespace gpusnap
