// A ring of ranks whose messages are on their way across barriers: what a rank sends in one step
// its right neighbour takes two steps later, and there is a barrier in each. How a rank waits
// changes from step to step. Now and then persistent requests carry a word more, over two barriers,
// and the neighbours exchange the heads of their cells at once, against the direction of the ring.
// A rank alone is its own neighbour.
#include "tests/apps/mpi/ring.h"

#include <array>

#include "ring_ptx.h"
#include "tests/apps/mpi/ranks.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr int kAhead = 2;  // steps from sending a message to using it
constexpr int kInFlight = kAhead + 1;
constexpr unsigned kLongest = 2 * kCells;
constexpr unsigned kHead = 16;
constexpr int kReported = 5;  // every so many steps
constexpr int kShown = 50;

// Tags. The tag of a message says its step, modulo kMessageTags.
constexpr int kHeadTag = 1, kWordTag = 2, kMessageTag = 100;
constexpr int kMessageTags = 1000;

// Some are short enough for MPI to hand them over at once, others not.
unsigned message_length(int step) {
  return step % 3 == 0 ? 16 + static_cast<unsigned>(step) % 100
                       : kCells + static_cast<unsigned>(step) * 37 % (kLongest - kCells);
}

// A message that comes and one that goes, begun in the same step.
struct Flight {
  std::vector<unsigned> coming = std::vector<unsigned>(kLongest);
  std::vector<unsigned> going;
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};

  // In one of four ways: all of them end with both messages there.
  void wait(int step) {
    switch (step % 4) {
      case 0:
        return wait_for_each();
      case 1:
        return wait_for_any();
      case 2:
        return test_each();
      default:
        return test_all();
    }
  }

 private:
  void wait_for_each() {
    for (MPI_Request& request : requests) MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  void wait_for_any() {
    for (size_t done = 0; done < requests.size(); ++done) {
      int index = 0;
      MPI_Waitany(2, requests.data(), &index, MPI_STATUS_IGNORE);
      if (index == MPI_UNDEFINED) fail("MPI_Waitany", "lost a request");
    }
  }
  void test_each() {
    for (MPI_Request& request : requests) {
      int done = 0;
      for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); done == 0;
           MPI_Test(&request, &done, MPI_STATUS_IGNORE)) {
        rest();
      }
    }
  }
  void test_all() {
    int done = 0;
    for (MPI_Testall(2, requests.data(), &done, MPI_STATUSES_IGNORE); done == 0;
         MPI_Testall(2, requests.data(), &done, MPI_STATUSES_IGNORE)) {
      rest();
    }
  }
};

// A word to the right and one from the left, each time by the same two requests.
class Words {
 public:
  explicit Words(const World& world) {
    MPI_Recv_init(&coming_, 1, MPI_UNSIGNED, world.left(), kWordTag, MPI_COMM_WORLD, &requests_[0]);
    MPI_Send_init(&going_, 1, MPI_UNSIGNED, world.right(), kWordTag, MPI_COMM_WORLD, &requests_[1]);
  }
  ~Words() {
    for (MPI_Request& request : requests_) MPI_Request_free(&request);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  void begin(unsigned word, bool together) {
    going_ = word;
    if (together) {
      MPI_Startall(2, requests_.data());
    } else {
      for (MPI_Request& request : requests_) MPI_Start(&request);
    }
  }
  unsigned end() {
    MPI_Waitall(2, requests_.data(), MPI_STATUSES_IGNORE);
    return coming_;
  }

 private:
  unsigned coming_ = 0, going_ = 0;
  std::array<MPI_Request, 2> requests_{};
};

class Ring {
 public:
  explicit Ring(const World& world) : world_(world), words_(world) {
    Random random(static_cast<uint64_t>(world.rank) + 1);
    std::vector<unsigned> cells(kCells);
    for (unsigned& cell : cells) cell = random.next();
    cells_.upload(cells);
  }

  void step(int step, int steps) {
    launch(advance_, kShape, nullptr, cells_.pointer(), static_cast<unsigned>(step));
    if (step + kAhead < steps) begin(step);
    if (step % 5 == 0) words_.begin(head(1)[0], step % 10 == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    launch(advance_, kShape, nullptr, cells_.pointer(), ~static_cast<unsigned>(step));
    if (step >= kAhead) end(step - kAhead);
    // Begun in the step before this one, but for the last step's.
    if (step % 5 == 1 || (step % 5 == 0 && step == steps - 1)) absorb({words_.end()});
    if (step % 3 == 1) absorb(exchange_heads());
  }

  std::vector<unsigned> cells() const { return cells_.download(); }

 private:
  static constexpr Shape kShape{.blocks = kCells / kThreads, .threads = kThreads};

  Flight& flight(int step) { return flights_[static_cast<size_t>(step % kInFlight)]; }

  void begin(int step) {
    Flight& flight = this->flight(step);
    const unsigned count = message_length(step);
    const int tag = kMessageTag + step % kMessageTags;
    MPI_Irecv(flight.coming.data(), kLongest, MPI_UNSIGNED, world_.left(), tag, MPI_COMM_WORLD,
              &flight.requests[0]);
    const Shape shape{.blocks = (count + kThreads - 1) / kThreads, .threads = kThreads};
    launch(pack_, shape, nullptr, cells_.pointer(), message_.pointer(), count);
    flight.going.resize(count);
    CHECK(cuMemcpyDtoH_v2(flight.going.data(), message_.address(), count * sizeof(unsigned)));
    MPI_Isend(flight.going.data(), static_cast<int>(count), MPI_UNSIGNED, world_.right(), tag,
              MPI_COMM_WORLD, &flight.requests[1]);
  }

  void end(int step) {
    Flight& flight = this->flight(step);
    flight.wait(step);
    const auto end = flight.coming.begin() + message_length(step);
    absorb({flight.coming.begin(), end});
  }

  void absorb(const std::vector<unsigned>& words) {
    message_.upload(words);
    launch(absorb_, kShape, nullptr, cells_.pointer(), message_.pointer(),
           static_cast<unsigned>(words.size()));
  }

  std::vector<unsigned> head(unsigned count) const {
    std::vector<unsigned> words(count);
    CHECK(cuMemcpyDtoH_v2(words.data(), cells_.address(), count * sizeof(unsigned)));
    return words;
  }

  std::vector<unsigned> exchange_heads() const {
    const std::vector<unsigned> own = head(kHead);
    std::vector<unsigned> theirs(kHead);
    MPI_Sendrecv(own.data(), kHead, MPI_UNSIGNED, world_.left(), kHeadTag, theirs.data(), kHead,
                 MPI_UNSIGNED, world_.right(), kHeadTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return theirs;
  }

  const World& world_;
  Module module_{kRingPtx};
  CUfunction advance_ = module_.function("advance");
  CUfunction pack_ = module_.function("pack");
  CUfunction absorb_ = module_.function("absorb");
  Buffer<unsigned> cells_{kCells}, message_{kLongest};
  std::array<Flight, kInFlight> flights_;
  Words words_;
};

int run(int steps) {
  const World world;
  Report report(world.rank);
  const Device device(ContextKind::kPrimary, own_device());
  Ring ring(world);
  for (int step = 0; step < steps; ++step) {
    ring.step(step, steps);
    const bool last = step == steps - 1;
    if (step % kReported == 0 || last) {
      report.line("step %d: digest %016" PRIx64, step, digest(ring.cells()));
    }
    if (step % kShown == 0 || last) report.progress("step %d", step);
  }
  return report.finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 240));
}
