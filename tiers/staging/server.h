// SPDX-License-Identifier: Apache-2.0
// The staging area as the backend sees it: its streams, the slots that were handed over, and
// clients that have gone. Free slots go to clients in the order in which they asked (turn.h). Apart
// from what has been reported already, all state is in the shared memory: a server that takes over
// an area reports everything again.
//
// Not thread-safe, except for release(), progress(), held(), set_spills(), keep() and end().
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/mutex.h"
#include "tiers/staging/memory.h"
#include "tiers/staging/turn.h"
#include "tiers/status.h"

namespace gpusnap {

class StagingServer {
 public:
  // Becomes the only server of the memory.
  explicit StagingServer(StagingMemory& memory);
  StagingServer(const StagingServer&) = delete;
  StagingServer& operator=(const StagingServer&) = delete;

  struct Arrival {
    uint32_t slot = 0;
    uint32_t stream = 0;
    uint64_t sequence = 0;
  };
  // Events since the last look(), to be handled in this order: a stream is opened before it has
  // slots, and all its slots have arrived before it is sealed.
  struct News {
    std::vector<uint32_t> opened;     // streams
    std::vector<Arrival> arrived;     // by stream and sequence
    std::vector<uint32_t> sealed;     // streams
    std::vector<uint32_t> abandoned;  // streams; to be ended
  };
  News look();
  // Finds clients that have gone and takes back their entries. Makes system calls for each client.
  void reap();

  // Returns the number of threads of other processes that wait for a device now: the programs' own
  // I/O. Looks at about 64 threads in all, and at least one of each client.
  uint32_t threads_waiting_for_devices() const;

  StreamKind kind(uint32_t stream) const { return memory_.streams()[stream].kind; }
  std::string_view text(uint32_t stream) const;  // from StagingClient::open()
  // Slots handed over so far or, of a sealed stream, in all.
  uint64_t slots(uint32_t stream) const { return memory_.streams()[stream].slots; }
  uint64_t durable(uint32_t stream) const { return memory_.streams()[stream].durable; }
  uint32_t life(uint32_t stream) const { return memory_.streams()[stream].word.load().life; }
  // Returns whether the stream's client has gone.
  bool is_orphan(uint32_t stream) const {
    return memory_.streams()[stream].word.load().owner == kNoClient;
  }
  // Returns whether the stream's client has left it to the server, or has gone.
  bool is_left(uint32_t stream) const {
    const Owned<StreamState> word = memory_.streams()[stream].word.load();
    return word.state == StreamState::kKept || word.owner == kNoClient;
  }
  // Returns whether the stream's client runs now; is_orphan() is as of the last reap(). After the
  // client's end another run may take over the job. Makes system calls. Any thread.
  bool has_running_client(uint32_t stream) const;
  // Valid until the slot is released.
  std::span<const std::byte> bytes(uint32_t slot) const;
  std::span<const Piece> pieces(uint32_t slot) const;

  // Returns whether the slot's bytes are a DirectChunk.
  bool is_direct(uint32_t slot) const { return memory_.slots()[slot].direct == 1; }
  // Returns whether the stream's client waits for a file that it can write directly.
  bool is_asked_for_file(uint32_t stream) const;
  // Answers that request with a file and its room in bytes, or with 0 bytes: none at the moment.
  // The stream has not ended.
  void answer(uint32_t stream, uint32_t number, const std::string& path, uint64_t bytes);

  // Frees a slot whose bytes are not needed any more.
  void release(uint32_t slot);
  // Sets the number of durable slots of the stream.
  void progress(uint32_t stream, uint64_t durable);
  // All slots of that life outlive the node's memory.
  void held(uint32_t stream, uint32_t life);
  // Sets the number of files on local tiers that hold released slots of that life that are not in
  // the store.
  void set_spills(uint32_t stream, uint32_t life, uint32_t count);
  uint32_t spills(uint32_t stream, uint32_t life) const;
  // Says whether the sealed stream of that life is whole in memory.
  void keep(uint32_t stream, uint32_t life, Keeping keeping);
  Keeping keeping(uint32_t stream, uint32_t life) const {
    return keeping_of(memory_.streams()[stream], life);
  }
  // Ends the stream with that outcome. look() frees its slots that have not been released.
  void end(uint32_t stream, const Status& outcome);

  // Returns the number of backed slots without an owner. Looks at all slots.
  uint32_t free_slots() const;
  // Returns whether the area has no clients and no streams.
  bool is_idle() const;
  // Closes the area permanently if it is idle. Returns false if a client has joined meanwhile.
  bool close();
  // Waits until changes() is no longer `seen`, for `longest` at most.
  void wait(uint32_t seen, std::chrono::nanoseconds longest) const;
  uint32_t changes() const { return memory_.header().filled.rings(); }

 private:
  using Streams = std::vector<Owned<StreamState>>;
  Streams look_at_streams(News& news);
  void reap_streams(uint32_t client);
  void reap_slots(uint32_t client);
  bool grant(uint32_t begin, uint32_t end);
  bool has_gone(uint32_t client) const;

  StagingMemory& memory_;
  Mutex grant_mutex_;
  TicketLine line_ GUARDED_BY(grant_mutex_);
  // Lives that have been reported: for each stream and kind of event, and for each slot.
  struct Seen {
    uint32_t opened = 0;
    uint32_t sealed = 0;
    uint32_t abandoned = 0;
  };
  std::vector<Seen> streams_;
  std::vector<uint32_t> slots_;
};

}  // namespace gpusnap
