// Code that comes as a library or is linked by the program, that is asked what it has, and launches
// in forms that other programs use.
#include <cstring>
#include <span>

#include "calls_ptx.h"
#include "linked_part_ptx.h"
#include "linked_ptx.h"
#include "tests/random/caller.h"
#include "tests/random/calls.h"

namespace calls {

void Caller::need_library() {
  if (library_ != nullptr) return;
  CHECK(cuLibraryLoadData(&library_, kCallsPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  auto tally = std::make_unique<Memory>();
  size_t size = 0;
  CHECK(cuLibraryGetGlobal(&tally->address, &size, library_, "tally"));
  tally->size = size;
  tally_ = tally.get();
  others_.push_back(std::move(tally));
}

void Caller::drop_library() {
  if (library_ == nullptr) return;
  look(*tally_);
  wait_for_all();
  std::erase_if(others_, [this](const auto& each) { return each.get() == tally_; });
  CHECK(cuLibraryUnload(library_));
  library_ = nullptr;
  legacy_ = nullptr;
}

// In one of the ways to get it; a kernel may stand where a function is wanted.
CUfunction Caller::kernel_of_library(const char* name) {
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  CUmodule module = nullptr;
  switch (draw_.below(4)) {
    case 0:
      CHECK(cuLibraryGetKernel(&kernel, library_, name));
      return reinterpret_cast<CUfunction>(kernel);
    case 1:
      CHECK(cuLibraryGetKernel(&kernel, library_, name));
      CHECK(cuKernelGetFunction(&function, kernel));
      return function;
    case 2:
      CHECK(cuLibraryGetModule(&module, library_));
      CHECK(cuModuleGetFunction(&function, module, name));
      return function;
    default: {
      unsigned count = 0;
      CHECK(cuLibraryGetKernelCount(&count, library_));
      std::vector<CUkernel> all(count);
      CHECK(cuLibraryEnumerateKernels(all.data(), count, library_));
      for (CUkernel each : all) {
        const char* found = nullptr;
        CHECK(cuKernelGetName(&found, each));
        if (std::strcmp(found, name) == 0) return reinterpret_cast<CUfunction>(each);
      }
      oracle::fail(name, CUDA_ERROR_NOT_FOUND);
    }
  }
}

void Caller::library_step() {
  need_library();
  const CUstream stream = pick_stream();
  const unsigned value = draw_.word();
  const uint64_t kind = draw_.below(10);
  // Graphs have its kernels.
  if (kind == 0 && graphs_.empty()) return drop_library();
  if (kind == 1) return look(*tally_);
  const Part part = pick_part(kind == 2 ? *tally_ : pick_memory());
  touch(*part.memory, stream);
  if (kind < 5) {
    return launch_handle(kernel_of_library("stir"), stream, part.words(), part.address,
                         part.words(), value, static_cast<float>(value % 64) / 8);
  }
  touch(*tally_, stream);
  launch_handle(kernel_of_library("tally_up"), stream, part.words(), part.address, part.words(),
                value);
}

void Caller::prepare_legacy() {
  CUmodule module = nullptr;
  CHECK(cuLibraryGetModule(&module, library_));
  CHECK(cuModuleGetFunction(&legacy_, module, "stir"));
  CHECK(cuParamSetSize(legacy_, 20));
  CHECK(cuFuncSetSharedSize(legacy_, 0));
  CHECK(cuFuncSetBlockShape(legacy_, 32, 1, 1));
  CHECK(cuParamSetv(legacy_, 0, &tally_->address, 8));
  CHECK(cuParamSeti(legacy_, 8, kTally));
  CHECK(cuParamSeti(legacy_, 12, 1));
  CHECK(cuParamSetf(legacy_, 16, 1.5f));
}

// A kernel keeps the parameters that are set for it: most launches set only some of them.
void Caller::legacy_step() {
  need_library();
  if (legacy_ == nullptr) prepare_legacy();
  if (draw_.chance(30)) CHECK(cuFuncSetBlockShape(legacy_, draw_.chance(50) ? 32 : 64, 1, 1));
  if (draw_.chance(40)) CHECK(cuParamSeti(legacy_, 12, draw_.word()));
  if (draw_.chance(40)) {
    CHECK(cuParamSetf(legacy_, 16, static_cast<float>(draw_.below(50)) / 4));
  }
  if (draw_.chance(20)) return;
  const int blocks = static_cast<int>(draw_.between(1, 6));
  const uint64_t kind = draw_.below(3);
  // Without a stream: in the legacy default stream.
  const CUstream stream = kind == 0 ? streams_[draw_.below(streams_.size())] : CU_STREAM_LEGACY;
  touch(*tally_, stream);
  if (kind == 0) {
    CHECK(cuLaunchGridAsync(legacy_, blocks, 1, stream));
  } else {
    CHECK(kind == 1 ? cuLaunchGrid(legacy_, blocks, 1) : cuLaunch(legacy_));
  }
}

// Links two texts, uses the result and unloads it.
void Caller::link_step() {
  CUlinkState link = nullptr;
  CUmodule module = nullptr;
  void* image = nullptr;
  size_t bytes = 0;
  CHECK(cuLinkCreate_v2(0, nullptr, nullptr, &link));
  using Text = std::span<const unsigned char>;
  for (const Text text : {Text(kLinkedPtx), Text(kLinkedPartPtx)}) {
    CHECK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, const_cast<unsigned char*>(text.data()),
                           text.size(), "text", 0, nullptr, nullptr));
  }
  CHECK(cuLinkComplete(link, &image, &bytes));
  CHECK(cuModuleLoadData(&module, image));
  CHECK(cuLinkDestroy(link));
  CUfunction turn = nullptr, turn_words = nullptr;
  CHECK(cuModuleGetFunction(&turn, module, "turn"));
  CHECK(cuModuleGetFunction(&turn_words, module, "turn_words"));
  const CUstream stream = pick_stream();
  const Part part_of = pick_part(pick_memory());
  for (uint64_t left = draw_.between(1, 3); left > 0; --left) {
    touch(*part_of.memory, stream);
    launch_handle(turn, stream, 1, draw_.word());
    launch_handle(turn_words, stream, part_of.words(), part_of.address, part_of.words());
    if (draw_.chance(50)) wait_for(stream);
  }
  wait_for(stream);
  CHECK(cuModuleUnload(module));
}

// Enumerates the functions of the actor's module, and launches one of them.
void Caller::enumerate_step() {
  unsigned count = 0;
  CHECK(cuModuleGetFunctionCount(&count, module_));
  std::vector<CUfunction> all(count);
  CHECK(cuModuleEnumerateFunctions(all.data(), count, module_));
  const Part to = pick_part(pick_memory());
  const CUstream stream = pick_stream();
  for (CUfunction each : all) {
    const char* name = nullptr;
    CHECK(cuFuncGetName(&name, each));
    see(name, std::strlen(name));
    size_t offset = 0, size = 0;
    for (size_t i = 0; cuFuncGetParamInfo(each, i, &offset, &size) == CUDA_SUCCESS; ++i) {
      see(&offset, sizeof offset);
      see(&size, sizeof size);
    }
    if (std::strcmp(name, "fill") != 0) continue;
    CHECK(cuFuncLoad(each));
    touch(*to.memory, stream);
    launch_handle(each, stream, to.words(), to.address, to.words(), draw_.word());
  }
}

void Caller::attribute_step() {
  const CUfunction fill = function("fill");
  int value = 0;
  CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fill));
  see(&value, sizeof value);
  const auto bytes = static_cast<int>(draw_.below(8) * 1024);
  CHECK(cuFuncSetAttribute(fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
  CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, fill));
  see(&value, sizeof value);
  CHECK(cuFuncSetCacheConfig(fill, CU_FUNC_CACHE_PREFER_L1));
  need_library();
  CUkernel kernel = nullptr;
  CUdevice device = 0;
  CHECK(cuCtxGetDevice(&device));
  CHECK(cuLibraryGetKernel(&kernel, library_, "stir"));
  CHECK(
      cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes, kernel, device));
  CHECK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel,
                             device));
  see(&value, sizeof value);
  CHECK(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_SHARED, device));
  CUmodule module = nullptr;
  CHECK(cuFuncGetModule(&module, fill));
  if (module != module_) oracle::fail("cuFuncGetModule: another module", CUDA_ERROR_UNKNOWN);
  Memory& memory = pick_memory();
  CUdeviceptr base = 0;
  size_t size = 0;
  CHECK(cuMemGetAddressRange_v2(&base, &size, memory.address));
  if (memory.mapped == nullptr) see(&size, sizeof size);
  unsigned type = 0;
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory.address));
  see(&type, sizeof type);
}

