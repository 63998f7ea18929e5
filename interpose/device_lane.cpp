#include "interpose/device_lane.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "interpose/services/log.h"
#include "interpose/services/private_memory.h"

namespace gpusnap {

namespace {
// How much is fingerprinted by one launch: enough to fill any device.
constexpr uint64_t kMostSpans = 32 << 10;
constexpr uint64_t kMostZones = 512 << 10;
// A gathered piece is never smaller than this, but for the ends of ranges.
constexpr uint64_t kMostGatherPieces = 8 << 10;
}  // namespace

Status driver_status(const Driver& driver, const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return {};
  return {Code::kIo, std::string(what) + ": the driver says " + error_name(driver, result)};
}

CUevent EventPool::take() {
  {
    std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      CUevent event = spare_.back();
      spare_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  if (driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return nullptr;
  return event;
}

void EventPool::give_back(CUevent event) {
  if (event == nullptr) return;
  std::lock_guard lock(mutex_);
  spare_.push_back(event);
}

Result<std::unique_ptr<DeviceLane>> DeviceLane::make(const Driver& driver, CUcontext context,
                                                     uint64_t cache_bytes, uint64_t zone_bytes,
                                                     uint64_t gather_bytes) {
  std::unique_ptr<DeviceLane> lane(new DeviceLane(driver, context));
  if (Status status = lane->set_up(); !status.ok()) return status;
  lane->set_up_cache(cache_bytes, zone_bytes, gather_bytes);
  return lane;
}

Status DeviceLane::set_up() {
  int least = 0, greatest = 0;
  CUresult result = driver_.cuCtxGetStreamPriorityRange(&least, &greatest);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuStreamCreateWithPriority(&offload_, CU_STREAM_NON_BLOCKING, least);
  }
  if (result == CUDA_SUCCESS) {
    result = driver_.cuStreamCreateWithPriority(&gate_, CU_STREAM_NON_BLOCKING, greatest);
  }
  if (result != CUDA_SUCCESS) return driver_status(driver_, "making streams of our own", result);
  auto code = DeviceCode::load(driver_);
  if (!code.ok()) return code.status();
  code_ = std::make_unique<DeviceCode>(code.value());
  if (Status status = make_scratch(spans_, kMostSpans * sizeof(DeviceCode::Span)); !status.ok()) {
    return status;
  }
  return make_scratch(fingerprints_, kMostZones * sizeof(uint64_t));
}

Status DeviceLane::make_scratch(Scratch& scratch, uint64_t bytes) {
  if (CUresult result = driver_.cuMemAlloc_v2(&scratch.device, bytes); result != CUDA_SUCCESS) {
    return driver_status(driver_, "getting device memory of our own", result);
  }
  scratch.host = allocate_block(bytes);
  if (scratch.host == nullptr) return {Code::kNoSpace, "no host memory is left"};
  // Unpinned it works too, at a lower speed.
  (void)driver_.cuMemHostRegister_v2(scratch.host, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  scratch.size = bytes;
  own_bytes_ += bytes;
  return {};
}

void DeviceLane::drop_scratch(Scratch& scratch) {
  if (scratch.host == nullptr) return;
  (void)driver_.cuMemHostUnregister(scratch.host);
  release_block(scratch.host, scratch.size);
  scratch = {};
}

// The double buffer takes a quarter at most; the rest is for duplicates.
void DeviceLane::set_up_cache(uint64_t cache_bytes, uint64_t zone_bytes, uint64_t gather_bytes) {
  zone_bytes_ = zone_bytes;
  const uint64_t half = std::min(gather_bytes, cache_bytes / 8) / zone_bytes * zone_bytes;
  const uint64_t blocks = (cache_bytes - 2 * half) / zone_bytes;
  if (blocks == 0) return;
  const uint64_t bytes = 2 * half + blocks * zone_bytes;
  if (CUresult result = driver_.cuMemAlloc_v2(&cache_, bytes); result != CUDA_SUCCESS) {
    log(LogLevel::kWarn,
        "snapshots go without a buffer on the device (GPUSNAP_DEVICE_CACHE): ", "the driver says ",
        error_name(driver_, result));
    cache_ = 0;
    return;
  }
  cache_bytes_ = bytes;
  own_bytes_ += bytes;
  blocks_data_ = cache_ + 2 * half;
  blocks_ = BlockPool(blocks);
  for (size_t i = 0; i < gather_.size() && half != 0; ++i) {
    if (!make_scratch(gather_[i].table, kMostGatherPieces * sizeof(DeviceCode::Piece)).ok()) return;
    gather_[i].data = cache_ + i * half;
    gather_[i].size = half;
  }
}

DeviceLane::~DeviceLane() {
  drop_scratch(spans_);
  drop_scratch(fingerprints_);
  for (GatherBuffer& buffer : gather_) drop_scratch(buffer.table);
}

Status DeviceLane::fingerprint_batch(uint32_t spans, uint64_t zones, uint64_t zone_bytes) {
  CUresult result = driver_.cuMemcpyHtoDAsync_v2(spans_.device, spans_.host,
                                                 spans * sizeof(DeviceCode::Span), gate_);
  if (result == CUDA_SUCCESS) {
    result =
        code_->fingerprints(spans_.device, spans, zones, zone_bytes, fingerprints_.device, gate_);
  }
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemcpyDtoHAsync_v2(fingerprints_.host, fingerprints_.device,
                                          zones * sizeof(uint64_t), gate_);
  }
  if (result == CUDA_SUCCESS) result = driver_.cuStreamSynchronize(gate_);
  return driver_status(driver_, "fingerprinting device memory", result);
}

Status DeviceLane::fingerprint(std::span<const Fingerprinted> ranges, uint64_t zone_bytes) {
  struct Target {
    uint64_t* out;
    uint64_t zones;
  };
  std::vector<Target> targets;
  auto* spans = reinterpret_cast<DeviceCode::Span*>(spans_.host);
  uint64_t zones = 0;
  auto flush = [&]() -> Status {
    if (zones == 0) return {};
    Status status = fingerprint_batch(static_cast<uint32_t>(targets.size()), zones, zone_bytes);
    const std::byte* from = fingerprints_.host;
    for (const Target& target : targets) {
      if (status.ok()) std::memcpy(target.out, from, target.zones * sizeof(uint64_t));
      from += target.zones * sizeof(uint64_t);
    }
    targets.clear();
    zones = 0;
    return status;
  };
  for (const Fingerprinted& range : ranges) {
    for (uint64_t done = 0; done < range.out.size();) {
      if (zones == kMostZones || targets.size() == kMostSpans) {
        if (Status status = flush(); !status.ok()) return status;
      }
      const uint64_t count = std::min<uint64_t>(range.out.size() - done, kMostZones - zones);
      const uint64_t offset = done * zone_bytes;
      spans[targets.size()] = {range.address + offset,
                               std::min(range.size - offset, count * zone_bytes), zones};
      targets.push_back({range.out.data() + done, count});
      zones += count;
      done += count;
    }
  }
  return flush();
}

CUresult DeviceLane::gather(GatherBuffer& buffer, std::span<const DeviceCode::Piece> pieces) {
  if (pieces.size() > kMostGatherPieces) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(buffer.table.host, pieces.data(), pieces.size_bytes());
  const CUresult result = driver_.cuMemcpyHtoDAsync_v2(buffer.table.device, buffer.table.host,
                                                       pieces.size_bytes(), offload_);
  if (result != CUDA_SUCCESS) return result;
  return code_->gather(buffer.table.device, static_cast<uint32_t>(pieces.size()), offload_);
}

GatherBuffer* DeviceLane::free_gather_buffer() {
  std::lock_guard lock(mutex_);
  for (GatherBuffer& buffer : gather_) {
    if (buffer.data != 0 && !buffer.busy) return &buffer;
  }
  return nullptr;
}

BlockPool::Run DeviceLane::take_blocks(uint64_t most) {
  std::lock_guard lock(mutex_);
  return blocks_.take(most);
}

void DeviceLane::give_back_blocks(BlockPool::Run run) {
  std::lock_guard lock(mutex_);
  blocks_.give_back(run);
}

bool DeviceLane::few_blocks_left() {
  std::lock_guard lock(mutex_);
  return blocks_.free() < blocks_.size() / 2;
}

bool DeviceLane::release_cache() {
  CUdeviceptr cache = 0;
  {
    std::lock_guard lock(mutex_);
    const bool in_use =
        blocks_.free() != blocks_.size() || std::ranges::any_of(gather_, &GatherBuffer::busy);
    if (cache_ == 0 || in_use) return false;
    cache = cache_;
    cache_ = 0;
    own_bytes_ -= cache_bytes_;
    blocks_ = BlockPool();
    for (GatherBuffer& buffer : gather_) buffer.data = 0;
  }
  return driver_.cuMemFree_v2(cache) == CUDA_SUCCESS;
}

}  // namespace gpusnap
