#include "interpose/services/ranks.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace gpusnap {

namespace {

// A launcher's names of a rank, the number of ranks, the rank among those on its node, and the
// number of those.
struct Names {
  std::string_view rank, ranks, local, locals;
};
// A batch script of Slurm's has SLURM_PROCID, too, but is no rank: the number of a step's tasks is
// what srun alone sets.
constexpr Names kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
};

// Slurm tells of all nodes in one text: "4(x2),3". The first node's number is all that is read of
// it.
bool is_list(std::string_view rest) {
  return rest.starts_with('(') || rest.starts_with(',');
}

std::optional<uint32_t> number_of(std::string_view name, const char* const* environment) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (!entry.starts_with(name) || entry.size() <= name.size() || entry[name.size()] != '=') {
      continue;
    }
    const std::string_view text = entry.substr(name.size() + 1);
    uint32_t number = 0;
    const char* const past = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), past, number);
    if (error != std::errc() || (end != past && !is_list({end, past}))) return std::nullopt;
    return number;
  }
  return std::nullopt;
}

std::optional<Ranks> ranks_by(const Names& names, const char* const* environment) {
  const auto rank = number_of(names.rank, environment);
  const auto ranks = number_of(names.ranks, environment);
  if (!rank || !ranks || *rank >= *ranks) return std::nullopt;
  return Ranks{*rank, *ranks, number_of(names.local, environment).value_or(0)};
}

}  // namespace

Ranks ranks_from_launcher(const char* const* environment) {
  for (const Names& names : kLaunchers) {
    if (const auto ranks = ranks_by(names, environment)) return *ranks;
  }
  return {};
}

uint32_t ranks_on_node(const char* const* environment) {
  for (const Names& names : kLaunchers) {
    const auto ranks = ranks_by(names, environment);
    if (!ranks) continue;
    return std::clamp(number_of(names.locals, environment).value_or(ranks->ranks), 1U,
                      ranks->ranks);
  }
  return 1;
}

}  // namespace gpusnap
