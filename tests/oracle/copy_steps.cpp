// Sets and copies, and memory that the host sees too.
#include <cstring>

#include "tests/oracle/program.h"

namespace oracle {

void Program::set_step() {
  const bool async = draw_.chance(60);
  const CUstream stream = async ? pick_stream() : pick_default();
  const Part to = pick_part(draw_.chance(90) ? pick_memory() : *counters_);
  const auto byte = static_cast<unsigned char>(draw_.word());
  const auto half = static_cast<unsigned short>(draw_.word());
  const unsigned word = draw_.word();
  touch(*to.memory, stream);
  const CUdeviceptr at = to.address;
  const uint64_t skipped = to.size % 3;
  const uint64_t pitch = to.size < 16 ? to.size : draw_.between(2, to.size / 8) * 4;
  const uint64_t width = draw_.between(1, pitch / 4);  // in elements of the widest kind
  const uint64_t height = pitch == 0 ? 0 : 1 + (to.size - width * 4) / pitch;
  switch (draw_.below(6) * 2 + (async ? 1 : 0)) {
    case 0:
      return AT_ONCE(cuMemsetD8_v2, stream, at + skipped, byte, to.size - skipped);
    case 1:
      return IN_STREAM(cuMemsetD8Async, stream, at + skipped, byte, to.size - skipped);
    case 2:
      return AT_ONCE(cuMemsetD16_v2, stream, at, half, to.size / 2);
    case 3:
      return IN_STREAM(cuMemsetD16Async, stream, at, half, to.size / 2);
    case 4:
      return AT_ONCE(cuMemsetD32_v2, stream, at, word, to.size / 4);
    case 5:
      return IN_STREAM(cuMemsetD32Async, stream, at, word, to.size / 4);
    case 6:
      return AT_ONCE(cuMemsetD2D8_v2, stream, at, pitch, byte, width, height);
    case 7:
      return IN_STREAM(cuMemsetD2D8Async, stream, at, pitch, byte, width, height);
    case 8:
      return AT_ONCE(cuMemsetD2D16_v2, stream, at, pitch, half, width, height);
    case 9:
      return IN_STREAM(cuMemsetD2D16Async, stream, at, pitch, half, width, height);
    case 10:
      return AT_ONCE(cuMemsetD2D32_v2, stream, at, pitch, word, width, height);
    default:
      return IN_STREAM(cuMemsetD2D32Async, stream, at, pitch, word, width, height);
  }
}

// By the stream itself, which then waits for what it has written.
void Program::write_words() {
  const CUstream stream = pick_stream();
  const Part to = pick_part(draw_.chance(90) ? pick_memory() : *counters_);
  if (to.size < 64) return;
  touch(*to.memory, stream);
  const auto [use_ptsz, given] = given_as(stream);
  const CUdeviceptr at = (to.address + 7) / 8 * 8 + draw_.below(to.size / 8 - 3) * 8;
  const uint64_t value = uint64_t{draw_.word()} << 32 | draw_.word();
  const auto low = static_cast<cuuint32_t>(value);
  CUstreamBatchMemOpParams both[2]{};
  switch (draw_.below(3)) {
    case 0:
      CHECK((use_ptsz ? cuStreamWriteValue32_v2_ptsz : cuStreamWriteValue32_v2)(given, at + 4, low,
                                                                                0));
      CHECK((use_ptsz ? cuStreamWaitValue32_v2_ptsz : cuStreamWaitValue32_v2)(
          given, at + 4, low, CU_STREAM_WAIT_VALUE_EQ));
      break;
    case 1:
      CHECK(
          (use_ptsz ? cuStreamWriteValue64_v2_ptsz : cuStreamWriteValue64_v2)(given, at, value, 0));
      CHECK((use_ptsz ? cuStreamWaitValue64_v2_ptsz : cuStreamWaitValue64_v2)(
          given, at, value, CU_STREAM_WAIT_VALUE_GEQ));
      break;
    default:
      both[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, at, value, 0, 0};
      both[1].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, at + 8, low, 0, 0};
      CHECK((use_ptsz ? cuStreamBatchMemOp_v2_ptsz : cuStreamBatchMemOp_v2)(given, 2, both, 0));
  }
}

