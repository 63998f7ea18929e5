// The devices that give random bytes: what is read from them is noted, and in a replay given again
// (series.h).
#pragma once

#include <cstdio>

namespace gpusnap::outside {

// The program has opened `path` as `descriptor` for reading.
void note_random_device(int descriptor, const char* path);
// The same as a file of the C library's, which reads by itself, and ahead: what it reads first is
// put into its buffer. No more of it is followed.
void note_random_device(FILE* file, const char* path);

}  // namespace gpusnap::outside
