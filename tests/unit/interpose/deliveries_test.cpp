// The rules of what is delivered when, against a model of the device: two streams, copies and
// kernels that write host memory, host functions that change it, events, synchronisations and cuts.
// Every program of a few operations is recorded under every interleaving of its host thread with
// its streams, and replayed with host functions that run early, late, and halfway. In a replay the
// host and its functions must see what they saw in the recording, and memory at each cut must be
// the same.
#include "interpose/record/deliveries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <optional>
#include <random>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "interpose/services/mutation.h"
#include "tests/support/chooser.h"

namespace gpusnap {

namespace {
bool delivers_late = false;
}  // namespace
bool mutated(Mutation mutation) {
  return mutation == Mutation::kDeliverLate && delivers_late;
}

namespace {

constexpr unsigned kStreams = 2, kBlocks = 2, kCells = 2;
using Cells = std::array<uint64_t, kCells>;
using Clock = std::array<unsigned, kStreams>;

enum class Kind : uint8_t { kCopy, kKernel, kFunction, kEvent, kSync, kCut };
struct Op {
  Kind kind = Kind::kCut;
  uint8_t stream = 0;  // of an event: the one that waits for what the other one has queued
  uint8_t block = 0;
};
using Program = std::vector<Op>;

std::string text(const Program& program) {
  std::string all;
  for (const Op& op : program) {
    constexpr const char* kNames[] = {"copy", "kernel", "function", "event", "sync", "cut"};
    all += std::string(kNames[static_cast<int>(op.kind)]) + ' ' + "AB"[op.stream] +
           std::to_string(op.block) + "; ";
  }
  return all;
}

// Which operations happen before which, as the program ordered them; nullopt: two accesses to one
// block are not ordered, so the program has a race. Else, for each operation, the blocks that the
// host may look at after it.
std::optional<std::vector<unsigned>> known_blocks(const Program& program) {
  std::array<Clock, kStreams> streams{};
  Clock host{}, issued{};
  struct Access {
    uint8_t stream;
    unsigned at;
  };
  std::array<std::vector<Access>, kBlocks> accesses;
  std::vector<unsigned> known(program.size());
  const auto join = [](Clock& to, const Clock& from) {
    for (unsigned s = 0; s < kStreams; ++s) to[s] = std::max(to[s], from[s]);
  };
  for (size_t i = 0; i < program.size(); ++i) {
    const Op& op = program[i];
    Clock& mine = streams[op.stream];
    switch (op.kind) {
      case Kind::kEvent:
        join(mine, host);
        join(mine, streams[1 - op.stream]);
        continue;
      case Kind::kSync:
        join(host, mine);
        break;
      case Kind::kCut:
        // Recording it orders nothing for the program.
        continue;
      default:
        join(mine, host);
        for (const Access& access : accesses[op.block]) {
          if (mine[access.stream] < access.at) return std::nullopt;
        }
        mine[op.stream] = ++issued[op.stream];
        accesses[op.block].push_back({op.stream, issued[op.stream]});
        continue;
    }
    for (unsigned block = 0; block < kBlocks; ++block) {
      const bool all = std::ranges::all_of(
          accesses[block], [&](const Access& access) { return host[access.stream] >= access.at; });
      if (all) known[i] |= 1U << block;
    }
  }
  return known;
}

using test::Chooser;
// The same for one run by chance.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  unsigned choose(unsigned count) { return static_cast<unsigned>(random_() % count); }

