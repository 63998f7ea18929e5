// The identity of this process's program: its file, arguments and folder, so that a checkpoint is
// never given to another one, and the name that ties its runs together.
#pragma once

#include <string>
#include <vector>

#include "interpose/services/settings.h"
#include "tiers/manifest.h"
#include "tiers/status.h"

namespace gpusnap {

// Identifies this process. Device and driver version are left empty.
Result<ProgramIdentity> identify_program();

// The lowest address at which the host's memory may lie, at most 4 GiB. An executable that is not
// position-independent, as some distributions' Python, lies far below that, and its heap after it.
uint64_t host_addresses_begin();
// Identifies a program that is to be started: its file is read, the rest is taken as given.
Result<ProgramIdentity> identify_program(const std::string& path,
                                         std::vector<std::string> arguments, std::string folder);

// The scheduler's job name where there is one (SLURM_JOB_NAME, PBS_JOBNAME, LSB_JOBNAME), else the
// program's file name and a hash of the working folder: "solver-1f0c2a9b". Not sanitised.
std::string default_job_name(const std::string& program_path, const std::string& folder,
                             const char* const* environment);
// The number that the scheduler gave this job, which it keeps when it is requeued (SLURM_JOB_ID,
// PBS_JOBID, LSB_JOBID and LSB_JOBINDEX, FLUX_JOB_ID); empty: there is no scheduler.
std::string scheduler_job_id(const char* const* environment);

// The comparisons of a restore. Each is empty if `now` may continue what `saved` was; else one line
// that names the difference and the way around it.
//
// The program's file and its arguments.
std::string program_difference(const ProgramIdentity& saved, const ProgramIdentity& now,
                               const AllowedDifferences& allowed);
// The files that it had read, as they are on this node.
std::string input_difference(const ProgramIdentity& saved, const AllowedDifferences& allowed);
// The devices. Facts that are not known of either are not compared.
std::string device_difference(const ProgramIdentity& saved, const ProgramIdentity& now,
                              const AllowedDifferences& allowed);
// A line for each change that may make a difference and is no reason not to begin. A change that
// has been told is then to be passed over. Only libraries that `saved` names are looked at.
std::vector<std::string> doubts(const ProgramIdentity& saved, const ProgramIdentity& now,
                                AllowedDifferences& allowed);

// "a NVIDIA H200 (compute capability 9.0, 143771 MiB)"; "12.4".
std::string text_of(const SavedDevice& device);
std::string version_text(uint32_t driver_version);

}  // namespace gpusnap
