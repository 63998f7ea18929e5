// Texts by which a client tells the backend what its streams are. A text has one fact a line, in a
// fixed order, and each line ends with a newline:
//
//   gpusnap checkpoint 1
//   store=/scratch/me/gpusnap
//   job=solver
//   ...
// The first line says what the text is and in which version. A value holds any bytes but zero:
// bytes below a space, DEL and '%' are written as '%' and two hexadecimal digits (0 to 9, a to f),
// all others as they are. There is one way to write a text; everything else is refused, with one
// line that says what is wrong. A text comes from another process's memory: parse a copy of it.
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
  // It stays in memory: it goes to the store only where its program has gone, or where memory is
  // needed. No other checkpoint builds on it, nor it on another one.
  bool in_memory = false;
  // An epoch of the job that is complete on all ranks; 0: none is known. Earlier parts of this rank
  // that stay in memory are not needed.
  uint64_t complete = 0;
  bool operator==(const CheckpointText&) const = default;
};

// A stream that is a journal's part. Each slot has one piece {0, offset in the file, bytes}: what
// the file is to hold there. All of the file, header included, comes so.
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

// A value that could not be read back (a zero byte, an empty job) is found by the reader.
std::string encode(const CheckpointText& text);
std::string encode(const JournalText& text);
std::string encode(const ManifestText& text);

// kInvalid, or kNewer where the first line names a later version.
Result<CheckpointText> parse_checkpoint(std::string_view text);
Result<JournalText> parse_journal(std::string_view text);
// `bytes` begin with it; `text_bytes`: how many of them it is.
Result<ManifestText> parse_manifest_text(std::string_view bytes, size_t& text_bytes);

}  // namespace gpusnap