 private:
  std::mt19937_64 random_;
};

struct Entry {
  enum Kind : uint8_t { kIssued, kSynced, kBegins, kEnds, kCut } kind = kIssued;
  size_t op = 0;
  uint8_t flags = 0;
  struct Delivered {
    DeliveryHead head;
    unsigned block = 0;
    std::vector<std::byte> bytes;
  };
  std::vector<Delivered> delivered{};
  // The cells that host code saw: in blocks that it may look at, or in a function.
  std::vector<uint64_t> seen{};
  std::array<Cells, kBlocks> memory{};  // at a cut
};

uint64_t address_of(const Cells& cells) {
  return reinterpret_cast<uint64_t>(cells.data());
}

// Host code reads and changes the blocks that it may look at.
void look(std::array<Cells, kBlocks>& memory, unsigned known, std::vector<uint64_t>& seen) {
  for (unsigned block = 0; block < kBlocks; ++block) {
    if ((known >> block & 1) == 0) continue;
    for (uint64_t& cell : memory[block]) {
      seen.push_back(cell);
      cell = cell * 7 + 2;
    }
  }
}

// A host function changes one cell after the other.
void step_function(Cells& cells, unsigned step, std::vector<uint64_t>& seen) {
  seen.push_back(cells[step]);
  cells[step] = cells[step] * 3 + 1;
}

// One recording: the host thread, the device's streams, and the journal.
template <class Choices>
class Recording {
 public:
  Recording(const Program& program, const std::vector<unsigned>& known, Choices& choices)
      : program_(program), known_(known), choices_(choices) {
    for (Cells& cells : memory_) host_memory_.add(address_of(cells), sizeof cells);
    host_memory_.is_settled();
    words_.add(nullptr, page_, 0);
  }

  // The journal. Empty: this interleaving only exchanges steps of another one that do not see each
  // other.
  const std::vector<Entry>& run() {
    constexpr unsigned kHost = kStreams;
    unsigned last = 0, could = 0;
    bool last_is_seen = true;
    while (next_ < program_.size() || !is_idle()) {
      unsigned can[kHost + 1], count = 0, now = 0;
      for (unsigned who = 0; who <= kHost; ++who) {
        if (!can_go(who)) continue;
        now |= 1U << who;
        const bool exchanged =
            who < last && (could >> who & 1) != 0 && !last_is_seen && !is_seen(who);
        if (!exchanged) can[count++] = who;
      }
      if (count == 0) {
        journal_.clear();
        return journal_;
      }
      last = can[count == 1 ? 0 : choices_.choose(count)];
      last_is_seen = is_seen(last);
      could = now;
      last == kHost ? host() : move(last);
    }
    cut(program_.size());
    return journal_;
  }

 private:
  struct Task {
    enum Kind : uint8_t { kWrite, kMark, kBegin, kFirst, kSecond, kEnd, kWait } kind;
    size_t op = 0;
    ProgressMark mark{};
    size_t until = 0;  // of a wait: how many tasks of the other stream
  };

  bool is_idle() const { return done_[0] == tasks_[0].size() && done_[1] == tasks_[1].size(); }
  bool can_go(unsigned who) const { return who == kStreams ? can_host() : can_move(who); }
  // Whether the next step of the stream or the host is one that journals what has arrived, or lets
  // somebody else go on.
  bool is_seen(unsigned who) const {
    if (who == kStreams) {
      const Kind kind = program_[next_].kind;
      return kind == Kind::kSync || kind == Kind::kCut;
    }
    const auto kind = tasks_[who][done_[who]].kind;
    return kind == Task::kBegin || kind == Task::kEnd;
  }
  bool can_move(unsigned stream) const {
    if (done_[stream] == tasks_[stream].size()) return false;
    const Task& task = tasks_[stream][done_[stream]];
    return task.kind != Task::kWait || done_[1 - stream] >= task.until;
  }
  bool can_host() const {
    if (next_ == program_.size()) return false;
    const Op& op = program_[next_];
    if (op.kind == Kind::kSync) return done_[op.stream] == tasks_[op.stream].size();
    return op.kind != Kind::kCut || is_idle();
  }

