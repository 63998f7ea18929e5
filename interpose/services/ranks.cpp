#include "interpose/services/ranks.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace gpusnap {

namespace {

// What a launcher calls a rank, their number, and the rank among those on its node.
struct Names {
  std::string_view rank, ranks, local;
};
// A batch script of Slurm's has SLURM_PROCID, too, but is no rank: the number of a step's tasks is
// what srun alone sets.
constexpr Names kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

std::optional<uint32_t> number_of(std::string_view name, const char* const* environment) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (!entry.starts_with(name) || entry.size() <= name.size() || entry[name.size()] != '=') {
      continue;
    }
    const std::string_view text = entry.substr(name.size() + 1);
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
  }
  return std::nullopt;
}

}  // namespace

Ranks ranks_from_launcher(const char* const* environment) {
  for (const Names& names : kLaunchers) {
    const auto rank = number_of(names.rank, environment);
    const auto ranks = number_of(names.ranks, environment);
    if (!rank || !ranks || *rank >= *ranks) continue;
    return {*rank, *ranks, number_of(names.local, environment).value_or(0)};
  }
  return {};
}

}  // namespace gpusnap
