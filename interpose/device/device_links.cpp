// SPDX-License-Identifier: Apache-2.0
#include "interpose/device/device_links.h"

#include <dlfcn.h>

#include <map>
#include <string>

#include "interpose/cuda_abi.h"

namespace gpusnap {

namespace {

#define GPUSNAP_LINK_CALLS(X)     \
  X(cuCtxEnablePeerAccess)        \
  X(cuCtxPopCurrent_v2)           \
  X(cuCtxPushCurrent_v2)          \
  X(cuDeviceCanAccessPeer)        \
  X(cuDeviceGet)                  \
  X(cuDeviceGetCount)             \
  X(cuDeviceGetP2PAttribute)      \
  X(cuDevicePrimaryCtxRelease_v2) \
  X(cuDevicePrimaryCtxRetain)     \
  X(cuEventCreate)                \
  X(cuEventDestroy_v2)            \
  X(cuEventElapsedTime)           \
  X(cuEventRecord)                \
  X(cuEventSynchronize)           \
  X(cuGetErrorName)               \
  X(cuMemAlloc_v2)                \
  X(cuMemFreeHost)                \
  X(cuMemFree_v2)                 \
  X(cuMemHostAlloc)               \
  X(cuMemcpyDtoHAsync_v2)         \
  X(cuMemcpyPeerAsync)            \
  X(cuStreamCreate)               \
  X(cuStreamDestroy_v2)

struct Calls {
#define X(name) decltype(&::name) name = nullptr;
  GPUSNAP_LINK_CALLS(X)
#undef X
};

constexpr double kMillisecond = 1e-3;  // in seconds

// Objects that copies from and to a device need, in its primary context.
class DeviceEnd {
 public:
  DeviceEnd(const Calls& calls, CUdevice device) : calls_(calls), device_(device) {}
  DeviceEnd(const DeviceEnd&) = delete;
  DeviceEnd& operator=(const DeviceEnd&) = delete;
  // The driver may have lost the context. Then nothing can be given back, and nothing is left.
  ~DeviceEnd() {
    if (context == nullptr) return;
    if (calls_.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
      if (begin != nullptr) (void)calls_.cuEventDestroy_v2(begin);
      if (end != nullptr) (void)calls_.cuEventDestroy_v2(end);
      if (stream != nullptr) (void)calls_.cuStreamDestroy_v2(stream);
      if (buffer != 0) (void)calls_.cuMemFree_v2(buffer);
      if (host != nullptr) (void)calls_.cuMemFreeHost(host);
      (void)calls_.cuCtxPopCurrent_v2(nullptr);
    }
    (void)calls_.cuDevicePrimaryCtxRelease_v2(device_);
  }

  // Makes the context and all that is in it.
  CUresult prepare() {
    CUresult result = calls_.cuDevicePrimaryCtxRetain(&context, device_);
    if (result != CUDA_SUCCESS) {
      context = nullptr;
      return result;
    }
    result = calls_.cuCtxPushCurrent_v2(context);
    if (result != CUDA_SUCCESS) return result;
    result = make_objects();
    const CUresult popped = calls_.cuCtxPopCurrent_v2(nullptr);
    return result == CUDA_SUCCESS ? popped : result;
  }

  CUcontext context = nullptr;
  CUdeviceptr buffer = 0;
  void* host = nullptr;
  CUstream stream = nullptr;
  CUevent begin = nullptr, end = nullptr;

 private:
  CUresult make_objects() {
    CUresult result = calls_.cuMemAlloc_v2(&buffer, kLongestCopy);
    if (result == CUDA_SUCCESS) result = calls_.cuMemHostAlloc(&host, kLongestCopy, 0);
    if (result == CUDA_SUCCESS) result = calls_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS) result = calls_.cuEventCreate(&begin, CU_EVENT_DEFAULT);
    if (result == CUDA_SUCCESS) result = calls_.cuEventCreate(&end, CU_EVENT_DEFAULT);
    return result;
  }

  const Calls& calls_;
  const CUdevice device_;
};

class DriverLinks final : public DeviceLinks {
 public:
  explicit DriverLinks(const Calls& calls) : calls_(calls) {}

  Result<size_t> count_devices() override {
    int count = 0;
    if (Status status = said(calls_.cuDeviceGetCount(&count), "count devices"); !status.ok()) {
      return status;
    }
    return static_cast<size_t>(count);
  }

