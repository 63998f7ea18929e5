// Faults and held engines that the settings ask for: each case sets them for a process of its own.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

// Runs `body` in a child that has not used the driver yet, with a variable set. The body returns
// what went wrong, or nothing.
std::string in_child(const char* variable, const std::string& value,
                     const std::function<std::string()>& body) {
  int pipes[2];
  if (pipe(pipes) != 0) return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    setenv(variable, value.c_str(), 1);
    std::string said = body();
    bool written = write(pipes[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    _exit(written ? 0 : 1);
  }
  close(pipes[1]);
  std::string said;
  char buffer[256];
  for (ssize_t got = 0; (got = read(pipes[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<size_t>(got));
  }
  close(pipes[0]);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0 ? said : "the child ended badly";
}

// The results of calls, by number, as "0 0 2 0".
struct Results {
  std::string text;
  void add(CUresult result) {
    text += (text.empty() ? "" : " ") + std::to_string(static_cast<int>(result));
  }
};

struct Device {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  CUdeviceptr memory = 0;
  void* host = nullptr;
  Device() {
    cuInit(0);
    cuCtxCreate_v2(&context, 0, 0);
    cuModuleLoadData(&module, kPtx);
    cuModuleGetFunction(&fill, module, "fill");
    cuMemAlloc_v2(&memory, 1024);
    cuMemAllocHost_v2(&host, 1024);
  }
  CUresult launch(uint32_t value) {
    uint32_t count = 32;
    void* parameters[] = {&memory, &count, &value};
    return cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
  }
};

TEST(Faults, TheNthAllocationFails) {
  EXPECT_EQ("0 2 0 0", in_child("SIMCUDA_FAULT", "alloc:3", [] {
              Device device;  // makes the first
              Results results;
              CUdeviceptr address = 0;
              for (int i = 0; i < 4; ++i) results.add(cuMemAlloc_v2(&address, 64));
              return results.text;
            }));
  EXPECT_EQ("0 2 2 2 2", in_child("SIMCUDA_FAULT", "alloc:3+", [] {
              Device device;
              Results results;
              CUdeviceptr address = 0;
              for (int i = 0; i < 3; ++i) results.add(cuMemAlloc_v2(&address, 64));
              CUmemAllocationProp property{};
              property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
              property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
              CUmemGenericAllocationHandle handle = 0;
              results.add(cuMemCreate(&handle, 2 << 20, &property, 0));
              results.add(cuMemAllocAsync(&address, 64, nullptr));
              return results.text;
            }));
}

TEST(Faults, PinnedMemoryFailsWhetherMadeOrRegistered) {
  EXPECT_EQ("2 0", in_child("SIMCUDA_FAULT", "pinned:2", [] {
              Device device;
              Results results;
              static char page[4096];
              results.add(cuMemHostRegister_v2(page, sizeof page, 0));
              results.add(cuMemHostRegister_v2(page, sizeof page, 0));
              return results.text;
            }));
}

TEST(Faults, ACopyThatFailsMovesNothingAndHarmsNothing) {
  EXPECT_EQ("0 304 0 0 7", in_child("SIMCUDA_FAULT", "alloc:50,copy_to_host:2", [] {
              Device device;
              Results results;
              cuMemsetD32_v2(device.memory, 7, 1);
              int seen[2] = {};
              results.add(cuMemcpyDtoH_v2(&seen[0], device.memory, 4));
              results.add(cuMemcpyDtoHAsync_v2(&seen[1], device.memory, 4, nullptr));
              results.add(cuCtxSynchronize());
              results.add(static_cast<CUresult>(seen[1]));
              results.add(static_cast<CUresult>(seen[0]));
              return results.text;
            }));
  EXPECT_EQ("0 0 304", in_child("SIMCUDA_FAULT", "copy:3", [] {
              Device device;
              Results results;
              results.add(cuMemcpyHtoD_v2(device.memory, device.host, 4));
              results.add(cuMemcpyDtoD_v2(device.memory, device.memory + 64, 4));
              results.add(cuMemcpyDtoH_v2(device.host, device.memory, 4));
              return results.text;
            }));
}

TEST(Faults, ALaunchFailsAlone) {
  EXPECT_EQ("0 701 0 0 3", in_child("SIMCUDA_FAULT", "launch:2", [] {
              Device device;
              Results results;
              for (uint32_t i = 1; i <= 3; ++i) results.add(device.launch(i));
              int seen = 0;
              results.add(cuMemcpyDtoH_v2(&seen, device.memory, 4));
              results.add(static_cast<CUresult>(seen));
              return results.text;
            }));
}

TEST(Faults, ALostContextStaysLost) {
  EXPECT_EQ("0 0 214 214", in_child("SIMCUDA_FAULT", "context:2", [] {
              if (freopen("/dev/null", "w", stderr) == nullptr) return std::string("no /dev/null");
              Device device;
              Results results;
              results.add(device.launch(1));
              results.add(cuCtxSynchronize());
              device.launch(2);
              results.add(cuCtxSynchronize());
              results.add(device.launch(3));
              return results.text;
            }));
}

TEST(Held, OtherEnginesGoOn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the file puts copy and kernel in order, which ThreadSanitizer cannot see";
#endif
  for (const char* clock : {"host", "virtual"}) {
    std::string file = testing::TempDir() + "/simcuda-held-" + std::to_string(getpid());
    std::ofstream(file).put('x');
    setenv("SIMCUDA_CLOCK", clock, 1);
    // The copy of what was there first is held, the kernel after it in another stream is not; once
    // released, the copy finds what the kernel wrote.
    EXPECT_EQ("600 0 600 0 5", in_child("SIMCUDA_HOLD", "to_host:" + file, [&] {
                Device device;
                Results results;
                CUstream copies = nullptr;
                cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING);
                cuMemcpyDtoHAsync_v2(device.host, device.memory, 4, copies);
                results.add(cuStreamQuery(copies));
                device.launch(5);
                results.add(cuStreamSynchronize(nullptr));
                results.add(cuStreamQuery(copies));
                std::filesystem::remove(file);
                results.add(cuStreamSynchronize(copies));
                results.add(static_cast<CUresult>(*static_cast<int*>(device.host)));
                return results.text;
              }));
    unsetenv("SIMCUDA_CLOCK");
    std::filesystem::remove(file);
  }
}

}  // namespace
}  // namespace simcuda::test
