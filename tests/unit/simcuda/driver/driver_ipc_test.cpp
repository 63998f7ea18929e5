// Memory that two processes share: this one, and a child that was forked before there was a driver.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <vector>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

constexpr size_t kGranule = 2 << 20;

// One end of a pair of sockets.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) {}
  // Sends the value once the device has done its work.
  template <class T>
  void say(const T& value) const {
    EXPECT_OK(cuCtxSynchronize());
    say_at_once(value);
  }
  template <class T>
  void say_at_once(const T& value) const {
    EXPECT_EQ(send(socket_, &value, sizeof value, MSG_NOSIGNAL), ssize_t{sizeof value});
  }
  template <class T>
  T hear() const {
    T value{};
    EXPECT_EQ(recv(socket_, &value, sizeof value, 0), ssize_t{sizeof value});
    return value;
  }
  void say_descriptor(int descriptor) const {
    EXPECT_OK(cuCtxSynchronize());
    Envelope envelope;
    cmsghdr* const head = CMSG_FIRSTHDR(&envelope.message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    EXPECT_EQ(sendmsg(socket_, &envelope.message, MSG_NOSIGNAL), 1);
  }
  int hear_descriptor() const {
    Envelope envelope;
    int descriptor = -1;
    EXPECT_EQ(recvmsg(socket_, &envelope.message, MSG_CMSG_CLOEXEC), 1);
    const cmsghdr* const head = CMSG_FIRSTHDR(&envelope.message);
    if (head != nullptr) std::memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
    return descriptor;
  }

 private:
  struct Envelope {
    Envelope() {
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
    }
    char byte = 0;
    iovec part{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    msghdr message{};
  };
  const int socket_;
};

CUcontext make_context() {
  CUcontext context = nullptr;
  EXPECT_OK(cuInit(0));
  EXPECT_OK(cuCtxCreate_v2(&context, 0, 0));
  return context;
}

uint32_t word(CUdeviceptr address) {
  uint32_t value = 0;
  EXPECT_OK(cuMemcpyDtoH_v2(&value, address, sizeof value));
  return value;
}

// Each in a process of its own, which has no driver yet.
void in_two_processes(const std::function<void(const Line&)>& owner,
                      const std::function<void(const Line&)>& other) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  const auto in_child = [&](int end, const std::function<void(const Line&)>& body) {
    const pid_t child = fork();
    if (child != 0) return child;
    close(ends[1 - end]);
    make_context();
    body(Line(ends[end]));
    // Its failures are this process's own.
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  const pid_t children[] = {in_child(0, owner), in_child(1, other)};
  close(ends[0]);
  close(ends[1]);
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

// Each of a granule that it shares with others, of one that it has partly, and of several.
constexpr size_t kSizes[] = {4096, 1 << 20, 3 << 20};

TEST(Ipc, WhatOneWritesTheOtherSees) {
  in_two_processes(
      [](const Line& line) {
        for (const size_t size : kSizes) {
          CUdeviceptr before = 0, address = 0;
          ASSERT_OK(cuMemAlloc_v2(&before, 512));
          ASSERT_OK(cuMemAlloc_v2(&address, size));
          ASSERT_OK(cuMemsetD32_v2(before, 7, 128));
          ASSERT_OK(cuMemsetD32_v2(address, 42, size / 4));
          CUipcMemHandle handle{}, again{};
          ASSERT_OK(cuIpcGetMemHandle(&handle, address));
          ASSERT_OK(cuIpcGetMemHandle(&again, address + 16));
          EXPECT_EQ(std::memcmp(&handle, &again, sizeof handle), 0);
          line.say(handle);
          line.say(address);
          EXPECT_EQ(line.hear<int>(), 1);
          EXPECT_EQ(word(address), 43U);
          EXPECT_EQ(word(address + size - 4), 44U);
          EXPECT_EQ(word(before), 7U);
          ASSERT_OK(cuMemsetD32_v2(address + 8, 45, 1));
          line.say(2);
          EXPECT_EQ(line.hear<int>(), 3);
          // It is still there.
          EXPECT_EQ(word(address + 8), 45U);
          EXPECT_OK(cuMemFree_v2(address));
        }
      },
      [](const Line& line) {
        for (const size_t size : kSizes) {
          const auto handle = line.hear<CUipcMemHandle>();
          const auto theirs = line.hear<CUdeviceptr>();
          CUdeviceptr address = 0, again = 0;
          ASSERT_OK(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
          ASSERT_OK(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
          EXPECT_EQ(address, again);
          EXPECT_EQ(address % kGranule, theirs % kGranule);
          size_t bytes = 0;
          EXPECT_OK(cuMemGetAddressRange_v2(nullptr, &bytes, address + 4));
          EXPECT_EQ(bytes, size);
          EXPECT_EQ(word(address), 42U);
          EXPECT_EQ(word(address + size - 4), 42U);
          EXPECT_OK(cuMemsetD32_v2(address, 43, 1));
          EXPECT_OK(cuMemsetD32_v2(address + size - 4, 44, 1));
          line.say(1);
          EXPECT_EQ(line.hear<int>(), 2);
          EXPECT_EQ(word(address + 8), 45U);
          EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
          EXPECT_OK(cuIpcCloseMemHandle(address));
          EXPECT_EQ(word(address), 43U);
          EXPECT_OK(cuIpcCloseMemHandle(address));
          EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(address));
          uint32_t value = 0;
          EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&value, address, 4));
          line.say(3);
        }
      });
}

TEST(Ipc, WhatIsNoHandleIsRefused) {
  in_two_processes(
      [](const Line&) {
        CUdeviceptr address = 0;
        CUipcMemHandle handle{};
        EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, 0x1234));
        ASSERT_OK(cuMemAlloc_v2(&address, 64));
        ASSERT_OK(cuIpcGetMemHandle(&handle, address));
        CUdeviceptr opened = 0;
        const unsigned flags = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
        EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&opened, handle, flags));
        EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&opened, {}, flags));
        EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&opened, handle, 0));
        EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(address));
        void* pinned = nullptr;
        ASSERT_OK(cuMemAllocHost_v2(&pinned, 64));
        EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
                  cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(pinned)));
      },
      [](const Line&) {});
}

