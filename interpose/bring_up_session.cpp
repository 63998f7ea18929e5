// Until there is a session to start: every call passes through its handler, nothing is recorded.
#include "interpose/activation.h"

namespace gpusnap {

bool session_start(const Guard&) {
  return true;
}

void session_lost_sight(const char*) {}

}  // namespace gpusnap
