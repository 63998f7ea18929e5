// One of five small programs that write memory in different patterns, measured by the device's own
// events. Ordinary clients of the driver API: they know nothing of the library, but for the signal
// that they can be told to send themselves.
//
//   mini PROGRAM [--memory MIB] [--steps BEFORE AFTER] [--first] [--second] [--wait FILE]
//   mini PROGRAM [--memory MIB] --zones STEPS
//
// The first form runs a few steps, sends itself SIGUSR1 (--first), waits until FILE exists, and
// then takes the time of BEFORE steps, SIGUSR1 again (--second), and AFTER steps. The second form
// tells which parts of its device memory change. Both print one line of JSON, or several.
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "mini_ptx.h"
#include "tests/apps/app.h"
#include "tests/bench/mini/mini.h"
#include "tests/bench/mini/zones.h"

namespace app {

constexpr int kWarmUp = 3;  // steps before the first checkpoint

unsigned blocks_for(size_t threads) {
  return static_cast<unsigned>((threads + kMiniThreads - 1) / kMiniThreads);
}

std::vector<Four> noise(size_t count, uint64_t seed) {
  std::vector<Four> values(count);
  Random random(seed);
  for (Four& value : values) value = {random.unit(), random.unit(), random.unit(), 0.001f};
  return values;
}

class Program {
 public:
  virtual ~Program() = default;
  // Queues step number `step`, or does it.
  virtual void step(int step) = 0;
  // Its device memory, always in the same order.
  virtual std::vector<Range> memory() const = 0;
};

template <class... Buffers>
std::vector<Range> ranges_of(const Buffers&... buffers) {
  std::vector<Range> ranges{{buffers.address(), buffers.bytes()}...};
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.address < b.address; });
  return ranges;
}

// A quarter of the memory is written in turns of two; the rest is what flows in at certain steps.
class Stencil : public Program {
 public:
  explicit Stencil(size_t bytes)
      : width_(bytes <= kLarge ? 256 : 4096),
        height_(static_cast<int>(bytes / 8 / (static_cast<size_t>(width_) * sizeof(Four)))),
        heat_(noise(cells(), 1)),
        next_(heat_.count()),
        sources_(noise(cells() * kSlices, 2)) {}
  void step(int step) override {
    const Four* source = sources_.pointer() + cells() * static_cast<size_t>(step / 16 % kSlices);
    launch(flow_,
           {.blocks = blocks_for(static_cast<size_t>(width_)),
            .threads = kMiniThreads,
            .block_rows = static_cast<unsigned>(height_)},
           nullptr, heat_.address(), next_.address(), source, width_, height_);
    std::swap(heat_, next_);
  }

  std::vector<Range> memory() const override { return ranges_of(heat_, next_, sources_); }

 private:
  // A grid has at most 65,535 rows.
  static constexpr size_t kLarge = size_t{1} << 30;
  static constexpr int kSlices = 6;
  size_t cells() const { return static_cast<size_t>(width_) * static_cast<size_t>(height_); }

  Module module_{kMiniPtx};
  CUfunction flow_ = module_.function("flow");
  int width_, height_;
  Buffer<Four> heat_, next_, sources_;
};

// Places and speeds are written, a sixth of the memory or so; the table of partners is large.
class Particles : public Program {
 public:
  explicit Particles(size_t bytes)
      : count_(static_cast<int>(bytes / (3 * sizeof(Four) + kTables * kPartners * sizeof(int)))),
        places_(noise(static_cast<size_t>(count_), 3)),
        moved_(places_.count()),
        speeds_(noise(places_.count(), 4)),
        partners_(table()) {}
  void step(int step) override {
    const int* partners =
        partners_.pointer() + static_cast<size_t>(step / 8 % kTables * kPartners) * places_.count();
    launch(drift_, {.blocks = blocks_for(places_.count()), .threads = kMiniThreads}, nullptr,
           places_.address(), moved_.address(), speeds_.address(), partners, count_);
    std::swap(places_, moved_);
  }

  std::vector<Range> memory() const override {
    return ranges_of(places_, moved_, speeds_, partners_);
  }

 private:
  static constexpr int kTables = 8;  // for different times
  std::vector<int> table() const {
    std::vector<int> partners(static_cast<size_t>(count_) * kTables * kPartners);
    Random random(5);
    for (size_t i = 0; i < partners.size(); ++i) {
      const int self = static_cast<int>(i % static_cast<size_t>(count_));
      partners[i] = (self + static_cast<int>(random.below(512))) % count_;
    }
    return partners;
  }

  Module module_{kMiniPtx};
  CUfunction drift_ = module_.function("drift");
  int count_;
  Buffer<Four> places_, moved_, speeds_;
  Buffer<int> partners_;
};

