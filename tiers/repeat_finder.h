// SPDX-License-Identifier: Apache-2.0
//
// Finds the runs of bytes in a stream that repeat what came shortly before, as the journal of a
// loop does. Pure logic. Candidates come from hashes; only bytes that were compared make a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpusnap {

class RepeatFinder {
 public:
  struct Limits {
    size_t distance = 8 << 20;  // the farthest that a run repeats from
    // The shortest run that is worth it, and the shortest at the end of what is known.
    size_t run = 4 << 10;
    size_t run_at_end = 256;
  };
  explicit RepeatFinder(Limits limits);
  RepeatFinder() : RepeatFinder(Limits{}) {}

  // The next bytes of the stream: so many that are equal to those `distance` before each of them,
  // or, where that is 0, so many new ones.
  struct Piece {
    size_t distance = 0;
    size_t bytes = 0;
  };
  // Splits what comes next in the stream. Good until the next call.
  const std::vector<Piece>& split(std::span<const std::byte> bytes);

 private:
  struct Run {
    size_t from = 0, to = 0, distance = 0;
    size_t bytes() const { return to - from; }
  };
  // Places are indices into known_.
  size_t equal_bytes(size_t from, size_t distance) const;
  Run run_around(size_t place, size_t distance, size_t first) const;
  bool is_worth(const Run& run, size_t first) const;
  Run find(size_t first);
  Run try_place(size_t place, uint64_t hash, size_t first);
  uint64_t hash_before(size_t place) const;
  void note(size_t place, uint64_t hash);
  void note_run(size_t from, size_t to);
  void add(size_t distance, size_t bytes);
  void forget_old();

  const Limits limits_;
  std::vector<std::byte> known_;  // the end of the stream
  uint64_t forgotten_ = 0;        // bytes before it
  struct Note {
    uint32_t tag = 0;
    uint64_t place = 0;  // in the stream; 0: none
  };
  std::vector<Note> notes_;
  size_t distance_ = 0;  // of the last run
  bool in_run_ = false;  // it reaches the end of what is known
  std::vector<Piece> pieces_;
};

}  // namespace gpusnap
