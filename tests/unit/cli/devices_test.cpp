// The software GPU is asked, in an environment that this process does not have.
#include "tools/cli/devices.h"

#include <gtest/gtest.h>

namespace gpusnap {
namespace {

TEST(Devices, AreThoseOfTheEnvironmentThatIsGiven) {
  for (const uint32_t count : {3, 1, 2}) {
    Environment environment;
    environment.set("SIMCUDA_DEVICES", std::to_string(count));
    ProgramIdentity program;
    ask_for_devices(environment, SIMCUDA_FOLDER, 2, program);
    EXPECT_EQ(program.device_count, count);
    EXPECT_EQ(program.devices.size(), std::min(count, 2u));
    EXPECT_NE(program.driver_version, 0);
    for (const SavedDevice& device : program.devices) {
      EXPECT_FALSE(device.name.empty());
      EXPECT_GT(device.memory, 0);
    }
  }
}

TEST(Devices, AreUnknownWithoutADriver) {
  Environment environment;
  ProgramIdentity program;
  ask_for_devices(environment, "/nowhere", 2, program);
  EXPECT_EQ(program.device_count, 0);
  EXPECT_TRUE(program.devices.empty());
}

}  // namespace
}  // namespace gpusnap
