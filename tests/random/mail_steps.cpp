// Copies to the host that arrive behind its back, and the ways to learn that they have.
#include <sched.h>

#include "tests/random/caller.h"

namespace calls {

namespace {
constexpr size_t kMostLetters = 6;
}  // namespace

// Page-locked where the program may have such memory.
Caller::Letter& Caller::new_letter(uint64_t size, CUstream stream) {
  Letter& letter = letters_.emplace_back();
  letter.size = size;
  letter.stream = stream;
  letter.pinned = exchange_.shared && draw_.chance(70);
  if (!letter.pinned) {
    letter.pageable.resize(size);
    letter.bytes = letter.pageable.data();
    return letter;
  }
  void* bytes = nullptr;
  const unsigned flags = draw_.chance(50) ? CU_MEMHOSTALLOC_PORTABLE : CU_MEMHOSTALLOC_DEVICEMAP;
  CHECK(draw_.chance(50) ? cuMemAllocHost_v2(&bytes, size) : cuMemHostAlloc(&bytes, size, flags));
  letter.bytes = static_cast<unsigned char*>(bytes);
  std::fill_n(letter.bytes, size, static_cast<unsigned char>(0xee));
  return letter;
}

void Caller::send_step() {
  // Before anything is touched: it may wait for what was, and nothing waits for the rest then.
  while (letters_.size() >= kMostLetters) open_step();
  const CUstream stream = pick_stream();
  const Part from = pick_part(draw_.chance(90) ? pick_memory() : *counters_);
  touch(*from.memory, stream);
  const uint64_t kind = draw_.below(5);
  if (kind == 0) return send_batch(from, stream);
  Letter& letter = new_letter(from.size, stream);
  const auto to = reinterpret_cast<CUdeviceptr>(letter.bytes);
  oracle::trace("  actor %u: letter of kind %llu, pinned %d, %llu bytes at %p\n", number_,
                static_cast<unsigned long long>(kind), letter.pinned,
                static_cast<unsigned long long>(letter.size), static_cast<void*>(letter.bytes));
  if (kind == 1) {
    IN_STREAM(cuMemcpyAsync, stream, to, from.address, from.size);
  } else if (kind == 2) {
    std::fill_n(letter.bytes, letter.size, static_cast<unsigned char>(1));
    CUDA_MEMCPY2D box{};
    box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = from.address;
    box.dstMemoryType = CU_MEMORYTYPE_HOST;
    box.dstHost = letter.bytes;
    box.Height = draw_.between(1, std::min<uint64_t>(from.size, 20));
    box.srcPitch = box.dstPitch = from.size / box.Height;
    box.WidthInBytes = draw_.between(1, box.srcPitch);
    IN_STREAM(cuMemcpy2DAsync_v2, stream, &box);
  } else {
    IN_STREAM(cuMemcpyDtoHAsync_v2, stream, letter.bytes, from.address, from.size);
  }
  CHECK(cuEventCreate(&letter.sent,
                      draw_.chance(50) ? CU_EVENT_DISABLE_TIMING : CU_EVENT_BLOCKING_SYNC));
  const auto [use_ptsz, given] = given_as(stream);
  CHECK((use_ptsz ? cuEventRecord_ptsz : cuEventRecord)(letter.sent, given));
}

// Batches go into page-locked memory only, and not in the legacy default stream.
void Caller::send_batch(const Part& from, CUstream stream) {
  if (!exchange_.shared || stream == CU_STREAM_LEGACY) return;
  Letter& letter = new_letter(from.size, stream);
  CHECK(cuEventCreate(&letter.sent, CU_EVENT_DISABLE_TIMING));
  if (letter.pinned) {
    const uint64_t count = draw_.between(1, std::min<uint64_t>(from.size / 4, 6));
    const uint64_t each = from.size / count;
    std::vector<CUdeviceptr> targets, sources;
    std::vector<size_t> sizes;
    for (uint64_t i = 0; i < count; ++i) {
      targets.push_back(reinterpret_cast<CUdeviceptr>(letter.bytes) + i * each);
      sources.push_back(from.address + i * each);
      sizes.push_back(draw_.between(1, each));
    }
    CUmemcpyAttributes how{};
    how.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    size_t first = 0, failed = 0;
    const auto [use_ptsz, given] = given_as(stream);
    CHECK(draw_.chance(50)
              ? (use_ptsz ? cuMemcpyBatchAsync_v2_ptsz : cuMemcpyBatchAsync_v2)(
                    targets.data(), sources.data(), sizes.data(), count, &how, &first, 1, given)
              : (use_ptsz ? cuMemcpyBatchAsync_ptsz : cuMemcpyBatchAsync)(
                    targets.data(), sources.data(), sizes.data(), count, &how, &first, 1, &failed,
                    given));
  }
  CHECK(cuEventRecord(letter.sent, stream));
}

void Caller::open_step() {
  if (letters_.empty()) return;
  const size_t at = draw_.below(letters_.size());
  open(letters_[at]);
  throw_away(letters_[at]);
  letters_.erase(letters_.begin() + static_cast<std::ptrdiff_t>(at));
}

void Caller::open(Letter& letter) {
  const bool there = std::ranges::find(streams_, letter.stream) != streams_.end();
  const uint64_t kind = draw_.below(there ? 5 : 3);
  oracle::trace("  actor %u: letter at %p opened in way %llu\n", number_,
                static_cast<void*>(letter.bytes), static_cast<unsigned long long>(kind));
  switch (kind) {
    case 0:
      CHECK(cuEventSynchronize(letter.sent));
      break;
    case 1:
      for (CUresult busy = CUDA_ERROR_NOT_READY; busy != CUDA_SUCCESS;) {
        busy = cuEventQuery(letter.sent);
        if (busy != CUDA_ERROR_NOT_READY) CHECK(busy);
        sched_yield();
      }
      break;
    case 2:
      wait_for_all();
      break;
    case 3:
      wait_for(letter.stream);
      break;
    default:
      for (CUresult busy = CUDA_ERROR_NOT_READY; busy != CUDA_SUCCESS;) {
        busy = cuStreamQuery(letter.stream);
        if (busy != CUDA_ERROR_NOT_READY) CHECK(busy);
        sched_yield();
      }
  }
  see(letter.bytes, letter.size);
}

// Some of it goes back to the device before it goes.
void Caller::throw_away(Letter& letter) {
  const CUstream stream = pick_stream();
  if (draw_.chance(40)) {
    Part to = pick_part(pick_memory());
    touch(*to.memory, stream);
    for (uint64_t i = 0; i < letter.size; i += 7) letter.bytes[i] ^= 0x55;
    IN_STREAM(cuMemcpyHtoDAsync_v2, stream, to.address, letter.bytes,
              std::min(to.size, letter.size));
    wait_for(stream);
  }
  CHECK(cuEventDestroy_v2(letter.sent));
  if (letter.pinned) CHECK(cuMemFreeHost(letter.bytes));
}

void Caller::open_all() {
  while (!letters_.empty()) open_step();
}

}  // namespace calls
