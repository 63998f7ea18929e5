#include "tests/oracle/actor.h"

#include <algorithm>
#include <utility>

namespace oracle {

namespace {
constexpr uint64_t kMostBytes = 1 << 20;  // allocated at a time by one actor
constexpr size_t kMostStreams = 5;
constexpr size_t kPieceBytes = 2 << 20;

void drop(const Mapped& mapped) {
  for (CUmemGenericAllocationHandle piece : mapped.pieces) CHECK(cuMemRelease(piece));
}
}  // namespace

void Actor::add_stream() {
  if (streams_.empty()) {
    streams_ = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    blocking_ = {CU_STREAM_PER_THREAD};
  }
  if (streams_.size() >= kMostStreams) return;
  CUstream stream = nullptr;
  const bool blocking = draw_.chance(30);
  const unsigned flags = blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
  if (draw_.chance(50)) {
    CHECK(cuStreamCreate(&stream, flags));
  } else {
    CHECK(cuStreamCreateWithPriority(&stream, flags, draw_.chance(50) ? 0 : -1));
  }
  streams_.push_back(stream);
  if (blocking) blocking_.push_back(stream);
}

std::pair<bool, CUstream> Actor::given_as(CUstream stream) {
  if (stream == CU_STREAM_LEGACY && draw_.chance(50)) return {false, nullptr};
  if (stream == CU_STREAM_PER_THREAD && draw_.chance(50)) return {true, nullptr};
  return {draw_.chance(20), stream};
}

void Actor::drop_stream() {
  if (streams_.size() <= 3) return;
  const size_t at = draw_.between(2, streams_.size() - 1);
  const CUstream stream = streams_[at];
  wait_for(stream);
  CHECK(cuStreamDestroy_v2(stream));
  std::erase(streams_, stream);
  std::erase(blocking_, stream);
}

// Legacy work and that of blocking streams wait for each other by themselves.
bool Actor::ordered_anyway(CUstream one, CUstream other) const {
  if (other == CU_STREAM_LEGACY) std::swap(one, other);
  return one == CU_STREAM_LEGACY &&
         std::find(blocking_.begin(), blocking_.end(), other) != blocking_.end();
}

CUevent Actor::mark(Memory& memory) {
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(event, memory.last));
  return event;
}

void Actor::touch(Memory& memory, CUstream stream) {
  trace("  stream %p touches %#llx, %llu bytes, touched %d by %p\n", static_cast<void*>(stream),
        memory.address, static_cast<unsigned long long>(memory.size), memory.touched,
        static_cast<void*>(memory.last));
  if (memory.touched && memory.last != stream &&
      !(ordered_anyway(memory.last, stream) && draw_.chance(50))) {
    const CUevent event = mark(memory);
    CHECK(cuStreamWaitEvent(stream, event, 0));
    CHECK(cuEventDestroy_v2(event));
  }
  memory.last = stream;
  memory.touched = true;
}

void Actor::wait_for(Memory& memory) {
  if (!memory.touched) return;
  if (draw_.chance(30)) {
    const CUevent event = mark(memory);
    CHECK(cuEventSynchronize(event));
    CHECK(cuEventDestroy_v2(event));
    memory.touched = false;
  } else {
    wait_for(memory.last);
  }
}

// The host has waited for what touched these.
template <class Is>
void Actor::settle(const Is& is_settled) {
  for (const auto* list : {&memories_, &others_}) {
    for (const auto& memory : *list) {
      if (is_settled(*memory)) memory->touched = false;
    }
  }
}

void Actor::wait_for(CUstream stream) {
  CHECK(cuStreamSynchronize(stream));
  settle([stream](const Memory& memory) { return memory.last == stream; });
}

void Actor::wait_for_all() {
  CHECK(cuCtxSynchronize());
  settle([](const Memory&) { return true; });
  kept_.clear();
}

