// Device memory in MPI calls: all that is sent comes from the device, and almost all that is
// received goes there, by every call that can do so. The program needs an MPI that takes device
// memory, or else libcuda_aware.so (aware/cuda_aware.cpp) in front of an MPI that does not.
//
// Received words lie in memory that only MPI writes, for several steps, before kernels stir them
// into the cells. The host looks at some of them, too: the length of messages and the number of
// rounds of a step depend on them. The order in which messages arrive makes no difference. A rank
// alone is its own neighbour.
#include "tests/apps/mpi/aware.h"

#include <array>

#include "aware_ptx.h"
#include "tests/apps/mpi/ranks.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr int kReported = 5;  // every so many steps
constexpr int kShown = 40;
constexpr unsigned kShift = 77;  // words from the start of memory to what is used of it

unsigned number(int value) {
  return static_cast<unsigned>(value);
}

class Gpu {
 public:
  explicit Gpu(int rank) : cells_(at_start(rank)), sum_(std::vector<unsigned>(kTable)) {}

  unsigned* table() const { return reinterpret_cast<unsigned*>(table_); }
  std::vector<unsigned> cells() const { return cells_.download(); }
  void wait() { stream_.wait(); }

  void advance(unsigned step) { run(advance_, kCells, cells_.pointer(), step); }
  void pack(unsigned* words, unsigned count, unsigned salt) {
    run(pack_, count, cells(cells_), words, count, salt);
  }
  void absorb(const unsigned* words, unsigned count) {
    run(absorb_, kCells, cells_.pointer(), words, count);
  }
  void paint(unsigned* plate, unsigned salt) {
    run(paint_, kRows * kPainted, plate, cells(cells_), salt);
  }
  void write_table(unsigned salt) { run(write_table_, kTable, cells(cells_), salt); }
  void absorb_table() { run(absorb_table_, kCells, cells_.pointer()); }
  void add(const unsigned* words, unsigned count, unsigned weight) {
    run(add_, count, sum_.pointer(), words, count, weight);
  }
  void absorb_sum() { absorb(sum_.pointer(), kTable); }

  // Reads device memory as the host sees it.
  static unsigned look(const unsigned* word) {
    unsigned value = 0;
    CHECK(cuMemcpyDtoH_v2(&value, reinterpret_cast<CUdeviceptr>(word), sizeof value));
    return value;
  }

 private:
  static const unsigned* cells(const Buffer<unsigned>& cells) { return cells.pointer(); }
  static std::vector<unsigned> at_start(int rank) {
    Random random(static_cast<uint64_t>(rank) + 1);
    std::vector<unsigned> cells(kCells);
    for (unsigned& cell : cells) cell = random.next();
    return cells;
  }
  template <class... Arguments>
  void run(CUfunction kernel, unsigned threads, Arguments... arguments) {
    const Shape shape{.blocks = (threads + kThreads - 1) / kThreads, .threads = kThreads};
    launch(kernel, shape, stream_, arguments...);
  }

  Module module_{kAwarePtx};
  CUfunction advance_ = module_.function("advance");
  CUfunction pack_ = module_.function("pack");
  CUfunction absorb_ = module_.function("absorb");
  CUfunction add_ = module_.function("add");
  CUfunction paint_ = module_.function("paint");
  CUfunction write_table_ = module_.function("write_table");
  CUfunction absorb_table_ = module_.function("absorb_table");
  CUdeviceptr table_ = module_.variable("table", kTable * sizeof(unsigned));
  Stream stream_;
  Buffer<unsigned> cells_, sum_;
};

// Device memory of which the words from kShift on are used.
class Words {
 public:
  explicit Words(unsigned count) : memory_(std::vector<unsigned>(kShift + count, 0xabcdu)) {}
  unsigned* at(unsigned word) const { return memory_.pointer() + kShift + word; }
  std::vector<unsigned> all() const { return memory_.download(); }

 private:
  Buffer<unsigned> memory_;
};

// Requests that are begun together, and wait in one of eight ways.
template <size_t count>
class Requests {
 public:
  MPI_Request* at(size_t index) { return &requests_[index]; }
  const MPI_Status& status(size_t index) const { return statuses_[index]; }

  void wait(int way) {
    switch (way % 8) {
      case 0:
        return wait_for_each();
      case 1:
        return check(MPI_Waitall(kCount, requests_.data(), statuses_.data()));
      case 2:
        return wait_for_any();
      case 3:
        return wait_for_some();
      case 4:
        return test_each();
      case 5:
        return test_all();
      case 6:
        return test_any();
      default:
        return test_some();
    }
  }

 private:
  static constexpr int kCount = static_cast<int>(count);
  static void check(int result) {
    if (result != MPI_SUCCESS) fail("MPI", "a request failed");
  }
  // Until `look` gives something other than 0.
  template <class Look>
  static int poll(Look look) {
    for (;;) {
      int found = 0;
      look(&found);
      if (found != 0) return found;
      rest();
    }
  }

