// Which rank of a job this process is, as its launcher says it in the environment. The word of the
// MPI library, once it is initialised, counts more (interpose/mpi).
#pragma once

#include <cstdint>

namespace gpusnap {

struct Ranks {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  uint32_t local = 0;  // among those on this node
  bool operator==(const Ranks&) const = default;
};

// Open MPI, Hydra (MPICH and what descends from it), Slurm's srun. One rank where none of them
// speaks, or one contradicts itself. `environment`: as environ has it.
Ranks ranks_from_launcher(const char* const* environment);

// How many of them are on this node: all of the job's where the launcher does not say.
uint32_t ranks_on_node(const char* const* environment);

}  // namespace gpusnap
