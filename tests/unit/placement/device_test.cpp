#include "tiers/placement/device.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace gpusnap {
namespace {

constexpr const char* kMounts =
    "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro\n"
    "23 22 0:21 / /sys rw shared:7 - sysfs sysfs rw\n"
    "24 22 0:50 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=1024k\n"
    "25 22 0:51 / /broken rw - ext4\n"
    "\n"
    "26\n"
    "27 22 0:52 / /home rw master:1 propagate_from:2 - nfs4 server:/ho\tme rw";

DeviceIdentity mounted_on(uint32_t major, uint32_t minor) {
  DeviceIdentity device;
  device.major = major;
  device.minor = minor;
  device.file_system = "before";
  add_mount(kMounts, device);
  return device;
}

TEST(DeviceTest, FindsWhatIsMounted) {
  EXPECT_EQ(mounted_on(259, 2).file_system, "ext4");
  EXPECT_EQ(mounted_on(259, 2).source, "/dev/nvme0n1p2");
  EXPECT_EQ(mounted_on(0, 50).source, "tmpfs");
  EXPECT_EQ(mounted_on(0, 52).file_system, "nfs4");
  EXPECT_EQ(mounted_on(0, 52).source, "server:/ho_me");  // a word
  EXPECT_EQ(mounted_on(0, 51).file_system, "before");
  EXPECT_EQ(mounted_on(8, 1).file_system, "before");
  EXPECT_EQ(mounted_on(8, 1).source, "");
}

TEST(DeviceTest, TheSameDeviceHasTheSameKey) {
  const DeviceIdentity disk{"node1", 259, 2, "ext4", 77, "/dev/nvme0n1p2", "abc-def"};
  const auto differs = [&disk](auto change) {
    DeviceIdentity other = disk;
    change(other);
    EXPECT_EQ(same_device(disk, other), device_key(disk) == device_key(other));
    return !same_device(disk, other);
  };
  EXPECT_FALSE(differs([](DeviceIdentity&) {}));
  // After a restart of the machine.
  EXPECT_FALSE(differs([](DeviceIdentity& d) { d.minor = 5, d.source = "/dev/nvme1n1p2"; }));
  EXPECT_TRUE(differs([](DeviceIdentity& d) { d.host = "node2"; }));
  EXPECT_TRUE(differs([](DeviceIdentity& d) { d.uuid = "abc-deg"; }));
  EXPECT_TRUE(differs([](DeviceIdentity& d) { d.file_system = "xfs"; }));
}

TEST(DeviceTest, WithoutUuidAllThatIsKnownCounts) {
  const DeviceIdentity shm{"node1", 0, 50, "tmpfs", 77, "tmpfs", ""};
  for (size_t field = 0; field < 4; ++field) {
    DeviceIdentity other = shm;
    if (field == 0) other.minor = 51;
    if (field == 1) other.major = 1;
    if (field == 2) other.file_system_id = 78;
    if (field == 3) other.source = "shm";
    EXPECT_FALSE(same_device(shm, other)) << field;
    EXPECT_NE(device_key(shm), device_key(other)) << field;
  }
  EXPECT_EQ(device_key(shm).size(), 16U);
}

TEST(DeviceTest, TellsThatOfAFolder) {
  const auto device = identify_device("/tmp");
  ASSERT_TRUE(device.ok()) << device.status().message();
  struct stat about {};
  ASSERT_EQ(::stat("/tmp", &about), 0);
  EXPECT_EQ(device->major, major(about.st_dev));
  EXPECT_EQ(device->minor, minor(about.st_dev));
  EXPECT_TRUE(is_word(device->host));
  EXPECT_TRUE(is_word(device->file_system));
  EXPECT_EQ(identify_device("/tmp").value(), device.value());
  EXPECT_NE(describe(device.value()).find(" on " + device->host), std::string::npos);

  const auto none = identify_device("/tmp/gpusnap-no-such-folder");
  EXPECT_EQ(none.status().code(), Code::kNotFound);
  EXPECT_NE(none.status().message().find("/tmp/gpusnap-no-such-folder"), std::string::npos);
}

TEST(DeviceTest, KnowsWords) {
  EXPECT_TRUE(is_word("/dev/sda\\0401"));
  EXPECT_TRUE(is_word(std::string(255, 'x')));
  for (const std::string& text :
       {std::string(), std::string(256, 'x'), std::string("a b"), std::string("a\nb"),
        std::string("\x7f"), std::string("\xc3\xa4"), std::string(1, '\0')}) {
    EXPECT_FALSE(is_word(text));
  }
}

}  // namespace
}  // namespace gpusnap
