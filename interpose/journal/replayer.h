// Reads the replay journal of a checkpoint, entry by entry, as hostile input.
// One thread. After an error nothing more can be read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interpose/journal/entry.h"
#include "tiers/journal.h"

namespace gpusnap {

class Replayer {
 public:
  // `calls`: hooked calls up to the cut, as the manifest says.
  static Result<std::unique_ptr<Replayer>> open(FileSystem& files, const std::string& folder,
                                                std::vector<JournalPart> parts, uint64_t calls);

  // The same from a stream that is open already.
  Replayer(std::unique_ptr<JournalReader> reader, uint64_t calls);

  // Whether every call has been read. The entry of the cut itself is left then.
  bool at_cut() const { return calls_read_ == calls_; }
  uint64_t calls_read() const { return calls_read_; }
  uint64_t calls() const { return calls_; }

  // The path of the thread that made what was read last.
  const std::string& thread() const { return threads_[thread_]; }
  // Whether calls of more than one thread have been read.
  bool several_threads() const { return several_threads_; }

  // The next entry (a call, or a cut: head.hook is kCutEntry), but for its deliveries, which the
  // caller must read next, every one: the head, then its bytes in any pieces.
  Status next(Entry& entry);
  // The same; false: there is none.
  Result<bool> next_if_any(Entry& entry);
  Status next_delivery(DeliveryHead& head);
  // All of them, for a reader whom they do not concern.
  Status skip_deliveries(const Entry& entry);
  Status read(std::span<std::byte> bytes);

 private:
  bool take(std::span<std::byte> to);
  Status read_next(Entry& entry, bool& any);
  Status read_table(const EntryHead& head);
  Status read_thread(const EntryHead& head);
  Status read_body(Entry& entry);
  void add_steps(Entry& entry);
  bool has_steps() const { return version_ >= 7; }
  template <class T>
  Status read_value(T& value) {
    return read(std::as_writable_bytes(std::span<T, 1>(&value, 1)));
  }

  std::unique_ptr<JournalReader> reader_;
  uint64_t calls_ = 0;
  uint64_t calls_read_ = 0;
  std::vector<uint16_t> hooks_;       // number in this part -> our HookId
  std::vector<std::string> threads_;  // number in this part -> path
  size_t thread_ = 0;
  uint32_t version_ = 0;  // of this part
  PartNumbers numbers_;
  bool several_threads_ = false;
};

}  // namespace gpusnap
