// The decision to make a cut, the same on every rank: at an MPI collective that no rank leaves
// before all have entered it. Each rank casts a ballot (does it want a checkpoint, can it take
// part, what failed), and the greatest of each number over all ranks is what all of them act upon.
//
// A barrier carries the ballots itself: it becomes a reduction of them over the same communicator,
// which makes as many rounds. Other collectives carry data of the program's; after one of them a
// non-blocking reduction is begun, and completed after the next one: by then every rank has begun
// it, so nobody waits for anybody. Where collectives follow each other fast, only one of several
// does so; which ones is agreed by the ballots, too.
//
// A rank that votes late, or never (it ended early, it meets the others on smaller communicators
// only), holds nobody up: no cut is decided then. After the decision each rank makes its own cut
// without waiting for the others.
//
// One thread: the one that makes the collective. Several may call barrier(), one at a time.
#pragma once

#include <chrono>
#include <cstdint>

#include "interpose/mpi/library.h"
#include "interpose/services/ranks.h"

namespace gpusnap::mpi {

// Why a rank cannot make a cut now; of several ranks' the greatest counts.
enum class Unready : int {
  kReady = 0,
  kBusy,       // its last checkpoint is on its way
  kCapture,    // a stream is captured
  kRequest,    // a receive from anybody, or a request with device memory, is open
  kReplaying,  // it is not live yet
  kNoCuda,     // it has made no CUDA call yet
};

inline constexpr int kCheckpoint = 1, kStop = 2;

// The numbers that go through the reduction: the greatest of each over the ranks counts.
struct Ballot {
  int wanted = 0;   // kCheckpoint: one is due; kStop: and the job is to end with it
  int unready = 0;  // Unready
  int ended = 0;    // this rank takes no more checkpoints
  int failed = 0;   // the last epoch that this rank had to give up
  int epoch = 1;    // the first that this rank has not used
  int stride = 1;   // collectives until the next agreement after one
  int shares = 0;   // this rank has shared device memory, of its own or of another one
  int store = 0;    // the checkpoint is to go to the store
  // The last epoch of which this rank's part is complete, and that times -1: where these say of the
  // greatest and of the least that they are the same, it is complete on all ranks.
  int newest = 0;
  int least_newest = 0;
  int complete() const { return newest == -least_newest ? newest : 0; }
};
inline constexpr int kBallotInts = sizeof(Ballot) / sizeof(int);

// Makes the ballot of this rank: called at each agreement.
using CastBallot = Ballot (*)();

class Coordination {
 public:
  // After MPI_Init, on all ranks. `every`: a checkpoint is due at each n-th collective, 0: at
  // none; the greatest over the ranks counts. False: there is nothing to agree upon, one rank, or
  // it failed.
  bool begin(const Library& library, const Ranks& ranks, uint64_t every);
  // Before MPI_Finalize.
  void end();
  bool active() const { return library_ != nullptr; }
  // A random number that all ranks have in common, and no other run of the job; 0: not active.
  uint64_t job_run() const { return job_run_; }
  // Whether it has all ranks. A local question.
  bool has_all(Handle communicator) const;

  // A collective of all ranks begins; true where the settings make a checkpoint due at it.
  bool begin_collective();
  // Whether the barrier that has begun carries ballots, the same on all ranks.
  bool carries() const { return collectives_ >= next_agreement_ || is_due(); }
  // Stands in for a barrier that carries ballots. Returns the result of the reduction.
  int barrier(Handle communicator, CastBallot cast, Ballot& agreed);
  // After another collective. True: the ballots of all are known.
  bool after_collective(CastBallot cast, Ballot& agreed);
  // Returns when all ranks have called it: whether all are well.
  bool meet(bool well) const;
  // The greatest of each number over all ranks; for what is settled once, at the start.
  bool greatest(const int* own, int* of_all, int count) const;

 private:
  bool is_due() const { return every_ != 0 && collectives_ % every_ == 0; }
  Ballot own(CastBallot cast);
  bool complete_pending(Ballot& agreed);
  void adopt(const Ballot& agreed);

  const Library* library_ = nullptr;
  Handle communicator_ = 0;  // a duplicate of MPI_COMM_WORLD, for ourselves
  uint64_t every_ = 0;
  uint64_t job_run_ = 0;
  uint64_t collectives_ = 0;
  uint64_t next_agreement_ = 1;  // by number of collectives
  uint64_t last_agreement_ = 0;
  std::chrono::steady_clock::time_point last_time_{};
  bool pending_ = false;
  Handle request_ = 0;
  Ballot sent_, received_;
};

}  // namespace gpusnap::mpi