  Result<PeerFacts> facts(size_t from, size_t to) override {
    CUdevice source = 0;
    CUdevice target = 0;
    int can = 0;
    PeerFacts facts;
    CUresult result = calls_.cuDeviceGet(&source, static_cast<int>(from));
    if (result == CUDA_SUCCESS) result = calls_.cuDeviceGet(&target, static_cast<int>(to));
    if (result == CUDA_SUCCESS) result = calls_.cuDeviceCanAccessPeer(&can, source, target);
    if (result == CUDA_SUCCESS && can != 0) {
      result = calls_.cuDeviceGetP2PAttribute(&facts.rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
                                              source, target);
    }
    facts.is_reachable = can != 0;
    if (Status status = said(result, "tell how devices reach each other"); !status.ok()) {
      return status;
    }
    return facts;
  }

  Result<double> time_copy(size_t from, size_t to, uint64_t bytes) override {
    const Result<DeviceEnd*> source = end_of(from);
    if (!source.ok()) return source.status();
    DeviceEnd* target = nullptr;
    if (to != balance::kHost) {
      const Result<DeviceEnd*> found = end_of(to);
      if (!found.ok()) return found.status();
      target = found.value();
    }
    float milliseconds = 0;
    CUresult result = calls_.cuCtxPushCurrent_v2(source.value()->context);
    if (result == CUDA_SUCCESS) {
      result = copy(*source.value(), target, bytes, &milliseconds);
      const CUresult popped = calls_.cuCtxPopCurrent_v2(nullptr);
      if (result == CUDA_SUCCESS) result = popped;
    }
    if (Status status = said(result, "copy from device " + std::to_string(from)); !status.ok()) {
      return status;
    }
    return static_cast<double>(milliseconds) * kMillisecond;
  }

 private:
  // In the context of `source`. `target`: null for the host.
  CUresult copy(const DeviceEnd& source, const DeviceEnd* target, uint64_t bytes,
                float* milliseconds) {
    if (target != nullptr) {
      // Without access the driver copies by a detour.
      const CUresult enabled = calls_.cuCtxEnablePeerAccess(target->context, 0);
      if (enabled != CUDA_SUCCESS && enabled != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
        return enabled;
      }
    }
    CUresult result = calls_.cuEventRecord(source.begin, source.stream);
    if (result != CUDA_SUCCESS) return result;
    result = target == nullptr
                 ? calls_.cuMemcpyDtoHAsync_v2(source.host, source.buffer, bytes, source.stream)
                 : calls_.cuMemcpyPeerAsync(target->buffer, target->context, source.buffer,
                                            source.context, bytes, source.stream);
    if (result == CUDA_SUCCESS) result = calls_.cuEventRecord(source.end, source.stream);
    if (result == CUDA_SUCCESS) result = calls_.cuEventSynchronize(source.end);
    if (result != CUDA_SUCCESS) return result;
    return calls_.cuEventElapsedTime(milliseconds, source.begin, source.end);
  }

  Result<DeviceEnd*> end_of(size_t number) {
    std::unique_ptr<DeviceEnd>& end = ends_[number];
    if (end != nullptr) return end.get();
    CUdevice device = 0;
    CUresult result = calls_.cuDeviceGet(&device, static_cast<int>(number));
    auto made = std::make_unique<DeviceEnd>(calls_, device);
    if (result == CUDA_SUCCESS) result = made->prepare();
    if (Status status = said(result, "prepare copies on device " + std::to_string(number));
        !status.ok()) {
      return status;
    }
    end = std::move(made);
    return end.get();
  }

  Status said(CUresult result, const std::string& action) const {
    if (result == CUDA_SUCCESS) return {};
    const char* name = nullptr;
    if (calls_.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "an error";
    return {Code::kIo, "cannot " + action + ": the driver says " + name};
  }

  const Calls calls_;
  std::map<size_t, std::unique_ptr<DeviceEnd>> ends_;  // by number of the device
};

}  // namespace

Result<std::unique_ptr<DeviceLinks>> links_of_driver(void* library) {
  Calls calls;
#define X(name)                                                            \
  calls.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (calls.name == nullptr) return Status(Code::kUnsupported, "the driver has no " #name);
  GPUSNAP_LINK_CALLS(X)
#undef X
  return std::unique_ptr<DeviceLinks>(std::make_unique<DriverLinks>(calls));
}

}  // namespace gpusnap
