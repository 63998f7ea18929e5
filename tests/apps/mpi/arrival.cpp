// Arithmetic that depends on the order in which messages arrive. Each step the workers, all ranks
// but the first, send it a value each, after a delay of pure chance; it takes them as they come, in
// one of nine ways, every other time after a delay of its own, and folds each into a state on its
// device. How often it looked in vain and what MPI_Wtime said go into the state too. All that it
// depended on is told, so that check_arrival.py can compute it again. A rank alone is its own
// worker.
#include "tests/apps/mpi/arrival.h"

#include <array>
#include <bit>
#include <optional>

#include "arrival_ptx.h"
#include "tests/apps/mpi/ranks.h"

namespace app {

constexpr unsigned kThreads = 64;
constexpr unsigned kLongest = 16384;
constexpr unsigned kMicroseconds = 300;
constexpr int kShown = 20;
constexpr Word kFirstState = 0x5eed;

// The tag and the length of a message say who sent it and when.
int message_tag(int step, int source) {
  return source * 100 + step % 100;
}
unsigned message_length(int step, int source) {
  const auto spread = static_cast<unsigned>(step * 7 + source * 13);
  // One of seven messages is too long for MPI to hand it over at once.
  return step % 7 == 3 ? kLongest - spread % 1000 : 1 + spread % 50;
}

// Waits for as long as chance has it. That is never part of what is computed.
class Delay {
 public:
  void wait() { usleep(random_.below(kMicroseconds)); }

 private:
  Random random_{static_cast<uint64_t>(getpid())};
};

std::vector<Word> first_cells(int rank) {
  std::vector<Word> cells(kCells);
  for (unsigned at = 0; at < kCells; ++at) {
    cells[at] = static_cast<Word>(rank + 1) * kSpread * (at + 1);
  }
  return cells;
}

Word time_bits() {
  return std::bit_cast<Word>(MPI_Wtime());
}

struct Kernels {
  explicit Kernels(const Module& module)
      : stir(module.function("stir")),
        sum(module.function("sum")),
        pack(module.function("pack")),
        fold(module.function("fold")) {}
  CUfunction stir, sum, pack, fold;
};

// The state on a rank's device.
class State {
 public:
  explicit State(const Kernels& kernels) : kernels_(kernels) {}

  void fold(Word value) { launch(kernels_.fold, Shape{}, nullptr, state_.pointer(), value); }
  // Everyone's becomes the first rank's.
  Word share() {
    Word state = state_.download()[0];
    MPI_Bcast(&state, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    state_.upload({state});
    return state;
  }
  const Word* pointer() const { return state_.pointer(); }

 private:
  const Kernels& kernels_;
  Buffer<Word> state_{std::vector<Word>{kFirstState}};
};

class Worker {
 public:
  Worker(int rank, const Kernels& kernels, const State& state)
      : rank_(rank), kernels_(kernels), state_(state), cells_(first_cells(rank)) {}

  void send(int step, Report& report) {
    const Word time = time_bits();
    launch(kernels_.stir, Shape{.blocks = kCells / kThreads, .threads = kThreads}, nullptr,
           cells_.pointer(), state_.pointer(), time);
    launch(kernels_.sum, Shape{}, nullptr, static_cast<const Word*>(cells_.pointer()),
           value_.pointer());
    launch(kernels_.pack, Shape{.blocks = kLongest / 128, .threads = 128}, nullptr,
           static_cast<const Word*>(value_.pointer()), packed_.pointer(), kLongest);
    const unsigned count = message_length(step, rank_);
    message_.resize(count);
    CHECK(cuMemcpyDtoH_v2(message_.data(), packed_.address(), count * sizeof(Word)));
    report.line("step %d wtime 0x%016llx value 0x%016llx", step, time, message_[0]);
    delay_.wait();
    MPI_Isend(message_.data(), static_cast<int>(count), MPI_UINT64_T, 0, message_tag(step, rank_),
              MPI_COMM_WORLD, &request_);
  }
  void sent() { MPI_Wait(&request_, MPI_STATUS_IGNORE); }

