// A journal part of any content is refused, or gives the bytes that its manifest promises.
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "fault_file_system.h"
#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/journal.h"

namespace {

constexpr const char* kName = "a-r0.journal";
constexpr size_t kClaimBytes = 8;

void check(bool holds) {
  if (!holds) std::abort();
}

struct Claim {
  uint32_t stream_bytes = 0;
  uint32_t entries = 0;
};

void try_journal(const std::vector<std::byte>& bytes, const Claim& claim) {
  gpusnap::test::FaultFileSystem files;
  files.put(std::string("/job/") + kName, bytes);
  const auto reader = gpusnap::JournalReader::open(
      files, "/job", {{kName, bytes.size(), claim.stream_bytes, claim.entries}});
  if (!reader.ok()) return;
  std::vector<std::byte> piece(1000);
  uint64_t left = claim.stream_bytes;
  while (left > 0) {
    const size_t size = left < piece.size() ? left : piece.size();
    if (!reader.value()->read(std::span(piece).first(size)).ok()) return;
    left -= size;
  }
  const gpusnap::Status end = reader.value()->read(std::span(piece).first(1));
  check(!end.ok() || bytes.size() > gpusnap::kJournalHeaderBytes);
}

void put(std::vector<std::byte>& bytes, size_t at, uint64_t value) {
  for (size_t i = 0; i < sizeof value; ++i)
    bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

// Makes the checksums of the file and of its frames good, as far as it has any.
void mend(std::vector<std::byte>& bytes) {
  const auto header = gpusnap::encode_journal_header(kName);
  if (bytes.size() < header.size()) return;
  std::memcpy(bytes.data(), header.data(), header.size());
  size_t at = header.size();
  while (bytes.size() - at >= gpusnap::kFrameHeaderBytes) {
    uint32_t stored = 0;
    std::memcpy(&stored, bytes.data() + at + 4, sizeof stored);
    // A frame that repeats has its distance there, and the checksum of what it repeats.
    const bool repeats = bytes[at + 3] == std::byte{'R'};
    if (repeats) stored = 0;
    const size_t content = at + gpusnap::kFrameHeaderBytes;
    if (stored > bytes.size() - content) return;
    if (!repeats) {
      put(bytes, at + 32, gpusnap::checksum(std::span(bytes).subspan(content, stored)));
    }
    put(bytes, at + 40, gpusnap::checksum(std::span(bytes).subspan(at, 40)));
    at = content + stored;
  }
}

}  // namespace

// The input is what the manifest claims of the part, then the part.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kClaimBytes) return 0;
  Claim claim;
  std::memcpy(&claim.stream_bytes, data, sizeof claim.stream_bytes);
  std::memcpy(&claim.entries, data + 4, sizeof claim.entries);
  const auto input = std::as_bytes(std::span(data, size)).subspan(kClaimBytes);
  std::vector<std::byte> bytes(input.begin(), input.end());
  try_journal(bytes, claim);
  mend(bytes);
  try_journal(bytes, claim);
  return 0;
}
