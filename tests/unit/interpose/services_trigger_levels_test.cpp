// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "interpose/services/private_memory.h"
#include "interpose/services/triggers.h"

namespace gpusnap {
namespace {

TEST(TriggersOfLevels, ChooseHowManyStayInMemory) {
  Schedule every;
  every.automatic = true;
  every.between_failures = std::chrono::hours(1);
  every.chooses_levels = true;
  Triggers triggers(every, spawn_thread);
  EXPECT_FALSE(triggers.is_asked_for());
  // Minutes on its way to the store.
  plan::ChosenInterval earlier = triggers.chosen();
  earlier.measurements = 2;
  earlier.latency_s = 300;
  triggers.restored(earlier, 100'000'000, plan::Destination::kMemory);
  EXPECT_GT(triggers.store_every(), 1U);
  EXPECT_EQ(triggers.chosen().memory_measurements, 1U);
  EXPECT_LT(triggers.chosen().interval_s, 300);
  triggers.stores_all();
  EXPECT_EQ(triggers.store_every(), 1U);
  EXPECT_GE(triggers.chosen().interval_s, 300);
}

TEST(TriggersOfLevels, AskedForIsWhatAUserAsksFor) {
  for (const CutReason by_user : {CutReason::kSignal, CutReason::kRequest,
                                  CutReason::kRequestedStop, CutReason::kSignalledStop}) {
    EXPECT_TRUE(is_asked_for(by_user)) << name_of(by_user);
  }
  for (const CutReason by_itself :
       {CutReason::kNone, CutReason::kTimer, CutReason::kSynchronisations, CutReason::kBarriers}) {
    EXPECT_FALSE(is_asked_for(by_itself)) << name_of(by_itself);
  }
}

}  // namespace
}  // namespace gpusnap
