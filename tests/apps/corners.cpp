// The rare ways to use the driver API, one a mode: corners MODE [STEPS]. All that a mode prints
// depends on all that it did before.
#include "corners.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "app.h"
#include "corners_ptx.h"
#include "corners_twin_ptx.h"

namespace app {

using Words = std::vector<unsigned>;

// Words on the device and the kernel that mixes them, in the current context.
class Cells {
 public:
  explicit Cells(const unsigned char* image = kCornersPtx)
      : module_(image),
        mix_(module_.function("mix")),
        stir_(module_.function("stir")),
        words_(seeds()) {}
  const Module& module() const { return module_; }
  Buffer<unsigned>& words() { return words_; }
  CUdeviceptr address() const { return words_.address(); }
  void mix(unsigned step, CUstream stream = nullptr, unsigned rounds = 8) {
    launch(mix_, Shape{.blocks = kCellBlocks, .threads = kCellThreads}, stream, words_.address(),
           step, rounds);
    launch(stir_, Shape{.blocks = 1, .threads = 16}, stream, words_.address());
  }
  uint64_t sum() const { return digest(words_.download()); }

 private:
  static Words seeds() {
    Words seeds(kCells);
    for (unsigned at = 0; at < kCells; ++at) seeds[at] = at * 2654435761u;
    return seeds;
  }
  Module module_;
  CUfunction mix_;
  CUfunction stir_;
  Buffer<unsigned> words_;
};

// Managed memory for `count` objects.
template <class T>
class Managed {
 public:
  explicit Managed(size_t count) : count_(count) {
    CHECK(cuMemAllocManaged(&address_, count * sizeof(T), CU_MEM_ATTACH_GLOBAL));
    std::memset(data(), 0, bytes());
  }
  ~Managed() { CHECK(cuMemFree_v2(address_)); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  CUdeviceptr address() const { return address_; }
  T* data() { return reinterpret_cast<T*>(address_); }
  T& operator[](size_t index) { return data()[index]; }
  size_t bytes() const { return count_ * sizeof(T); }
  std::span<T> span() { return {data(), count_}; }

 private:
  CUdeviceptr address_ = 0;
  size_t count_;
};

CUstream new_stream() {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

CUevent new_event(unsigned flags = CU_EVENT_DISABLE_TIMING) {
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, flags));
  return event;
}

void report(int step, const char* what, uint64_t value) {
  std::printf("step %d: %s %016" PRIx64 "\n", step, what, value);
}

// Streams and events are asked until they are ready.
void polling(int steps) {
  Cells cells;
  Pinned<unsigned> back(kCells);
  const CUstream stream = new_stream();
  const CUevent event = new_event();
  for (int step = 1; step <= steps; ++step) {
    cells.mix(static_cast<unsigned>(step), stream);
    CHECK(cuMemcpyDtoHAsync_v2(back.data(), cells.address(), back.bytes(), stream));
    CHECK(cuEventRecord(event, stream));
    const bool by_event = step % 2 == 0;
    while (true) {
      const CUresult result = by_event ? cuEventQuery(event) : cuStreamQuery(stream);
      if (result == CUDA_SUCCESS) break;
      if (result != CUDA_ERROR_NOT_READY) CHECK(result);
    }
    report(step, by_event ? "event" : "stream", digest(std::span<const unsigned>(back.span())));
    back[static_cast<size_t>(step) % kCells] = 0;
    CHECK(cuMemcpyHtoDAsync_v2(cells.address(), back.data(), back.bytes(), stream));
    if (step % 5 == 0) CHECK(cuStreamSynchronize(stream));
  }
  CHECK(cuStreamSynchronize(stream));
}

// A box of 3 slices of 12 rows of 40 bytes, moved between places of other pitches.
struct Place {
  CUmemorytype type;
  std::byte* host;
  CUdeviceptr device;
  size_t pitch, height, x, y, z;
};

void move_box(const Place& to, const Place& from, bool whole, CUstream stream) {
  if (whole) {
    CUDA_MEMCPY3D box{};
    box.srcMemoryType = from.type;
    box.srcHost = from.host;
    box.srcDevice = from.device;
    box.srcPitch = from.pitch;
    box.srcHeight = from.height;
    box.srcXInBytes = from.x;
    box.srcY = from.y;
    box.srcZ = from.z;
    box.dstMemoryType = to.type;
    box.dstHost = to.host;
    box.dstDevice = to.device;
    box.dstPitch = to.pitch;
    box.dstHeight = to.height;
    box.dstXInBytes = to.x;
    box.dstY = to.y;
    box.dstZ = to.z;
    box.WidthInBytes = 40;
    box.Height = 12;
    box.Depth = 3;
    if (stream != nullptr) {
      CHECK(cuMemcpy3DAsync_v2(&box, stream));
    } else {
      CHECK(cuMemcpy3D_v2(&box));
    }
    return;
  }
  CUDA_MEMCPY2D box{};
  box.srcMemoryType = from.type;
  box.srcHost = from.host;
  box.srcDevice = from.device;
  box.srcPitch = from.pitch;
  box.srcXInBytes = from.x;
  box.srcY = from.y;
  box.dstMemoryType = to.type;
  box.dstHost = to.host;
  box.dstDevice = to.device;
  box.dstPitch = to.pitch;
  box.dstXInBytes = to.x;
  box.dstY = to.y;
  box.WidthInBytes = 40;
  box.Height = 12;
  if (stream != nullptr) {
    CHECK(cuMemcpy2DAsync_v2(&box, stream));
  } else {
    CHECK(cuMemcpy2D_v2(&box));
  }
}

// Boxes from everywhere to everywhere, and copies that leave it to the driver what is what.
void copies(int steps) {
  constexpr size_t kBytes = 16384;
  Cells cells;
  Pinned<std::byte> pinned(kBytes);
  Managed<std::byte> managed(kBytes);
  std::vector<std::byte> host(kBytes);
  Buffer<std::byte> other(host);
  std::fill(pinned.span().begin(), pinned.span().end(), std::byte{0});
  const CUstream stream = new_stream();
  const Place places[] = {
      {CU_MEMORYTYPE_DEVICE, nullptr, cells.address(), 64, 16, 8, 1, 1},
      {CU_MEMORYTYPE_HOST, host.data(), 0, 52, 13, 4, 1, 1},
      {CU_MEMORYTYPE_DEVICE, nullptr, other.address(), 96, 20, 16, 3, 0},
      {CU_MEMORYTYPE_HOST, pinned.data(), 0, 48, 14, 7, 2, 1},
      {CU_MEMORYTYPE_UNIFIED, nullptr, managed.address(), 80, 12, 11, 0, 2},
      {CU_MEMORYTYPE_DEVICE, nullptr, managed.address(), 56, 17, 3, 2, 0},
      {CU_MEMORYTYPE_UNIFIED, nullptr, reinterpret_cast<CUdeviceptr>(pinned.data()), 72, 15, 0, 0,
       0},
      {CU_MEMORYTYPE_UNIFIED, nullptr, other.address(), 44, 13, 1, 1, 1},
  };
  Random random(11);
  for (int step = 1; step <= steps; ++step) {
    cells.mix(static_cast<unsigned>(step));
    CHECK(cuCtxSynchronize());
    for (int move = 0; move < 6; ++move) {
      const Place& from = places[random.below(8)];
      const Place& to = places[random.below(8)];
      const bool whole = random.below(2) == 0, async = random.below(2) == 0;
      if (&from == &to) continue;
      move_box(to, from, whole, async ? stream : nullptr);
      // Copies within the device are not waited for by any form.
      CHECK(cuCtxSynchronize());
    }
    // By address alone, both ways, waited for and not.
    const auto in_host = reinterpret_cast<CUdeviceptr>(host.data());
    const auto in_pinned = reinterpret_cast<CUdeviceptr>(pinned.data());
    CHECK(cuMemcpy(in_host + 100, other.address() + 50, 3000));
    CHECK(cuMemcpy(cells.address() + 64, in_host, 2000));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyAsync(in_pinned + 500, cells.address(), 5000, stream));
    CHECK(cuMemcpyAsync(other.address(), in_pinned, 128, stream));
    CHECK(cuMemcpyAsync(in_host + 9000, cells.address() + 9, 700, stream));
    CHECK(cuMemcpyDtoDAsync_v2(managed.address() + 4000, cells.address(), 6001, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoD_v2(managed.address(), other.address() + 10, 333));
    CHECK(cuCtxSynchronize());
    report(step, "host", digest(std::span<const std::byte>(host)));
    report(step, "pinned", digest(std::span<const std::byte>(pinned.span())));
    report(step, "managed", digest(std::span<const std::byte>(managed.span())));
    host[random.below(kBytes)] = std::byte{1};
    managed[random.below(kBytes)] = std::byte{2};
    pinned[random.below(kBytes)] = std::byte{3};
  }
  report(steps, "device", digest(other.download()));
}

// Copies back from two streams into two buffers each, looked at only a step later.
void buffers(int steps) {
  std::unique_ptr<Cells> cells[2] = {std::make_unique<Cells>(),
                                     std::make_unique<Cells>(kCornersTwinPtx)};
  std::vector<std::unique_ptr<Pinned<unsigned>>> slots;
  for (int slot = 0; slot < 4; ++slot) {
    slots.push_back(std::make_unique<Pinned<unsigned>>(kCells));
    std::fill(slots.back()->span().begin(), slots.back()->span().end(), 0u);
  }
  const CUstream streams[2] = {new_stream(), new_stream()};
  CUevent events[4];
  for (CUevent& event : events) event = new_event();
  for (int step = 1; step <= steps; ++step) {
    for (int side = 0; side < 2; ++side) {
      const int slot = side * 2 + step % 2, before = side * 2 + (step + 1) % 2;
      cells[side]->mix(static_cast<unsigned>(step), streams[side],
                       static_cast<unsigned>(1 + (step + side) % 3 * 20));
      CHECK(cuMemcpyDtoHAsync_v2(slots[slot]->data(), cells[side]->address(), slots[slot]->bytes(),
                                 streams[side]));
      CHECK(cuEventRecord(events[slot], streams[side]));
      if (step == 1) continue;
      CHECK(cuEventSynchronize(events[before]));
      auto seen = slots[before]->span();
      report(step, side == 0 ? "first" : "second", digest(std::span<const unsigned>(seen)));
      // The host has its own use for the buffer until the next copy into it.
      std::fill(seen.begin(), seen.end(), static_cast<unsigned>(step));
    }
    if (step % 7 == 0) CHECK(cuStreamSynchronize(streams[step % 2]));
  }
  CHECK(cuCtxSynchronize());
  report(steps, "last", digest(std::span<const unsigned>(slots[1]->span())));
}

// A flag that the host sets and a kernel sets back, and bytes that both sides write in turn.
void flags(int steps) {
  Cells cells;
  const CUfunction answer = cells.module().function("answer_flag");
  const CUfunction touch = cells.module().function("touch_bytes");
  Pinned<unsigned> flag(2, CU_MEMHOSTALLOC_DEVICEMAP);
  flag[0] = flag[1] = 0;
  Managed<unsigned char> bytes(kCells);
  for (int step = 1; step <= steps; ++step) {
    flag[0] = 1;
    launch(answer, Shape{}, nullptr, flag.device_address(), flag.device_address() + 4,
           cells.address());
    cells.mix(static_cast<unsigned>(step));
    const auto number = static_cast<unsigned>(step);
    launch(touch, Shape{.blocks = kCellBlocks, .threads = kCellThreads}, nullptr, bytes.address(),
           cells.address(), number);
    CHECK(cuCtxSynchronize());
    std::printf("step %d: flag %u after %u\n", step, flag[0], flag[1]);
    report(step, "bytes", digest(std::span<const unsigned char>(bytes.span())));
    for (unsigned at = 1; at < kCells; at += 2) {
      bytes[at] = static_cast<unsigned char>(bytes[at] * 3 + bytes[at - 1] + step);
    }
  }
}

// Host memory of the program's own that the device sees for a while.
alignas(4096) unsigned registered_words[kCells];

void registered(int steps) {
  Cells cells;
  const CUfunction touch = cells.module().function("touch_bytes");
  const CUstream stream = new_stream();
  for (int step = 1; step <= steps; ++step) {
    if (step % 10 == 1) {
      CHECK(cuMemHostRegister_v2(registered_words, sizeof registered_words,
                                 CU_MEMHOSTREGISTER_DEVICEMAP));
    }
    cells.mix(static_cast<unsigned>(step), stream);
    CUdeviceptr seen = 0;
    CHECK(cuMemHostGetDevicePointer_v2(&seen, registered_words, 0));
    const auto number = static_cast<unsigned>(step);
    launch(touch, Shape{.blocks = kCellBlocks, .threads = kCellThreads}, stream, seen,
           cells.address(), number);
    CHECK(cuMemcpyDtoHAsync_v2(registered_words + 2048, cells.address(), 4096, stream));
    CHECK(cuStreamSynchronize(stream));
    report(step, "words", digest(std::span<const unsigned>(registered_words)));
    registered_words[static_cast<unsigned>(step) % kCells] += 1;
    if (step % 10 == 0) CHECK(cuMemHostUnregister(registered_words));
  }
}

// Answers that differ from run to run, and are told again as they were.
void times(int steps) {
  Cells cells;
  const CUevent start = new_event(CU_EVENT_DEFAULT), end = new_event(CU_EVENT_DEFAULT);
  for (int step = 1; step <= steps; ++step) {
    CHECK(cuEventRecord(start, nullptr));
    cells.mix(static_cast<unsigned>(step));
    CHECK(cuEventRecord(end, nullptr));
    CHECK(cuEventSynchronize(end));
    float milliseconds = 0;
    CHECK(cuEventElapsedTime(&milliseconds, start, end));
    size_t free = 0, total = 0;
    CHECK(cuMemGetInfo_v2(&free, &total));
    std::printf("step %d: %.9g ms, %zu of %zu free, %016" PRIx64 "\n", step,
                static_cast<double>(milliseconds), free, total, cells.sum());
  }
}

// Memory that comes and goes, and some that never comes.
void churn(int steps) {
  struct Block {
    CUdeviceptr address;
    size_t pitch, width, height;
  };
  Cells cells;
  std::vector<Block> blocks;
  Random random(23);
  for (int step = 1; step <= steps; ++step) {
    CUdeviceptr huge = 0;
    if (cuMemAlloc_v2(&huge, size_t{1} << 44) != CUDA_ERROR_OUT_OF_MEMORY) {
      fail("cuMemAlloc", "more memory than there is");
    }
    Block block{0, 0, 100 + random.below(3000), 1 + random.below(40)};
    if (step % 3 == 0) {
      CHECK(cuMemAllocPitch_v2(&block.address, &block.pitch, block.width, block.height, 4));
    } else {
      block.pitch = block.width;
      CHECK(cuMemAlloc_v2(&block.address, block.width * block.height));
    }
    // Each row is a piece of the cells, at another place.
    for (size_t row = 0; row < block.height; ++row) {
      CHECK(cuMemcpyDtoDAsync_v2(block.address + row * block.pitch, cells.address() + row * 40,
                                 block.width, nullptr));
    }
    blocks.push_back(block);
    cells.mix(static_cast<unsigned>(step));
    if (blocks.size() > 8) {
      const size_t gone = random.below(8);
      const Block& old = blocks[gone];
      CUdeviceptr base = 0;
      size_t size = 0;
      CHECK(cuMemGetAddressRange_v2(&base, &size, old.address + old.width - 1));
      if (base != old.address || size != old.pitch * old.height) {
        fail("cuMemGetAddressRange", "not the allocation");
      }
      std::vector<std::byte> row(old.width);
      CHECK(cuMemcpyDtoH_v2(row.data(), old.address + (old.height - 1) * old.pitch, old.width));
      report(step, "freed", digest(row));
      CHECK(cuMemcpyDtoD_v2(cells.address(), old.address, old.width));
      CHECK(cuMemFree_v2(old.address));
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    // The next allocation can have the freed memory; the host's side comes and goes as well.
    Pinned<unsigned> pinned(1 + random.below(5000));
    std::fill(pinned.span().begin(), pinned.span().end(), static_cast<unsigned>(step));
    const size_t bytes = std::min(pinned.bytes(), sizeof(unsigned) * kCells);
    CHECK(cuMemcpyHtoDAsync_v2(cells.address(), pinned.data(), bytes / 2, nullptr));
  }
  report(steps, "cells", cells.sum());
  for (const Block& block : blocks) CHECK(cuMemFree_v2(block.address));
}

// Two contexts; one is made and destroyed again and again, and so is a module in the other.
void contexts(int steps) {
  Cells cells;
  CUcontext first = nullptr;
  CHECK(cuCtxGetCurrent(&first));
  for (int step = 1; step <= steps;) {
    CUcontext second = nullptr;
    CHECK(cuCtxCreate_v2(&second, 0, 0));
    CUcontext popped = nullptr;
    {
      Cells mine;
      for (int end = step + 5; step <= end; ++step) {
        mine.mix(static_cast<unsigned>(step));
        CHECK(cuCtxPushCurrent_v2(first));
        {
          Cells reloaded(step % 2 == 0 ? kCornersPtx : kCornersTwinPtx);
          reloaded.mix(static_cast<unsigned>(step));
          cells.mix(static_cast<unsigned>(step));
          CHECK(cuMemcpyDtoD_v2(cells.address() + 512, reloaded.address(), 1000));
          CHECK(cuCtxSynchronize());
          report(step, "reloaded", reloaded.sum());
        }
        CHECK(cuCtxPopCurrent_v2(&popped));
        report(step, "second", mine.sum());
        Words words = mine.words().download();
        words[static_cast<size_t>(step)] ^= 1;
        mine.words().upload(words);
      }
    }
    CHECK(cuCtxDestroy_v2(second));
    CHECK(cuCtxSetCurrent(first));
    report(step, "first", cells.sum());
  }
}

// Memory that is freed while another context is current, or none: right after a synchronisation,
// at which a checkpoint may have been cut that has not been saved yet.
void elsewhere(int steps) {
  Cells cells;
  CUcontext first = nullptr, second = nullptr;
  CHECK(cuCtxGetCurrent(&first));
  CHECK(cuCtxCreate_v2(&second, 0, 0));
  static unsigned own[kCells];
  constexpr size_t kBytes = sizeof own;
  for (int step = 1; step <= steps; ++step) {
    CHECK(cuCtxSetCurrent(first));
    CUdeviceptr device = 0;
    void* pinned = nullptr;
    CHECK(cuMemAlloc_v2(&device, kBytes));
    CHECK(cuMemHostAlloc(&pinned, kBytes, 0));
    CHECK(cuMemHostRegister_v2(own, kBytes, 0));
    cells.mix(static_cast<unsigned>(step));
    CHECK(cuMemcpyDtoD_v2(device, cells.address(), kBytes));
    CHECK(cuMemcpyDtoHAsync_v2(pinned, device, kBytes, nullptr));
    CHECK(cuMemcpyDtoHAsync_v2(own, cells.address(), kBytes, nullptr));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(step % 2 == 0 ? second : nullptr));
    CHECK(cuMemFree_v2(device));
    report(step, "pinned", digest(std::span(static_cast<const unsigned*>(pinned), kCells)));
    report(step, "registered", digest(std::span<const unsigned>(own)));
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuMemHostUnregister(own));
    CHECK(cuMemFree_v2(0));
    CHECK(cuMemFreeHost(nullptr));
  }
  CHECK(cuCtxDestroy_v2(second));
  CHECK(cuCtxSetCurrent(first));
}

