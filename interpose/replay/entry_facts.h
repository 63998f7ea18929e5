// SPDX-License-Identifier: Apache-2.0
//
// Facts about an entry of the journal that the scheduler of replays decides by.
#pragma once

#include <cstdint>
#include <cstring>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/journal/calls_ahead.h"
#include "interpose/journal/entry.h"

namespace gpusnap {

// So far from the head a replay looks for calls that may be made early.
inline constexpr size_t kMostEarly = 4096;
// Whether the host was told by an entry no more than its result and its answer.
inline bool tells_nothing(const EntryHead& head) {
  return head.deliveries == 0 && (head.flags & (kCaptured | kPartlyCaptured | kDeferred)) == 0;
}

inline HookId hook_of(const Entry& entry) {
  return static_cast<HookId>(entry.head.hook);
}

inline bool is_function_entry(const Entry& entry) {
  return entry.head.hook == kCallbackEntry || entry.head.hook == kCallbackEndEntry;
}

// The address that a call gave; 0: it gave none.
inline uint64_t address_of(const Entry& entry) {
  uint64_t address = 0;
  if (entry.answer.size() == sizeof address) {
    std::memcpy(&address, entry.answer.data(), sizeof address);
  }
  return address;
}

inline uint64_t size_of(const Entry& entry) {
  return entry.words.empty() ? 0 : entry.words[0];
}

// A call that gets or gives back memory, and can be made with the driver by what is known of it.
inline bool is_plain_memory(const SeenEntry& call) {
  const Entry& entry = call.entry;
  if (!call.is_whole || entry.head.result != 0 || entry.words.empty()) return false;
  return entry.answer.empty() ? entry.words[0] != 0 : address_of(entry) != 0;
}

inline bool overlap(const Entry& one, const Entry& other) {
  const uint64_t a = address_of(one), b = address_of(other);
  return a != 0 && b != 0 && a < b + size_of(other) && b < a + size_of(one);
}
}  // namespace gpusnap
