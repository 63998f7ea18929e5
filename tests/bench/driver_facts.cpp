// SPDX-License-Identifier: Apache-2.0
//
// Facts about the driver and the device that gpusnap's design stands on, one line of JSON each:
// where memory lies, which requests for an address are granted, what handles and names are taken
// for, and what registering, mapping and copying cost. It asserts nothing.
//
//   driver_facts [MIB]     how much memory rates are measured with (default: 256)
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "interpose/cuda/cuda_abi.h"
#include "tests/bench/json_line.h"

namespace {

using gpusnap::bench::JsonLine;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kGranule = 2 * kMiB;

const char* name_of(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr ? name : "unknown";
}

void need(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "driver_facts: %s: %s\n", what, name_of(result));
  std::exit(1);
}

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%" PRIx64, value);
  return text;
}

void tell(JsonLine& line) {
  std::puts(line.end().c_str());
  std::fflush(stdout);
}

void tell_text(const char* fact, const std::string& value) {
  JsonLine line;
  line.text("fact", fact);
  line.text("value", value);
  tell(line);
}

void tell_number(const char* fact, double value) {
  JsonLine line;
  line.text("fact", fact);
  line.number("value", value);
  tell(line);
}

template <class Work>
double seconds(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The least, the middle and the most of several rounds.
template <class Work>
void tell_rate(const char* fact, double bytes, Work work, int rounds = 5) {
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round) rates.push_back(bytes / seconds(work) / 1e9);
  std::sort(rates.begin(), rates.end());
  JsonLine line;
  line.text("fact", fact);
  line.number("gb_per_s", rates[rates.size() / 2]);
  line.number("least", rates.front());
  line.number("most", rates.back());
  tell(line);
}

CUmemAllocationProp device_memory() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

CUresult map_at(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle) {
  CUresult result = cuMemMap(address, bytes, 0, handle, 0);
  if (result != CUDA_SUCCESS) return result;
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cuMemSetAccess(address, bytes, &access, 1);
}

