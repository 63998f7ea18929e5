// SPDX-License-Identifier: Apache-2.0
#include "tiers/manifest_file.h"

#include <algorithm>
#include <span>
#include <vector>

#include "tiers/chain.h"
#include "tiers/format.h"
#include "tiers/names.h"
#include "tiers/store.h"

namespace gpusnap {

namespace {

// FlatBuffers end at 2 GiB.
constexpr uint64_t kMostManifestBytes = (uint64_t{2} << 30) + kManifestHeaderBytes;

// The header is checked before memory is taken for the rest.
Result<StoredManifest> read_file(FileSystem& files, const std::string& path) {
  const Result<std::unique_ptr<ReadableFile>> file = files.open(path);
  if (!file.ok()) return file.status();
  const uint64_t size = file.value()->size();
  if (size > kMostManifestBytes) return Status(Code::kDamaged, "it is longer than it can be");
  std::vector<std::byte> bytes(std::min<uint64_t>(size, kManifestHeaderBytes));
  if (Status read = file.value()->read(0, bytes); !read.ok()) return read;
  const Result<ManifestHeader> header = decode_manifest_header(bytes);
  if (!header.ok()) return header.status();
  if (size - kManifestHeaderBytes == header->body_bytes) {
    bytes.resize(size);
    const auto body = std::span(bytes).subspan(kManifestHeaderBytes);
    if (Status read = file.value()->read(kManifestHeaderBytes, body); !read.ok()) return read;
  }
  Result<Manifest> manifest = decode_manifest(bytes);
  if (!manifest.ok()) return manifest.status();
  return StoredManifest{std::move(manifest.value()), header->body_checksum};
}

}  // namespace

Result<StoredManifest> read_manifest(FileSystem& files, const std::string& job_folder,
                                     const std::string& job, uint64_t epoch, uint32_t rank) {
  const std::string path = job_folder + "/" + epoch_folder(epoch) + "/" + manifest_name(rank);
  const auto unusable = [&path](const Status& why) {
    return Status(why.code(), "manifest " + path + " cannot be used: " + why.message());
  };
  Result<StoredManifest> read = read_file(files, path);
  if (!read.ok()) return unusable(read.status());
  const Manifest& manifest = read->manifest;
  if (manifest.epoch != epoch || manifest.rank != rank || sanitise_job(manifest.job) != job) {
    return unusable({Code::kDamaged, "it is that of another checkpoint"});
  }
  return read;
}

Status read_chain(FileSystem& files, const JobPlace& job, std::vector<Manifest>& chain) {
  while (chain.back().parent != 0) {
    const Manifest& child = chain.back();
    Result<StoredManifest> parent =
        read_manifest(files, job.folder, job.folder_name, child.parent, child.rank);
    if (!parent.ok()) return parent.status();
    Status linked = check_link(child, parent->manifest, parent->checksum);
    if (!linked.ok()) return linked;
    chain.push_back(std::move(parent->manifest));
    if (Status fits = check_length(chain.front(), chain.size() - 1); !fits.ok()) return fits;
  }
  return {};
}

Status link_to_parent(FileSystem& files, const JobPlace& job, Manifest& manifest) {
  if (manifest.parent == 0) return {};
  Result<StoredManifest> parent =
      read_manifest(files, job.folder, job.folder_name, manifest.parent, manifest.rank);
  const auto unusable = [](const Status& why) {
    return Status(why.code(), "its parent cannot be used: " + why.message());
  };
  if (!parent.ok()) return unusable(parent.status());
  manifest.parent_checksum = parent->checksum;
  if (Status good = check_link(manifest, parent->manifest, parent->checksum); !good.ok()) {
    return good;
  }
  std::vector<Manifest> ancestors;
  ancestors.push_back(std::move(parent->manifest));
  if (Status chained = read_chain(files, job, ancestors); !chained.ok()) return unusable(chained);
  manifest.chain = static_cast<uint32_t>(ancestors.size());
  return {};
}

}  // namespace gpusnap
