// SPDX-License-Identifier: Apache-2.0
// Copies. Every form is one box of bytes (copy_box.h) from one place to another; what differs
// between the calls is only when the host may go on.

#include <algorithm>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/copy_box.h"
#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

Engine engine_for(const LocatedEnd& to, const LocatedEnd& from) {
  if (to.on_device) return from.on_device ? Engine::kCopy : Engine::kToDevice;
  return Engine::kToHost;
}

// The devices of a copy from one to another, if links are set: it has an engine of its own.
DevicePair pair_of(const Driver& state, const LocatedEnd& to, const LocatedEnd& from) {
  const bool is_between = to.on_device && from.on_device && to.device >= 0 && from.device >= 0 &&
                          to.device != from.device;
  return is_between && state.settings.engines.links.is_set() ? DevicePair{from.device, to.device}
                                                             : DevicePair{};
}

CUresult injected(Faults& faults, Engine engine) {
  // Each counts for itself, whether or not another fails the call.
  bool any = faults.strike(FaultPoint::kCopy);
  bool to_host = engine == Engine::kToHost && faults.strike(FaultPoint::kCopyToHost);
  bool to_device = engine == Engine::kToDevice && faults.strike(FaultPoint::kCopyToDevice);
  return any || to_host || to_device ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

void count(Stats& stats, const LocatedEnd& to, const LocatedEnd& from, uint64_t bytes) {
  if (to.on_device && from.on_device) {
    stats.bytes_within_device += bytes;
  } else if (to.on_device) {
    stats.bytes_to_device += bytes;
  } else if (from.on_device) {
    stats.bytes_from_device += bytes;
  }
}

// `staged` holds what `in` is of, where that is a copy of what the program has.
WorkQueue::Task task_of_copy(Driver& state, Context& context, const CopyBox& box,
                             const CopyRows& out, const CopyRows& in,
                             std::shared_ptr<std::vector<std::byte>> staged,
                             const LocatedEnd& target, const LocatedEnd& source) {
  const Engine engine = engine_for(target, source);
  const DevicePair pair = pair_of(state, target, source);
  return [=, staged = std::move(staged), &state, &context] {
    state.engines.run(context, engine, pair, [&] {
      move_rows(box, out, in);
      count(state.stats, target, source, box.bytes());
      return Effort{box.bytes()};
    });
  };
}

// Queues the copy; `until` is what the host has to wait for, if anything.
CUresult queue_copy(Driver& state, Context& context, Stream& stream, const CopyBox& box,
                    const CopyEnd& to, const CopyEnd& from, Wait wait, Point* until) {
  auto hold = state.memory.hold();
  LocatedEnd target;
  LocatedEnd source;
  CUresult result = locate(state.memory, hold, box, to, &target);
  if (result != CUDA_SUCCESS) return result;
  result = locate(state.memory, hold, box, from, &source);
  if (result != CUDA_SUCCESS) return result;

  Engine engine = engine_for(target, source);
  result = injected(state.faults, engine);
  if (result != CUDA_SUCCESS) return result;

  const CopyRows out = rows_of(target, to);
  CopyRows in = rows_of(source, from);
  std::shared_ptr<std::vector<std::byte>> staged;
  if (wait == Wait::kAsync && source.pageable && !target.pageable) {
    // Pageable memory may change once the call returns: what it holds now is what is copied.
    staged = std::make_shared<std::vector<std::byte>>(box.bytes());
    CopyRows packed{staged->data(), box.width, box.width * box.height};
    move_rows(box, packed, in);
    in = packed;
  }
  Point point = context.submit(
      stream, task_of_copy(state, context, box, out, in, std::move(staged), target, source));
  // Copies within devices are never waited for; those into pageable memory always are.
  bool within = target.on_device && source.on_device;
  if (target.pageable || (wait == Wait::kSync && !within)) *until = std::move(point);
  return CUDA_SUCCESS;
}

// A copy as a node of a graph says it.
CUresult describe_copy(Driver& state, const CopyBox& box, const CopyEnd& to, const CopyEnd& from,
                       Work* work) {
  if (box.empty()) return CUDA_SUCCESS;
  const Memory::Plan plan(state.memory);
  LocatedEnd target;
  LocatedEnd source;
  CUresult result = locate(state.memory, plan.hold, box, to, &target);
  if (result == CUDA_SUCCESS) result = locate(state.memory, plan.hold, box, from, &source);
  if (result != CUDA_SUCCESS) return result;
  auto pitch = [&](const CopyEnd& end) { return end.pitch != 0 ? end.pitch : box.width; };
  auto rows = [&](const CopyEnd& end) {
    return end.slice != 0 ? end.slice / pitch(end) : box.height;
  };
  CUDA_MEMCPY3D copy{};
  const auto type = [](const CopyEnd& end, const LocatedEnd& located) {
    if (end.array != nullptr) return CU_MEMORYTYPE_ARRAY;
    return located.on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  };
  copy.srcMemoryType = type(from, source);
  copy.dstMemoryType = type(to, target);
  if (from.array != nullptr) copy.srcArray = from.array->handle;
  if (to.array != nullptr) copy.dstArray = to.array->handle;
  copy.srcXInBytes = from.x;
  copy.srcY = from.y;
  copy.srcZ = from.z;
  copy.dstXInBytes = to.x;
  copy.dstY = to.y;
  copy.dstZ = to.z;
  if (source.on_device) copy.srcDevice = from.address;
  if (!source.on_device) copy.srcHost = reinterpret_cast<const void*>(from.address);
  if (target.on_device) copy.dstDevice = to.address;
  if (!target.on_device) copy.dstHost = reinterpret_cast<void*>(to.address);
  copy.srcPitch = pitch(from);
  copy.dstPitch = pitch(to);
  copy.srcHeight = rows(from);
  copy.dstHeight = rows(to);
  copy.WidthInBytes = box.width;
  copy.Height = box.height;
  copy.Depth = box.depth;
  *work = CopyCall{copy};
  return CUDA_SUCCESS;
}

CUresult copy(CUstream handle, const CopyBox& box, const CopyEnd& to, const CopyEnd& from,
              Wait wait) {
  auto body = [&](Driver& state, Context& context, Stream& stream) {
    if (box.empty()) return CUDA_SUCCESS;
    Point until;
    CUresult result = queue_copy(state, context, stream, box, to, from, wait, &until);
    if (result != CUDA_SUCCESS) return result;
    until.wait();
    if (until.queue != nullptr) context.show_printed();
    return context.error();
  };
  if (wait == Wait::kSync) return queue_and_wait(handle, body);
  auto describe = [&](Driver& state, Context&, Work* work) {
    return describe_copy(state, box, to, from, work);
  };
  return queue_or_capture(handle, describe, body);
}

CUresult copy_linear(CUstream stream, uint64_t to, CopyPlace to_place, uint64_t from,
                     CopyPlace from_place, uint64_t size, Wait wait) {
  return copy(stream, {size}, {to, 0, 0, to_place}, {from, 0, 0, from_place}, wait);
}

// One copy of a batch.
struct BatchCopy {
  CopyBox box;
  CopyEnd to, from;
  CUmemcpySrcAccessOrder order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  LocatedEnd target, source;
  std::shared_ptr<std::vector<std::byte>> staged;  // what the source held at the call
  Engine engine = Engine::kCopy;
  DevicePair pair;

  void move() const {
    const CopyRows packed{staged != nullptr ? staged->data() : nullptr, box.width,
                          box.width * box.height};
    move_rows(box, rows_of(target, to), staged != nullptr ? packed : rows_of(source, from));
  }
};

constexpr Engine kCopyEngines[] = {Engine::kToHost, Engine::kToDevice, Engine::kCopy};

bool uses(const std::vector<BatchCopy>& copies, Engine engine) {
  return std::any_of(copies.begin(), copies.end(),
                     [&](const BatchCopy& copy) { return copy.engine == engine; });
}

bool is_known(CUmemcpySrcAccessOrder order, unsigned flags) {
  return (order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
          order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
          order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY) &&
         flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
}

// The order of access of each copy; false where the lists are not as they have to be.
bool spread_attributes(size_t count, const CUmemcpyAttributes* attributes, const size_t* firsts,
                       size_t attribute_count, std::vector<CUmemcpySrcAccessOrder>* orders) {
  if (attributes == nullptr || firsts == nullptr || attribute_count == 0 ||
      attribute_count > count || firsts[0] != 0) {
    return false;
  }
  for (size_t i = 0; i < attribute_count; ++i) {
    const size_t end = i + 1 < attribute_count ? firsts[i + 1] : count;
    const CUmemcpySrcAccessOrder order = attributes[i].srcAccessOrder;
    if (!is_known(order, attributes[i].flags) || end <= firsts[i] || end > count) return false;
    orders->resize(end, order);
  }
  return true;
}

CUresult locate_batch(Driver& state, const Memory::Hold& hold, std::vector<BatchCopy>* copies,
                      size_t* at) {
  for (*at = 0; *at < copies->size(); ++*at) {
    BatchCopy& copy = (*copies)[*at];
    if (copy.box.empty()) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = locate(state.memory, hold, copy.box, copy.to, &copy.target);
    if (result == CUDA_SUCCESS) {
      result = locate(state.memory, hold, copy.box, copy.from, &copy.source);
    }
    if (result != CUDA_SUCCESS) return result;
    copy.engine = engine_for(copy.target, copy.source);
    copy.pair = pair_of(state, copy.target, copy.source);
    if (!copy.source.pageable || copy.order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) continue;
    copy.staged = std::make_shared<std::vector<std::byte>>(copy.box.bytes());
    move_rows(copy.box, {copy.staged->data(), copy.box.width, copy.box.width * copy.box.height},
              rows_of(copy.source, copy.from));
  }
  *at = SIZE_MAX;
  return CUDA_SUCCESS;
}

// The copies of one engine, and of one link, as one operation. They have no order: done from the
// last to the first, so that one that reads what another writes shows.
Effort move_batch(Stats& stats, const std::vector<BatchCopy>& copies, Engine engine,
                  DevicePair pair) {
  Effort effort{.copies = 0};
  for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
    if (copy->engine != engine || copy->pair != pair) continue;
    copy->move();
    count(stats, copy->target, copy->source, copy->box.bytes());
    effort.bytes += copy->box.bytes();
    ++effort.copies;
  }
  return effort;
}