  void wait_for_each() {
    for (size_t i = 0; i < count; ++i) MPI_Wait(&requests_[i], &statuses_[i]);
  }
  void wait_for_any() {
    for (size_t done = 0; done < count; ++done) {
      int index = MPI_UNDEFINED;
      MPI_Status status;
      MPI_Waitany(kCount, requests_.data(), &index, &status);
      note(index, status);
    }
  }
  void wait_for_some() {
    for (int left = kCount; left > 0;) {
      int done = 0;
      MPI_Waitsome(kCount, requests_.data(), &done, indices_.data(), some_.data());
      left -= note_some(done);
    }
  }
  void test_each() {
    for (size_t i = 0; i < count; ++i) {
      poll([&](int* done) { MPI_Test(&requests_[i], done, &statuses_[i]); });
    }
  }
  void test_all() {
    poll([&](int* done) { MPI_Testall(kCount, requests_.data(), done, statuses_.data()); });
  }
  void test_any() {
    for (size_t left = count; left > 0; --left) {
      int index = MPI_UNDEFINED;
      MPI_Status status;
      poll([&](int* done) { MPI_Testany(kCount, requests_.data(), &index, done, &status); });
      note(index, status);
    }
  }
  void test_some() {
    for (int left = kCount; left > 0;) {
      left -= note_some(poll([&](int* done) {
        MPI_Testsome(kCount, requests_.data(), done, indices_.data(), some_.data());
      }));
    }
  }

  void note(int index, const MPI_Status& status) {
    if (index == MPI_UNDEFINED) fail("MPI", "lost a request");
    statuses_[static_cast<size_t>(index)] = status;
  }
  int note_some(int done) {
    if (done == MPI_UNDEFINED) fail("MPI", "lost a request");
    for (size_t i = 0; i < static_cast<size_t>(done); ++i) note(indices_[i], some_[i]);
    return done;
  }

  std::array<MPI_Request, count> requests_{};
  std::array<MPI_Status, count> statuses_{}, some_{};
  std::array<int, count> indices_{};
};

// Each step sends a message to either neighbour, of a length that the sender alone knows. A message
// is absorbed kDelay steps later. In some steps a rank waits for it only after the step's
// barrier.
class Neighbours {
 public:
  Neighbours(const World& world, Gpu& gpu) : world_(world), gpu_(gpu) {}

  static bool is_late(int step) { return step % 7 == 3 || step % 7 == 4; }

  void begin(int step) {
    for (size_t side = 0; side < 2; ++side) {
      MPI_Irecv(inbox_.at(slot(step, side)), kLongest, MPI_UNSIGNED, neighbour(1 - side),
                kTag + static_cast<int>(side), MPI_COMM_WORLD, requests_.at(side));
    }
    const unsigned count = length(step);
    for (size_t side = 0; side < 2; ++side) {
      gpu_.pack(outbox_.at(slot(step, side)), count, number(step) + static_cast<unsigned>(side));
    }
    gpu_.wait();
    for (size_t side = 0; side < 2; ++side) send(step, side, count);
  }

  void end(int step) {
    requests_.wait(step / 2);
    for (size_t side = 0; side < 2; ++side) {
      int count = 0;
      MPI_Get_count(&requests_.status(side), MPI_UNSIGNED, &count);
      if (count < 1) fail("message", "is empty");
      lengths_[index(step, side)] = number(count);
      seen_ = stirred(seen_, Gpu::look(inbox_.at(slot(step, side)) + count / 2));
    }
  }

  void absorb(int step) {
    if (step < kDelay) return;
    for (size_t side = 0; side < 2; ++side) {
      gpu_.absorb(inbox_.at(slot(step - kDelay, side)), lengths_[index(step - kDelay, side)]);
    }
  }
  std::vector<unsigned> received() const { return inbox_.all(); }
  unsigned seen() const { return seen_; }

 private:
  static constexpr int kTag = 10;
  static constexpr int kDelay = 6;
  static constexpr unsigned kSlots = 8, kLongest = 4500, kSlot = 5000;

  static size_t index(int step, size_t side) { return number(step) % kSlots * 2 + side; }
  static unsigned slot(int step, size_t side) {
    return static_cast<unsigned>(index(step, side)) * kSlot;
  }
  int neighbour(size_t side) const { return side == 0 ? world_.right() : world_.left(); }

  // Some are short enough for MPI to hand them over at once, others not.
  unsigned length(int step) const {
    return (seen_ + number(step)) % 3 == 0 ? 1 + seen_ % 60 : 1000 + seen_ % (kLongest - 1000);
  }

  void send(int step, size_t side, unsigned count) {
    auto* const post = step % 3 == 0 ? MPI_Issend : MPI_Isend;
    post(outbox_.at(slot(step, side)), static_cast<int>(count), MPI_UNSIGNED, neighbour(side),
         kTag + static_cast<int>(side), MPI_COMM_WORLD, requests_.at(2 + side));
  }

  const World& world_;
  Gpu& gpu_;
  Words inbox_{2 * kSlots * kSlot}, outbox_{2 * kSlots * kSlot};
  Requests<4> requests_;
  std::array<unsigned, 2 * kSlots> lengths_{};
  unsigned seen_ = 1;
};

// A plate of which neighbours get columns: what lies between those of a type is not to change.
class Plate {
 public:
  Plate(const World& world, Gpu& gpu) : world_(world), gpu_(gpu) {
    MPI_Datatype columns = MPI_DATATYPE_NULL;
    MPI_Type_vector(kRows, 2, kWidth, MPI_UNSIGNED, &columns);
    MPI_Type_create_resized(columns, 0, 2 * sizeof(unsigned), &columns_);
    MPI_Type_free(&columns);
    MPI_Type_vector(kRows, 2, -static_cast<int>(kWidth), MPI_UNSIGNED, &rising_);
    MPI_Type_commit(&columns_);
    MPI_Type_commit(&rising_);
  }
  ~Plate() {
    MPI_Type_free(&columns_);
    MPI_Type_free(&rising_);
  }
  Plate(const Plate&) = delete;
  Plate& operator=(const Plate&) = delete;

