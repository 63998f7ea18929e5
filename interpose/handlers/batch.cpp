// Batches of copies: what copy.cpp says of each, but that memory of the host is looked at when the
// program synchronises.

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/places.h"

namespace gpusnap::handle {

namespace {
// A block whose width is WriteSet::kWholeRange is all from its start to the end of what holds it.
void add_block(WriteSet& writes, const HostBlock& block) {
  const auto address = reinterpret_cast<uint64_t>(block.start);
  if (block.width == WriteSet::kWholeRange) {
    writes.add_range_of(address);
  } else {
    writes.add_box(address, block.width, block.height, block.pitch, block.depth, block.slice);
  }
}

// `for_each(visit)` calls visit(HostBlock to, uint64_t from) of each copy. `failed`: where the
// driver tells which copy it could not make, or null. `array`: one of them is of an array.
template <class ForEach, class Real>
CUresult follow_batch(HookedCall& hooked, CUstream stream, size_t* failed, bool array,
                      ForEach&& for_each, Real&& real) {
  const CUstream on = hooked.stream(stream);
  const bool captured = hooked.captured(), asked = hooked.asks_writes();
  bool shared = false, pageable = false;
  uint64_t hash = 0;
  for_each([&](const HostBlock& to, uint64_t from) {
    const auto address = reinterpret_cast<uint64_t>(to.start);
    mix(hash,
        {hooked.model().known(address), hooked.model().known(from), to.width, to.height, to.depth});
    const Side side = side_of(hooked.model(), address);
    shared = shared || side == Side::kShared;
    pageable = pageable || side == Side::kHost;
    if (asked) add_block(hooked.writes, to);
  });
  hooked.key.add(hash);
  if (captured) return hooked.record_or_repeat(real);
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if ((hooked.entry().head.flags & kHasAnswer) != 0) hooked.take_answer(failed, sizeof *failed);
    return recorded;
  }
  const bool followed = !array && !pageable;
  HostWrite* const write = followed && shared ? hooked.host_updates().begin_write(on) : nullptr;
  const CUresult result = hooked.call_driver([&] {
    const CUresult given = real();
    if (write != nullptr) write->mark(hooked.driver(), given, on);
    return given;
  });
  if (result == CUDA_SUCCESS && !followed) {
    hooked.refuse(std::string(name_of(hooked.hook())) +
                  (array ? " of an array" : " into pageable memory"));
  } else if (result != CUDA_SUCCESS && failed != nullptr) {
    hooked.record_answer(result, failed, sizeof *failed);
  } else {
    hooked.record(result);
  }
  if (!followed || !shared) return result;
  for_each([&](const HostBlock& to, uint64_t) {
    WriteSet one;
    add_block(one, to);
    hooked.host_updates().may_write(one, write);
  });
  hooked.host_updates().end_write(write);
  return result;
}

template <class F, class... A>
CUresult plain_batch(const Call<F>& call, CUdeviceptr* to, CUdeviceptr* from, size_t* sizes,
                     size_t count, CUstream stream, size_t* failed, A... args) {
  auto real = [&] { return call.real(to, from, sizes, count, args...); };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  return follow_batch(
      hooked, stream, failed, false,
      [&](auto&& visit) {
        if (to == nullptr || from == nullptr || sizes == nullptr) return;
        for (size_t i = 0; i < count; ++i) {
          visit(plain_block(reinterpret_cast<const void*>(to[i]), sizes[i]), from[i]);
        }
      },
      real);
}

bool is_array(const CUDA_MEMCPY3D_BATCH_OP& copy) {
  return copy.src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY ||
         copy.dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
}

// Between pointers an element is a byte.
HostBlock block_of(const CUDA_MEMCPY3D_BATCH_OP& copy) {
  const CUmemcpy3DOperandPointer& to = copy.dst.op.ptr;
  HostBlock block = plain_block(reinterpret_cast<const void*>(to.ptr), copy.extent.width);
  block.height = copy.extent.height;
  block.depth = copy.extent.depth;
  block.pitch = to.rowLength != 0 ? to.rowLength : copy.extent.width;
  block.slice = block.pitch * (to.layerHeight != 0 ? to.layerHeight : copy.extent.height);
  return block;
}

template <class F, class... A>
CUresult box_batch(const Call<F>& call, size_t count, CUDA_MEMCPY3D_BATCH_OP* copies,
                   CUstream stream, size_t* failed, A... args) {
  auto real = [&] { return call.real(count, copies, args...); };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  const std::span all(copies, copies == nullptr ? 0 : count);
  return follow_batch(
      hooked, stream, failed, std::ranges::any_of(all, is_array),
      [&](auto&& visit) {
        for (const CUDA_MEMCPY3D_BATCH_OP& copy : all) {
          if (!is_array(copy)) visit(block_of(copy), copy.src.op.ptr.ptr);
        }
      },
      real);
}
}  // namespace

CUresult copy_batch(const Call<decltype(cuMemcpyBatchAsync)>& call, CUdeviceptr* to,
                    CUdeviceptr* from, size_t* sizes, size_t count, CUmemcpyAttributes* attributes,
                    size_t* firsts, size_t attribute_count, size_t* failed, CUstream stream) {
  return plain_batch(call, to, from, sizes, count, stream, failed, attributes, firsts,
                     attribute_count, failed, stream);
}

CUresult copy_batch(const Call<decltype(cuMemcpyBatchAsync_v2)>& call, CUdeviceptr* to,
                    CUdeviceptr* from, size_t* sizes, size_t count, CUmemcpyAttributes* attributes,
                    size_t* firsts, size_t attribute_count, CUstream stream) {
  return plain_batch(call, to, from, sizes, count, stream, nullptr, attributes, firsts,
                     attribute_count, stream);
}

CUresult copy_batch(const Call<decltype(cuMemcpy3DBatchAsync)>& call, size_t count,
                    CUDA_MEMCPY3D_BATCH_OP* copies, size_t* failed, unsigned long long flags,
                    CUstream stream) {
  return box_batch(call, count, copies, stream, failed, failed, flags, stream);
}

CUresult copy_batch(const Call<decltype(cuMemcpy3DBatchAsync_v2)>& call, size_t count,
                    CUDA_MEMCPY3D_BATCH_OP* copies, unsigned long long flags, CUstream stream) {
  return box_batch(call, count, copies, stream, nullptr, flags, stream);
}

// The sizes that the program states are guesses: anything after the beginning may be written.
CUresult decompress(const Call<decltype(cuMemBatchDecompressAsync)>& call,
                    CUmemDecompressParams* pieces, size_t count, unsigned flags, size_t* failed,
                    CUstream stream) {
  auto real = [&] { return call.real(pieces, count, flags, failed, stream); };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  hooked.check(flags);
  return follow_batch(
      hooked, stream, failed, false,
      [&](auto&& visit) {
        for (const CUmemDecompressParams& piece :
             std::span(pieces, pieces == nullptr ? 0 : count)) {
          visit(plain_block(piece.dst, WriteSet::kWholeRange),
                reinterpret_cast<uint64_t>(piece.src));
          visit(plain_block(piece.dstActBytes, sizeof *piece.dstActBytes), piece.srcNumBytes);
        }
      },
      real);
}

}  // namespace gpusnap::handle
