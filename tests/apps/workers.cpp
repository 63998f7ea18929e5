// Four threads with a stream and cells each, that send each other messages in device memory: what
// one thread allocates and fills another one reads and frees. Which thread is where at which moment
// differs from run to run; what each computes does not. Now and then a worker has a thread of its
// own check something and end.
#include "workers.h"

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <thread>

#include "app.h"
#include "workers_ptx.h"

namespace app {

constexpr unsigned kWorkers = 4;
constexpr unsigned kThreads = 128;
constexpr int kReported = 5;  // every so many steps
constexpr int kChecked = 16;

template <class T>
class Queue {
 public:
  void push(T value) {
    const std::lock_guard lock(mutex_);
    values_.push(std::move(value));
    changed_.notify_all();
  }
  T pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !values_.empty(); });
    T value = std::move(values_.front());
    values_.pop();
    return value;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<T> values_;
};

unsigned message_length(unsigned worker, int step) {
  return kCells / 2 + (static_cast<unsigned>(step) * 37 + worker * 101) % (2 * kCells);
}

std::vector<unsigned> first_cells(unsigned worker) {
  Random random(worker + 1);
  std::vector<unsigned> cells(kCells);
  for (unsigned& cell : cells) cell = random.next();
  return cells;
}

// The same on the host, all workers in turn.
class Expected {
 public:
  void step(int step) {
    std::array<std::vector<unsigned>, kWorkers> messages;
    for (unsigned worker = 0; worker < kWorkers; ++worker) {
      std::vector<unsigned>& cells = cells_[worker];
      for (unsigned& cell : cells) {
        cell = advanced(cell, random_[worker].next(), static_cast<unsigned>(step));
      }
      for (unsigned at = 0; at < message_length(worker, step); ++at) {
        messages[(worker + 1) % kWorkers].push_back(cells[at % kCells] + at);
      }
    }
    for (unsigned worker = 0; worker < kWorkers; ++worker) {
      for (unsigned at = 0; at < messages[worker].size(); ++at) {
        unsigned& cell = cells_[worker][at % kCells];
        cell = absorbed(cell, messages[worker][at]);
      }
    }
  }
  const std::vector<unsigned>& cells(unsigned worker) const { return cells_[worker]; }

 private:
  std::array<std::vector<unsigned>, kWorkers> cells_{first_cells(0), first_cells(1), first_cells(2),
                                                     first_cells(3)};
  std::array<Random, kWorkers> random_{Random(10), Random(11), Random(12), Random(13)};
};

struct Kernels {
  explicit Kernels(const Module& module)
      : advance(module.function("advance")),
        pack(module.function("pack")),
        absorb(module.function("absorb")) {}
  CUfunction advance, pack, absorb;
};

using Message = std::optional<Buffer<unsigned>>;
using Cells = std::vector<unsigned>;

class Worker {
 public:
  Worker(unsigned number, CUcontext context, const Kernels& kernels, Queue<Message>& left,
         Queue<Message>& right)
      : number_(number), context_(context), kernels_(kernels), left_(left), right_(right) {}

  void run(int steps) {
    CHECK(cuCtxSetCurrent(context_));
    CHECK(cuStreamCreate(&stream_, number_ % 2 == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    {
      Buffer<unsigned> cells(first_cells(number_));
      Buffer<unsigned> noise(kCells);
      Pinned<unsigned> noise_here(kCells), cells_here(kCells);
      for (int step = 0; step < steps; ++step) {
        for (unsigned& value : noise_here.span()) value = random_.next();
        CHECK(cuMemcpyHtoDAsync_v2(noise.address(), noise_here.data(), noise.bytes(), stream_));
        launch(kernels_.advance, kShape, stream_, cells.pointer(), noise.pointer(),
               static_cast<unsigned>(step));
        send(cells, step);
        absorb(cells);
        CHECK(cuMemcpyDtoHAsync_v2(cells_here.data(), cells.address(), cells.bytes(), stream_));
        wait();
        const Cells seen(cells_here.span().begin(), cells_here.span().end());
        if (step % kReported == 0 || step == steps - 1) reports.push(seen);
        if (step % kChecked == static_cast<int>(number_)) compare(seen);
      }
    }
    CHECK(cuStreamDestroy_v2(stream_));
  }

  Queue<Cells> reports;

 private:
  static constexpr Shape kShape{.blocks = kCells / kThreads, .threads = kThreads};

  // Odd workers poll.
  void wait() {
    if (number_ % 2 == 0) {
      CHECK(cuStreamSynchronize(stream_));
      return;
    }
    CUresult result = CUDA_ERROR_NOT_READY;
    while ((result = cuStreamQuery(stream_)) == CUDA_ERROR_NOT_READY) usleep(100);
    CHECK(result);
  }

  void send(const Buffer<unsigned>& cells, int step) {
    Message message(message_length(number_, step));
    const auto count = static_cast<unsigned>(message->count());
    launch(kernels_.pack, Shape{.blocks = (count + kThreads - 1) / kThreads, .threads = kThreads},
           stream_, cells.pointer(), message->pointer(), count);
    wait();
    right_.push(std::move(message));
  }

  void absorb(const Buffer<unsigned>& cells) {
    Message message = left_.pop();
    launch(kernels_.absorb, kShape, stream_, cells.pointer(), message->pointer(),
           static_cast<unsigned>(message->count()));
    wait();
    message.reset();
  }

  // By a thread that lives for this alone.
  void compare(const Cells& seen) const {
    std::thread([&] {
      CHECK(cuCtxSetCurrent(context_));
      const Buffer<unsigned> copy(seen);
      must_equal("a copy of the cells", copy.download(), seen);
    }).join();
  }

  const unsigned number_;
  const CUcontext context_;
  const Kernels& kernels_;
  Queue<Message>& left_;
  Queue<Message>& right_;
  CUstream stream_ = nullptr;
  Random random_{number_ + 10};
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  const Module module(kWorkersPtx);
  const Kernels kernels(module);
  std::array<Queue<Message>, kWorkers> queues;  // each to the worker of that number
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned i = 0; i < kWorkers; ++i) {
    workers.push_back(
        std::make_unique<Worker>(i, context, kernels, queues[i], queues[(i + 1) % kWorkers]));
  }
  std::vector<std::thread> threads;
  for (auto& worker : workers) threads.emplace_back([&worker, steps] { worker->run(steps); });

  Expected expected;
  for (int step = 0; step < steps; ++step) {
    expected.step(step);
    if (step % kReported != 0 && step != steps - 1) continue;
    for (unsigned i = 0; i < kWorkers; ++i) {
      const Cells cells = workers[i]->reports.pop();
      std::printf("step %d: worker %u has %016" PRIx64 "\n", step, i, digest(cells));
      must_equal("cells", cells, expected.cells(i));
    }
  }
  for (std::thread& thread : threads) thread.join();
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 400));
}