  void host() {
    const size_t at = next_++;
    const Op& op = program_[at];
    auto& tasks = tasks_[op.stream];
    switch (op.kind) {
      case Kind::kCopy: {
        ProgressWord* const word = words_.take(nullptr);
        const ProgressMark mark{word, ++word->issued};
        tasks.push_back({Task::kWrite, at});
        tasks.push_back({Task::kMark, at, mark});
        deliveries_.add_copy(plain_block(memory_[op.block].data(), sizeof(Cells)), mark, false,
                             nullptr);
        break;
      }
      case Kind::kKernel: {
        HostWrite* const write =
            deliveries_.begin_write(nullptr, reinterpret_cast<CUstream>(op.stream + 1UL), 0);
        tasks.push_back({Task::kWrite, at});
        tasks.push_back({Task::kMark, at, write->next_mark()});
        write->is_marked = true;
        WriteSet set;
        set.add(address_of(memory_[op.block]), sizeof(Cells));
        deliveries_.add_write(set, write);
        deliveries_.end_write(write);
        break;
      }
      case Kind::kFunction:
        for (const auto kind : {Task::kBegin, Task::kFirst, Task::kSecond, Task::kEnd}) {
          tasks.push_back({kind, at});
        }
        break;
      case Kind::kEvent:
        tasks.push_back({Task::kWait, at, {}, tasks_[1 - op.stream].size()});
        break;
      case Kind::kSync: {
        Entry& entry = append(Entry::kSynced, at, Deliveries::Moment::kCall);
        look(memory_, known_[at], entry.seen);
        return;
      }
      case Kind::kCut:
        cut(at);
        return;
    }
    journal_.push_back({Entry::kIssued, at});
  }

  void cut(size_t at) { append(Entry::kCut, at, Deliveries::Moment::kIdle).memory = memory_; }

  void move(unsigned stream) {
    const Task task = tasks_[stream][done_[stream]++];
    Cells* const cells = task.op < program_.size() ? &memory_[program_[task.op].block] : nullptr;
    switch (task.kind) {
      case Task::kWrite:
        for (uint64_t i = 0; i < kCells; ++i) (*cells)[i] = 100 * (task.op + 1) + i;
        break;
      case Task::kMark:
        task.mark.word->at->store(task.mark.value);
        break;
      case Task::kBegin:
        append(Entry::kBegins, task.op, Deliveries::Moment::kFunction);
        deliveries_.function_begins();
        break;
      case Task::kFirst:
      case Task::kSecond:
        step_function(*cells, task.kind == Task::kSecond ? 1 : 0, seen_[task.op]);
        break;
      case Task::kEnd:
        deliveries_.function_ends();
        journal_.push_back({Entry::kEnds, task.op});
        journal_.back().seen = seen_[task.op];
        break;
      case Task::kWait:
        break;
    }
  }

  Entry& append(Entry::Kind kind, size_t op, Deliveries::Moment moment) {
    const auto taken = deliveries_.collect(moment, false);
    EXPECT_EQ(taken.doubt, nullptr);
    Entry& entry = journal_.emplace_back(Entry{kind, op, taken.flags});
    for (const Delivery& delivery : deliveries_.deliveries()) {
      Entry::Delivered one{delivery.head};
      for (unsigned block = 0; block < kBlocks; ++block) {
        if (delivery.head.target == address_of(memory_[block])) one.block = block;
      }
      delivery.block.for_each_row(
          [&](auto row) { one.bytes.insert(one.bytes.end(), row.begin(), row.end()); });
      entry.delivered.push_back(std::move(one));
    }
    return entry;
  }

  const Program& program_;
  const std::vector<unsigned>& known_;
  Choices& choices_;
  std::array<std::atomic<uint32_t>, 16> page_{};
  std::array<Cells, kBlocks> memory_{};
  HostMemory host_memory_;
  ProgressWords words_;
  Deliveries deliveries_{host_memory_, words_};
  size_t next_ = 0;
  std::array<std::vector<Task>, kStreams> tasks_;
  std::array<size_t, kStreams> done_{};
  std::map<size_t, std::vector<uint64_t>> seen_;
  std::vector<Entry> journal_;
};

// Its replay. Empty: it is the same; else where it differs.
template <class Choices>
class Replay {
 public:
  Replay(const Program& program, const std::vector<unsigned>& known, Choices& choices)
      : program_(program), known_(known), choices_(choices) {
    for (Cells& cells : memory_) host_memory_.add(address_of(cells), sizeof cells);
  }

