// Files that the program has opened for reading: what a restore must find again as it was.
//
// Noted from the start of the process, whether it is ever followed or not, since programs read
// their input before they use CUDA: two or three system calls for each such call, in memory of our
// own that is touched as far as it is used. A missed file does no harm: it is not compared. Not
// noted are files of the system and those below folders of the program's own checkpoints, what has
// changed since the process began (it is the program's own work, or that of a program beside it),
// what others than the program open (the driver, MPI, we), and what there is no room for.
//
// Usable in any thread at any time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpusnap {

struct ReadFile {
  const char* path = nullptr;  // absolute
  uint64_t size = 0;
  int64_t modified_ns = 0;  // since 1970
};

// The calling thread has just opened `path` for reading, from the folder `folder` on (AT_FDCWD: the
// working folder), as `descriptor`. Keeps errno.
void note_opened(int descriptor, int folder, const char* path);
// The standard input, where it is a file.
void note_standard_input();
// Files that are opened below `folder`, an absolute path, are not noted from now on: the program
// keeps checkpoints of its own there. False: there is no room for another folder.
bool pass_over_folder(const char* folder);
// No more are noted.
void stop_noting_opened();

// So many have been noted, numbered in the order in which they were opened.
size_t opened_files();
ReadFile opened_file(size_t number);

}  // namespace gpusnap
