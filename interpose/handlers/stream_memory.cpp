// Words that streams write and wait for. A write to device memory is like a set; a wait is over
// when the device is idle, so a replay skips it with the work that ends it.

#include <algorithm>

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/places.h"
#include "interpose/handlers/wait_mark.h"

namespace gpusnap::handle {

namespace {
// The host may take such a word for a signal if it sees it, without any call that could be found in
// the journal.
bool is_seen_by_host(DeviceModel& model, CUdeviceptr address) {
  return side_of(model, address) != Side::kDevice;
}

bool is_wait(const CUstreamBatchMemOpParams& one) {
  return one.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
         one.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

constexpr const char* kSeenByHost = " to memory that the host sees";

// `real()` makes the stream wait.
template <class Real>
CUresult waited(HookedCall& hooked, CUstream stream, Real&& real) {
  if (hooked.replaying() || hooked.captured()) return hooked.record_or_skip(real);
  WaitMark mark(hooked.model(), true);
  const CUresult result = hooked.record_or_skip([&] {
    const CUresult made = real();
    mark.record(made, stream);
    return made;
  });
  mark.hand_over();
  return result;
}

template <class Value>
CUresult follow_wait(const Call<CUresult(CUstream, CUdeviceptr, Value, unsigned)>& call,
                     CUstream stream, CUdeviceptr address, Value value, unsigned flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(stream, address, value, flags);
  const CUstream on = hooked.stream(stream);
  hooked.key.add(hooked.model().known(address), value, flags);
  return waited(hooked, on, [&] { return call.real(stream, address, value, flags); });
}

template <class Value>
CUresult follow_write(const Call<CUresult(CUstream, CUdeviceptr, Value, unsigned)>& call,
                      CUstream stream, CUdeviceptr address, Value value, unsigned flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(stream, address, value, flags);
  (void)hooked.stream(stream);
  hooked.key.add(hooked.model().known(address), value, flags);
  auto real = [&] { return call.real(stream, address, value, flags); };
  // A node of a graph is looked at when that is instantiated.
  if (hooked.captured()) return hooked.record_or_repeat(real);
  if (is_seen_by_host(hooked.model(), address)) {
    hooked.writes.add_nothing();  // that a snapshot would have
    return hooked.record_or_refuse(std::string(name_of(call.hook.id)) + kSeenByHost, real);
  }
  if (hooked.asks_writes()) hooked.writes.add(address, sizeof value);
  return hooked.record_or_skip(real);
}

// Puts what the operations say into the key, and what they write into the write set. Returns what
// of them cannot be followed, or null.
const char* look_at(HookedCall& hooked, std::span<const CUstreamBatchMemOpParams> operations) {
  uint64_t hash = operations.size();
  const char* not_followed = nullptr;
  hooked.writes.add_nothing();
  for (const CUstreamBatchMemOpParams& one : operations) {
    mix(hash, {one.operation});
    switch (one.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        break;
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      case CU_STREAM_MEM_OP_BARRIER:
        mix(hash, {one.memoryBarrier.flags});
        continue;
      default:
        return " of a kind that is not known";
    }
    // Writes and waits have one form.
    const auto& [operation, address, value, flags, alias] = one.writeValue;
    const bool wide =
        operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    mix(hash,
        {hooked.model().known(address), wide ? value : static_cast<cuuint32_t>(value), flags});
    if (is_wait(one)) continue;
    if (is_seen_by_host(hooked.model(), address)) not_followed = kSeenByHost;
    hooked.writes.add(address, wide ? sizeof(cuuint64_t) : sizeof(cuuint32_t));
  }
  hooked.key.add(hash);
  return not_followed;
}
}  // namespace

CUresult wait_value(const Call<CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned)>& call,
                    CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return follow_wait(call, stream, address, value, flags);
}

CUresult wait_value(const Call<CUresult(CUstream, CUdeviceptr, cuuint64_t, unsigned)>& call,
                    CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return follow_wait(call, stream, address, value, flags);
}

CUresult write_value(const Call<CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned)>& call,
                     CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return follow_write(call, stream, address, value, flags);
}

CUresult write_value(const Call<CUresult(CUstream, CUdeviceptr, cuuint64_t, unsigned)>& call,
                     CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags) {
  return follow_write(call, stream, address, value, flags);
}

CUresult batch_memory_ops(const Call<decltype(cuStreamBatchMemOp_v2)>& call, CUstream stream,
                          unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags) {
  HookedCall hooked(call);
  auto real = [&] { return call.real(stream, count, operations, flags); };
  if (hooked.passthrough()) return real();
  const CUstream on = hooked.stream(stream);
  hooked.key.add(flags);
  const char* not_followed = operations == nullptr ? nullptr : look_at(hooked, {operations, count});
  if (hooked.captured()) return hooked.record_or_repeat(real);
  if (not_followed != nullptr) {
    return hooked.record_or_refuse(std::string(name_of(call.hook.id)) + not_followed, real);
  }
  const bool waits = operations != nullptr && std::any_of(operations, operations + count, is_wait);
  return waits ? waited(hooked, on, real) : hooked.record_or_skip(real);
}

}  // namespace gpusnap::handle
