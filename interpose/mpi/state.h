// State that other threads ask of the one that makes MPI calls (process.h), and the session asks of
// either. Any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "interpose/mpi/outcomes.h"
#include "interpose/services/ranks.h"

namespace gpusnap::mpi {

// As the launcher says it, or, after MPI_Init, the library.
Ranks ranks();
// `job_run`: Manifest::job_run of what this process saves from now on.
void set_ranks(const Ranks& ranks, uint64_t job_run);
uint64_t job_run();
// MPI_Init has been called.
bool initialised();

// Receives from anybody, and requests and calls with device memory, that have not been completed.
bool request_is_open();
void set_open_requests(size_t count);

// The program's act that cannot be repeated, be it before its first CUDA call; null: none.
const char* refused();
void set_refused(const char* what);  // lives for ever

// The outcome of MPI calls before there was a journal for it.
struct EarlyOutcome {
  std::string_view name;  // lives for ever
  uint64_t number = 0;
  Values values;
  uint64_t count = 1;
};
void keep_early(EarlyOutcome outcome);
bool has_early();
std::vector<EarlyOutcome> take_early();

}  // namespace gpusnap::mpi
