// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/memory.h"

#include <dlfcn.h>

#include <cstring>
#include <string>
#include <utility>

#include "interpose/cuda/cuda_abi.h"

namespace gpusnap::veloc {

namespace {

#define GPUSNAP_VELOC_DRIVER(X) \
  X(cuCtxGetCurrent)            \
  X(cuCtxPopCurrent_v2)         \
  X(cuCtxPushCurrent_v2)        \
  X(cuEventCreate)              \
  X(cuEventDestroy_v2)          \
  X(cuEventRecord)              \
  X(cuGetErrorName)             \
  X(cuMemAlloc_v2)              \
  X(cuMemFree_v2)               \
  X(cuMemGetInfo_v2)            \
  X(cuMemHostRegister_v2)       \
  X(cuMemHostUnregister)        \
  X(cuMemcpyAsync)              \
  X(cuPointerGetAttribute)      \
  X(cuStreamCreate)             \
  X(cuStreamDestroy_v2)         \
  X(cuStreamSynchronize)        \
  X(cuStreamWaitEvent)

struct Driver {
#define X(name) decltype(&::name) name = nullptr;
  GPUSNAP_VELOC_DRIVER(X)
#undef X
};

// Null if the process has not loaded one.
const Driver* loaded_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  static Driver driver;
#define X(name)                                                             \
  driver.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (driver.name == nullptr) return nullptr;
  GPUSNAP_VELOC_DRIVER(X)
#undef X
  return &driver;
}

CUdeviceptr address(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

Status failed(const Driver& driver, const char* what, CUresult result) {
  const char* name = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "an error";
  return {Code::kIo, std::string("cannot ") + what + ": the driver says " + name};
}

// ---- Without a device

class HostCopier final : public Copier {
 public:
  Status follow_program() override { return {}; }
  Status copy(void* to, const void* from, uint64_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  Status finish() override { return {}; }
};

class HostMemory final : public Memory {
 public:
  bool has_device() const override { return false; }
  bool is_on_device(const void*) const override { return false; }
  uint64_t device_bytes() const override { return 0; }
  Result<std::unique_ptr<Copier>> copier() override {
    return std::unique_ptr<Copier>(std::make_unique<HostCopier>());
  }
  Result<std::byte*> allocate_on_device(uint64_t) override {
    return Status(Code::kUnsupported, "cannot allocate device memory: there is no device");
  }
  void free_on_device(std::byte*) override {}
  Status pin(std::byte*, uint64_t) override { return {}; }
  void unpin(std::byte*) override {}
};

// ---- With one

// Makes the context current in the calling thread, which may be the program's, for its lifetime.
class InContext {
 public:
  InContext(const Driver& driver, CUcontext context) : driver_(driver) {
    CUcontext current = nullptr;
    if (driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context) return;
    pushed_ = driver.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  ~InContext() {
    CUcontext popped = nullptr;
    if (pushed_) (void)driver_.cuCtxPopCurrent_v2(&popped);
  }

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

class DeviceCopier final : public Copier {
 public:
  DeviceCopier(const Driver& driver, CUcontext context) : driver_(driver), context_(context) {}
  DeviceCopier(const DeviceCopier&) = delete;
  DeviceCopier& operator=(const DeviceCopier&) = delete;
  ~DeviceCopier() override {
    const InContext in(driver_, context_);
    if (event_ != nullptr) (void)driver_.cuEventDestroy_v2(event_);
    if (stream_ != nullptr) (void)driver_.cuStreamDestroy_v2(stream_);
  }

  Status start() {
    const InContext in(driver_, context_);
    CUresult result = driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS) result = driver_.cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING);
    return result == CUDA_SUCCESS ? Status() : failed(driver_, "make a stream", result);
  }

  Status follow_program() override {
    const InContext in(driver_, context_);
    CUresult result = driver_.cuEventRecord(event_, CU_STREAM_LEGACY);
    if (result == CUDA_SUCCESS) result = driver_.cuStreamWaitEvent(stream_, event_, 0);
    if (result == CUDA_SUCCESS) return {};
    return failed(driver_, "wait for what the program computes", result);
  }
  Status copy(void* to, const void* from, uint64_t bytes) override {
    if (bytes == 0) return {};
    const InContext in(driver_, context_);
    const CUresult result = driver_.cuMemcpyAsync(address(to), address(from), bytes, stream_);
    has_begun_ = true;
    if (result == CUDA_SUCCESS) return {};
    return failed(driver_, "copy a checkpoint's memory", result);
  }
  Status finish() override {
    if (!std::exchange(has_begun_, false)) return {};
    const InContext in(driver_, context_);
    const CUresult result = driver_.cuStreamSynchronize(stream_);
    if (result == CUDA_SUCCESS) return {};
    return failed(driver_, "copy a checkpoint's memory", result);
  }

 private:
  const Driver& driver_;
  const CUcontext context_;
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
  bool has_begun_ = false;  // a copy that was not waited for
};

class DeviceMemory final : public Memory {
 public:
  DeviceMemory(const Driver& driver, CUcontext context) : driver_(driver), context_(context) {}

  bool has_device() const override { return true; }
  bool is_on_device(const void* memory) const override {
    CUmemorytype type = {};
    return driver_.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                         address(memory)) == CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE;
  }
  uint64_t device_bytes() const override {
    const InContext in(driver_, context_);
    size_t unused = 0, all = 0;
    return driver_.cuMemGetInfo_v2(&unused, &all) == CUDA_SUCCESS ? all : 0;
  }
  Result<std::unique_ptr<Copier>> copier() override {
    auto copier = std::make_unique<DeviceCopier>(driver_, context_);
    if (Status started = copier->start(); !started.ok()) return started;
    return std::unique_ptr<Copier>(std::move(copier));
  }
  Result<std::byte*> allocate_on_device(uint64_t bytes) override {
    const InContext in(driver_, context_);
    CUdeviceptr memory = 0;
    const CUresult result = driver_.cuMemAlloc_v2(&memory, bytes);
    if (result != CUDA_SUCCESS) return failed(driver_, "allocate the device's cache", result);
    return reinterpret_cast<std::byte*>(memory);
  }
  void free_on_device(std::byte* memory) override {
    const InContext in(driver_, context_);
    (void)driver_.cuMemFree_v2(address(memory));
  }
  Status pin(std::byte* memory, uint64_t bytes) override {
    const InContext in(driver_, context_);
    const CUresult result =
        driver_.cuMemHostRegister_v2(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
    return result == CUDA_SUCCESS ? Status() : failed(driver_, "pin host memory", result);
  }
  void unpin(std::byte* memory) override {
    const InContext in(driver_, context_);
    (void)driver_.cuMemHostUnregister(memory);
  }

 private:
  const Driver& driver_;
  const CUcontext context_;
};

}  // namespace

std::unique_ptr<Memory> host_memory() {
  return std::make_unique<HostMemory>();
}

std::unique_ptr<Memory> memory_of_this_thread() {
  const Driver* const driver = loaded_driver();
  CUcontext context = nullptr;
  if (driver == nullptr || driver->cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
      context == nullptr) {
    return host_memory();
  }
  return std::make_unique<DeviceMemory>(*driver, context);
}

}  // namespace gpusnap::veloc