  std::string run(const std::vector<Entry>& journal) {
    for (const Entry& entry : journal) {
      deliver(entry);
      std::vector<uint64_t> seen;
      switch (entry.kind) {
        case Entry::kIssued:
          if (const Op& op = program_[entry.op]; op.kind == Kind::kCopy) {
            deliveries_.expect_copy(plain_block(memory_[op.block].data(), sizeof(Cells)));
          }
          break;
        case Entry::kSynced:
          look(memory_, known_[entry.op], seen);
          if (seen != entry.seen) return "the host sees other bytes";
          break;
        case Entry::kBegins:
          // How much of it runs before the host goes on.
          run_function(entry.op, choices_.choose(kCells + 1));
          break;
        case Entry::kEnds:
          run_function(entry.op, kCells);
          if (seen_[entry.op] != entry.seen) return "a host function sees other bytes";
          break;
        case Entry::kCut:
          if (memory_ != entry.memory) return "memory differs at the cut";
          break;
      }
    }
    return {};
  }

 private:
  void run_function(size_t op, unsigned until) {
    unsigned& step = steps_[op];
    while (step < until) step_function(memory_[program_[op].block], step++, seen_[op]);
  }

  void deliver(const Entry& entry) {
    for (const Entry::Delivered& one : entry.delivered) {
      if (one.head.kind == DeliveryHead::kCopy) {
        HostBlock block;
        ASSERT_TRUE(deliveries_.take_expected(one.head.target, one.bytes.size(), block));
        std::memcpy(block.start, one.bytes.data(), one.bytes.size());
        host_memory_.note_copied(reinterpret_cast<uint64_t>(block.start), one.bytes.size());
        continue;
      }
      const uint64_t address = address_of(memory_[one.block]);
      const auto mirror = host_memory_.mirror(address, one.head.offset, one.head.size);
      ASSERT_EQ(mirror.size(), one.bytes.size());
      if (!mirror.empty()) std::memcpy(mirror.data(), one.bytes.data(), mirror.size());
    }
    if ((entry.flags & kPartlyCaptured) == 0) return;
    for (const Entry::Delivered& one : entry.delivered) {
      if (one.head.kind == DeliveryHead::kMemory)
        host_memory_.settle(address_of(memory_[one.block]));
    }
  }

