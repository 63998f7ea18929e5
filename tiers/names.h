// What the folders and files of a store are called, and back.
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
bool is_temporary_manifest_name(std::string_view name);

struct SegmentName {
  uint32_t rank = 0;
  std::string run;
  uint32_t number = 0;
};
std::string segment_name(const SegmentName& segment);
std::optional<SegmentName> parse_segment_name(std::string_view name);

bool is_journal_name(std::string_view name);

}  // namespace gpusnap
