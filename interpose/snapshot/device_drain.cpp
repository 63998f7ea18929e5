// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/device_drain.h"

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "interpose/snapshot/device_lane.h"

namespace gpusnap {

CUstream DeviceDrain::stream() {
  const CUcontext context = model_.contexts.current();
  auto [it, added] = streams_.try_emplace(context, nullptr);
  if (added) (void)model_.driver.cuStreamCreate(&it->second, CU_STREAM_NON_BLOCKING);
  return it->second;
}

// By marks on every stream, never by synchronising the context, which could wait for ever on a
// kernel that waits for the host.
Status DeviceDrain::drain() {
  const Driver& driver = model_.driver;
  std::vector<std::pair<CUcontext, CUevent>> marks;
  Status status;
  for (auto& [context, all] : model_.contexts.streams()) {
    CurrentContext current(driver, context);
    // Waits for all threads' default streams: they are blocking ones, and cannot be named from
    // here.
    all.push_back(CU_STREAM_LEGACY);
    for (CUstream stream : all) {
      const CUevent mark = model_.contexts.take_mark(context);
      if (mark == nullptr) return {Code::kIo, "draining the device: the driver gives no event"};
      marks.emplace_back(context, mark);
      status = driver_status(driver, "draining the device", driver.cuEventRecord(mark, stream));
      if (!status.ok()) break;
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + limit_;
  for (size_t i = 0; i < marks.size() && status.ok();) {
    CurrentContext current(driver, marks[i].first);
    const CUresult result = driver.cuEventQuery(marks[i].second);
    if (result == CUDA_SUCCESS) {
      ++i;
    } else if (result != CUDA_ERROR_NOT_READY) {
      status = driver_status(driver, "draining the device", result);
    } else if (std::chrono::steady_clock::now() > deadline) {
      status = {Code::kBusy, "the device did not run empty within " +
                                 std::to_string(limit_.count() / 1'000'000) +
                                 " ms (GPUSNAP_DRAIN); it is tried again later"};
    } else {
      usleep(50);
    }
  }
  for (auto& [context, mark] : marks) model_.contexts.give_mark(context, mark);
  return status;
}

// The device is idle.
Status DeviceDrain::copy_arrays(Arrays::Direction direction) {
  Arrays& arrays = model_.arrays;
  Status status = arrays.make_copies();
  for (const CUcontext context : arrays.contexts()) {
    const CurrentContext current(model_.driver, context);
    if (status.ok()) status = arrays.move(direction, context, stream());
  }
  return status;
}

}  // namespace gpusnap
