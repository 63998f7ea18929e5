// random_program SEED [--threads N] [--contexts N] [--steps N] [--faults] [--threads-stay]
// [--trace]: a program that does at random whatever can be done to device memory, and prints one
// number that all of it went into. The same seed gives the same program and the same number,
// wherever its memory lies: what it computes is of no address, and of no memory that it has not
// written.
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <latch>
#include <string_view>
#include <thread>

#include "tests/oracle/actor.h"
#include "tests/oracle/random_kernels.h"
#include "tests/oracle/random_kernels_ptx.h"

namespace oracle {
namespace {

constexpr unsigned kThreads = 64;  // of a block; what reverse() expects
constexpr unsigned kStepsToExchange = 20;

// Where actors hand memory to each other.
struct Exchange {
  // Whether a context has several actors. While one captures, another one's waiting for the whole
  // context is an error; so is its legacy work.
  bool shared_contexts = false;
  struct Offer {
    std::unique_ptr<Memory> memory;
    CUevent ready = nullptr;
  };
  explicit Exchange(unsigned actors) : offers(actors), all_there(actors) {}
  std::vector<Offer> offers;
  std::barrier<> all_there;
};

class Program : public Actor {
 public:
  Program(uint64_t seed, unsigned number, CUcontext context, unsigned steps, Exchange& exchange)
      : Actor(seed, number, context, steps), number_(number), exchange_(exchange) {}

  void run() {
    CHECK(cuCtxSetCurrent(context_));
    add_stream();
    add_stream();
    load_module();
    make_shared_memory();
    for (int i = 0; i < 4; ++i) fill(allocate(random_size()));
    for (unsigned step = 1; step <= steps_; ++step) {
      act();
      if (step % kStepsToExchange == 0) exchange();
    }
    finish();
  }

 private:
  // ---- the beginning and the end
  void load_module();
  void unload_module();
  Memory* variable(const char* name);
  void make_shared_memory();
  void exchange();
  void finish();

  // ---- one step
  void act();
  void memory_step();
  void launch_step();
  void launch_through_memory();
  void graph_step();
  void set_step();
  void copy_step();
  void copy_box();
  void shared_step();
  void wait_step();

  void fill(Memory& memory);
  void look(Memory& memory);
  // A kernel by name, on enough threads for `items` or fewer.
  template <class... A>
  bool launch(const char* name, CUstream stream, uint64_t items, A... arguments);

