// The build-id: the stamp of linkers on each build of a program or library.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/manifest.h"
#include "tiers/status.h"

namespace gpusnap {

// The bytes of the build-id among the notes of an ELF file; empty: there is none.
std::string_view build_id_in(const char* notes, size_t bytes);

// A file's build-id in hexadecimal digits; empty if it has none, or is nothing that could have one.
Result<std::string> build_id_of_file(const std::string& path);

// The libraries that this process has loaded by now, without ours and the driver's, whose version
// is known otherwise. Takes the loader's lock for the time of the listing.
std::vector<SavedLibrary> loaded_libraries();

// "/lib/libx.so is another build", where the file of one of these is not what was loaded; " (and 3
// more)" where several are. Empty: they are as they were.
std::string changed_libraries(const std::vector<SavedLibrary>& libraries);

}  // namespace gpusnap
