#include "interpose/mpi/mpi_call.h"

namespace gpusnap::mpi {

int64_t MpiCall::count(size_t at) const {
  if (!in_c()) return count_behind(at);
  return is_large() ? static_cast<int64_t>(given_[at]) : static_cast<int>(given_[at]);
}

Handle MpiCall::type(size_t at) const {
  if (in_c()) return given_[at];
  const Library* const l = library();
  return l == nullptr ? 0 : l->type_of(integer(at));
}

Handle MpiCall::communicator(size_t at) const {
  if (in_c()) return given_[at];
  const Library* const l = library();
  return l == nullptr ? 0 : l->communicator_of(integer(at));
}

Requests MpiCall::requests(size_t at, size_t count) const {
  const Library* const l = library();
  const size_t in_c_bytes = l == nullptr ? sizeof(Handle) : l->handle_bytes;
  return {pointer<void>(at), count, in_c() ? in_c_bytes : sizeof(int)};
}

void* MpiCall::buffer(size_t at) const {
  void* start = pointer<void>(at);
  if (has_descriptors() && start != nullptr) start = pointer<fortran::Descriptor>(at)->start;
  return !in_c() && fortran::is_bottom(start) ? nullptr : start;
}

bool MpiCall::is_in_place(size_t at) const {
  if (in_c()) return Process::get().is_in_place(pointer<void>(at));
  return fortran::is_in_place(buffer(at));
}

bool MpiCall::is_plain(size_t at) const {
  return !has_descriptors() || given_[at] == 0 || pointer<fortran::Descriptor>(at)->is_dense();
}

int* MpiCall::status(size_t at) const {
  int* const given = pointer<int>(at);
  const Library* const l = library();
  if (in_c() || l == nullptr || !fortran::is_no_status(given)) return given;
  return reinterpret_cast<int*>(l->status_ignore);
}

void MpiCall::set_buffer(size_t at, void* start) {
  now_[at] = given_[at];
  if (start == buffer(at)) return;
  now_[at] = reinterpret_cast<Word>(start);
  if (!has_descriptors()) return;
  auto& moved = moved_[at == 0 ? 0 : 1];
  moved = fortran::Descriptor::moved(*pointer<fortran::Descriptor>(at), start);
  now_[at] = reinterpret_cast<Word>(&*moved);
}

void MpiCall::set_source(size_t at, int source, int tag) {
  from_[0] = source;
  from_[1] = tag;
  for (size_t i = 0; i < 2; ++i) {
    now_[at + i] = in_c() ? static_cast<uint32_t>(from_[i]) : reinterpret_cast<Word>(&from_[i]);
  }
}

void MpiCall::set_status(size_t at, int* status) {
  now_[at] = status == this->status(at) ? given_[at] : reinterpret_cast<Word>(status);
}

int MpiCall::make() {
  if (in_c()) return static_cast<int>(call_with(real_, now_));
  int error = kSuccess;
  now_[arguments_] = reinterpret_cast<Word>(&error);
  (void)call_with(real_, now_);
  return error;
}

}  // namespace gpusnap::mpi