  const Program& program_;
  const std::vector<unsigned>& known_;
  Choices& choices_;
  std::array<Cells, kBlocks> memory_{};
  HostMemory host_memory_;
  ProgressWords words_;
  Deliveries deliveries_{host_memory_, words_};
  std::map<size_t, unsigned> steps_;
  std::map<size_t, std::vector<uint64_t>> seen_;
};

struct Explored {
  uint64_t programs = 0, runs = 0;
  std::string failure;
};

// All runs of one program.
void explore(const Program& program, Explored& explored) {
  const auto known = known_blocks(program);
  if (!known) return;
  ++explored.programs;
  Chooser recorded;
  do {
    const std::vector<Entry> journal = Recording(program, *known, recorded).run();
    if (journal.empty()) continue;
    Chooser replayed;
    do {
      ++explored.runs;
      const std::string wrong = Replay(program, *known, replayed).run(journal);
      if (!wrong.empty()) {
        explored.failure = wrong + ": " + text(program);
        return;
      }
    } while (replayed.next());
  } while (recorded.next());
}

std::vector<Op> alphabet(bool two_blocks) {
  std::vector<Op> all;
  for (uint8_t stream = 0; stream < kStreams; ++stream) {
    for (const Kind kind :
         {Kind::kCopy, Kind::kKernel, Kind::kFunction, Kind::kEvent, Kind::kSync}) {
      all.push_back({kind, stream, 0});
      const bool of_block = kind != Kind::kEvent && kind != Kind::kSync;
      if (of_block && two_blocks) all.push_back({kind, stream, 1});
    }
  }
  all.push_back({Kind::kCut});
  return all;
}

// Programs of that many operations which begin in the first stream with the first block, and in
// which a host function may meet what the device has written.
Explored explore_all(size_t length, bool two_blocks) {
  const std::vector<Op> ops = alphabet(two_blocks);
  Explored explored;
  std::vector<size_t> at(length, 0);
  for (bool more = true; more && explored.failure.empty();) {
    Program program;
    bool functions = false, writes = false;
    for (const size_t each : at) {
      program.push_back(ops[each]);
      functions = functions || ops[each].kind == Kind::kFunction;
      writes = writes || ops[each].kind == Kind::kCopy || ops[each].kind == Kind::kKernel;
    }
    if (functions && writes && program[0].stream == 0 && program[0].block == 0) {
      explore(program, explored);
    }
    size_t digit = 0;
    while (digit < length && ++at[digit] == ops.size()) at[digit++] = 0;
    more = digit < length;
  }
  return explored;
}

TEST(DeliveriesTest, EveryShortProgramIsReplayedAsRecorded) {
  for (size_t length = 2; length <= OPERATIONS; ++length) {
    const Explored explored = explore_all(length, true);
    EXPECT_EQ(explored.failure, "");
    EXPECT_GT(explored.programs, 0U);
    std::printf("%zu operations: %llu programs, %llu runs\n", length,
                static_cast<unsigned long long>(explored.programs),
                static_cast<unsigned long long>(explored.runs));
  }
}

TEST(DeliveriesTest, EveryProgramOnOneBlockIsReplayedAsRecorded) {
  const Explored explored = explore_all(OPERATIONS + 1, false);
  EXPECT_EQ(explored.failure, "");
  RecordProperty("programs", static_cast<int>(explored.programs));
  RecordProperty("runs", static_cast<int>(explored.runs));
}

// The order of which a program that public users run consists: two streams, an event, a copy, the
// function that changes its block, and a synchronisation with the other stream meanwhile.
const Program kMeanwhile = {{Kind::kCopy, 0, 0}, {Kind::kFunction, 0, 0}, {Kind::kSync, 1, 0}};

TEST(DeliveriesTest, ASynchronisationWithAnotherStreamDeliversNothingThatAFunctionChanges) {
  Explored explored;
  explore(kMeanwhile, explored);
  EXPECT_EQ(explored.failure, "");
  EXPECT_GT(explored.runs, 10U);
}

TEST(DeliveriesTest, TheExplorationFindsADeliveryThatIsLate) {
  delivers_late = true;
  Explored one;
  explore(kMeanwhile, one);
  const Explored all = explore_all(2, false);
  delivers_late = false;
  EXPECT_NE(one.failure, "");
  EXPECT_NE(all.failure, "");
}

TEST(DeliveriesTest, LongProgramsByChanceAreReplayedAsRecorded) {
  const std::vector<Op> ops = alphabet(true);
  unsigned tried = 0;
  for (uint64_t seed = 0; tried < 20'000; ++seed) {
    std::mt19937_64 random(seed);
    Program program(6 + random() % 30);
    // An operation that would make a race becomes a synchronisation.
    for (size_t i = 0; i < program.size(); ++i) {
      program[i] = ops[random() % ops.size()];
      const Program begun(program.begin(), program.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      if (!known_blocks(begun)) program[i] = {Kind::kSync, program[i].stream, 0};
    }
    const auto known = known_blocks(program);
    ASSERT_TRUE(known);
    ++tried;
    Dice dice(seed);
    const std::vector<Entry> journal = Recording(program, *known, dice).run();
    if (journal.empty()) continue;
    ASSERT_EQ(Replay(program, *known, dice).run(journal), "")
        << "seed " << seed << ": " << text(program);
  }
}

// ---- what the model has not

class DeliveriesOfGraphs : public ::testing::Test {
 protected:
  DeliveriesOfGraphs() {
    memory_.add(address_of(cells_), sizeof cells_);
    memory_.is_settled();
    words_.add(nullptr, page_, 0);
  }
  // A launch of a graph that may write the cells, on its way.
  void launch(bool tells) {
    HostWrite* const write = deliveries_.begin_write(nullptr, nullptr, 0);
    write->is_marked = write->in_graph = true;
    write->tells = tells;
    WriteSet set;
    set.add(address_of(cells_), sizeof cells_);
    deliveries_.add_write(set, write);
    deliveries_.end_write(write);
  }

  std::array<std::atomic<uint32_t>, 16> page_{};
  Cells cells_{};
  HostMemory memory_;
  ProgressWords words_;
  Deliveries deliveries_{memory_, words_};
};

TEST_F(DeliveriesOfGraphs, AFunctionOfAGraphSeesWhatNodesBeforeItHaveWritten) {
  launch(false);
  cells_[0] = 1;
  EXPECT_EQ(deliveries_.collect(Deliveries::Moment::kCall, true).flags, 0);
  EXPECT_EQ(deliveries_.collect(Deliveries::Moment::kFunction, false).flags, 0);
  EXPECT_EQ(deliveries_.collect(Deliveries::Moment::kGraphFunction, false).flags, kPartlyCaptured);
  EXPECT_EQ(deliveries_.deliveries().size(), 1U);
}

TEST_F(DeliveriesOfGraphs, WhatAFunctionChangesBesideAnotherOneIsInDoubt) {
  launch(false);
  deliveries_.function_begins();
  cells_[0] = 1;
  EXPECT_EQ(deliveries_.collect(Deliveries::Moment::kCall, false).doubt, nullptr);
  EXPECT_NE(deliveries_.collect(Deliveries::Moment::kGraphFunction, false).doubt, nullptr);
}

TEST_F(DeliveriesOfGraphs, EventsOfAGraphTellAboutItsNodes) {
  launch(true);
  cells_[0] = 1;
  EXPECT_EQ(deliveries_.collect(Deliveries::Moment::kCall, true).flags, kPartlyCaptured);
  deliveries_.function_begins();
  cells_[0] = 2;
  EXPECT_NE(deliveries_.collect(Deliveries::Moment::kCall, false).doubt, nullptr);
}

TEST_F(DeliveriesOfGraphs, ACopyWithinAGraphThatAFunctionMayLookAtIsInDoubt) {
  ProgressWord* const word = words_.take(nullptr);
  const ProgressMark mark{word, ++word->issued};
  Cells elsewhere{};
  deliveries_.add_copy(plain_block(elsewhere.data(), sizeof elsewhere), mark, true, nullptr);
  EXPECT_EQ(deliveries_.collect(Deliveries::Moment::kCall, true).doubt, nullptr);
  EXPECT_NE(deliveries_.collect(Deliveries::Moment::kGraphFunction, false).doubt, nullptr);
  word->at->store(mark.value);
  EXPECT_EQ(deliveries_.collect(Deliveries::Moment::kGraphFunction, false).doubt, nullptr);
  EXPECT_EQ(deliveries_.deliveries().size(), 1U);
}

// A stream that is never waited for: the changes by its writes are no longer told apart, and
// nothing grows without bound. Changes are then looked at while no host function runs.
TEST_F(DeliveriesOfGraphs, VeryManyWritesAreCounted) {
  HostWrite* write = nullptr;
  for (int i = 0; i < 2000; ++i) {
    write = deliveries_.begin_write(nullptr, nullptr, 0);
    write->is_marked = true;
    WriteSet set;
    set.add(address_of(cells_), sizeof cells_);
    deliveries_.add_write(set, write);
    deliveries_.end_write(write);
  }
  EXPECT_LT(write->written.size(), 1000U);
  cells_[1] = 1;
  EXPECT_EQ(deliveries_.collect(Deliveries::Moment::kCall, true).flags, kPartlyCaptured);
}

// ---- what arrives while ranges are looked at

// Memory that the device has written, on a page of its own. The first look at it is the moment at
// which the device comes to a later mark.
class LateArrival {
 public:
  explicit LateArrival(ProgressWord* later)
      : size_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))), later_(later) {
    page_ = static_cast<uint64_t*>(
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    now = this;
    struct sigaction action {};
    action.sa_handler = [](int) { now->arrive(); };
    ::sigaction(SIGSEGV, &action, &before_);
  }
  LateArrival(const LateArrival&) = delete;
  LateArrival& operator=(const LateArrival&) = delete;
  ~LateArrival() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(page_, size_);
  }
  void wait_for_look() {
    page_[0] = 1;
    ::mprotect(page_, size_, PROT_NONE);
  }
  uint64_t address() const { return reinterpret_cast<uint64_t>(page_); }
  uint64_t size() const { return size_; }
  bool has_arrived() const { return arrived_ != 0; }

 private:
  void arrive() {
    ::mprotect(page_, size_, PROT_READ | PROT_WRITE);
    later_->at->store(later_->issued);
    arrived_ = 1;
  }

  static inline LateArrival* now = nullptr;
  const size_t size_;
  uint64_t* page_ = nullptr;
  ProgressWord* const later_;
  struct sigaction before_ {};
  volatile std::sig_atomic_t arrived_ = 0;
};

