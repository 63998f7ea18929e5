#include "interpose/snapshot/device_lane.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "interpose/services/log.h"
#include "interpose/services/private_memory.h"

namespace gpusnap {

namespace {
// How much is fingerprinted by one launch: enough to fill any device.
constexpr uint64_t kMostSpans = 32 << 10;
constexpr uint64_t kMostZones = 512 << 10;
// The device buffer grows by this much at a time.
constexpr uint64_t kPartOfCache = 32 << 20;
}  // namespace

DeviceId device_id(const Driver& driver, int device) {
  CUuuid id{};
  DeviceId bytes{};
  static_assert(sizeof id == sizeof bytes);
  if (driver.cuDeviceGetUuid != nullptr && driver.cuDeviceGetUuid(&id, device) == CUDA_SUCCESS) {
    std::memcpy(bytes.data(), &id, sizeof id);
  }
  return bytes;
}

Result<std::unique_ptr<DeviceLane>> DeviceLane::make(const Driver& driver, CUcontext context,
                                                     const NodeLock* turns, bool lends) {
  std::unique_ptr<DeviceLane> lane(new DeviceLane(driver, context, turns, lends));
  if (Status status = lane->set_up(); !status.ok()) return status;
  lane->id_ = device_id(driver, lane->device());
  return lane;
}

Status DeviceLane::set_up() {
  int least = 0, greatest = 0;
  CUresult result = driver_.cuCtxGetStreamPriorityRange(&least, &greatest);
  if (result == CUDA_SUCCESS) {
    for (CUstream* stream : {&offload_, &gathering_, &gate_, &gate_to_host_}) {
      const bool awaited = stream == &gate_ || stream == &gate_to_host_;
      result = driver_.cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING,
                                                  awaited ? greatest : least);
      if (result != CUDA_SUCCESS) break;
    }
  }
  if (result == CUDA_SUCCESS) result = driver_.cuStreamCreate(&reading_, CU_STREAM_DEFAULT);
  if (result != CUDA_SUCCESS) return driver_status(driver_, "making streams of our own", result);
  auto code = DeviceCode::load(driver_);
  if (!code.ok()) return code.status();
  code_ = std::make_unique<DeviceCode>(code.value());
  return map_tables();
}

