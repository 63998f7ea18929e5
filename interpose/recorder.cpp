#include "interpose/recorder.h"

#include <cstring>
#include <utility>

#include "interpose/cuda_abi.h"
#include "interpose/hooks_generated_ids.h"

namespace gpusnap {

Recorder::Recorder(std::unique_ptr<JournalWriter> writer, std::vector<JournalPart> before,
                   uint64_t calls, uint64_t launches)
    : writer_(std::move(writer)), before_(std::move(before)), calls_(calls), launches_(launches) {}

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

void Recorder::append_poll(uint16_t hook) {
  if (polls_ != 0 && poll_hook_ != hook) end_polls();
  poll_hook_ = hook;
  ++polls_;
}

void Recorder::end_polls() {
  if (polls_ == 0) return;
  CallKey key;
  key.add(polls_);
  polls_ = 0;
  append(poll_hook_, key, CUDA_ERROR_NOT_READY);
}

void Recorder::append(uint16_t hook, const CallKey& key, int32_t result) {
  if (!key.name.empty()) {
    append(hook, key, result, 0, nullptr, {});
    return;
  }
  end_polls();
  struct {
    EntryHead head;
    uint64_t words[kMaxWords];
  } entry;
  entry.head = {hook, key.count, 0, result, 0, 0};
  std::memcpy(entry.words, key.words, key.count * sizeof(uint64_t));
  append_bytes(&entry, sizeof(EntryHead) + key.count * sizeof(uint64_t), 1);
  ++calls_;
}

void Recorder::append(uint16_t hook, const CallKey& key, int32_t result, uint8_t flags,
                      const HostBlock* answer, std::span<const Delivery> deliveries) {
  end_polls();
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
  // A cut is no call of the program.
  if (hook != kCutEntry) {
    writer_->append({}, 1);
    ++calls_;
  }
}

std::vector<JournalPart> Recorder::seal() {
  end_polls();
  std::vector<JournalPart> parts = before_;
  parts.push_back(writer_->seal());
  return parts;
}

}  // namespace gpusnap