WorkQueue::Task task_of_batch(Driver& state, Context& context, std::vector<BatchCopy> copies) {
  return [&state, &context, copies = std::move(copies)] {
    for (Engine engine : kCopyEngines) {
      std::vector<DevicePair> pairs;
      for (const BatchCopy& copy : copies) {
        if (copy.engine != engine || std::count(pairs.begin(), pairs.end(), copy.pair) > 0)
          continue;
        pairs.push_back(copy.pair);
        state.engines.run(context, engine, copy.pair,
                          [&] { return move_batch(state.stats, copies, engine, copy.pair); });
      }
    }
  };
}

// `describe(std::vector<BatchCopy>*)` says what is to be copied; false where that makes no sense.
template <class Describe>
CUresult copy_batch(CUstream handle, size_t* failed, Describe&& describe) {
  size_t at = SIZE_MAX;  // no copy in particular
  const CUresult result = queue_in(handle, [&](Driver& state, Context& context, Stream& stream) {
    std::vector<BatchCopy> copies;
    if (stream.legacy || !describe(&copies)) return CUDA_ERROR_INVALID_VALUE;
    Point until;
    {
      auto hold = state.memory.hold();
      CUresult bad = locate_batch(state, hold, &copies, &at);
      if (bad != CUDA_SUCCESS) return bad;
      for (Engine engine : kCopyEngines) {
        if (uses(copies, engine)) bad = injected(state.faults, engine);
        if (bad != CUDA_SUCCESS) return bad;
      }
      const bool waits = std::any_of(copies.begin(), copies.end(),
                                     [](const BatchCopy& copy) { return copy.target.pageable; });
      Point point = context.submit(stream, task_of_batch(state, context, std::move(copies)));
      if (waits) until = std::move(point);
    }
    until.wait();
    if (until.queue != nullptr) context.show_printed();
    return context.error();
  });
  if (result != CUDA_SUCCESS && failed != nullptr) *failed = at;
  return result;
}

