// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/notes.h"

#include <cstdio>

#include "tiers/checksum.h"
#include "tiers/names.h"

namespace gpusnap::levels {

namespace {

constexpr std::string_view kNoteSuffix = ".part";
constexpr uint64_t kMostNoteBytes = 64 << 10;

}  // namespace

Notes::Notes(FileSystem& files, const std::string& ssd_folder)
    : files_(files), folder_(user_folder(ssd_folder) + "/levels") {}

std::string Notes::path_of(const CheckpointText& part) const {
  char name[17];
  (void)std::snprintf(name, sizeof name, "%016llx",
                      static_cast<unsigned long long>(checksum(encode(part))));
  return folder_ + "/" + name + std::string(kNoteSuffix);
}

Status Notes::add(const CheckpointText& part) {
  const std::string path = path_of(part);
  if (files_.open(path).ok()) return {};
  if (Status made = files_.make_folder(folder_); !made.ok()) return made;
  const std::string text = encode(part);
  const std::string temporary = path + ".tmp";
  (void)files_.remove(temporary);
  auto file = files_.create(temporary);
  if (!file.ok()) return file.status();
  if (Status put = file.value()->append(std::as_bytes(std::span(text))); !put.ok()) return put;
  if (Status synced = file.value()->sync(); !synced.ok()) return synced;
  return files_.replace(temporary, path);
}

void Notes::remove(const CheckpointText& part) {
  (void)files_.remove(path_of(part));
}

std::vector<CheckpointText> Notes::all() const {
  std::vector<CheckpointText> parts;
  const auto entries = files_.entries(folder_);
  if (!entries.ok()) return parts;
  for (const FolderEntry& entry : entries.value()) {
    if (entry.is_folder || !entry.name.ends_with(kNoteSuffix)) continue;
    const auto file = files_.open(folder_ + "/" + entry.name);
    if (!file.ok() || file.value()->size() > kMostNoteBytes) continue;
    std::string text(file.value()->size(), '\0');
    if (!file.value()->read(0, std::as_writable_bytes(std::span(text))).ok()) continue;
    auto part = parse_checkpoint(text);
    if (part.ok()) parts.push_back(std::move(part.value()));
  }
  return parts;
}

}  // namespace gpusnap::levels
