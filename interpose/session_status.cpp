// What is told of the session to who asks through the control socket. By the triggers' thread, at
// any time: it looks only at what never changes once there are triggers, and at what is atomic or
// has a lock of its own.

#include <unistd.h>

#include "interpose/session.h"
#include "interpose/snapshot/checkpointer.h"
#include "tiers/daemon/start.h"
#include "tiers/store.h"

namespace gpusnap {

namespace {
Doing doing_in(Session::Mode mode) {
  switch (mode) {
    case Session::Mode::kReplay:
      return Doing::kReplaying;
    case Session::Mode::kRecord:
      return Doing::kRecording;
    case Session::Mode::kOff:
      break;
  }
  return Doing::kOff;
}
}  // namespace

ProcessStatus Session::status() const {
  ProcessStatus status;
  status.job = sanitise_job(job_);
  status.store = store_->folder();
  status.rank = ranks_.rank;
  status.ranks = ranks_.ranks;
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  status.host = host;
  if (backend_->outlives_process()) {
    status.area = StagingMemory::name_for(node_name(settings_.node));
  }
  checkpointer_->tell(doing_in(mode_.load(std::memory_order_relaxed)), status);
  return status;
}

}  // namespace gpusnap
