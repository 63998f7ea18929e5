// A symbol of a loaded library by name and version, read from the library itself: for the one
// function that cannot be asked for, since asking is what it does.
#pragma once

namespace gpusnap {

// The function of that name whose definition carries exactly that version, in the first loaded
// library that has one; null when there is none. Allocates nothing; any thread, any time.
void* find_loaded_symbol(const char* name, const char* version);

}  // namespace gpusnap
