// SPDX-License-Identifier: Apache-2.0
#include "interpose/direct/direct_storage.h"

#include <utility>

#include "interpose/services/log.h"

namespace gpusnap {

namespace {
void tell(const Status& why) {
  log(LogLevel::kWarn, "snapshots do not go directly to GPUSNAP_SSD: ", why.message());
}
}  // namespace

bool DirectStorage::is_wanted(const Settings& settings) {
  return settings.direct != DirectUse::kOff && !settings.tiers.ssd.empty() &&
         settings.tiers.policy != PlacementPolicy::kCacheOnly && !settings.dirty_from_calls &&
         settings.compress.mode != CompressionSetting::Mode::kLevel;
}

std::unique_ptr<DirectStorage> DirectStorage::open(const Settings& settings, const char* library) {
  if (!is_wanted(settings)) return nullptr;
  std::unique_ptr<CuFile> loaded = CuFile::load(library);
  if (loaded == nullptr) return nullptr;
  if (const Status opened = loaded->open_driver(); !opened.ok()) {
    tell(opened);
    return nullptr;
  }
  return std::unique_ptr<DirectStorage>(
      new DirectStorage(std::move(loaded), settings.direct == DirectUse::kAlways));
}

void DirectStorage::begin(const Driver& driver, const Spawn& spawn) {
  const Join join = spawn([this, &driver] {
    for (;;) calls_.make_next(driver);
  });
  if (!join) fail({Code::kNoSpace, "there is no thread for it"});
}

void DirectStorage::fail(const Status& why) {
  if (!failed_.exchange(true, std::memory_order_acq_rel)) tell(why);
}

void DirectStorage::stop_calling(const std::string& path, std::chrono::seconds longest) {
  stopped_.store(true, std::memory_order_release);
  fail({Code::kIo, "cuFile has not returned from a call for " + path + " within " +
                       std::to_string(longest.count()) + " s; look whether that SSD responds"});
}

bool DirectStorage::chosen() const {
  if (!usable()) return false;
  if (always_) return true;
  const std::lock_guard lock(mutex_);
  return choice_.next() == SaveWay::kDirect;
}

void DirectStorage::ended(SaveWay way, uint64_t bytes, uint64_t ns) {
  const std::lock_guard lock(mutex_);
  choice_.ended(way, bytes, ns);
}

}  // namespace gpusnap
