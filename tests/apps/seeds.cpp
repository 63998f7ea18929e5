// Seeds from all that no run finds as another did: clocks and random bytes, in each of the ways
// that programs take, before the first CUDA call and in the first steps, by several threads. No two
// runs print the same.
//
// Threads wait for one another with a deadline that they never reach.
#include "seeds.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "app.h"
#include "seeds_ptx.h"

namespace app {

constexpr int kSownSteps = 8;  // in which more is drawn
constexpr unsigned kThreads = 128;
constexpr size_t kWorkers = 2;

class Seed {
 public:
  template <class T>
  void mix(const T& value) {
    state_ = digest(std::span<const T>(&value, 1), state_);
  }
  uint64_t state() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325u;
};

void mix_clock(Seed& seed, clockid_t clock) {
  timespec now = {};
  if (clock_gettime(clock, &now) != 0) fail("clock_gettime", "it has failed");
  seed.mix(now.tv_sec);
  seed.mix(now.tv_nsec);
}

void mix_devices(Seed& seed) {
  uint64_t bytes = 0;
  std::array<char, 5000> many = {};
  FILE* const file = std::fopen("/dev/urandom", "rb");
  if (file == nullptr || std::fread(&bytes, sizeof bytes, 1, file) != 1) fail("fopen", "no bytes");
  std::fclose(file);
  seed.mix(bytes);
  // As programs do that do not want to take more of it than they need.
  FILE* const unbuffered = std::fopen("/dev/urandom", "rb");
  const bool is_read = unbuffered != nullptr && std::setvbuf(unbuffered, nullptr, _IONBF, 0) == 0 &&
                       std::fread(many.data(), many.size(), 1, unbuffered) == 1;
  if (!is_read) fail("setvbuf", "no bytes");
  std::fclose(unbuffered);
  seed.mix(many);
  const int descriptor = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  const bool whole = read(descriptor, &bytes, sizeof bytes) == sizeof bytes &&
                     read(descriptor, many.data(), many.size()) == ssize_t{many.size()};
  if (!whole) fail("open", "no bytes");
  close(descriptor);
  seed.mix(bytes);
  seed.mix(many);
  std::ifstream stream("/dev/random", std::ios::binary);
  if (!stream.read(reinterpret_cast<char*>(&bytes), sizeof bytes)) fail("ifstream", "no bytes");
  seed.mix(bytes);
  // It may be an instruction of the processor's that is asked by another name.
  std::random_device device("/dev/urandom");
  seed.mix(device());
}

uint64_t drawn_at_the_start() {
  Seed seed;
  seed.mix(time(nullptr));
  timeval now = {};
  (void)gettimeofday(&now, nullptr);
  seed.mix(now.tv_sec);
  seed.mix(now.tv_usec);
  timespec utc = {};
  (void)timespec_get(&utc, TIME_UTC);
  seed.mix(utc.tv_nsec);
  seed.mix(clock());
  for (const clockid_t clock :
       {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
        CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME}) {
    mix_clock(seed, clock);
  }
  seed.mix(std::chrono::steady_clock::now().time_since_epoch().count());
  uint64_t bytes = 0;
  if (getrandom(&bytes, sizeof bytes, 0) != sizeof bytes) fail("getrandom", "no bytes");
  seed.mix(bytes);
  if (getentropy(&bytes, sizeof bytes) != 0) fail("getentropy", "no bytes");
  seed.mix(bytes);
#if __GLIBC_PREREQ(2, 36)
  seed.mix(arc4random());
  arc4random_buf(&bytes, sizeof bytes);
  seed.mix(bytes);
  seed.mix(arc4random_uniform(1'000'000));
#endif
  mix_devices(seed);
  return seed.state();
}

// Where another file has taken the place of a random device, what is read is its own.
void read_what_took_its_place() {
  const pid_t own = getpid();
  pid_t got = 0;
  std::array<int, 2> pipe_ends{};
  const int descriptor = open("/dev/urandom", O_RDONLY);
  if (pipe(pipe_ends.data()) != 0 || dup2(pipe_ends[0], descriptor) != descriptor ||
      write(pipe_ends[1], &own, sizeof own) != sizeof own ||
      read(descriptor, &got, sizeof got) != sizeof got || got != own) {
    fail("dup2", "other bytes than those in the pipe");
  }
  for (const int each : {descriptor, pipe_ends[0], pipe_ends[1]}) close(each);
}

sigjmp_buf ahead;

// As programs do that limit how long something takes: a signal's handler never returns to where it
// came, which is while a clock is asked, most of the time.
void leave_clocks_by_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { siglongjmp(ahead, 1); };
  sigaction(SIGALRM, &action, nullptr);
  const itimerval soon = {{}, {0, 500}};
  static int left = 0;  // not in a register, which would be as it was
  for (left = 10; left > 0; --left) {
    if (sigsetjmp(ahead, 1) != 0) continue;
    setitimer(ITIMER_REAL, &soon, nullptr);
    for (timespec now = {};;) clock_gettime(CLOCK_BOOTTIME, &now);
  }
}

