#include "interpose/nondeterminism/value_log.h"

#include <cstring>
#include <new>

#include "interpose/hook/hook.h"

namespace gpusnap::nondeterminism {
namespace {

constinit std::atomic<bool> is_restored{false};
constinit std::atomic<bool> is_noted{false};
constinit std::atomic<bool> is_either{false};
constinit std::atomic<bool> missed_any{false};

alignas(16) constinit std::byte pool[kPoolBytes] = {};
constinit std::atomic<size_t> pool_used{0};
constinit size_t pool_end = kPoolBytes;

constinit Thread threads[kMostThreads];
constinit std::atomic<size_t> threads_used{0};
constinit size_t given_threads = 0;  // the leading ones of these

// By which number of fork each one of this process and those before it came about that had not yet
// become another program: "+0+2".
constinit char forked_as[40] = {};

struct OwnThread {
  Thread* thread = nullptr;
  bool looking = false;  // for it, just now
  bool looked = false;
  bool is_the_programs = false;  // known when it has looked
  bool inside = false;           // its series
  uint32_t forks = 0;            // that it has made
};
[[gnu::tls_model("initial-exec")]] constinit thread_local OwnThread own_thread;

// Null: there is no more.
void* take_room(size_t bytes) {
  bytes = (bytes + 15) & ~size_t{15};
  size_t used = pool_used.load(std::memory_order_relaxed);
  do {
    if (used > pool_end || bytes > pool_end - used) return nullptr;
  } while (!pool_used.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return pool + used;
}

Thread* new_thread(const char* path) {
  size_t number = threads_used.load(std::memory_order_relaxed);
  do {
    if (number == kMostThreads) return nullptr;
  } while (!threads_used.compare_exchange_weak(number, number + 1, std::memory_order_relaxed));
  Thread& thread = threads[number];
  std::strcpy(thread.path, path);
  thread.ready.store(true, std::memory_order_release);
  return &thread;
}

// A restored run that finds no room misses readings: with so many threads, or so many readings,
// they were not noted in the recorded run either.
template <class T>
T* or_missed(T* room) {
  if (room == nullptr && restored()) missed_any.store(true, std::memory_order_relaxed);
  return room;
}

// Null: there are too many.
Thread* find_thread(const ThreadPath& path) {
  char text[kThreadPathText];
  const size_t length = std::strlen(text_of(path, text));
  const size_t more = std::strlen(forked_as);
  if (length + more >= kThreadPathText) return nullptr;
  std::memcpy(text + length, forked_as, more + 1);
  for (size_t i = 0; i < given_threads; ++i) {
    const bool same = std::strcmp(threads[i].path, text) == 0;
    if (same && !threads[i].taken.exchange(true, std::memory_order_relaxed)) return &threads[i];
  }
  if (!is_noted.load(std::memory_order_relaxed)) return nullptr;
  return or_missed(new_thread(text));
}

// The calling thread, of which all is known that there is.
OwnThread& known_own_thread() {
  OwnThread& own = own_thread;
  if (!own.looked && !own.looking) [[unlikely]] {
    own.looking = true;  // a signal's handler does not look, too
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const ThreadPath& path = own_thread_path();
    own.is_the_programs = path.known;
    if (path.known) own.thread = find_thread(path);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    own.looked = true;
    own.looking = false;
  }
  return own;
}

ValueLog* own_series(Source source) {
  const OwnThread& own = known_own_thread();
  if (own.thread == nullptr) return nullptr;
  std::atomic<ValueLog*>& place = own.thread->series[static_cast<size_t>(source)];
  ValueLog* series = place.load(std::memory_order_relaxed);
  if (series == nullptr) [[unlikely]] {
    if (!is_noted.load(std::memory_order_relaxed)) return nullptr;
    void* const room = or_missed(take_room(sizeof(ValueLog)));
    if (room == nullptr) return nullptr;
    series = new (room) ValueLog;
    place.store(series, std::memory_order_release);
  }
  return series;
}

uint64_t folded(int64_t difference) {
  return static_cast<uint64_t>(difference) << 1 ^ static_cast<uint64_t>(difference >> 63);
}

int64_t unfolded(uint64_t number) {
  return static_cast<int64_t>(number >> 1 ^ (~(number & 1) + 1));
}

void add_given(const Given& given) {
  Thread* thread = nullptr;
  for (size_t i = 0; i < threads_used && thread == nullptr; ++i) {
    if (std::strcmp(threads[i].path, given.thread) == 0) thread = &threads[i];
  }
  if (thread == nullptr) thread = new_thread(given.thread);
  void* const room = thread == nullptr ? nullptr : take_room(sizeof(ValueLog));
  if (room == nullptr) return;
  thread->series[static_cast<size_t>(given.source)].store(new (room) ValueLog(given));
}

}  // namespace

// Differences are those of numbers without a sign: there are no others that a file cannot have.
size_t put_number(int64_t value, int64_t previous, std::byte (&to)[kMostNumberBytes]) {
  uint64_t left =
      folded(static_cast<int64_t>(static_cast<uint64_t>(value) - static_cast<uint64_t>(previous)));
  size_t size = 0;
  for (; left >= 0x80; left >>= 7) to[size++] = static_cast<std::byte>(left | 0x80);
  to[size++] = static_cast<std::byte>(left);
  return size;
}

size_t get_number(const std::byte* from, size_t size, int64_t previous, int64_t& value) {
  uint64_t number = 0;
  for (size_t i = 0; i < size && i < kMostNumberBytes; ++i) {
    const auto byte = static_cast<uint64_t>(from[i]);
    number |= (byte & 0x7f) << (7 * i);
    if ((byte & 0x80) != 0) continue;
    value = static_cast<int64_t>(static_cast<uint64_t>(previous) +
                                 static_cast<uint64_t>(unfolded(number)));
    return i + 1;
  }
  return 0;
}

bool are_numbers(const std::byte* bytes, size_t size, int64_t& last) {
  last = 0;
  for (size_t at = 0; at < size;) {
    const size_t used = get_number(bytes + at, size - at, last, last);
    if (used == 0) return false;
    at += used;
  }
  return true;
}

ValueLog::ValueLog(const Given& given)
    : given_(given.bytes), given_size_(given.size), ended_(given.ended) {}

// There is nothing left to take.
void ValueLog::note_end() const {
  if (given_ != nullptr && ended_.load(std::memory_order_relaxed)) [[unlikely]]
    missed_any.store(true, std::memory_order_relaxed);
}

void ValueLog::commit(const State& next) {
  const uint8_t other = current_.load(std::memory_order_relaxed) ^ 1;
  states_[other] = next;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  current_.store(other, std::memory_order_relaxed);
  if (next.position > given_size_) {
    size_.store(next.position - given_size_, std::memory_order_release);
  }
}

bool ValueLog::take(int64_t& value) {
  State next = now();
  if (next.position >= given_size_) {
    note_end();
    return false;
  }
  int64_t number = 0;
  const size_t used =
      get_number(given_ + next.position, given_size_ - next.position, next.previous, number);
  next.position = used == 0 ? given_size_ : next.position + used;
  if (used != 0) next.previous = value = number;
  commit(next);
  return used != 0;
}

void ValueLog::add(int64_t value) {
  State next = now();
  std::byte bytes[kMostNumberBytes];
  const size_t size = put_number(value, next.previous, bytes);
  next.previous = value;
  put(next, bytes, size);
  commit(next);
}

size_t ValueLog::take_bytes(void* to, size_t size) {
  State next = now();
  const size_t left = next.position < given_size_ ? given_size_ - next.position : 0;
  const size_t taken = size < left ? size : left;
  if (taken != 0) {
    std::memcpy(to, given_ + next.position, taken);
    next.position += taken;
    commit(next);
  }
  if (taken < size) note_end();
  return taken;
}

void ValueLog::add_bytes(const void* from, size_t size) {
  State next = now();
  put(next, static_cast<const std::byte*>(from), size);
  commit(next);
}

// All of it or, where there is no room, none, and none from then on.
void ValueLog::put(State& next, const std::byte* bytes, size_t size) {
  if (size == 0 || ended_.load(std::memory_order_relaxed) ||
      !is_noted.load(std::memory_order_relaxed)) {
    return;
  }
  // Nothing is added before all of the checkpoint's was taken.
  const uint64_t begin = next.position < given_size_ ? given_size_ : next.position;
  const bool fits = size <= kMostBytes && begin + size <= kMostBytes;
  if (fits && put_piece(begin - given_size_, bytes, size)) {
    next.position = begin + size;
  } else {
    ended_.store(true, std::memory_order_release);
  }
}

// False: there is no room.
bool ValueLog::put_piece(uint64_t added, const std::byte* bytes, size_t size) {
  while (size != 0) {
    Block* const block = block_at(added);
    if (block == nullptr) return false;
    const uint64_t used = added - block->begin, room = block->room - used;
    const size_t part = size < room ? size : room;
    std::memcpy(block->bytes() + used, bytes, part);
    added += part;
    bytes += part;
    size -= part;
  }
  return true;
}

// The block that the next byte after so many goes to. Null: there is no room for another one.
ValueLog::Block* ValueLog::block_at(uint64_t added) {
  Block* block = last_;
  // A call that a handler has jumped out of may have gone further.
  if (added < block->begin) [[unlikely]]
    block = &first_.block;
  while (added - block->begin >= block->room) {
    if (block->next == nullptr) block->next = new_block(*block);
    if (block->next == nullptr) return nullptr;
    block = block->next;
  }
  return last_ = block;
}

ValueLog::Block* ValueLog::new_block(const Block& before) {
  auto* const block = static_cast<Block*>(take_room(sizeof(Block) + kRoom));
  if (block == nullptr) return nullptr;
  block->begin = before.begin + before.room;
  block->room = kRoom;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // before it can be found
  return block;
}

Own::Own(Source source) {
  if (!is_followed() || Guard::held() || own_thread.inside) return;
  own_thread.inside = true;
  // A signal's handler finds it so.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  series_ = own_series(source);
  if (series_ == nullptr) own_thread.inside = false;
}

Own::~Own() {
  if (series_ == nullptr) return;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  own_thread.inside = false;
}

void leave_series() {
  own_thread.inside = false;
  own_thread.looking = false;
}

void begin(const Given* given, size_t count) {
  size_t given_bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    add_given(given[i]);
    given_bytes += given[i].size;
  }
  // A checkpoint of this process has those, too.
  pool_end = kPoolBytes - (given_bytes < kPoolBytes ? given_bytes : kPoolBytes);
  given_threads = threads_used;
  is_restored = count != 0;
  is_noted = true;
  is_either = true;
}

bool restored() {
  return is_restored.load(std::memory_order_relaxed);
}

void stop_noting() {
  is_noted.store(false, std::memory_order_relaxed);
  if (!restored()) is_either.store(false, std::memory_order_relaxed);
}

void stop() {
  is_noted.store(false, std::memory_order_relaxed);
  is_either.store(false, std::memory_order_relaxed);
}

void stop_in_this_thread() {
  known_own_thread().thread = nullptr;
}

void count_fork() {
  ++own_thread.forks;
}

void begin_again_in_child() {
  const size_t length = std::strlen(forked_as);
  if (length + 12 > sizeof forked_as) return stop();
  forked_as[length] = '+';
  *append_number(forked_as + length + 1, own_thread.forks) = '\0';
  own_thread = {};
}

bool is_the_program() {
  return !Guard::held() && known_own_thread().is_the_programs;
}

bool is_followed() {
  return is_either.load(std::memory_order_relaxed);
}

bool has_missed_any() {
  return missed_any.load(std::memory_order_relaxed);
}

size_t thread_count() {
  return threads_used.load(std::memory_order_acquire);
}

const Thread& thread(size_t number) {
  return threads[number];
}

}  // namespace gpusnap::nondeterminism