uint64_t Actor::random_size() {
  const uint64_t kind = draw_.below(10);
  if (kind == 0) return draw_.between(4, 64);
  if (kind < 4) return draw_.between(64, 5000);
  if (kind < 9) return draw_.between(4096, 70000);
  return draw_.between(70000, 300000);
}

uint64_t Actor::bytes_allocated() const {
  uint64_t bytes = 0;
  for (const auto& memory : memories_) bytes += memory->size;
  return bytes;
}

Memory& Actor::allocate(uint64_t size) {
  while (memories_.size() > 1 && bytes_allocated() + size > kMostBytes) {
    release(draw_.below(memories_.size()));
  }
  auto memory = std::make_unique<Memory>();
  memory->size = size;
  if (uses_pools_ && draw_.chance(25)) {
    allocate_ordered(*memory);
  } else {
    AGAIN(cuMemAlloc_v2(&memory->address, size));
  }
  memories_.push_back(std::move(memory));
  return *memories_.back();
}

void Actor::allocate_ordered(Memory& memory) {
  memory.pool = memory.touched = true;
  memory.last = pick_stream();
  const auto [use_ptsz, given] = given_as(memory.last);
  if (pool_ != nullptr && draw_.chance(50)) {
    AGAIN((use_ptsz ? cuMemAllocFromPoolAsync_ptsz : cuMemAllocFromPoolAsync)(
        &memory.address, memory.size, pool_, given));
  } else {
    AGAIN((use_ptsz ? cuMemAllocAsync_ptsz : cuMemAllocAsync)(&memory.address, memory.size, given));
  }
}

// The pool keeps memory up to its threshold across synchronisations, until it is trimmed.
void Actor::add_pool() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuCtxGetDevice(&properties.location.id));
  CHECK(cuMemPoolCreate(&pool_, &properties));
  uint64_t threshold = draw_.below(4) << 16;
  CHECK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

void Actor::drop_pool() {
  if (pool_ != nullptr) CHECK(cuMemPoolDestroy(pool_));
}

void Actor::trim_pools() {
  CUdevice device = 0;
  CUmemoryPool common = nullptr;
  CHECK(cuCtxGetDevice(&device));
  CHECK(cuDeviceGetDefaultMemPool(&common, device));
  CHECK(
      cuMemPoolTrimTo(draw_.chance(50) && pool_ != nullptr ? pool_ : common, draw_.below(3) << 15));
}

CUdeviceptr Actor::map(const Mapped& mapped) {
  const size_t bytes = mapped.pieces.size() * kPieceBytes;
  CUdeviceptr address = 0;
  CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  for (size_t i = 0; i < mapped.pieces.size(); ++i) {
    CHECK(cuMemMap(address + i * kPieceBytes, kPieceBytes, 0, mapped.pieces[i], 0));
  }
  int devices = 0;
  CHECK(cuDeviceGetCount(&devices));
  std::vector<CUmemAccessDesc> all;
  for (CUdevice device = 0; device < devices; ++device) {
    all.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  }
  CHECK(cuMemSetAccess(address, bytes, all.data(), all.size()));
  return address;
}

void Actor::unmap(const Mapped& mapped, CUdeviceptr address) {
  const size_t bytes = mapped.pieces.size() * kPieceBytes;
  CHECK(cuMemUnmap(address, bytes));
  CHECK(cuMemAddressFree(address, bytes));
}

void Actor::hold(Mapped& mapped) {
  for (size_t i = 0; !mapped.held && i < mapped.pieces.size(); ++i) {
    void* const at = reinterpret_cast<void*>(mapped.address + i * kPieceBytes);
    CHECK(cuMemRetainAllocationHandle(&mapped.pieces[i], at));
  }
  mapped.held = true;
}