// Conjugate gradients on one matrix after the other: vectors are written, matrices are not.
class Gradients : public Program {
 public:
  explicit Gradients(size_t bytes)
      : rows_(static_cast<int>(bytes / (kSystems * kRowBytes + 3 * sizeof(double)) / kMiniThreads *
                               kMiniThreads)),
        entries_(matrix()),
        columns_(places()),
        solutions_(std::vector<double>(count() * kSystems, 0.0)),
        residual_(count()),
        direction_(count()),
        product_(count()),
        sums_(count() / kMiniThreads) {}
  void step(int step) override {
    const size_t system = static_cast<size_t>(step / kIterations % kSystems);
    const size_t entry = system * kEntries * count();
    if (step % kIterations == 0 || norm_ == 0) begin(step);
    const Shape shape{.blocks = blocks_for(count()), .threads = kMiniThreads};
    launch(multiply_, shape, nullptr, entries_.pointer() + entry, columns_.pointer() + entry,
           direction_.address(), product_.address(), sums_.address(), rows_);
    const double along = norm_ / total();
    launch(improve_, shape, nullptr, solutions_.pointer() + system * count(), residual_.address(),
           direction_.address(), product_.address(), along, sums_.address());
    const double norm = total();
    launch(turn_, shape, nullptr, direction_.address(), residual_.address(), norm / norm_);
    norm_ = norm;
  }

  std::vector<Range> memory() const override {
    return ranges_of(entries_, columns_, solutions_, residual_, direction_, product_, sums_);
  }

 private:
  static constexpr int kSystems = 8;
  static constexpr int kIterations = 4;
  static constexpr size_t kRowBytes = kEntries * (sizeof(double) + sizeof(int)) + sizeof(double);

  size_t count() const { return static_cast<size_t>(rows_); }
  std::vector<double> matrix() const {
    std::vector<double> entries(count() * kEntries * kSystems, -1.0);
    for (size_t system = 0; system < kSystems; ++system) {
      for (size_t row = 0; row < count(); ++row) {
        entries[system * kEntries * count() + row] = 4.1 + static_cast<double>(system);
      }
    }
    return entries;
  }
  std::vector<int> places() const {
    std::vector<int> columns(count() * kEntries * kSystems);
    const int far = 256;
    const int offsets[kEntries] = {0, 1, -1, far, -far};
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto row = static_cast<int>(i % count());
      columns[i] = (row + offsets[i / count() % kEntries] + rows_) % rows_;
    }
    return columns;
  }
  void begin(int step) {
    std::vector<double> right(count(), 0.0);
    Random random(static_cast<uint64_t>(step) + 1);
    for (int i = 0; i < 64; ++i) right[random.below(static_cast<uint32_t>(rows_))] += 1.0;
    residual_.upload(right);
    direction_.upload(right);
    norm_ = 0;
    for (const double value : right) norm_ += value * value;
  }
  double total() const {
    double sum = 0;
    for (const double part : sums_.download()) sum += part;
    return sum;
  }

  Module module_{kMiniPtx};
  CUfunction multiply_ = module_.function("multiply");
  CUfunction improve_ = module_.function("improve");
  CUfunction turn_ = module_.function("turn");
  int rows_;
  double norm_ = 0;
  Buffer<double> entries_;
  Buffer<int> columns_;
  Buffer<double> solutions_, residual_, direction_, product_, sums_;
};

// Nearly all of the memory is written in each step, one eighth after the other.
class Sweep : public Program {
 public:
  explicit Sweep(size_t bytes)
      : sources_(noise(bytes / 16 / sizeof(Four), 6)), flux_(noise(sources_.count() * 15, 7)) {}
  void step(int step) override {
    const float strength = 1.0f + static_cast<float>(step % 7);
    const auto all = static_cast<int>(flux_.count());
    for (int part = 0; part < kParts; ++part) {
      const int begin = all / kParts * part;
      const int end = part == kParts - 1 ? all : begin + all / kParts;
      launch(transport_,
             {.blocks = blocks_for(static_cast<size_t>(end - begin)), .threads = kMiniThreads},
             nullptr, flux_.address(), sources_.address(), begin, end,
             static_cast<int>(sources_.count()), strength);
    }
  }

  std::vector<Range> memory() const override { return ranges_of(sources_, flux_); }

 private:
  static constexpr int kParts = 8;
  Module module_{kMiniPtx};
  CUfunction transport_ = module_.function("transport");
  Buffer<Four> sources_, flux_;
};