// The null stream of each thread beside the one of all.
void own_stream(int steps) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) fail("dlopen", dlerror());
  auto find = [driver](const char* name) {
    void* const entry = dlsym(driver, name);
    if (entry == nullptr) fail(name, "not found");
    return entry;
  };
  const auto copy_back =
      reinterpret_cast<decltype(&cuMemcpyDtoHAsync_v2)>(find("cuMemcpyDtoHAsync_v2_ptsz"));
  const auto launch_own = reinterpret_cast<decltype(&cuLaunchKernel)>(find("cuLaunchKernel_ptsz"));
  const auto wait =
      reinterpret_cast<decltype(&cuStreamSynchronize)>(find("cuStreamSynchronize_ptsz"));
  const auto set = reinterpret_cast<decltype(&cuMemsetD8_v2)>(find("cuMemsetD8_v2_ptds"));
  const auto copy_in = reinterpret_cast<decltype(&cuMemcpyHtoD_v2)>(find("cuMemcpyHtoD_v2_ptds"));
  Cells cells, legacy;
  const CUfunction mix = cells.module().function("mix");
  Pinned<unsigned> back(kCells);
  for (int step = 1; step <= steps; ++step) {
    CUdeviceptr address = cells.address();
    auto number = static_cast<unsigned>(step);
    unsigned rounds = 30;
    void* parameters[] = {&address, &number, &rounds};
    CHECK(launch_own(mix, kCellBlocks, 1, 1, kCellThreads, 1, 1, 0, nullptr, parameters, nullptr));
    CHECK(copy_back(back.data(), cells.address(), back.bytes(), nullptr));
    CHECK(wait(nullptr));
    report(step, "own", digest(std::span<const unsigned>(back.span())));
    legacy.mix(number);
    CHECK(set(legacy.address() + 77, static_cast<unsigned char>(step), 99));
    back[number % kCells] = 0;
    CHECK(copy_in(cells.address(), back.data(), 4000));
    report(step, "legacy", legacy.sum());
  }
}

