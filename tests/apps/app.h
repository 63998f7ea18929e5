// Shared by every program in this folder: reaching the driver, running kernels, and reporting
// results. The programs are ordinary clients of the driver API.
//
// They reach it in the three ways that programs do: linked against libcuda.so.1 (nothing defined),
// by dlopen and dlsym (APP_DLSYM), or by asking cuGetProcAddress_v2 (APP_PROC_ADDRESS). All code of
// a program lives in namespace app, where the loaded entry points hide the linked ones.
//
// Nothing here is thread-safe. Any error ends the program with one line and exit status 1.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace app {

[[noreturn]] inline void fail(const char* what, const std::string& why) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", what, why.c_str());
  std::exit(1);
}

#if defined(APP_DLSYM) || defined(APP_PROC_ADDRESS)
inline void* driver_symbol(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) fail("dlopen", dlerror());
  return dlsym(driver, name);
}

inline void* driver_entry(const char* name) {
#ifdef APP_PROC_ADDRESS
  static const auto ask =
      reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(driver_symbol("cuGetProcAddress_v2"));
  if (ask == nullptr) fail("cuGetProcAddress_v2", "not found");
  // Names are asked without their version suffix; 11.0 selects the versions declared here.
  std::string plain = name;
  if (plain.ends_with("_v2")) plain.resize(plain.size() - 3);
  void* entry = nullptr;
  CUdriverProcAddressQueryResult found{};
  if (ask(plain.c_str(), &entry, 11000, 0, &found) != CUDA_SUCCESS) entry = nullptr;
#else
  void* entry = driver_symbol(name);
#endif
  if (entry == nullptr) fail(name, "the driver does not offer it");
  return entry;
}

#define APP_CALL(name) \
  inline const auto name = reinterpret_cast<decltype(&::name)>(driver_entry(#name));
APP_CALL(cuGetErrorName)
APP_CALL(cuInit)
APP_CALL(cuDeviceGet)
APP_CALL(cuDeviceGetCount)
APP_CALL(cuDeviceGetAttribute)
APP_CALL(cuDevicePrimaryCtxRetain)
APP_CALL(cuDevicePrimaryCtxRelease_v2)
APP_CALL(cuCtxSetCurrent)
APP_CALL(cuCtxCreate_v2)
APP_CALL(cuCtxDestroy_v2)
APP_CALL(cuCtxSynchronize)
APP_CALL(cuModuleLoadData)
APP_CALL(cuModuleLoad)
APP_CALL(cuModuleUnload)
APP_CALL(cuModuleGetFunction)
APP_CALL(cuModuleGetGlobal_v2)
APP_CALL(cuLaunchKernel)
APP_CALL(cuMemGetInfo_v2)
APP_CALL(cuMemAlloc_v2)
APP_CALL(cuMemAllocPitch_v2)
APP_CALL(cuMemFree_v2)
APP_CALL(cuMemHostAlloc)
APP_CALL(cuMemHostGetDevicePointer_v2)
APP_CALL(cuMemFreeHost)
APP_CALL(cuMemcpyHtoD_v2)
APP_CALL(cuMemcpyDtoH_v2)
APP_CALL(cuMemcpyDtoD_v2)
APP_CALL(cuMemcpyHtoDAsync_v2)
APP_CALL(cuMemcpyDtoHAsync_v2)
APP_CALL(cuMemcpy2D_v2)
APP_CALL(cuMemsetD8_v2)
APP_CALL(cuMemsetD32_v2)
APP_CALL(cuStreamCreate)
APP_CALL(cuStreamDestroy_v2)
APP_CALL(cuStreamSynchronize)
APP_CALL(cuStreamQuery)
#undef APP_CALL
#endif

inline void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown error";
  fail(call, name);
}
#define CHECK(call) check((call), #call)

// The first argument as a number of steps; other arguments are errors.
inline int steps_from(int argc, char** argv, int otherwise) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc == 1) return otherwise;
  char* end = nullptr;
  const long steps = std::strtol(argv[1], &end, 10);
  if (argc != 2 || *end != '\0' || steps < 1 || steps > 1000000) {
    fail(argv[0], "usage: [steps]");
  }
  return static_cast<int>(steps);
}

// How a program gets its context. Both are common.
enum class ContextKind { kPrimary, kOwn };