// How a program chooses its launches: the same answer must come again.
void Caller::occupancy_step() {
  const CUfunction fill = function("fill");
  int blocks = 0, grid = 0, block = 0;
  size_t shared = 0;
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 64, 0));
  CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, fill, nullptr, 0, 0));
  CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, fill, 1, 64));
  for (const int answer : {blocks, grid, block}) see(&answer, sizeof answer);
  see(&shared, sizeof shared);
  const CUstream stream = pick_stream();
  const Part to = pick_part(pick_memory());
  touch(*to.memory, stream);
  launch_handle(fill, stream, static_cast<uint64_t>(blocks) * 64, to.address, to.words(),
                draw_.word());
}

void Caller::cooperative_step() {
  const CUstream stream = pick_stream();
  const Part to = pick_part(pick_memory());
  touch(*to.memory, stream);
  const auto [use_ptsz, given] = given_as(stream);
  CUdeviceptr address = to.address;
  unsigned words = to.words(), value = draw_.word();
  void* parameters[] = {&address, &words, &value};
  if (draw_.chance(60)) {
    CHECK((use_ptsz ? cuLaunchCooperativeKernel_ptsz : cuLaunchCooperativeKernel)(
        function("call_function"), 4, 1, 1, 64, 1, 1, 0, given, parameters));
    return;
  }
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  CUlaunchConfig config{};
  config.gridDimX = 3;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 64;
  config.hStream = given;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK((use_ptsz ? cuLaunchKernelEx_ptsz : cuLaunchKernelEx)(&config, function("fill"), parameters,
                                                              nullptr));
}

// The parameters come as one block.
void Caller::packed_step() {
  const CUstream stream = pick_stream();
  const Part to = pick_part(pick_memory());
  touch(*to.memory, stream);
  struct {
    CUdeviceptr address;
    unsigned count, step, value;
  } packed{to.address, to.words(), 1, draw_.word()};
  size_t size = 20;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  const auto [use_ptsz, given] = given_as(stream);
  CHECK((use_ptsz ? cuLaunchKernel_ptsz : cuLaunchKernel)(function("touch"), 5, 1, 1, 64, 1, 1, 0,
                                                          given, nullptr, extra));
}

}  // namespace calls