void Program::copy_step() {
  const uint64_t kind = draw_.below(8);
  if (kind < 3) return copy_from_host();
  if (kind < 5) return copy_within();
  if (kind == 5) return look(pick_memory());
  if (kind == 6) return copy_batch();
  copy_box();
}

void Program::copy_from_host() {
  const bool async = draw_.chance(60), any = draw_.chance(30);
  const CUstream stream = async ? pick_stream() : pick_default();
  const Part to = pick_part(draw_.chance(85)   ? pick_memory()
                            : draw_.chance(50) ? *counters_
                                               : *salts_);
  touch(*to.memory, stream);
  const uint64_t skipped = draw_.below(4), size = to.size - skipped;
  const CUdeviceptr at = to.address + skipped;
  const void* bytes = host_bytes(size).data();
  const auto from = reinterpret_cast<CUdeviceptr>(bytes);
  if (any && async) return IN_STREAM(cuMemcpyAsync, stream, at, from, size);
  if (any) return AT_ONCE(cuMemcpy, stream, at, from, size);
  if (async) return IN_STREAM(cuMemcpyHtoDAsync_v2, stream, at, bytes, size);
  AT_ONCE(cuMemcpyHtoD_v2, stream, at, bytes, size);
}

void Program::copy_within() {
  const bool async = draw_.chance(60), any = draw_.chance(50);
  const CUstream stream = async ? pick_stream() : pick_default();
  const auto [from, to] = pick_two();
  if (from.memory == nullptr) return;
  touch(*from.memory, stream);
  touch(*to.memory, stream);
  const uint64_t size = std::min(from.size, to.size);
  if (any && async) return IN_STREAM(cuMemcpyAsync, stream, to.address, from.address, size);
  if (any) return AT_ONCE(cuMemcpy, stream, to.address, from.address, size);
  if (async) return IN_STREAM(cuMemcpyDtoDAsync_v2, stream, to.address, from.address, size);
  AT_ONCE(cuMemcpyDtoD_v2, stream, to.address, from.address, size);
}

// Some copies at once, which have no order: each into a part of its own.
void Program::copy_batch() {
  const CUstream stream = pick_stream();
  const auto [from, to] = pick_two();
  // No batches in the legacy default stream.
  if (from.memory == nullptr || stream == CU_STREAM_LEGACY || stream == nullptr) return;
  touch(*from.memory, stream);
  touch(*to.memory, stream);
  const uint64_t count = draw_.between(1, draw_.chance(20) ? 50 : 5);
  const uint64_t each = std::min(from.size, to.size) / count / 4 * 4;
  if (each == 0) return;
  const auto [use_ptsz, given] = given_as(stream);
  if (draw_.chance(40)) return copy_boxes(to, from, each, count, use_ptsz, given);
  const bool from_host = draw_.chance(40);
  std::vector<CUdeviceptr> targets, sources;
  std::vector<size_t> sizes;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t size = draw_.between(1, each);
    targets.push_back(to.address + i * each);
    sources.push_back(from_host ? reinterpret_cast<CUdeviceptr>(host_bytes(size).data())
                                : from.address + i * each);
    sizes.push_back(size);
  }
  CUmemcpyAttributes how{};
  how.srcAccessOrder = draw_.chance(50) ? CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
                                        : CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  size_t first = 0;
  CHECK((use_ptsz ? cuMemcpyBatchAsync_v2_ptsz : cuMemcpyBatchAsync_v2)(
      targets.data(), sources.data(), sizes.data(), count, &how, &first, 1, given));
}

