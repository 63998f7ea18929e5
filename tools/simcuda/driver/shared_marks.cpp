#include "tools/simcuda/driver/shared_marks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tools/simcuda/driver/virtual_clock.h"

namespace simcuda {
namespace {

constexpr auto kPoll = std::chrono::microseconds(50);

}  // namespace

std::shared_ptr<SharedMarks> SharedMarks::make() {
  const int fd = memfd_create("simcuda-event", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  if (ftruncate(fd, kBytes) == 0) return of_file(fd);
  close(fd);
  return nullptr;
}

std::shared_ptr<SharedMarks> SharedMarks::of_file(int fd) {
  void* page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page != MAP_FAILED) {
    return std::shared_ptr<SharedMarks>(new SharedMarks(fd, static_cast<Page*>(page)));
  }
  close(fd);
  return nullptr;
}

SharedMarks::~SharedMarks() {
  munmap(page_, kBytes);
  close(fd_);
}

void SharedMarks::reach(uint64_t number) {
  uint64_t before = page_->reached;
  while (before < number && !page_->reached.compare_exchange_weak(before, number)) {
  }
}

// Time passes meanwhile.
void SharedMarks::rest(VirtualClock* clock) {
  if (clock != nullptr) clock->release();
  std::this_thread::sleep_for(kPoll);
  if (clock != nullptr) clock->hold();
}

}  // namespace simcuda
