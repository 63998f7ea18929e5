// Values that the program has read of the world outside it, which no two runs find the same:
// clocks, random bytes, and which checkpoints of its own there were. Programs seed from these, so a
// replay gives them the same again.
//
// Each thread of the program has a series of values for each source, in the order in which it asked
// for them. Noted from the start of the process, whether it is ever followed or not, since programs
// seed before they use CUDA: in memory of our own that is touched as far as it is used. A restored
// process has the values of its checkpoint from its first line on; after them a thread gets
// real ones, which are noted in their turn.
//
// Not counted is what the driver, MPI and we ask for, and what libraries ask for before this one
// has been initialised. A series ends where it would take more than kMostBytes, or there is no more
// room for any: from there on it is real, in the recording and in a replay.
//
// A child that the program forks is another process: what its thread asks for from there on has
// series of its own, "main+0" those of the first one. So either of them may be the one that uses
// CUDA, and what neither has asked for in the recorded run is real. Not so after vfork, whose
// child is its parent until it becomes another program.
//
// Only the calling thread adds to its series and takes from them, without a lock and without
// allocating; who collects them may run beside that. In a signal's handler, too: where it has
// interrupted just that, what it asks for is not followed. The handler may also jump out of the
// interrupted call at any instruction: that call then has happened as a whole or not at all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "interpose/threads/thread_path.h"

namespace gpusnap::nondeterminism {

// Numbers that are in checkpoints.
enum class Source : uint8_t {
  kRandom = 0,         // bytes, from wherever
  kTime = 1,           // time(): seconds
  kTimeOfDay = 2,      // gettimeofday(): microseconds
  kProcessorTime = 3,  // clock()
  kClock = 4,          // and the clock's number: clock_gettime(), in nanoseconds
  kHistory = 12,       // gpusnap_same_as_recorded()
};
inline constexpr unsigned kClocks = 8;  // CLOCK_REALTIME to CLOCK_BOOTTIME
inline constexpr size_t kSources = static_cast<size_t>(Source::kHistory) + 1;
static_assert(static_cast<size_t>(Source::kHistory) ==
              static_cast<size_t>(Source::kClock) + kClocks);
constexpr Source clock_source(unsigned clock) {
  return static_cast<Source>(static_cast<unsigned>(Source::kClock) + clock);
}

inline constexpr uint64_t kMostBytes = 1 << 20;  // of one series
inline constexpr size_t kPoolBytes = 16 << 20;   // of all, with those that are given
inline constexpr size_t kMostThreads = 2048;

// A number as the difference to the one before: 7 bits a byte, the lowest ones first, its sign in
// the lowest bit.
inline constexpr size_t kMostNumberBytes = 10;
size_t put_number(int64_t value, int64_t previous, std::byte (&to)[kMostNumberBytes]);
// How many bytes it took; 0: there is no whole number.
size_t get_number(const std::byte* from, size_t size, int64_t previous, int64_t& value);
// Whether bytes that come from a file are whole numbers; the last one.
bool are_numbers(const std::byte* bytes, size_t size, int64_t& last);

// Values of a checkpoint. All of it lives for ever.
struct Given {
  const char* thread = nullptr;
  Source source = Source::kRandom;
  bool ended = false;  // there was more that was not noted
  const std::byte* bytes = nullptr;
  size_t size = 0;
};

class ValueLog {
 public:
  ValueLog() = default;
  explicit ValueLog(const Given& given);
  // The next number of the checkpoint. False: there is none left.
  bool take(int64_t& value);
  void add(int64_t value);
  // The next bytes of it, as many as there are.
  size_t take_bytes(void* to, size_t size);
  void add_bytes(const void* from, size_t size);
  // The last number, taken or added.
  int64_t previous() const { return now().previous; }

  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Any thread: all of it so far, in pieces: those of the checkpoint, then the others.
  template <class Visit>
  void for_each_piece(Visit&& visit) const {
    if (given_size_ != 0) visit(given_, given_size_);
    uint64_t left = size_.load(std::memory_order_acquire);
    for (const Block* block = &first_.block; left != 0; block = block->next) {
      const uint64_t now = left < block->room ? left : block->room;
      visit(block->bytes(), static_cast<size_t>(now));
      left -= now;
    }
  }

