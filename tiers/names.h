// SPDX-License-Identifier: Apache-2.0
// Makes and parses the names of a store's folders and files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnap {

// Parses a number of at most 18 decimal digits without a leading zero.
std::optional<uint64_t> parse_number(std::string_view text);

// Returns whether `name` is a possible result of sanitise_job().
bool is_job_folder(const std::string& name);

// Returns whether `run` consists of 1 to 64 letters and digits.
bool is_run(std::string_view run);

std::string epoch_folder(uint64_t epoch);
std::optional<uint64_t> parse_epoch_folder(std::string_view name);

std::string manifest_name(uint32_t rank);
std::optional<uint32_t> parse_manifest_name(std::string_view name);
std::string temporary_manifest_name(uint32_t rank, const std::string& run);
std::optional<uint32_t> parse_temporary_manifest_name(std::string_view name);  // the rank

struct SegmentName {
  uint32_t rank = 0;
  std::string run;
  uint32_t number = 0;
};
std::string segment_name(const SegmentName& segment);
std::optional<SegmentName> parse_segment_name(std::string_view name);

// Files of a part that is being written: its block logs (backend/block_log.h) and its chunks on
// local tiers. Their names are numbered like those of segments.
std::string block_log_name(const SegmentName& log);
std::optional<SegmentName> parse_block_log_name(std::string_view name);
std::string chunk_name(const SegmentName& chunk);
std::optional<SegmentName> parse_chunk_name(std::string_view name);
// Returns the rank if the name is of a file that is valid only if a manifest names it: a segment, a
// manifest that is being written, or a block log.
std::optional<uint32_t> rank_of_part_file(std::string_view name);

// Returns this user's folder on a local device, which holds chunks, by backend, and calibrations.
// Each user has a folder, so that no user depends on a folder that another one has made.
std::string user_folder(const std::string& ssd_folder);

// The name of the lock that is held while a rank's parts of the job are merged.
std::string merge_lock_name(uint32_t rank);

bool is_journal_name(std::string_view name);

}  // namespace gpusnap
