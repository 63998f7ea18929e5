// SPDX-License-Identifier: Apache-2.0
// The manifest: the content of one rank's part of a checkpoint and its location. It is written
// last: a rank's part exists exactly if its manifest does. docs/file-format.md describes the bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tiers/compression/codec.h"
#include "tiers/plan/interval_choice.h"
#include "tiers/status.h"

namespace gpusnap {

// Kinds of ranges in a checkpoint that a program wrote by itself (Manifest::program_write).
inline constexpr uint8_t kProtectedRegion = 6;  // its number is the name
inline constexpr uint8_t kRoutedFile = 7;       // its name is the name

// A range of device memory at the cut, or a part of a checkpoint that a program wrote by itself.
struct SavedRange {
  // 0 device allocation, 1 module global, 4 an array, 5 physical memory of cuMemCreate; 6 and 7
  // above
  uint8_t kind = 0;
  uint64_t address = 0;
  uint64_t size = 0;       // bytes
  uint64_t call_site = 0;  // hash; kind 0
  uint32_t ordinal = 0;    // kind 0
  uint64_t module = 0;     // ordinal; kind 1; number of the memory; kind 5
  std::string name;        // kinds 1, 6, 7
  // Tells the allocations apart that were made at this address: unique along a chain; 0: not known.
  // A range of an increment is the parent's range of the same address, size and life, or it is
  // fresh.
  uint64_t life = 0;
  // In an increment: not in the parent, hence wholly in this manifest's own extents.
  bool fresh = false;
};

// A piece of a range and the place of its bytes in a segment. The bytes are stored unchanged, or in
// a block that is compressed as a whole and may hold bytes of other extents. Unchanged bytes can be
// read in parts, each with its checksum; a part ends at a multiple of kPartBytes in the range.
struct Extent {
  static constexpr uint64_t kPartBytes = 64 << 10;

  uint32_t range = 0;           // index in Manifest::ranges
  uint64_t offset = 0;          // bytes from the range's start
  uint64_t size = 0;            // bytes
  uint32_t segment = 0;         // index in Manifest::segments
  uint64_t segment_offset = 0;  // bytes from the file's start; of the block, if there is one
  uint64_t checksum = 0;        // XXH3 64 of the bytes on the device; see `parts`
  Form form = Form::kStored;    // of the block; kStored: there is none
  uint64_t block_stored = 0;    // bytes of the block in the segment
  uint64_t block_bytes = 0;     // of the block, decompressed
  uint64_t within = 0;          // bytes from the decompressed block's start
  // Checksums of the parts, if there are several; then `checksum` is not used. Empty: one part.
  std::vector<uint64_t> parts;

  struct Part {
    uint64_t begin = 0;  // bytes from the extent's start
    uint64_t end = 0;
    uint64_t checksum = 0;
  };
  size_t part_count() const { return parts.empty() ? 1 : parts.size(); }
  Part part(size_t number) const;
  size_t part_at(uint64_t byte) const;  // the number of the part with that byte
  // Returns the number of parts of an extent at that offset in its range.
  static uint64_t parts_in(uint64_t offset, uint64_t size);