CUresult copy_plain_batch(const CUdeviceptr* to, const CUdeviceptr* from, const size_t* sizes,
                          size_t count, const CUmemcpyAttributes* attributes, const size_t* firsts,
                          size_t attribute_count, size_t* failed, CUstream stream) {
  return copy_batch(stream, failed, [&](std::vector<BatchCopy>* copies) {
    std::vector<CUmemcpySrcAccessOrder> orders;
    if (to == nullptr || from == nullptr || sizes == nullptr || count == 0 ||
        !spread_attributes(count, attributes, firsts, attribute_count, &orders)) {
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      BatchCopy& copy = copies->emplace_back();
      copy.box.width = sizes[i];
      copy.to.address = to[i];
      copy.from.address = from[i];
      copy.order = orders[i];
    }
    return true;
  });
}

// False where it is no pointer, or too narrow.
bool describe_end(const CUmemcpy3DOperand& operand, const CopyBox& box, CopyEnd* end) {
  const CUmemcpy3DOperandPointer& pointer = operand.op.ptr;
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return false;  // there are no arrays
  const uint64_t pitch = pointer.rowLength != 0 ? pointer.rowLength : box.width;
  const uint64_t rows = pointer.layerHeight != 0 ? pointer.layerHeight : box.height;
  constexpr uint64_t kMost = uint64_t{1} << 31;
  if (pitch < box.width || rows < box.height || pitch > kMost || rows > kMost) return false;
  *end = {pointer.ptr, pitch, pitch * rows, CopyPlace::kAny};
  return true;
}

