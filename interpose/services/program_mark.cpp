#include "interpose/services/program_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "tiers/checksum.h"

namespace gpusnap {
namespace {

// `arguments`: each behind a zero byte, without the first.
std::string mark_of(std::string_view path, std::string_view arguments) {
  std::string all(path);
  all += arguments;
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016llx",
                static_cast<unsigned long long>(checksum(all)));
  return text.data();
}

}  // namespace

std::string program_mark(const std::string& path, const std::vector<std::string>& arguments) {
  std::string behind;
  for (size_t i = 1; i < arguments.size(); ++i) {
    behind += '\0';
    behind += arguments[i];
  }
  return mark_of(path, behind);
}

std::string own_program_mark() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (length <= 0 || file < 0) return {};
  std::string all;
  std::array<char, 4096> piece;
  for (ssize_t got; (got = read(file, piece.data(), piece.size())) > 0;) {
    all.append(piece.data(), static_cast<size_t>(got));
  }
  close(file);
  // Each ends with a zero byte there.
  if (!all.empty()) all.pop_back();
  const size_t first_end = std::min(all.find('\0'), all.size());
  return mark_of({path.data(), static_cast<size_t>(length)},
                 std::string_view(all).substr(first_end));
}

}  // namespace gpusnap
