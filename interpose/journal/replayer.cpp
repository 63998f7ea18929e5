#include "interpose/journal/replayer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/threads/thread_path.h"

namespace gpusnap {

namespace {
Status damaged(const char* what) {
  return {Code::kDamaged, std::string("the replay journal is damaged: ") + what};
}
// A name that our table lacks; no call of ours ever matches it.
constexpr uint16_t kUnknownHook = 0xfff0;

uint16_t hook_of(std::string_view name) {
  for (uint16_t id = 0; id < kHookCount; ++id) {
    if (name == name_of(static_cast<HookId>(id))) return id;
  }
  return kUnknownHook;
}
}  // namespace

Replayer::Replayer(std::unique_ptr<JournalReader> reader, uint64_t calls)
    : reader_(std::move(reader)), calls_(calls) {}

Result<std::unique_ptr<Replayer>> Replayer::open(FileSystem& files, const std::string& folder,
                                                 std::vector<JournalPart> parts, uint64_t calls) {
  auto reader = JournalReader::open(files, folder, std::move(parts));
  if (!reader.ok()) return reader.status();
  if (reader.value()->total_entries() != calls) {
    return damaged("it does not hold as many calls as its manifest says");
  }
  return std::make_unique<Replayer>(std::move(reader.value()), calls);
}

// Small pieces, mostly, as they lie there.
bool Replayer::take(std::span<std::byte> to) {
  if (to.empty()) return true;
  const std::byte* const there = reader_->take(to.size());
  if (there == nullptr) return false;
  std::memcpy(to.data(), there, to.size());
  return true;
}

Status Replayer::read(std::span<std::byte> bytes) {
  if (take(bytes)) return {};
  Status status = reader_->read(bytes);
  return status.code() == Code::kNotFound ? damaged("it ends too early") : status;
}

Status Replayer::read_table(const EntryHead& head) {
  const auto version = static_cast<uint32_t>(head.result);
  if (version == 0 || version > kJournalVersion) {
    return {head.result > 0 ? Code::kNewer : Code::kDamaged,
            "the replay journal has version " + std::to_string(head.result) +
                ", this library reads versions up to " + std::to_string(kJournalVersion)};
  }
  if (head.name_bytes > kMaxNameBytes) return damaged("a name is too long");
  std::string names(head.name_bytes, '\0');
  if (Status status = read(std::as_writable_bytes(std::span(names))); !status.ok()) return status;
  version_ = version;
  numbers_ = {};
  hooks_.clear();
  threads_.clear();
  thread_ = 0;
  // The first version knew of one thread only.
  if (version == 1) threads_.emplace_back("main");
  for (size_t start = 0; start < names.size();) {
    const size_t end = std::min(names.find('\n', start), names.size());
    hooks_.push_back(hook_of(std::string_view(names).substr(start, end - start)));
    start = end + 1;
  }
  return {};
}

Status Replayer::read_thread(const EntryHead& head) {
  uint64_t number = 0;
  if (head.words != 1) return damaged("a thread has no number");
  if (head.name_bytes >= kThreadPathText) return damaged("the name of a thread is too long");
  if (Status status = read_value(number); !status.ok()) return status;
  std::string path(head.name_bytes, '\0');
  if (Status status = read(std::as_writable_bytes(std::span(path))); !status.ok()) return status;
  if (path.empty() ? number >= threads_.size() : number != threads_.size()) {
    return damaged("a thread has a number that makes no sense");
  }
  if (!path.empty()) threads_.push_back(std::move(path));
  several_threads_ = several_threads_ || number != 0;
  thread_ = number;
  return {};
}

Status Replayer::next(Entry& entry) {
  bool any = true;
  Status status = read_next(entry, any);
  if (status.ok() && !any) return damaged("it ends too early");
  return status;
}

Result<bool> Replayer::next_if_any(Entry& entry) {
  bool any = true;
  Status status = read_next(entry, any);
  if (!status.ok()) return status;
  return any;
}

Status Replayer::read_next(Entry& entry, bool& any) {
  for (;;) {
    const auto head = std::as_writable_bytes(std::span(&entry.head, 1));
    Status status;
    if (!take(head)) status = reader_->read(head);
    if (status.code() == Code::kNotFound) {
      any = false;
      return {};
    }
    if (!status.ok()) return status;
    if (entry.head.hook != kTableEntry && entry.head.hook != kThreadEntry) break;
    status = entry.head.hook == kTableEntry ? read_table(entry.head) : read_thread(entry.head);
    if (!status.ok()) return status;
  }
  // The outcome of an MPI call may come before the first call of a thread.
  if (entry.head.hook != kOutcomeEntry && thread_ >= threads_.size()) {
    return damaged("a call is of no thread");
  }
  if (Status status = read_body(entry); !status.ok()) return status;
  if (has_steps() && !entry.words.empty()) add_steps(entry);
  // Entries from there on are no calls of the program.
  if (entry.head.hook >= kOutcomeEntry) return {};
  if (entry.head.hook >= hooks_.size()) return damaged("a call has an unknown number");
  entry.head.hook = hooks_[entry.head.hook];
  ++calls_read_;
  return {};
}

void Replayer::add_steps(Entry& entry) {
  uint64_t& number = entry.words[0];
  const uint16_t kind = entry.head.hook;
  if (kind == kCallbackEntry || kind == kCallbackEndEntry) {
    number = numbers_.functions.after_step(number);
  } else if (kind == kOutcomeEntry) {
    number = numbers_.outcomes.after_step(number);
  }
}

// Reads the entry after its head, except for the deliveries.
Status Replayer::read_body(Entry& entry) {
  if (entry.head.words > kMaxWords) return damaged("a call has too many words");
  if (entry.head.name_bytes > kMaxNameBytes) return damaged("a name is too long");
  entry.words.resize(entry.head.words);
  entry.name.resize(entry.head.name_bytes);
  entry.answer.clear();
  Status status = read(std::as_writable_bytes(std::span(entry.words)));
  entry.data = 0;
  if (status.ok() && (entry.head.flags & kHasData) != 0) status = read_value(entry.data);
  if (status.ok()) status = read(std::as_writable_bytes(std::span(entry.name)));
  if (!status.ok() || (entry.head.flags & kHasAnswer) == 0) return status;
  uint64_t size = 0;
  status = read_value(size);
  if (!status.ok()) return status;
  if (size > reader_->total_bytes()) return damaged("an answer is too long");
  entry.answer.resize(size);
  return read(entry.answer);
}

Status Replayer::next_delivery(DeliveryHead& head) {
  if (Status status = read_value(head); !status.ok()) return status;
  if (head.kind > DeliveryHead::kMemory || head.size > reader_->total_bytes()) {
    return damaged("a delivery makes no sense");
  }
  if (has_steps() && head.kind == DeliveryHead::kCopy) {
    head.target = numbers_.copies.after_step(head.target);
  }
  return {};
}

Status Replayer::skip_deliveries(const Entry& entry) {
  std::array<std::byte, 16 << 10> unused;
  for (uint32_t i = 0; i < entry.head.deliveries; ++i) {
    DeliveryHead head;
    Status status = next_delivery(head);
    for (uint64_t left = head.size; status.ok() && left > 0;) {
      const uint64_t now = std::min<uint64_t>(left, unused.size());
      status = read(std::span(unused).first(now));
      left -= now;
    }
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace gpusnap
