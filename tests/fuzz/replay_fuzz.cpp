// A replay journal of any content is refused, or read to its end entry by entry.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/journal/calls_ahead.h"
#include "interpose/journal/replayer.h"
#include "interpose/mpi/outcomes.h"

namespace gpusnap {
// In the place of the generated names.
const char* name_of(HookId id) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (unsigned number = 0; number < kHookCount; ++number) {
      all.push_back("call" + std::to_string(number));
    }
    return all;
  }();
  return names[static_cast<unsigned>(id)].c_str();
}
}  // namespace gpusnap

namespace {

class BytesReader : public gpusnap::JournalReader {
 public:
  explicit BytesReader(std::span<const std::byte> bytes) : bytes_(bytes), total_(bytes.size()) {}
  gpusnap::Status read(std::span<std::byte> to) override {
    if (bytes_.empty()) return {gpusnap::Code::kNotFound, "the end"};
    if (to.size() > bytes_.size()) return {gpusnap::Code::kDamaged, "too short"};
    std::memcpy(to.data(), bytes_.data(), to.size());
    bytes_ = bytes_.subspan(to.size());
    return {};
  }
  uint64_t total_bytes() const override { return total_; }
  uint64_t total_entries() const override { return 0; }

 private:
  std::span<const std::byte> bytes_;
  uint64_t total_;
};

bool read_deliveries(gpusnap::Replayer& replayer, const gpusnap::Entry& entry) {
  std::vector<std::byte> content;
  for (uint32_t i = 0; i < entry.head.deliveries; ++i) {
    gpusnap::DeliveryHead head;
    if (!replayer.next_delivery(head).ok()) return false;
    content.resize(head.size);
    if (!replayer.read(content).ok()) return false;
  }
  return true;
}

// By the reader that looks for outcomes of MPI calls alone.
void read_outcomes(std::span<const std::byte> bytes) {
  gpusnap::mpi::OutcomeReader outcomes(
      std::make_unique<gpusnap::Replayer>(std::make_unique<BytesReader>(bytes), UINT64_MAX));
  for (uint64_t number = 1; number < 32; ++number) {
    const auto taken = outcomes.take("MPI_Test", number);
    if (!taken.ok() && taken.status().code() != gpusnap::Code::kInvalid) return;
  }
  (void)outcomes.matched(1);
  (void)outcomes.at_end();
}

// By the one that looks which call a thread makes next.
void look_ahead(std::span<const std::byte> bytes) {
  gpusnap::CallsAhead ahead(
      std::make_unique<gpusnap::Replayer>(std::make_unique<BytesReader>(bytes), UINT64_MAX));
  gpusnap::CallKey key;
  key.add(7);
  for (uint64_t from = 0; from < 8; ++from) {
    ahead.forget_before(from);
    for (size_t i = 0; const gpusnap::SeenEntry* seen = ahead.at(i); ++i) {
      (void)gpusnap::is_call(*seen, 1, key);
    }
    (void)ahead.cut_at_end_comes(from);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  gpusnap::Replayer replayer(std::make_unique<BytesReader>(bytes), UINT64_MAX);
  gpusnap::Entry entry;
  while (replayer.next(entry).ok()) {
    if (entry.words.size() > gpusnap::kMaxWords || entry.answer.size() > size) std::abort();
    if (!read_deliveries(replayer, entry)) break;
  }
  read_outcomes(bytes);
  look_ahead(bytes);
  return 0;
}
