// SPDX-License-Identifier: Apache-2.0
#include "interpose/model/pool_reuse.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace gpusnap {
namespace {

// The attributes that were set of the fake driver's pools.
std::map<std::pair<CUmemoryPool, CUmemPool_attribute>, int> attribute_values;
int attributes_set = 0;

CUmemoryPool pool_of(uintptr_t number) {
  return reinterpret_cast<CUmemoryPool>(number);
}

class PoolReuseTest : public testing::Test {
 protected:
  PoolReuseTest() {
    attribute_values.clear();
    attributes_set = 0;
    driver_.cuCtxGetDevice = [](CUdevice* device) {
      *device = 0;
      return CUDA_SUCCESS;
    };
    driver_.cuDeviceGetMemPool = [](CUmemoryPool* pool, CUdevice) {
      *pool = pool_of(7);
      return CUDA_SUCCESS;
    };
    driver_.cuMemPoolSetAttribute = [](CUmemoryPool pool, CUmemPool_attribute attribute,
                                       void* value) {
      attribute_values[{pool, attribute}] = *static_cast<int*>(value);
      ++attributes_set;
      return CUDA_SUCCESS;
    };
  }

  Driver driver_;
  PoolReuse reuse_{driver_};
};

TEST_F(PoolReuseTest, APoolIsSetOnce) {
  reuse_.make_repeatable(pool_of(3));
  reuse_.make_repeatable(pool_of(3));
  EXPECT_EQ(attributes_set, 1);
  EXPECT_EQ(attribute_values.at({pool_of(3), PoolReuse::kOurs}), 0);
}

TEST_F(PoolReuseTest, NoneIsTheCurrentDevices) {
  reuse_.make_repeatable(nullptr);
  EXPECT_EQ(attribute_values.at({pool_of(7), PoolReuse::kOurs}), 0);
  reuse_.make_repeatable(pool_of(7));
  EXPECT_EQ(attributes_set, 1);
}

TEST_F(PoolReuseTest, TheProgramReadsWhatItHasSet) {
  reuse_.make_repeatable(pool_of(3));
  EXPECT_EQ(reuse_.wished(pool_of(3)), 1) << "as drivers make a pool";
  reuse_.wish(pool_of(3), 0);
  EXPECT_EQ(reuse_.wished(pool_of(3)), 0);
}

// The next pool may have the same handle.
TEST_F(PoolReuseTest, ADestroyedPoolIsForgotten) {
  reuse_.make_repeatable(pool_of(3));
  reuse_.wish(pool_of(3), 0);
  reuse_.forget(pool_of(3));
  EXPECT_EQ(reuse_.wished(pool_of(3)), 1);
  reuse_.make_repeatable(pool_of(3));
  EXPECT_EQ(attributes_set, 2);
}

TEST_F(PoolReuseTest, ADriverWithoutPoolsIsLeftAlone) {
  driver_.cuDeviceGetMemPool = nullptr;
  driver_.cuMemPoolSetAttribute = nullptr;
  reuse_.make_repeatable(nullptr);
  reuse_.make_repeatable(pool_of(3));
  EXPECT_EQ(attributes_set, 0);
}

}  // namespace
}  // namespace gpusnap
