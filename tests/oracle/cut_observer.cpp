// The test's library has this in place of interpose/snapshot/cut_observer.cpp: at each cut all
// device memory is copied, blocking, into ORACLE_FOLDER/<epoch>. Layout, little-endian 64-bit
// words: for each range address, size, then its bytes.
#include "interpose/snapshot/cut_observer.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/services/mutation.h"

namespace gpusnap {

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "gpusnap oracle: %s\n", what);
  std::_Exit(1);
}

// The device is idle, so its default stream has nothing else to wait for.
void copy_back(const Driver& driver, const MemoryRange& range, std::vector<std::byte>& bytes) {
  CurrentContext current(driver, reinterpret_cast<CUcontext>(range.context));
  bytes.resize(range.size);
  CUresult result = CUDA_SUCCESS;
  // The first may be the one that the test makes fail.
  for (int tries = 0; tries == 0 || (result != CUDA_SUCCESS && tries < 2); ++tries) {
    result = driver.cuMemcpyDtoHAsync_v2(bytes.data(), range.address, range.size, CU_STREAM_LEGACY);
    if (result == CUDA_SUCCESS) result = driver.cuStreamSynchronize(CU_STREAM_LEGACY);
  }
  if (result != CUDA_SUCCESS) fail("device memory cannot be copied at the cut");
}

class File {
 public:
  explicit File(const std::string& path)
      : descriptor_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
    if (descriptor_ < 0) fail("the oracle's file cannot be made");
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  void append(const void* bytes, size_t size) {
    const auto* at = static_cast<const char*>(bytes);
    while (size > 0) {
      const ssize_t written = write(descriptor_, at, size);
      if (written < 0) fail("the oracle's file cannot be written");
      at += written;
      size -= static_cast<size_t>(written);
    }
  }

 private:
  int descriptor_;
};

// "NAME" or "NAME:N": every N-th time that the mistake could be made, it is.
struct Chosen {
  std::string_view name;
  uint64_t every = 1;
  Chosen() {
    const char* text = std::getenv("ORACLE_MUTATION");
    if (text == nullptr) return;
    name = text;
    const size_t colon = name.find(':');
    if (colon == std::string_view::npos) return;
    every = std::strtoull(text + colon + 1, nullptr, 10);
    name = name.substr(0, colon);
    if (every == 0) fail("ORACLE_MUTATION is not NAME or NAME:N");
  }
};

std::string_view name_of(Mutation mutation) {
  switch (mutation) {
    case Mutation::kClearPendingEarly:
      return "clear-pending-early";
    case Mutation::kSkipDuplicate:
      return "skip-duplicate";
    case Mutation::kSkipEventWait:
      return "skip-event-wait";
    case Mutation::kSkipHashCompare:
      return "skip-hash-compare";
    case Mutation::kBuildOnMemory:
      return "build-on-memory";
    case Mutation::kDeliverLate:
      return "deliver-late";
    case Mutation::kSkipTurn:
    case Mutation::kExchangeOneSide:
    case Mutation::kCutOneEarly:
    case Mutation::kSkipMemoryBefore:
      break;
  }
  return {};
}

}  // namespace

void observe_cut(const CutView& cut) {
  const char* folder = std::getenv("ORACLE_FOLDER");
  if (folder == nullptr) return;
  File file(std::string(folder) + "/" + std::to_string(cut.epoch));
  std::vector<std::byte> bytes;
  for (const auto& [address, range] : cut.memory.ranges()) {
    if (!is_saved(range.kind)) continue;
    copy_back(cut.driver, range, bytes);
    const uint64_t head[] = {address, range.size};
    file.append(head, sizeof head);
    file.append(bytes.data(), bytes.size());
  }
}

bool mutated(Mutation mutation) {
  static const Chosen chosen;
  if (chosen.name != name_of(mutation)) return false;
  static std::atomic<uint64_t> asked{0};
  return (asked.fetch_add(1) + 1) % chosen.every == 0;
}

}  // namespace gpusnap