  const unsigned number_;
  Exchange& exchange_;
  CUmodule module_ = nullptr;
  Memory *counters_ = nullptr, *salts_ = nullptr, *target_ = nullptr;
  Memory *pinned_ = nullptr, *managed_ = nullptr;
  unsigned char* pinned_bytes_ = nullptr;
};

template <class... A>
bool Program::launch(const char* name, CUstream stream, uint64_t items, A... arguments) {
  trace("  launch %s\n", name);
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, module_, name));
  void* parameters[] = {&arguments...};
  const auto blocks = static_cast<unsigned>(
      std::min<uint64_t>((items + kThreads - 1) / kThreads, 1 + draw_.below(64)));
  if (draw_.chance(80)) {
    return TRY(
        cuLaunchKernel(function, blocks, 1, 1, kThreads, 1, 1, 0, stream, parameters, nullptr));
  }
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = kThreads;
  config.hStream = stream;
  return TRY(cuLaunchKernelEx(&config, function, parameters, nullptr));
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

void Program::make_shared_memory() {
  for (const auto kind : {Memory::Kind::kPinned, Memory::Kind::kManaged}) {
    auto memory = std::make_unique<Memory>();
    memory->kind = kind;
    memory->size = draw_.between(4096, 40000) / 4 * 4;
    if (kind == Memory::Kind::kPinned) {
      void* bytes = nullptr;
      AGAIN(cuMemHostAlloc(&bytes, memory->size, CU_MEMHOSTALLOC_DEVICEMAP));
      CHECK(cuMemHostGetDevicePointer_v2(&memory->address, bytes, 0));
      pinned_bytes_ = static_cast<unsigned char*>(bytes);
      std::memset(bytes, static_cast<int>(number_), memory->size);
      pinned_ = memory.get();
    } else {
      AGAIN(cuMemAllocManaged(&memory->address, memory->size, CU_MEM_ATTACH_GLOBAL));
      std::memset(reinterpret_cast<void*>(memory->address), 1, memory->size);
      managed_ = memory.get();
    }
    others_.push_back(std::move(memory));
  }
}

// Each gives one allocation to the next one; where that one's stream takes it over, it waits for
// what the giver has queued.
void Program::exchange() {
  auto& offers = exchange_.offers;
  if (offers.size() < 2) return;
  if (memories_.size() < 2) fill(allocate(random_size()));
  const size_t given = draw_.below(memories_.size());
  Memory& memory = *memories_[given];
  offers[number_].ready = memory.touched ? mark(memory) : nullptr;
  offers[number_].memory = std::move(memories_[given]);
  memories_.erase(memories_.begin() + static_cast<std::ptrdiff_t>(given));
  exchange_.all_there.arrive_and_wait();
  Exchange::Offer taken = std::move(offers[(number_ + 1) % offers.size()]);
  exchange_.all_there.arrive_and_wait();
  const CUstream stream = pick_stream();
  if (taken.ready != nullptr) {
    CHECK(cuStreamWaitEvent(stream, taken.ready, 0));
    CHECK(cuEventDestroy_v2(taken.ready));
  }
  taken.memory->last = stream;
  taken.memory->touched = true;
  memories_.push_back(std::move(taken.memory));
}

void Program::finish() {
  wait_for_all();
  for (const auto& memory : memories_) look(*memory);
  look(*counters_);
  see(pinned_bytes_, pinned_->size);
  see(reinterpret_cast<const void*>(managed_->address), managed_->size);
  CHECK(cuMemFreeHost(pinned_bytes_));
  CHECK(cuMemFree_v2(managed_->address));
  unload_module();
  while (!memories_.empty()) release(0);
  for (size_t i = 2; i < streams_.size(); ++i) CHECK(cuStreamDestroy_v2(streams_[i]));
}

void Program::fill(Memory& memory) {
  const CUstream stream = pick_stream();
  touch(memory, stream);
  CHECK(cuMemsetD8Async(memory.address, static_cast<unsigned char>(draw_.word()), memory.size,
                        stream));
}

// What the host gets of the memory goes into the program's number.
void Program::look(Memory& memory) {
  std::vector<unsigned char> bytes(memory.size);
  touch(memory, CU_STREAM_LEGACY);
  CHECK(cuMemcpyDtoH_v2(bytes.data(), memory.address, bytes.size()));
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
    launch_through_memory();
  } else if (kind < 55) {
    graph_step();
  } else if (kind < 62) {
    set_step();
  } else if (kind < 76) {
    copy_step();
  } else if (kind < 82) {
    shared_step();
  } else {
    wait_step();
  }
}

void Program::memory_step() {
  const uint64_t kind = draw_.below(12);
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
    size_t pitch = 0;
    auto memory = std::make_unique<Memory>();
    const size_t width = draw_.between(4, 600), height = draw_.between(1, 40);
    AGAIN(cuMemAllocPitch_v2(&memory->address, &pitch, width, height, 4));
    memory->size = pitch * height;
    memories_.push_back(std::move(memory));
    fill(*memories_.back());
  } else if (draw_.chance(30)) {
    unload_module();
    load_module();
  }
}

