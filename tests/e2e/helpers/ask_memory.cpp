// SPDX-License-Identifier: Apache-2.0
//
// Prints what the driver tells of memory of cuMemAlloc, in terms that do not depend on where it
// lies.
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "interpose/cuda/cuda_abi.h"

namespace {

void must(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s %d\n", call, static_cast<int>(result));
  std::exit(1);
}
#define MUST(call) must(call, #call)

void say(const char* what, CUresult result, unsigned long long value) {
  std::printf("%s: %d, %llu\n", what, static_cast<int>(result), result == CUDA_SUCCESS ? value : 0);
}

void ask(CUdeviceptr base, CUdeviceptr address) {
  CUcontext context = nullptr, current = nullptr;
  MUST(cuCtxGetCurrent(&current));
  CUresult result = cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address);
  say("context", result, context == current);
  constexpr CUpointer_attribute kNumbers[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
      CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_MAPPED,
      CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
      CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
      CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
      CU_POINTER_ATTRIBUTE_HOST_POINTER,
      CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
      CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE,
  };
  for (const CUpointer_attribute attribute : kNumbers) {
    unsigned long long number = 0;
    result = cuPointerGetAttribute(&number, attribute, address);
    std::printf("%d ", static_cast<int>(attribute));
    say("attribute", result, number);
  }
  CUdeviceptr pointer = 0, start = 0;
  size_t size = 0;
  CUpointer_attribute three[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&pointer, &start, &size};
  result = cuPointerGetAttributes(3, three, values, address);
  say("pointer", result, pointer - address);
  say("start", result, start == 0 ? 1 : start - base);
  say("size", result, size);
  CUdeviceptr range = 0;
  result = cuMemGetAddressRange_v2(&range, &size, address);
  say("range", result, range - base);
  say("range's size", result, size);
  CUmemGenericAllocationHandle handle = 0;
  say("handle", cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)), 0);
}

void ask_identities(CUdeviceptr one, CUdeviceptr other) {
  unsigned long long first = 0, second = 0, again = 0;
  MUST(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, one));
  MUST(cuPointerGetAttribute(&again, CU_POINTER_ATTRIBUTE_BUFFER_ID, one + 1));
  MUST(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, other));
  say("identities", CUDA_SUCCESS, (first == again ? 1 : 0) + (first != second ? 2 : 0));
  const int on = 1;
  MUST(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, one));
  int set = 0;
  MUST(cuPointerGetAttribute(&set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, one));
  say("set", CUDA_SUCCESS, static_cast<unsigned>(set));
}

// The device's memory that is gone, in whole granules.
unsigned long long granules_used() {
  size_t free = 0, total = 0;
  MUST(cuMemGetInfo_v2(&free, &total));
  return (total - free) >> 21;
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  CUdeviceptr small = 0, large = 0, rows = 0, none = 0;
  size_t pitch = 0;
  MUST(cuInit(0));
  MUST(cuCtxCreate_v2(&context, 0, 0));
  MUST(cuMemAlloc_v2(&small, 100));
  const unsigned long long before = granules_used();
  MUST(cuMemAlloc_v2(&large, 100 << 20));
  say("used", CUDA_SUCCESS, granules_used() - before);
  MUST(cuMemAllocPitch_v2(&rows, &pitch, 1000, 7, 4));
  say("pitch", CUDA_SUCCESS, pitch);
  for (const auto& [base, offset] :
       {std::pair{small, 0}, {small, 99}, {large, 50 << 20}, {rows, 7}}) {
    ask(base, base + static_cast<unsigned>(offset));
  }
  ask_identities(small, large);
  MUST(cuMemsetD8_v2(large, 1, 100 << 20));
  MUST(cuMemsetD2D8_v2(rows, pitch, 2, 1000, 7));
  MUST(cuCtxSynchronize());
  say("no bytes", cuMemAlloc_v2(&none, 0), 0);
  say("too much", cuMemAlloc_v2(&none, size_t{1} << 40), 0);
  say("inside", cuMemFree_v2(small + 1), 0);
  say("free", cuMemFree_v2(large), 0);
  say("twice", cuMemFree_v2(large), 0);
  say("used after", CUDA_SUCCESS, granules_used() - before);
  unsigned long long number = 0;
  say("gone", cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, large), number);
  size_t size = 0;
  say("no range", cuMemGetAddressRange_v2(&none, &size, large), 0);
  // In the order of the stream.
  say("ordered", cuMemFreeAsync(small, nullptr), 0);
  say("rows", cuMemFree_v2(rows), 0);
  MUST(cuCtxSynchronize());
  MUST(cuCtxDestroy_v2(context));
  say("without a context", cuMemAlloc_v2(&none, 1), 0);
  std::puts("ok");
  return 0;
}