CUresult copy_box_batch(size_t count, const CUDA_MEMCPY3D_BATCH_OP* asked, size_t* failed,
                        unsigned long long flags, CUstream stream) {
  return copy_batch(stream, failed, [&](std::vector<BatchCopy>* copies) {
    if (asked == nullptr || count == 0 || flags != 0) return false;
    for (size_t i = 0; i < count; ++i) {
      BatchCopy& copy = copies->emplace_back();
      copy.box = {asked[i].extent.width, asked[i].extent.height, asked[i].extent.depth};
      copy.order = asked[i].srcAccessOrder;
      if (!is_known(copy.order, asked[i].flags) ||
          !describe_end(asked[i].dst, copy.box, &copy.to) ||
          !describe_end(asked[i].src, copy.box, &copy.from)) {
        return false;
      }
    }
    return true;
  });
}

uint64_t number(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

CUresult copy_2d(const CUDA_MEMCPY2D* c, CUstream stream, Wait wait) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CopyBox box{c->WidthInBytes, c->Height, 1};
  CopyEnd to;
  CopyEnd from;
  if (!box.empty() && (!end_of(box,
                               {c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray,
                                c->dstPitch, 0, c->dstXInBytes, c->dstY, 0},
                               &to) ||
                       !end_of(box,
                               {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray,
                                c->srcPitch, 0, c->srcXInBytes, c->srcY, 0},
                               &from))) {
    return in_context([](auto&, auto&) { return CUDA_ERROR_INVALID_VALUE; });
  }
  return copy(stream, box, to, from, wait);
}

