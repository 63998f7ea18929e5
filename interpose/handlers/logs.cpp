// What the driver says of what goes wrong. A replay does not make again what failed, so the driver
// has less to say there: the program gets the text of its logs from the journal. A function of the
// program's that is called within a call that is hooked ends checkpointing.

#include "interpose/handlers/handlers.h"

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
  if (Guard::held() &&
      !Session::note_told("a message of the driver's to a function of cuLogsRegisterCallback")) {
    return;
  }
  callback.function(callback.data, level, message, length);
}
}  // namespace

CUresult log_register(const Call<decltype(cuLogsRegisterCallback)>& call, CUlogsCallback function,
                      void* data, CUlogsCallbackHandle* out) {
  Step step(call);
  if (step.off() || function == nullptr) return call.real(function, data, out);
  auto* const callback = new LogCallback{function, data};
  return step.made_again([&] { return call.real(run_log_callback, callback, out); });
}

// Where the log goes on is a place in that of this process, also in a replay.
CUresult log_dump(const Call<decltype(cuLogsDumpToMemory)>& call, CUlogIterator* iterator,
                  char* buffer, size_t* size, unsigned flags) {
  Step step(call);
  if (step.off()) return call.real(iterator, buffer, size, flags);
  const size_t room = size == nullptr ? 0 : *size;
  step.key.add(room);
  step.check(flags);
  auto real = [&] { return call.real(iterator, buffer, size, flags); };
  if (step.replaying()) {
    const CUresult recorded = step.expect();
    (void)step.outside(real);
    if (size != nullptr) *size = 0;
    if (recorded != CUDA_SUCCESS) return recorded;
    const size_t bytes = step.entry().answer.size();
    if (bytes >= room) Session::impossible(kExitDamaged, "the replay journal has too long a log");
    step.take_answer(buffer, bytes);
    buffer[bytes] = '\0';
    *size = bytes;
    return recorded;
  }
  const CUresult result = step.made(real);
  if (result == CUDA_SUCCESS) {
    step.record_answer(result, buffer, *size);
  } else {
    step.record(result);
  }
  return result;
}

}  // namespace gpusnap::handle
