// What handlers of calls that get and give back memory share: how such a call is recorded and
// replayed, and what the session knows afterwards. The session's lock is held.
#pragma once

#include <cstdint>
#include <string>

#include "interpose/step.h"

namespace gpusnap::handle {

// Ends the process: memory cannot be brought to its recorded address.
[[noreturn]] void cannot_place(uint64_t recorded, uint64_t size, const std::string& why);
void insert_range(Session& session, uint64_t address, uint64_t size, MemoryKind kind);
// The size of what was there.
uint64_t erase_range(Session& session, uint64_t address);
// The same; a snapshot that still needs the memory gets it while the map has it.
uint64_t free_range(Step& step, uint64_t address);

template <class Real>
CUresult made_in_order(Step& step, Real&& real) {
  step.session().begin_memory_call();
  const CUresult result = step.made(real);
  step.session().end_memory_call();
  return result;
}

// Records or replays a call that gives memory; `place` brings it to its recorded address.
template <class Pointer, class Real, class Place>
CUresult give(Step& step, Pointer* out, uint64_t size, MemoryKind kind, Real&& real,
              Place&& place) {
  Session& session = step.session();
  CUresult result;
  if (step.replaying()) {
    result = step.expect();
    if (result != CUDA_SUCCESS) return result;
    step.repeated(real);
    uint64_t recorded = 0;
    step.take_answer(&recorded, sizeof recorded);
    place(recorded);
  } else {
    result = made_in_order(step, real);
    if (result != CUDA_SUCCESS) {
      step.record(result);
      return result;
    }
    session.wait_for_frees((uint64_t)*out, size);
    const auto address = (uint64_t)*out;  // a CUdeviceptr or a pointer
    step.record_answer(result, &address, sizeof address);
  }
  insert_range(session, (uint64_t)*out, size, kind);
  return result;
}

}  // namespace gpusnap::handle
