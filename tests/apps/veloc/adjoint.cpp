// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a seismic misfit by the adjoint method. A forward pass lets waves run through a
// guessed section of the ground and stores the wavefield of every step; a backward pass runs the
// transposed steps from the last one to the first and needs the wavefields in reverse order. The
// gradient is compared with finite differences in a few cells.
#define VELOC_NO_MPI
#include "tests/apps/veloc/adjoint.h"

#include <cmath>
#include <optional>

#include "adjoint_ptx.h"
#include "tests/apps/app.h"
#include "tests/apps/veloc/options.h"
#include "tests/apps/veloc/wavefields.h"

namespace app {

constexpr const char* kUsage =
    "adjoint CONFIG [options]\n"
    "  --steps N         steps of time (96)\n"
    "  --width N         cells (48)\n"
    "  --height N        cells (32)\n"
    "  --hints WHICH     none, next, all: what the history is told about the backward pass\n"
    "  --sizes WHICH     uniform: whole wavefields; variable: the rows that the wave has reached\n"
    "  --wait            waits after the forward pass until all wavefields are in files\n"
    "  --cells N         in how many cells the gradient is checked (3)\n"
    "  --in-memory       keeps all wavefields in host memory, without a history\n"
    "  --times           tells how long the program was blocked";

constexpr unsigned kThreads = 32;
constexpr int kSourceRow = 1;
constexpr int kStepsForRowAndBack = 6;  // that a wave takes
constexpr double kMostError = 1e-7;
constexpr double kChange = 3e-4;  // of a velocity, for finite differences

struct Setup {
  int steps, cells;
  bool in_memory, variable, waits, times;
  History::Hints hints;
  Section section;
};

using Field = std::vector<double>;

size_t cells_of(const Section& section) {
  return static_cast<size_t>(section.width) * static_cast<size_t>(section.height);
}

// Velocities in cells a step: layers with a lens in them, or the guess, which knows of neither.
Field velocities(const Section& section, bool is_guess) {
  Field velocity;
  for (int y = 0; y < section.height; ++y) {
    for (int x = 0; x < section.width; ++x) {
      const double depth = static_cast<double>(y) / section.height;
      const double layer = depth > 0.6 ? 0.12 : depth > 0.3 ? 0.06 : 0.0;
      const double from_lens =
          std::hypot(static_cast<double>(x) / section.width - 0.5, depth - 0.4);
      const double guess = 0.38 + 0.1 * depth;
      velocity.push_back(is_guess ? guess : 0.36 + layer + (from_lens < 0.12 ? 0.07 : 0.0));
    }
  }
  return velocity;
}

class Ground {
 public:
  explicit Ground(const Setup& setup) : setup_(setup) {}

  // Returns the trace at the receivers, step by step. `wavefields` may be null.
  std::vector<Field> shoot(const Field& velocity, Wavefields* wavefields) {
    set_velocities(velocity);
    Buffer<double> before = zeros(), now = zeros(), next = zeros();
    std::vector<Field> heard;
    for (int step = 0; step < setup_.steps; ++step) {
      if (wavefields != nullptr) wavefields->store(step, now.address(), stored_bytes(step));
      launch(step_, shape(), nullptr, setup_.section, squared_.address(), now.address(),
             before.address(), next.address());
      launch(add_, {}, nullptr, next.address(), source_cell(), source(step));
      std::swap(before, now);
      std::swap(now, next);
      launch(record_, row(), nullptr, setup_.section, now.address(), trace_.address());
      heard.push_back(trace_.download());
    }
    return heard;
  }

  // The derivatives of misfit() with respect to the velocities.
  Field gradient(const Field& velocity, const std::vector<Field>& heard,
                 const std::vector<Field>& observed, Wavefields& wavefields) {
    set_velocities(velocity);
    Buffer<double> after = zeros(), now = zeros(), next = zeros();
    Buffer<double> field = zeros(), sum = zeros();
    for (int step = setup_.steps - 1; step >= 0; --step) {
      launch(step_back_, shape(), nullptr, setup_.section, squared_.address(), now.address(),
             after.address(), next.address());
      add_difference(heard[static_cast<size_t>(step)], observed[static_cast<size_t>(step)], next);
      std::swap(after, now);
      std::swap(now, next);
      load(wavefields, step, field);
      launch(accumulate_, shape(), nullptr, setup_.section, field.address(), now.address(),
             sum.address());
    }
    Field gradient = sum.download();
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] *= 2.0 * velocity[i];
    return gradient;
  }

  static double misfit(const std::vector<Field>& heard, const std::vector<Field>& observed) {
    double sum = 0;
    for (size_t step = 0; step < heard.size(); ++step) {
      for (size_t x = 1; x + 1 < heard[step].size(); ++x) {
        const double difference = heard[step][x] - observed[step][x];
        sum += difference * difference;
      }
    }
    return sum / 2;
  }

  // The first rows of the wavefield before a step: the wave has not got any further.
  size_t stored_bytes(int step) const {
    const int reached = kSourceRow + step;
    const int rows =
        setup_.variable ? std::min(reached, setup_.section.height) : setup_.section.height;
    return static_cast<size_t>(rows) * static_cast<size_t>(setup_.section.width) * sizeof(double);
  }

 private:
  Shape shape() const {
    return {.blocks = (static_cast<unsigned>(setup_.section.width) + kThreads - 1) / kThreads,
            .threads = kThreads,
            .block_rows = static_cast<unsigned>(setup_.section.height)};
  }
  Shape row() const {
    Shape shape = this->shape();
    shape.block_rows = 1;
    return shape;
  }

  Buffer<double> zeros() const {
    Buffer<double> field(cells_of(setup_.section));
    CHECK(cuMemsetD8_v2(field.address(), 0, field.bytes()));
    return field;
  }

