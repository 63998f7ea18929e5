// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcufile.so.0: writes device memory to files by way of host memory, with the
// driver that the process has. For tests. It is told by the environment:
//
//   CUFILE_REFUSES=open|file|buffer   that call fails
//   CUFILE_FAILS_AT=n, CUFILE_SHORT_AT=n, CUFILE_WRONG_AT=n
//                                     the n-th write since the driver was opened fails, writes
//                                     half, or writes other bytes than there are and says nothing
//   CUFILE_DIES_AT=n                  the process is killed within that write
//   CUFILE_SLOW_US=n                  each write takes so long besides
//   CUFILE_HOLD=path                  a write waits as long as there is that file
//   CUFILE_STANDS=path                it makes that file first
//   CUFILE_COUNTS=path                a line for each open driver and each write is added there
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "interpose/cuda/cuda_abi.h"
#include "interpose/direct/cufile_abi.h"

namespace {

constexpr size_t kBounce = 1 << 20;
std::atomic<int> writes{0};
constexpr size_t kAlignment = 4096;
constexpr CUfileOpError kFailed = static_cast<CUfileOpError>(5030);

std::string setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_at(const char* name, int write) {
  const std::string value = setting(name);
  return !value.empty() && std::atoi(value.c_str()) == write;
}

void count(const std::string& line) {
  const std::string path = setting("CUFILE_COUNTS");
  if (path.empty()) return;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  (void)!::write(file, line.data(), line.size());
  ::close(file);
}

CUfileError_t answer(const char* call) {
  return {setting("CUFILE_REFUSES") == call ? kFailed : CU_FILE_SUCCESS, 0};
}

template <class F>
F* driver(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(library, name));
}

// Apart from the program's streams: it may be waiting for something.
CUstream own_stream() {
  static std::mutex mutex;
  static std::map<CUcontext, CUstream> streams;
  CUcontext context = nullptr;
  if (driver<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent")(&context) != CUDA_SUCCESS)
    return nullptr;
  const std::lock_guard lock(mutex);
  CUstream& stream = streams[context];
  if (stream == nullptr) {
    (void)driver<decltype(cuStreamCreate)>("cuStreamCreate")(&stream, CU_STREAM_NON_BLOCKING);
  }
  return stream;
}

bool fetch(std::byte* to, CUdeviceptr from, size_t bytes) {
  const CUstream stream = own_stream();
  return stream != nullptr &&
         driver<decltype(cuMemcpyDtoHAsync_v2)>("cuMemcpyDtoHAsync_v2")(to, from, bytes, stream) ==
             CUDA_SUCCESS &&
         driver<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(stream) == CUDA_SUCCESS;
}

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

ssize_t write_all(int file, CUdeviceptr from, size_t bytes, off_t place, bool wrong, bool dies) {
  const std::unique_ptr<std::byte, FreeBytes> bounce(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBounce)));
  size_t done = 0;
  while (done < bytes) {
    const size_t part = std::min(kBounce, bytes - done);
    if (bounce == nullptr || !fetch(bounce.get(), from + done, part)) return -kFailed;
    if (wrong) *bounce ^= std::byte{1};
    const ssize_t written = ::pwrite(file, bounce.get(), part, place + static_cast<off_t>(done));
    if (written < 0) return -1;
    done += static_cast<size_t>(written);
    if (dies) (void)::kill(::getpid(), SIGKILL);
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] CUfileError_t cuFileDriverOpen() {
  count("open\n");
  writes = 0;
  return answer("open");
}

[[gnu::visibility("default")]] CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle,
                                                                  CUfileDescr_t* description) {
  const CUfileError_t told = answer("file");
  if (told.err == CU_FILE_SUCCESS) *handle = new int(description->handle.fd);
  return told;
}

[[gnu::visibility("default")]] void cuFileHandleDeregister(CUfileHandle_t handle) {
  delete static_cast<int*>(handle);
}

[[gnu::visibility("default")]] CUfileError_t cuFileBufRegister(const void*, size_t, int) {
  return answer("buffer");
}

[[gnu::visibility("default")]] CUfileError_t cuFileBufDeregister(const void*) {
  return {CU_FILE_SUCCESS, 0};
}

[[gnu::visibility("default")]] ssize_t cuFileWrite(CUfileHandle_t handle, const void* base,
                                                   size_t bytes, off_t file_offset,
                                                   off_t buffer_offset) {
  const int number = ++writes;
  if (const std::string slow = setting("CUFILE_SLOW_US"); !slow.empty()) {
    (void)::usleep(static_cast<useconds_t>(std::atoi(slow.c_str())));
  }
  const std::string held = setting("CUFILE_HOLD");
  while (!held.empty() && ::access(held.c_str(), F_OK) == 0) {
    const std::string stands = setting("CUFILE_STANDS");
    if (!stands.empty()) ::close(::open(stands.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    (void)::usleep(500);
  }
  if (is_at("CUFILE_FAILS_AT", number)) return -kFailed;
  if (is_at("CUFILE_SHORT_AT", number)) bytes = bytes / 2 / kAlignment * kAlignment;
  const ssize_t written = write_all(
      *static_cast<int*>(handle),
      reinterpret_cast<CUdeviceptr>(base) + static_cast<CUdeviceptr>(buffer_offset), bytes,
      file_offset, is_at("CUFILE_WRONG_AT", number), is_at("CUFILE_DIES_AT", number));
  count("write " + std::to_string(written) + "\n");
  return written;
}

}  // extern "C"