// Variables of the same name in two modules, written by the host, by sets and by kernels.
void variables(int steps) {
  Cells one, two(kCornersTwinPtx);
  const CUdeviceptr salts[] = {one.module().variable("salt", 64),
                               two.module().variable("salt", 64)};
  const CUdeviceptr pepper = one.module().variable("pepper", 16);
  for (int step = 1; step <= steps; ++step) {
    const auto number = static_cast<unsigned>(step);
    const unsigned four[] = {number, number * 3, number ^ 5, ~number};
    CHECK(cuMemcpyHtoD_v2(pepper, four, sizeof four));
    CHECK(cuMemcpyHtoD_v2(salts[step % 2] + 8, four, 8));
    one.mix(number);
    two.mix(number);
    Words salt(16);
    for (const CUdeviceptr address : salts) {
      CHECK(cuMemcpyDtoH_v2(salt.data(), address, 64));
      report(step, "salt", digest(salt));
    }
    CHECK(cuMemsetD16_v2(salts[0] + 4, static_cast<unsigned short>(step), 2));
    report(step, "cells", one.sum() ^ two.sum());
  }
}

// Sets of every width in device, managed and pinned memory. The forms that are not called
// asynchronous have set what the host sees when they return.
void sets(int steps) {
  Cells cells;
  Managed<unsigned> managed(kCells);
  Pinned<unsigned> pinned(kCells);
  std::fill(pinned.span().begin(), pinned.span().end(), 0u);
  // One that is in order with the null stream, which the other sets use.
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  const CUdeviceptr places[] = {cells.address(), managed.address(), pinned.device_address()};
  Random random(31);
  for (int step = 1; step <= steps; ++step) {
    const unsigned value = random.next();
    const auto byte = static_cast<unsigned char>(value);
    const auto half = static_cast<unsigned short>(value);
    const CUdeviceptr at = places[step % 3] + random.below(1000) * 4;
    switch (random.below(12)) {
      case 0:
        CHECK(cuMemsetD8_v2(at + 1, byte, 801));
        break;
      case 1:
        CHECK(cuMemsetD16_v2(at, half, 801));
        break;
      case 2:
        CHECK(cuMemsetD32_v2(at, value, 801));
        break;
      case 3:
        CHECK(cuMemsetD2D8_v2(at, 128, byte, 33, 20));
        break;
      case 4:
        CHECK(cuMemsetD2D16_v2(at, 128, half, 33, 20));
        break;
      case 5:
        CHECK(cuMemsetD2D32_v2(at, 256, value, 33, 20));
        break;
      case 6:
        CHECK(cuMemsetD8Async(at + 1, byte, 801, stream));
        break;
      case 7:
        CHECK(cuMemsetD16Async(at, half, 801, stream));
        break;
      case 8:
        CHECK(cuMemsetD32Async(at, value, 801, stream));
        break;
      case 9:
        CHECK(cuMemsetD2D8Async(at, 128, byte, 33, 20, stream));
        break;
      case 10:
        CHECK(cuMemsetD2D16Async(at, 128, half, 33, 20, stream));
        break;
      default:
        CHECK(cuMemsetD2D32Async(at, 256, value, 33, 20, stream));
        break;
    }
    if (step % 4 == 0) CHECK(cuStreamSynchronize(stream));
    // Read at once where the set was not asynchronous; the stream is waited for before all else.
    if (step % 4 != 0 && cuStreamQuery(stream) != CUDA_SUCCESS) CHECK(cuStreamSynchronize(stream));
    report(step, "managed", digest(std::span<const unsigned>(managed.span())));
    report(step, "pinned", digest(std::span<const unsigned>(pinned.span())));
    if (step % 8 == 0) {
      cells.mix(static_cast<unsigned>(step));
      report(step, "cells", cells.sum());
    }
  }
}

