#include "tiers/io/system_call.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