void Program::launch_step() {
  const CUstream stream = pick_stream();
  const unsigned value = draw_.word();
  const Part to = pick_part(pick_memory());
  const uint64_t kind = draw_.below(14);
  if (kind == 5 || kind == 6 || kind >= 11) {
    const auto [from, other] = pick_two();
    if (from.memory == nullptr) return;
    const unsigned words = std::min(from.words(), other.words());
    touch(*from.memory, stream);
    touch(*other.memory, stream);
    if (kind == 5) {
      launch("move", stream, words, Moved{from.pointer(), other.pointer(), words, value});
    } else if (kind == 6) {
      touch(*salts_, stream);
      // The mark is the last word, which nothing else of this launch writes.
      const unsigned moved = words - 1;
      launch("move_nested", stream, words, value,
             Nested{value + 1,
                    {from.pointer(), other.pointer(), moved, 3},
                    {other.pointer() + moved, 0x123456789abcdefull}},
             value * 3);
    } else if (kind == 11) {
      launch("either", stream, words, from.pointer(), other.pointer(), words, value);
    } else if (kind == 12) {
      launch("count_up", stream, from.words(), other.pointer(), other.words(), from.pointer(),
             from.words());
    } else {
      launch("sum", stream, from.words(), from.pointer(), from.words(), other.pointer());
    }
    return;
  }
  if (kind == 7) {
    Targets targets{{}, 1024, value};
    for (unsigned*& at : targets.at) {
      const Part part = pick_part(pick_memory());
      touch(*part.memory, stream);
      at = part.pointer();
      targets.count = std::min(targets.count, part.words());
    }
    // Where targets overlap, threads could write one word twice: each goes one word at a time.
    CUfunction function = nullptr;
    CHECK(cuModuleGetFunction(&function, module_, "spread"));
    void* parameters[] = {&targets};
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
    return;
  }
  if (kind == 8) {
    touch(*counters_, stream);
    launch("count_in_module", stream, 500, draw_.word() % kCounters,
           static_cast<unsigned>(draw_.between(1, kCounters)), value);
    return;
  }
  touch(*to.memory, stream);
  switch (kind) {
    case 0:
      return (void)launch("fill", stream, to.words(), to.pointer(), to.words(), value);
    case 1: {
      const auto step = static_cast<unsigned>(draw_.between(1, to.words()));
      const unsigned count = (to.words() - 1) / step + 1;
      return (void)launch("touch", stream, count, to.pointer(), count, step, value);
    }
    case 2: {
      const auto skipped = static_cast<unsigned>(draw_.below(4));
      const auto bytes = static_cast<unsigned>(to.size) - skipped;
      return (void)launch("touch_bytes", stream, bytes, to.address + skipped, bytes, value);
    }
    case 3: {
      const CUdeviceptr aligned = (to.address + 15) / 16 * 16;
      if (aligned + 16 > to.address + to.size) return;
      const auto words = static_cast<unsigned>((to.address + to.size - aligned) / 4);
      return (void)launch("fill_wide", stream, words / 4, aligned, words, value);
    }
    case 4:
      return (void)launch("call_function", stream, to.words(), to.pointer(), to.words(), value);
    case 9:
      return (void)launch("reverse", stream, to.words(), to.pointer(), to.words());
    default:
      return (void)launch("ponder", stream, std::min(to.words(), 512u), to.pointer(), to.words(),
                          static_cast<unsigned>(draw_.between(100, 3000)), value);
  }
}