 private:
  const int rank_;
  const Kernels& kernels_;
  const State& state_;
  Buffer<Word> cells_;
  Buffer<Word> value_{1}, packed_{kLongest};
  std::vector<Word> message_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  Delay delay_;
};

// The messages of one step as they come to the master.
class Arrivals {
 public:
  Arrivals(const World& world, State& state, int step)
      : state_(state),
        step_(step),
        first_(world.size == 1 ? 0 : 1),
        count_(world.size - first_),
        messages_(static_cast<size_t>(count_), std::vector<Word>(kLongest)),
        requests_(messages_.size(), MPI_REQUEST_NULL) {}

  void by_receive() {
    for (int i = 0; i < count_; ++i) {
      MPI_Status status;
      MPI_Recv(messages_[0].data(), kLongest, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG,
               MPI_COMM_WORLD, &status);
      take(messages_[0], status);
    }
  }

  void by_probe() {
    for (int i = 0; i < count_; ++i) {
      MPI_Status status;
      MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      receive(status);
    }
  }

  void by_polled_probe() {
    for (int i = 0; i < count_; ++i) {
      MPI_Status status;
      poll([&](int* found) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, found, &status);
      });
      receive(status);
    }
  }

  // They were posted in the step before this one.
  void by_waiting_for_all() {
    std::vector<MPI_Status> statuses(messages_.size());
    MPI_Waitall(count_, requests_.data(), statuses.data());
    for (size_t i = 0; i < messages_.size(); ++i) take(messages_[i], statuses[i]);
  }

  void by_waiting_for_any() {
    post_each();
    for (int i = 0; i < count_; ++i) {
      int index = MPI_UNDEFINED;
      MPI_Status status;
      MPI_Waitany(count_, requests_.data(), &index, &status);
      take(messages_[static_cast<size_t>(index)], status);
    }
  }

  void by_waiting_for_some() {
    post_each();
    while (arrived() < count_) {
      Some some(count_);
      MPI_Waitsome(count_, requests_.data(), &some.count, some.indices.data(),
                   some.statuses.data());
      take(some);
    }
  }

  void by_testing_any() {
    post_each();
    for (int i = 0; i < count_; ++i) {
      int index = MPI_UNDEFINED;
      MPI_Status status;
      poll([&](int* done) { MPI_Testany(count_, requests_.data(), &index, done, &status); });
      take(messages_[static_cast<size_t>(index)], status);
    }
  }

  void by_testing_some() {
    post_each();
    while (arrived() < count_) {
      Some some(count_);
      poll([&](int* done) {
        MPI_Testsome(count_, requests_.data(), done, some.indices.data(), some.statuses.data());
        some.count = *done;
      });
      take(some);
    }
  }

  void by_testing_each() {
    post_each();
    while (arrived() < count_) {
      for (int i = 0; i < count_; ++i) test(i);
    }
  }

  void post_for_any() {
    for (int i = 0; i < count_; ++i) post(i, MPI_ANY_SOURCE, MPI_ANY_TAG);
  }

  // Folds into the state what it depends on besides the values.
  void finish(const char* way, Report& report) {
    for (const int group : groups_) state_.fold(static_cast<Word>(group));
    state_.fold(polls_);
    const Word time = time_bits();
    state_.fold(time);
    report.line("step %d %s order%s groups%s polls %llu wtime 0x%016llx", step_, way,
                listed(order_).c_str(), listed(groups_).c_str(), polls_, time);
  }

 private:
  // The results of MPI_Waitsome and MPI_Testsome.
  struct Some {
    explicit Some(int most)
        : indices(static_cast<size_t>(most)), statuses(static_cast<size_t>(most)) {}
    int count = 0;
    std::vector<int> indices;
    std::vector<MPI_Status> statuses;
  };

  static std::string listed(const std::vector<int>& numbers) {
    std::string text;
    for (const int number : numbers) text += ' ' + std::to_string(number);
    return text;
  }

  int arrived() const { return static_cast<int>(order_.size()); }

  void post(int index, int source, int tag) {
    const auto at = static_cast<size_t>(index);
    MPI_Irecv(messages_[at].data(), kLongest, MPI_UINT64_T, source, tag, MPI_COMM_WORLD,
              &requests_[at]);
  }
  // A receive for each worker.
  void post_each() {
    for (int i = 0; i < count_; ++i) post(i, first_ + i, message_tag(step_, first_ + i));
  }