  void set_velocities(const Field& velocity) {
    Field squared;
    for (const double each : velocity) squared.push_back(each * each);
    squared_.upload(squared);
  }

  int source_cell() const { return kSourceRow * setup_.section.width + setup_.section.width / 3; }
  // A short pulse (the second derivative of a Gaussian).
  static double source(int step) {
    const double at = (step - 10) / 3.5;
    return (1.0 - at * at) * std::exp(-at * at / 2);
  }

  void add_difference(const Field& heard, const Field& observed, Buffer<double>& field) {
    trace_.upload(heard);
    observed_.upload(observed);
    launch(add_difference_, row(), nullptr, setup_.section, trace_.address(), observed_.address(),
           field.address());
  }

  // Where the wave has not been, the field is zero.
  void load(Wavefields& wavefields, int step, Buffer<double>& field) const {
    CHECK(cuMemsetD8_v2(field.address(), 0, field.bytes()));
    if (wavefields.load(step, field.address()) != stored_bytes(step)) {
      fail("wavefield", "has another size than was stored");
    }
  }

  const Setup setup_;
  Module module_{kAdjointPtx};
  CUfunction step_ = module_.function("step");
  CUfunction step_back_ = module_.function("step_back");
  CUfunction add_ = module_.function("add");
  CUfunction record_ = module_.function("record");
  CUfunction add_difference_ = module_.function("add_difference");
  CUfunction accumulate_ = module_.function("accumulate");
  Buffer<double> squared_{cells_of(setup_.section)};
  Buffer<double> trace_{static_cast<size_t>(setup_.section.width)};
  Buffer<double> observed_{static_cast<size_t>(setup_.section.width)};
};

// In each of `count` layers that the waves have crossed twice: the cell where the gradient is
// largest.
std::vector<size_t> cells_to_check(const Setup& setup, const Field& gradient) {
  const int depth = std::min(setup.section.height / 2, setup.steps / kStepsForRowAndBack);
  std::vector<size_t> cells;
  for (int layer = 0; layer < setup.cells; ++layer) {
    const auto begin = gradient.begin() + depth * layer / setup.cells * setup.section.width;
    const auto end = gradient.begin() + depth * (layer + 1) / setup.cells * setup.section.width;
    const auto largest =
        std::max_element(begin, end, [](double a, double b) { return std::abs(a) < std::abs(b); });
    cells.push_back(static_cast<size_t>(largest - gradient.begin()));
  }
  return cells;
}

// By central differences of the fourth order.
double derivative(Ground& ground, const Field& velocity, const std::vector<Field>& observed,
                  size_t cell) {
  const auto misfit = [&](double change) {
    Field changed = velocity;
    changed[cell] += change;
    return Ground::misfit(ground.shoot(changed, nullptr), observed);
  };
  const double near = misfit(kChange) - misfit(-kChange);
  const double far = misfit(2 * kChange) - misfit(-2 * kChange);
  return (8 * near - far) / (12 * kChange);
}

void check_gradient(const Setup& setup, Ground& ground, const Field& velocity,
                    const std::vector<Field>& observed, const Field& gradient) {
  for (const size_t cell : cells_to_check(setup, gradient)) {
    const double expected = derivative(ground, velocity, observed, cell);
    const double error = std::abs(gradient[cell] / expected - 1);
    const auto width = static_cast<size_t>(setup.section.width);
    std::printf("cell %zu,%zu: gradient %.9g, finite differences %.9g, relative error %.1e\n",
                cell % width, cell / width, gradient[cell], expected, error);
    if (!(error < kMostError)) fail("gradient", "differs from finite differences");
  }
}

Setup setup_of(Options& options) {
  Setup setup = {};
  setup.steps = options.number("--steps", 96, 1);
  setup.section = {options.number("--width", 48, 8), options.number("--height", 32, 8)};
  setup.variable = options.choice("--sizes", {"uniform", "variable"}) == "variable";
  const std::string hints = options.choice("--hints", {"none", "next", "all"});
  setup.hints = hints == "all"    ? History::Hints::kAll
                : hints == "next" ? History::Hints::kNext
                                  : History::Hints::kNone;
  setup.waits = options.flag("--wait");
  setup.cells = options.number("--cells", 3);
  setup.in_memory = options.flag("--in-memory");
  setup.times = options.flag("--times");
  options.finish();
  return setup;
}

int run(Options options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Setup setup = setup_of(options);
  const Device device(ContextKind::kPrimary);
  Ground ground(setup);
  const std::vector<Field> observed = ground.shoot(velocities(setup.section, false), nullptr);
  const Field velocity = velocities(setup.section, true);

  InMemory memory;
  std::optional<History> history;
  if (!setup.in_memory) history.emplace(options.config(), setup.steps, setup.hints);
  Wavefields& wavefields = history ? static_cast<Wavefields&>(*history) : memory;
  const std::vector<Field> heard = ground.shoot(velocity, &wavefields);
  std::printf("forward pass: misfit %.12g\n", Ground::misfit(heard, observed));
  if (setup.times && history) std::printf("blocked to store: %.1f ms\n", history->storing() * 1e3);
  if (history && setup.waits) history->wait();
  wavefields.begin_backward_pass();
  const Field gradient = ground.gradient(velocity, heard, observed, wavefields);
  std::printf("backward pass: gradient %016" PRIx64 "\n", digest(gradient));
  if (setup.times && history) std::printf("blocked to load: %.1f ms\n", history->loading() * 1e3);
  check_gradient(setup, ground, velocity, observed, gradient);
  if (history) history->finish();
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::Options(argc, argv, app::kUsage));
}
