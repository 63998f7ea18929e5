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

Status Staging::copy(const std::vector<Staged>& regions, bool to_device) {
  if (regions.empty()) return {};
  Status copied = copier_->follow_program();
  for (const Staged& each : regions) {
    if (!copied.ok()) break;
    std::byte* const to = to_device ? each.device : each.host;
    copied = copier_->copy(to, to_device ? each.host : each.device, each.bytes);
  }
  const Status finished = copier_->finish();
  return copied.ok() ? finished : copied;
}

}  // namespace gpusnap::veloc