  // Until `look` finds something; how often it did not is counted.
  template <class Look>
  void poll(Look look) {
    int found = 0;
    for (look(&found); found == 0; look(&found)) {
      ++polls_;
      rest();
    }
  }

  void test(int index) {
    MPI_Request& request = requests_[static_cast<size_t>(index)];
    if (request == MPI_REQUEST_NULL) return;
    int done = 0;
    MPI_Status status;
    MPI_Test(&request, &done, &status);
    if (done != 0) {
      take(messages_[static_cast<size_t>(index)], status);
    } else {
      ++polls_;
      rest();
    }
  }

  // Receives the message that a probe found.
  void receive(const MPI_Status& probed) {
    int count = 0;
    MPI_Get_count(&probed, MPI_UINT64_T, &count);
    MPI_Status status;
    MPI_Recv(messages_[0].data(), count, MPI_UINT64_T, probed.MPI_SOURCE, probed.MPI_TAG,
             MPI_COMM_WORLD, &status);
    take(messages_[0], status);
  }

  void take(const Some& some) {
    for (size_t i = 0; i < static_cast<size_t>(some.count); ++i) {
      take(messages_[static_cast<size_t>(some.indices[i])], some.statuses[i]);
    }
    groups_.push_back(some.count);
  }

  void take(const std::vector<Word>& message, const MPI_Status& status) {
    const int source = status.MPI_SOURCE;
    int count = 0;
    MPI_Get_count(&status, MPI_UINT64_T, &count);
    if (status.MPI_TAG != message_tag(step_, source)) fail("message", "has a wrong tag");
    const unsigned length = message_length(step_, source);
    if (count != static_cast<int>(length)) fail("message", "has a wrong length");
    if (message[length - 1] != message[0] + length - 1) fail("message", "has a wrong end");
    order_.push_back(source);
    state_.fold(message[0]);
  }

  State& state_;
  const int step_, first_, count_;
  std::vector<std::vector<Word>> messages_;
  std::vector<MPI_Request> requests_;
  std::vector<int> order_, groups_;
  Word polls_ = 0;
};

struct Way {
  const char* name;
  void (Arrivals::*take)();
};
constexpr std::array kWays{
    Way{"recv", &Arrivals::by_receive},
    Way{"probe", &Arrivals::by_probe},
    Way{"iprobe", &Arrivals::by_polled_probe},
    Way{"waitall", &Arrivals::by_waiting_for_all},
    Way{"waitany", &Arrivals::by_waiting_for_any},
    Way{"waitsome", &Arrivals::by_waiting_for_some},
    Way{"testany", &Arrivals::by_testing_any},
    Way{"testsome", &Arrivals::by_testing_some},
    Way{"test", &Arrivals::by_testing_each},
};

class Master {
 public:
  Master(const World& world, State& state) : world_(world), state_(state) { prepare(0); }

  void receive(int step, Report& report) {
    const Way& way = way_of(step);
    if (step % 2 == 1) delay_.wait();
    ((*arrivals_).*way.take)();
    arrivals_->finish(way.name, report);
  }
  // Before the barrier that comes before this step. Receives of any message lie across it.
  void prepare(int step) {
    arrivals_.emplace(world_, state_, step);
    if (way_of(step).take == &Arrivals::by_waiting_for_all) arrivals_->post_for_any();
  }

 private:
  static const Way& way_of(int step) { return kWays[static_cast<size_t>(step) % kWays.size()]; }

  const World& world_;
  State& state_;
  std::optional<Arrivals> arrivals_;
  Delay delay_;
};

int run(int steps) {
  const World world;
  Report report(world.rank);
  const Device device(ContextKind::kOwn, own_device());
  const Module module(kArrivalPtx);
  const Kernels kernels(module);
  State state(kernels);
  std::optional<Worker> worker;
  std::optional<Master> master;
  if (world.rank > 0 || world.size == 1) worker.emplace(world.rank, kernels, state);
  if (world.rank == 0) master.emplace(world, state);
  for (int step = 0; step < steps; ++step) {
    const bool last = step == steps - 1;
    if (worker) worker->send(step, report);
    if (master) master->receive(step, report);
    if (worker) worker->sent();
    report.line("step %d state 0x%016llx", step, state.share());
    if (master && !last) master->prepare(step + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (step % kShown == 0 || last) report.progress("step %d", step);
  }
  return report.finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 240));
}