  // Bytes of the segment, from segment_offset on, that are needed to read the extent.
  uint64_t stored() const { return form == Form::kStored ? size : block_stored; }
};

struct SegmentRef {
  std::string file;   // name in the epoch's folder, no slash
  uint64_t size = 0;  // bytes
};

// A part of the replay journal up to the cut. The journal is the concatenation of the leading
// `stream_bytes` of the streams of all parts. A restored run begins a new part.
struct JournalPart {
  std::string file;           // name in the job's folder, no slash
  uint64_t file_bytes = 0;    // leading bytes of the file that belong to this checkpoint
  uint64_t stream_bytes = 0;  // these bytes after decompression
  uint64_t entries = 0;       // hooked calls in them
};

struct SavedDevice {
  std::string name;
  uint64_t memory = 0;  // bytes
  uint16_t major = 0;   // compute capability
  uint16_t minor = 0;
};

struct SavedLibrary {
  std::string path;
  std::string build_id;  // in hexadecimal digits; empty: it has none
};

// A file that the program had opened for reading, as it was when it was opened.
struct InputFile {
  std::string path;  // absolute
  uint64_t size = 0;
  int64_t modified_ns = 0;  // since 1970
  uint64_t checksum = 0;    // XXH3 64 of its bytes, if has_checksum
  bool has_checksum = false;
};

// Identifies the program, so that a restore under another one is refused before it starts.
struct ProgramIdentity {
  std::string path;                    // absolute, of the executable
  uint64_t size = 0;                   // bytes of that file
  uint64_t hash = 0;                   // XXH3 64 of that file
  std::vector<std::string> arguments;  // with argv[0]
  std::string folder;                  // working directory
  std::string device;                  // name of the GPU
  uint32_t driver_version = 0;         // of cuDriverGetVersion
  // The devices that it used, and all devices before them; empty: not known (earlier releases).
  std::vector<SavedDevice> devices;
  uint32_t device_count = 0;  // number of devices that it saw; 0: not known
  std::vector<SavedLibrary> libraries;
  std::vector<InputFile> inputs;
};

// The values of clocks, random sources and the like that one thread had read before the cut
// (interpose/nondeterminism/value_log.h). The schema describes the bytes.
struct SavedReading {
  std::string thread;
  uint8_t source = 0;
  bool ended = false;
  std::string bytes;
};

// Counts of calls that could write while zones of this checkpoint had still to be saved.
struct CallCounts {
  uint64_t launches_free = 0;     // launches of kernels and graphs that did not wait
  uint64_t launches_waited = 0;   // launches for which a stream or the host waited for copies
  uint64_t launches_guessed = 0;  // of these two: with a guessed write set (speculation)
  uint64_t launches_opaque = 0;   // of these two: with an unknown write set; waited for all zones
  uint64_t others_free = 0;       // copies, sets and frees that did not wait
  uint64_t others_waited = 0;
  bool operator==(const CallCounts&) const = default;
};

// Times in nanoseconds for which the program waited after the cut for zones to be saved: waits of
// streams by the device's clock, summed over all streams; waits of the host by its own clock.
struct Waits {
  uint64_t calls_ns = 0;    // the host, in calls that had to wait for a buffer or for the end
  uint64_t frees_ns = 0;    // the host, for copies that a free, an unload or other ranks need
  uint64_t streams_ns = 0;  // streams, for copies of what their next call overwrites
  uint64_t all_ns() const { return calls_ns + frees_ns + streams_ns; }
  bool operator==(const Waits&) const = default;
};

inline constexpr uint32_t kMostAncestors = 1024;
// The most bytes of a decompressed block: reading one of its extents takes as much memory.
inline constexpr uint64_t kMostBlockBytes = 64U << 20;

struct Manifest {
  std::string job;
  uint64_t epoch = 0;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::string run;  // random identifier of the process that wrote it
  // Random number that all ranks of an MPI run share. Parts of different runs can have the same
  // epoch, and do not form a checkpoint together. 0: one process, or an earlier release.
  uint64_t job_run = 0;
  std::string host;
  std::string library_version;
  int64_t cut_unix_ns = 0;  // wall clock at the cut
  uint64_t stall_ns = 0;    // time for which the program was held: the cut and `waits`
  uint64_t zone_bytes = 0;
  uint64_t calls = 0;     // hooked calls that the program had made at the cut
  uint64_t launches = 0;  // kernel launches among them
  ProgramIdentity program;
  std::vector<SavedRange> ranges;
  std::vector<Extent> extents;
  std::vector<SegmentRef> segments;
  std::vector<JournalPart> journal;
  // Epoch of the checkpoint of this job and rank that holds all bytes without an extent here; 0:
  // this checkpoint is full.
  uint64_t parent = 0;
  uint64_t parent_checksum = 0;  // of the body of its manifest; set by the checkpoint's writer
  // Number of ancestors when it was committed, at most kMostAncestors. It may have fewer now, if an
  // ancestor was merged since then.
  uint32_t chain = 0;
  // For a checkpoint that was merged into a full one: checksum of the body of the manifest that it
  // replaces, which earlier children name; else 0.
  uint64_t replaces = 0;
  CallCounts meanwhile;
  // All 0 if the checkpoint held the program until its end, and in earlier releases, which counted
  // only waits for buffers.
  Waits waits;
  std::vector<SavedReading> readings;
  // Bytes that were saved through the memory of another device of the process.
  uint64_t peer_bytes = 0;
  // Not 0: the program wrote this checkpoint by itself and reads it back by itself
  // (docs/history.md); it is no cut of a whole program. The number is unique within a run. `run` is
  // then the same for all ranks of a run.
  uint64_t program_write = 0;
  bool by_program() const { return program_write != 0; }
  // Bytes of its own extents that went from the device directly to a local tier, past host memory.
  uint64_t direct_bytes = 0;
  // With GPUSNAP_EVERY=auto: the choice at the cut. A restored run goes on with it.
  plan::ChosenInterval interval;
  // Not 0: it stayed in memory, as the n-th since one went to the store.
  uint64_t since_stored = 0;

  uint64_t bytes() const;      // of device memory at the cut
  uint64_t own_bytes() const;  // bytes of these in this manifest's own extents
};

// Returns whether two ranks' parts of one job and epoch can be of one checkpoint.
bool is_of_same_run(const Manifest& one, const Manifest& other);

// Returns the bytes of the file, with header, version and checksum.
std::vector<std::byte> encode(const Manifest& manifest);

// Parses arbitrary bytes and checks everything that can be checked without other files: checksum,
// version, every index in range, extents inside their ranges and segments, every byte of every
// range covered at most once, and exactly once if no parent can hold it, names without slashes or
// dot-dot. Returns kDamaged or kNewer otherwise.
Result<Manifest> decode_manifest(std::span<const std::byte> bytes);
// Decodes a manifest that must have no extents and segments yet. Everything else is checked.
Result<Manifest> decode_manifest_without_extents(std::span<const std::byte> bytes);

}  // namespace gpusnap