Memory& Actor::allocate_mapped() {
  auto mapped = std::make_unique<Mapped>();
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuCtxGetDevice(&kind.location.id));
  mapped->pieces.resize(draw_.between(1, 2));
  for (CUmemGenericAllocationHandle& piece : mapped->pieces) {
    AGAIN(cuMemCreate(&piece, kPieceBytes, &kind, 0));
  }
  mapped->address = map(*mapped);
  mapped->held = draw_.chance(60);
  if (!mapped->held) drop(*mapped);
  auto memory = std::make_unique<Memory>();
  memory->size = random_size();
  const uint64_t before =
      mapped->pieces.size() == 1 ? memory->size : draw_.between(1, memory->size);
  memory->address = mapped->address + kPieceBytes - (before + 15) / 16 * 16;
  memory->mapped = std::move(mapped);
  memories_.push_back(std::move(memory));
  return *memories_.back();
}

void Actor::remap(Memory& memory) {
  Mapped& mapped = *memory.mapped;
  if (mapped.twin != 0) {
    unmap(mapped, std::exchange(mapped.twin, 0));
    return;
  }
  hold(mapped);
  if (draw_.chance(40)) {
    mapped.twin = map(mapped);
    return;
  }
  const uint64_t offset = memory.address - mapped.address;
  wait_for(memory);
  unmap(mapped, mapped.address);
  // Checkpoints are taken at synchronisations.
  if (draw_.chance(60)) wait_for(pick_stream());
  mapped.address = map(mapped);
  memory.address = mapped.address + offset;
}

// Any of the addresses that it has.
CUdeviceptr Actor::place_of(const Memory& memory) {
  const bool twice = memory.mapped != nullptr && memory.mapped->twin != 0;
  return twice && draw_.chance(50) ? memory.twin() : memory.address;
}

// The driver waits for what is queued before memory goes; of a pool it goes in its stream's order.
void Actor::release(size_t index) {
  Memory& memory = *memories_[index];
  if (draw_.chance(50)) wait_for(memory);
  if (memory.mapped != nullptr) {
    const Mapped& mapped = *memory.mapped;
    const bool early = mapped.held && draw_.chance(50);
    if (early) drop(mapped);
    if (mapped.twin != 0) unmap(mapped, mapped.twin);
    unmap(mapped, mapped.address);
    if (mapped.held && !early) drop(mapped);
  } else if (memory.pool && draw_.chance(80)) {
    const CUstream stream = pick_stream();
    touch(memory, stream);
    IN_STREAM(cuMemFreeAsync, stream, memory.address);
  } else {
    CHECK(cuMemFree_v2(memory.address));
  }
  memories_.erase(memories_.begin() + static_cast<std::ptrdiff_t>(index));
}

Part Actor::pick_part(Memory& memory) {
  const uint64_t words = memory.words();
  const CUdeviceptr address = place_of(memory);
  if (draw_.chance(30)) return {&memory, address, words * 4};
  const uint64_t first = draw_.below(words);
  const uint64_t most = draw_.chance(50) ? words - first : std::min<uint64_t>(words - first, 1500);
  return {&memory, address + first * 4, draw_.between(1, most) * 4};
}

std::pair<Part, Part> Actor::pick_two() {
  Memory &one = pick_memory(), &other = pick_memory();
  if (&one != &other) return {pick_part(one), pick_part(other)};
  const uint64_t half = one.words() / 2 * 4;
  if (half == 0) return {};
  return {{&one, place_of(one), half}, {&one, place_of(one) + half, half}};
}

std::vector<unsigned char>& Actor::host_bytes(uint64_t size) {
  auto& bytes = kept_.emplace_back(size);
  unsigned value = draw_.word();
  for (unsigned char& byte : bytes) {
    value = value * 1664525u + 1013904223u;
    byte = static_cast<unsigned char>(value >> 24);
  }
  return bytes;
}

void Actor::see(const void* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    seen_ = (seen_ ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  }
  trace("  saw %zu bytes: %016llx\n", size, static_cast<unsigned long long>(seen_));
}

}  // namespace oracle
