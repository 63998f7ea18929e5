// SPDX-License-Identifier: Apache-2.0
#include "tools/veloc/staging.h"

#include <utility>

namespace gpusnap::veloc {

Result<std::unique_ptr<Staging>> Staging::create(std::unique_ptr<Memory> device) {
  Result<std::unique_ptr<Copier>> copier = device->copier();
  if (!copier.ok()) return copier.status();
  return std::unique_ptr<Staging>(new Staging(std::move(device), std::move(copier.value())));
}

Staging::Staged Staging::stage(int id, std::byte* device, uint64_t bytes) {
  std::vector<std::byte>& host = host_[id];
  if (host.size() < bytes) host.resize(bytes);
  return {device, host.data(), bytes};
}

Status Staging::copy_to_host(const std::vector<Staged>& regions) {
  if (regions.empty()) return {};
  Status copied = copier_->follow_program();
  for (size_t i = 0; i < regions.size() && copied.ok(); ++i) {
    copied = copier_->copy(regions[i].host, regions[i].device, regions[i].bytes);
  }
  const Status finished = copier_->finish();
  return copied.ok() ? finished : copied;
}

Status Staging::copy_to_device(const std::vector<Staged>& regions) {
  if (regions.empty()) return {};
  Status copied = copier_->follow_program();
  for (size_t i = 0; i < regions.size() && copied.ok(); ++i) {
    copied = copier_->copy(regions[i].device, regions[i].host, regions[i].bytes);
  }
  const Status finished = copier_->finish();
  return copied.ok() ? finished : copied;
}

}  // namespace gpusnap::veloc
