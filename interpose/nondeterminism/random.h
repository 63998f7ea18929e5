// The devices that give random bytes: what is read from them is noted, and in a replay given again
// (value_log.h).
#pragma once

#include <cstdio>

namespace gpusnap::nondeterminism {

// The program has opened `path` as `descriptor` for reading.
void note_random_device(int descriptor, const char* path);
// The file that fopen is to give for it, read by us: the C library's own reads past our exports.
// Null: a file as any other.
FILE* open_random_device(const char* path, const char* mode);

}  // namespace gpusnap::nondeterminism