// Through pointers that the launch's arguments do not show.
void Program::launch_through_memory() {
  const CUstream stream = pick_stream();
  const unsigned value = draw_.word();
  if (draw_.chance(30)) {
    // The pointer is a variable of the module, set by the host or by a kernel.
    trace("  through target\n");
    const Part to = pick_part(pick_memory());
    touch(*target_, stream);
    bool aimed = false;
    if (draw_.chance(50)) {
      aimed = launch("aim", stream, 1, to.pointer());
    } else {
      auto& bytes = host_bytes(8);
      std::memcpy(bytes.data(), &to.address, 8);
      aimed = TRY(cuMemcpyHtoDAsync_v2(target_->address, bytes.data(), 8, stream));
    }
    if (!aimed) return;
    if (draw_.chance(50)) wait_for(stream);
    touch(*target_, stream);
    touch(*to.memory, stream);
    return (void)launch("through_target", stream, to.words(), to.words(), value);
  }
  // Every word is named by one pointer at most: targets are different memories.
  std::vector<Part> parts;
  Memory& table = pick_memory();
  for (const auto& memory : memories_) {
    if (memory.get() != &table && draw_.chance(50) && parts.size() < 8) {
      parts.push_back(pick_part(*memory));
    }
  }
  const bool boxes = draw_.chance(50);
  const uint64_t entry = boxes ? sizeof(Box) : 8;
  while (!parts.empty() && parts.size() * entry > table.size) parts.pop_back();
  if (parts.empty() || table.address % 8 != 0) return;
  auto& bytes = host_bytes(parts.size() * entry);
  unsigned words = 4096;
  for (size_t i = 0; i < parts.size(); ++i) {
    touch(*parts[i].memory, stream);
    words = std::min(words, parts[i].words());
    if (boxes) {
      const CUdeviceptr next = i + 1 < parts.size() ? table.address + (i + 1) * entry : 0;
      const Box box{parts[i].pointer(), std::min(parts[i].words(), 4096u), value,
                    reinterpret_cast<Box*>(next)};
      std::memcpy(bytes.data() + i * entry, &box, sizeof box);
    } else {
      std::memcpy(bytes.data() + i * entry, &parts[i].address, 8);
    }
  }
  touch(table, stream);
  if (!TRY(cuMemcpyHtoDAsync_v2(table.address, bytes.data(), bytes.size(), stream))) return;
  if (draw_.chance(50)) wait_for(stream);
  touch(table, stream);
  for (const Part& part : parts) touch(*part.memory, stream);
  if (boxes) {
    launch("through_boxes", stream, words, table.address);
  } else {
    launch("through_table", stream, words * parts.size(), table.address,
           static_cast<unsigned>(parts.size()), words, value);
  }
  // Addresses may be others in another run, and must not come into what the program computes.
  CHECK(cuMemsetD8Async(table.address, 0, bytes.size(), stream));
}

// Captured once, launched a few times.
void Program::graph_step() {
  const CUstream stream = streams_[draw_.between(1, streams_.size() - 1)];  // legacy cannot be
  const auto [from, to] = pick_two();
  if (from.memory == nullptr) return;
  if (exchange_.shared_contexts) return set_step();
  const uint64_t size = std::min(from.size, to.size);
  const auto words = static_cast<unsigned>(size / 4);
  touch(*from.memory, stream);
  touch(*to.memory, stream);
  CHECK(cuStreamBeginCapture_v2(stream, draw_.chance(50) ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                         : CU_STREAM_CAPTURE_MODE_RELAXED));
  if (draw_.chance(50)) launch("fill", stream, from.words(), from.pointer(), from.words(), 5u);
  if (draw_.chance(50)) CHECK(cuMemcpyDtoDAsync_v2(to.address, from.address, size, stream));
  if (draw_.chance(50)) CHECK(cuMemsetD32Async(to.address, draw_.word(), words / 2, stream));
  launch("move", stream, words, Moved{from.pointer(), to.pointer(), words, draw_.word()});
  CUgraph graph = nullptr;
  CUgraphExec made = nullptr;
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiateWithFlags(&made, graph, 0));
  for (uint64_t left = draw_.between(1, 3); left > 0; --left) {
    const CUstream on = pick_stream();
    touch(*from.memory, on);
    touch(*to.memory, on);
    CHECK(cuGraphLaunch(made, on));
    if (draw_.chance(60)) wait_step();
  }
  CHECK(cuGraphExecDestroy(made));
  CHECK(cuGraphDestroy(graph));
}

