// SPDX-License-Identifier: Apache-2.0
#include "tiers/daemon/node_lock.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tiers/daemon/runtime_folder.h"
#include "tiers/staging/memory.h"

namespace gpusnap {

namespace {

// Returns whether the path still leads to the open file, and not to a newer one.
bool is_at(const std::string& path, const Descriptor& file) {
  struct stat open {};
  struct stat named {};
  return ::fstat(file.get(), &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

}  // namespace

NodeLock::NodeLock(const std::string& node, const std::string& purpose)
    : makes_folder_(true),
      path_(runtime_folder() + "/" + StagingMemory::name_for(node) + "." + purpose) {}

NodeLock::NodeLock(std::string path) : makes_folder_(false), path_(std::move(path)) {}

// Removes the file while it is locked: another process that locks it after that finds that it is
// not at its path any more.
NodeLock::Held::~Held() {
  if (!file_.valid()) return;
  (void)::unlink(lock_.path_.c_str());
  if (lock_.makes_folder_) (void)::rmdir(runtime_folder().c_str());  // unless it has more in it
}

Result<std::optional<NodeLock::Held>> NodeLock::try_hold() const {
  auto file = lock_file();
  if (!file.ok()) return file.status();
  if (!file->valid()) return std::optional<Held>();
  return std::optional<Held>(std::in_place, *this, std::move(file.value()));
}

Result<Descriptor> NodeLock::lock_file() const {
  // Another holder may remove the file or the folder between any two steps.
  constexpr int kTries = 5;
  int error = 0;
  for (int i = 0; i < kTries; ++i) {
    if (makes_folder_) {
      if (Status made = make_runtime_folder(); !made.ok()) return made;
    }
    Descriptor file = out_of_the_way(open_descriptor(path_, O_RDWR | O_CREAT | O_NOFOLLOW));
    if (!file.valid()) {
      error = errno;
      if (error != ENOENT) break;
      continue;
    }
    if (::flock(file.get(), LOCK_EX | LOCK_NB) < 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return system_failed("lock", path_, errno);
      return Descriptor(-1);
    }
    if (is_at(path_, file)) return file;
  }
  if (error == 0 || error == ENOENT) return Descriptor(-1);
  return system_failed("make", path_, error);
}

}  // namespace gpusnap