// A stream of the one waits for what the other's stream has still to do.
TEST(Ipc, AnEventOrdersTheStreamsOfTwoProcesses) {
  in_two_processes(
      [](const Line& line) {
        CUdeviceptr address = 0;
        CUevent event = nullptr, other = nullptr;
        CUstream stream = nullptr;
        ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, CU_EVENT_INTERPROCESS));
        ASSERT_OK(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
        ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
        ASSERT_OK(cuMemAlloc_v2(&address, 64));
        ASSERT_OK(cuMemsetD32_v2(address, 41, 1));
        CUipcMemHandle memory{};
        CUipcEventHandle handle{};
        ASSERT_OK(cuIpcGetMemHandle(&memory, address));
        EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, other));
        ASSERT_OK(cuIpcGetEventHandle(&handle, event));
        line.say(memory);
        line.say(handle);
        EXPECT_EQ(line.hear<int>(), 1);
        Gate gate;
        gate.close(stream);
        ASSERT_OK(cuMemsetD32Async(address, 42, 1, stream));
        ASSERT_OK(cuEventRecord(event, stream));
        EXPECT_CU(CUDA_ERROR_NOT_READY, cuEventQuery(event));
        line.say_at_once(2);
        EXPECT_EQ(line.hear<int>(), 3);
        gate.open();
        EXPECT_OK(cuEventSynchronize(event));
        EXPECT_EQ(line.hear<int>(), 4);
      },
      [](const Line& line) {
        CUdeviceptr address = 0;
        CUevent event = nullptr;
        CUstream stream = nullptr;
        ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        const auto memory = line.hear<CUipcMemHandle>();
        const auto handle = line.hear<CUipcEventHandle>();
        EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuIpcOpenEventHandle(&event, {}));
        ASSERT_OK(cuIpcOpenMemHandle_v2(&address, memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        ASSERT_OK(cuIpcOpenEventHandle(&event, handle));
        EXPECT_OK(cuEventQuery(event));  // never recorded
        line.say(1);
        EXPECT_EQ(line.hear<int>(), 2);
        EXPECT_CU(CUDA_ERROR_NOT_READY, cuEventQuery(event));
        void* pinned = nullptr;
        ASSERT_OK(cuMemAllocHost_v2(&pinned, sizeof(uint32_t)));
        ASSERT_OK(cuStreamWaitEvent(stream, event, 0));
        ASSERT_OK(cuMemcpyDtoHAsync_v2(pinned, address, sizeof(uint32_t), stream));
        EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
        line.say_at_once(3);
        EXPECT_OK(cuStreamSynchronize(stream));
        EXPECT_EQ(*static_cast<uint32_t*>(pinned), 42U);
        EXPECT_OK(cuEventQuery(event));
        line.say(4);
      });
}

CUdeviceptr map(CUmemGenericAllocationHandle memory) {
  CUdeviceptr address = 0;
  EXPECT_OK(cuMemAddressReserve(&address, kGranule, 0, 0, 0));
  EXPECT_OK(cuMemMap(address, kGranule, 0, memory, 0));
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_OK(cuMemSetAccess(address, kGranule, &access, 1));
  return address;
}

TEST(Ipc, PhysicalMemoryGoesByADescriptor) {
  in_two_processes(
      [](const Line& line) {
        CUmemAllocationProp wanted{};
        wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
        CUmemGenericAllocationHandle own = 0, shared = 0;
        ASSERT_OK(cuMemCreate(&own, kGranule, &wanted, 0));
        wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        ASSERT_OK(cuMemCreate(&shared, kGranule, &wanted, 0));
        int fd = -1;
        const auto type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, own, type, 0));
        ASSERT_OK(cuMemExportToShareableHandle(&fd, shared, type, 0));
        const CUdeviceptr address = map(shared);
        EXPECT_OK(cuMemsetD32_v2(address, 42, 1));
        line.say_descriptor(fd);
        EXPECT_EQ(line.hear<int>(), 1);
        EXPECT_EQ(word(address), 43U);
      },
      [](const Line& line) {
        const int fd = line.hear_descriptor();
        CUmemGenericAllocationHandle memory = 0;
        void* const given = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
        const auto type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        ASSERT_OK(cuMemImportFromShareableHandle(&memory, given, type));
        EXPECT_EQ(close(fd), 0);
        EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&memory, given, type));
        const CUdeviceptr address = map(memory);
        EXPECT_EQ(word(address), 42U);
        EXPECT_OK(cuMemsetD32_v2(address, 43, 1));
        line.say(1);
      });
}

}  // namespace
}  // namespace simcuda::test
