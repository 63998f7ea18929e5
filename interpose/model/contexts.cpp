// SPDX-License-Identifier: Apache-2.0
#include "interpose/model/contexts.h"

#include <algorithm>

namespace gpusnap {

CUcontext Contexts::current() const {
  CUcontext context = nullptr;
  (void)driver_.cuCtxGetCurrent(&context);
  return context;
}

bool Contexts::add(CUcontext context, CUdevice device) {
  const auto [entry, added] = known_.try_emplace(context);
  if (!added) return false;
  entry->second.number = added_++;
  entry->second.device = device;
  return true;
}

void Contexts::forget(CUcontext context) {
  known_.erase(context);
  marks_.erase(context);
}

uint32_t Contexts::number_of(CUcontext context) const {
  const auto found = known_.find(context);
  return found == known_.end() ? 0 : found->second.number;
}

std::optional<CUdevice> Contexts::device_of(CUcontext context) const {
  const auto found = known_.find(context);
  if (found == known_.end()) return std::nullopt;
  return found->second.device;
}

CUcontext Contexts::with_number(uint32_t number) const {
  for (const auto& [context, known] : known_) {
    if (known.number == number) return context;
  }
  return nullptr;
}

CUcontext Contexts::on_device(CUdevice device) const {
  const auto own = known_.find(current());
  if (own != known_.end() && own->second.device == device) return own->first;
  CUcontext first = nullptr;
  for (const auto& [context, known] : known_) {
    if (known.device != device) continue;
    if (first == nullptr || known.number < number_of(first)) first = context;
  }
  return first;
}

std::vector<KnownContext> Contexts::by_number() const {
  std::vector<KnownContext> contexts;
  for (const auto& [context, known] : known_) contexts.push_back({context, known.number});
  std::ranges::sort(contexts, {}, &KnownContext::number);
  return contexts;
}

uint64_t Contexts::key_of(CUcontext context) const {
  const auto found = known_.find(context);
  return found == known_.end() ? 0 : (uint64_t{found->second.number} + 1) << 16;
}

CUcontext Contexts::primary(CUdevice device) const {
  const auto found = primary_.find(device);
  return found == primary_.end() ? nullptr : found->second;
}

void Contexts::add_stream(CUstream stream) {
  const auto found = known_.find(current());
  if (found != known_.end()) found->second.streams.insert(stream);
}

void Contexts::remove_stream(CUstream stream) {
  for (auto& [context, known] : known_) known.streams.erase(stream);
  end_capture(stream);
}

std::map<CUcontext, std::vector<CUstream>> Contexts::streams() const {
  std::map<CUcontext, std::vector<CUstream>> all;
  for (const auto& [context, known] : known_) all[context] = streams_of(context);
  return all;
}

std::vector<CUstream> Contexts::streams_of(CUcontext context) const {
  const auto found = known_.find(context);
  if (found == known_.end()) return {};
  return {found->second.streams.begin(), found->second.streams.end()};
}

void Contexts::end_capture(CUstream stream) {
  const auto found = captures_.find(stream);
  if (found != captures_.end()) captures_.erase(found);
}

bool Contexts::is_captured(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver_.cuStreamIsCapturing != nullptr &&
         driver_.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUevent Contexts::take_mark(CUcontext context) {
  std::vector<CUevent>& spare = marks_[context];
  if (!spare.empty()) {
    const CUevent mark = spare.back();
    spare.pop_back();
    return mark;
  }
  const CurrentContext made_current(driver_, context);
  CUevent mark = nullptr;
  if (driver_.cuEventCreate(&mark, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) return nullptr;
  return mark;
}

ProgramWork Contexts::work_of(CUcontext context) {
  const CUcontext now = current();
  ProgramWork work;
  if (!is_known(now)) return work;
  if (context != nullptr && context != now) return work;
  // With a capture open it is an error, which is the driver's to tell.
  if (is_capturing()) return work;
  const CUevent mark = take_mark(now);
  if (mark == nullptr) return work;
  if (driver_.cuEventRecord(mark, CU_STREAM_LEGACY) == CUDA_SUCCESS) {
    work.legacy = mark;
    work.streams = streams_of(now);
  } else {
    give_mark(now, mark);
  }
  return work;
}

bool ProgramWork::finish(const Driver& driver) const {
  if (legacy == nullptr) return false;
  for (CUstream stream : streams) {
    if (driver.cuStreamSynchronize(stream) != CUDA_SUCCESS) return false;
  }
  return driver.cuEventSynchronize(legacy) == CUDA_SUCCESS;
}

}  // namespace gpusnap
