// The staging area as the backend sees it: which streams there are, what has been handed over, who
// has gone. Slots that come free go to clients in the order in which they asked (turn.h). It keeps
// nothing that is not in the shared memory but what it has reported already, so
// a server that takes over another's area is told of everything again.
//
// Not thread-safe, but for release(), progress(), held(), set_spills(), keep() and end().
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
  // The memory's only server from now on.
  explicit StagingServer(StagingMemory& memory);
  StagingServer(const StagingServer&) = delete;
  StagingServer& operator=(const StagingServer&) = delete;

  struct Arrival {
    uint32_t slot = 0;
    uint32_t stream = 0;
    uint64_t sequence = 0;
  };
  // Events since the last look. In this order: a stream is opened before it has slots, and all its
  // slots have arrived before it is sealed.
  struct News {
    std::vector<uint32_t> opened;     // streams
    std::vector<Arrival> arrived;     // by stream and sequence
    std::vector<uint32_t> sealed;     // streams
    std::vector<uint32_t> abandoned;  // streams; to be ended
  };
  News look();
  // Finds clients that have gone, and what they had. Asks the system about each of them.
  void reap();

  // Threads of clients in other processes that wait for a device now: the programs' own I/O. Looks
  // at about 64 threads in all, and one of each client at least.
  uint32_t threads_waiting_for_devices() const;

  StreamKind kind(uint32_t stream) const { return memory_.streams()[stream].kind; }
  std::string_view text(uint32_t stream) const;  // of the stream
  // That were handed over so far, or, of a sealed one, in all.
  uint64_t slots(uint32_t stream) const { return memory_.streams()[stream].slots; }
  uint64_t durable(uint32_t stream) const { return memory_.streams()[stream].durable; }
  uint32_t life(uint32_t stream) const { return memory_.streams()[stream].word.load().life; }
  // Whether its client has gone.
  bool is_orphan(uint32_t stream) const {
    return memory_.streams()[stream].word.load().owner == kNoClient;
  }
  // Whether its client has left it to the server, or has gone.
  bool is_left(uint32_t stream) const {
    const Owned<StreamState> word = memory_.streams()[stream].word.load();
    return word.state == StreamState::kKept || word.owner == kNoClient;
  }
  // Whether its client runs now, which is_orphan() tells only once reap() has looked: another run
  // may have the job as soon as it does not. Asks the system. Any thread.
  bool has_running_client(uint32_t stream) const;
  // As long as the slot has not been released.
  std::span<const std::byte> bytes(uint32_t slot) const;
  std::span<const Piece> pieces(uint32_t slot) const;

  // Whether they are a DirectChunk.
  bool is_direct(uint32_t slot) const { return memory_.slots()[slot].direct == 1; }
  // Whether the stream's client waits for a file that it can write directly.
  bool is_asked_for_file(uint32_t stream) const;
  // Answers with such a file and its room in bytes, or with none at the moment (0 bytes). The
  // stream has not ended.
  void answer(uint32_t stream, uint32_t number, const std::string& path, uint64_t bytes);

  // The slot's bytes are not needed any more.
  void release(uint32_t slot);
  // So many of the stream's slots are durable.
  void progress(uint32_t stream, uint64_t durable);
  // All that was handed over of that life outlives the node's memory.
  void held(uint32_t stream, uint32_t life);
  // So many files on local tiers have slots of that life that are released and not in the store.
  void set_spills(uint32_t stream, uint32_t life, uint32_t count);
  uint32_t spills(uint32_t stream, uint32_t life) const;
  // Whether the sealed stream of that life is whole in memory.
  void keep(uint32_t stream, uint32_t life, Keeping keeping);
  Keeping keeping(uint32_t stream, uint32_t life) const {
    return keeping_of(memory_.streams()[stream], life);
  }
  // The server is through with the stream. Slots of it that were handed over and have not been
  // released are released by look().
  void end(uint32_t stream, const Status& outcome);

  // Backed slots that nobody has. Looks at all.
  uint32_t free_slots() const;
  // Nobody uses the area, nothing is left in it.
  bool is_idle() const;
  // Closes the area for good where it is idle: false where somebody has come meanwhile.
  bool close();
  // Until something may have happened.
  void wait(uint32_t seen, std::chrono::nanoseconds longest) const;
  uint32_t changes() const { return memory_.header().filled.rings(); }

 private:
  using Streams = std::vector<Owned<StreamState>>;
  Streams look_at_streams(News& news);
  void look_at_slot(uint32_t slot, const Streams& streams, News& news);
  void reap_streams(uint32_t client);
  void reap_slots(uint32_t client);
  bool grant(uint32_t begin, uint32_t end);
  bool has_gone(uint32_t client) const;

  StagingMemory& memory_;
  Mutex grant_mutex_;  // slots are granted by one thread at a time
  TicketLine line_ GUARDED_BY(grant_mutex_);
  // Lives that have been reported: of each stream, for each kind of event; of each slot.
  struct Seen {
    uint32_t opened = 0;
    uint32_t sealed = 0;
    uint32_t abandoned = 0;
  };
  std::vector<Seen> streams_;
  std::vector<uint32_t> slots_;
};

}  // namespace gpusnap