void Program::set_step() {
  const bool async = draw_.chance(60);
  const CUstream stream = async ? pick_stream() : CU_STREAM_LEGACY;
  const Part to = pick_part(draw_.chance(90) ? pick_memory() : *counters_);
  const auto byte = static_cast<unsigned char>(draw_.word());
  const auto half = static_cast<unsigned short>(draw_.word());
  const unsigned word = draw_.word();
  touch(*to.memory, stream);
  const CUdeviceptr at = to.address;
  const uint64_t pitch = to.size < 16 ? to.size : draw_.between(2, to.size / 8) * 4;
  const uint64_t width = draw_.between(1, pitch / 4);  // in elements of the widest kind
  const uint64_t height = pitch == 0 ? 0 : 1 + (to.size - width * 4) / pitch;
  switch (draw_.below(6) * 2 + (async ? 1 : 0)) {
    case 0:
      return CHECK(cuMemsetD8_v2(at + to.size % 3, byte, to.size - to.size % 3));
    case 1:
      return CHECK(cuMemsetD8Async(at + to.size % 3, byte, to.size - to.size % 3, stream));
    case 2:
      return CHECK(cuMemsetD16_v2(at, half, to.size / 2));
    case 3:
      return CHECK(cuMemsetD16Async(at, half, to.size / 2, stream));
    case 4:
      return CHECK(cuMemsetD32_v2(at, word, to.size / 4));
    case 5:
      return CHECK(cuMemsetD32Async(at, word, to.size / 4, stream));
    case 6:
      return CHECK(cuMemsetD2D8_v2(at, pitch, byte, width, height));
    case 7:
      return CHECK(cuMemsetD2D8Async(at, pitch, byte, width, height, stream));
    case 8:
      return CHECK(cuMemsetD2D16_v2(at, pitch, half, width, height));
    case 9:
      return CHECK(cuMemsetD2D16Async(at, pitch, half, width, height, stream));
    case 10:
      return CHECK(cuMemsetD2D32_v2(at, pitch, word, width, height));
    default:
      return CHECK(cuMemsetD2D32Async(at, pitch, word, width, height, stream));
  }
}

void Program::copy_step() {
  const bool async = draw_.chance(60);
  const CUstream stream = async ? pick_stream() : CU_STREAM_LEGACY;
  const uint64_t kind = draw_.below(8);
  if (kind < 3) {
    const Part to = pick_part(draw_.chance(85)   ? pick_memory()
                              : draw_.chance(50) ? *counters_
                                                 : *salts_);
    touch(*to.memory, stream);
    const uint64_t skipped = draw_.below(4), size = to.size - skipped;
    auto& bytes = host_bytes(size);
    const auto from = reinterpret_cast<CUdeviceptr>(bytes.data());
    if (kind == 2 && async) {
      CHECK(cuMemcpyAsync(to.address + skipped, from, size, stream));
    } else if (kind == 2) {
      CHECK(cuMemcpy(to.address + skipped, from, size));
    } else if (async) {
      CHECK(cuMemcpyHtoDAsync_v2(to.address + skipped, bytes.data(), size, stream));
    } else {
      CHECK(cuMemcpyHtoD_v2(to.address + skipped, bytes.data(), size));
    }
    return;
  }
  if (kind < 5) {
    const auto [from, to] = pick_two();
    if (from.memory == nullptr) return;
    touch(*from.memory, stream);
    touch(*to.memory, stream);
    const uint64_t size = std::min(from.size, to.size);
    if (kind == 3 && async) {
      CHECK(cuMemcpyAsync(to.address, from.address, size, stream));
    } else if (kind == 3) {
      CHECK(cuMemcpy(to.address, from.address, size));
    } else if (async) {
      CHECK(cuMemcpyDtoDAsync_v2(to.address, from.address, size, stream));
    } else {
      CHECK(cuMemcpyDtoD_v2(to.address, from.address, size));
    }
    return;
  }
  if (kind == 5) return look(pick_memory());
  copy_box();
}