// Likewise of boxes, within the device.
void Program::copy_boxes(const Part& to, const Part& from, uint64_t each, uint64_t count,
                         bool use_ptsz, CUstream given) {
  const uint64_t height = draw_.between(1, std::min<uint64_t>(each / 4, 12));
  const uint64_t pitch = each / height;
  std::vector<CUDA_MEMCPY3D_BATCH_OP> boxes(count);
  for (uint64_t i = 0; i < count; ++i) {
    boxes[i].dst.type = boxes[i].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    boxes[i].dst.op.ptr.ptr = to.address + i * each;
    boxes[i].src.op.ptr.ptr = from.address + i * each;
    boxes[i].dst.op.ptr.rowLength = boxes[i].src.op.ptr.rowLength = pitch;
    boxes[i].extent = {draw_.between(1, pitch), height, 1};
    boxes[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  CHECK((use_ptsz ? cuMemcpy3DBatchAsync_v2_ptsz : cuMemcpy3DBatchAsync_v2)(count, boxes.data(), 0,
                                                                            given));
}

// Copies in two and three dimensions, from the host or within the device.
void Program::copy_box() {
  const bool async = draw_.chance(60), solid = draw_.chance(50), from_host = draw_.chance(50);
  const CUstream stream = async ? pick_stream() : pick_default();
  const std::pair<Part, Part> parts = pick_two();
  const Part &from = parts.first, &to = parts.second;
  const uint64_t size = std::min(from.size, to.size);
  if (from.memory == nullptr || size < 64) return;
  const uint64_t depth = solid ? draw_.between(1, 3) : 1;
  const uint64_t slice = size / depth;
  const uint64_t height = draw_.between(1, std::min<uint64_t>(slice / 16, 30));
  const uint64_t pitch = slice / height;
  const uint64_t width = draw_.between(1, pitch);
  touch(*to.memory, stream);
  if (!from_host) touch(*from.memory, stream);
  const auto describe = [&](auto& box) {
    box.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    box.srcHost = from_host ? host_bytes(size).data() : nullptr;
    box.srcDevice = from_host ? 0 : from.address;
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.dstDevice = to.address;
    box.dstXInBytes = draw_.below(pitch - width + 1);
    box.srcPitch = box.dstPitch = pitch;
    box.WidthInBytes = width;
    box.Height = height;
  };
  if (solid) {
    CUDA_MEMCPY3D box{};
    describe(box);
    box.srcHeight = box.dstHeight = height;
    box.Depth = depth;
    if (async) return IN_STREAM(cuMemcpy3DAsync_v2, stream, &box);
    return AT_ONCE(cuMemcpy3D_v2, stream, &box);
  }
  CUDA_MEMCPY2D box{};
  describe(box);
  if (async) return IN_STREAM(cuMemcpy2DAsync_v2, stream, &box);
  if (draw_.chance(50)) return AT_ONCE(cuMemcpy2DUnaligned_v2, stream, &box);
  AT_ONCE(cuMemcpy2D_v2, stream, &box);
}

// Memory that the host sees too: from it, into it, and touched by either side.
void Program::shared_step() {
  Memory& shared = draw_.chance(50) ? *pinned_ : *managed_;
  const CUstream stream = pick_stream();
  const Part part = pick_part(shared), other = pick_part(pick_memory());
  const uint64_t size = std::min(part.size, other.size);
  const auto words = static_cast<unsigned>(size / 4);
  const uint64_t kind = draw_.below(6);
  if (kind == 0) {
    wait_for(shared);
    auto* bytes =
        &shared == pinned_ ? pinned_bytes_ : reinterpret_cast<unsigned char*>(shared.address);
    see(bytes, shared.size);
    for (uint64_t i = 0; i < 100; ++i) bytes[draw_.below(shared.size)] += 3;
    return;
  }
  if (kind == 1) return host_function();
  touch(shared, stream);
  if (kind == 2) {
    launch("touch", stream, part.words(), part.pointer(), part.words(), 1u, draw_.word());
    return;
  }
  touch(*other.memory, stream);
  if (kind == 3) return IN_STREAM(cuMemcpyAsync, stream, other.address, part.address, size);
  if (kind == 4) return IN_STREAM(cuMemcpyAsync, stream, part.address, other.address, size);
  launch("move", stream, words, Moved{part.pointer(), other.pointer(), words, 7});
}

// Changes pinned memory where its stream comes to it, on a thread of the driver's.
void Program::host_function() {
  const CUstream stream = pick_stream();
  const Part part = pick_part(*pinned_);
  notes_.push_back({pinned_bytes_ + (part.address - pinned_->address), part.size, draw_.word()});
  touch(*pinned_, stream);
  const auto [use_ptsz, given] = given_as(stream);
  const CUhostFn change = [](void* given_note) {
    const Note& note = *static_cast<const Note*>(given_note);
    for (uint64_t i = 0; i < note.count; ++i) {
      note.bytes[i] = static_cast<unsigned char>(note.bytes[i] * 3 + note.value + i);
    }
  };
  CHECK((use_ptsz ? cuLaunchHostFunc_ptsz : cuLaunchHostFunc)(given, change, &notes_.back()));
}

}  // namespace oracle