Status DeviceLane::map_tables() {
  int device = 0;
  (void)driver_.cuCtxGetDevice(&device);
  const auto granularity = mapping_granularity(driver_, device);
  if (!granularity.ok()) return granularity.status();
  Scratch* const tables[] = {&spans_, &fingerprints_, &gather_[0].table, &gather_[1].table};
  spans_.size = kMostSpans * sizeof(DeviceCode::Span);
  fingerprints_.size = kMostZones * sizeof(uint64_t);
  for (GatherTable& gather : gather_) {
    gather.table.size = SnapshotZones::kMostPieces * sizeof(DeviceCode::Piece);
  }
  uint64_t bytes = 0;
  for (const Scratch* table : tables) bytes += table->size;
  bytes = (bytes + granularity.value() - 1) / granularity.value() * granularity.value();
  auto mapped = map_memory(driver_, device, bytes, 0);
  if (!mapped.ok()) return mapped.status();
  tables_ = mapped.value();
  host_tables_ = allocate_block(bytes);
  if (host_tables_ == nullptr) return {Code::kNoSpace, "no host memory is left"};
  // Unpinned it works too, at a lower speed.
  (void)driver_.cuMemHostRegister_v2(host_tables_, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  uint64_t offset = 0;
  for (Scratch* table : tables) {
    table->device = tables_.address + offset;
    table->host = host_tables_ + offset;
    offset += table->size;
  }
  // A copy of some kilobytes would take longer than kernels that read and write them there.
  reaches_host_tables_ = driver_.cuMemHostGetDevicePointer_v2 != nullptr &&
                         driver_.cuMemHostGetDevicePointer_v2(&host_tables_on_device_, host_tables_,
                                                              0) == CUDA_SUCCESS;
  fingerprints_out_ =
      reaches_host_tables_
          ? host_tables_on_device_ + static_cast<uint64_t>(fingerprints_.host - host_tables_)
          : fingerprints_.device;
  return {};
}

void DeviceLane::grow_cache(uint64_t cache_bytes, uint64_t zone_bytes) {
  GrowingMemory cache;
  {
    std::lock_guard lock(mutex_);
    if (has_all_) return;
    growing_ = true;
    cache = cache_;
  }
  const size_t parts = cache.parts.size();
  const std::optional<Status> tried = back_cache_in_turn(cache, cache_bytes);
  std::set<int> refused;
  for (const int device : let_in_) {
    if (allow(cache, parts, device) != CUDA_SUCCESS) refused.insert(device);
  }
  std::optional<Descriptor> file = cache.parts.size() > parts ? export_last(cache) : std::nullopt;
  std::lock_guard lock(mutex_);
  growing_ = false;
  for (const int device : refused) refuse(device);
  if (!tried) return;
  // Parts are lent from the first one on.
  if (file && files_.size() == parts) files_.push_back(std::move(*file));
  const Status& grown = *tried;
  has_all_ = !grown.ok() || cache.size == cache.reserved;
  if (!grown.ok() && cache.size == 0) {
    unmap_memory(driver_, std::exchange(cache, {}));
    log(LogLevel::kWarn,
        "snapshots go without a buffer on the device (GPUSNAP_DEVICE_CACHE): ", grown.message());
  }
  cache_ = std::move(cache);
  zone_bytes_ = zone_bytes;
  blocks_.grow(std::min(cache_.size, cache_bytes) / zone_bytes);
}

std::optional<Status> DeviceLane::back_cache_in_turn(GrowingMemory& cache, uint64_t cache_bytes) {
  const std::optional<NodeTurn::Turn> turn = turns_.take();
  if (!turn) return std::nullopt;
  return back_cache(cache, cache_bytes);
}

// One part more of it.
Status DeviceLane::back_cache(GrowingMemory& cache, uint64_t cache_bytes) const {
  const auto granularity = mapping_granularity(driver_, tables_.device);
  if (!granularity.ok()) return granularity.status();
  const uint64_t granule = granularity.value();
  const auto whole = [granule](uint64_t bytes) {
    return (bytes + granule - 1) / granule * granule;
  };
  if (cache.address == 0 && cache_bytes != 0) {
    auto reserved = reserve_memory(driver_, tables_.device, whole(cache_bytes));
    if (!reserved.ok()) return reserved.status();
    cache = std::move(reserved.value());
  }
  return driver_status(driver_, "growing it",
                       grow_memory(driver_, cache, whole(kPartOfCache), may_lend_));
}

// The descriptor keeps the memory of the cache's last part for who is given it.
std::optional<Descriptor> DeviceLane::export_last(const GrowingMemory& cache) const {
  if (!may_lend_ || driver_.cuMemExportToShareableHandle == nullptr) return std::nullopt;
  int file = -1;
  const CUresult result = driver_.cuMemExportToShareableHandle(
      &file, cache.parts.back().handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result == CUDA_SUCCESS) return out_of_the_way(Descriptor(file));
  log(LogLevel::kInfo, "the buffer on device ", device(),
      " cannot be lent to other processes: the driver says ", error_name(driver_, result));
  return std::nullopt;
}

void DeviceLane::keep_bytes(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  kept_bytes_ = bytes;
}

LoanReply DeviceLane::lend(uint64_t number, uint64_t most, std::vector<int>& descriptors) {
  std::lock_guard lock(mutex_);
  if (!lends_ || files_.empty() || files_.size() != cache_.parts.size()) {
    return {.error = "its device buffer is not there, or cannot be lent"};
  }
  const auto run = loans_.grant(blocks_, number, most / zone_bytes_,
                                (kept_bytes_ + zone_bytes_ - 1) / zone_bytes_);
  if (!run) return {.error = "it needs its device buffer itself"};
  guest_blocks_ += run->count;
  LoanReply reply = pieces_of(*run, descriptors);
  if (!reply.error.empty()) (void)end(number);
  return reply;
}

// The parts in which the blocks lie.
LoanReply DeviceLane::pieces_of(BlockPool::Run run, std::vector<int>& descriptors) const {
  LoanReply reply;
  reply.device = id_;
  const uint64_t begin = run.first * zone_bytes_;
  const uint64_t end = begin + run.count * zone_bytes_;
  uint64_t at = 0;  // where the part begins
  for (size_t i = 0; i < files_.size(); at += cache_.parts[i++].size) {
    const uint64_t part_end = at + cache_.parts[i].size;
    if (part_end <= begin || at >= end) continue;
    if (reply.pieces.empty()) reply.first = begin - at;
    if (reply.pieces.size() == kMostMemoryPieces) break;
    descriptors.push_back(fcntl(files_[i].get(), F_DUPFD_CLOEXEC, files_[i].get()));
    reply.pieces.push_back(cache_.parts[i].size);
    reply.bytes += std::min(part_end, end) - std::max(at, begin);
  }
  if (std::ranges::find(descriptors, -1) == descriptors.end()) return reply;
  for (const int descriptor : descriptors) ::close(descriptor);
  descriptors.clear();
  return {.error = "it has no descriptor left"};
}

bool DeviceLane::end_loan(uint64_t number) {
  std::lock_guard lock(mutex_);
  return end(number);
}

bool DeviceLane::end(uint64_t number) {
  const auto run = loans_.end(blocks_, number);
  if (!run) return false;
  guest_blocks_ -= run->count;
  loan_ended_.notify_all();
  return true;
}

bool DeviceLane::stop_lending(std::chrono::nanoseconds longest) {
  std::unique_lock lock(mutex_);
  lends_ = false;
  return loan_ended_.wait_for(lock, longest, [this] { return !loans_.any(); });
}

CUresult DeviceLane::allow(const GrowingMemory& cache, size_t first_part, int device) const {
  CUresult result = CUDA_SUCCESS;
  for (size_t i = first_part; i < cache.parts.size() && result == CUDA_SUCCESS; ++i) {
    result = allow_device(driver_, cache.parts[i], device);
  }
  return result;
}

void DeviceLane::refuse(int device) {
  let_in_.erase(device);
  refused_.insert(device);
  log(LogLevel::kInfo, "device ", device, " cannot write to memory of device ", this->device(),
      ": snapshots go without its buffer");
}

// While `growing_`, nobody takes the memory away.
void DeviceLane::let_devices_in() {
  std::set<int> asked;
  GrowingMemory cache;
  {
    std::lock_guard lock(mutex_);
    if (asked_.empty() || cache_.size == 0) return;
    asked.swap(asked_);
    growing_ = true;
    cache = cache_;
  }
  std::set<int> allowed;
  for (const int device : asked) {
    if (allow(cache, 0, device) == CUDA_SUCCESS) allowed.insert(device);
  }
  std::lock_guard lock(mutex_);
  growing_ = false;
  for (const int device : asked) {
    if (allowed.contains(device)) {
      let_in_.insert(device);
    } else {
      refuse(device);
    }
  }
}

CUdeviceptr DeviceLane::block(uint64_t index) {
  std::lock_guard lock(mutex_);
  return cache_.address + index * zone_bytes_;
}

CUdeviceptr DeviceLane::direct_buffer(uint64_t bytes) {
  if (direct_.address != 0) return direct_.size >= bytes ? direct_.address : 0;
  const auto granularity = mapping_granularity(driver_, device());
  if (!granularity.ok()) return 0;
  const uint64_t whole = (bytes + granularity.value() - 1) / granularity.value();
  auto mapped = map_memory_for_adapters(driver_, device(), whole * granularity.value());
  if (!mapped.ok()) return 0;
  const std::lock_guard lock(mutex_);
  direct_ = mapped.value();
  return direct_.address;
}

uint64_t DeviceLane::own_bytes() {
  std::lock_guard lock(mutex_);
  return tables_.size + cache_.size + direct_.size;
}

DeviceLane::~DeviceLane() {
  unmap_memory(driver_, direct_);
  unmap_memory(driver_, cache_);
  unmap_memory(driver_, tables_);
  if (host_tables_ == nullptr) return;
  (void)driver_.cuMemHostUnregister(host_tables_);
  release_block(host_tables_, tables_.size);
}

// Most cuts find the allocations of the one before.
CUresult DeviceLane::upload_spans(uint32_t count) {
  const size_t bytes = count * sizeof(DeviceCode::Span);
  if (on_device_.size() == bytes && std::memcmp(on_device_.data(), spans_.host, bytes) == 0) {
    return CUDA_SUCCESS;
  }
  on_device_.assign(spans_.host, spans_.host + bytes);
  return driver_.cuMemcpyHtoDAsync_v2(spans_.device, spans_.host, bytes, gate_);
}

Status DeviceLane::fingerprint_batch(uint32_t spans, uint64_t zones, uint64_t zone_bytes) {
  CUresult result = upload_spans(spans);
  if (result == CUDA_SUCCESS) {
    result = code_->fingerprints(spans_.device, spans, zones, zone_bytes, fingerprints_out_, gate_);
  }
  if (result == CUDA_SUCCESS && fingerprints_out_ == fingerprints_.device) {
    result = driver_.cuMemcpyDtoHAsync_v2(fingerprints_.host, fingerprints_.device,
                                          zones * sizeof(uint64_t), gate_);
  }
  // Also after a failure: the kernel reads memory that the program is about to give back.
  const CUresult done = driver_.cuStreamSynchronize(gate_);
  if (result == CUDA_SUCCESS) result = done;
  if (result != CUDA_SUCCESS) on_device_.clear();
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

// The kernel reads the table where the host has it: a copy would stand in the way of the program's.
CUresult DeviceLane::gather(GatherTable& gather, std::span<const DeviceCode::Piece> pieces) {
  if (pieces.size() > SnapshotZones::kMostPieces) return CUDA_ERROR_INVALID_VALUE;
  const Scratch& table = gather.table;
  std::memcpy(table.host, pieces.data(), pieces.size_bytes());
  CUdeviceptr from = table.device;
  if (reaches_host_tables_) {
    from = host_tables_on_device_ + static_cast<uint64_t>(table.host - host_tables_);
  } else {
    const CUresult result =
        driver_.cuMemcpyHtoDAsync_v2(from, table.host, pieces.size_bytes(), gathering_);
    if (result != CUDA_SUCCESS) return result;
  }
  return code_->gather(from, static_cast<uint32_t>(pieces.size()), gathering_);
}

GatherTable* DeviceLane::free_gather_table() {
  const auto found = std::ranges::find(gather_, false, &GatherTable::busy);
  return found == gather_.end() ? nullptr : &*found;
}

BlockPool::Run DeviceLane::take_blocks(uint64_t most) {
  std::lock_guard lock(mutex_);
  return blocks_.take(most);
}

void DeviceLane::give_back_blocks(BlockPool::Run run) {
  std::lock_guard lock(mutex_);
  blocks_.give_back(run);
}

BlockPool::Run DeviceLane::take_blocks_for(int device, uint64_t most) {
  std::lock_guard lock(mutex_);
  if (!let_in_.contains(device)) {
    if (!refused_.contains(device)) asked_.insert(device);
    return {};
  }
  const BlockPool::Run run = blocks_.take(most);
  guest_blocks_ += run.count;
  return run;
}

void DeviceLane::give_back_guests(BlockPool::Run run) {
  std::lock_guard lock(mutex_);
  blocks_.give_back(run);
  guest_blocks_ -= run.count;
}

uint64_t DeviceLane::free_bytes() {
  std::lock_guard lock(mutex_);
  return blocks_.free() * zone_bytes_;
}

uint64_t DeviceLane::room_bytes(uint64_t cache_bytes) {
  std::lock_guard lock(mutex_);
  const uint64_t there = blocks_.size() * zone_bytes_;
  const uint64_t to_come = has_all_ || cache_bytes < there ? 0 : cache_bytes - there;
  return blocks_.free() * zone_bytes_ + to_come;
}

std::shared_ptr<void> DeviceLane::record(CUstream stream) {
  const CUevent event = events_.take();
  if (event != nullptr && driver_.cuEventRecord(event, stream) == CUDA_SUCCESS) {
    return {event, [this](void* used) { events_.give_back(static_cast<CUevent>(used)); }};
  }
  events_.give_back(event);
  (void)driver_.cuStreamSynchronize(stream);
  return nullptr;
}

uint64_t DeviceLane::blocks() {
  std::lock_guard lock(mutex_);
  return blocks_.size();
}

bool DeviceLane::few_blocks_left() {
  std::lock_guard lock(mutex_);
  return blocks_.free() < (blocks_.size() - guest_blocks_) / 2;
}

GrowingMemory DeviceLane::take_cache() {
  std::lock_guard lock(mutex_);
  if (growing_ || blocks_.free() != blocks_.size()) return {};
  has_all_ = true;  // the program needs the memory
  blocks_ = BlockPool();
  files_.clear();
  return std::exchange(cache_, {});
}

}  // namespace gpusnap