// A front that goes around in a quarter of the mesh: few blocks a step, and some pages of each.
class Adaptive : public Program {
 public:
  explicit Adaptive(size_t bytes)
      : blocks_(bytes / (kBlockCells * sizeof(Four))),
        mesh_(noise(blocks_ * kBlockCells, 8)),
        active_(std::max<size_t>(blocks_ / 40, 1)) {}
  void step(int step) override {
    std::vector<int> list(active_.count());
    const size_t ring = std::max<size_t>(blocks_ / 4, list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const size_t place = (static_cast<size_t>(step) * list.size() / 2 + i) % ring;
      list[i] = static_cast<int>(place * kStride % blocks_);
    }
    active_.upload(list);
    launch(refine_,
           {.blocks = kPagesWritten * kPageCells / kMiniThreads,
            .threads = kMiniThreads,
            .block_rows = static_cast<unsigned>(list.size())},
           nullptr, mesh_.address(), active_.address(), step);
  }

  std::vector<Range> memory() const override { return ranges_of(mesh_, active_); }

 private:
  static constexpr size_t kStride = 97;  // scatters the ring over the mesh
  Module module_{kMiniPtx};
  CUfunction refine_ = module_.function("refine");
  size_t blocks_;
  Buffer<Four> mesh_;
  Buffer<int> active_;
};

std::unique_ptr<Program> make(const std::string& name, size_t bytes) {
  if (name == "stencil") return std::make_unique<Stencil>(bytes);
  if (name == "particles") return std::make_unique<Particles>(bytes);
  if (name == "gradients") return std::make_unique<Gradients>(bytes);
  if (name == "sweep") return std::make_unique<Sweep>(bytes);
  if (name == "adaptive") return std::make_unique<Adaptive>(bytes);
  fail(name.c_str(), "there are stencil, particles, gradients, sweep and adaptive");
}

struct Options {
  std::string program;
  size_t bytes = size_t{64} << 20;
  int before = 8, after = 24;
  bool first = false, second = false;
  std::string wait;
  int zones = 0;  // steps; 0: the other form
};

int number_from(const char* text) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < 1 || value > 1'000'000) {
    fail(text, "expected a number from 1 to 1000000");
  }
  return static_cast<int>(value);
}

Options options_from(int argc, char** argv) {
  Options options;
  int at = 1;
  const auto next = [&]() -> const char* {
    if (at >= argc) fail("mini", "usage: mini PROGRAM [--memory MIB] [--steps BEFORE AFTER] ...");
    return argv[at++];
  };
  options.program = next();
  while (at < argc) {
    const std::string option = next();
    if (option == "--memory") {
      options.bytes = static_cast<size_t>(number_from(next())) << 20;
    } else if (option == "--steps") {
      options.before = number_from(next());
      options.after = number_from(next());
    } else if (option == "--first") {
      options.first = true;
    } else if (option == "--second") {
      options.second = true;
    } else if (option == "--wait") {
      options.wait = next();
    } else if (option == "--zones") {
      options.zones = number_from(next());
    } else {
      fail(option.c_str(), "is not an option");
    }
  }
  return options;
}

void do_steps(Program& program, int& step, int count) {
  for (int i = 0; i < count; ++i) {
    program.step(step++);
    CHECK(cuCtxSynchronize());
  }
}

// The time between two points of the default stream, by the device's clock.
int measure(const Options& options, Program& program) {
  CUevent start = nullptr, end = nullptr;
  CHECK(cuEventCreate(&start, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  int step = 0;
  do_steps(program, step, kWarmUp);
  if (options.first) {
    std::raise(SIGUSR1);
    CHECK(cuCtxSynchronize());
  }
  while (!options.wait.empty() && access(options.wait.c_str(), F_OK) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(cuEventRecord(start, nullptr));
  do_steps(program, step, options.before);
  if (options.second) std::raise(SIGUSR1);
  do_steps(program, step, options.after);
  CHECK(cuEventRecord(end, nullptr));
  CHECK(cuEventSynchronize(end));
  float milliseconds = 0;
  CHECK(cuEventElapsedTime(&milliseconds, start, end));
  std::printf("{\"program\": \"%s\", \"milliseconds\": %.6f}\n", options.program.c_str(),
              static_cast<double>(milliseconds));
  return 0;
}

int run(const Options& options) {
  // Without the library nobody takes the signal.
  std::signal(SIGUSR1, SIG_IGN);
  const Device device(ContextKind::kPrimary);
  const auto program = make(options.program, options.bytes);
  if (options.zones == 0) return measure(options, *program);
  int step = 0;
  do_steps(*program, step, kWarmUp);
  ZoneCounter counter(program->memory());
  for (int i = 1; i <= options.zones; ++i) {
    do_steps(*program, step, 1);
    counter.look(i);
  }
  counter.print(options.program);
  return 0;
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::options_from(argc, argv));
}
