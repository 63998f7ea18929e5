// SPDX-License-Identifier: Apache-2.0
//
// Several devices by the runtime: who reaches whom, and how well.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tools/simcuda/runtime/cudart_abi.h"

namespace {

// Read by the first call of the process, which is after this.
const bool kIsSet = [] {
  setenv("SIMCUDA_DEVICES", "3", 1);
  setenv("SIMCUDA_LINKS", "0,48G,0/48G,0,24G/0,24G,0", 1);
  return true;
}();

TEST(RuntimePeer, AccessIsEnabledOnce) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaSuccess);
}

TEST(RuntimePeer, NoLinkNoAccess) {
  int can = -1;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 2), cudaSuccess);
  EXPECT_EQ(can, 0);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(2, 0), cudaErrorPeerAccessUnsupported);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(3, 0), cudaErrorInvalidDevice);
}

TEST(RuntimePeer, APoolSaysWhoMayUseIt) {
  cudaMemPool_t pool = nullptr;
  cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
  cudaMemAccessDesc access{{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtRead};
  ASSERT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  cudaMemLocation own{cudaMemLocationTypeDevice, 0};
  EXPECT_EQ(cudaMemPoolGetAccess(&flags, pool, &own), cudaSuccess);
  EXPECT_EQ(flags, cudaMemAccessFlagsProtReadWrite);
  EXPECT_EQ(cudaMemPoolGetAccess(&flags, pool, &access.location), cudaSuccess);
  EXPECT_EQ(flags, cudaMemAccessFlagsProtNone);
  for (const cudaMemAccessFlags each :
       {cudaMemAccessFlagsProtRead, cudaMemAccessFlagsProtReadWrite, cudaMemAccessFlagsProtNone}) {
    access.flags = each;
    EXPECT_EQ(cudaMemPoolSetAccess(pool, &access, 1), cudaSuccess);
    EXPECT_EQ(cudaMemPoolGetAccess(&flags, pool, &access.location), cudaSuccess);
    EXPECT_EQ(flags, each);
  }
  access.location.id = 9;
  EXPECT_EQ(cudaMemPoolSetAccess(pool, &access, 1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaMemPoolSetAccess(pool, nullptr, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemPoolGetAccess(nullptr, pool, &own), cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST(RuntimePeer, AFasterLinkHasALowerRank) {
  int fast = -1;
  int slow = -1;
  EXPECT_EQ(cudaDeviceGetP2PAttribute(&fast, cudaDevP2PAttrPerformanceRank, 0, 1), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetP2PAttribute(&slow, cudaDevP2PAttrPerformanceRank, 1, 2), cudaSuccess);
  EXPECT_EQ(fast, 0);
  EXPECT_EQ(slow, 1);
  EXPECT_EQ(cudaDeviceGetP2PAttribute(&slow, cudaDevP2PAttrAccessSupported, 0, 2), cudaSuccess);
  EXPECT_EQ(slow, 0);
  EXPECT_EQ(cudaDeviceGetP2PAttribute(&slow, cudaDevP2PAttrPerformanceRank, 1, 1),
            cudaErrorInvalidDevice);
}

}  // namespace
