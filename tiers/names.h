// SPDX-License-Identifier: Apache-2.0
// Makes and parses the names of a store's folders and files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpusnap {

// At most 18 decimal digits, no leading zero.
std::optional<uint64_t> parse_number(std::string_view text);

// Whether it is what sanitise_job() makes.
bool is_job_folder(const std::string& name);

// 1 to 64 letters and digits.
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

// Beside a part's segments while it is written: where its blocks lie (backend/block_log.h), and its
// chunks on a local tier. Numbered as segments are.
std::string block_log_name(const SegmentName& log);
std::optional<SegmentName> parse_block_log_name(std::string_view name);
std::string chunk_name(const SegmentName& chunk);
std::optional<SegmentName> parse_chunk_name(std::string_view name);
// Returns the rank of a part's file that counts only if a manifest names it: a segment, a manifest
// that is being written, or a block log.
std::optional<uint32_t> rank_of_part_file(std::string_view name);

// Returns this user's folder on a local device, which holds chunks, by backend, and calibrations.
// It lies beside those of others, so that nobody needs a folder that another one has made.
std::string user_folder(const std::string& ssd_folder);

// Held while a rank's parts of this job are merged.
std::string merge_lock_name(uint32_t rank);

bool is_journal_name(std::string_view name);

}  // namespace gpusnap