// A set of memory that the host sees, and then a look at it: no other call in between.
void plain_sets(int steps) {
  Cells cells;
  Managed<unsigned> managed(kCells);
  Pinned<unsigned> pinned(kCells);
  for (int step = 1; step <= steps; ++step) {
    const auto value = static_cast<unsigned>(step);
    CHECK(cuMemsetD32_v2(managed.address(), value * 7, kCells));
    report(step, "managed", digest(std::span<const unsigned>(managed.span())));
    CHECK(cuMemsetD8_v2(pinned.device_address(), static_cast<unsigned char>(step), pinned.bytes()));
    report(step, "pinned", digest(std::span<const unsigned>(pinned.span())));
    managed[5] = pinned[6] = value;
    CHECK(cuMemcpyHtoD_v2(cells.address(), managed.data(), managed.bytes() / 2));
    cells.mix(value);
    CHECK(cuCtxSynchronize());
    if (step % 10 == 0) report(step, "cells", cells.sum());
  }
}

// ---- what ends or delays checkpoints
// --------------------------------------------------------------

// Mixes, and at step 100 does what the mode is about.
template <class Act>
void mixed_with(int steps, Act&& act) {
  Cells cells;
  for (int step = 1; step <= steps; ++step) {
    cells.mix(static_cast<unsigned>(step));
    CHECK(cuCtxSynchronize());
    if (step == 100) act(cells);
    if (step % 5 == 0) report(step, "cells", cells.sum());
  }
}

