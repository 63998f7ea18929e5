// Two devices: one address space, copies between them, and kernels that reach over.

#include <cstdlib>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

// Read by the first cuInit of the process, which is after this.
[[maybe_unused]] const int kDevicesSet = setenv("SIMCUDA_DEVICES", "2", 1);

class PeerTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    ASSERT_OK(cuCtxCreate_v2(&other_, 0, 1));
    far_ = allocate(4096);
    ASSERT_OK(cuMemsetD32_v2(far_, 9, 1024));
    ASSERT_OK(cuCtxSynchronize());
    ASSERT_OK(cuCtxPopCurrent_v2(nullptr));
    near_ = allocate(4096);
  }
  void TearDown() override {
    EXPECT_OK(cuCtxDestroy_v2(other_));
    KernelTest::TearDown();
  }

  CUcontext other_ = nullptr;
  CUdeviceptr near_ = 0;
  CUdeviceptr far_ = 0;
};

TEST_F(PeerTest, CopiesNeedNoAccess) {
  ASSERT_OK(cuMemcpyPeer(near_, context_, far_, other_, 4096));
  EXPECT_EQ(9u, word(near_ + 4092));
  ASSERT_OK(cuMemsetD32_v2(near_, 3, 1));
  CUDA_MEMCPY3D_PEER copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = near_;
  copy.srcContext = context_;
  copy.dstDevice = far_ + 8;
  copy.dstContext = other_;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  ASSERT_OK(cuMemcpy3DPeer(&copy));
  EXPECT_EQ(3u, word(far_ + 8));
}

TEST_F(PeerTest, KernelsReachOverOnceItIsEnabled) {
  int can = 0;
  ASSERT_OK(cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(1, can);
  ASSERT_OK(cuDeviceCanAccessPeer(&can, 0, 0));
  EXPECT_EQ(0, can);
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cuCtxEnablePeerAccess(context_, 0));
  EXPECT_CU(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(other_));
  ASSERT_OK(cuCtxEnablePeerAccess(other_, 0));
  EXPECT_CU(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(other_, 0));
  ASSERT_OK(launch_words(add_, far_, 1024, 1));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(10u, word(far_));
  ASSERT_OK(cuCtxDisablePeerAccess(other_));
  ASSERT_OK(launch_words(add_, far_, 1024, 1));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(PeerTest, WithoutItTheyDoNot) {
  ASSERT_OK(launch_words(add_, far_, 1024, 1));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(PeerTest, PoolsHaveAccessRightsOfTheirOwn) {
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 1));
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  ASSERT_OK(cuMemPoolGetAccess(&flags, pool, &here));
  EXPECT_EQ(CU_MEM_ACCESS_FLAGS_PROT_NONE, flags);
  CUmemAccessDesc access{here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_OK(cuMemPoolSetAccess(pool, &access, 1));
  ASSERT_OK(cuCtxPushCurrent_v2(other_));
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAllocAsync(&p, 4096, nullptr));
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_OK(cuCtxPopCurrent_v2(nullptr));
  ASSERT_OK(launch_words(fill_, p, 1024, 1));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(1u, word(p));
  EXPECT_OK(cuMemFree_v2(p));
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_OK(cuMemPoolSetAccess(pool, &access, 1));
}

}  // namespace
}  // namespace simcuda::test