TEST(DeliveriesTest, WhatArrivesWhileOtherRangesAreLookedAtIsNotForgotten) {
  std::array<std::atomic<uint32_t>, 2> words_memory{};
  Cells cells{};
  HostMemory memory;
  ProgressWords words;
  words.add(nullptr, words_memory, 0);
  Deliveries deliveries(memory, words);
  const auto write = [&](uintptr_t stream, uint64_t address, uint64_t size) {
    HostWrite* const made = deliveries.begin_write(nullptr, reinterpret_cast<CUstream>(stream), 0);
    made->is_marked = true;
    WriteSet set;
    set.add(address, size);
    deliveries.add_write(set, made);
    deliveries.end_write(made);
    return made->word;
  };
  memory.add(address_of(cells), sizeof cells);
  ProgressWord* const later = write(1, address_of(cells), sizeof cells);
  LateArrival page(later);
  memory.add(page.address(), page.size());
  ProgressWord* const earlier = write(2, page.address(), page.size());
  earlier->at->store(earlier->issued);
  page.wait_for_look();
  cells[0] = 1;

  EXPECT_EQ(deliveries.collect(Deliveries::Moment::kCall, true).flags, kPartlyCaptured);
  ASSERT_TRUE(page.has_arrived());
  ASSERT_EQ(deliveries.deliveries().size(), 1U);
  EXPECT_EQ(deliveries.deliveries().front().head.target, page.address());
  EXPECT_EQ(deliveries.collect(Deliveries::Moment::kCall, true).flags, kPartlyCaptured);
  ASSERT_EQ(deliveries.deliveries().size(), 1U);
  EXPECT_EQ(deliveries.deliveries().front().head.target, address_of(cells));
}

