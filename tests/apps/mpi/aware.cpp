// Device memory in MPI calls: all that is sent comes from the device, and almost all that is
// received goes there, by every call that can do so. It wants an MPI that takes device memory, or,
// before one that does not, libcuda_aware.so (aware/cuda_aware.cpp).
//
// What is received lies in memory that only MPI writes, for several steps, before kernels stir it
// into the cells. Some of it the host looks at, too: how long messages are and how many rounds a
// step has depends on it. No order in which messages come makes a difference. A rank alone is its
// own neighbour.
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

  // What the host sees of device memory.
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

// Each step a message to either neighbour, of a length that the sender alone knows. What comes is
// absorbed kDelay steps later. Now and then a rank waits for it behind the step's barrier only.
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

class Rank {
 public:
  explicit Rank(const World& world)
      : gpu_(world.rank),
        neighbours_(world, gpu_),
        plate_(world, gpu_),
        blocking_(world, gpu_),
        crowd_(world, gpu_),
        shared_(world, gpu_),
        together_(world, gpu_) {}

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
    MPI_Barrier(MPI_COMM_WORLD);
    if (late) neighbours_.end(step);
  }

  void report(int step, Report& report) const {
    report.line("step %d: digest %016" PRIx64 ", seen %08x %08x %08x", step, digest(gpu_.cells()),
                neighbours_.seen(), shared_.seen(), together_.seen());
  }
  void report_received(Report& report) const {
    report.line("received: %016" PRIx64 " %016" PRIx64 " %016" PRIx64,
                digest(neighbours_.received()), digest(plate_.all()), digest(together_.all()));
  }

 private:
  Gpu gpu_;
  Neighbours neighbours_;
  Plate plate_;
  Blocking blocking_;
  Crowd crowd_;
  Shared shared_;
  Together together_;
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
