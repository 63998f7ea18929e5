// SPDX-License-Identifier: Apache-2.0
// Texts by which a client describes its streams to the backend. A text has one fact in each line,
// in a fixed order. Each line ends with a newline:
//
//   gpusnap checkpoint 1
//   store=/scratch/me/gpusnap
//   job=solver
//   ...
// The first line names the kind of text and its version. A value may hold any byte but zero: bytes
// below a space, DEL and '%' are written as '%' and two hexadecimal digits (0 to 9, a to f), all
// others unchanged. Each text has exactly one form; everything else is refused with one line that
// says what is wrong. A text comes from another process's memory: parse a copy of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tiers/compression/setting.h"
#include "tiers/status.h"

namespace gpusnap {

// A stream that is one rank's part of one checkpoint. Its slots are, in this order: data, with
// pieces; the manifest (encoded, without extents and segments, parent_checksum 0) in slots without
// pieces, the first of which begins with a ManifestText.
struct CheckpointText {
  std::string store;  // the store's folder: absolute
  std::string job;    // as the user calls it: not empty
  std::string run;
  uint64_t epoch = 0;  // from 1 on
  uint32_t rank = 0;
  uint64_t segment_bytes = 4ULL << 30;
  CompressionSetting compression;
  uint32_t keep = 2;    // GPUSNAP_KEEP: complete checkpoints that pruning leaves; 0: all
  uint32_t chain = 16;  // GPUSNAP_CHAIN: ancestors that a restore has to read at most
  // The part stays in memory. It goes to the store only after its program has ended, or when memory
  // is needed. It is neither the parent nor the child of another checkpoint.
  bool in_memory = false;
  // An epoch of the job that is complete on all ranks; 0: none is known. Earlier parts of this rank
  // that stay in memory are not needed any more.
  uint64_t complete = 0;
  bool operator==(const CheckpointText&) const = default;
};

// A stream that is a journal's part. Each slot has one piece {0, offset in the file, bytes}: the
// bytes of the file at that offset. The whole file, header included, comes in such slots.
struct JournalText {
  std::string file;  // absolute; its name is that of a journal part (names.h)
  bool operator==(const JournalText&) const = default;
};

struct ManifestText {
  // Leading slots of a journal's stream that have to be durable before the manifest is committed.
  struct Journal {
    uint32_t stream = 0;
    uint32_t life = 0;
    uint64_t slots = 0;
    bool operator==(const Journal&) const = default;
  };
  std::optional<Journal> journal;
  uint64_t bytes = 0;  // of the encoded manifest, which follows the text
  bool operator==(const ManifestText&) const = default;
};

// Values that cannot be read back (with a zero byte, an empty job) are refused by the reader.
std::string encode(const CheckpointText& text);
std::string encode(const JournalText& text);
std::string encode(const ManifestText& text);

// Return kInvalid, or kNewer if the first line names a later version.
Result<CheckpointText> parse_checkpoint(std::string_view text);
Result<JournalText> parse_journal(std::string_view text);
// `bytes` begin with the text; `text_bytes` returns its length.
Result<ManifestText> parse_manifest_text(std::string_view bytes, size_t& text_bytes);

}  // namespace gpusnap