  // The lag of a clock that counts anew in each process: known with the first number that is added.
  int64_t offset = 0;
  bool has_offset = false;

 private:
  // Its bytes are behind it.
  struct Block {
    Block* next = nullptr;
    uint64_t begin = 0;  // bytes that were added before its own
    uint64_t room = 0;
    const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(this + 1); }
    std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
  };
  static constexpr size_t kFirstRoom = 128, kRoom = 4096 - sizeof(Block);
  struct First {
    Block block{nullptr, 0, kFirstRoom};
    std::byte bytes[kFirstRoom];
  };
  // Where the next call goes on.
  struct State {
    uint64_t position = 0;  // bytes of given_ that were taken, then those added
    int64_t previous = 0;
  };
  const State& now() const { return states_[current_.load(std::memory_order_relaxed)]; }
  void commit(const State& next);
  Block* block_at(uint64_t added);
  static Block* new_block(const Block& before);
  void put(State& next, const std::byte* bytes, size_t size);
  bool put_piece(uint64_t added, const std::byte* bytes, size_t size);
  void note_end() const;

  const std::byte* given_ = nullptr;  // null: nothing was, nor that it had ended
  size_t given_size_ = 0;
  std::atomic<bool> ended_{false};
  First first_;
  // A call writes the one that is not current and then makes it so: a handler that jumps out of it
  // leaves a whole one.
  State states_[2];
  std::atomic<uint8_t> current_{0};
  Block* last_ = &first_.block;  // the block of the last byte, or a later one that a call has left
  std::atomic<uint64_t> size_{0};  // bytes that were added, for the thread that collects
};

// The calling thread's series of that source while it exists; null where the call is not to be
// followed.
class Own {
 public:
  explicit Own(Source source);
  ~Own();
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;
  ValueLog* operator->() const { return series_; }
  ValueLog& operator*() const { return *series_; }
  explicit operator bool() const { return series_ != nullptr; }

 private:
  ValueLog* series_ = nullptr;
};

// The calling thread does not return to where it may have been within one.
void leave_series();

// From now on series are noted. `given`: what the checkpoint has, that is restored.
void begin(const Given* given, size_t count);
// Whether there is such a checkpoint.
bool restored();
// Nothing more is noted; what was given is still taken.
void stop_noting();
// Every call is a real one.
void stop();
// The calls of the calling thread are real ones.
void stop_in_this_thread();
// The process was forked, by the calling thread.
void begin_again_in_child();
void count_fork();
// Whether it is the program that asks for something now: outside of any hooked call, on a thread of
// its own. Whether it is followed or not.
bool is_the_program();
bool is_followed();
// Whether a thread has asked for more than a checkpoint has, since there was too much of it.
bool has_missed_any();

// All series so far, beside threads that go on, and those that were given and nobody has asked for
// yet. `visit(path of the thread, source, series)`.
struct Thread {
  char path[kThreadPathText] = {};  // behind the thread's, how its process was forked
  std::atomic<bool> ready{false};
  std::atomic<bool> taken{false};  // by the thread of that path
  std::atomic<ValueLog*> series[kSources] = {};
};
size_t thread_count();
const Thread& thread(size_t number);
template <class Visit>
void for_each_series(Visit&& visit) {
  for (size_t i = 0; i < thread_count(); ++i) {
    const Thread& one = thread(i);
    if (!one.ready.load(std::memory_order_acquire)) continue;
    for (size_t source = 0; source < kSources; ++source) {
      const ValueLog* series = one.series[source].load(std::memory_order_acquire);
      if (series != nullptr) visit(one.path, static_cast<Source>(source), *series);
    }
  }
}

}  // namespace gpusnap::nondeterminism
