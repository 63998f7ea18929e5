// By what a process knows, before anything else of it is known, that it is the program of the
// checkpoint that is restored, and not one beside it: its file and its arguments.
#pragma once

#include <string>
#include <vector>

namespace gpusnap {

// Set by `gpusnap restore` to the mark of the program.
inline constexpr const char* kRestoredProgram = "GPUSNAP_RESTORE_PROGRAM";
// Set by `gpusnap restore` where the checkpoint is still on its way to the store, to how many
// seconds a process may wait for its part of it: 0 where that is in this node's memory for sure.
inline constexpr const char* kRestoredPending = "GPUSNAP_RESTORE_PENDING";
// Set by the tool to nothing in particular: the environment is to have the same size in each run.
inline constexpr const char* kPadding = "GPUSNAP_PADDING";
inline constexpr const char* kOneMore = "GPUSNAP_PADDING_COUNT";

// `path`: of the program's file, absolute, links resolved. How it was called does not matter.
std::string program_mark(const std::string& path, const std::vector<std::string>& arguments);
// The mark of this process.
std::string own_program_mark();

}  // namespace gpusnap