// Copies in two and three dimensions, from the host or within the device.
void Program::copy_box() {
  const bool async = draw_.chance(60), solid = draw_.chance(50), from_host = draw_.chance(50);
  const CUstream stream = async ? pick_stream() : CU_STREAM_LEGACY;
  const auto [from, to] = pick_two();
  if (from.memory == nullptr || std::min(from.size, to.size) < 64) return;
  const uint64_t size = std::min(from.size, to.size);
  const uint64_t depth = solid ? draw_.between(1, 3) : 1;
  const uint64_t slice = size / depth;
  const uint64_t height = draw_.between(1, std::min<uint64_t>(slice / 16, 30));
  const uint64_t pitch = slice / height;
  const uint64_t width = draw_.between(1, pitch);
  const uint64_t skipped = draw_.below(pitch - width + 1);
  touch(*to.memory, stream);
  const void* host = nullptr;
  if (from_host) {
    host = host_bytes(size).data();
  } else {
    touch(*from.memory, stream);
  }
  if (solid) {
    CUDA_MEMCPY3D box{};
    box.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    box.srcHost = host;
    box.srcDevice = from_host ? 0 : from.address;
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.dstDevice = to.address;
    box.dstXInBytes = skipped;
    box.srcPitch = box.dstPitch = pitch;
    box.srcHeight = box.dstHeight = height;
    box.WidthInBytes = width;
    box.Height = height;
    box.Depth = depth;
    return async ? CHECK(cuMemcpy3DAsync_v2(&box, stream)) : CHECK(cuMemcpy3D_v2(&box));
  }
  CUDA_MEMCPY2D box{};
  box.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  box.srcHost = host;
  box.srcDevice = from_host ? 0 : from.address;
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = to.address;
  box.dstXInBytes = skipped;
  box.srcPitch = box.dstPitch = pitch;
  box.WidthInBytes = width;
  box.Height = height;
  if (async) return CHECK(cuMemcpy2DAsync_v2(&box, stream));
  draw_.chance(50) ? CHECK(cuMemcpy2D_v2(&box)) : CHECK(cuMemcpy2DUnaligned_v2(&box));
}

// Memory that the host sees too: from it, into it, and touched by either side.
void Program::shared_step() {
  Memory& shared = draw_.chance(50) ? *pinned_ : *managed_;
  const CUstream stream = pick_stream();
  const Part part = pick_part(shared), other = pick_part(pick_memory());
  const uint64_t size = std::min(part.size, other.size);
  const auto words = static_cast<unsigned>(size / 4);
  switch (draw_.below(5)) {
    case 0: {  // the host
      wait_for(shared);
      auto* bytes =
          &shared == pinned_ ? pinned_bytes_ : reinterpret_cast<unsigned char*>(shared.address);
      see(bytes, shared.size);
      for (uint64_t i = 0; i < 100; ++i) bytes[draw_.below(shared.size)] += 3;
      return;
    }
    case 1:
      touch(shared, stream);
      touch(*other.memory, stream);
      return CHECK(cuMemcpyAsync(other.address, part.address, size, stream));
    case 2:
      touch(shared, stream);
      touch(*other.memory, stream);
      return CHECK(cuMemcpyAsync(part.address, other.address, size, stream));
    case 3:
      touch(shared, stream);
      return (void)launch("touch", stream, part.words(), part.pointer(), part.words(), 1u,
                          draw_.word());
    default:
      touch(shared, stream);
      touch(*other.memory, stream);
      return (void)launch("move", stream, words, Moved{part.pointer(), other.pointer(), words, 7});
  }
}

void Program::wait_step() {
  const uint64_t kind = draw_.below(10);
  if (kind < 3) return wait_for_all();
  if (kind < 6) return wait_for(pick_stream());
  if (kind < 8) return wait_for(pick_memory());
  const CUresult busy = cuStreamQuery(pick_stream());
  if (busy != CUDA_SUCCESS && busy != CUDA_ERROR_NOT_READY) fail("cuStreamQuery", busy);
}

}  // namespace

