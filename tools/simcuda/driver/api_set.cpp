// SPDX-License-Identifier: Apache-2.0
// Sets: a box of device memory filled with one value.
#include <atomic>
#include <cstring>
#include <utility>

#include "tools/simcuda/driver/copy_box.h"
#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

// Words are stored whole: a kernel may be polling one of them. They are aligned, checked before.
template <class T>
void set_rows(const CopyBox& box, const CopyRows& to, T value) {
  for (uint64_t y = 0; y < box.height; ++y) {
    T* row = reinterpret_cast<T*>(to.row(y, 0));
    for (uint64_t x = 0; x < box.width / sizeof(T); ++x) {
      std::atomic_ref<T>(row[x]).store(value, std::memory_order_relaxed);
    }
  }
}

template <>
void set_rows<uint8_t>(const CopyBox& box, const CopyRows& to, uint8_t value) {
  for (uint64_t y = 0; y < box.height; ++y) std::memset(to.row(y, 0), value, box.width);
}

template <class T>
WorkQueue::Task task_of_set(Driver& state, Context& context, const CopyBox& box,
                            const CopyRows& rows, bool on_device, unsigned value) {
  return [box, rows, value, on_device, &state, &context] {
    state.engines.run(context, Engine::kCompute, [&] {
      set_rows(box, rows, static_cast<T>(value));
      state.stats.bytes_set += box.bytes();
      return on_device ? Effort{box.bytes()} : Effort{0, box.bytes()};
    });
  };
}

CUresult make_set(Driver& state, Context& context, const Memory::Hold& hold,
                  const CUDA_MEMSET_NODE_PARAMS& set, WorkQueue::Task* task, LocatedEnd* target) {
  const unsigned element = set.elementSize;
  if ((element != 1 && element != 2 && element != 4) || set.width > (uint64_t{1} << 46) ||
      set.dst % element != 0 || (set.height > 1 && set.pitch % element != 0) ||
      (set.height > 1 && set.pitch < set.width * element)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CopyBox box{set.width * element, set.height, 1};
  if (box.empty()) return CUDA_SUCCESS;
  CUresult result =
      locate(state.memory, hold, box, {set.dst, set.pitch, 0, CopyPlace::kDevice}, target);
  if (result != CUDA_SUCCESS) return result;
  CopyRows rows{target->host, set.pitch, 0};
  *task = element == 1
              ? task_of_set<uint8_t>(state, context, box, rows, target->on_device, set.value)
          : element == 2
              ? task_of_set<uint16_t>(state, context, box, rows, target->on_device, set.value)
              : task_of_set<uint32_t>(state, context, box, rows, target->on_device, set.value);
  return CUDA_SUCCESS;
}

// `width` is counted in elements of T.
template <class T>
CUresult set(CUstream handle, CUdeviceptr address, size_t pitch, T value, size_t width,
             size_t height, Wait wait) {
  const CUDA_MEMSET_NODE_PARAMS set{address, pitch, value, sizeof(T), width, height};
  auto body = [&](Driver& state, Context& context, Stream& stream) {
    Point until;
    {
      auto hold = state.memory.hold();
      LocatedEnd target;
      WorkQueue::Task task;
      CUresult result = make_set(state, context, hold, set, &task, &target);
      if (result != CUDA_SUCCESS) return result;
      if (!task) return CUDA_SUCCESS;
      Point point = context.submit(stream, std::move(task));
      // A set of device memory is not waited for even by the calls that are not called async.
      if (wait == Wait::kSync && !target.on_device) until = std::move(point);
    }
    until.wait();
    if (until.queue != nullptr) context.show_printed();
    return context.error();
  };
  if (wait == Wait::kSync) return queue_and_wait(handle, body);
  auto describe = [&](Driver& state, Context& context, Work* work) {
    const Memory::Plan plan(state.memory);
    LocatedEnd target;
    WorkQueue::Task task;
    CUresult result = make_set(state, context, plan.hold, set, &task, &target);
    if (result == CUDA_SUCCESS && task) *work = SetCall{set};
    return result;
  };
  return queue_or_capture(handle, describe, body);
}

}  // namespace

CUresult set_task(Driver& driver, Context& context, const Memory::Hold& hold,
                  const CUDA_MEMSET_NODE_PARAMS& set, WorkQueue::Task* task) {
  LocatedEnd target;
  return make_set(driver, context, hold, set, task, &target);
}

}  // namespace simcuda

using simcuda::set;
using simcuda::Wait;

CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t count) {
  return set<uint8_t>(nullptr, address, 0, value, count, 1, Wait::kSync);
}

CUresult cuMemsetD16_v2(CUdeviceptr address, unsigned short value, size_t count) {
  return set<uint16_t>(nullptr, address, 0, value, count, 1, Wait::kSync);
}

CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned value, size_t count) {
  return set<uint32_t>(nullptr, address, 0, value, count, 1, Wait::kSync);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr address, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return set<uint8_t>(nullptr, address, pitch, value, width, height, Wait::kSync);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return set<uint16_t>(nullptr, address, pitch, value, width, height, Wait::kSync);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr address, size_t pitch, unsigned value, size_t width,
                          size_t height) {
  return set<uint32_t>(nullptr, address, pitch, value, width, height, Wait::kSync);
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream) {
  return set<uint8_t>(stream, address, 0, value, count, 1, Wait::kAsync);
}

CUresult cuMemsetD16Async(CUdeviceptr address, unsigned short value, size_t count,
                          CUstream stream) {
  return set<uint16_t>(stream, address, 0, value, count, 1, Wait::kAsync);
}

CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, CUstream stream) {
  return set<uint32_t>(stream, address, 0, value, count, 1, Wait::kAsync);
}

CUresult cuMemsetD2D8Async(CUdeviceptr address, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return set<uint8_t>(stream, address, pitch, value, width, height, Wait::kAsync);
}

CUresult cuMemsetD2D16Async(CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return set<uint16_t>(stream, address, pitch, value, width, height, Wait::kAsync);
}

CUresult cuMemsetD2D32Async(CUdeviceptr address, size_t pitch, unsigned value, size_t width,
                            size_t height, CUstream stream) {
  return set<uint32_t>(stream, address, pitch, value, width, height, Wait::kAsync);
}
