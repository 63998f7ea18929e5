// Measures a barrier with the preloaded library and without it, in one run: MPI_Barrier is the
// library's, PMPI_Barrier goes past it. Likewise MPI_Allreduce of one number. The two take turns,
// so that both meet the same machine; rank 0 prints the median of all rounds, in nanoseconds.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace {

constexpr int kRounds = 201;
constexpr int kCalls = 50;  // in a row, of one kind

template <class Call>
double one_round(Call&& call) {
  const double begin = PMPI_Wtime();
  for (int i = 0; i < kCalls; ++i) call();
  return (PMPI_Wtime() - begin) / kCalls * 1e9;
}

double median(std::vector<double>& rounds) {
  std::ranges::nth_element(rounds, rounds.begin() + kRounds / 2);
  return rounds[kRounds / 2];
}

template <class Plain, class Ours>
void compare(const char* name, bool prints, Plain&& plain, Ours&& ours) {
  std::vector<double> without, with;
  for (int round = 0; round < kRounds; ++round) {
    without.push_back(one_round(plain));
    with.push_back(one_round(ours));
  }
  if (prints) std::printf("%s\t%.0f\t%.0f\n", name, median(without), median(with));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  // A process that is followed.
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
      cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS) {
    std::fprintf(stderr, "no device\n");
    return 1;
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  compare(
      "barrier", rank == 0, [] { PMPI_Barrier(MPI_COMM_WORLD); },
      [] { MPI_Barrier(MPI_COMM_WORLD); });
  int own = rank, greatest = 0;
  compare(
      "allreduce", rank == 0,
      [&] { PMPI_Allreduce(&own, &greatest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD); },
      [&] { MPI_Allreduce(&own, &greatest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD); });
  MPI_Finalize();
  return 0;
}
