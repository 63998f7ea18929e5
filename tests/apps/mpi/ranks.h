// Shared by the MPI programs besides app.h: who a rank is, which device is its own, and the file
// for its results. Each rank is a process; an error of MPI ends all of them.
#pragma once

#include <mpi.h>

#include <cstdarg>
#include <string>

#include "tests/apps/app.h"

namespace app {

// MPI, until destroyed.
struct World {
  // Programs whose threads leave MPI to the first one say so.
  explicit World(int level = MPI_THREAD_SINGLE) {
    int given = MPI_THREAD_SINGLE;
    if (level == MPI_THREAD_SINGLE) {
      MPI_Init(nullptr, nullptr);
    } else {
      MPI_Init_thread(nullptr, nullptr, level, &given);
    }
    if (given < level) fail("MPI_Init_thread", "this MPI knows nothing of threads");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  ~World() { MPI_Finalize(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int right() const { return (rank + 1) % size; }
  int left() const { return (rank + size - 1) % size; }

  int rank = 0, size = 1;
};

// The ranks of a node take its devices in turn.
inline int own_device() {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int rank = 0, devices = 0;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_free(&node);
  CHECK(cuInit(0));
  CHECK(cuDeviceGetCount(&devices));
  if (devices == 0) fail("cuDeviceGetCount", "there is no device");
  return rank % devices;
}

// out.<rank> in the working folder, line by line.
class Report {
 public:
  explicit Report(int rank) : rank_(rank) {
    const std::string path = "out." + std::to_string(rank);
    file_ = std::fopen(path.c_str(), "w");
    if (file_ == nullptr) fail(path.c_str(), "cannot be written");
    std::setvbuf(file_, nullptr, _IOLBF, 0);
  }
  ~Report() { std::fclose(file_); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(file_, format, arguments);
    va_end(arguments);
    std::fputc('\n', file_);
  }
  // Only rank 0 writes to the program's standard output.
  [[gnu::format(printf, 2, 3)]] void progress(const char* format, ...) {
    if (rank_ != 0) return;
    va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::putchar('\n');
  }
  int finish() {
    line("ok");
    progress("ok");
    return 0;
  }

 private:
  int rank_;
  std::FILE* file_ = nullptr;
};

class Stream {
 public:
  Stream() { CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING)); }
  ~Stream() { CHECK(cuStreamDestroy_v2(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator CUstream() const { return stream_; }
  void wait() { CHECK(cuStreamSynchronize(stream_)); }

 private:
  CUstream stream_ = nullptr;
};

// Several programs are to share few processors.
inline void rest() {
  usleep(50);
}

}  // namespace app