// ---- the words

TEST(ProgressWordsTest, AWordIsUsedAgainOnceItsLastPlaceIsReached) {
  std::array<std::atomic<uint32_t>, 1> page{};
  ProgressWords words;
  const auto context = reinterpret_cast<CUcontext>(8);
  EXPECT_EQ(words.take(context), nullptr);
  words.add(context, page, 0x1000);
  ProgressWord* const word = words.take(context);
  ASSERT_NE(word, nullptr);
  EXPECT_EQ(words.take(context), nullptr);
  const ProgressMark mark{word, ++word->issued};
  words.give_back(word);
  EXPECT_EQ(words.take(context), nullptr);
  page[0] = mark.value;
  EXPECT_EQ(words.take(context), word);
  words.give_back_unused({word, ++word->issued});
  EXPECT_EQ(words.take(context), word);
  words.forget_context(context);
  words.give_back(word);
  EXPECT_EQ(words.take(context), nullptr);
}

TEST(ProgressWordsTest, ValuesMayWrap) {
  std::array<std::atomic<uint32_t>, 1> page{UINT32_MAX};
  ProgressWord word{page.data(), 0, nullptr, UINT32_MAX};
  EXPECT_TRUE(word.has_reached(UINT32_MAX));
  EXPECT_FALSE(word.has_reached(0));
  page[0] = 1;
  EXPECT_TRUE(word.has_reached(UINT32_MAX));
  EXPECT_TRUE(word.has_reached(0));
}

}  // namespace
}  // namespace gpusnap