void tell_attributes() {
  int version = 0;
  need(cuDriverGetVersion(&version), "cuDriverGetVersion");
  tell_number("driver version", version);
  char name[256] = "";
  need(cuDeviceGetName(name, sizeof name, 0), "cuDeviceGetName");
  tell_text("device", name);
  const struct {
    const char* fact;
    CUdevice_attribute attribute;
  } asked[] = {
      {"unified addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
      {"kernels reach pageable memory", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
      {"by the host's page tables",
       CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES},
  };
  for (const auto& each : asked) {
    int value = -1;
    need(cuDeviceGetAttribute(&value, each.attribute, 0), "cuDeviceGetAttribute");
    tell_number(each.fact, value);
  }
  const CUmemAllocationProp properties = device_memory();
  size_t least = 0, recommended = 0;
  need(cuMemGetAllocationGranularity(&least, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
       "cuMemGetAllocationGranularity");
  need(cuMemGetAllocationGranularity(&recommended, &properties,
                                     CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
       "cuMemGetAllocationGranularity");
  tell_number("granularity, least", static_cast<double>(least));
  tell_number("granularity, recommended", static_cast<double>(recommended));
}

void tell_address(const char* kind, size_t bytes, CUdeviceptr address) {
  CUdeviceptr base = 0;
  size_t size = 0;
  const CUresult asked = cuMemGetAddressRange_v2(&base, &size, address);
  JsonLine line;
  line.text("fact", "address");
  line.text("kind", kind);
  line.number("bytes", static_cast<double>(bytes));
  line.text("address", hex(address));
  line.text("base", asked == CUDA_SUCCESS ? hex(base) : name_of(asked));
  line.number("range", static_cast<double>(size));
  tell(line);
}

void tell_addresses() {
  std::vector<CUdeviceptr> all;
  for (const size_t bytes : {size_t{1}, size_t{1}, size_t{512}, size_t{4096}, size_t{600'000}, kMiB,
                             kGranule, 3 * kMiB, 64 * kMiB, 128 * kMiB}) {
    need(cuMemAlloc_v2(&all.emplace_back(), bytes), "cuMemAlloc");
    tell_address("cuMemAlloc", bytes, all.back());
  }
  for (const size_t bytes : {size_t{1}, kMiB, 64 * kMiB}) {
    CUdeviceptr address = 0;
    need(cuMemAllocAsync(&address, bytes, nullptr), "cuMemAllocAsync");
    tell_address("cuMemAllocAsync", bytes, address);
  }
  for (const size_t bytes : {size_t{1}, kMiB, 64 * kMiB}) {
    void* memory = nullptr;
    need(cuMemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc");
    tell_address("cuMemHostAlloc", bytes, reinterpret_cast<CUdeviceptr>(memory));
  }
  CUdeviceptr managed = 0;
  if (cuMemAllocManaged(&managed, kMiB, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS) {
    tell_address("cuMemAllocManaged", kMiB, managed);
  }
  for (const size_t bytes : {kGranule, 1024 * kMiB}) {
    CUdeviceptr address = 0;
    need(cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    tell_address("cuMemAddressReserve", bytes, address);
  }
  for (const CUdeviceptr each : all) need(cuMemFree_v2(each), "cuMemFree");
}

// Whether a reservation that asks for this address gets it, and whether memory works there.
void tell_hint(const char* fact, CUdeviceptr hint, size_t bytes,
               CUmemGenericAllocationHandle handle) {
  CUdeviceptr address = 0;
  const CUresult reserved = cuMemAddressReserve(&address, bytes, 0, hint, 0);
  std::string use = name_of(reserved);
  if (reserved == CUDA_SUCCESS) {
    CUresult used = map_at(address, kGranule, handle);
    if (used == CUDA_SUCCESS) used = cuMemsetD32_v2(address, 1, kGranule / 4);
    if (used == CUDA_SUCCESS) used = cuMemUnmap(address, kGranule);
    use = used == CUDA_SUCCESS ? "works" : name_of(used);
    (void)cuMemAddressFree(address, bytes);
  }
  JsonLine line;
  line.text("fact", fact);
  line.number("mib", static_cast<double>(bytes) / static_cast<double>(kMiB));
  line.text("asked", hex(hint));
  line.text("given", address == hint ? "there" : hex(address));
  line.text("use", use);
  tell(line);
}

void tell_hints(const char* fact) {
  const CUmemAllocationProp properties = device_memory();
  CUmemGenericAllocationHandle handle = 0;
  need(cuMemCreate(&handle, kGranule, &properties, 0), "cuMemCreate");
  for (const size_t bytes : {kGranule, 32 * kMiB, 64 * kMiB, 1024 * kMiB}) {
    for (const CUdeviceptr hint :
         {CUdeviceptr{1} << 36, CUdeviceptr{1} << 40, CUdeviceptr{1} << 45,
          (CUdeviceptr{1} << 45) + kGranule, (CUdeviceptr{1} << 45) + 64 * kMiB,
          CUdeviceptr{1} << 46, CUdeviceptr{0x7e0000000000}, CUdeviceptr{1} << 47}) {
      tell_hint(fact, hint, bytes, handle);
    }
  }
  (void)cuMemRelease(handle);
}

void tell_reservations() {
  // Where the host has something.
  void* own =
      mmap(nullptr, 2 * kGranule, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto taken = (reinterpret_cast<uint64_t>(own) + kGranule - 1) / kGranule * kGranule;
  CUdeviceptr address = 0;
  const CUresult result = cuMemAddressReserve(&address, kGranule, 0, taken, 0);
  tell_text("reservation where the host has memory",
            std::string(name_of(result)) + (address == taken ? ", there" : ", elsewhere"));
  // One huge range, as an arena would want.
  for (const size_t gib : {size_t{64}, size_t{512}, size_t{4096}, size_t{16384}}) {
    CUdeviceptr arena = 0;
    CUresult reserved = CUDA_SUCCESS;
    const double took = seconds(
        [&] { reserved = cuMemAddressReserve(&arena, gib << 30, 0, CUdeviceptr{1} << 45, 0); });
    JsonLine line;
    line.text("fact", "large reservation");
    line.number("gib", static_cast<double>(gib));
    line.text("answer", name_of(reserved));
    line.text("address", hex(arena));
    line.number("seconds", took);
    tell(line);
    if (reserved == CUDA_SUCCESS) (void)cuMemAddressFree(arena, gib << 30);
  }
}

// Device code of no toolkit: one kernel and a variable that programs cannot name.
const char* const kPtx = R"(.version 6.4
.target sm_75
.address_size 64
.global .align 4 .u32 shown;
.global .align 1 .b8 $str[4] = {97, 98, 99, 0};
.visible .entry touch(.param .u64 to) {
  .reg .u64 %a; .reg .u32 %v;
  ld.param.u64 %a, [to];
  mov.u32 %v, 7;
  st.global.u32 [%a], %v;
  ld.global.u8 %v, [$str];
  st.global.u32 [shown], %v;
  ret;
})";

void tell_names() {
  CUmodule module = nullptr;
  const CUresult loaded = cuModuleLoadData(&module, kPtx);
  tell_text("loading PTX", name_of(loaded));
  if (loaded != CUDA_SUCCESS) return;
  for (const char* name : {"shown", "$str", "absent"}) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    const std::string fact = std::string("looking up the variable ") + name;
    tell_text(fact.c_str(), name_of(cuModuleGetGlobal_v2(&address, &bytes, module, name)));
  }
  CUlibrary library = nullptr;
  need(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
       "cuLibraryLoadData");
  CUkernel kernel = nullptr;
  need(cuLibraryGetKernel(&kernel, library, "touch"), "cuLibraryGetKernel");
  CUfunction function = nullptr;
  need(cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
  tell_text("cuFuncLoad of a CUfunction", name_of(cuFuncLoad(function)));
  int value = 0;
  tell_text("cuFuncGetAttribute of a CUkernel",
            name_of(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS,
                                       reinterpret_cast<CUfunction>(kernel))));
}

// The same memory at two addresses, by mappings.
void tell_aliases() {
  const CUmemAllocationProp properties = device_memory();
  CUmemGenericAllocationHandle handle = 0;
  need(cuMemCreate(&handle, kGranule, &properties, 0), "cuMemCreate");
  CUdeviceptr first = 0, second = 0;
  need(cuMemAddressReserve(&first, kGranule, 0, 0, 0), "cuMemAddressReserve");
  need(cuMemAddressReserve(&second, kGranule, 0, 0, 0), "cuMemAddressReserve");
  need(map_at(first, kGranule, handle), "cuMemMap");
  const CUresult again = map_at(second, kGranule, handle);
  unsigned read = 0;
  if (again == CUDA_SUCCESS) {
    need(cuMemsetD32_v2(first, 0x600d600d, 1), "cuMemsetD32");
    need(cuMemcpyDtoH_v2(&read, second, sizeof read), "cuMemcpyDtoH");
  }
  tell_text("memory mapped twice", again != CUDA_SUCCESS ? name_of(again)
                                   : read == 0x600d600d  ? "shows the same"
                                                         : "differs");
}

// One mapping over two reservations that touch.
void tell_border() {
  constexpr size_t kHalf = 32 * kMiB;
  const CUmemAllocationProp properties = device_memory();
  CUmemGenericAllocationHandle handle = 0;
  need(cuMemCreate(&handle, 2 * kHalf, &properties, 0), "cuMemCreate");
  constexpr CUdeviceptr kFirst = CUdeviceptr{3} << 44;
  CUdeviceptr first = 0, second = 0;
  need(cuMemAddressReserve(&first, kHalf, 0, kFirst, 0), "cuMemAddressReserve");
  need(cuMemAddressReserve(&second, kHalf, 0, kFirst + kHalf, 0), "cuMemAddressReserve");
  const bool touch = second == first + kHalf;
  tell_text("one mapping over two reservations",
            touch ? name_of(map_at(first, 2 * kHalf, handle)) : "they are not side by side");
}

std::byte* host_memory(size_t bytes, bool huge) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) need(CUDA_ERROR_OUT_OF_MEMORY, "mmap");
  if (huge) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

void tell_registration(size_t bytes) {
  struct Way {
    const char* fact;
    bool huge, touched;
    size_t step;
  };
  for (const Way& way : {Way{"registration, touched", false, true, 16 * kMiB},
                         Way{"registration, touched, at once", false, true, bytes},
                         Way{"registration, untouched", false, false, 16 * kMiB},
                         Way{"registration, huge pages, touched", true, true, 16 * kMiB},
                         Way{"registration, huge pages, untouched", true, false, 16 * kMiB}}) {
    std::vector<double> rates;
    for (int round = 0; round < 3; ++round) {
      std::byte* const memory = host_memory(bytes, way.huge);
      if (way.touched) std::memset(memory, 1, bytes);
      const double took = seconds([&] {
        for (size_t at = 0; at < bytes; at += way.step) {
          need(cuMemHostRegister_v2(memory + at, std::min(way.step, bytes - at), 0),
               "cuMemHostRegister");
        }
      });
      rates.push_back(static_cast<double>(bytes) / took / 1e9);
      for (size_t at = 0; at < bytes; at += way.step) (void)cuMemHostUnregister(memory + at);
      (void)munmap(memory, bytes);
    }
    std::sort(rates.begin(), rates.end());
    JsonLine line;
    line.text("fact", way.fact);
    line.number("gb_per_s", rates[1]);
    line.number("least", rates.front());
    line.number("most", rates.back());
    tell(line);
  }
  void* pinned = nullptr;
  tell_rate(
      "cuMemHostAlloc and cuMemFreeHost", static_cast<double>(bytes),
      [&] {
        need(cuMemHostAlloc(&pinned, bytes, 0), "cuMemHostAlloc");
        need(cuMemFreeHost(pinned), "cuMemFreeHost");
      },
      3);
}

void tell_allocation() {
  CUdeviceptr address = 0;
  const CUmemAllocationProp properties = device_memory();
  constexpr size_t kPart = 32 * kMiB;
  need(cuMemAddressReserve(&address, kPart, 0, 0, 0), "cuMemAddressReserve");
  CUmemGenericAllocationHandle handle = 0;
  tell_rate(
      "32 MiB created, mapped and made accessible", kPart,
      [&] {
        need(cuMemCreate(&handle, kPart, &properties, 0), "cuMemCreate");
        need(map_at(address, kPart, handle), "cuMemMap");
      },
      1);
  need(cuMemUnmap(address, kPart), "cuMemUnmap");
  need(cuMemRelease(handle), "cuMemRelease");
  for (const size_t bytes : {size_t{512}, kGranule, 64 * kMiB}) {
    const size_t times = std::min<size_t>(200, 256 * kMiB / bytes);
    std::vector<CUdeviceptr> all(times);
    const double took = seconds([&] {
      for (CUdeviceptr& each : all) need(cuMemAlloc_v2(&each, bytes), "cuMemAlloc");
    });
    const double freed = seconds([&] {
      for (const CUdeviceptr each : all) need(cuMemFree_v2(each), "cuMemFree");
    });
    JsonLine line;
    line.text("fact", "microseconds of one allocation, then of its free");
    line.number("bytes", static_cast<double>(bytes));
    line.number("allocation", took / static_cast<double>(times) * 1e6);
    line.number("free", freed / static_cast<double>(times) * 1e6);
    tell(line);
  }
}

void tell_copies(size_t bytes) {
  CUdeviceptr device = 0, other = 0;
  need(cuMemAlloc_v2(&device, bytes), "cuMemAlloc");
  need(cuMemAlloc_v2(&other, bytes), "cuMemAlloc");
  void* pinned = nullptr;
  need(cuMemHostAlloc(&pinned, bytes, 0), "cuMemHostAlloc");
  std::byte* const pageable = host_memory(bytes, false);
  std::memset(pageable, 1, bytes);
  const auto size = static_cast<double>(bytes);
  const auto done = [] { need(cuCtxSynchronize(), "cuCtxSynchronize"); };
  tell_rate("copy to pinned memory", size, [&] {
    need(cuMemcpyDtoHAsync_v2(pinned, device, bytes, nullptr), "copy");
    done();
  });
  tell_rate("copy from pinned memory", size, [&] {
    need(cuMemcpyHtoDAsync_v2(device, pinned, bytes, nullptr), "copy");
    done();
  });
  tell_rate("copy to pageable memory", size,
            [&] { need(cuMemcpyDtoH_v2(pageable, device, bytes), "copy"); });
  tell_rate("copy within the device", size, [&] {
    need(cuMemcpyDtoDAsync_v2(other, device, bytes, nullptr), "copy");
    done();
  });
  const double empty = seconds([&] {
    for (int i = 0; i < 1000; ++i) done();
  });
  tell_number("microseconds of an idle cuCtxSynchronize", empty * 1e3);
  const double small = seconds([&] {
    for (int i = 0; i < 1000; ++i) {
      need(cuMemcpyDtoHAsync_v2(pinned, device, 4096, nullptr), "copy");
      done();
    }
  });
  tell_number("microseconds of a copy of 4 KiB to the host", small * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  const long mib = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 256;
  if (mib < 1 || argc > 2) {
    std::fprintf(stderr, "usage: %s [MIB]\n", argv[0]);
    return 2;
  }
  const size_t bytes = static_cast<size_t>(mib) * kMiB;
  need(cuInit(0), "cuInit");
  CUcontext context = nullptr;
  const double made =
      seconds([&] { need(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain"); });
  need(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  tell_number("seconds to make the context", made);
  tell_attributes();
  tell_hints("hint, before any memory");
  tell_addresses();
  tell_hints("hint");
  tell_reservations();
  tell_names();
  tell_aliases();
  tell_border();
  tell_allocation();
  tell_registration(bytes);
  tell_copies(bytes);
  return 0;
}
