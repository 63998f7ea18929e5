#include "tools/simcuda/driver/stats.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace simcuda {

Stats* open_stats(const std::string& file, std::string* error) {
  static Stats uncounted;  // as long as the process, like a mapping
  if (file.empty()) return &uncounted;
  int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* memory = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, sizeof(Stats)) == 0) {
    memory = mmap(nullptr, sizeof(Stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  int reason = errno;
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) {
    *error = "SIMCUDA_STATS='" + file +
             "' cannot be written: " + std::generic_category().message(reason) +
             "; name a file in a folder that is writable";
    return nullptr;
  }
  // The kernel gives zeros or what an earlier process counted: either is a valid set of counters.
  return static_cast<Stats*>(memory);
}

}  // namespace simcuda
