#include "interpose/recorder.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "interpose/cuda_abi.h"
#include "interpose/hooks_generated_ids.h"
#include "interpose/thread_path.h"

namespace gpusnap {

namespace {
// The calling thread's number, and the recorder that gave it.
struct Number {
  uint64_t part = 0;
  uint32_t thread = 0;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Number own_number;
std::atomic<uint64_t> parts{0};
}  // namespace

Recorder::Recorder(std::unique_ptr<JournalWriter> writer, std::vector<JournalPart> before,
                   uint64_t calls, uint64_t launches)
    : writer_(std::move(writer)),
      before_(std::move(before)),
      calls_(calls),
      launches_(launches),
      part_(++parts) {}

Result<std::unique_ptr<Recorder>> Recorder::create(FileSystem& files, const std::string& folder,
                                                   const std::string& part_name,
                                                   JournalWriter::Options options,
                                                   std::vector<JournalPart> before, uint64_t calls,
                                                   uint64_t launches) {
  auto writer = JournalWriter::create(files, folder, part_name, std::move(options));
  if (!writer.ok()) return writer.status();
  auto recorder = std::unique_ptr<Recorder>(
      new Recorder(std::move(writer.value()), std::move(before), calls, launches));
  // Hooks are numbered anew by every build of the library; their names stay.
  std::string names;
  for (uint16_t id = 0; id < kHookCount; ++id) {
    names += name_of(static_cast<HookId>(id));
    names += '\n';
  }
  EntryHead head;
  head.hook = kTableEntry;
  head.result = kJournalVersion;
  head.name_bytes = static_cast<uint32_t>(names.size());
  recorder->append_bytes(&head, sizeof head);
  recorder->append_bytes(names.data(), names.size());
  return recorder;
}

void Recorder::append_bytes(const void* bytes, size_t size, uint32_t entries) {
  writer_->append({static_cast<const std::byte*>(bytes), size}, entries);
}

uint32_t Recorder::caller() {
  if (own_number.part != part_) [[unlikely]]
    introduce();
  return own_number.thread;
}

void Recorder::introduce() {
  own_number = {part_, threads_++};
  char path[kThreadPathText];
  (void)text_of(own_thread_path(), path);
  EntryHead head;
  head.hook = kThreadEntry;
  head.words = 1;
  head.name_bytes = static_cast<uint32_t>(std::strlen(path));
  const uint64_t number = own_number.thread;
  append_bytes(&head, sizeof head);
  append_bytes(&number, sizeof number);
  append_bytes(path, head.name_bytes);
  thread_ = own_number.thread;
}

void Recorder::switch_to(uint32_t thread) {
  if (thread == thread_) [[likely]]
    return;
  struct {
    EntryHead head;
    uint64_t number;
  } entry;
  entry.head = {kThreadEntry, 1, 0, 0, 0, 0};
  entry.number = thread;
  append_bytes(&entry, sizeof entry);
  thread_ = thread;
}

void Recorder::append_poll(uint16_t hook) {
  const uint32_t thread = caller();
  // The thread's last run is the one that may go on.
  for (size_t i = run_count_; i-- != 0;) {
    if (runs_[i].thread != thread) continue;
    if (runs_[i].hook != hook) break;
    ++runs_[i].polls;
    return;
  }
  if (run_count_ == kMostRuns) write_polls();
  runs_[run_count_++] = {thread, hook, 1};
}

void Recorder::write_polls() {
  const size_t count = std::exchange(run_count_, 0);
  for (size_t i = 0; i < count; ++i) {
    CallKey key;
    key.add(runs_[i].polls);
    switch_to(runs_[i].thread);
    append_plain(runs_[i].hook, key, CUDA_ERROR_NOT_READY, 0);
  }
}

void Recorder::append_plain(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags) {
  struct {
    EntryHead head;
    uint64_t words[kMaxWords];
  } entry;
  entry.head = {hook, key.count, flags, result, 0, 0};
  std::memcpy(entry.words, key.words, key.count * sizeof(uint64_t));
  append_bytes(&entry, sizeof(EntryHead) + key.count * sizeof(uint64_t), 1);
  ++calls_;
}

void Recorder::append(uint16_t hook, const CallKey& key, int32_t result) {
  append(hook, key, result, 0, nullptr, {});
}

void Recorder::append(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags,
                      const HostBlock* answer, std::span<const Delivery> deliveries) {
  end_polls();
  switch_to(caller());
  // A cut is no call of the program.
  const bool is_call = hook != kCutEntry;
  if (is_call && answer == nullptr && deliveries.empty() && key.name.empty()) [[likely]] {
    append_plain(hook, key, result, flags);
    return;
  }
  append_whole(hook, key, result, flags, answer, deliveries);
  if (!is_call) return;
  writer_->append({}, 1);
  ++calls_;
}

void Recorder::append_callback(uint16_t kind, uint64_t number, uint8_t flags,
                               std::span<const Delivery> deliveries) {
  end_polls();
  CallKey key;
  key.add(number);
  append_whole(kind, key, CUDA_SUCCESS, flags, nullptr, deliveries);
}

void Recorder::append_whole(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags,
                            const HostBlock* answer, std::span<const Delivery> deliveries) {
  EntryHead head;
  head.hook = hook;
  head.words = key.count;
  head.flags = static_cast<uint8_t>(flags | (answer != nullptr ? kHasAnswer : 0));
  head.result = result;
  head.name_bytes = static_cast<uint32_t>(std::min(key.name.size(), kMaxNameBytes));
  head.deliveries = static_cast<uint32_t>(deliveries.size());
  append_bytes(&head, sizeof head);
  append_bytes(key.words, key.count * sizeof(uint64_t));
  append_bytes(key.name.data(), head.name_bytes);
  if (answer != nullptr) {
    const uint64_t size = answer->bytes();
    append_bytes(&size, sizeof size);
    answer->for_each_row([&](auto row) { writer_->append(row, 0); });
  }
  for (const Delivery& delivery : deliveries) {
    append_bytes(&delivery.head, sizeof delivery.head);
    delivery.block.for_each_row([&](auto row) { writer_->append(row, 0); });
  }
}

std::vector<JournalPart> Recorder::seal() {
  end_polls();
  std::vector<JournalPart> all = before_;
  all.push_back(writer_->seal());
  return all;
}

}  // namespace gpusnap
