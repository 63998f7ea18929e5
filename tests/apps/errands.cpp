// A pool: four threads take tasks from one queue, whichever comes first, so each run gives a thread
// other tasks. A task does the same in any thread; each has cells and a stream of its own. All
// tasks of a round are done before the next round.
#include "errands.h"

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <random>
#include <thread>

#include "app.h"
#include "errands_ptx.h"

namespace app {

constexpr unsigned kTakers = 4, kTasks = 10, kGiven = 64, kThreads = 128;
constexpr Shape kShape{.blocks = kCells / kThreads, .threads = kThreads};

class Queue {
 public:
  void push(unsigned task) {
    const std::lock_guard lock(mutex_);
    tasks_.push(task);
    ++open_;
    changed_.notify_one();
  }
  // None: there will be no more.
  std::optional<unsigned> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || !tasks_.empty(); });
    if (tasks_.empty()) return std::nullopt;
    const unsigned task = tasks_.front();
    tasks_.pop();
    return task;
  }
  void done() {
    const std::lock_guard lock(mutex_);
    if (--open_ == 0) all_done_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    all_done_.wait(lock, [&] { return open_ == 0; });
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_, all_done_;
  std::queue<unsigned> tasks_;
  unsigned open_ = 0;  // that are not done
  bool ended_ = false;
};

using Given = std::array<unsigned, kGiven>;

Given given_to(unsigned task, unsigned round) {
  Given given;
  Random random(task * 1000 + round);
  for (unsigned& word : given) word = random.next();
  return given;
}

class Task {
 public:
  Task(unsigned number, CUfunction stir)
      : number_(number), stir_(stir), cells_(first_cells(number)), given_(kGiven) {
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  ~Task() { CHECK(cuStreamDestroy_v2(stream_)); }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  void run(unsigned round) {
    const Given given = given_to(number_, round);
    CHECK(cuMemcpyHtoDAsync_v2(given_.address(), given.data(), sizeof given, stream_));
    launch(stir_, kShape, stream_, cells_.pointer(), given_.pointer(), number_, round);
    if (number_ % 3 == 0) {
      const Buffer<unsigned> copy(cells_.count() + number_);
      CHECK(cuMemcpyDtoDAsync_v2(copy.address(), cells_.address(), cells_.bytes(), stream_));
      CHECK(cuMemcpyDtoDAsync_v2(cells_.address(), copy.address(), cells_.bytes(), stream_));
      CHECK(cuStreamSynchronize(stream_));
    }
    CHECK(cuMemcpyDtoHAsync_v2(&seen_, cells_.address() + 4 * number_, 4, stream_));
    CHECK(cuStreamSynchronize(stream_));
    for (unsigned at = 0; at < kCells; ++at) {
      expected_[at] = stirred(expected_[at], given[at % kGiven], number_, round);
    }
    if (seen_ != expected_[number_]) fail("a cell", "is not what it should be");
  }
  void compare() const { must_equal("cells", cells_.download(), expected_); }
  unsigned seen() const { return seen_; }

 private:
  static std::vector<unsigned> first_cells(unsigned number) {
    Random random(number + 1);
    std::vector<unsigned> cells(kCells);
    for (unsigned& cell : cells) cell = random.next();
    return cells;
  }

  const unsigned number_;
  const CUfunction stir_;
  Buffer<unsigned> cells_, given_;
  std::vector<unsigned> expected_ = first_cells(number_);
  CUstream stream_ = nullptr;
  unsigned seen_ = 0;
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  const Module module(kErrandsPtx);
  const CUfunction stir = module.function("stir");
  std::vector<std::unique_ptr<Task>> tasks;
  for (unsigned task = 0; task < kTasks; ++task)
    tasks.push_back(std::make_unique<Task>(task, stir));

  Queue queue;
  unsigned round = 0;
  std::vector<std::thread> takers;
  for (unsigned taker = 0; taker < kTakers; ++taker) {
    takers.emplace_back([&] {
      std::random_device chance;
      while (const auto task = queue.take()) {
        if (chance() % 3 == 0) usleep(chance() % 2000);
        CHECK(cuCtxSetCurrent(context));
        tasks[*task]->run(round);
        queue.done();
      }
    });
  }
  for (; round < static_cast<unsigned>(steps); ++round) {
    for (unsigned task = 0; task < kTasks; ++task) queue.push(task);
    queue.wait();
    uint64_t seen = 0;
    for (const auto& task : tasks) seen = seen * 31 + task->seen();
    if (round % 5 == 0) std::printf("round %u: %016" PRIx64 "\n", round, seen);
  }
  queue.end();
  for (std::thread& taker : takers) taker.join();
  for (const auto& task : tasks) task->compare();
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 200));
}