void plain(int steps) {
  mixed_with(steps, [](Cells&) {});
}

// Where the kernel maps memory next shows in what else is mapped. The device does nothing: the
// software GPU would do it by a thread of its own, which a replay has no need of.
void mappings(int steps) {
  constexpr size_t kBytes = size_t{64} << 20;
  const Buffer<unsigned> memory(kCells);
  for (int step = 1; step <= steps; ++step) {
    CHECK(cuCtxSynchronize());
    void* const place = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) fail("mmap", std::strerror(errno));
    std::printf("step %d: the next mapping lies at %p\n", step, place);
    munmap(place, kBytes);
  }
}

// Its memory is as large as a file in the working folder says.
void by_file(int steps) {
  size_t size = 0;
  std::ifstream("size.txt") >> size;
  const Buffer<unsigned> sized(size);
  plain(steps);
}

// The program gives the device the number in a file of the working folder: as bytes, or as a
// kernel's argument.
unsigned from_file() {
  unsigned value = 0;
  std::ifstream("value.txt") >> value;
  return value;
}

void data_by_file(int steps) {
  std::vector<unsigned> words(20'000, from_file());
  const Buffer<unsigned> given(words);
  plain(steps);
}

void argument_by_file(int steps) {
  Cells cells;
  cells.mix(from_file());
  report(0, "cells", cells.sum());
  plain(steps);
}

// Two threads, two tasks that make the same calls: the file says who does which.
void tasks_by_file(int steps) {
  const unsigned first = from_file();
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  uint64_t sums[2] = {};
  const auto work = [&](unsigned task) {
    CHECK(cuCtxSetCurrent(context));
    const Buffer<unsigned> own(std::vector<unsigned>(1000, task + 1));
    sums[task] = digest(own.download());
  };
  std::thread one(work, first % 2);
  std::thread other(work, (first + 1) % 2);
  one.join();
  other.join();
  report(0, "the first task's", sums[0]);
  report(0, "the second task's", sums[1]);
  plain(steps);
}

// Two threads load the same code, each for itself; the file says which of them is late. The
// variables of the code soon differ between the two.
void loads_by_file(int steps) {
  const unsigned late = from_file() % 2;
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  std::unique_ptr<Cells> cells[2];
  const auto work = [&](unsigned number) {
    CHECK(cuCtxSetCurrent(context));
    if (number == late) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    cells[number] = std::make_unique<Cells>();
    for (unsigned step = 0; step <= number; ++step) cells[number]->mix(step + 100 * number);
    CHECK(cuCtxSynchronize());
  };
  std::thread one(work, 0);
  std::thread other(work, 1);
  one.join();
  other.join();
  for (int step = 1; step <= steps; ++step) {
    for (const auto& each : cells) each->mix(static_cast<unsigned>(step));
    CHECK(cuCtxSynchronize());
    if (step % 5 != 0) continue;
    report(step, "the first thread's", cells[0]->sum());
    report(step, "the second thread's", cells[1]->sum());
  }
}

void second_thread(int steps) {
  mixed_with(steps, [](Cells& cells) {
    CUcontext context = nullptr;
    CHECK(cuCtxGetCurrent(&context));
    std::thread([&] {
      CHECK(cuCtxSetCurrent(context));
      cells.mix(4711);
      CHECK(cuCtxSynchronize());
    }).join();
  });
}

// Another thread has made calls, and now a kernel may write to any of the memory that both see.
void unproven_thread(int steps) {
  mixed_with(steps, [](Cells& cells) {
    CUcontext context = nullptr;
    CHECK(cuCtxGetCurrent(&context));
    std::thread([&] {
      CHECK(cuCtxSetCurrent(context));
      CHECK(cuCtxSynchronize());
    }).join();
    Pinned<unsigned> count(1);
    count[0] = 41;
    const Buffer<CUdeviceptr> place(std::vector{count.device_address()});
    launch(cells.module().function("count_through"), Shape{.blocks = 1, .threads = 32}, nullptr,
           place.address());
    CHECK(cuCtxSynchronize());
    std::printf("counted %u\n", count[0]);
  });
}

// A word for the host, by a call that is not followed.
void signal_host(CUstream stream) {
  Pinned<unsigned> word(1, CU_MEMHOSTALLOC_DEVICEMAP);
  word[0] = 0;
  CHECK(cuStreamWriteValue32_v2(stream, word.device_address(), 5, 0));
  while (__atomic_load_n(&word[0], __ATOMIC_ACQUIRE) != 5) sched_yield();
}

void word_for_host(int steps) {
  mixed_with(steps, [](Cells&) {
    signal_host(nullptr);
    std::puts("signalled");
  });
}

// A child that ends by exit, and one that becomes another program.
void forks(int steps) {
  mixed_with(steps, [](Cells&) {
    std::fflush(stdout);
    const pid_t ended = fork();
    if (ended == 0) std::exit(3);
    const pid_t other = fork();
    if (other == 0) {
      execl("/bin/true", "true", nullptr);
      _exit(127);
    }
    int statuses[2] = {-1, -1};
    waitpid(ended, &statuses[0], 0);
    waitpid(other, &statuses[1], 0);
    std::printf("children ended with %d and %d\n", WEXITSTATUS(statuses[0]),
                WEXITSTATUS(statuses[1]));
  });
}

// Nothing is allocated for a while, but the context is there.
void late(int steps) {
  const CUstream stream = new_stream();
  for (int step = 1; step <= steps; ++step) CHECK(cuStreamSynchronize(stream));
  std::puts("nothing so far");
  plain(steps);
}

// Words of device memory that all have one value.
Buffer<unsigned> filled(size_t count, unsigned value) {
  Buffer<unsigned> words(count);
  CHECK(cuMemsetD32Async(words.address(), value, count, nullptr));
  return words;
}

// One synchronisation, and then a call that cannot be followed; what was there is overwritten and
// freed at once.
void leaves(int steps) {
  constexpr size_t kWords = 2 << 20;
  auto first = filled(kWords, 1), second = filled(kWords, 2);
  auto third = std::make_unique<Buffer<unsigned>>(filled(kWords, 3));
  CHECK(cuCtxSynchronize());
  signal_host(new_stream());
  CHECK(cuMemcpyDtoDAsync_v2(second.address(), first.address(), first.bytes(), nullptr));
  CHECK(cuMemsetD32Async(first.address(), 4, kWords, nullptr));
  third.reset();
  CHECK(cuCtxSynchronize());
  report(steps, "first", digest(first.download()));
  report(steps, "second", digest(second.download()));
}

// One synchronisation, and then most of the memory that a small device has.
void crowded(int steps) {
  const auto first = filled(4 << 20, 1);
  CHECK(cuCtxSynchronize());
  const auto second = filled(14 << 20, 2);
  report(steps, "first", digest(first.download()));
  report(steps, "second", digest(second.download()));
}

// The same by a stream-ordered allocation.
void crowded_pool(int steps) {
  constexpr size_t kWords = 14 << 20;
  const auto first = filled(4 << 20, 1);
  CHECK(cuCtxSynchronize());
  CUdeviceptr second = 0;
  CHECK(cuMemAllocAsync(&second, kWords * sizeof(unsigned), nullptr));
  CHECK(cuMemsetD32Async(second, 2, kWords, nullptr));
  Words words(kWords);
  CHECK(cuMemcpyDtoH_v2(words.data(), second, kWords * sizeof(unsigned)));
  CHECK(cuMemFreeAsync(second, nullptr));
  report(steps, "first", digest(first.download()));
  report(steps, "second", digest(words));
}

int run(const std::string& mode, int steps) {
  const Device device(ContextKind::kPrimary);
  const std::pair<const char*, void (*)(int)> modes[] = {
      {"polling", polling},
      {"copies", copies},
      {"buffers", buffers},
      {"flags", flags},
      {"registered", registered},
      {"times", times},
      {"churn", churn},
      {"contexts", contexts},
      {"elsewhere", elsewhere},
      {"own_stream", own_stream},
      {"variables", variables},
      {"sets", sets},
      {"plain_sets", plain_sets},
      {"plain", plain},
      {"mappings", mappings},
      {"by_file", by_file},
      {"data_by_file", data_by_file},
      {"argument_by_file", argument_by_file},
      {"tasks_by_file", tasks_by_file},
      {"loads_by_file", loads_by_file},
      {"thread", second_thread},
      {"unproven_thread", unproven_thread},
      {"word_for_host", word_for_host},
      {"forks", forks},
      {"late", late},
      {"leaves", leaves},
      {"crowded", crowded},
      {"crowded_pool", crowded_pool},
  };
  for (const auto& [name, body] : modes) {
    if (mode != name) continue;
    body(steps);
    return finish();
  }
  fail(mode.c_str(), "no such mode");
}

}  // namespace app

int main(int argc, char** argv) {
  if (argc < 2) app::fail(argv[0], "usage: MODE [steps]");
  return app::run(argv[1], app::steps_from(argc - 1, argv + 1, 200));
}
