// The driver's log of errors. A replay does not make calls again that failed, so the driver
// has less to say there: the program gets the text of its logs from the journal. A function of the
// program's that is called within a call that is hooked ends checkpointing.

#include "interpose/handlers/handlers.h"
#include "interpose/services/fatal.h"

namespace gpusnap::handle {

namespace {
// Never deleted: nobody tells when the driver has called it for the last time.
struct LogCallback {
  CUlogsCallback function;
  void* data;
};

void run_log_callback(void* user, CUlogLevel level, char* message, size_t length) {
  const auto& callback = *static_cast<const LogCallback*>(user);
  // Else in a call that passes through, which a replay makes again.
  if (Guard::held() && !CallEnvironment::note_told(
                           "a message of the driver's to a function of cuLogsRegisterCallback")) {
    return;
  }
  callback.function(callback.data, level, message, length);
}
}  // namespace

CUresult log_register(const Call<decltype(cuLogsRegisterCallback)>& call, CUlogsCallback function,
                      void* data, CUlogsCallbackHandle* out) {
  HookedCall hooked(call);
  if (hooked.passthrough() || function == nullptr) return call.real(function, data, out);
  auto* const callback = new LogCallback{function, data};
  return hooked.record_or_repeat([&] { return call.real(run_log_callback, callback, out); });
}

// Where the log goes on is a place in that of this process, also in a replay.
CUresult log_dump(const Call<decltype(cuLogsDumpToMemory)>& call, CUlogIterator* iterator,
                  char* buffer, size_t* size, unsigned flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(iterator, buffer, size, flags);
  const size_t room = size == nullptr ? 0 : *size;
  hooked.key.add(room);
  hooked.check(flags);
  auto real = [&] { return call.real(iterator, buffer, size, flags); };
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    (void)hooked.unlocked(real);
    if (size != nullptr) *size = 0;
    if (recorded != CUDA_SUCCESS) return recorded;
    const size_t bytes = hooked.entry().answer.size();
    if (bytes >= room) fatal(kExitDamaged, "the replay journal has too long a log");
    hooked.take_answer(buffer, bytes);
    buffer[bytes] = '\0';
    *size = bytes;
    return recorded;
  }
  const CUresult result = hooked.call_driver(real);
  if (result == CUDA_SUCCESS) {
    hooked.record_answer(result, buffer, *size);
  } else {
    hooked.record(result);
  }
  return result;
}

}  // namespace gpusnap::handle