// A child draws other numbers than its parent, in a replay too.
void part_with_a_child(Seed& seed) {
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) fail("pipe", "none");
  const pid_t child = fork();
  uint64_t own = 0, others = 0;
  if (getrandom(&own, sizeof own, 0) != sizeof own) fail("getrandom", "no bytes");
  if (child == 0) _exit(write(pipe_ends[1], &own, sizeof own) == sizeof own ? 0 : 1);
  if (read(pipe_ends[0], &others, sizeof others) != sizeof others) fail("read", "no child");
  if (own == others) fail("fork", "a child has drawn the same as its parent");
  waitpid(child, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  seed.mix(own);
}

// Has what one thread gives another, once at a time.
template <class T>
class Place {
 public:
  void put(T value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
    changed_.notify_all();
  }
  T take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::minutes(10), [&] { return value_.has_value(); })) {
      fail("wait_for", "nobody has come in time");
    }
    return *std::exchange(value_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<T> value_;
};

// Some cells on the device, and what they must be.
class Bed {
 public:
  // With more or less room, so that another seed is another call.
  Bed(CUfunction grow, uint64_t seed) : grow_(grow), random_(seed), spare_(1 + seed % 1'000'000) {
    for (unsigned& cell : expected_) cell = random_.next();
    cells_.upload(expected_);
    CHECK(cuStreamCreate(&stream_, 0));
  }
  ~Bed() { CHECK(cuStreamDestroy_v2(stream_)); }
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;

  uint64_t step(unsigned number) {
    if (number < kSownSteps) sow();
    std::vector<unsigned> noise(kSeededCells);
    for (unsigned& value : noise) value = random_.next();
    noise_.upload(noise);
    launch(grow_, Shape{.blocks = kSeededCells / kThreads, .threads = kThreads}, stream_,
           cells_.pointer(), noise_.pointer(), number);
    for (unsigned at = 0; at < kSeededCells; ++at) {
      expected_[at] = grown(expected_[at], noise[at], number);
    }
    CHECK(cuStreamSynchronize(stream_));
    must_equal("cells", cells_.download(), expected_);
    return digest(expected_);
  }

 private:
  // By a clock that the deadlines are not reckoned by.
  void sow() {
    Seed seed;
    mix_clock(seed, CLOCK_REALTIME);
    uint32_t bytes = 0;
    if (getrandom(&bytes, sizeof bytes, 0) != sizeof bytes) fail("getrandom", "no bytes");
    seed.mix(bytes);
    seed.mix(random_.next());
    random_ = Random(seed.state());
  }

  CUfunction grow_;
  Random random_;
  std::vector<unsigned> expected_ = std::vector<unsigned>(kSeededCells);
  Buffer<unsigned> cells_{kSeededCells}, noise_{kSeededCells}, spare_;
  CUstream stream_ = nullptr;
};

int run(int steps) {
  Seed at_first;
  part_with_a_child(at_first);
  at_first.mix(drawn_at_the_start());
  read_what_took_its_place();
  leave_clocks_by_signals();
  const uint64_t seed = at_first.state();
  const Device device(ContextKind::kPrimary);
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  const Module module(kSeedsPtx);
  CUfunction grow = module.function("grow");

  std::array<Place<unsigned>, kWorkers> orders;
  std::array<Place<uint64_t>, kWorkers> results;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kWorkers; ++i) {
    threads.emplace_back([&, i] {
      const uint64_t own = drawn_at_the_start();
      CHECK(cuCtxSetCurrent(context));
      Bed bed(grow, own + i);
      for (int step = 0; step < steps; ++step) results[i].put(bed.step(orders[i].take()));
    });
  }
  {
    Bed bed(grow, seed);
    for (int step = 0; step < steps; ++step) {
      const auto number = static_cast<unsigned>(step);
      for (auto& order : orders) order.put(number);
      std::printf("step %d: %016" PRIx64 "\n", step, bed.step(number));
      for (auto& result : results) std::printf("  a worker: %016" PRIx64 "\n", result.take());
    }
    for (std::thread& thread : threads) thread.join();
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 400));
}