// `size` bytes between a row of an array and memory, or a row of another array.
CUresult copy_row(CUmemorytype to_type, uint64_t to, CUarray to_array, CUmemorytype from_type,
                  uint64_t from, CUarray from_array, size_t size, CUstream stream, Wait wait) {
  CUDA_MEMCPY2D c{};
  c.dstMemoryType = to_type;
  c.srcMemoryType = from_type;
  c.dstArray = to_array;
  c.srcArray = from_array;
  if (to_type == CU_MEMORYTYPE_ARRAY) c.dstXInBytes = to;
  if (to_type == CU_MEMORYTYPE_DEVICE) c.dstDevice = to;
  if (to_type == CU_MEMORYTYPE_HOST) c.dstHost = reinterpret_cast<void*>(to);
  if (from_type == CU_MEMORYTYPE_ARRAY) c.srcXInBytes = from;
  if (from_type == CU_MEMORYTYPE_DEVICE) c.srcDevice = from;
  if (from_type == CU_MEMORYTYPE_HOST) c.srcHost = reinterpret_cast<const void*>(from);
  c.WidthInBytes = size;
  c.Height = 1;
  return copy_2d(&c, stream, wait);
}

// For CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER: with one address space the contexts say nothing new.
template <class Params>
bool ends_of(const Params& c, CopyBox* box, CopyEnd* to, CopyEnd* from) {
  *box = {c.WidthInBytes, c.Height, c.Depth};
  if (c.srcLOD != 0 || c.dstLOD != 0) return false;
  if (box->empty()) return true;
  return end_of(*box,
                {c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, c.dstHeight,
                 c.dstXInBytes, c.dstY, c.dstZ},
                to) &&
         end_of(*box,
                {c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, c.srcHeight,
                 c.srcXInBytes, c.srcY, c.srcZ},
                from);
}

template <class Params>
CUresult copy_3d(const Params* c, CUstream stream, Wait wait) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CopyBox box;
  CopyEnd to;
  CopyEnd from;
  if (!ends_of(*c, &box, &to, &from)) {
    return in_context([](auto&, auto&) { return CUDA_ERROR_INVALID_VALUE; });
  }
  return copy(stream, box, to, from, wait);
}

}  // namespace

CUresult copy_task(Driver& driver, Context& context, const Memory::Hold& hold,
                   const CUDA_MEMCPY3D& copy, WorkQueue::Task* task) {
  CopyBox box;
  CopyEnd to;
  CopyEnd from;
  LocatedEnd target;
  LocatedEnd source;
  if (!ends_of(copy, &box, &to, &from)) return CUDA_ERROR_INVALID_VALUE;
  if (box.empty()) return CUDA_SUCCESS;
  CUresult result = locate(driver.memory, hold, box, to, &target);
  if (result == CUDA_SUCCESS) result = locate(driver.memory, hold, box, from, &source);
  if (result != CUDA_SUCCESS) return result;
  *task = task_of_copy(driver, context, box, rows_of(target, to), rows_of(source, from), nullptr,
                       target, source);
  return CUDA_SUCCESS;
}

}  // namespace simcuda

