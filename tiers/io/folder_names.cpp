// SPDX-License-Identifier: Apache-2.0
#include "tiers/io/folder_names.h"

#include <fcntl.h>

#include <string_view>

namespace gpusnap {

FolderNames::FolderNames(const std::string& folder)
    : folder_(open_descriptor(folder, O_RDONLY | O_DIRECTORY)),
      error_(folder_.valid() ? 0 : errno) {}

bool FolderNames::fill() {
  if (error_ != 0) return false;
  const ssize_t bytes = ::getdents64(folder_.get(), entries_.data(), entries_.size());
  if (bytes < 0) error_ = errno;
  filled_ = bytes > 0 ? static_cast<size_t>(bytes) : 0;
  at_ = 0;
  return filled_ > 0;
}

const char* FolderNames::next() {
  while (at_ < filled_ || fill()) {
    const auto* const entry = reinterpret_cast<const dirent64*>(entries_.data() + at_);
    at_ += entry->d_reclen;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") return entry->d_name;
  }
  return nullptr;
}

}  // namespace gpusnap