// A device, the first one unless another is asked for, and a current context, until destroyed.
class Device {
 public:
  explicit Device(ContextKind kind, int ordinal = 0) : kind_(kind) {
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device_, ordinal));
    if (kind_ == ContextKind::kPrimary) {
      CHECK(cuDevicePrimaryCtxRetain(&context_, device_));
      CHECK(cuCtxSetCurrent(context_));
    } else {
      CHECK(cuCtxCreate_v2(&context_, 0, device_));
    }
  }
  ~Device() {
    if (kind_ == ContextKind::kPrimary) {
      CHECK(cuDevicePrimaryCtxRelease_v2(device_));
    } else {
      CHECK(cuCtxDestroy_v2(context_));
    }
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

 private:
  ContextKind kind_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

// `count` objects of device memory.
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t count) : count_(count) {
    CHECK(cuMemAlloc_v2(&address_, count * sizeof(T)));
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) { upload(values); }
  ~Buffer() {
    if (address_ != 0) CHECK(cuMemFree_v2(address_));
  }
  Buffer(Buffer&& other) noexcept
      : address_(std::exchange(other.address_, 0)), count_(std::exchange(other.count_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(count_, other.count_);
    return *this;
  }

  CUdeviceptr address() const { return address_; }
  // The address as device code sees it; not to be followed by the host.
  T* pointer() const { return reinterpret_cast<T*>(address_); }
  size_t count() const { return count_; }
  size_t bytes() const { return count_ * sizeof(T); }

  void upload(const std::vector<T>& values) {
    CHECK(cuMemcpyHtoD_v2(address_, values.data(), values.size() * sizeof(T)));
  }
  std::vector<T> download() const {
    std::vector<T> values(count_);
    CHECK(cuMemcpyDtoH_v2(values.data(), address_, bytes()));
    return values;
  }

 private:
  CUdeviceptr address_ = 0;
  size_t count_ = 0;
};

// Page-locked host memory for `count` objects.
template <class T>
class Pinned {
 public:
  explicit Pinned(size_t count, unsigned flags = 0) : count_(count) {
    void* data = nullptr;
    CHECK(cuMemHostAlloc(&data, count * sizeof(T), flags));
    data_ = static_cast<T*>(data);
  }
  ~Pinned() { CHECK(cuMemFreeHost(data_)); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  T* data() { return data_; }
  T& operator[](size_t index) { return data_[index]; }
  size_t bytes() const { return count_ * sizeof(T); }
  std::span<T> span() { return {data_, count_}; }
  CUdeviceptr device_address() {
    CUdeviceptr address = 0;
    CHECK(cuMemHostGetDevicePointer_v2(&address, data_, 0));
    return address;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

class Module {
 public:
  // PTX text that ends in a zero byte.
  explicit Module(const unsigned char* text) { CHECK(cuModuleLoadData(&module_, text)); }
  // A PTX file in the program's own folder.
  explicit Module(const std::string& file) {
    std::string path(4096, '\0');
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
    if (length <= 0) fail("readlink", "cannot tell the program's folder");
    path.resize(static_cast<size_t>(length));
    path.resize(path.rfind('/') + 1);
    CHECK(cuModuleLoad(&module_, (path + file).c_str()));
  }
  ~Module() { CHECK(cuModuleUnload(module_)); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  CUfunction function(const char* name) const {
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, module_, name));
    return function;
  }
  // A variable of the module; `bytes` is what it must measure.
  CUdeviceptr variable(const char* name, size_t bytes) const {
    CUdeviceptr address = 0;
    size_t measured = 0;
    CHECK(cuModuleGetGlobal_v2(&address, &measured, module_, name));
    if (measured != bytes) fail(name, "has another size than expected");
    return address;
  }

 private:
  CUmodule module_ = nullptr;
};

struct Shape {
  unsigned blocks = 1, threads = 1;
  unsigned block_rows = 1, thread_rows = 1;
  unsigned shared_bytes = 0;
};

// Arguments are passed by value and must have exactly the types of the kernel's parameters.
template <class... Arguments>
void launch(CUfunction function, Shape shape, CUstream stream, Arguments... arguments) {
  void* parameters[] = {&arguments..., nullptr};
  CHECK(cuLaunchKernel(function, shape.blocks, shape.block_rows, 1, shape.threads,
                       shape.thread_rows, 1, shape.shared_bytes, stream, parameters, nullptr));
}

// FNV-1a over the bytes of values without padding.
template <class T>
uint64_t digest(std::span<const T> values, uint64_t seed = 0xcbf29ce484222325u) {
  for (const std::byte byte : std::as_bytes(values)) {
    seed = (seed ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  }
  return seed;
}
template <class T>
uint64_t digest(const std::vector<T>& values) {
  return digest(std::span<const T>(values));
}

// The device's and the host's results must agree in every bit.
template <class T>
void must_equal(const char* what, const std::vector<T>& device, const std::vector<T>& host) {
  const auto found = std::as_bytes(std::span(device)), expected = std::as_bytes(std::span(host));
  const auto [at, other] =
      std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
  if (at == found.end() && other == expected.end()) return;
  const auto index = static_cast<size_t>(at - found.begin()) / sizeof(T);
  fail(what, "the device's result differs from the host's at index " + std::to_string(index));
}

// A small generator whose sequence is the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  uint32_t below(uint32_t bound) { return next() % bound; }
  float unit() { return static_cast<float>(next()) * 0x1p-31f; }  // [0, 1]

 private:
  uint64_t state_;
};

inline int finish() {
  std::puts("ok");
  return 0;
}

}  // namespace app
