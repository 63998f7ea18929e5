#include "interpose/services/inputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "tiers/checksum.h"

namespace gpusnap {
namespace {

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

struct Look {
  int error = 0;
  uint64_t size = 0;
  int64_t modified_ns = 0;
};

Look look_at(const std::string& path) {
  struct stat now = {};
  if (stat(path.c_str(), &now) != 0) return {errno, 0, 0};
  return {0, static_cast<uint64_t>(now.st_size), nanoseconds(now.st_mtim)};
}

// Sums exactly `size` bytes; false if the file has another size, or cannot be read.
bool sum_file(const std::string& path, uint64_t size, uint64_t& sum) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::vector<std::byte> bytes(size + 1);
  size_t used = 0;
  ssize_t got = 1;
  while (got > 0 && used < bytes.size()) {
    got = read(file, bytes.data() + used, bytes.size() - used);
    if (got > 0) used += static_cast<size_t>(got);
    if (got < 0 && errno == EINTR) got = 1;
  }
  close(file);
  if (got < 0 || used != size) return false;
  sum = checksum(std::span(bytes).first(size));
  return true;
}

// Says how the file has changed; empty: it is as it was.
std::string change_of(const InputFile& input) {
  const Look now = look_at(input.path);
  if (now.error == ENOENT || now.error == ENOTDIR) return " is not there";
  if (now.error != 0) return std::string(" cannot be read: ") + strerrordesc_np(now.error);
  if (now.size != input.size) {
    return " has " + std::to_string(now.size) + " bytes, not " + std::to_string(input.size);
  }
  if (!input.has_checksum) return now.modified_ns == input.modified_ns ? "" : " was written since";
  uint64_t sum = 0;
  if (!sum_file(input.path, input.size, sum)) return " cannot be read";
  return sum == input.checksum ? "" : " has another content";
}

}  // namespace

uint64_t add_checksum(InputFile& input, uint64_t most) {
  if (input.size > std::min(most, kLargestSummedInput)) return 0;
  const auto unchanged = [&] {
    const Look now = look_at(input.path);
    return now.error == 0 && now.size == input.size && now.modified_ns == input.modified_ns;
  };
  uint64_t sum = 0;
  if (!unchanged() || !sum_file(input.path, input.size, sum) || !unchanged()) return 0;
  input.checksum = sum;
  input.has_checksum = true;
  return input.size;
}

std::string changed_inputs(const std::vector<InputFile>& inputs) {
  std::string first;
  size_t more = 0;
  for (const InputFile& input : inputs) {
    const std::string change = change_of(input);
    if (change.empty()) continue;
    if (first.empty()) {
      first = input.path + change;
    } else {
      ++more;
    }
  }
  return more == 0 ? first : first + " (and " + std::to_string(more) + " more)";
}

}  // namespace gpusnap
