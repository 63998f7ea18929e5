// SPDX-License-Identifier: Apache-2.0
#include "tiers/io/system_call.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace gpusnap {

namespace {

constexpr mode_t kFileMode = 0600;

Code code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case ENOSPC:
    case EDQUOT:
      return Code::kNoSpace;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermission;
    case EEXIST:
      return Code::kInvalid;
    default:
      return Code::kIo;
  }
}

const char* advice_for(Code code) {
  switch (code) {
    case Code::kNoSpace:
      return "; free space there or choose another folder";
    case Code::kPermission:
      return "; change its permissions or choose another folder";
    default:
      return "";
  }
}

}  // namespace

Status system_failed(const char* what, const std::string& path, int error) {
  std::array<char, 128> buffer{};
  const char* reason = strerror_r(error, buffer.data(), buffer.size());
  const Code code = code_of(error);
  return {code, std::string("cannot ") + what + " " + path + ": " + reason + advice_for(code)};
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Descriptor open_descriptor(const std::string& path, int flags) {
  return Descriptor(
      uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, kFileMode); }));
}

Descriptor out_of_the_way(Descriptor low) {
  constexpr rlim_t kHighest = 1 << 16;  // the system's table of them grows with the number
  constexpr rlim_t kOurs = 512;
  rlimit limit = {};
  if (!low.valid() || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return low;
  const rlim_t end = std::min(limit.rlim_cur, kHighest);
  Descriptor high(
      ::fcntl(low.get(), F_DUPFD_CLOEXEC, static_cast<int>(end - std::min(end / 2, kOurs))));
  return high.valid() ? std::move(high) : std::move(low);
}

Result<OpenedFile> open_to_read(const std::string& path) {
  // Not blocking: a pipe of that name must not hang us.
  Descriptor file = open_descriptor(path, O_RDONLY | O_NONBLOCK);
  if (!file.valid()) return system_failed("open", path, errno);
  struct stat about {};
  if (::fstat(file.get(), &about) < 0) return system_failed("open", path, errno);
  if (!S_ISREG(about.st_mode)) {
    return Status(Code::kDamaged, "cannot open " + path + ": it is not a file");
  }
  return OpenedFile{std::move(file), static_cast<uint64_t>(about.st_size)};
}

Status file_ended(const std::string& path, uint64_t end, uint64_t wanted) {
  return {Code::kDamaged, "cannot read " + path + ": it ends at byte " + std::to_string(end) +
                              ", " + std::to_string(wanted - end) + " bytes too early"};
}

}  // namespace gpusnap
