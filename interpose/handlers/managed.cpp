// Where managed memory is to lie, and which of it nobody needs. Its bytes are state of the host's:
// moving them changes nothing, discarding them is like writing something.

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/places.h"

namespace gpusnap::handle {

namespace {
uint64_t hash_of(DeviceModel& model, const CUdeviceptr* addresses, const size_t* sizes,
                 size_t count) {
  uint64_t hash = count;
  if (addresses == nullptr || sizes == nullptr) return hash;
  for (size_t i = 0; i < count; ++i) mix(hash, {model.known(addresses[i]), sizes[i]});
  return hash;
}

template <class F, class... A>
CUresult follow_discard(const Call<F>& call, CUdeviceptr* addresses, size_t* sizes, size_t count,
                        CUstream stream, A... args) {
  auto real = [&] { return call.real(addresses, sizes, count, args...); };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  const CUstream on = hooked.stream(stream);
  hooked.key.add(hash_of(hooked.model(), addresses, sizes, count));
  const size_t given = addresses == nullptr || sizes == nullptr ? 0 : count;
  bool pageable = false;
  hooked.writes.add_nothing();
  for (size_t i = 0; i < given; ++i) {
    pageable = pageable || side_of(hooked.model(), addresses[i]) == Side::kHost;
    hooked.writes.add(addresses[i], sizes[i]);
  }
  if (pageable) {
    return hooked.record_or_refuse(std::string(name_of(call.hook.id)) + " of pageable memory",
                                   real);
  }
  HostWrite* const write = hooked.captured() ? nullptr : hooked.host_updates().begin_write(on);
  const CUresult result = hooked.record_or_skip([&] {
    const CUresult discarded = real();
    if (write != nullptr) write->mark(hooked.driver(), discarded, on);
    return discarded;
  });
  if (hooked.replaying()) return result;
  for (size_t i = 0; i < given; ++i) {
    WriteSet one;
    one.add(addresses[i], sizes[i]);
    hooked.host_updates().may_write(one, write);
  }
  hooked.host_updates().end_write(write);
  return result;
}
}  // namespace

CUresult prefetch(const Call<decltype(cuMemPrefetchAsync)>& call, CUdeviceptr address, size_t size,
                  CUdevice device, CUstream stream) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(address, size, device, stream);
  (void)hooked.stream(stream);
  hooked.key.add(hooked.model().known(address), size, static_cast<uint64_t>(device));
  return hooked.record_or_skip([&] { return call.real(address, size, device, stream); });
}

CUresult prefetch(const Call<decltype(cuMemPrefetchAsync_v2)>& call, CUdeviceptr address,
                  size_t size, CUmemLocation location, unsigned flags, CUstream stream) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(address, size, location, flags, stream);
  (void)hooked.stream(stream);
  hooked.key.add(hooked.model().known(address), size, static_cast<uint64_t>(location.type),
                 static_cast<uint64_t>(location.id), flags);
  return hooked.record_or_skip([&] { return call.real(address, size, location, flags, stream); });
}

CUresult prefetch(const Call<decltype(cuMemPrefetchBatchAsync)>& call, CUdeviceptr* addresses,
                  size_t* sizes, size_t count, CUmemLocation* locations, size_t* location_indices,
                  size_t location_count, unsigned long long flags, CUstream stream) {
  auto real = [&] {
    return call.real(addresses, sizes, count, locations, location_indices, location_count, flags,
                     stream);
  };
  HookedCall hooked(call);
  if (hooked.passthrough()) return real();
  (void)hooked.stream(stream);
  hooked.key.add(hash_of(hooked.model(), addresses, sizes, count), location_count, flags);
  return hooked.record_or_skip(real);
}

CUresult discard(const Call<decltype(cuMemDiscardBatchAsync)>& call, CUdeviceptr* addresses,
                 size_t* sizes, size_t count, unsigned long long flags, CUstream stream) {
  return follow_discard(call, addresses, sizes, count, stream, flags, stream);
}

CUresult discard(const Call<decltype(cuMemDiscardAndPrefetchBatchAsync)>& call,
                 CUdeviceptr* addresses, size_t* sizes, size_t count, CUmemLocation* locations,
                 size_t* location_indices, size_t location_count, unsigned long long flags,
                 CUstream stream) {
  return follow_discard(call, addresses, sizes, count, stream, locations, location_indices,
                        location_count, flags, stream);
}

}  // namespace gpusnap::handle
