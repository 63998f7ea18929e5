// What program this process is: its file, arguments and folder, so that a checkpoint is never given
// to another one, and the name that ties its runs together.
#pragma once

#include <string>
#include <vector>

#include "interpose/services/settings.h"
#include "tiers/manifest.h"
#include "tiers/status.h"

namespace gpusnap {

// Of this process. Device and driver version are left empty.
Result<ProgramIdentity> identify_program();
// Of a program that is to be started: its file is read, the rest is taken as given.
Result<ProgramIdentity> identify_program(const std::string& path,
                                         std::vector<std::string> arguments, std::string folder);

// The scheduler's job name where there is one (SLURM_JOB_NAME, PBS_JOBNAME, LSB_JOBNAME), else the
// program's file name and a hash of the working folder: "solver-1f0c2a9b". Not sanitised.
std::string default_job_name(const std::string& program_path, const std::string& folder,
                             const char* const* environment);

// Empty where `now` may continue what `saved` was; else one line that names the difference and the
// way around it. The settings' force_* pass over a difference.
std::string difference_of(const ProgramIdentity& saved, const ProgramIdentity& now,
                          bool force_program, bool force_arguments);

}  // namespace gpusnap