using simcuda::copy_2d;
using simcuda::copy_3d;
using simcuda::copy_box_batch;
using simcuda::copy_linear;
using simcuda::copy_plain_batch;
using simcuda::copy_row;
using simcuda::CopyPlace;
using simcuda::number;
using simcuda::Wait;

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copy_linear(nullptr, to, CopyPlace::kAny, from, CopyPlace::kAny, size, Wait::kSync);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy_linear(stream, to, CopyPlace::kAny, from, CopyPlace::kAny, size, Wait::kAsync);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t size) {
  return copy_linear(nullptr, to, CopyPlace::kDevice, number(from), CopyPlace::kHost, size,
                     Wait::kSync);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  return copy_linear(stream, to, CopyPlace::kDevice, number(from), CopyPlace::kHost, size,
                     Wait::kAsync);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t size) {
  return copy_linear(nullptr, number(to), CopyPlace::kHost, from, CopyPlace::kDevice, size,
                     Wait::kSync);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy_linear(stream, number(to), CopyPlace::kHost, from, CopyPlace::kDevice, size,
                     Wait::kAsync);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copy_linear(nullptr, to, CopyPlace::kDevice, from, CopyPlace::kDevice, size, Wait::kSync);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy_linear(stream, to, CopyPlace::kDevice, from, CopyPlace::kDevice, size, Wait::kAsync);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size) {
  return copy_linear(nullptr, to, CopyPlace::kDevice, from, CopyPlace::kDevice, size, Wait::kSync);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size,
                           CUstream stream) {
  return copy_linear(stream, to, CopyPlace::kDevice, from, CopyPlace::kDevice, size, Wait::kAsync);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* parameters) {
  return copy_2d(parameters, nullptr, Wait::kSync);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* parameters) {
  return copy_2d(parameters, nullptr, Wait::kSync);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* parameters, CUstream stream) {
  return copy_2d(parameters, stream, Wait::kAsync);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* parameters) {
  return copy_3d(parameters, nullptr, Wait::kSync);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* parameters, CUstream stream) {
  return copy_3d(parameters, stream, Wait::kAsync);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* parameters) {
  return copy_3d(parameters, nullptr, Wait::kSync);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* parameters, CUstream stream) {
  return copy_3d(parameters, stream, Wait::kAsync);
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void* from, size_t size) {
  return copy_row(CU_MEMORYTYPE_ARRAY, offset, to, CU_MEMORYTYPE_HOST, number(from), nullptr, size,
                  nullptr, Wait::kSync);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void* from, size_t size,
                              CUstream stream) {
  return copy_row(CU_MEMORYTYPE_ARRAY, offset, to, CU_MEMORYTYPE_HOST, number(from), nullptr, size,
                  stream, Wait::kAsync);
}

CUresult cuMemcpyAtoH_v2(void* to, CUarray from, size_t offset, size_t size) {
  return copy_row(CU_MEMORYTYPE_HOST, number(to), nullptr, CU_MEMORYTYPE_ARRAY, offset, from, size,
                  nullptr, Wait::kSync);
}

CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t offset, size_t size, CUstream stream) {
  return copy_row(CU_MEMORYTYPE_HOST, number(to), nullptr, CU_MEMORYTYPE_ARRAY, offset, from, size,
                  stream, Wait::kAsync);
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t size) {
  return copy_row(CU_MEMORYTYPE_ARRAY, offset, to, CU_MEMORYTYPE_DEVICE, from, nullptr, size,
                  nullptr, Wait::kSync);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t size) {
  return copy_row(CU_MEMORYTYPE_DEVICE, to, nullptr, CU_MEMORYTYPE_ARRAY, offset, from, size,
                  nullptr, Wait::kSync);
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                         size_t size) {
  return copy_row(CU_MEMORYTYPE_ARRAY, to_offset, to, CU_MEMORYTYPE_ARRAY, from_offset, from, size,
                  nullptr, Wait::kSync);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* firsts, size_t attribute_count,
                            size_t* failed, CUstream stream) {
  return copy_plain_batch(to, from, sizes, count, attributes, firsts, attribute_count, failed,
                          stream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attributes, size_t* firsts,
                               size_t attribute_count, CUstream stream) {
  return copy_plain_batch(to, from, sizes, count, attributes, firsts, attribute_count, nullptr,
                          stream);
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, size_t* failed,
                              unsigned long long flags, CUstream stream) {
  return copy_box_batch(count, copies, failed, flags, stream);
}

CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies,
                                 unsigned long long flags, CUstream stream) {
  return copy_box_batch(count, copies, nullptr, flags, stream);
}
