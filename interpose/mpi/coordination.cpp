#include "interpose/mpi/coordination.h"

#include <algorithm>

#include "interpose/services/random_bits.h"

namespace gpusnap::mpi {

namespace {
using Clock = std::chrono::steady_clock;
// Ballots are cast no more often than this, but at one of so many collectives all the same: those
// that follow may be much slower.
constexpr auto kBetweenAgreements = std::chrono::milliseconds(1);
constexpr int kMostStride = 64;
}  // namespace

bool Coordination::begin(const Library& library, const Ranks& ranks, uint64_t every) {
  every_ = every;
  if (ranks.ranks < 2) return false;
  if (library.comm_dup(library.world, &communicator_) != kSuccess) return false;
  last_time_ = Clock::now();
  library_ = &library;
  const uint64_t random = random_bits();
  const int own[] = {static_cast<int>(std::min<uint64_t>(every, INT32_MAX)),
                     static_cast<int>(random & INT32_MAX), static_cast<int>(random >> 33)};
  int of_all[] = {0, 0, 0};
  if (!greatest(own, of_all, 3)) return true;
  every_ = static_cast<uint64_t>(of_all[0]);
  job_run_ = static_cast<uint64_t>(of_all[1]) << 32 | static_cast<uint64_t>(of_all[2]);
  return true;
}

bool Coordination::begin_collective() {
  ++collectives_;
  return is_due();
}

void Coordination::end() {
  if (!active()) return;
  // Every rank has begun it, after the same collective.
  Ballot unused;
  (void)complete_pending(unused);
  (void)library_->comm_free(&communicator_);
  library_ = nullptr;
}

bool Coordination::has_all(Handle communicator) const {
  if (library_->same(communicator, library_->world)) return true;
  int inter = 1, difference = kUnequal;
  return library_->comm_test_inter(communicator, &inter) == kSuccess && inter == 0 &&
         library_->comm_compare(communicator, communicator_, &difference) == kSuccess &&
         difference != kUnequal;
}

Ballot Coordination::own(CastBallot cast) {
  const auto now = Clock::now();
  const auto took = std::max<Clock::duration>(now - last_time_, std::chrono::nanoseconds(1));
  const auto made = static_cast<double>(collectives_ - last_agreement_);
  const double stride = made * (std::chrono::duration<double>(kBetweenAgreements) /
                                std::chrono::duration<double>(took));
  Ballot ballot = cast();
  ballot.stride = static_cast<int>(std::clamp(stride, 1.0, double{kMostStride}));
  last_time_ = now;
  last_agreement_ = collectives_;
  return ballot;
}

void Coordination::adopt(const Ballot& agreed) {
  next_agreement_ = collectives_ + static_cast<uint64_t>(std::clamp(agreed.stride, 1, kMostStride));
}

bool Coordination::complete_pending(Ballot& agreed) {
  if (!pending_) return false;
  pending_ = false;
  int status[kMostStatusInts];
  if (library_->wait(&request_, status) != kSuccess) return false;
  agreed = received_;
  return true;
}

int Coordination::barrier(Handle communicator, CastBallot cast, Ballot& agreed) {
  const Ballot ballot = own(cast);
  const int result = library_->allreduce(&ballot, &agreed, kBallotInts, library_->int_type,
                                         library_->max, communicator);
  if (result != kSuccess) return result;
  Ballot earlier;
  // A checkpoint that was wanted then is wanted still.
  if (complete_pending(earlier)) agreed.wanted = std::max(agreed.wanted, earlier.wanted);
  adopt(agreed);
  return result;
}

bool Coordination::after_collective(CastBallot cast, Ballot& agreed) {
  if (complete_pending(agreed)) {
    adopt(agreed);
    return true;
  }
  if (!carries()) return false;
  sent_ = own(cast);
  pending_ = library_->iallreduce(&sent_, &received_, kBallotInts, library_->int_type,
                                  library_->max, communicator_, &request_) == kSuccess;
  return false;
}

bool Coordination::meet(bool well) const {
  const int ill = well ? 0 : 1;
  int of_all = 1;
  return greatest(&ill, &of_all, 1) && of_all == 0;
}

bool Coordination::greatest(const int* own, int* of_all, int count) const {
  return library_->allreduce(own, of_all, count, library_->int_type, library_->max,
                             communicator_) == kSuccess;
}

}  // namespace gpusnap::mpi
