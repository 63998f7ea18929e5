#include "interpose/journal/recorder.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "interpose/cuda/cuda_abi.h"
#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/threads/thread_path.h"

namespace gpusnap {

namespace {
// The calling thread as the last recorder that it had to do with knows it.
[[gnu::tls_model("initial-exec")]] constinit thread_local uint64_t own_number = 0;
std::atomic<uint32_t> newest_part{0};

// Member by member from registers: as a whole it would be read back from where its members have
// just been put, which processors make wait for that.
void put(const EntryHead& head, std::byte* at) {
  std::memcpy(at + offsetof(EntryHead, hook), &head.hook, sizeof head.hook);
  std::memcpy(at + offsetof(EntryHead, words), &head.words, sizeof head.words);
  std::memcpy(at + offsetof(EntryHead, flags), &head.flags, sizeof head.flags);
  std::memcpy(at + offsetof(EntryHead, result), &head.result, sizeof head.result);
  std::memcpy(at + offsetof(EntryHead, name_bytes), &head.name_bytes, sizeof head.name_bytes);
  std::memcpy(at + offsetof(EntryHead, deliveries), &head.deliveries, sizeof head.deliveries);
}

uint8_t flags_of(const CallKey& key, uint8_t flags) {
  return key.data != 0 ? static_cast<uint8_t>(flags | kHasData) : flags;
}
}  // namespace

Recorder::Recorder(std::unique_ptr<JournalWriter> writer, std::vector<JournalPart> before,
                   uint64_t calls, uint64_t launches)
    : writer_(std::move(writer)),
      before_(std::move(before)),
      calls_before_(calls),
      launches_(launches),
      part_(++newest_part) {}

Result<std::unique_ptr<Recorder>> Recorder::create(std::unique_ptr<JournalSink> sink,
                                                   const std::string& part_name,
                                                   JournalWriter::Options options,
                                                   std::vector<JournalPart> before, uint64_t calls,
                                                   uint64_t launches) {
  auto writer = JournalWriter::create(std::move(sink), part_name, std::move(options));
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

Recorder::Thread Recorder::caller() {
  if (own_number >> 32 != part_) [[unlikely]] {
    char own_path[kThreadPathText];
    own_number = introduce(text_of(own_thread_path(), own_path));
  }
  return own_number;
}

Recorder::Thread Recorder::introduce(std::string path) {
  const Thread thread = part_ << 32 | threads_++;
  if (const auto other = paths_.find(path); other != paths_.end()) path = other->second;
  EntryHead head;
  head.hook = kThreadEntry;
  head.words = 1;
  head.name_bytes = static_cast<uint32_t>(path.size());
  const uint64_t number = number_of(thread);
  append_bytes(&head, sizeof head);
  append_bytes(&number, sizeof number);
  append_bytes(path.data(), path.size());
  return thread_ = thread;
}

void Recorder::switch_to(Thread thread) {
  if (thread == thread_) [[likely]]
    return;
  struct {
    EntryHead head;
    uint64_t number;
  } entry;
  entry.head = {kThreadEntry, 1, 0, 0, 0, 0};
  entry.number = number_of(thread);
  append_bytes(&entry, sizeof entry);
  thread_ = thread;
}

void Recorder::append_poll(uint16_t hook) {
  const Thread thread = caller();
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
    append_call(runs_[i].hook, key, CUDA_ERROR_NOT_READY, 0, nullptr, {});
  }
}

bool Recorder::append_in_place(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags) {
  std::byte* const room = writer_->room(sizeof(EntryHead) + sizeof key.words + sizeof key.data);
  if (room == nullptr) [[unlikely]]
    return false;
  put({hook, key.count, flags_of(key, flags), result, 0, 0}, room);
  // A copy of a fixed size is a handful of moves; the next entry covers the excess.
  std::memcpy(room + sizeof(EntryHead), key.words, sizeof key.words);
  const size_t words = sizeof(EntryHead) + key.count * sizeof(uint64_t);
  std::memcpy(room + words, &key.data, sizeof key.data);
  writer_->add(words + (key.data != 0 ? sizeof key.data : 0), 1);
  return true;
}

void Recorder::append_call(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags,
                           const HostBlock* answer, std::span<const Delivery> deliveries) {
  const bool plain = answer == nullptr && deliveries.empty() && key.name.empty();
  if (plain && append_in_place(hook, key, result, flags)) return;
  append_whole(hook, key, result, flags, answer, deliveries);
  writer_->append({}, 1);
}

void Recorder::append(uint16_t hook, const CallKey& key, int32_t result) {
  const bool goes_on = own_number == thread_ && run_count_ == 0;
  if (goes_on && key.name.empty() && append_in_place(hook, key, result, 0)) [[likely]]
    return;
  append(hook, key, result, 0, nullptr, {});
}

void Recorder::append(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags,
                      const HostBlock* answer, std::span<const Delivery> deliveries) {
  end_polls();
  switch_to(caller());
  // A cut is no call of the program.
  if (hook == kCutEntry) {
    end_not_yet();
    append_whole(hook, key, result, flags, answer, deliveries);
  } else {
    append_call(hook, key, result, flags, answer, deliveries);
  }
}

void Recorder::append_for(const std::string& path, uint16_t hook, const CallKey& key,
                          int32_t result, const HostBlock* answer) {
  end_polls();
  (void)introduce(path);
  append_call(hook, key, result, 0, answer, {});
}

void Recorder::append_callback(uint16_t kind, uint64_t number, int32_t status, uint8_t flags,
                               std::span<const Delivery> deliveries) {
  end_polls();
  CallKey key;
  key.add(numbers_.functions.step_to(number));
  append_whole(kind, key, status, flags, nullptr, deliveries);
}

void Recorder::append_outcome(std::string_view name, uint64_t number,
                              std::span<const int32_t> values, uint64_t count) {
  const bool nothing_yet = values.size() == 1 && values[0] == 0;
  if (nothing_yet && not_yet_.count != 0 && not_yet_.name == name &&
      not_yet_.first + not_yet_.count == number) {
    not_yet_.count += count;
    return;
  }
  end_not_yet();
  if (nothing_yet) {
    not_yet_ = {name, number, count};
    return;
  }
  CallKey words;
  words.add(numbers_.outcomes.step_to(number));
  write_outcome(name, words, values);
}

// Wherever between the calls an outcome stands: what counts is on which side of a cut.
void Recorder::end_not_yet() {
  if (not_yet_.count == 0) return;
  const NotYet run = std::exchange(not_yet_, {});
  CallKey words;
  words.add(numbers_.outcomes.step_to(run.first), run.count);
  const int32_t zero = 0;
  write_outcome(run.name, words, {&zero, 1});
}

void Recorder::write_outcome(std::string_view name, const CallKey& words,
                             std::span<const int32_t> values) {
  CallKey key = words;
  key.name = name;
  const HostBlock answer = plain_block(values.data(), values.size_bytes());
  append_whole(kOutcomeEntry, key, CUDA_SUCCESS, 0, &answer, {});
}

void Recorder::append_whole(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags,
                            const HostBlock* answer, std::span<const Delivery> deliveries) {
  EntryHead head;
  head.hook = hook;
  head.words = key.count;
  head.flags = flags_of(key, static_cast<uint8_t>(flags | (answer != nullptr ? kHasAnswer : 0)));
  head.result = result;
  head.name_bytes = static_cast<uint32_t>(std::min(key.name.size(), kMaxNameBytes));
  head.deliveries = static_cast<uint32_t>(deliveries.size());
  append_bytes(&head, sizeof head);
  append_bytes(key.words, key.count * sizeof(uint64_t));
  if (key.data != 0) append_bytes(&key.data, sizeof key.data);
  append_bytes(key.name.data(), head.name_bytes);
  if (answer != nullptr) {
    const uint64_t size = answer->bytes();
    append_bytes(&size, sizeof size);
    answer->for_each_row([&](auto row) { writer_->append(row, 0); });
  }
  for (const Delivery& delivery : deliveries) {
    DeliveryHead written = delivery.head;
    if (written.kind == DeliveryHead::kCopy)
      written.target = numbers_.copies.step_to(written.target);
    append_bytes(&written, sizeof written);
    delivery.block.for_each_row([&](auto row) { writer_->append(row, 0); });
  }
}

std::vector<JournalPart> Recorder::seal() {
  end_polls();
  end_not_yet();
  std::vector<JournalPart> all = before_;
  all.push_back(writer_->seal());
  return all;
}

}  // namespace gpusnap
