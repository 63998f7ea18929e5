// Memory that processes share, against a driver of our own whose physical memory is files: this
// process opens what a child has.
#include "interpose/model/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "interpose/services/private_memory.h"
#include "interpose/services/triggers.h"

namespace gpusnap {
namespace {

constexpr uint64_t kGranule = 2 << 20;
constexpr uint64_t kBase = 0x7000'0000'0000;
constexpr uint64_t kJob = 17;
constexpr uint64_t kAtHome = kBase + 64 * kGranule;

struct FakeDriver {
  std::set<uint64_t> reserved, mapped;  // addresses
  std::set<CUmemGenericAllocationHandle> imported;
  unsigned synchronised = 0;
  uint64_t opened_at = 0;  // by the driver's own call
  CUcontext current = nullptr;
} fake;

CUresult get_context(CUcontext* context) {
  *context = fake.current;
  return CUDA_SUCCESS;
}
CUresult get_device(CUdevice* device) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult synchronise() {
  ++fake.synchronised;
  return CUDA_SUCCESS;
}
CUresult granularity(size_t* out, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *out = kGranule;
  return CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* out, size_t, size_t, CUdeviceptr hint, unsigned long long) {
  *out = hint != 0 ? hint : kBase;
  while (!fake.reserved.insert(*out).second) *out += kGranule;
  return CUDA_SUCCESS;
}
CUresult unreserve(CUdeviceptr address, size_t) {
  return fake.reserved.erase(address) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
// Shared memory is a file; an importer gets the file's first byte for a number.
CUresult export_file(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                     unsigned long long) {
  const int file = memfd_create("physical", MFD_CLOEXEC);
  const auto byte = static_cast<char>(handle);
  EXPECT_EQ(pwrite(file, &byte, 1, 0), 1);
  std::memcpy(out, &file, sizeof file);
  return CUDA_SUCCESS;
}
CUresult import_file(CUmemGenericAllocationHandle* handle, void* file, CUmemAllocationHandleType) {
  char byte = 0;
  if (pread(static_cast<int>(reinterpret_cast<intptr_t>(file)), &byte, 1, 0) != 1) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *handle = static_cast<CUmemGenericAllocationHandle>(byte);
  EXPECT_TRUE(fake.imported.insert(*handle).second) << "it is mapped already";
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle handle) {
  return fake.imported.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult map(CUdeviceptr address, size_t, size_t, CUmemGenericAllocationHandle,
             unsigned long long) {
  EXPECT_TRUE(fake.reserved.contains(address));
  return fake.mapped.insert(address).second ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult unmap(CUdeviceptr address, size_t) {
  return fake.mapped.erase(address) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult set_access(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
  return CUDA_SUCCESS;
}
CUresult get_name(CUresult, const char** name) {
  *name = "A_NAME";
  return CUDA_SUCCESS;
}

Driver fake_driver() {
  Driver driver{};
  driver.cuCtxGetCurrent = get_context;
  driver.cuCtxGetDevice = get_device;
  driver.cuCtxSynchronize = synchronise;
  driver.cuMemGetAllocationGranularity = granularity;
  driver.cuMemAddressReserve = reserve;
  driver.cuMemAddressFree = unreserve;
  driver.cuMemExportToShareableHandle = export_file;
  driver.cuMemImportFromShareableHandle = import_file;
  driver.cuMemRelease = release;
  driver.cuMemMap = map;
  driver.cuMemUnmap = unmap;
  driver.cuMemSetAccess = set_access;
  driver.cuGetErrorName = get_name;
  return driver;
}

SharedHandle shared(const CUipcMemHandle& handle) {
  HandleBytes bytes;
  std::memcpy(bytes.data(), &handle, sizeof handle);
  const auto decoded = decode_handle(bytes);
  EXPECT_TRUE(decoded);
  return decoded.value_or(SharedHandle{});
}

class SharedMemoryTest : public ::testing::Test {
 protected:
  SharedMemoryTest() {
    fake = {};
    memory_.begin(kJob, [this] { ++strangers_; });
  }
  MemoryReply told(const CUipcMemHandle& handle, uint64_t job = kJob) {
    const SharedHandle known = shared(handle);
    std::vector<int> files;
    MemoryReply reply = memory_.tell({known.number, known.id, job}, files);
    EXPECT_EQ(files.size(), reply.pieces.size());
    for (const int file : files) close(file);
    return reply;
  }
  // By the driver.
  SharedMemory::Opened open(const SharedHandle& handle, uint64_t wanted = 0) {
    return memory_.open(handle, wanted, [](CUdeviceptr* address, const CUipcMemHandle& given) {
      std::memcpy(&fake.opened_at, &given, sizeof fake.opened_at);
      *address = fake.opened_at;
      return fake.opened_at == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    });
  }
  // Whether it is there no longer.
  bool close_one(uint64_t address, unsigned* by_driver = nullptr) {
    bool last = false;
    const auto real = [by_driver] {
      if (by_driver != nullptr) ++*by_driver;
      return CUDA_SUCCESS;
    };
    EXPECT_EQ(memory_.close(address, real, last), CUDA_SUCCESS);
    return last;
  }
  static CUipcMemHandle drivers(uint64_t number) {
    CUipcMemHandle handle{};
    std::memcpy(&handle, &number, sizeof number);
    return handle;
  }

  Driver driver_ = fake_driver();
  SharedMemory memory_{driver_};
  int strangers_ = 0;
};

TEST_F(SharedMemoryTest, AHandleIsTheSameUntilItsMemoryGoes) {
  const CUipcMemHandle first = memory_.offer(kAtHome, 100, drivers(1));
  EXPECT_EQ(shared(memory_.offer(kAtHome, 100, drivers(1))), shared(first));
  const CUipcMemHandle other = memory_.offer(kAtHome + kGranule, 100, drivers(2));
  EXPECT_NE(shared(other), shared(first));
  EXPECT_EQ(told(first).error, "");
  memory_.withdraw(kAtHome);
  EXPECT_NE(told(first).error, "");
  EXPECT_EQ(told(other).error, "");
  // Memory that is there afterwards is another one.
  const CUipcMemHandle next = memory_.offer(kAtHome, 200, drivers(3));
  EXPECT_NE(shared(next), shared(first));
  EXPECT_NE(told(first).error, "");
  EXPECT_EQ(told(next).size, 200U);
}

TEST_F(SharedMemoryTest, AStrangerIsToldAndNoted) {
  const CUipcMemHandle handle = memory_.offer(kAtHome, 100, drivers(1));
  EXPECT_TRUE(told(handle).same_job);
  EXPECT_EQ(strangers_, 0);
  EXPECT_FALSE(told(handle, kJob + 1).same_job);
  EXPECT_EQ(strangers_, 1);
  // A handle of an earlier process with this pid is refused, and its asker is no stranger.
  std::vector<int> files;
  const SharedHandle known = shared(handle);
  EXPECT_NE(memory_.tell({known.number + 1, known.id, kJob + 1}, files).error, "");
  EXPECT_EQ(strangers_, 1);
}

TEST_F(SharedMemoryTest, WhatLiesInTooManyPiecesIsNotOffered) {
  const std::vector<MappedMemory> pieces(kMostMemoryPieces + 1, {kAtHome, kGranule, 1, 0});
  EXPECT_FALSE(memory_.offer(kAtHome, 100, pieces).ok());
  EXPECT_FALSE(memory_.offer(kAtHome, 100, std::vector<MappedMemory>()).ok());
  driver_.cuMemExportToShareableHandle = nullptr;
  EXPECT_FALSE(
      memory_.offer(kAtHome, 100, std::vector{MappedMemory{kAtHome, kGranule, 1, 0}}).ok());
}

// A process that has shared memory, and answers until it is ended.
class Owner {
 public:
  // `offer`: in that process; the handles are those of this one, in the order of their addresses.
  using Offer = std::function<std::vector<CUipcMemHandle>(SharedMemory&)>;
  explicit Owner(const Offer& offer) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    process_ = fork();
    if (process_ == 0) be(offer, ends[1]);
    close(ends[1]);
    CUipcMemHandle handle;
    while (read(ends[0], &handle, sizeof handle) == ssize_t{sizeof handle}) {
      handles.push_back(shared(handle));
    }
    close(ends[0]);
  }
  ~Owner() { end(); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  void end() {
    if (process_ == 0) return;
    kill(process_, SIGKILL);
    waitpid(std::exchange(process_, 0), nullptr, 0);
  }

  std::vector<SharedHandle> handles;

 private:
  [[noreturn]] static void be(const Offer& offer, int say) {
    const Driver driver = fake_driver();
    SharedMemory memory(driver);
    memory.begin(kJob, [] {});
    Triggers triggers({}, spawn_thread);
    triggers.set_memory_source([&](const MemoryRequest& request, std::vector<int>& files) {
      return memory.tell(request, files);
    });
    for (const CUipcMemHandle& handle : offer(memory)) {
      if (write(say, &handle, sizeof handle) < 0) _exit(1);
    }
    close(say);
    for (;;) pause();
  }
  pid_t process_ = 0;
};

TEST_F(SharedMemoryTest, WhatTheDriverSharesIsOpenedByTheDriver) {
  Owner owner([](SharedMemory& memory) {
    return std::vector{memory.offer(kAtHome, 100, drivers(kBase + 5 * kGranule))};
  });
  ASSERT_EQ(owner.handles.size(), 1U);
  for (int i = 0; i < 2; ++i) {
    const auto opened = open(owner.handles[0], kAtHome);
    EXPECT_EQ(opened.result, CUDA_SUCCESS) << opened.why;
    EXPECT_EQ(opened.address, kBase + 5 * kGranule);
    EXPECT_EQ(opened.size, 100U);
    EXPECT_TRUE(opened.of_job);
  }
  EXPECT_EQ(memory_.mapped_around(kBase + 5 * kGranule).size, 0U);
  unsigned by_driver = 0;
  EXPECT_FALSE(close_one(kBase + 5 * kGranule, &by_driver));
  EXPECT_TRUE(close_one(kBase + 5 * kGranule, &by_driver));
  EXPECT_EQ(by_driver, 2U);
}

// Two allocations in one granule, and one that goes on into the next.
std::vector<CUipcMemHandle> offer_placed(SharedMemory& memory) {
  const MappedMemory first{kAtHome, kGranule, 1, 0}, second{kAtHome + kGranule, kGranule, 2, 0};
  return {memory.offer(kAtHome + 256, 100, {first}).value(),
          memory.offer(kAtHome + 512, kGranule, {first, second}).value()};
}

TEST_F(SharedMemoryTest, WhatWasPlacedIsMappedOnceWhereItIsWanted) {
  Owner owner(offer_placed);
  ASSERT_EQ(owner.handles.size(), 2U);
  const uint64_t there = kBase + 8 * kGranule;
  const auto one = open(owner.handles[0], there + 256);
  const auto two = open(owner.handles[1], there + 512);
  EXPECT_EQ(one.result, CUDA_SUCCESS) << one.why;
  EXPECT_EQ(two.result, CUDA_SUCCESS) << two.why;
  EXPECT_EQ(one.address, there + 256);
  EXPECT_EQ(two.address, there + 512);
  EXPECT_EQ(two.size, kGranule);
  EXPECT_EQ(fake.mapped, (std::set{there, there + kGranule}));
  using Extent = SharedMemory::Extent;
  EXPECT_EQ(memory_.mapped_around(there + 256), (Extent{there + 256, 100}));
  EXPECT_EQ(memory_.mapped_around(there + 355), (Extent{there + 256, 100}));
  EXPECT_EQ(memory_.mapped_around(there + 356).size, 0U);
  EXPECT_EQ(memory_.mapped_around(there).size, 0U);
  EXPECT_EQ(memory_.mapped_around(there + kGranule), (Extent{there + 512, kGranule}));
  // Again: the same.
  EXPECT_EQ(open(owner.handles[0]).address, there + 256);
  EXPECT_FALSE(close_one(there + 256));
  EXPECT_EQ(fake.synchronised, 0U);
  EXPECT_TRUE(close_one(there + 256));
  // Running work may use the memory, so the last close synchronises.
  EXPECT_EQ(fake.synchronised, 1U);
  EXPECT_EQ(fake.mapped.size(), 2U);
  // It stays as long as somebody has it, whatever becomes of its owner.
  owner.end();
  EXPECT_TRUE(close_one(there + 512));
  EXPECT_TRUE(fake.mapped.empty() && fake.reserved.empty() && fake.imported.empty());
}

TEST_F(SharedMemoryTest, WhatIsWantedElsewhereInItsGranuleCannotBeHad) {
  Owner owner(offer_placed);
  ASSERT_EQ(owner.handles.size(), 2U);
  EXPECT_NE(open(owner.handles[0], kBase + 8 * kGranule).result, CUDA_SUCCESS);
  // Taken by another one.
  fake.reserved.insert(kBase + 9 * kGranule);
  const auto opened = open(owner.handles[1], kBase + 8 * kGranule + 512);
  EXPECT_NE(opened.result, CUDA_SUCCESS);
  EXPECT_NE(opened.why.find("is taken"), std::string::npos) << opened.why;
  EXPECT_TRUE(fake.mapped.empty() && fake.imported.empty());
  EXPECT_EQ(fake.reserved.size(), 1U);
}

TEST_F(SharedMemoryTest, WhoHasEndedOrHasNoSuchMemoryIsNotWaitedFor) {
  Owner owner(offer_placed);
  ASSERT_EQ(owner.handles.size(), 2U);
  SharedHandle stale = owner.handles[0];
  ++stale.number;
  EXPECT_EQ(open(stale).why, "there is no such memory");
  owner.end();
  EXPECT_EQ(open(owner.handles[0]).why, "its process has ended");
}

}  // namespace
}  // namespace gpusnap
