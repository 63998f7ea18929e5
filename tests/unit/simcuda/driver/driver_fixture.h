// Shared by the driver's tests: a context of their own, a gate that holds a stream back, and PTX.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace simcuda::test {

inline std::string name_of(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "unknown";
}

// An expected result, told by name when it is another.
#define EXPECT_CU(expected, call) \
  EXPECT_EQ(simcuda::test::name_of(expected), simcuda::test::name_of(call))
#define ASSERT_OK(call) ASSERT_EQ("CUDA_SUCCESS", simcuda::test::name_of(call))
#define EXPECT_OK(call) EXPECT_CU(CUDA_SUCCESS, call)

// A host function that keeps its stream from going on until the gate is opened, or gone.
class Gate {
 public:
  Gate() = default;
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void close(CUstream stream) {
    auto* shared = new std::shared_ptr<State>(state_);
    EXPECT_OK(cuLaunchHostFunc(stream, wait, shared));
  }
  void open() {
    std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }

 private:
  // The function may still be on its way out when the gate is gone.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  static void wait(void* shared) {
    std::unique_ptr<std::shared_ptr<State>> state(static_cast<std::shared_ptr<State>*>(shared));
    std::unique_lock lock((*state)->mutex);
    (*state)->changed.wait(lock, [&] { return (*state)->open; });
  }
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A context for each test, gone with all that was made in it afterwards.
class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuCtxCreate_v2(&context_, 0, 0));
  }
  void TearDown() override {
    if (context_ == nullptr) return;
    EXPECT_OK(cuCtxDestroy_v2(context_));
  }

  static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemAlloc_v2(&address, bytes));
    return address;
  }
  template <class T>
  static CUdeviceptr upload(const std::vector<T>& values) {
    CUdeviceptr address = allocate(values.size() * sizeof(T));
    EXPECT_OK(cuMemcpyHtoD_v2(address, values.data(), values.size() * sizeof(T)));
    return address;
  }
  template <class T>
  static std::vector<T> download(CUdeviceptr address, size_t count) {
    std::vector<T> values(count);
    EXPECT_OK(cuMemcpyDtoH_v2(values.data(), address, count * sizeof(T)));
    return values;
  }
  static uint32_t word(CUdeviceptr address) { return download<uint32_t>(address, 1)[0]; }

  CUcontext context_ = nullptr;
};

// Kernels:
//   fill(pointer, count, value)   words
//   add(pointer, count, value)    words, in place
//   spin(flag)                    until *flag is not 0
//   read(pointer, out)            *out = *pointer
//   state(out)                    *out = counter, then ++counter; table[1] to out[1]
inline constexpr const char* kPtx = R"(
.version 7.0
.target sm_60
.address_size 64
.visible .global .align 4 .u32 counter = 41;
.visible .global .align 4 .u32 zeroed[3];
.visible .const .align 4 .u32 table[4] = {10, 20, 30, 40};
.visible .global .align 8 .u64 pointer = generic(counter);

.visible .entry fill(.param .u64 p, .param .u32 n, .param .u32 v) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %d<6>;
  ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [v];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %d2, %d1;
  mul.wide.u32 %d3, %r6, 4;
  add.s64 %d4, %d2, %d3;
  st.global.u32 [%d4], %r2;
DONE:
  ret;
}
.visible .entry add(.param .u64 p, .param .u32 n, .param .u32 v) {
  .reg .pred %p<2>; .reg .b32 %r<10>; .reg .b64 %d<6>;
  ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [v];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %d2, %d1;
  mul.wide.u32 %d3, %r6, 4;
  add.s64 %d4, %d2, %d3;
  ld.global.u32 %r7, [%d4];
  add.s32 %r8, %r7, %r2;
  st.global.u32 [%d4], %r8;
DONE:
  ret;
}
.visible .entry spin(.param .u64 flag) {
  .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [flag];
  cvta.to.global.u64 %d2, %d1;
AGAIN:
  ld.volatile.global.u32 %r1, [%d2];
  setp.eq.s32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  ret;
}
.visible .entry read(.param .u64 p, .param .u64 out) {
  .reg .b32 %r<2>; .reg .b64 %d<5>;
  ld.param.u64 %d1, [p]; ld.param.u64 %d2, [out];
  cvta.to.global.u64 %d3, %d1; cvta.to.global.u64 %d4, %d2;
  ld.global.u32 %r1, [%d3];
  st.global.u32 [%d4], %r1;
  ret;
}
.visible .entry state(.param .u64 out) {
  .reg .b32 %r<5>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [out];
  cvta.to.global.u64 %d2, %d1;
  ld.global.u32 %r1, [counter];
  st.global.u32 [%d2], %r1;
  add.s32 %r2, %r1, 1;
  st.global.u32 [counter], %r2;
  ld.const.u32 %r3, [table+4];
  st.global.u32 [%d2+4], %r3;
  ret;
}
)";

// A context with kPtx loaded into it.
class KernelTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuModuleLoadData(&module_, kPtx));
    fill_ = function("fill");
    add_ = function("add");
  }
  CUfunction function(const char* name) const {
    CUfunction found = nullptr;
    EXPECT_OK(cuModuleGetFunction(&found, module_, name));
    return found;
  }
  // fill or add over `count` words, by kernelParams.
  static CUresult launch_words(CUfunction kernel, CUdeviceptr pointer, uint32_t count,
                               uint32_t value, CUstream stream = nullptr) {
    void* parameters[] = {&pointer, &count, &value};
    return cuLaunchKernel(kernel, (count + 63) / 64, 1, 1, 64, 1, 1, 0, stream, parameters,
                          nullptr);
  }

  CUmodule module_ = nullptr;
  CUfunction fill_ = nullptr;
  CUfunction add_ = nullptr;
};

}  // namespace simcuda::test
