// Heat on a plate that is divided among the ranks in strips: each step they exchange the outermost
// rows, while the inner ones are computed, and agree on the greatest change, which decides the end.
// That agreement is the only collective: there is no barrier.
#include "tests/apps/mpi/halo.h"

#include <array>
#include <bit>

#include "halo_ptx.h"
#include "tests/apps/mpi/ranks.h"

namespace app {

constexpr int kWidth = 192;
constexpr int kHeight = 192;
constexpr unsigned kThreads = 32;
constexpr float kBound = 0.0009f;
constexpr int kReported = 5;  // every so many steps
constexpr int kShown = 50;

// The plate's edge: warm above, warmer to the right.
float heat_at_edge(int x, int y) {
  if (y < 0) return static_cast<float>(x) / kWidth;
  return x == kWidth - 1 ? 1.0f : 0.0f;
}

class Plate {
 public:
  explicit Plate(const World& world)
      : above_(world.rank > 0 ? world.rank - 1 : MPI_PROC_NULL),
        below_(world.rank + 1 < world.size ? world.rank + 1 : MPI_PROC_NULL),
        first_(kHeight * world.rank / world.size),
        rows_(kHeight * (world.rank + 1) / world.size - first_) {
    if (world.size > kHeight) fail("halo", "a strip needs a row");
  }

  // The greatest change of any cell of the plate.
  float step() {
    const Strip strip{heat_.pointer(), next_.pointer(), kWidth};
    if (rows_ > 2) relax(strip, 2, rows_ - 2);
    exchange();
    relax(strip, 1, 1);
    if (rows_ > 1) relax(strip, rows_, 1);
    const float here = change(strip);
    std::swap(heat_, next_);
    float everywhere = 0;
    MPI_Allreduce(&here, &everywhere, 1, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    return everywhere;
  }

  std::vector<float> heat() const {
    const std::vector<float> all = heat_.download();
    return {all.begin() + kWidth, all.end() - kWidth};
  }

 private:
  static constexpr int kUp = 1, kDown = 2;  // tags

  std::vector<float> at_start() const {
    std::vector<float> heat;
    for (int y = first_ - 1; y <= first_ + rows_; ++y) {
      for (int x = 0; x < kWidth; ++x) heat.push_back(heat_at_edge(x, y));
    }
    return heat;
  }

  CUdeviceptr row(int y) const {
    return heat_.address() + static_cast<size_t>(y) * kWidth * sizeof(float);
  }

  void relax(const Strip& strip, int first_row, int rows) {
    const Shape shape{.blocks = kWidth / kThreads,
                      .threads = kThreads,
                      .block_rows = static_cast<unsigned>(rows)};
    launch(relax_, shape, computing_, strip, first_row, rows);
  }

  void exchange() {
    CHECK(cuMemcpyDtoHAsync_v2(own_[0].data(), row(1), own_[0].bytes(), copying_));
    CHECK(cuMemcpyDtoHAsync_v2(own_[1].data(), row(rows_), own_[1].bytes(), copying_));
    std::array<MPI_Request, 4> requests{};
    MPI_Irecv(theirs_[0].data(), kWidth, MPI_FLOAT, above_, kDown, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(theirs_[1].data(), kWidth, MPI_FLOAT, below_, kUp, MPI_COMM_WORLD, &requests[1]);
    copying_.wait();
    MPI_Isend(own_[0].data(), kWidth, MPI_FLOAT, above_, kUp, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(own_[1].data(), kWidth, MPI_FLOAT, below_, kDown, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests.data(), MPI_STATUSES_IGNORE);
    // Where there is no neighbour the plate's edge stays.
    if (above_ != MPI_PROC_NULL) arrived(theirs_[0], 0);
    if (below_ != MPI_PROC_NULL) arrived(theirs_[1], rows_ + 1);
  }

  void arrived(Pinned<float>& values, int y) {
    CHECK(cuMemcpyHtoDAsync_v2(row(y), values.data(), values.bytes(), computing_));
  }

  float change(const Strip& strip) {
    CHECK(cuMemsetD32Async(greatest_.address(), 0, 1, computing_));
    launch(change_, Shape{.blocks = kWidth / kThreads, .threads = kThreads}, computing_, strip, 1,
           rows_, greatest_.pointer());
    CHECK(cuMemcpyDtoHAsync_v2(greatest_here_.data(), greatest_.address(), sizeof(unsigned),
                               computing_));
    computing_.wait();
    return std::bit_cast<float>(greatest_here_[0]);
  }

  const int above_, below_;
  const int first_, rows_;
  Module module_{kHaloPtx};
  CUfunction relax_ = module_.function("relax");
  CUfunction change_ = module_.function("change");
  Stream computing_, copying_;
  Buffer<float> heat_{at_start()}, next_{at_start()};
  Buffer<unsigned> greatest_{1};
  Pinned<unsigned> greatest_here_{1};
  std::array<Pinned<float>, 2> own_{Pinned<float>(kWidth), Pinned<float>(kWidth)};
  std::array<Pinned<float>, 2> theirs_{Pinned<float>(kWidth), Pinned<float>(kWidth)};
};

// Means of what lies between 0 and 1 lie there too.
void must_be_between(const std::vector<float>& heat) {
  for (const float value : heat) {
    if (!(value >= 0 && value <= 1)) fail("heat", "left its bounds");
  }
}

int run(int steps) {
  const World world;
  Report report(world.rank);
  const Device device(ContextKind::kOwn, own_device());
  Plate plate(world);
  float change = 1;
  for (int step = 1; step <= steps && change >= kBound; ++step) {
    change = plate.step();
    const bool last = step == steps || change < kBound;
    if (step % kReported == 0 || last) {
      const std::vector<float> heat = plate.heat();
      report.line("step %d: change %08x, digest %016" PRIx64, step, std::bit_cast<unsigned>(change),
                  digest(heat));
      must_be_between(heat);
    }
    if (step % kShown == 0 || last) {
      report.progress("step %d: change %.9g", step, static_cast<double>(change));
    }
  }
  return report.finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 400));
}
