// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/output_target.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace gpusnap {
namespace {

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

OutputTarget::OutputTarget(FileSystem& files, std::string path, Kind kind, bool replaces)
    : files_(files), path_(without_slashes(std::move(path))), kind_(kind), replaces_(replaces) {}

OutputTarget::~OutputTarget() {
  if (partial_.empty()) return;
  for (const std::string& name : names_) {
    (void)files_.remove(kind_ == Kind::kFile ? partial_ : partial_ + "/" + name);
  }
  if (kind_ == Kind::kFolder) (void)files_.remove_folder(partial_);
}

std::string OutputTarget::parent() const {
  const size_t slash = path_.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path_.substr(0, slash);
}

Status OutputTarget::begin() {
  const std::string name = last_part(path_);
  if (name.empty() || name == "." || name == "..") {
    return {Code::kInvalid, path_ + " is there already; give another --to"};
  }
  const Result<std::vector<FolderEntry>> entries = files_.entries(parent());
  if (!entries.ok()) return entries.status();
  const auto found = std::ranges::find(entries.value(), name, &FolderEntry::name);
  is_there_ = found != entries->end();
  if (is_there_ && !replaces_) {
    return {Code::kInvalid, path_ + " is there already; give another --to, or --force"};
  }
  if (is_there_ && found->is_folder != (kind_ == Kind::kFolder)) {
    return {Code::kInvalid, path_ + (found->is_folder ? " is a folder" : " is a file") +
                                " and cannot be replaced; give another --to"};
  }
  partial_ = parent() + "/." + name + "." + std::to_string(::getpid()) + ".partial";
  return kind_ == Kind::kFolder ? files_.make_folder(partial_) : Status();
}

std::string OutputTarget::begin_file(const std::string& name) {
  names_.push_back(name);
  return kind_ == Kind::kFile ? partial_ : partial_ + "/" + name;
}

Status OutputTarget::finish_folder() {
  if (Status synced = files_.sync_folder(partial_); !synced.ok()) return synced;
  if (!is_there_) return files_.rename(partial_, path_);
  while (!names_.empty()) {
    const std::string& name = names_.back();
    Status moved = files_.replace(partial_ + "/" + name, path_ + "/" + name);
    if (!moved.ok()) return moved;
    names_.pop_back();
  }
  if (Status synced = files_.sync_folder(path_); !synced.ok()) return synced;
  return files_.remove_folder(partial_);
}

Status OutputTarget::finish() {
  Status named = kind_ == Kind::kFolder ? finish_folder()
                 : is_there_            ? files_.replace(partial_, path_)
                                        : files_.rename(partial_, path_);
  if (!named.ok()) return named;
  partial_.clear();
  return files_.sync_folder(parent());
}

}  // namespace gpusnap
