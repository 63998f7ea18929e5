// A function of the C library by name and version, read from the library's own tables: for the one
// function that cannot be asked for, since asking is what it does.
#pragma once

namespace gpusnap {

// The function that libc.so.6, or libdl.so.2 before glibc 2.34, defines under exactly that version;
// null when there is none. Allocates nothing; any thread, any time.
void* find_libc_symbol(const char* name, const char* version);

}  // namespace gpusnap
