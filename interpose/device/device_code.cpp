#include "interpose/device/device_code.h"

#include <algorithm>
#include <bit>

#include "interpose/device/zones_ptx.h"
#include "tiers/checksum.h"

namespace gpusnap {

static_assert(kShortZone == kShortZoneBytes && kPaddedZone == kPaddedZoneBytes);

namespace {
constexpr unsigned kThreads = 128;      // of a block
constexpr unsigned kLanesOfZone = 4;    // as zones.cu has it
constexpr unsigned kBlocksOfUnit = 16;  // of a grid, for each multiprocessor
}  // namespace

// With lazy loading the driver loads a function when it is first used; where it cannot be told to
// load it, asking for an attribute makes it.
CUresult DeviceCode::load_function(CUfunction& function, const char* name) const {
  CUresult result = driver_->cuModuleGetFunction(&function, module_, name);
  if (result != CUDA_SUCCESS) return result;
  if (driver_->cuFuncLoad != nullptr) return driver_->cuFuncLoad(function);
  int registers = 0;
  return driver_->cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
}

Result<DeviceCode> DeviceCode::load(const Driver& driver) {
  DeviceCode code(driver);
  CUdevice device = 0;
  int units = 0;
  CUresult result = driver.cuCtxGetDevice(&device);
  if (result == CUDA_SUCCESS) {
    result = driver.cuDeviceGetAttribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  }
  if (result == CUDA_SUCCESS) result = driver.cuModuleLoadData(&code.module_, kZonesPtx);
  if (result == CUDA_SUCCESS) {
    result = code.load_function(code.fingerprints_, "gpusnap_fingerprints");
    if (result == CUDA_SUCCESS) result = code.load_function(code.gather_, "gpusnap_gather");
    if (result != CUDA_SUCCESS) code.unload();
  }
  if (result != CUDA_SUCCESS) {
    return Status(Code::kIo, std::string("our kernels cannot be loaded: the driver says ") +
                                 error_name(driver, result));
  }
  code.most_blocks_ = static_cast<unsigned>(std::max(units, 1)) * kBlocksOfUnit;
  return code;
}

CUresult DeviceCode::fingerprints(CUdeviceptr spans, uint32_t count, uint64_t zones,
                                  uint64_t zone_bytes, CUdeviceptr out, CUstream stream) const {
  if (count == 0 || zones == 0) return CUDA_SUCCESS;
  auto shift = static_cast<unsigned>(std::countr_zero(zone_bytes));
  void* parameters[] = {&spans, &count, &zones, &shift, &out};
  const uint64_t wanted = (zones - 1) / (kThreads / kLanesOfZone) + 1;
  const auto blocks = static_cast<unsigned>(std::min<uint64_t>(wanted, most_blocks_));
  return driver_->cuLaunchKernel(fingerprints_, blocks, 1, 1, kThreads, 1, 1, 0, stream, parameters,
                                 nullptr);
}

CUresult DeviceCode::gather(CUdeviceptr pieces, uint32_t count, CUstream stream) const {
  if (count == 0) return CUDA_SUCCESS;
  void* parameters[] = {&pieces, &count};
  const unsigned blocks = std::min(count, most_blocks_);
  return driver_->cuLaunchKernel(gather_, blocks, 1, 1, kThreads, 1, 1, 0, stream, parameters,
                                 nullptr);
}

void DeviceCode::unload() {
  if (module_ != nullptr) (void)driver_->cuModuleUnload(module_);
  module_ = nullptr;
}

}  // namespace gpusnap