  void step(int step) {
    gpu_.absorb(memory_.at(0), kRows * kWidth + kLine);
    gpu_.paint(memory_.at(0), number(step));
    gpu_.wait();
    if (step % 3 == 0) exchange_several(step);
    if (step % 3 == 1) exchange_upside_down(step);
    if (step % 3 == 2) exchange_with_ends(step);
  }
  std::vector<unsigned> all() const { return memory_.all(); }

 private:
  static constexpr int kTag = 20;
  static constexpr unsigned kLine = 2 * kRows;  // words behind the plate
  static constexpr unsigned kLastRow = (kRows - 1) * kWidth;

  unsigned* painted(int step) const { return memory_.at(2 * (number(step) * 3 % 10)); }
  unsigned* received(int step) const { return memory_.at(kPainted + 2 * (number(step) * 5 % 12)); }

  void exchange_several(int step) {
    MPI_Sendrecv(painted(step), 3, columns_, world_.right(), kTag, received(step), 3, columns_,
                 world_.left(), kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  void exchange_upside_down(int step) {
    if (step % 2 == 0) {
      MPI_Sendrecv(painted(step) + kLastRow, 1, rising_, world_.left(), kTag,
                   memory_.at(kRows * kWidth), kLine, MPI_UNSIGNED, world_.right(), kTag,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Sendrecv(painted(step), 1, columns_, world_.left(), kTag, received(step) + kLastRow, 1,
                   rising_, world_.right(), kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  // Ranks in a line. Meanwhile a kernel writes what lies in between.
  void exchange_with_ends(int step) {
    const int right = world_.rank + 1 < world_.size ? world_.rank + 1 : MPI_PROC_NULL;
    const int left = world_.rank > 0 ? world_.rank - 1 : MPI_PROC_NULL;
    MPI_Irecv(received(step), 1, columns_, left, kTag, MPI_COMM_WORLD, requests_.at(0));
    MPI_Irecv(received(step) + 2, 1, columns_, right, kTag, MPI_COMM_WORLD, requests_.at(1));
    MPI_Isend(memory_.at(kRows * kWidth), kLine, MPI_UNSIGNED, left, kTag, MPI_COMM_WORLD,
              requests_.at(2));
    MPI_Isend(memory_.at(kRows * kWidth), kLine, MPI_UNSIGNED, right, kTag, MPI_COMM_WORLD,
              requests_.at(3));
    gpu_.paint(memory_.at(0), ~number(step));
    requests_.wait(step);
  }

  const World& world_;
  Gpu& gpu_;
  Words memory_{kRows * kWidth + kLine};
  MPI_Datatype columns_ = MPI_DATATYPE_NULL, rising_ = MPI_DATATYPE_NULL;
  Requests<4> requests_;
};

// To the right by calls that return when the message may be forgotten. Now and then what comes goes
// to the host, which makes a message of its own of it.
class Blocking {
 public:
  Blocking(const World& world, Gpu& gpu) : world_(world), gpu_(gpu), buffer_(kBuffered) {
    MPI_Buffer_attach(buffer_.data(), kBuffered);
  }
  ~Blocking() {
    void* buffer = nullptr;
    int size = 0;
    MPI_Buffer_detach(&buffer, &size);
  }
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;

  void step(int step) {
    gpu_.absorb(theirs_.at(0), kCount);
    gpu_.pack(own_.at(0), kCount, ~number(step) + seen_);
    gpu_.wait();
    const int count = static_cast<int>(step % 2 == 0 ? kCount : kCount / 20);
    if (step % 3 == 2 || world_.size == 1) {
      MPI_Bsend(own_.at(0), count, MPI_UNSIGNED, world_.right(), kTag, MPI_COMM_WORLD);
      return receive(step);
    }
    auto* const send = step % 3 == 0 ? MPI_Send : MPI_Ssend;
    if (world_.rank == 0) receive(step);
    send(own_.at(0), count, MPI_UNSIGNED, world_.right(), kTag, MPI_COMM_WORLD);
    if (world_.rank != 0) receive(step);
  }

 private:
  static constexpr int kTag = 30;
  static constexpr unsigned kCount = 1700;
  static constexpr int kBuffered = 1 << 20;

  void receive(int step) {
    unsigned* const into = step % 5 == 2 ? on_host_.data() : theirs_.at(0);
    MPI_Recv(into, kCount, MPI_UNSIGNED, world_.left(), kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (const unsigned word : on_host_) seen_ = stirred(seen_, word);
  }

  const World& world_;
  Gpu& gpu_;
  std::vector<char> buffer_;
  Words theirs_{kCount}, own_{kCount};
  std::vector<unsigned> on_host_ = std::vector<unsigned>(kCount);
  unsigned seen_ = 0;
};

// All ranks send to one of them, which takes what comes from anybody and adds it up.
class Crowd {
 public:
  Crowd(const World& world, Gpu& gpu) : world_(world), gpu_(gpu) {}

  void step(int step) {
    gpu_.absorb_sum();
    gpu_.pack(own_.at(0), kCount, number(step) * 3);
    gpu_.wait();
    MPI_Request sent = MPI_REQUEST_NULL;
    const int root = step % world_.size;
    MPI_Isend(own_.at(0), kCount, MPI_UNSIGNED, root, kTag, MPI_COMM_WORLD, &sent);
    if (world_.rank == root) step / world_.size % 2 == 0 ? take_each() : take_all(step);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
  }

 private:
  static constexpr int kTag = 40;
  static constexpr unsigned kCount = 400;

  void take_each() {
    for (int i = 0; i < world_.size; ++i) {
      MPI_Status status;
      MPI_Recv(theirs_.at(0), kCount, MPI_UNSIGNED, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &status);
      add(0, status);
      gpu_.wait();
    }
  }
  void take_all(int step) {
    std::vector<MPI_Request> requests(number(world_.size));
    for (unsigned i = 0; i < requests.size(); ++i) {
      MPI_Irecv(theirs_.at(i * kCount), kCount, MPI_UNSIGNED, MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD,
                &requests[i]);
    }
    gpu_.advance(number(step));
    for (size_t i = 0; i < requests.size(); ++i) {
      int index = MPI_UNDEFINED;
      MPI_Status status;
      MPI_Waitany(world_.size, requests.data(), &index, &status);
      if (index == MPI_UNDEFINED) fail("MPI_Waitany", "lost a request");
      add(number(index), status);
    }
    gpu_.wait();
  }
  void add(unsigned place, const MPI_Status& status) {
    gpu_.add(theirs_.at(place * kCount), kCount, number(status.MPI_SOURCE) + 1);
  }

  const World& world_;
  Gpu& gpu_;
  Words own_{kCount}, theirs_{number(world_.size) * kCount};
};

// A message into host memory of which kernels write another part meanwhile. It is pure chance
// whether it has come when the receive is posted, or comes when the kernel has been waited for.
class Shared {
 public:
  Shared(const World& world, Gpu& gpu) : world_(world), gpu_(gpu) {}

  void step(int step) {
    gpu_.pack(own_.at(0), kCount, number(step) + seen_);
    gpu_.wait();
    const bool early = chance_.below(2) == 0;
    if (early) send();
    meet_neighbours();
    MPI_Irecv(memory_.data(), kCount, MPI_UNSIGNED, world_.left(), kTag, MPI_COMM_WORLD,
              requests_.at(0));
    gpu_.pack(reinterpret_cast<unsigned*>(memory_.device_address()) + kCount, kCount, number(step));
    gpu_.wait();
    if (!early) send();
    requests_.wait(step);
    for (const unsigned word : memory_.span()) seen_ = stirred(seen_, word);
  }
  unsigned seen() const { return seen_; }

 private:
  static constexpr int kTag = 50;
  static constexpr unsigned kCount = 300;

  void send() {
    MPI_Isend(own_.at(0), kCount, MPI_UNSIGNED, world_.right(), kTag, MPI_COMM_WORLD,
              requests_.at(1));
  }
  void meet_neighbours() const {
    const int sent = 0;
    int received = 0;
    MPI_Sendrecv(&sent, 1, MPI_INT, world_.right(), kTag + 1, &received, 1, MPI_INT, world_.left(),
                 kTag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  const World& world_;
  Gpu& gpu_;
  Words own_{kCount};
  Pinned<unsigned> memory_{2 * kCount, CU_MEMHOSTALLOC_DEVICEMAP};
  Requests<2> requests_;
  Random chance_{static_cast<uint64_t>(getpid())};
  unsigned seen_ = 0;
};

// One collective a step.
class Together {
 public:
  Together(const World& world, Gpu& gpu) : world_(world), gpu_(gpu) {}

  void step(int step) {
    gpu_.absorb_table();
    gpu_.absorb(results_.at(0), kResults + number(world_.size) * kBlock * 2);
    gpu_.pack(own_.at(0), std::max(kCount, number(world_.size) * kBlock), number(step) * 5);
    switch (step % 6) {
      case 0:
        return broadcast(step);
      case 1:
        return reduce(step);
      case 2:
        return reduce_to_all(step);
      case 3:
        return reduce_in_place(step);
      case 4:
        return gather(step % 12 < 6);
      default:
        return exchange(step % 12 < 6);
    }
  }
  // The same on all ranks.
  unsigned seen() const { return seen_; }
  std::vector<unsigned> all() const { return results_.all(); }

 private:
  static constexpr unsigned kCount = 900, kBlock = 150;
  static constexpr unsigned kResults = 3 * kCount;  // the gathered and the exchanged are behind it
  static constexpr int kPart = 800;

  unsigned* gathered() const { return results_.at(kResults); }
  unsigned* exchanged() const { return results_.at(kResults + number(world_.size) * kBlock); }

  void broadcast(int step) {
    const int root = (step * 5 + 1) % world_.size;
    if (world_.rank == root) gpu_.write_table(number(step));
    gpu_.wait();
    MPI_Bcast(gpu_.table() + 100, static_cast<int>(kTable) - 200, MPI_UNSIGNED, root,
              MPI_COMM_WORLD);
  }
  void reduce(int step) {
    // MPICH 4.0 takes what is in place at the first rank only.
    const int root = step % 12 < 6 ? 0 : (step + 1) / 6 % world_.size;
    const bool in_place = step % 12 < 6 && world_.rank == root;
    if (in_place) gpu_.pack(results_.at(0), kPart, number(step));
    gpu_.wait();
    MPI_Reduce(in_place ? MPI_IN_PLACE : own_.at(0), results_.at(0), kPart, MPI_UNSIGNED, MPI_SUM,
               root, MPI_COMM_WORLD);
  }
  void reduce_to_all(int step) {
    gpu_.wait();
    unsigned all = 0;
    MPI_Allreduce(own_.at(number(step) % 50), results_.at(kCount), kPart, MPI_UNSIGNED, MPI_BXOR,
                  MPI_COMM_WORLD);
    MPI_Allreduce(own_.at(99), &all, 1, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD);
    seen_ = stirred(all, Gpu::look(results_.at(kCount + kPart / 2)));
  }
  void reduce_in_place(int step) {
    gpu_.pack(results_.at(2 * kCount), kPart, number(step));
    gpu_.wait();
    MPI_Allreduce(MPI_IN_PLACE, results_.at(2 * kCount), kPart, MPI_UNSIGNED, MPI_SUM,
                  MPI_COMM_WORLD);
    seen_ = stirred(seen_, Gpu::look(results_.at(2 * kCount + kPart / 3)));
  }
  void gather(bool in_place) {
    const auto rank = number(world_.rank);
    if (in_place) gpu_.pack(gathered() + rank * kBlock, kBlock, rank);
    gpu_.wait();
    if (in_place) {
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, gathered(), kBlock, MPI_UNSIGNED,
                    MPI_COMM_WORLD);
    } else {
      MPI_Allgather(own_.at(0), kBlock, MPI_UNSIGNED, gathered(), kBlock, MPI_UNSIGNED,
                    MPI_COMM_WORLD);
    }
  }
  void exchange(bool in_place) {
    gpu_.wait();
    if (in_place) {
      MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, exchanged(), kBlock, MPI_UNSIGNED,
                   MPI_COMM_WORLD);
    } else {
      MPI_Alltoall(own_.at(0), kBlock, MPI_UNSIGNED, exchanged(), kBlock, MPI_UNSIGNED,
                   MPI_COMM_WORLD);
    }
  }

  const World& world_;
  Gpu& gpu_;
  Words own_{std::max(kCount, number(world_.size) * kBlock)};
  Words results_{kResults + number(world_.size) * kBlock * 2};
  unsigned seen_ = 0;
};

// Each step makes one of the collectives that give each rank a part of its own, and of all others
// that return before they are done. The received words go to the device, or to the host.
class Parts {
 public:
  Parts(const World& world, Gpu& gpu) : world_(world), gpu_(gpu) {
    const int ranks[] = {world.size}, round[] = {1};
    MPI_Cart_create(MPI_COMM_WORLD, 1, ranks, round, 0, &ring_);
    const int left = world.left(), right = world.right();
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &chain_);
    MPI_Type_vector(kMost / 2, 1, 2, MPI_UNSIGNED, &spread_);
    MPI_Type_commit(&spread_);
    types_.assign(count(), MPI_UNSIGNED);
    for (size_t i = 0; i < count(); i += 2) types_[i] = spread_;
  }
  ~Parts() {
    MPI_Type_free(&spread_);
    MPI_Comm_free(&ring_);
    MPI_Comm_free(&chain_);
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  void step(int step) {
    gpu_.absorb(theirs_.at(0), words());
    gpu_.pack(own_.at(0), words(), number(step) * 7 + seen_);
    if (step % 5 == 0) gpu_.pack(theirs_.at(0), words(), number(step) * 9);
    gpu_.wait();
    send_ = step % 7 == 5 ? sent_by_host(step) : own_.at(0);
    to_host_ = step % 3 == 1;
    receive_ = to_host_ ? host_.data() : theirs_.at(0);
    root_ = step % world_.size;
    describe(step);
    make(step);
    if (to_host_) {
      for (const unsigned word : host_) seen_ = stirred(seen_, word);
    } else {
      seen_ = stirred(seen_, Gpu::look(theirs_.at(offsets_[0])));
    }
  }
  unsigned seen() const { return seen_; }
  std::vector<unsigned> all() const { return theirs_.all(); }

 private:
  static constexpr unsigned kMost = 60;  // words of a part
  static constexpr int kKinds = 19;

  size_t count() const { return number(world_.size); }
  unsigned words() const { return number(world_.size) * kMost + kMost; }
  // From one rank to another.
  static int length(int from, int to, int step) { return 5 + (from * 3 + to * 7 + step) % 40; }

  // The parts lie in descending order, with gaps.
  void describe(int step) {
    for (size_t i = 0; i < count(); ++i) {
      const int rank = static_cast<int>(i);
      to_[i] = length(world_.rank, rank, step);
      from_[i] = length(rank, world_.rank, step);
      of_[i] = length(rank, 0, step);
      // With one rank, MPICH 4.0 ignores displacements and Open MPI 4.1 mistakes them.
      offsets_[i] = count() == 1 ? 0 : static_cast<unsigned>((count() - 1 - i) * kMost + 3);
      places_[i] = static_cast<int>(offsets_[i]);
      bytes_[i] = places_[i] * static_cast<int>(sizeof(unsigned));
      // Fewer items fit when their type has gaps.
      to_typed_[i] = types_[i] == spread_ ? 1 : to_[i];
      from_typed_[i] = types_[own()] == spread_ ? 1 : from_[i];
      own_types_[i] = types_[own()];
    }
  }
  size_t own() const { return number(world_.rank); }
  int own_of() const { return of_[own()]; }
  unsigned* sent_by_host(int step) {
    for (unsigned i = 0; i < sent_.size(); ++i) sent_[i] = number(step) * i + seen_;
    return sent_.data();
  }

  template <class Now, class Later, class... Given>
  void call(int step, Now now, Later later, Given... given) {
    if (step / kKinds % 2 == 0) {
      now(given...);
      return;
    }
    later(given..., requests_.at(0));
    gpu_.advance(number(step));
    requests_.wait(step / kKinds / 2 + step);
  }

  void make(int step) {
    constexpr int kPart = kMost;
    const auto type = MPI_UNSIGNED;
    const MPI_Comm all = MPI_COMM_WORLD;
    const bool in_place = step % 4 == 0;
    const bool at_first = in_place && root_ == 0 && world_.rank == 0;  // as Together::reduce
    const void* const send = at_first ? MPI_IN_PLACE : send_;
    const void* const part = in_place ? MPI_IN_PLACE : send_;
    switch (step % kKinds) {
      case 0:
        return call(step, MPI_Gather, MPI_Igather, send, 40, type, receive_, 40, type, root_, all);
      case 1:
        return call(step, MPI_Gatherv, MPI_Igatherv, send, own_of(), type, receive_, of_.data(),
                    places_.data(), type, root_, all);
      case 2:
        return call(step, MPI_Scatter, MPI_Iscatter, send_, 40, type,
                    at_first ? MPI_IN_PLACE : receive_, 40, type, root_, all);
      case 3:
        return call(step, MPI_Scatterv, MPI_Iscatterv, send_, of_.data(), places_.data(), type,
                    at_first ? MPI_IN_PLACE : receive_, own_of(), type, root_, all);
      case 4:
        return call(step, MPI_Allgatherv, MPI_Iallgatherv, part, own_of(), type, receive_,
                    of_.data(), places_.data(), type, all);
      case 5:
        return call(step, MPI_Alltoallv, MPI_Ialltoallv, send_, to_.data(), places_.data(), type,
                    receive_, from_.data(), places_.data(), type, all);
      case 6:
        return typed(step, all);
      case 7:
        return call(step, MPI_Reduce_scatter, MPI_Ireduce_scatter, send_, receive_, of_.data(),
                    type, MPI_SUM, all);
      case 8:
        return call(step, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, part, receive_, 40,
                    type, MPI_SUM, all);
      case 9:
        return call(step, MPI_Scan, MPI_Iscan, part, receive_, kPart, type, MPI_SUM, all);
      case 10:
        return call(step, MPI_Exscan, MPI_Iexscan, send_, receive_, kPart, type, MPI_SUM, all);
      case 11:
        return call(step, MPI_Bcast, MPI_Ibcast, world_.rank == root_ ? send_ : receive_, kPart,
                    type, root_, all);
      case 12:
        return call(step, MPI_Reduce, MPI_Ireduce, send, receive_, kPart, type, MPI_BXOR, root_,
                    all);
      case 13:
        return call(step, MPI_Allreduce, MPI_Iallreduce, part, receive_, kPart, type, MPI_MAX, all);
      case 14:
        return call(step, MPI_Allgather, MPI_Iallgather, part, 40, type, receive_, 40, type, all);
      case 15:
        return call(step, MPI_Alltoall, MPI_Ialltoall, send_, 40, type, receive_, 40, type, all);
      case 16:
        return meet(step);
      case 17:
        return meet_two(step);
      default:
        return meet_one(step);
    }
  }

  // Rank i sends types of its own to all.
  void typed(int step, MPI_Comm all) {
    call(step, MPI_Alltoallw, MPI_Ialltoallw, send_, to_typed_.data(), bytes_.data(), types_.data(),
         receive_, from_typed_.data(), bytes_.data(), own_types_.data(), all);
  }
  void meet(int step) {
    const int counts[] = {30, 30}, places[] = {50, 4};
    if (step % 2 == 0) {
      call(step, MPI_Neighbor_allgather, MPI_Ineighbor_allgather, send_, 30, MPI_UNSIGNED, receive_,
           30, MPI_UNSIGNED, ring_);
    } else {
      call(step, MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, send_, 30, MPI_UNSIGNED,
           receive_, counts, places, MPI_UNSIGNED, ring_);
    }
  }
  void meet_two(int step) {
    const int counts[] = {25, 25}, places[] = {60, 7};
    if (step % 2 == 0) {
      call(step, MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, send_, 30, MPI_UNSIGNED, receive_,
           30, MPI_UNSIGNED, ring_);
    } else {
      call(step, MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv, send_, counts, places,
           MPI_UNSIGNED, receive_, counts, places, MPI_UNSIGNED, ring_);
    }
  }
  void meet_one(int step) {
    const int one = 1, several = static_cast<int>(kMost / 2);
    const MPI_Aint from = 20, into = 60;
    const MPI_Datatype words = MPI_UNSIGNED;
    call(step, MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw, send_, &several, &from, &words,
         receive_, &one, &into, &spread_, chain_);
  }

  const World& world_;
  Gpu& gpu_;
  MPI_Comm ring_ = MPI_COMM_NULL, chain_ = MPI_COMM_NULL;
  MPI_Datatype spread_ = MPI_DATATYPE_NULL;
  std::vector<MPI_Datatype> types_, own_types_ = std::vector<MPI_Datatype>(count());
  Words own_{words()}, theirs_{words()};
  std::vector<unsigned> host_ = std::vector<unsigned>(words()), sent_ = host_;
  std::vector<int> to_ = std::vector<int>(count()), from_ = to_, of_ = to_, places_ = to_,
                   bytes_ = to_, to_typed_ = to_, from_typed_ = to_;
  std::vector<unsigned> offsets_ = std::vector<unsigned>(count());
  Requests<1> requests_;
  unsigned *send_ = nullptr, *receive_ = nullptr;
  bool to_host_ = false;
  int root_ = 0;
  unsigned seen_ = 0;
};

// Requests that are made once and started in each step: to the right out of device memory, from the
// left into it, with gaps, and into host memory that the device sees.
class Standing {
 public:
  Standing(const World& world, Gpu& gpu) : gpu_(gpu) {
    MPI_Type_vector(kCount, 1, 2, MPI_UNSIGNED, &spread_);
    MPI_Type_commit(&spread_);
    MPI_Recv_init(theirs_.at(0), 1, spread_, world.left(), kTag, MPI_COMM_WORLD, requests_.at(0));
    MPI_Recv_init(seen_by_both_.data(), kCount, MPI_UNSIGNED, world.left(), kTag + 1,
                  MPI_COMM_WORLD, requests_.at(1));
    MPI_Recv_init(theirs_.at(2 * kCount), kCount, MPI_UNSIGNED, world.left(), kTag + 2,
                  MPI_COMM_WORLD, requests_.at(2));
    MPI_Send_init(own_.at(0), kCount, MPI_UNSIGNED, world.right(), kTag, MPI_COMM_WORLD,
                  requests_.at(3));
    MPI_Send_init(own_.at(kCount), kCount, MPI_UNSIGNED, world.right(), kTag + 1, MPI_COMM_WORLD,
                  requests_.at(4));
    MPI_Ssend_init(own_.at(3), kCount / 2, MPI_UNSIGNED, world.right(), kTag + 2, MPI_COMM_WORLD,
                   requests_.at(5));
  }
  ~Standing() {
    for (size_t i = 0; i < kRequests; ++i) MPI_Request_free(requests_.at(i));
    MPI_Type_free(&spread_);
  }
  Standing(const Standing&) = delete;
  Standing& operator=(const Standing&) = delete;

  void step(int step) {
    gpu_.absorb(theirs_.at(0), 3 * kCount);
    gpu_.pack(own_.at(0), 2 * kCount, number(step) + seen_);
    gpu_.wait();
    if (step % 2 == 0) {
      MPI_Startall(kRequests, requests_.at(0));
    } else {
      for (size_t i = 0; i < kRequests; ++i) MPI_Start(requests_.at(i));
    }
    requests_.wait(step);
    for (const unsigned word : seen_by_both_.span()) seen_ = stirred(seen_, word);
  }
  unsigned seen() const { return seen_; }
  std::vector<unsigned> all() const { return theirs_.all(); }

 private:
  static constexpr int kTag = 60, kRequests = 6;
  static constexpr unsigned kCount = 500;

  Gpu& gpu_;
  MPI_Datatype spread_ = MPI_DATATYPE_NULL;
  Words own_{2 * kCount}, theirs_{3 * kCount};
  Pinned<unsigned> seen_by_both_{kCount, CU_MEMHOSTALLOC_DEVICEMAP};
  Requests<kRequests> requests_;
  unsigned seen_ = 0;
};

// Messages that are looked at before they are received, packed ones, and ones that are replaced;
// with large counts where there is such a form.
class Handled {
 public:
  Handled(const World& world, Gpu& gpu) : world_(world), gpu_(gpu) {}

  void step(int step) {
    gpu_.absorb(theirs_.at(0), kCount);
    gpu_.absorb(packed_.at(0), kCount);
    gpu_.pack(own_.at(0), kCount, number(step) ^ seen_);
    gpu_.wait();
    MPI_Reduce_local(own_.at(0), theirs_.at(0), kCount, MPI_UNSIGNED, MPI_BXOR);
    probe(step);
    MPI_Sendrecv_replace(own_.at(0), kCount, MPI_UNSIGNED, world_.right(), kTag + 1, world_.left(),
                         kTag + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pack(step);
    large(step);
    seen_ = stirred(seen_, Gpu::look(theirs_.at(0)));
  }
  unsigned seen() const { return seen_; }

 private:
  static constexpr int kTag = 70, kCount = 600;
  static constexpr int kBytes = kCount * static_cast<int>(sizeof(unsigned));

  void probe(int step) {
    MPI_Isend(own_.at(0), kCount, MPI_UNSIGNED, world_.right(), kTag, MPI_COMM_WORLD,
              requests_.at(0));
    MPI_Message message = MPI_MESSAGE_NULL;
    const int from = step % 3 == 0 ? MPI_ANY_SOURCE : world_.left();
    if (step % 2 == 0) {
      MPI_Mprobe(from, kTag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    } else {
      for (int found = 0; found == 0;) {
        MPI_Improbe(from, kTag, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE);
        if (found == 0) rest();
      }
    }
    if (step % 4 < 2) {
      MPI_Mrecv(theirs_.at(0), kCount, MPI_UNSIGNED, &message, MPI_STATUS_IGNORE);
      MPI_Irecv(nullptr, 0, MPI_UNSIGNED, MPI_PROC_NULL, kTag, MPI_COMM_WORLD, requests_.at(1));
    } else {
      MPI_Imrecv(theirs_.at(0), kCount, MPI_UNSIGNED, &message, requests_.at(1));
    }
    requests_.wait(step);
  }

  // On the host, or on the device.
  void pack(int step) {
    unsigned* const place = step % 2 == 0 ? on_host_.data() : packed_.at(0);
    int at = 8, end = 8;
    MPI_Pack(own_.at(0), kCount / 2, MPI_UNSIGNED, place, kBytes, &end, MPI_COMM_WORLD);
    MPI_Pack(own_.at(9), kCount / 4, MPI_UNSIGNED, place, kBytes, &end, MPI_COMM_WORLD);
    MPI_Unpack(place, kBytes, &at, theirs_.at(5), kCount / 2, MPI_UNSIGNED, MPI_COMM_WORLD);
    MPI_Unpack(place, kBytes, &at, hosts_.data(), kCount / 4, MPI_UNSIGNED, MPI_COMM_WORLD);
    for (const unsigned word : on_host_) seen_ = stirred(seen_, word);
    for (const unsigned word : hosts_) seen_ = stirred(seen_, word);
  }

#if MPI_VERSION >= 4
  void large(int step) {
    const MPI_Count count = kCount;
    MPI_Sendrecv_c(own_.at(0), count, MPI_UNSIGNED, world_.right(), kTag + 2, packed_.at(0), count,
                   MPI_UNSIGNED, world_.left(), kTag + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce_c(own_.at(3), hosts_.data(), count / 2, MPI_UNSIGNED, MPI_BXOR, MPI_COMM_WORLD);
    seen_ = stirred(seen_, hosts_[7]);
    const auto ranks = number(world_.size);
    const std::vector<MPI_Count> counts(ranks, 11);
    std::vector<MPI_Aint> places;
    for (unsigned i = 0; i < ranks; ++i) places.push_back((ranks - 1 - i) * 12);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ialltoallv_c(own_.at(0), counts.data(), places.data(), MPI_UNSIGNED, theirs_.at(0),
                     counts.data(), places.data(), MPI_UNSIGNED, MPI_COMM_WORLD, &request);
    gpu_.advance(number(step));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    gpu_.wait();
  }
#else
  void large(int) {}
#endif

  const World& world_;
  Gpu& gpu_;
  Words own_{kCount}, theirs_{kCount}, packed_{kCount};
  std::vector<unsigned> on_host_ = std::vector<unsigned>(kCount), hosts_ = on_host_;
  Requests<2> requests_;
  unsigned seen_ = 0;
};

class Rank {
 public:
  explicit Rank(const World& world)
      : gpu_(world.rank),
        neighbours_(world, gpu_),
        plate_(world, gpu_),
        blocking_(world, gpu_),
        crowd_(world, gpu_),
        shared_(world, gpu_),
        together_(world, gpu_),
        parts_(world, gpu_),
        standing_(world, gpu_),
        handled_(world, gpu_) {}

  void step(int step) {
    gpu_.advance(number(step));
    neighbours_.absorb(step);
    neighbours_.begin(step);
    for (unsigned i = 0; i < 1 + together_.seen() % 3; ++i) gpu_.advance(i);
    const bool late = Neighbours::is_late(step);
    if (!late && step % 2 == 0) neighbours_.end(step);
    plate_.step(step);
    blocking_.step(step);
    if (!late && step % 2 != 0) neighbours_.end(step);
    crowd_.step(step);
    shared_.step(step);
    together_.step(step);
    parts_.step(step);
    standing_.step(step);
    handled_.step(step);
    MPI_Barrier(MPI_COMM_WORLD);
    if (late) neighbours_.end(step);
  }

  void report(int step, Report& report) const {
    report.line("step %d: digest %016" PRIx64 ", seen %08x %08x %08x %08x %08x %08x", step,
                digest(gpu_.cells()), neighbours_.seen(), shared_.seen(), together_.seen(),
                parts_.seen(), standing_.seen(), handled_.seen());
  }
  void report_received(Report& report) const {
    for (const auto& words :
         {neighbours_.received(), plate_.all(), together_.all(), parts_.all(), standing_.all()}) {
      report.line("received: %016" PRIx64, digest(words));
    }
  }

 private:
  Gpu gpu_;
  Neighbours neighbours_;
  Plate plate_;
  Blocking blocking_;
  Crowd crowd_;
  Shared shared_;
  Together together_;
  Parts parts_;
  Standing standing_;
  Handled handled_;
};

int run(int steps) {
  const World world;
  Report report(world.rank);
  const Device device(ContextKind::kPrimary, own_device());
  Rank rank(world);
  for (int step = 0; step < steps; ++step) {
    rank.step(step);
    const bool last = step == steps - 1;
    if (step % kReported == 0 || last) rank.report(step, report);
    if (step % kShown == 0 || last) report.progress("step %d", step);
  }
  rank.report_received(report);
  return report.finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 120));
}
