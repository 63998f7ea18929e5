#include "tools/cli/devices.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace gpusnap {
namespace {

// A driver that has to load itself first, on a node with many devices.
constexpr auto kLongest = std::chrono::seconds(60);

template <class F>
F* find(void* library, const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

// One line with the count and the driver's version, and one for each device.
void tell(const std::string& driver, size_t most, std::FILE* to) {
  void* const library = dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
#define GPUSNAP_FIND(name) auto* const name = find<decltype(::name)>(library, #name)
  GPUSNAP_FIND(cuInit);
  GPUSNAP_FIND(cuDriverGetVersion);
  GPUSNAP_FIND(cuDeviceGetCount);
  GPUSNAP_FIND(cuDeviceGetName);
  GPUSNAP_FIND(cuDeviceTotalMem_v2);
  GPUSNAP_FIND(cuDeviceComputeCapability);
#undef GPUSNAP_FIND
  if (cuInit == nullptr || cuDriverGetVersion == nullptr || cuDeviceGetCount == nullptr ||
      cuDeviceGetName == nullptr || cuDeviceTotalMem_v2 == nullptr ||
      cuDeviceComputeCapability == nullptr) {
    return;
  }
  int version = 0, count = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDriverGetVersion(&version) != CUDA_SUCCESS ||
      cuDeviceGetCount(&count) != CUDA_SUCCESS) {
    return;
  }
  std::fprintf(to, "%d %d\n", count, version);
  for (int device = 0; device < count && static_cast<size_t>(device) < most; ++device) {
    std::array<char, 256> name = {};
    size_t memory = 0;
    int major = 0, minor = 0;
    if (cuDeviceGetName(name.data(), static_cast<int>(name.size()), device) != CUDA_SUCCESS ||
        cuDeviceTotalMem_v2(&memory, device) != CUDA_SUCCESS ||
        cuDeviceComputeCapability(&major, &minor, device) != CUDA_SUCCESS) {
      return;
    }
    std::fprintf(to, "%zu %d %d %s\n", memory, major, minor, name.data());
  }
  std::fflush(to);
}

[[noreturn]] void be_asked(Environment& environment, const std::string& driver, size_t most,
                           int to) {
  std::vector<char*> pointers = environment.pointers();
  environ = pointers.data();
  // The answer has a pipe of its own: anything that a driver prints does not disturb it.
  std::FILE* const answer = fdopen(to, "w");
  if (answer != nullptr) tell(driver, most, answer);
  _exit(0);
}

// All that comes until the other end is closed; empty where that is not in time.
std::string hear(int from) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  std::string all;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waited = {from, POLLIN, 0};
    if (left.count() <= 0) return {};
    if (poll(&waited, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, 4096> piece;
    const ssize_t got = read(from, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return all;
    all.append(piece.data(), static_cast<size_t>(got));
  }
}

}  // namespace

void ask_for_devices(Environment& environment, const std::string& simcuda, size_t most,
                     ProgramIdentity& program) {
  std::array<int, 2> ends = {};
  if (pipe(ends.data()) != 0) return;
  const std::string driver = (simcuda.empty() ? "" : simcuda + "/") + "libcuda.so.1";
  const pid_t asked = fork();
  if (asked == 0) {
    close(ends[0]);
    be_asked(environment, driver, most, ends[1]);
  }
  close(ends[1]);
  std::istringstream answer(asked > 0 ? hear(ends[0]) : std::string());
  close(ends[0]);
  if (asked > 0) {
    kill(asked, SIGKILL);
    waitpid(asked, nullptr, 0);
  }
  uint32_t count = 0;
  if (!(answer >> count >> program.driver_version)) return;
  SavedDevice device;
  while (answer >> device.memory >> device.major >> device.minor && answer.ignore() &&
         std::getline(answer, device.name)) {
    program.devices.push_back(device);
  }
  program.device_count = count;
}

}  // namespace gpusnap
