// Launches as they were before CUDA 4: the block and the arguments are set beforehand, and kept by
// the driver. They are kept here, too: a snapshot must know what the kernel is given.

#include <cstring>

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/launches.h"

namespace gpusnap::handle {

namespace {
template <class F, class Note, class... A>
CUresult follow_setting(const Call<F>& call, CUfunction function, Note&& note, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(function, args...);
  hooked.key.add(hooked.model().modules.function(function));
  const CUresult result = hooked.record_or_repeat([&] { return call.real(function, args...); });
  if (result == CUDA_SUCCESS) note(hooked.model().legacy_launches[function]);
  return result;
}

void put(LegacyLaunch& launch, int offset, const void* value, size_t bytes) {
  const auto at = static_cast<size_t>(offset);
  if (launch.parameters.size() < at + bytes) launch.parameters.resize(at + bytes);
  std::memcpy(launch.parameters.data() + at, value, bytes);
}

template <class F, class... A>
CUresult follow_legacy_launch(const Call<F>& call, CUfunction function, unsigned width,
                              unsigned height, CUstream stream, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(function, args...);
  auto& launches = hooked.model().legacy_launches;
  const auto found = launches.find(function);
  auto real = [&] { return call.real(function, args...); };
  // Nothing has been set: then the driver has nothing to launch it with, but where it needs
  // nothing.
  static const LegacyLaunch nothing;
  const LegacyLaunch& set = found == launches.end() ? nothing : found->second;
  size_t bytes = std::min<size_t>(set.parameter_bytes, set.parameters.size());
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(set.parameters.data()),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  return follow_launch(hooked, function,
                       {width, height, 1, set.block_x, set.block_y, set.block_z, set.shared_bytes},
                       stream, {nullptr, extra}, real);
}
}  // namespace

CUresult legacy_shape(const Call<decltype(cuFuncSetBlockShape)>& call, CUfunction function, int x,
                      int y, int z) {
  return follow_setting(
      call, function,
      [&](LegacyLaunch& launch) {
        launch.block_x = static_cast<unsigned>(x);
        launch.block_y = static_cast<unsigned>(y);
        launch.block_z = static_cast<unsigned>(z);
      },
      x, y, z);
}

CUresult legacy_shape(const Call<decltype(cuFuncSetSharedSize)>& call, CUfunction function,
                      unsigned bytes) {
  return follow_setting(
      call, function, [&](LegacyLaunch& launch) { launch.shared_bytes = bytes; }, bytes);
}

CUresult legacy_parameters(const Call<decltype(cuParamSetSize)>& call, CUfunction function,
                           unsigned bytes) {
  return follow_setting(
      call, function, [&](LegacyLaunch& launch) { launch.parameter_bytes = bytes; }, bytes);
}

CUresult legacy_parameters(const Call<decltype(cuParamSeti)>& call, CUfunction function, int offset,
                           unsigned value) {
  return follow_setting(
      call, function, [&](LegacyLaunch& launch) { put(launch, offset, &value, sizeof value); },
      offset, value);
}

CUresult legacy_parameters(const Call<decltype(cuParamSetf)>& call, CUfunction function, int offset,
                           float value) {
  return follow_setting(
      call, function, [&](LegacyLaunch& launch) { put(launch, offset, &value, sizeof value); },
      offset, value);
}

CUresult legacy_parameters(const Call<decltype(cuParamSetv)>& call, CUfunction function, int offset,
                           void* value, unsigned bytes) {
  return follow_setting(
      call, function, [&](LegacyLaunch& launch) { put(launch, offset, value, bytes); }, offset,
      value, bytes);
}

CUresult legacy_launch(const Call<CUresult(CUfunction)>& call, CUfunction function) {
  return follow_legacy_launch(call, function, 1, 1, nullptr);
}

CUresult legacy_launch(const Call<CUresult(CUfunction, int, int)>& call, CUfunction function,
                       int width, int height) {
  return follow_legacy_launch(call, function, static_cast<unsigned>(width),
                              static_cast<unsigned>(height), nullptr, width, height);
}

CUresult legacy_launch(const Call<CUresult(CUfunction, int, int, CUstream)>& call,
                       CUfunction function, int width, int height, CUstream stream) {
  return follow_legacy_launch(call, function, static_cast<unsigned>(width),
                              static_cast<unsigned>(height), stream, width, height, stream);
}

}  // namespace gpusnap::handle