struct Options {
  uint64_t seed = 0, threads = 1, contexts = 1, steps = 120;
  // The threads stay to the end of the process: ThreadSanitizer does not bear the end of one in
  // which the unwinder has been.
  bool threads_stay = false;
};

// Contexts of the program: one for each device, and on the first device as many more as it takes.
class Contexts {
 public:
  explicit Contexts(uint64_t count) {
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices_));
    for (uint64_t i = 0; i < count; ++i) {
      CUcontext context = nullptr;
      if (i < static_cast<uint64_t>(devices_)) {
        CHECK(cuDevicePrimaryCtxRetain(&context, static_cast<CUdevice>(i)));
      } else {
        CHECK(cuCtxCreate_v2(&context, 0, 0));
      }
      all_.push_back(context);
    }
  }
  ~Contexts() {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (i < static_cast<size_t>(devices_)) {
        CHECK(cuDevicePrimaryCtxRelease_v2(static_cast<CUdevice>(i)));
      } else {
        CHECK(cuCtxDestroy_v2(all_[i]));
      }
    }
  }
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;
  CUcontext of(unsigned actor) const { return all_[actor % all_.size()]; }

 private:
  int devices_ = 0;
  std::vector<CUcontext> all_;
};

int run(const Options& options) {
  const auto threads = static_cast<unsigned>(options.threads);
  const Contexts contexts(options.contexts);
  // What a context has is not handed to another one.
  Exchange exchange(options.contexts == 1 ? threads : 1);
  exchange.shared_contexts = options.threads > options.contexts;
  std::vector<std::unique_ptr<Program>> programs;
  for (unsigned i = 0; i < threads; ++i) {
    programs.push_back(std::make_unique<Program>(options.seed, i, contexts.of(i),
                                                 static_cast<unsigned>(options.steps), exchange));
  }
  std::vector<std::thread> running;
  std::latch done(threads);
  for (unsigned i = 1; i < threads; ++i) {
    running.emplace_back([&done, &program = *programs[i], stay = options.threads_stay] {
      program.run();
      done.count_down();
      while (stay) pause();
    });
  }
  programs[0]->run();
  done.arrive_and_wait();
  for (std::thread& thread : running) options.threads_stay ? thread.detach() : thread.join();
  uint64_t seen = 0;
  for (const auto& program : programs) seen = seen * 31 + program->seen();
  std::printf("%016llx\n", static_cast<unsigned long long>(seen));
  return 0;
}

// False: the arguments make no sense.
bool read_options(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    bool* flag = word == "--trace"          ? &tracing
                 : word == "--faults"       ? &tolerant
                 : word == "--threads-stay" ? &options.threads_stay
                                            : nullptr;
    if (flag != nullptr) {
      *flag = true;
      continue;
    }
    uint64_t* value = i == 1                 ? &options.seed
                      : word == "--threads"  ? &options.threads
                      : word == "--contexts" ? &options.contexts
                      : word == "--steps"    ? &options.steps
                                             : nullptr;
    if (i > 1) ++i;
    if (value == nullptr || i >= argc || *argv[i] == '\0') return false;
    char* end = nullptr;
    *value = std::strtoull(argv[i], &end, 10);
    if (*end != '\0') return false;
  }
  const auto sensible = [](uint64_t value, uint64_t most) { return value >= 1 && value <= most; };
  return argc > 1 && sensible(options.threads, 16) && sensible(options.contexts, 16) &&
         sensible(options.steps, 1'000'000);
}

}  // namespace oracle

int main(int argc, char** argv) {
  oracle::Options options;
  if (!oracle::read_options(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: random_program SEED [--threads N] [--contexts N] [--steps N] [--faults] "
                 "[--threads-stay] [--trace]\n");
    return 64;
  }
  return oracle::run(options);
}
