// The device's part of wave.F90, as functions that Fortran can call.
#include "tests/apps/mpi/wave.h"

#include <bit>
#include <optional>
#include <tuple>
#include <utility>

#include "tests/apps/app.h"
#include "wave_ptx.h"

namespace app {

constexpr unsigned kThreads = 64;
constexpr double kRate = 0.5;

// A part of the string, from `first` on; it begins as a bump with ripples all over.
class Wave {
 public:
  Wave(int ordinal, unsigned first, unsigned cells, unsigned whole)
      : device_(ContextKind::kPrimary, ordinal),
        first_(first),
        cells_(cells),
        before_(at_start(first, cells, whole)),
        now_(at_start(first, cells, whole)),
        next_(at_start(first, cells, whole)) {}

  std::pair<double, double> ends() {
    launch(ends_, Shape{}, nullptr, now(), cells_, two_.pointer());
    const std::vector<double> two = two_.download();
    return {two[0], two[1]};
  }
  void extend(double left, double right) {
    launch(extend_, Shape{}, nullptr, now_.pointer(), cells_, left, right);
  }
  void step() {
    const Shape shape{.blocks = (cells_ + kThreads - 1) / kThreads, .threads = kThreads};
    launch(advance_, shape, nullptr, static_cast<const double*>(before_.pointer()), now(),
           next_.pointer(), cells_, kRate);
    std::swap(before_, now_);
    std::swap(now_, next_);
  }
  std::pair<uint64_t, double> measure() {
    launch(measure_, Shape{}, nullptr, now(), cells_, first_, digest_.pointer(),
           greatest_.pointer());
    return {digest_.download()[0], greatest_.download()[0]};
  }

 private:
  static double bump(unsigned at, unsigned whole) {
    const unsigned width = whole / 8;
    const unsigned distance = at > whole / 3 ? at - whole / 3 : whole / 3 - at;
    return distance < width ? static_cast<double>(width - distance) / width : 0.0;
  }
  static double ripple(unsigned at) { return 0x1p-32 * (at * 2654435761u >> 4); }
  static std::vector<double> at_start(unsigned first, unsigned cells, unsigned whole) {
    std::vector<double> values(cells + 2, 0.0);
    for (unsigned at = 0; at < cells; ++at)
      values[at + 1] = bump(first + at, whole) + ripple(first + at);
    return values;
  }
  const double* now() const { return now_.pointer(); }

  Device device_;
  Module module_{kWavePtx};
  CUfunction advance_ = module_.function("advance");
  CUfunction ends_ = module_.function("ends");
  CUfunction extend_ = module_.function("extend");
  CUfunction measure_ = module_.function("measure");
  unsigned first_, cells_;
  Buffer<double> before_, now_, next_;
  Buffer<double> two_{2}, greatest_{1};
  Buffer<unsigned long long> digest_{1};
};

std::optional<Wave> wave;

}  // namespace app

extern "C" {

int gpu_count() {
  int devices = 0;
  app::check(cuInit(0), "cuInit");
  app::check(cuDeviceGetCount(&devices), "cuDeviceGetCount");
  return devices;
}

void gpu_open(int device, int first, int cells, int whole) {
  app::wave.emplace(device, static_cast<unsigned>(first), static_cast<unsigned>(cells),
                    static_cast<unsigned>(whole));
}

void gpu_ends(double* left, double* right) {
  std::tie(*left, *right) = app::wave->ends();
}

void gpu_extend(double left, double right) {
  app::wave->extend(left, right);
}

void gpu_step() {
  app::wave->step();
}

void gpu_measure(uint64_t* digest, uint64_t* greatest) {
  const auto [sum, most] = app::wave->measure();
  *digest = sum;
  *greatest = std::bit_cast<uint64_t>(most);
}

void gpu_close() {
  app::wave.reset();
}

}  // extern "C"
