// SPDX-License-Identifier: Apache-2.0
// A process that saves, as the staging area sees it: it claims slots, fills them, and hands them
// over as parts of a stream. The slots of a sealed stream do not need this process any more.
//
// Thread-safe, except that only one thread at a time hands over, seals or closes the same stream.
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
  // Returns kBusy if there are too many clients, kNotFound if the area has been closed: by now
  // there is another one, or none.
  static Result<std::unique_ptr<StagingClient>> join(StagingMemory& memory);
  // Streams that are not closed stay as if the process had been killed.
  ~StagingClient();
  StagingClient(const StagingClient&) = delete;
  StagingClient& operator=(const StagingClient&) = delete;

  // Returns a place in the line, for claim(). Destroyed before the client.
  PlaceInLine place() { return {line_, index_}; }
  // Claims a slot to fill, one of the first `preferred` slots if one of these is free. Clients get
  // slots in the order in which they asked. Returns kBusy if no slot has become free within
  // `longest`; the place is kept. If `longest` is zero, the client draws no ticket and comes after
  // all clients that have one.
  Result<uint32_t> claim(PlaceInLine& place, std::chrono::nanoseconds longest,
                         uint32_t preferred = 0);
  Result<uint32_t> claim(std::chrono::nanoseconds longest, uint32_t preferred = 0);
  void give_back(uint32_t slot) { line_.give_back(slot); }

  // Opens a stream. `text` describes it to the server. Returns kBusy if there are too many streams.
  Result<uint32_t> open(StreamKind kind, const std::string& text);
  // Hands over the first `used` bytes of a claimed slot as the next bytes of the stream. `pieces`:
  // where the bytes lay, or none. The slot belongs to the server after this. One thread at a time
  // for each stream.
  void hand_over(uint32_t stream, uint32_t slot, uint64_t used, std::span<const Piece> pieces,
                 SlotContent content = SlotContent::kBytes);
  // Returns whether the server still holds that life of a slot that was handed over.
  bool is_filled(uint32_t slot, uint32_t life) const;
  uint32_t slot_life(uint32_t slot) const;

  // Requests a file that this process will write directly. Only after the previous request was
  // answered.
  void ask_for_file(uint32_t stream);
  struct DirectFile {
    uint32_t number = 0;
    uint64_t bytes = 0;  // room after the header; 0: there is no file at the moment
    std::string path;
  };
  // Returns the answer to the last request; empty until there is one.
  std::optional<DirectFile> file_answer(uint32_t stream) const;
  // Ends the slots of the stream. After this its slots outlive this process.
  void seal(uint32_t stream);
  // Closes the stream. Neither its slots nor its outcome will be needed.
  void abandon(uint32_t stream);
  // Returns the server's outcome; empty until there is one.
  std::optional<Status> outcome(uint32_t stream) const;
  // Returns whether the server keeps the whole sealed stream in memory; then the client may leave
  // it.
  bool is_kept(uint32_t stream) const;
  void leave(uint32_t stream);
  // Returns the number of durable slots.
  uint64_t durable(uint32_t stream) const;
  // Returns the life of the entry: a later stream with the same number has another one.
  uint32_t life(uint32_t stream) const;
  // To be called after there is an outcome.
  void close(uint32_t stream);

  // Process numbers of the other clients of this area.
  std::vector<pid_t> others() const;

  // Waits until changes() is no longer `seen`, for `longest` at most.
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
