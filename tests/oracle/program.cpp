#include "tests/oracle/program.h"

#include <cstring>

#include "tests/oracle/random_kernels_ptx.h"

namespace oracle {

void Program::run() {
  constexpr unsigned kStepsToExchange = 20;
  CHECK(cuCtxSetCurrent(context_));
  add_stream();
  add_stream();
  if (uses_pools_ && draw_.chance(50)) add_pool();
  load_module();
  if (exchange_.shared) {
    make_pinned();
    make_managed();
  }
  for (int i = 0; i < 4; ++i) fill(allocate(random_size()));
  for (unsigned step = 1; step <= steps_; ++step) {
    act();
    if (step % kStepsToExchange == 0) exchange();
  }
  finish();
}

Memory* Program::variable(const char* name) {
  auto memory = std::make_unique<Memory>();
  memory->kind = Memory::Kind::kVariable;
  size_t size = 0;
  CHECK(cuModuleGetGlobal_v2(&memory->address, &size, module_, name));
  memory->size = size;
  others_.push_back(std::move(memory));
  return others_.back().get();
}

void Program::load_module() {
  CHECK(cuModuleLoadData(&module_, kRandomKernelsPtx));
  counters_ = variable("counters");
  salts_ = variable("salts");
  target_ = variable("target");
}

void Program::unload_module() {
  wait_for_all();
  std::erase_if(others_, [](const auto& each) { return each->kind == Memory::Kind::kVariable; });
  CHECK(cuModuleUnload(module_));
}

// Memory of the driver's, or of the program's own that the driver has been told of.
void Program::make_pinned() {
  auto memory = std::make_unique<Memory>();
  memory->kind = Memory::Kind::kPinned;
  memory->size = draw_.between(4096, kMostPinned) / 4 * 4;
  void* bytes = nullptr;
  registered_ = draw_.chance(50);
  if (!registered_) {
    AGAIN(cuMemHostAlloc(&bytes, memory->size, CU_MEMHOSTALLOC_DEVICEMAP));
  } else {
    // In pages of its own.
    const auto start = reinterpret_cast<uintptr_t>(own_bytes_.data());
    bytes = reinterpret_cast<void*>((start + kPage - 1) / kPage * kPage);
    AGAIN(cuMemHostRegister_v2(bytes, memory->size, CU_MEMHOSTREGISTER_DEVICEMAP));
  }
  CHECK(cuMemHostGetDevicePointer_v2(&memory->address, bytes, 0));
  pinned_bytes_ = static_cast<unsigned char*>(bytes);
  std::memset(bytes, static_cast<int>(number_), memory->size);
  pinned_ = memory.get();
  others_.push_back(std::move(memory));
}

void Program::make_managed() {
  auto memory = std::make_unique<Memory>();
  memory->kind = Memory::Kind::kManaged;
  memory->size = draw_.between(4096, 40000) / 4 * 4;
  AGAIN(cuMemAllocManaged(&memory->address, memory->size, CU_MEM_ATTACH_GLOBAL));
  std::memset(reinterpret_cast<void*>(memory->address), 1, memory->size);
  managed_ = memory.get();
  others_.push_back(std::move(memory));
}

void Program::finish() {
  wait_for_all();
  for (const auto& memory : memories_) look(*memory);
  look(*counters_);
  if (exchange_.shared) release_shared();
  unload_module();
  while (!memories_.empty()) release(0);
  drop_pool();
  for (size_t i = 2; i < streams_.size(); ++i) CHECK(cuStreamDestroy_v2(streams_[i]));
}

void Program::release_shared() {
  see(pinned_bytes_, pinned_->size);
  see(reinterpret_cast<const void*>(managed_->address), managed_->size);
  CHECK(registered_ ? cuMemHostUnregister(pinned_bytes_) : cuMemFreeHost(pinned_bytes_));
  CHECK(cuMemFree_v2(managed_->address));
}

void Program::fill(Memory& memory) {
  const CUstream stream = pick_stream();
  touch(memory, stream);
  const auto byte = static_cast<unsigned char>(draw_.word());
  IN_STREAM(cuMemsetD8Async, stream, memory.address, byte, memory.size);
}

void Program::look(Memory& memory) {
  std::vector<unsigned char> bytes(memory.size);
  const CUstream stream = pick_default();
  touch(memory, stream);
  AT_ONCE(cuMemcpyDtoH_v2, stream, bytes.data(), memory.address, bytes.size());
  see(bytes.data(), bytes.size());
}

void Program::act() {
  const uint64_t kind = draw_.below(100);
  trace("actor %u, step of kind %llu\n", number_, static_cast<unsigned long long>(kind));
  if (kind < 14) {
    memory_step();
  } else if (kind < 42) {
    launch_step();
  } else if (kind < 52) {
    exchange_.guesses ? launch_through_memory() : launch_step();
  } else if (kind < 56) {
    const uint64_t graph = draw_.below(5);
    graph < 2 ? captured_graph() : graph < 4 ? built_graph() : memory_graph();
  } else if (kind < 63) {
    draw_.chance(70) ? set_step() : write_words();
  } else if (kind < 76) {
    copy_step();
  } else if (kind < 82) {
    exchange_.shared ? shared_step() : copy_step();
  } else {
    wait_step();
  }
}

void Program::memory_step() {
  if (exchange_.mapped && draw_.chance(40)) return mapped_step();
  const uint64_t kind = draw_.below(14);
  if (kind < 4) {
    fill(allocate(random_size()));
  } else if (kind < 7) {
    if (memories_.size() > 2) release(draw_.below(memories_.size()));
  } else if (kind < 9) {
    // Most often at the same address: another life of the same bytes.
    const size_t at = draw_.below(memories_.size());
    const uint64_t size = memories_[at]->size;
    release(at);
    fill(allocate(size));
  } else if (kind == 9) {
    draw_.chance(50) ? add_stream() : drop_stream();
  } else if (kind == 10) {
    allocate_pitched();
  } else if (kind == 11) {
    if (uses_pools_) trim_pools();
  } else if (kind == 12) {
    if (draw_.chance(40)) other_context();
  } else if (draw_.chance(30)) {
    unload_module();
    load_module();
  }
}

void Program::mapped_step() {
  const auto found =
      std::ranges::find_if(memories_, [](const auto& memory) { return memory->mapped != nullptr; });
  if (found == memories_.end()) return fill(allocate_mapped());
  if (draw_.chance(80)) return remap(**found);
  if (memories_.size() > 1) release(static_cast<size_t>(found - memories_.begin()));
}

void Program::allocate_pitched() {
  size_t pitch = 0;
  auto memory = std::make_unique<Memory>();
  const size_t width = draw_.between(4, 600), height = draw_.between(1, 40);
  AGAIN(cuMemAllocPitch_v2(&memory->address, &pitch, width, height, 4));
  memory->size = pitch * height;
  memories_.push_back(std::move(memory));
  fill(*memories_.back());
}

// A context that comes and goes. Its memory is saved with the rest, and the context's end must wait
// for that.
void Program::other_context() {
  Memory& mine = pick_memory();
  wait_for(mine);
  CUcontext context = nullptr;
  CUdevice device = 0;
  CUdeviceptr memory = 0;
  int devices = 0;
  CHECK(cuDeviceGetCount(&devices));
  device = static_cast<CUdevice>(draw_.below(static_cast<uint64_t>(devices)));
  CHECK(cuCtxCreate_v2(&context, 0, device));
  const uint64_t size = random_size();
  AGAIN(cuMemAlloc_v2(&memory, size));
  CHECK(cuMemsetD8_v2(memory, 7, size));
  for (uint64_t left = draw_.between(1, 4); left > 0; --left) {
    const unsigned word = draw_.word();
    const uint64_t words = draw_.between(1, size / 4);
    CHECK(cuMemsetD32Async(memory, word, words, CU_STREAM_PER_THREAD));
    if (draw_.chance(50)) CHECK(cuCtxSynchronize());
  }
  if (!mine.pool) {
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(cuMemcpyPeer(mine.address, context_, memory, context, std::min(mine.size, size)));
  }
  CHECK(cuCtxSynchronize());
  // Memory that is left in the context is freed with it.
  if (draw_.chance(50)) CHECK(cuMemFree_v2(memory));
  CHECK(cuCtxDestroy_v2(context));
  CHECK(cuCtxSetCurrent(context_));
}

void Program::wait_step() {
  const uint64_t kind = draw_.below(10);
  if (kind < 3) return wait_for_all();
  if (kind < 6) return wait_for(pick_stream());
  if (kind < 8) return wait_for(pick_memory());
  const CUresult busy = cuStreamQuery(pick_stream());
  if (busy != CUDA_SUCCESS && busy != CUDA_ERROR_NOT_READY) fail("cuStreamQuery", busy);
}

}  // namespace oracle
